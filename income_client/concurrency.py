"""A bounded set of tasks that belong to one iterator; knows nothing of what they do.

An iterator that is handed out cannot sit in a task group: its consumer may
break out of the loop between two items. So it owns its tasks by hand, and they
end with it: on closing, on cancellation, and when it is simply dropped.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from attrs import frozen

from .errors import ClientClosedError, ConfigurationError

K = TypeVar("K")


@frozen
class Finished(Generic[K]):
    """A task that came to its end by itself."""

    key: K
    """What it was started for."""
    result: Any
    """What it returned, None where it failed."""
    error: BaseException | None
    """What it raised."""


class Crew(Generic[K]):
    """Tasks under way, each for a key, and those that have finished, in that order.

    What is started must not hold the iterator, or dropping it ends nothing.
    """

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
        """How many have not finished."""
        return len(self._tasks)

    @property
    def keys(self) -> list[K]:
        """What those were started for that are under way, or finished and not yet taken."""
        return [*self._tasks.values(), *(finished.key for finished in self._finished)]

    def start(self, key: K, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = key
        task.add_done_callback(partial(_report, weakref.ref(self)))

    def check_is_free(self) -> None:
        """Refuse a second consumer while the first one waits.

        Raises:
            ConfigurationError: somebody waits for the next task already.
        """
        if self._waiter is not None:
            raise ConfigurationError("this iterator is waited for already; it has one consumer")

    async def next(self) -> Finished[K]:
        """Wait for the next task to finish.

        Raises:
            ClientClosedError: the tasks were cancelled meanwhile.
        """
        while not self._finished:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._finished.popleft()

    async def cancel(self) -> None:
        """End every task, forget those not yet taken, and send away who waits for one."""
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
        """Take note that a task has finished."""
        if task not in self._tasks:
            return
        key = self._tasks.pop(task)
        result = None if error is not None else task.result()
        self._finished.append(Finished(key, result, error))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _report(owner: "weakref.ref[Crew[Any]]", task: "asyncio.Task[Any]") -> None:
    # Asked for in any case: an error that nobody asks for is logged.
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    crew = owner()
    if crew is not None:
        crew.take(task, error)
