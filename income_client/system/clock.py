"""The two things that waiting code needs of time; tests put in a clock that jumps."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """A source of durations; never of the time of day."""

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait this many seconds."""
        ...


class SystemClock:
    """The clock of the machine."""

    # The function itself: it is called several times in each request.
    monotonic: "staticmethod[[], float]" = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Wait this many seconds."""
        await asyncio.sleep(seconds)
