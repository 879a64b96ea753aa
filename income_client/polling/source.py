"""What a poller reads: pages of the list for their ids, and versions of applications."""

from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import partial
from typing import Any

from attrs import frozen

from income_client.errors import IncomeClientError
from income_client.fetching import Fetcher, FetchFailure
from income_client.http import endpoints
from income_client.http.endpoints import LARGEST_LIMIT
from income_client.http.session import SessionManager
from income_client.records.applications import Application
from income_client.records.documents import ApplicationDocuments
from income_client.walk.paginator import ListReply, ask_page, ask_present
from income_client.walk.windows import Bounds
from income_client.wire.times import Rounding, service_second

from .salvage import read_page
from .versions import RecordVersion, Versioned, read_version


@frozen(kw_only=True)
class PollSource:
    """Reads for one poller."""

    session: SessionManager
    """Makes the requests."""
    zone: tzinfo
    """The zone of the service's times that carry none."""
    documents: bool
    """Whether the documents are read as well."""
    pages: bool
    """Whether each document comes with its pages block."""
    concurrency: int
    """Requests in flight at a time."""
    limit: int = LARGEST_LIMIT
    """Rows asked for in one page."""

    async def ask(self, bounds: Bounds | None, *, limit: int | None = None) -> ListReply:
        """Make one list call; without bounds, both are left to the service.

        Args:
            bounds: in seconds.
            limit: rows asked for; as many as a page of a poll has by default.

        Raises:
            IncomeClientError: the request failed for good.
        """
        limit = self.limit if limit is None else limit
        return await ask_page(self.session, limit, self.zone, bounds, read=read_page)

    async def present(self) -> int:
        """Return the present second: the smaller of what the service says.

        Raises:
            IncomeClientError: a request failed for good, or the service tells no time.
        """
        return (await ask_present(partial(self.ask, limit=1))).present

    async def read(
        self, application_ids: tuple[str, ...]
    ) -> dict[str, RecordVersion | IncomeClientError]:
        """Read applications; a failure stands in the place of a record."""
        parts: list[Callable[[str], Any]] = [self._application]
        if self.documents:
            parts.append(self._documents)
        fetcher: Fetcher[RecordVersion | FetchFailure] = Fetcher(
            application_ids,
            parts=tuple(parts),
            assemble=RecordVersion.of,
            concurrency=self.concurrency,
            on_error="yield",
        )
        results = [result async for result in fetcher]
        return {
            one: result.error if isinstance(result, FetchFailure) else result
            for one, result in zip(application_ids, results, strict=True)
        }

    def frame(self, moment: datetime) -> int:
        """Turn an aware time into a second of the service's frame."""
        return service_second(moment, self.zone, rounding=Rounding.DOWN)

    async def _application(self, application_id: str) -> Versioned[Application]:
        request = endpoints.get_application(application_id)
        read = partial(read_version, Application, request)
        return await self.session.call(request, read)

    async def _documents(self, application_id: str) -> Versioned[ApplicationDocuments]:
        request = endpoints.get_documents(application_id, self.pages)
        read = partial(read_version, ApplicationDocuments, request)
        return await self.session.call(request, read)
