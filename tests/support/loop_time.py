"""The time of an event loop, moved by the test, so that a limit of a minute ends at once."""

import asyncio
from typing import Final, NoReturn

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
