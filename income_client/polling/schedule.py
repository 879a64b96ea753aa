"""When the next poll begins, and the waiting of a poller, which a stop or a wake-up ends."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from math import ceil
from typing import Any, Final, TypeVar, cast

from income_client.errors import AuthenticationError, IncomeClientError
from income_client.system.clock import Clock

T = TypeVar("T")
Watch = Callable[[], Coroutine[Any, Any, None]]
"""Watches for wake-ups of other processes until it is cancelled."""

LONGEST_PAUSE: Final = 60.0
"""Seconds between two tries to store something, or to deliver a batch that has failed."""
_JITTER: Final = 0.1
_FIRST_FAILURE: Final = 1.0
_LONGEST_FAILURE: Final = 60.0
_LONGEST_RETRY_AFTER: Final = 900.0
_MOST_DOUBLINGS: Final = 16
_GAP: Final = 1.0
"""The fewest seconds between two polls, however often the poller is woken."""


class Stopped(Exception):  # noqa: N818 - nothing has failed
    """The poller was stopped: what was under way is abandoned."""


class Schedule:
    """Even pauses between polls, growing ones after failures; waking cuts them short."""

    def __init__(self, interval: float, clock: Clock, chance: Callable[[], float]) -> None:
        self._interval = interval
        self._clock = clock
        self._chance = chance
        self._began = float("-inf")
        self._succeeded: float | None = None
        """When the last poll that succeeded began, or the name itself."""
        self._at = float("-inf")
        self._not_before = float("-inf")
        self.retry_at: float | None = None
        """The moment at which something is stored that could not be; None otherwise."""
        self.is_woken: bool = False
        """Whether a wake-up has come that no poll has begun for."""
        self._is_owed = False
        self.is_urgent: bool = False
        """Whether a wake-up started the current poll."""
        self.ends_with_poll: bool = False
        """Whether the poller ends with the current poll, or else the next."""
        self._stopped = asyncio.Event()
        self._bell = asyncio.Event()

    @property
    def next_poll_at(self) -> float:
        """The moment at which the next poll begins."""
        if not self.is_woken:
            return self._at
        return max(self._not_before, min(self._at, self._began + _GAP))

    @property
    def is_stopped(self) -> bool:
        """Whether nothing may be begun any more."""
        return self._stopped.is_set()

    def begin_poll(self, now: float) -> None:
        """Note that a poll begins."""
        self._began = now
        self.is_urgent = self.is_woken or self._is_owed
        self.is_woken = self._is_owed = False

    def resume_name(self) -> None:
        """Note that it is not known when the checkpoint to resume from was polled last."""
        self._succeeded = None

    def begin_name(self, now: float) -> None:
        """Note that polling begins: nothing that was updated before must be delivered."""
        self._succeeded = now

    def succeed(self) -> None:
        """Note that a poll has ended."""
        self._succeeded = self._began
        self._at = self._began + self._interval * (1 - _JITTER * self._chance())

    def seconds_since_success(self, now: float) -> int | None:
        """Return the seconds since the last poll that succeeded began; None if none has."""
        return None if self._succeeded is None else ceil(now - self._succeeded)

    def fail(self, now: float, error: IncomeClientError, failures: int) -> None:
        """Note that a poll has failed, the latest of so many failures in a row."""
        # Refused credentials end the poller after a few minutes: not before they were tried again.
        is_refused = isinstance(error, AuthenticationError)
        longest = _LONGEST_FAILURE if is_refused else max(self._interval, _LONGEST_FAILURE)
        pause = self._jittered(min(longest, backoff_pause(failures)))
        asked = min(error.retry_after or 0.0, _LONGEST_RETRY_AFTER)
        self._not_before = now + max(asked, _GAP)
        self._at = now + max(pause, asked)
        # A wake-up is only answered by a poll that succeeds.
        self._is_owed = self.is_urgent or self.is_woken
        self.is_woken = False

    def put_off(self, now: float, longest: float) -> None:
        """Note that something could not be stored, and is to be after so many seconds or fewer."""
        self.retry_at = now + self._jittered(longest)

    def wake(self) -> None:
        """Have the next poll begin as soon as it may."""
        self.is_woken = True
        self._bell.set()

    def stop(self) -> None:
        """End every wait, now and later."""
        self._stopped.set()
        self._bell.set()

    def stop_after_poll(self) -> None:
        """End every wait if the poller ends with the poll that is over now."""
        if self.ends_with_poll:
            self.stop()

    async def until_turn(self, watch: Watch | None = None) -> None:
        """Wait until the next poll begins, or the poller is stopped; ``watch`` runs meanwhile."""
        if self.is_stopped or self.next_poll_at <= self._clock.monotonic():
            return
        async with _running(watch):
            while not self.is_stopped:
                seconds = self.next_poll_at - self._clock.monotonic()
                if seconds <= 0:
                    return
                self._bell.clear()
                await run_unless_set(self._bell, self._clock.sleep(seconds))

    async def until_next_try(self, watch: Watch | None = None) -> None:
        """Wait until what has failed is tried again, or the poller is stopped."""
        if self.retry_at is None:
            await self.until_turn(watch)
            return
        seconds = self.retry_at - self._clock.monotonic()
        try:
            await run_unless_set(self._stopped, self._clock.sleep(max(0.0, seconds)))
        finally:
            self.retry_at = None

    async def pause(self, longest: float) -> None:
        """Wait for half this many seconds or more; raise `Stopped` once the poller is stopped."""
        await self.unless_stopped(self._clock.sleep(self._jittered(longest)))

    def _jittered(self, longest: float) -> float:
        return longest * (1 + self._chance()) / 2

    async def unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of work; cancel it and raise `Stopped` once the poller is stopped."""
        result = await run_unless_set(self._stopped, work)
        if result is None and self.is_stopped:
            raise Stopped
        return cast("T", result)


def backoff_pause(failures: int) -> float:
    """Return the longest pause after so many failures in a row, in seconds; it doubles."""
    return _FIRST_FAILURE * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)


@asynccontextmanager
async def _running(watch: Watch | None) -> AsyncIterator[None]:
    """Run a task beside the block, and wait for its end."""
    if watch is None:
        yield
        return
    task = asyncio.create_task(watch(), name="income_client bell")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def run_unless_set(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of work; cancel it and return None as soon as an event is set."""
    if event.is_set():
        work.close()
        return None
    task, bell = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((task, bell), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        bell.cancel()
        await asyncio.wait((task, bell))
        if not task.cancelled():
            # Asked for in any case: asyncio logs an error that is never retrieved.
            task.exception()
