"""A clock that jumps, so that no test waits; knows nothing of the service."""

import asyncio
from threading import Lock


class JumpingClock:
    """A clock whose sleepers wake at once, each finding its time passed.

    It may be read, slept on and moved from several threads.

    Attributes:
        slept: every pause asked for, in seconds, in order.
    """

    def __init__(self) -> None:
        self._now = 1_000_000.0
        self._moving = Lock()
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward by hand.

        Args:
            seconds: how far.
        """
        with self._moving:
            self._now += seconds

    def advance_to(self, moment: float) -> None:
        """Move the clock forward to a moment, unless others have moved it further already.

        Args:
            moment: by `monotonic`, in seconds.
        """
        with self._moving:
            self._now = max(self._now, moment)

    async def sleep(self, seconds: float) -> None:
        """Jump to the moment at which this pause ends.

        A sleeper that finds time moved on by others only jumps what is left,
        so that concurrent pauses overlap as they would in real time.

        Args:
            seconds: how long the pause is.
        """
        wakes_at = self._now + seconds
        self.slept.append(seconds)
        await asyncio.sleep(0)
        self.advance_to(wakes_at)
