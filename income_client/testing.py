"""Tools for tests of code that uses this package: a clock that jumps."""

import asyncio


class JumpingClock:
    """A clock whose sleepers wake at once, each finding its time passed.

    Attributes:
        slept: every pause asked for, in seconds, in order.
    """

    def __init__(self) -> None:
        self._now = 1_000_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward by hand."""
        self._now += seconds

    async def sleep(self, seconds: float) -> None:
        """Jump to the moment at which this pause ends.

        A sleeper that finds time moved on by others only jumps what is left,
        so that concurrent pauses overlap as they would in real time.
        """
        wakes_at = self._now + seconds
        self.slept.append(seconds)
        await asyncio.sleep(0)
        self._now = max(self._now, wakes_at)
