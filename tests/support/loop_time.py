"""The time of an event loop, moved by the test, so that a limit of a minute ends at once."""

import asyncio


def pass_time(seconds: float) -> None:
    """Move the time of the running loop forward; its timers that are due by then end next."""
    loop = asyncio.get_running_loop()
    unmoved = type(loop).time
    ahead = loop.time() - unmoved(loop) + seconds
    vars(loop)["time"] = lambda: unmoved(loop) + ahead
