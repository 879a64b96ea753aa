"""The same calls written without this package: bare aiohttp, and httpx with pydantic.

The bare one decodes as the client does, so that what differs is the client
itself. Neither retries, renews a token or limits anything but a whole request.
"""

from types import TracebackType
from typing import Any, Final, Self, TypeVar

import aiohttp
import httpx
import orjson

from income_client import Application, ApplicationDocuments, ApplicationPage
from income_client.wire.codec import decode

from .decoding_peers import ApplicationModel, DocumentsModel, Model, PageModel

T = TypeVar("T")
M = TypeVar("M", bound=Model)

_HEADERS: Final = {"Authorization": "Bearer invented"}


class BareClient:
    """aiohttp as its documentation shows it, with the package's own decoding.

    Args:
        url: address of the API.
    """

    def __init__(self, url: str) -> None:
        self._root = f"{url}/v1/income/applications"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), headers=_HEADERS
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def get_application(self, application_id: str) -> Application:
        """Read one application."""
        return await self._get(Application, f"/{application_id}")

    async def get_documents(self, application_id: str) -> ApplicationDocuments:
        """Read the documents of one application."""
        return await self._get(ApplicationDocuments, f"/{application_id}/documents")

    async def get_application_page(self, after: str, before: str, limit: int) -> ApplicationPage:
        """Read one page of the list."""
        return await self._get(ApplicationPage, "", _query(after, before, limit))

    async def _get(self, cls: type[T], path: str, query: dict[str, Any] | None = None) -> T:
        async with self._session.get(self._root + path, params=query) as reply:
            reply.raise_for_status()
            return decode(cls, await reply.read())


class ParsingClient(BareClient):
    """The same without records: what ``orjson.loads`` makes of a reply."""

    async def _get(self, _: type[T], path: str, query: dict[str, Any] | None = None) -> T:
        async with self._session.get(self._root + path, params=query) as reply:
            reply.raise_for_status()
            parsed: T = orjson.loads(await reply.read())
            return parsed


class HttpxClient:
    """httpx, and the strict models of pydantic.

    Args:
        url: address of the API.
    """

    def __init__(self, url: str) -> None:
        self._root = f"{url}/v1/income/applications"
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = httpx.AsyncClient(headers=_HEADERS, limits=limits, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    async def get_application(self, application_id: str) -> ApplicationModel:
        """Read one application."""
        return await self._get(ApplicationModel, f"/{application_id}")

    async def get_documents(self, application_id: str) -> DocumentsModel:
        """Read the documents of one application."""
        return await self._get(DocumentsModel, f"/{application_id}/documents")

    async def get_application_page(self, after: str, before: str, limit: int) -> PageModel:
        """Read one page of the list."""
        return await self._get(PageModel, "", _query(after, before, limit))

    async def _get(self, cls: type[M], path: str, query: dict[str, Any] | None = None) -> M:
        reply = await self._client.get(self._root + path, params=query)
        reply.raise_for_status()
        return cls.model_validate_json(reply.content)


def _query(after: str, before: str, limit: int) -> dict[str, Any]:
    return {"updated_after": after, "updated_before": before, "limit": limit}
