"""An event loop in a thread of its own; knows nothing of what runs in it."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any, Self, TypeVar

from income_client import ConfigurationError

T = TypeVar("T")


class LoopThread:
    """An event loop that turns while the threads that call into it wait, or do not.

    Calls must come from outside of it: from within, they would wait for themselves.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="income_service", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, work: Callable[[], T]) -> T:
        """Call a function in the loop, and return what it returned."""

        async def called() -> T:
            return work()

        return self.run(called())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop to its end, and return its result."""
        return self.begin(work).result()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have a coroutine run in the loop, and return its future at once.

        Raises:
            ConfigurationError: the loop does not turn.
        """
        if not self._thread.is_alive():
            work.close()
            raise ConfigurationError("the service does not run; enter it first, by with")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop while the caller's own loop turns on."""
        return await asyncio.wrap_future(self.begin(work))
