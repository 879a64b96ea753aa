"""Many files at once: bounded, each handed out as soon as it is whole, never far ahead."""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from attrs import frozen

from income_client.concurrency import Finished, Raised, Source, TaskIterator
from income_client.errors import ConfigurationError, IncomeClientError
from income_client.fetching import OnError
from income_client.records.files import DownloadedFile
from income_client.settings import check_count

from .meant import EXPECTED, Documents, Meant, meant_by, several
from .run import ProgressError

Y = TypeVar("Y")

Get = Callable[[Meant], Awaitable[DownloadedFile | IncomeClientError]]
"""Gets the file of one document."""


@frozen
class DownloadFailure:
    """A document whose file could not be had, in place of the file."""

    document_id: str
    """Which one."""
    application_id: str | None
    """The application that it belongs to; None for a document made by hand."""
    document_type: str | None
    """The service's key of the document's type; None likewise."""
    error: IncomeClientError
    """Why."""


class Downloads(TaskIterator[Meant | None, Y]):
    """An iterator over files, in the order in which they become whole.

    At most ``concurrency`` are on their way; further ones begin only while the
    consumer waits for the next. Leaving the loop early ends those under way,
    and nothing of them is left.

    Args:
        documents: what has documents, or an iterable of such; an asynchronous one is
            closed together with this.
        get: gets the file of one document.
        concurrency: files on their way at a time.
        on_error: whether a failure is raised, or yielded as `DownloadFailure`.

    Raises:
        ConfigurationError: an argument cannot be meant.
    """

    def __init__(
        self, documents: Documents, get: Get, *, concurrency: int, on_error: OnError
    ) -> None:
        self._concurrency = check_count("concurrency", concurrency)
        if on_error not in ("raise", "yield"):
            raise ConfigurationError('on_error is "raise" or "yield"')
        super().__init__(Source(several(documents), meant_by, EXPECTED))
        self._get = get
        self._on_error = on_error
        self._waiting: deque[Meant] = deque()
        self._is_pulling = False

    async def aclose(self) -> None:
        """End the downloads under way and the source; again does nothing."""
        self._waiting.clear()
        await super().aclose()

    async def _next(self) -> Y | Raised | None:
        while True:
            self._start()
            if not self._tasks:
                if self._source.error is not None:
                    raise self._source.error
                return None
            outcome = self._taken(await self._tasks.next())
            if isinstance(outcome, DownloadFailure):
                if isinstance(outcome.error, ProgressError):
                    return Raised(outcome.error.raised)
                if self._on_error == "raise":
                    return Raised(outcome.error)
            if outcome is not None:
                return cast("Y", outcome)

    def _start(self) -> None:
        while self._tasks.under_way - self._is_pulling < self._concurrency:
            if self._waiting:
                meant = self._waiting.popleft()
                self._tasks.start(meant, _got(self._get, meant))
            elif self._source.is_exhausted or self._is_pulling:
                return
            elif self._source.is_asynchronous:
                self._is_pulling = True
                self._tasks.start(None, self._source.pull())
            else:
                self._waiting.extend(self._source.take() or ())

    def _taken(self, finished: Finished[Meant | None]) -> DownloadedFile | DownloadFailure | None:
        if finished.error is not None:
            raise finished.error
        if finished.key is None:
            self._is_pulling = False
            self._waiting.extend(finished.result or ())
            return None
        if isinstance(finished.result, IncomeClientError):
            facts = finished.key.facts
            return DownloadFailure(
                facts.document_id, facts.application_id, facts.document_type, finished.result
            )
        outcome: DownloadedFile = finished.result
        return outcome


async def _got(get: Get, meant: Meant) -> DownloadedFile | IncomeClientError:
    return await get(meant)
