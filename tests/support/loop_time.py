"""Time that a test moves: that of an event loop, or of a clock with sleepers in order."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, Final, NoReturn

_TURNS: Final = 20
"""Turns of the loop in which a client takes in what lies ready; a slower one waits longer."""
_SETTLING: Final = 100
_MOST_WAKES: Final = 1_000
"""Sleepers that one stretch of time may wake, after which they are taken to sleep for ever."""


def pass_time(seconds: float) -> None:
    """Move the time of the running loop forward; its timers that are due by then end next."""
    loop = asyncio.get_running_loop()
    unmoved = vars(loop).get("hurried_time", partial(type(loop).time, loop))
    ahead = loop.time() - unmoved() + seconds
    vars(loop)["time"] = lambda: unmoved() + ahead


async def stay_silent(seconds: float) -> NoReturn:
    """Never answer; let so many seconds pass once the client has taken in what came before."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    pass_time(seconds)
    await asyncio.Event().wait()
    raise AssertionError


async def silence(seconds: float) -> AsyncIterator[bytes]:
    """Give nothing, as `stay_silent`; for a reply whose rest never comes."""
    yield b""
    await stay_silent(seconds)


@contextmanager
def hurried(times: int = 5) -> Iterator[None]:
    """Have the time of the running loop pass so many times as fast, beside a server's real one."""
    loop = asyncio.get_running_loop()
    real, began = loop.time, loop.time()
    selector: Any = vars(loop)["_selector"]
    select = selector.select
    vars(loop)["hurried_time"] = vars(loop)["time"] = lambda: began + (real() - began) * times
    selector.select = lambda seconds: select(seconds and seconds / times)
    try:
        yield
    finally:
        selector.select = select


class LoopClock:
    """The time of the running loop, as a client takes a clock."""

    def monotonic(self) -> float:
        """Return the loop's seconds."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait as the loop waits."""
        await asyncio.sleep(seconds)


class OrderedClock:
    """A clock that stands until time is let pass, and then wakes one sleeper after the other.

    `JumpingClock` is simpler, and lets everybody wake at once.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._numbers = count()
        self._sleepers: dict[asyncio.Future[None], tuple[float, int]] = {}

    def monotonic(self) -> float:
        """Return seconds since the clock was made."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Wait until that much time was let pass."""
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers[sleeper] = (self._now + seconds, next(self._numbers))
        try:
            await sleeper
        finally:
            self._sleepers.pop(sleeper, None)

    async def let_pass(self, seconds: float) -> None:
        """Move time forward, from one sleeper's moment to the next; all that follows is done."""
        until = self._now + seconds
        await self._settle()
        woken = 0
        while self._sleepers:
            sleeper = min(self._sleepers, key=self._sleepers.__getitem__)
            moment = self._sleepers[sleeper][0]
            if moment > until:
                break
            woken += 1
            assert woken <= _MOST_WAKES, "sleepers go to sleep again and again"
            self._now = max(self._now, moment)
            del self._sleepers[sleeper]
            sleeper.set_result(None)
            await self._settle()
        self._now = until

    async def _settle(self) -> None:
        for _ in range(_SETTLING):
            await asyncio.sleep(0)
