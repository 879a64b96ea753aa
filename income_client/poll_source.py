"""What a poller reads: pages of the list for their ids, and versions of applications."""

from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import partial
from typing import Any, Final

from attrs import frozen

from .errors import IncomeClientError, InvalidRequestError
from .fetching import Fetcher, FetchFailure
from .listing import ListReply, ask_page
from .protocol import endpoints
from .protocol.echo import second_of
from .protocol.endpoints import LARGEST_LIMIT
from .protocol.questions import Bounds
from .protocol.salvage import read_page
from .protocol.timestamps import Rounding, service_second
from .protocol.versions import RecordVersion, Versioned, read_version
from .records.applications import Application
from .records.documents import ApplicationDocuments
from .session import SessionManager

_LONG_AGO: Final = 60
_AHEAD: Final = (1, 3_600, 86_400 + 3_600)


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

        A service that serves long windows in part may echo the end of a part: where that
        is long ago, it is asked once more, from close to its own `Date`.

        Raises:
            IncomeClientError: the request failed for good.
        """
        reply = await self.ask(None, limit=1)
        present, served_at = _present_of(reply), reply.served_at
        if served_at is None or present >= served_at - _LONG_AGO:
            return present
        for ahead in _AHEAD:
            try:
                reply = await self.ask(Bounds(served_at - ahead, None), limit=1)
            except InvalidRequestError:  # its Date lies ahead of its own clock
                continue
            return max(present, _present_of(reply))
        return present

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


def _present_of(reply: ListReply) -> int:
    echoed = second_of(reply.page.updated_before)
    return echoed if reply.served_at is None else min(echoed, reply.served_at)
