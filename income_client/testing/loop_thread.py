"""An event loop in a thread of its own; knows nothing of what runs in it."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from threading import Thread, current_thread
from typing import Any, Self, TypeVar

from attrs import frozen

from income_client import ConfigurationError

T = TypeVar("T")


@frozen
class _Turning:
    """A loop, and where it turns."""

    loop: asyncio.AbstractEventLoop
    """The loop."""
    thread: Thread
    """Its thread."""


class LoopThread:
    """An event loop that turns while the threads that call into it wait, or do not.

    Calls must come from outside of it: from within, they would wait for themselves.
    The loop exists between entering and leaving.
    """

    def __init__(self) -> None:
        self._turning: _Turning | None = None

    def __enter__(self) -> Self:
        loop = asyncio.new_event_loop()
        thread = Thread(target=loop.run_forever, name="income_service", daemon=True)
        self._turning = _Turning(loop, thread)
        thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._turning is None:
            return
        loop, thread = self._turning.loop, self._turning.thread
        self.run(loop.shutdown_asyncgens())
        self._turning = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def call(self, work: Callable[[], T]) -> T:
        """Call a function in the loop, and return what it returned.

        Raises:
            ConfigurationError: as by `run`.
        """

        async def called() -> T:
            return work()

        return self.run(called())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop to its end, and return its result.

        Raises:
            ConfigurationError: the loop does not turn, or this is its own thread.
        """
        if self._turning is not None and current_thread() is self._turning.thread:
            work.close()
            raise ConfigurationError(
                "this is the service's own thread, which cannot wait for itself; "
                "call it from another one"
            )
        future = self.begin(work)
        error = future.exception()
        if error is None:
            return future.result()
        try:
            # From here it has no frames of the future, which a test's author need not read.
            raise error
        finally:
            del error, future

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have a coroutine run in the loop, and return its future at once.

        Raises:
            ConfigurationError: the loop does not turn.
        """
        if self._turning is None:
            work.close()
            raise ConfigurationError("the service does not run; enter it first, by with")
        return asyncio.run_coroutine_threadsafe(work, self._turning.loop)

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop while the caller's own loop turns on."""
        return await asyncio.wrap_future(self.begin(work))
