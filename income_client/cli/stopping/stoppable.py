"""What can be told to stop while it waits; knows not what for."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Stoppable:
    """Waits for one thing at a time, until it is to stop.

    Attributes:
        is_stopped: whether it is.
    """

    def __init__(self) -> None:
        self.is_stopped: bool = False
        self._until: asyncio.Timeout | None = None

    def stop(self) -> None:
        """End what is waited for, and all that would be."""
        self.is_stopped = True
        if self._until is not None:
            self._until.reschedule(0)

    async def wait_for(self, awaitable: Awaitable[T]) -> T | None:
        """Return what comes of something, None if it is to stop before."""
        try:
            async with asyncio.timeout(0 if self.is_stopped else None) as self._until:
                return await awaitable
        except TimeoutError:
            # One from further in says nothing about stopping.
            if not self.is_stopped:
                raise
            return None
        finally:
            self._until = None
