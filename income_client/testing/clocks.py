"""Clocks for tests: one that jumps, one for the service beside it, and one that closes its user."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from threading import Lock, get_ident
from typing import Final

from income_client.system.clock import Clock

_CLOSE_TIMEOUT: Final = 30.0
"""Seconds for another thread to close a user."""


class JumpingClock:
    """A clock whose sleepers wake at once, after a jump to their time.

    It may be read, slept on and moved from several threads.

    Attributes:
        slept: every pause asked for, in seconds, in order.
        most_sleeps: how many pauses there may be, None for any number. Code that waits for
            what never comes would loop for ever on a clock that jumps; with a number it fails.
    """

    most_sleeps: int | None = None

    def __init__(self) -> None:
        self._now = 1_000_000.0
        self._moving = Lock()
        self._sleeps = 0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward by ``seconds``."""
        with self._moving:
            self._now += seconds

    def advance_to(self, moment: float) -> None:
        """Move the clock forward to a ``moment`` in seconds, unless it is there already."""
        with self._moving:
            self._now = max(self._now, moment)

    async def sleep(self, seconds: float) -> None:
        """Jump to the end of this pause.

        A sleeper that finds time moved on by others only jumps what is left,
        so that concurrent pauses overlap as they would in real time.

        Args:
            seconds: how long the pause is.

        Raises:
            AssertionError: this is one more pause than ``most_sleeps``.
        """
        self._sleeps += 1
        if self.most_sleeps is not None and self._sleeps > self.most_sleeps:
            raise AssertionError(f"{self.most_sleeps} pauses: what is waited for never comes")
        wakes_at = self._now + seconds
        self.slept.append(seconds)
        await asyncio.sleep(0)
        self.advance_to(wakes_at)


class ServiceSideClock:
    """A clock for the service beside a client's clock, which omits the service's pauses."""

    def __init__(self, clock: JumpingClock) -> None:
        self._clock = clock

    def monotonic(self) -> float:
        """Return the clock's seconds."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Move the clock to the end of this pause."""
        wakes_at = self._clock.monotonic() + seconds
        await asyncio.sleep(0)
        self._clock.advance_to(wakes_at)


class LoopBoundClock:
    """A clock that closes its user in the event loop of its first use.

    A client belongs to the loop in which it is first used, and a fixture cannot know
    which one that will be. A loop that is closed in order ends its asynchronous
    generators, however it is run: so one of them calls ``aclose``, once.
    """

    def __init__(self, clock: Clock, aclose: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._aclose = aclose
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._generator: AsyncGenerator[None, None] | None = None

    def monotonic(self) -> float:
        """Return the clock's seconds."""
        if self._loop is None:
            self._bind_to_loop()
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep as the clock does."""
        await self._clock.sleep(seconds)

    def close(self) -> None:
        """Close the user now, if its loop still runs, and wait for that.

        A call inside that very loop cannot wait: there, it is closed soon.

        Raises:
            TimeoutError: a loop in another thread has not done it in time.
        """
        if self._loop is None or self._generator is None or self._loop.is_closed():
            return
        if self._loop.is_running():  # in another thread, or around the caller
            ended = asyncio.run_coroutine_threadsafe(
                self._close_generator(self._generator), self._loop
            )
            if get_ident() != self._thread:
                ended.result(_CLOSE_TIMEOUT)
        else:
            self._loop.run_until_complete(self._generator.aclose())

    def _bind_to_loop(self) -> None:
        with suppress(RuntimeError):  # read outside of any loop, which binds nobody
            self._loop = asyncio.get_running_loop()
            self._thread = get_ident()
            self._generator = self._closing_generator()
            with suppress(StopIteration):
                # It comes to its yield without waiting; from there the loop knows of it.
                self._generator.__anext__().send(None)

    async def _close_generator(self, generator: AsyncGenerator[None, None]) -> None:
        await generator.aclose()

    async def _closing_generator(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self._aclose()
