"""Clocks that stand on another clock: one for the service, one that minds who uses it.

Knows nothing of a client or a service.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from threading import get_ident
from typing import Final

from income_client.clock import Clock

from .jumping_clock import JumpingClock

_PATIENCE: Final = 30.0
"""Seconds for another thread to close a user, whose machine has other things to do."""


class ServiceSideClock:
    """The time of a client's clock, on which the service's pauses pass at once too.

    What the service sleeps is not among what the client slept.

    Args:
        clock: the client's.
    """

    def __init__(self, clock: JumpingClock) -> None:
        self._clock = clock

    def monotonic(self) -> float:
        """Return the client's seconds."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Move the client's clock to the end of this pause."""
        wakes_at = self._clock.monotonic() + seconds
        await asyncio.sleep(0)
        self._clock.advance_to(wakes_at)


class LoopBoundClock:
    """A clock that closes its user in the event loop that it was first read in.

    A client belongs to the loop in which it is first used, and a fixture cannot know
    which one that will be. A loop that is closed in order ends its asynchronous
    generators, whoever runs it: so one of them holds the client's end.

    Args:
        clock: what tells the time.
        aclose: ends the user; called once, in its loop.
    """

    def __init__(self, clock: Clock, aclose: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._aclose = aclose
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._keeper: AsyncGenerator[None, None] | None = None

    def monotonic(self) -> float:
        """Return the clock's seconds."""
        if self._loop is None:
            self._bind()
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep as the clock does."""
        await self._clock.sleep(seconds)

    def close(self) -> None:
        """Close the user now, if its loop has not ended yet, and wait for it.

        Within that very loop nobody can wait: there, it is closed soon.

        Raises:
            TimeoutError: a loop in another thread has not got round to it.
        """
        if self._loop is None or self._keeper is None or self._loop.is_closed():
            return
        if self._loop.is_running():  # in another thread, or around the caller
            ended = asyncio.run_coroutine_threadsafe(self._ended(self._keeper), self._loop)
            if get_ident() != self._thread:
                ended.result(_PATIENCE)
        else:
            self._loop.run_until_complete(self._keeper.aclose())

    def _bind(self) -> None:
        with suppress(RuntimeError):  # read outside of any loop, which binds nobody
            self._loop = asyncio.get_running_loop()
            self._thread = get_ident()
            self._keeper = self._kept()
            with suppress(StopIteration):
                # It comes to its yield without waiting; from there the loop knows of it.
                self._keeper.__anext__().send(None)

    async def _ended(self, keeper: AsyncGenerator[None, None]) -> None:
        await keeper.aclose()

    async def _kept(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self._aclose()
