"""Bounded concurrency: tasks owned by an iterator, iterators over their results, work in threads.

An iterator that a caller consumes cannot use a task group: the caller may leave the loop
between two items. The iterator therefore owns its tasks, and cancels them when it is closed,
cancelled, or garbage-collected.
"""

import asyncio
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Self, TypeVar, cast

from attrs import frozen

from income_client._lazy import answers_other_names
from income_client.errors import ClientClosedError, ConfigurationError, InvalidArgumentError

K = TypeVar("K")
T = TypeVar("T")
Y = TypeVar("Y")


@frozen
class Finished(Generic[K]):
    """A finished task: the key that it was started for, and its result or error."""

    key: K
    result: Any
    error: BaseException | None


class BoundedTasks(Generic[K]):
    """Tasks in flight, each for a key, and finished tasks in the order of finishing."""

    # Tasks must not refer to the iterator: it would never be garbage-collected, and the tasks
    # of an abandoned iterator would run on.

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], K] = {}
        self._finished: deque[Finished[K]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._cancellations = 0

    def __bool__(self) -> bool:
        return bool(self._tasks or self._finished)

    def __del__(self) -> None:
        # A copy, since tasks are removed while they are cancelled if the loop runs in a thread.
        for task in tuple(self._tasks):
            with suppress(RuntimeError):  # the loop is closed
                # The collector may run in any thread.
                task.get_loop().call_soon_threadsafe(task.cancel)

    @property
    def under_way(self) -> int:
        """Number of tasks that have not finished."""
        return len(self._tasks)

    @property
    def keys(self) -> list[K]:
        """Keys of the tasks in flight, and of finished tasks that `next` has not returned."""
        return [*self._tasks.values(), *(finished.key for finished in self._finished)]

    def start(self, key: K, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task for a key."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = key
        task.add_done_callback(partial(_report_end, weakref.ref(self)))

    def check_is_free(self) -> None:
        """Raise an error if another consumer is waiting for a task."""
        if self._waiter is not None:
            raise ConfigurationError("this iterator is waited for already; it has one consumer")

    async def next(self) -> Finished[K]:
        """Wait for the next task to finish.

        Raise `ClientClosedError` if the tasks are cancelled.
        """
        before = self._cancellations
        while not self._finished:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
            if self._cancellations != before:
                raise ClientClosedError("this iterator was closed while it was waited for")
        return self._finished.popleft()

    async def cancel(self) -> None:
        """Cancel every task, forget the finished ones, and end a consumer's wait."""
        tasks = list(self._tasks)
        self._tasks.clear()
        self._finished.clear()
        self._cancellations += 1
        self._wake_waiter()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def note_finished(self, task: "asyncio.Task[Any]", error: BaseException | None) -> None:
        """Keep a finished task for `next`."""
        if task not in self._tasks:
            return
        key = self._tasks.pop(task)
        result = None if error is not None else task.result()
        self._finished.append(Finished(key, result, error))
        self._wake_waiter()

    def _wake_waiter(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _report_end(owner: "weakref.ref[BoundedTasks[Any]]", task: "asyncio.Task[Any]") -> None:
    # Asked for in any case: asyncio logs an error that is never retrieved.
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    tasks = owner()
    if tasks is not None:
        tasks.note_finished(task, error)


class Source(Generic[T]):
    """A caller's iterable, asynchronous or not; its error is raised after the items before it."""

    def __init__(
        self,
        items: Iterable[Any] | AsyncIterable[Any],
        read: Callable[[Any], T],
        argument: str,
        expected: str,
    ) -> None:
        self.error: BaseException | None = None
        self.is_exhausted: bool = False
        self._read = read
        self._iterator: Any
        match items:
            case AsyncIterable():
                self.is_asynchronous: bool = True
                self._iterator = aiter(items)
            case Iterable() if not isinstance(items, str | bytes):
                self.is_asynchronous = False
                self._iterator = iter(items)
            case _:
                raise InvalidArgumentError(expected, argument=argument)

    def take_item(self) -> T | None:
        """Return the next item; None at the end or after an error."""
        try:
            return self._read(next(self._iterator))
        except StopIteration:
            self.is_exhausted = True
        except Exception as error:  # noqa: BLE001 - raised in its turn
            self._end_with(error)
        return None

    async def await_item(self) -> T | None:
        """Return the next item of an asynchronous iterable; None at the end or after an error."""
        try:
            return self._read(await anext(self._iterator))
        except StopAsyncIteration:
            self.is_exhausted = True
        except Exception as error:  # noqa: BLE001 - raised in its turn
            self._end_with(error)
        return None

    async def aclose(self) -> None:
        """Close the iterable if it is asynchronous and has ``aclose``."""
        self.is_exhausted = True
        if self.is_asynchronous:
            close = getattr(self._iterator, "aclose", None)
            if close is not None:
                await close()

    def _end_with(self, error: Exception) -> None:
        self.is_exhausted = True
        self.error = error


@answers_other_names
class TaskIterator(ABC, Generic[K, Y]):
    """An iterator over the results of tasks that work on a source's items, for one consumer.

    Subclasses say in ``_tasks_for`` which tasks an item of the source needs, each with a key, and
    make results of what `_next_finished` returns. At most ``concurrency`` tasks are under way,
    beside the one that waits for an item of an asynchronous source. The source is closed with it.
    """

    def __init__(self, source: Source[Any], concurrency: int) -> None:
        self._source = source
        self._concurrency = concurrency
        # The key None is that of the task that waits for an item.
        self._tasks: BoundedTasks[K | None] = BoundedTasks()
        self._to_start: Iterator[tuple[K, Coroutine[Any, Any, Any]]] = iter(())
        self._is_awaiting_item = False
        self._is_closed = False
        self._was_cancelled = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Y:
        """Return the next result.

        Raises:
            IncomeClientError: a request failed after its retries, and failures are raised.
            ClientClosedError: an earlier call of this was cancelled, so that results
                would be missing; or the iterator was closed meanwhile.
            ConfigurationError: another consumer waits for the next result already, or
                an item of the source is invalid.
        """
        self._tasks.check_is_free()
        if self._was_cancelled:
            raise ClientClosedError("this iteration was cancelled; begin a new one")
        if self._is_closed:
            raise StopAsyncIteration
        try:
            result = await self._next_result()
        except BaseException as error:
            self._was_cancelled = isinstance(error, asyncio.CancelledError)
            await self.aclose()
            raise
        if result is None:
            await self.aclose()
            raise StopAsyncIteration
        return result

    async def aclose(self) -> None:
        """Cancel the tasks in flight and close the source; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._to_start = iter(())
        try:
            await self._tasks.cancel()
        finally:
            await self._source.aclose()

    @abstractmethod
    async def _next_result(self) -> Y | None:
        """Return the next result, or None at the end."""

    @abstractmethod
    def _tasks_for(self, item: Any) -> Iterator[tuple[K, Coroutine[Any, Any, Any]]]:
        """Return the tasks for an item of the source; each is started as soon as it is returned.

        None of it may refer to this iterator, so that dropping that ends the tasks at once.
        """

    def _may_take_item(self) -> bool:
        """Return whether another item of the source may be started."""
        return True

    async def _next_finished(self) -> Finished[K] | None:
        """Start tasks, and return the next finished one; None once all have finished.

        What the source has raised is raised then.
        """
        while True:
            self._start_tasks()
            if not self._tasks:
                if self._source.error is not None:
                    raise self._source.error
                return None
            finished = await self._tasks.next()
            if finished.key is not None:
                return cast("Finished[K]", finished)
            self._is_awaiting_item = False
            if finished.error is not None:
                raise finished.error
            self._begin_item(finished.result)

    def _start_tasks(self) -> None:
        """Start as many tasks as may be in flight."""
        while self._has_free_slot():
            task = next(self._to_start, None)
            if task is not None:
                self._tasks.start(*task)
            elif self._is_awaiting_item or self._source.is_exhausted or not self._may_take_item():
                return
            elif self._source.is_asynchronous:
                self._is_awaiting_item = True
                self._tasks.start(None, self._source.await_item())
            else:
                self._begin_item(self._source.take_item())

    def _has_free_slot(self) -> bool:
        most = self._concurrency + (1 if self._is_awaiting_item else 0)
        return self._tasks.under_way < most

    def _begin_item(self, item: Any) -> None:
        if item is not None:
            self._to_start = self._tasks_for(item)


async def run_to_the_end(
    work: Callable[[], T],
    on_cancel: Callable[[], None] | None = None,
    executor: Executor | None = None,
) -> T:
    """Run a function in a thread and wait for its end, even if the caller is cancelled meanwhile.

    A thread cannot be cancelled: left alone, it would keep using what belongs to somebody
    else by then. ``on_cancel`` asks the work to end early. ``executor=None`` means the event
    loop's own few threads, which name lookups share: for work that cannot be held up.
    """
    # No task: a loop that is being closed cancels all of them, and threads keep running.
    running = asyncio.get_running_loop().run_in_executor(executor, work)
    cancellation = await wait_for_end(running, on_cancel)
    if cancellation is not None:
        running.cancelled() or running.exception()  # not retrieved elsewhere
        raise cancellation
    return running.result()


async def wait_for_end(
    future: asyncio.Future[Any], on_cancel: Callable[[], None] | None = None
) -> asyncio.CancelledError | None:
    """Wait for a future's end, and return the cancellation that arrived meanwhile, if any."""
    cancellation: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            cancellation = error
            if on_cancel is not None:
                on_cancel()
    return cancellation
