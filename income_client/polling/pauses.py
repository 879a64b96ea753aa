"""The waiting of a poller: pauses that end early, and work that ends when it is stopped."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from income_client.clock import Clock
from income_client.concurrency import unless

from .schedule import Rhythm

T = TypeVar("T")


class Pauses:
    """Waits by a clock, and is cut short by two events.

    Args:
        rhythm: says when the next poll begins.
        clock: what is waited by.
        chance: the jitter's source, from 0 to 1.
    """

    def __init__(self, rhythm: Rhythm, clock: Clock, chance: Callable[[], float]) -> None:
        self._rhythm = rhythm
        self._clock = clock
        self._chance = chance
        self._stopped = asyncio.Event()
        self._bell = asyncio.Event()

    @property
    def is_stopped(self) -> bool:
        """Whether nothing is to be begun any more."""
        return self._stopped.is_set()

    def wake(self) -> None:
        """Have the next poll begin as soon as it may."""
        self._rhythm.wake()
        self._bell.set()

    def stop(self) -> None:
        """End every wait, now and later."""
        self._stopped.set()
        self._bell.set()

    async def until_turn(self) -> None:
        """Wait until the next poll begins, or nothing is to be begun any more."""
        while not self.is_stopped:
            seconds = self._rhythm.at - self._clock.monotonic()
            if seconds <= 0:
                return
            self._bell.clear()
            await unless(self._bell, self._clock.sleep(seconds))

    async def pause(self, longest: float) -> bool:
        """Wait for half this many seconds or more; tell whether to go on, which a stop forbids."""
        await self.unless_stopped(self._clock.sleep(longest * (1 + self._chance()) / 2))
        return not self.is_stopped

    async def unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return what the work returns; None if it was cancelled because of a stop."""
        return await unless(self._stopped, work)
