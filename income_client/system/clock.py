"""The clock by which waiting code measures time; tests replace it with one that jumps."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """A source of durations, but never of the time of day."""

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for a number of seconds."""
        ...


class SystemClock:
    """The clock of the machine."""

    # The function itself: it is called several times in each request.
    monotonic: "staticmethod[[], float]" = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Sleep for a number of seconds."""
        await asyncio.sleep(seconds)
