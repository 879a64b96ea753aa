"""Bounded concurrency: tasks that belong to an iterator, iterators over them, work in threads.

An iterator that is handed out cannot use a task group: its consumer may leave the loop
between two items. So it owns its tasks by hand, and they end with it: when it is closed,
cancelled, or dropped.
"""

import asyncio
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Self, TypeVar

from attrs import frozen

from .errors import ClientClosedError, ConfigurationError

K = TypeVar("K")
T = TypeVar("T")
Y = TypeVar("Y")


@frozen
class Finished(Generic[K]):
    """A task that has finished, with a result or an error, and what it was started for."""

    key: K
    result: Any
    error: BaseException | None


class BoundedTasks(Generic[K]):
    """Tasks in flight, each for a key, and the finished ones in the order of finishing."""

    # What is started must not refer to the iterator, or dropping that would cancel nothing.

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], K] = {}
        self._finished: deque[Finished[K]] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def __bool__(self) -> bool:
        return bool(self._tasks or self._finished)

    def __del__(self) -> None:
        for task in self._tasks:
            with suppress(RuntimeError):  # the loop is closed
                # The collector may run in any thread.
                task.get_loop().call_soon_threadsafe(task.cancel)

    @property
    def under_way(self) -> int:
        """How many have not finished yet."""
        return len(self._tasks)

    @property
    def keys(self) -> list[K]:
        """Keys of the tasks in flight, and of the finished ones that are not taken yet."""
        return [*self._tasks.values(), *(finished.key for finished in self._finished)]

    def start(self, key: K, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = key
        task.add_done_callback(partial(_report, weakref.ref(self)))

    def check_is_free(self) -> None:
        """Refuse a second consumer while the first one waits."""
        if self._waiter is not None:
            raise ConfigurationError("this iterator is waited for already; it has one consumer")

    async def next(self) -> Finished[K]:
        """Wait for the next task to finish; raise `ClientClosedError` if they are cancelled."""
        while not self._finished:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._finished.popleft()

    async def cancel(self) -> None:
        """Cancel every task, forget the finished ones, and end the wait for one."""
        tasks = list(self._tasks)
        self._tasks.clear()
        self._finished.clear()
        if self._waiter is not None and not self._waiter.done():
            error = ClientClosedError("this iterator was closed while it was waited for")
            self._waiter.set_exception(error)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def take(self, task: "asyncio.Task[Any]", error: BaseException | None) -> None:
        """Note that a task has finished."""
        if task not in self._tasks:
            return
        key = self._tasks.pop(task)
        result = None if error is not None else task.result()
        self._finished.append(Finished(key, result, error))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _report(owner: "weakref.ref[BoundedTasks[Any]]", task: "asyncio.Task[Any]") -> None:
    # Asked for in any case: asyncio logs an error that is never retrieved.
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    tasks = owner()
    if tasks is not None:
        tasks.take(task, error)


class Source(Generic[T]):
    """The items of a caller's iterable, asynchronous or not; keeps an error until its turn."""

    def __init__(
        self,
        items: Iterable[Any] | AsyncIterable[Any],
        read: Callable[[Any], T],
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
                raise ConfigurationError(expected)

    def take(self) -> T | None:
        """Return the next one; None at the end or after an error."""
        try:
            return self._read(next(self._iterator))
        except StopIteration:
            self.is_exhausted = True
        except Exception as error:  # noqa: BLE001 - raised in its turn
            self._fail(error)
        return None

    async def pull(self) -> T | None:
        """Return the next one of an asynchronous source, None likewise."""
        try:
            return self._read(await anext(self._iterator))
        except StopAsyncIteration:
            self.is_exhausted = True
        except Exception as error:  # noqa: BLE001 - raised in its turn
            self._fail(error)
        return None

    async def aclose(self) -> None:
        """Close an asynchronous source that can be closed."""
        self.is_exhausted = True
        if self.is_asynchronous:
            close = getattr(self._iterator, "aclose", None)
            if close is not None:
                await close()

    def _fail(self, error: Exception) -> None:
        self.is_exhausted = True
        self.error = error


@frozen
class Raised:
    """An error that ends the iteration, in place of a result."""

    error: BaseException


class TaskIterator(ABC, Generic[K, Y]):
    """An iterator over results of tasks that work through a source, for one consumer.

    Subclasses start tasks and take their results in ``_next``. The source is closed with it.
    """

    def __init__(self, source: Source[Any]) -> None:
        self._source = source
        self._tasks: BoundedTasks[K] = BoundedTasks()
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
            result = await self._next()
        except BaseException as error:
            self._was_cancelled = isinstance(error, asyncio.CancelledError)
            await self.aclose()
            raise
        if result is None:
            await self.aclose()
            raise StopAsyncIteration
        if not isinstance(result, Raised):
            return result
        failure = result.error
        del result
        await self.aclose()
        try:
            raise failure
        finally:
            del failure

    async def aclose(self) -> None:
        """Cancel what is in flight and close the source; again does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._tasks.cancel()
        finally:
            await self._source.aclose()

    @abstractmethod
    async def _next(self) -> Y | Raised | None:
        """Return the next result, the error to raise, or None at the end."""


async def run_to_the_end(
    work: Callable[[], T],
    on_cancel: Callable[[], None] | None = None,
    executor: Executor | None = None,
) -> T:
    """Run work in a thread and wait for its end, even if cancelled meanwhile.

    A thread cannot be cancelled: left alone, it would keep using what belongs to somebody
    else by then. ``on_cancel`` asks the work to end early. ``executor=None`` means the event
    loop's own few threads, which name lookups share: for work that cannot be held up.
    """
    # No task: a loop that is being closed cancels all of them, and threads keep running.
    running = asyncio.get_running_loop().run_in_executor(executor, work)
    cancellation = await outlast(running, on_cancel)
    if cancellation is not None:
        running.cancelled() or running.exception()  # not retrieved elsewhere
        raise cancellation
    return running.result()


async def outlast(
    future: asyncio.Future[Any], on_cancel: Callable[[], None] | None = None
) -> asyncio.CancelledError | None:
    """Wait for a future's end, and return the cancellation that came meanwhile."""
    cancellation: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            cancellation = error
            if on_cancel is not None:
                on_cancel()
    return cancellation
