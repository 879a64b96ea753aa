"""Time that a test moves: that of an event loop, or that of a clock that stands."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NoReturn

from income_client.testing import JumpingClock

_TURNS: Final = 20
"""Turns of the loop in which a client takes in what lies ready; a slower one waits longer."""
_SETTLING: Final = 100
"""Turns of the loop in which all that a woken sleeper does is done."""
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
    """Speed up the time of the running loop by a factor, beside a server's real time."""
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


class ManualClock(JumpingClock):
    """A clock that stands until a test moves it: who sleeps on it waits for that moment.

    Attributes:
        is_held: whether sleepers wait; otherwise they jump, as on every `JumpingClock`.
    """

    def __init__(self, now: float = 0.0, *, is_held: bool = True) -> None:
        super().__init__()
        self._now = now
        self.is_held = is_held
        self._sleepers: dict[asyncio.Future[None], tuple[float, str]] = {}

    def time(self) -> float:
        """Return the seconds of `monotonic`, for code that asks for the time of day."""
        return self._now

    @property
    def sleepers(self) -> set[str]:
        """The names of the tasks that sleep."""
        return {name for _, name in self._sleepers.values()}

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved by as much, or the sleeper is released."""
        if not self.is_held:
            return await super().sleep(seconds)
        task = asyncio.current_task()
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers[sleeper] = (self._now + seconds, task.get_name() if task else "")
        try:
            await sleeper
        finally:
            self._sleepers.pop(sleeper, None)

    def advance(self, seconds: float) -> None:
        """Move the clock forward, and wake all whose moment has come."""
        super().advance(seconds)
        for sleeper, (moment, _) in [*self._sleepers.items()]:
            if moment <= self._now:
                self._wake(sleeper)

    async def pass_time(self, seconds: float) -> None:
        """Move the clock from one sleeper's moment to the next, and let each do its work."""
        until, wakes = self._now + seconds, 0
        await self._settle()
        while self._sleepers:
            sleeper, (moment, _) = min(self._sleepers.items(), key=lambda item: item[1][0])
            if moment > until:
                break
            wakes += 1
            assert wakes <= _MOST_WAKES, "sleepers go to sleep again and again"
            self.advance_to(moment)
            self._wake(sleeper)
            await self._settle()
        self.advance_to(until)

    def release(self, *, last: bool = False) -> None:
        """Wake the sleeper that came first, or last, whatever the time."""
        self._wake([*self._sleepers][-1 if last else 0])

    def release_all(self) -> None:
        """Wake all sleepers, and hold nobody any more."""
        self.is_held = False
        for sleeper in [*self._sleepers]:
            self._wake(sleeper)

    def _wake(self, sleeper: "asyncio.Future[None]") -> None:
        del self._sleepers[sleeper]
        if not sleeper.done():
            sleeper.set_result(None)

    async def _settle(self) -> None:
        for _ in range(_SETTLING):
            await asyncio.sleep(0)
