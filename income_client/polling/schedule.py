"""The schedule of a poller: when the next poll begins, and pauses that a stop or a wake-up ends.

A failure ends the poller, or is followed by a pause that grows with each failure in a row.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from math import ceil
from typing import Any, Final, TypeVar, cast

from income_client.errors import (
    AuthenticationError,
    CheckpointError,
    ClientClosedError,
    ConfigurationError,
    IncomeClientError,
)
from income_client.system.clock import Clock

from .reading import PollSource
from .status import Monitor

T = TypeVar("T")
Watch = Callable[[], Coroutine[Any, Any, None]]
"""A function that watches for wake-ups of other processes until it is cancelled."""

LONGEST_PAUSE: Final = 60.0
"""Seconds between two tries to store something, or to deliver a batch that has failed."""
_JITTER: Final = 0.1
_FIRST_FAILURE: Final = 1.0
_LONGEST_FAILURE: Final = 60.0
_LONGEST_RETRY_AFTER: Final = 900.0
_MOST_DOUBLINGS: Final = 16
_GAP: Final = 1.0
"""The fewest seconds between two polls, however often the poller is woken."""
_REFUSED_SECONDS: Final = 300.0
"""Seconds of refusals after which credentials that have worked count as wrong. An identity
provider may refuse valid ones during its own deployment."""
_STORE_TRIES: Final = 6
"""Tries of a save, within about half a minute, before a poller with ``once`` fails."""


class Stopped(Exception):  # noqa: N818 - nothing has failed
    """The poller was stopped, and the work that was in progress is cancelled."""


class Schedule:
    """Pauses of equal length between polls, and growing pauses after failures."""

    def __init__(self, interval: float, clock: Clock, chance: Callable[[], float]) -> None:
        self._interval = interval
        self._clock = clock
        self._chance = chance
        self._began = float("-inf")
        self._succeeded: float | None = None
        """Time of the beginning of the last successful poll, or of a new name; None if unknown."""
        self._at = float("-inf")
        self._not_before = float("-inf")
        self.retry_at: float | None = None
        """Time of the next try of a failed save; None if no save has failed."""
        self.is_woken: bool = False
        """Whether no poll has begun since the last wake-up."""
        self._is_owed = False
        self._longest = float("inf")
        """Seconds within which the poll after the current one begins."""
        self.is_urgent: bool = False
        """Whether the current poll answers a wake-up."""
        self.ends_with_poll: bool = False
        """Whether the poller stops after the current poll, or after the next one."""
        self._stopped = asyncio.Event()
        self._bell = asyncio.Event()

    @property
    def next_poll_at(self) -> float:
        """The moment at which the next poll begins."""
        if not self.is_woken:
            return self._at
        return max(self._not_before, min(self._at, self._began + _GAP))

    @property
    def next_try(self) -> float:
        """The moment of the next try of a failed save, or else of the next poll."""
        return self.next_poll_at if self.retry_at is None else self.retry_at

    @property
    def is_stopped(self) -> bool:
        """Whether the poller was stopped."""
        return self._stopped.is_set()

    def begin_poll(self, now: float) -> None:
        """Record the start of a poll, which is urgent if a wake-up is pending."""
        self._began = now
        self._longest = float("inf")
        self.is_urgent = self.is_woken or self._is_owed
        self.is_woken = self._is_owed = False

    def resume_name(self) -> None:
        """Treat the time of the last successful poll as unknown: no checkpoint contains it."""
        self._succeeded = None

    def begin_name(self, now: float) -> None:
        """Note that polling of a new name begins; earlier updates are not delivered."""
        self._succeeded = now

    def succeed(self) -> None:
        """Note that the current poll has succeeded."""
        self._succeeded = self._began
        pause = min(self._interval, self._longest)
        self._at = self._began + pause * (1 - _JITTER * self._chance())

    def hasten(self, longest: float) -> None:
        """Have the poll after the current one begin within so many seconds."""
        self._longest = max(_GAP, longest)

    def seconds_since_success(self, now: float) -> int | None:
        """Return the seconds since the last successful poll began; None if unknown."""
        return None if self._succeeded is None else ceil(now - self._succeeded)

    def fail(self, now: float, error: IncomeClientError, failures: int) -> None:
        """Note that a poll has failed, after ``failures - 1`` other failures in a row."""
        # Refused credentials end the poller after five minutes: until then they must be tried.
        is_refused = isinstance(error, AuthenticationError)
        longest = _LONGEST_FAILURE if is_refused else max(self._interval, _LONGEST_FAILURE)
        pause = self._jittered(min(longest, backoff_pause(failures)))
        retry_after = min(error.retry_after or 0.0, _LONGEST_RETRY_AFTER)
        self._not_before = now + max(retry_after, _GAP)
        self._at = now + max(pause, retry_after)
        # Only a successful poll answers a wake-up.
        self._is_owed = self.is_urgent or self.is_woken
        self.is_woken = False

    def put_off(self, now: float, longest: float) -> None:
        """Schedule another try of a failed save, within ``longest`` seconds."""
        self.retry_at = now + self._jittered(longest)

    def wake(self) -> None:
        """Begin the next poll as soon as the shortest gap between polls allows."""
        self.is_woken = True
        self._bell.set()

    def end_pause(self) -> None:
        """End the pause before the next poll, without a wake-up that the poll would answer."""
        self._at = self._not_before = float("-inf")
        self._bell.set()

    def stop(self) -> None:
        """Stop the poller: end the current wait, and all later ones at once."""
        self._stopped.set()
        self._bell.set()

    def stop_after_poll(self) -> None:
        """Stop the poller if the poll that has just ended was to be its last."""
        if self.ends_with_poll:
            self.stop()

    async def until_turn(self, watch: Watch | None = None) -> None:
        """Wait until the next poll begins or the poller is stopped, and run ``watch`` meanwhile."""
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
        """Wait until the failed action is tried again, or the poller is stopped."""
        if self.retry_at is None:
            await self.until_turn(watch)
            return
        seconds = self.retry_at - self._clock.monotonic()
        try:
            await run_unless_set(self._stopped, self._clock.sleep(max(0.0, seconds)))
        finally:
            self.retry_at = None

    async def pause(self, longest: float) -> None:
        """Wait for half of ``longest`` seconds to all of them; raise `Stopped` after a stop."""
        await self.unless_stopped(self._clock.sleep(self._jittered(longest)))

    def _jittered(self, longest: float) -> float:
        return longest * (1 + self._chance()) / 2

    async def unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine; cancel it and raise `Stopped` after a stop."""
        result = await run_unless_set(self._stopped, work)
        if result is None and self.is_stopped:
            raise Stopped
        return cast("T", result)


class Failures:
    """The failed polls and the failed saves of one poller."""

    def __init__(
        self,
        schedule: Schedule,
        monitor: Monitor,
        clock: Clock,
        source: PollSource,
    ) -> None:
        self._schedule, self._monitor = schedule, monitor
        self._clock, self._source = clock, source
        self._refused_since: float | None = None

    def note_failure(
        self,
        error: IncomeClientError,
        tries: int,
        *,
        longest_pause: float = LONGEST_PAUSE,
        is_last: bool = False,
    ) -> None:
        """Count and report the failure of try number ``tries``; raise it if it ends the poller.

        Schedules the next try: after a failure of the store within ``longest_pause`` seconds.
        ``is_last`` says that the caller will not try again.
        """
        now = self._clock.monotonic()
        if isinstance(error, AuthenticationError):
            if self._refused_since is None:
                self._refused_since = now
        elif not isinstance(error, CheckpointError):
            self._refused_since = None
        is_last = is_last or self._is_last(error, now, tries)
        if not is_last and isinstance(error, CheckpointError):
            self._schedule.put_off(now, min(longest_pause, backoff_pause(tries)))
        elif not is_last:
            self._schedule.fail(now, error, self._monitor.failures + 1)
        # After the schedule, so that listeners see the time of the next try in the status.
        self._monitor.failed(error, next_try=None if is_last else self._schedule.next_try - now)
        if is_last:
            raise error

    def note_success(self) -> None:
        """Note that the service has accepted the credentials."""
        self._refused_since = None

    def _is_last(self, error: IncomeClientError, now: float, tries: int) -> bool:
        is_single = self._schedule.ends_with_poll
        match error:
            case CheckpointError():
                return not error.retryable or (is_single and tries >= _STORE_TRIES)
            case AuthenticationError():
                since = now if self._refused_since is None else self._refused_since
                is_long = now - since >= _REFUSED_SECONDS
                return is_long or is_single or not self._source.has_answered
            case ClientClosedError() | ConfigurationError():
                return True
            case _:
                return is_single


def backoff_pause(failures: int) -> float:
    """Return the longest pause after a number of failures in a row, in seconds: 1, 2, 4, ..."""
    return _FIRST_FAILURE * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)


@asynccontextmanager
async def _running(watch: Watch | None) -> AsyncIterator[None]:
    """Run ``watch`` as a task during the block; cancel it at the end and wait for it."""
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
    """Return the result of a coroutine; cancel it and return None once an event is set."""
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
