"""Asynchronous servers that run beside a test which is not asynchronous."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")

_PATIENCE: Final = 20.0


@contextmanager
def beside(server: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter an asynchronous context manager in an event loop of another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(_PATIENCE)

    try:
        value: T = run(_entered(server))
        try:
            yield value
        finally:
            run(_left(server))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE)
        loop.close()


def until(condition: Callable[[], object]) -> None:
    """Wait until something holds that another thread or process brings about."""
    waiting = threading.Event()
    for _ in range(round(_PATIENCE / 0.005)):
        if condition():
            return
        waiting.wait(0.005)
    raise AssertionError("nothing came of it")


async def _entered(server: AbstractAsyncContextManager[T]) -> T:
    return await server.__aenter__()


async def _left(server: AbstractAsyncContextManager[Any]) -> None:
    await server.__aexit__(None, None, None)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.sleep(0)  # so that the transports that they closed are gone
