"""Work in a thread that is waited for to its end; knows nothing of what the work is.

A thread cannot be cancelled. Who goes away before it has ended leaves it
working on what belongs to somebody else by then.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

T = TypeVar("T")


async def run_to_the_end(
    work: Callable[[], T],
    on_cancel: Callable[[], None] | None = None,
    executor: Executor | None = None,
) -> T:
    """Run in a thread, and return no sooner than that has ended, cancelled or not.

    Args:
        work: what to do.
        on_cancel: called in the event loop to ask the work to end early.
        executor: whose thread; None stands for the event loop's own few threads, which
            name lookups share and which are for work that nobody outside can hold up.

    Raises:
        asyncio.CancelledError: it came meanwhile; what the work returned is lost.
        RuntimeError: no thread can be started.
    """
    # No task: a loop that is being closed cancels all of them, and threads go on.
    running = asyncio.get_running_loop().run_in_executor(executor, work)
    cancellation = await outlast(running, on_cancel)
    if cancellation is not None:
        running.cancelled() or running.exception()  # nobody else will look at it
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
