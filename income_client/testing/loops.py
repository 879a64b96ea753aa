"""Event loops for tests: one that a synchronous test runs, and one in a thread of its own."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from threading import Thread, current_thread
from typing import Any, Self, TypeVar, overload

from income_client import ConfigurationError

T = TypeVar("T")


class LoopRunner:
    """Runs calls one after another in one event loop: ``income_run(client.get_...())``."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._runner.close()

    @overload
    def __call__(self, work: Awaitable[T]) -> T: ...

    @overload
    def __call__(self, work: AsyncIterable[T]) -> list[T]: ...

    def __call__(self, work: Awaitable[T] | AsyncIterable[T]) -> T | list[T]:
        """Run an awaitable, or all of an asynchronous iterable, to its end.

        Args:
            work: a coroutine, or an asynchronous iterable such as a walk.

        Returns:
            The result, or everything that came.

        Raises:
            ConfigurationError: a loop runs here already, or this is neither.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            if asyncio.iscoroutine(work):
                work.close()
            raise ConfigurationError("income_run is for synchronous tests; await this instead")
        # A future that has ended raises without frames of asyncio, which only distract.
        if isinstance(work, Awaitable):
            return self._runner.run(_settle_awaitable(work)).result()
        if isinstance(work, AsyncIterable):
            return self._runner.run(_settle_awaitable(_list_items(work))).result()
        raise ConfigurationError("income_run takes what can be awaited or asynchronously iterated")


async def _settle_awaitable(work: Awaitable[T]) -> asyncio.Future[T]:
    outcome = asyncio.get_running_loop().create_future()
    try:
        outcome.set_result(await work)
    except Exception as error:  # noqa: BLE001 - raised again where the test called
        outcome.set_exception(error)
    return outcome


async def _list_items(work: AsyncIterable[T]) -> list[T]:
    return [item async for item in work]


class LoopThread:
    """An event loop in another thread while a block runs."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="income_service", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self.run(loop.shutdown_asyncgens())
        self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def call(self, work: Callable[[], T]) -> T:
        """Call a function in the loop, and return its result; raises as `run` does."""

        async def called() -> T:
            return work()

        return self.run(called())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop to its end, and return its result."""
        if current_thread() is self._thread:
            work.close()
            raise ConfigurationError(
                "this is the service's own thread, which cannot wait for itself; "
                "call it from another one"
            )
        future = self.begin(work)
        error = future.exception()
        if error is not None:
            raise error  # without the future's own frames, which only distract
        return future.result()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the loop, and return its future."""
        if self._loop is None:
            work.close()
            raise ConfigurationError("the service does not run; enter it first, by with")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop while the caller's own loop runs on."""
        return await asyncio.wrap_future(self.begin(work))
