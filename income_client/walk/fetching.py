"""Fetch many applications and documents at once: bounded, and in the order of the input."""

from collections import deque
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, get_args

from attrs import define, field, frozen

from income_client.errors import IncomeClientError
from income_client.events.instrumentation import Instrumentation
from income_client.events.kinds import RecordDelivered
from income_client.http.endpoints import application_id_of
from income_client.records.applications import Application
from income_client.records.documents import (
    ApplicationDocuments,
    ApplicationKey,
    ApplicationRecord,
)
from income_client.settings import check_choice, check_count
from income_client.system.concurrency import Finished, Source, TaskIterator

Y = TypeVar("Y")

Applications = Iterable[ApplicationKey] | AsyncIterable[ApplicationKey]
OnError: TypeAlias = Literal["raise", "yield"]
"""Behaviour of methods that read many applications when one of them fails."""
Call = Callable[[str], Coroutine[Any, Any, Any]]
"""A call of the client about the application with this id."""

_LOOK_AHEAD: Final = 2
"""Records begun, as a multiple of the requests in flight, while the first is waited for."""


@frozen
class FetchFailure:
    """An application that could not be read, in place of its record."""

    application_id: str
    """Id of the application."""
    error: IncomeClientError
    """Error of the application's call."""


@define
class _Entry:
    """An application whose calls are in flight, and the results of its finished calls."""

    application_id: str
    results: dict[int, Any] = field(factory=dict)
    error: BaseException | None = None


class Fetcher(TaskIterator[tuple[_Entry, int], Y]):
    """An iterator over the results of several calls about each application.

    The calls of one application are independent of each other and go out
    together. At most ``concurrency`` are in flight, results come in input order,
    and nothing is begun further ahead than twice that: a consumer that is slow,
    or stops, stops the requests and the source.

    Args:
        applications: ids, or what has one; an asynchronous iterator over them is
            closed together with this one.
        calls: those about one application, in the order of ``assemble``.
        assemble: makes one result of theirs.
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
        calls: tuple[Call, ...],
        assemble: Callable[..., Y],
        concurrency: int,
        on_error: OnError,
        instrumentation: Instrumentation | None = None,
    ) -> None:
        check_count("concurrency", concurrency)
        check_choice("on_error", on_error, get_args(OnError))
        expected = "applications must be an iterable of ids, summaries or records"
        read = partial(application_id_of, name="an application")
        super().__init__(Source(applications, read, "applications", expected), concurrency)
        self._calls = calls
        self._assemble = assemble
        self._on_error = on_error
        self._instrumentation = Instrumentation() if instrumentation is None else instrumentation
        self._entries: deque[_Entry] = deque()

    async def aclose(self) -> None:
        """Cancel the requests in flight and close the source; a second call does nothing."""
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
            return self._assemble(*(entry.results[number] for number in range(len(self._calls))))
        if self._on_error == "yield" and isinstance(entry.error, IncomeClientError):
            return cast("Y", FetchFailure(entry.application_id, entry.error))
        raise entry.error

    async def _next_entry(self) -> _Entry | None:
        """Return the first application of those begun, once it is done."""
        while not self._entries or not self._is_done(self._entries[0]):
            finished = await self._next_finished()
            if finished is None:
                return None
            self._add_result(finished)
        entry = self._entries.popleft()
        self._start_tasks()
        return entry

    def _is_done(self, entry: _Entry) -> bool:
        return entry.error is not None or len(entry.results) == len(self._calls)

    def _may_take_item(self) -> bool:
        return len(self._entries) < _LOOK_AHEAD * self._concurrency

    def _tasks_for(
        self, item: str
    ) -> Iterator[tuple[tuple[_Entry, int], Coroutine[Any, Any, Any]]]:
        entry = _Entry(item)
        self._entries.append(entry)
        return _coroutines_for(entry, self._calls)

    def _add_result(self, finished: Finished[tuple[_Entry, int]]) -> None:
        entry, number = finished.key
        if finished.error is None:
            entry.results[number] = finished.result
        elif entry.error is None:
            entry.error = finished.error


def _coroutines_for(
    entry: _Entry, calls: tuple[Call, ...]
) -> Iterator[tuple[tuple[_Entry, int], Coroutine[Any, Any, Any]]]:
    for number, call in enumerate(calls):
        if entry.error is None:
            yield (entry, number), call(entry.application_id)


def as_record(
    application: Application, documents: ApplicationDocuments | None = None
) -> ApplicationRecord:
    """Put an application and its documents together."""
    return ApplicationRecord(application=application, documents=documents)
