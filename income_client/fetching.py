"""Fetch many applications and documents at once: bounded, and in the order of the input."""

from collections import deque
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable
from typing import Any, Final, Literal, TypeVar, cast

from attrs import define, field, frozen

from .concurrency import Finished, Raised, Source, TaskIterator
from .errors import IncomeClientError
from .events import RecordDelivered
from .instrumentation import Instrumentation
from .records.applications import Application, ApplicationSummary
from .records.documents import ApplicationDocuments, ApplicationRecord
from .settings import check_choice, check_count, invalid

Y = TypeVar("Y")

ApplicationKey = str | ApplicationSummary | Application
"""An application's id, or something that has one."""
Applications = Iterable[ApplicationKey] | AsyncIterable[ApplicationKey]
OnError = Literal["raise", "yield"]
Part = Callable[[str], Coroutine[Any, Any, Any]]
"""One request about the application with this id."""

_LOOK_AHEAD: Final = 2
"""Records begun, as a multiple of the requests in flight, while the first is waited for."""


@frozen
class FetchFailure:
    """An application that could not be read, in place of its record."""

    application_id: str
    """Which one."""
    error: IncomeClientError
    """Why."""


@define
class _Entry:
    """One application on its way: parts not yet asked for, and those that came."""

    application_id: str
    to_ask: list[int]
    parts: dict[int, Any] = field(factory=dict)
    error: BaseException | None = None


class Fetcher(TaskIterator[tuple[_Entry, int] | None, Y]):
    """An iterator over what several requests about each application give.

    The requests of one application are independent of each other and go out
    together. At most ``concurrency`` are in flight, results come in input order,
    and nothing is begun further ahead than twice that: a consumer that is slow,
    or stops, stops the requests and the source.

    Args:
        applications: ids, or what has one; an asynchronous iterator over them is
            closed together with this one.
        parts: the requests about one application, in the order of ``assemble``.
        assemble: makes the result of the parts.
        concurrency: requests in flight at the most.
        on_error: whether a failure is raised, or yielded in its place.
        instrumentation: reports what is delivered.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    def __init__(
        self,
        applications: Applications,
        *,
        parts: tuple[Part, ...],
        assemble: Callable[..., Y],
        concurrency: int,
        on_error: OnError,
        instrumentation: Instrumentation | None = None,
    ) -> None:
        check_count("concurrency", concurrency)
        check_choice("on_error", on_error, ("raise", "yield"))
        expected = "applications must be an iterable of ids, summaries or applications"
        super().__init__(Source(applications, _id_of, expected))
        self._parts = parts
        self._assemble = assemble
        self._concurrency = concurrency
        self._on_error = on_error
        self._instrumentation = Instrumentation() if instrumentation is None else instrumentation
        self._entries: deque[_Entry] = deque()
        self._is_pulling = False

    async def aclose(self) -> None:
        """End the requests under way and the source; again does nothing."""
        self._entries.clear()
        await super().aclose()

    async def _next(self) -> Y | Raised | None:
        entry = await self._next_entry()
        if entry is None:
            return None
        if entry.error is None:
            emit = self._instrumentation.emit
            if emit is not None:
                emit(RecordDelivered(application_id=entry.application_id))
            return self._assemble(*(entry.parts[part] for part in range(len(self._parts))))
        if self._on_error == "yield" and isinstance(entry.error, IncomeClientError):
            return cast("Y", FetchFailure(entry.application_id, entry.error))
        return Raised(entry.error)

    async def _next_entry(self) -> _Entry | None:
        while True:
            if self._entries and self._is_done(self._entries[0]):
                entry = self._entries.popleft()
                self._start_requests()
                return entry
            self._start_requests()
            if not self._tasks:
                if self._source.error is not None:
                    raise self._source.error
                return None
            self._take(await self._tasks.next())

    def _is_done(self, entry: _Entry) -> bool:
        return entry.error is not None or len(entry.parts) == len(self._parts)

    def _start_requests(self) -> None:
        while self._tasks.under_way - self._is_pulling < self._concurrency:
            if self._entries and self._entries[-1].to_ask:
                entry = self._entries[-1]
                part = entry.to_ask.pop(0)
                self._tasks.start((entry, part), self._parts[part](entry.application_id))
            elif (
                self._source.is_exhausted
                or self._is_pulling
                or len(self._entries) >= _LOOK_AHEAD * self._concurrency
            ):
                return
            elif self._source.is_asynchronous:
                self._is_pulling = True
                self._tasks.start(None, self._source.pull())
            else:
                self._begin(self._source.take())

    def _begin(self, application_id: str | None) -> None:
        if application_id is not None:
            self._entries.append(_Entry(application_id, list(range(len(self._parts)))))

    def _take(self, finished: Finished[tuple[_Entry, int] | None]) -> None:
        if finished.key is None:
            self._is_pulling = False
            if finished.error is not None:
                raise finished.error
            self._begin(finished.result)
            return
        entry, part = finished.key
        if finished.error is None:
            entry.parts[part] = finished.result
        elif entry.error is None:
            entry.error = finished.error
            entry.to_ask.clear()


def as_record(
    application: Application, documents: ApplicationDocuments | None = None
) -> ApplicationRecord:
    """Put an application and its documents together."""
    return ApplicationRecord(application=application, documents=documents)


def _id_of(application: object) -> str:
    match application:
        case str():
            return application
        case ApplicationSummary() | Application():
            return application.application_id
        case _:
            raise invalid("an application", "an id, a summary or an application", application)
