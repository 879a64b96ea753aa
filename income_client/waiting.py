"""Waiting for something unless something else comes first; leaves no task behind."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def unless(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Await work, or cancel it as soon as an event is set.

    Args:
        event: what may come first.
        work: what is waited for.

    Returns:
        What the work returned; None where it was cancelled.
    """
    if event.is_set():
        work.close()
        return None
    task, bell = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((task, bell), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        bell.cancel()
        await asyncio.wait((task, bell))
        if not task.cancelled():
            # Asked for in any case: an error that nobody asks for is logged.
            task.exception()
