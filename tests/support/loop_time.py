"""The time of an event loop, moved by the test, so that a limit of a minute ends at once."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

_TURNS: Final = 20
"""Turns of the loop in which a client takes in what lies ready; a slower one waits longer."""


def pass_time(seconds: float) -> None:
    """Move the time of the running loop forward; its timers that are due by then end next."""
    loop = asyncio.get_running_loop()
    unmoved = type(loop).time
    ahead = loop.time() - unmoved(loop) + seconds
    vars(loop)["time"] = lambda: unmoved(loop) + ahead


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


class LoopClock:
    """The time of the running loop, as a client takes a clock."""

    def monotonic(self) -> float:
        """Return the loop's seconds."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait as the loop waits."""
        await asyncio.sleep(seconds)


@contextmanager
def skipped_waits() -> Iterator[LoopClock]:
    """Have the running loop jump to its next timer instead of waiting for it.

    Timers keep their order, so that tasks interleave as they do in real time.
    """
    loop = asyncio.get_running_loop()
    selector: Any = vars(loop)["_selector"]
    select = selector.select

    def jump(seconds: float | None) -> Any:
        ready = select(0 if seconds else seconds)
        if seconds and not ready:
            pass_time(seconds)
        return ready

    selector.select = jump
    try:
        yield LoopClock()
    finally:
        selector.select = select
