"""A clock that runs faster than the machine's, so that minutes of service time pass in seconds."""

import asyncio
import time


class FastClock:
    """The machine's clock, sped up; two of the same speed agree, also between processes.

    Args:
        speed: seconds that pass on it in one of the machine's.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return time.monotonic() * self._speed

    async def sleep(self, seconds: float) -> None:
        """Wait this many of its seconds."""
        await asyncio.sleep(seconds / self._speed)
