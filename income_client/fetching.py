"""Fetch many applications and documents at once: bounded, and in the order of the input."""

from collections import deque
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, get_args

from attrs import define, field, frozen

from .concurrency import Finished, Source, TaskIterator
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
OnError: TypeAlias = Literal["raise", "yield"]
"""What methods that read many things do about one that fails."""
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
    """One application on its way, and the parts that came."""

    application_id: str
    parts: dict[int, Any] = field(factory=dict)
    error: BaseException | None = None


class Fetcher(TaskIterator[tuple[_Entry, int], Y]):
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
        check_choice("on_error", on_error, get_args(OnError))
        expected = "applications must be an iterable of ids, summaries or applications"
        super().__init__(Source(applications, _id_of, expected), concurrency)
        self._parts = parts
        self._assemble = assemble
        self._on_error = on_error
        self._instrumentation = Instrumentation() if instrumentation is None else instrumentation
        self._entries: deque[_Entry] = deque()

    async def aclose(self) -> None:
        """End the requests under way and the source; again does nothing."""
        self._entries.clear()
        await super().aclose()

    async def _next_result(self) -> Y | None:
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
        raise entry.error

    async def _next_entry(self) -> _Entry | None:
        """Return the first application of those begun, once it is done."""
        while not self._entries or not self._is_done(self._entries[0]):
            finished = await self._next_finished()
            if finished is None:
                return None
            self._add_part(finished)
        entry = self._entries.popleft()
        self._start_tasks()
        return entry

    def _is_done(self, entry: _Entry) -> bool:
        return entry.error is not None or len(entry.parts) == len(self._parts)

    def _may_take_item(self) -> bool:
        return len(self._entries) < _LOOK_AHEAD * self._concurrency

    def _tasks_for(
        self, item: str
    ) -> Iterator[tuple[tuple[_Entry, int], Coroutine[Any, Any, Any]]]:
        entry = _Entry(item)
        self._entries.append(entry)
        return _requests_for(entry, self._parts)

    def _add_part(self, finished: Finished[tuple[_Entry, int]]) -> None:
        entry, part = finished.key
        if finished.error is None:
            entry.parts[part] = finished.result
        elif entry.error is None:
            entry.error = finished.error


def _requests_for(
    entry: _Entry, parts: tuple[Part, ...]
) -> Iterator[tuple[tuple[_Entry, int], Coroutine[Any, Any, Any]]]:
    for number, part in enumerate(parts):
        if entry.error is None:
            yield (entry, number), part(entry.application_id)


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
