"""Decide when a request may go out, how long it may take, and whether it is sent again.

The first attempt is awaited plainly: tenacity runs only after it has failed. Knows nothing of HTTP:
errors say themselves whether they can be retried and how long the service asks to be left alone.
All moments are of a monotonic clock, in seconds.
"""

import asyncio
import logging
import math
import random
import traceback
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from income_client.clock import Clock
from income_client.errors import DeadlineExceededError, IncomeClientError
from income_client.settings import RetryPolicy

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")
Chance = Callable[[], float]
OnRetry = Callable[[IncomeClientError, float], object]
"""Is called with a failure and the seconds until the next attempt."""

_LOGGER: Final = logging.getLogger("income_client.session")
_COST: Final = 5
_COST_AFTER_TIMEOUT: Final = 10
_REWARD: Final = 1
_LATEST: Final = 0.1
"""Seconds by which the timers of a busy event loop are late."""


class Gate:
    """Holds all requests back while the service asks to be left alone."""

    __slots__ = ("opens_at",)

    def __init__(self) -> None:
        self.opens_at: float = -math.inf

    def close(self, until: float) -> None:
        """Keep the gate closed until this moment, or longer if it is already."""
        self.opens_at = max(self.opens_at, until)

    async def wait(self, clock: Clock, deadline_at: float) -> float | None:
        """Wait until it is open, or return at once the seconds until then if that is too late."""
        while (seconds := self.opens_at - clock.monotonic()) > 0:
            if self.opens_at >= deadline_at:
                return seconds
            await clock.sleep(seconds)
        return None


class Pacer:
    """Spaces requests evenly, at a number of them per second, in the order of a queue.

    A turn is taken only when it is used: a call that has to wait for something else meanwhile
    keeps its place.
    """

    __slots__ = ("_ahead", "_interval", "_line", "_next_at")

    def __init__(self, rate: float) -> None:
        self._interval = 1.0 / rate
        self._next_at = -math.inf
        self._line: list[object] = []
        self._ahead = 0

    def join(self, call: object, *, ahead: bool = False) -> None:
        """Put a call at the end of the queue, or behind those that went ahead of the others."""
        if ahead:
            self._line.insert(self._ahead, call)
            self._ahead += 1
        else:
            self._line.append(call)

    def leave(self, call: object) -> None:
        """Remove a call from the queue."""
        place = self._line.index(call)
        self._ahead -= place < self._ahead
        del self._line[place]

    def turn_of(self, call: object, ready_at: float) -> float:
        """Return the moment of a queued call's turn, as far as is known by now."""
        return max(self._next_at, ready_at) + self._line.index(call) * self._interval

    def take(self, ready_at: float, now: float) -> None:
        """Take the next turn, for a call that was ready at ``ready_at`` and is sent now."""
        # Not counted from the present: each timer that is late would slow down all that follow.
        self._next_at = max(self._next_at, ready_at, now - _LATEST) + self._interval


class RetryBudget:
    """Limits what all calls of a client spend on retries, so that an outage is not made worse."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._left = capacity

    def take(self, cost: int) -> bool:
        """Pay for a retry, or return False if there is not that much left."""
        if cost > self._left:
            return False
        self._left -= cost
        return True

    def give(self, amount: int = _REWARD) -> None:
        """Put back the cost of a retry that succeeded, or 1 for a plain success."""
        self._left = min(self._capacity, self._left + amount)


class FinalError(Exception):
    """Carries a failure that a retry cannot help to the caller of `Retrier`."""

    def __init__(self, error: IncomeClientError) -> None:
        super().__init__()
        self.error = error


class Retrier:
    """Makes attempts until one succeeds or the policy, the deadline or the budget forbids more.

    ``chance`` gives numbers from 0 to 1, evenly; tests put in their own.
    """

    def __init__(
        self,
        policy: RetryPolicy,
        budget: RetryBudget,
        clock: Clock,
        *,
        chance: Chance = random.random,
    ) -> None:
        self._policy = policy
        self._budget = budget
        self._clock = clock
        self._chance = chance

    def with_policy(self, policy: RetryPolicy) -> "Retrier":
        """Return one with another policy that spends the same budget."""
        return Retrier(policy, self._budget, self._clock, chance=self._chance)

    async def run(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        deadline_at: float,
        gate: Gate | None = None,
        on_retry: OnRetry | None = None,
    ) -> T:
        """Make the first attempt, and further ones after failures that allow it.

        No pause ends after ``deadline_at``, a moment of the clock. A 429 closes the gate for as
        long as the service asks.
        """
        try:
            result = await attempt()
        except IncomeClientError as error:
            first = _emptied(error)
        else:
            self._budget.give()
            return result
        return await self._retry(first, attempt, deadline_at, gate, on_retry)

    async def _retry(
        self,
        first: IncomeClientError,
        attempt: Callable[[], Awaitable[T]],
        deadline_at: float,
        gate: Gate | None,
        on_retry: OnRetry | None,
    ) -> T:
        """Let tenacity make the further attempts; it is given the first failure as its own."""
        # Not before something has failed: it takes longer to import than a call lasts.
        from tenacity import (  # noqa: PLC0415
            AsyncRetrying,
            retry_if_exception,
            wait_exponential,
        )

        policy = self._policy
        bound = wait_exponential(multiplier=policy.base_delay, max=policy.max_delay)
        throttled = wait_exponential(multiplier=policy.throttled_delay, max=policy.max_delay)
        failures = [first]
        paid = 0

        async def next_attempt() -> T:
            if failures:
                raise failures.pop()
            try:
                return await attempt()
            except IncomeClientError as error:
                failure = _emptied(error)
            raise failure

        def wait(state: "RetryCallState") -> float:
            # What the service asks for, or full jitter if that is longer.
            error = _failure(state)
            longest = throttled(state) if _is_throttled(error) else bound(state)
            return max(error.retry_after or 0.0, self._chance() * longest)

        def stop(state: "RetryCallState") -> bool:
            nonlocal paid
            error, pause, now = _failure(state), state.upcoming_sleep, self._clock.monotonic()
            if gate is not None and _is_throttled(error):
                gate.close(now + min(pause, policy.max_retry_after))
            paid = _COST_AFTER_TIMEOUT if isinstance(error, DeadlineExceededError) else _COST
            return (
                state.attempt_number >= policy.max_attempts
                or (error.retry_after or 0.0) > policy.max_retry_after
                or now + pause >= deadline_at
                or not self._budget.take(paid)
            )

        def before_sleep(state: "RetryCallState") -> None:
            error, pause = _failure(state), state.upcoming_sleep
            _log_retry(error, pause)
            if on_retry is not None:
                on_retry(error, pause)

        retrying = AsyncRetrying(
            sleep=self._clock.sleep,
            retry=retry_if_exception(_is_retryable),
            wait=wait,
            stop=stop,
            before_sleep=before_sleep,
            reraise=True,
        )
        result: T = await retrying(next_attempt)
        self._budget.give(paid)
        return result


def _emptied(error: IncomeClientError) -> IncomeClientError:
    """Return a copy of an error, and clear its frames: they hold a reply, which may be large."""
    traceback.clear_frames(error.__traceback__)
    return error.again()


def _failure(state: "RetryCallState") -> IncomeClientError:
    """Return what the last attempt raised, which was found to be retryable."""
    error = None if state.outcome is None else state.outcome.exception()
    if not isinstance(error, IncomeClientError):
        raise TypeError("only errors of this package are retried")
    return error


def _is_retryable(error: BaseException) -> bool:
    return isinstance(error, IncomeClientError) and error.retryable


def _is_throttled(error: IncomeClientError) -> bool:
    # The API answers 429 with a class of its own, the token endpoint within its TokenError.
    return error.status == HTTPStatus.TOO_MANY_REQUESTS


def _log_retry(error: IncomeClientError, pause: float) -> None:
    if _LOGGER.isEnabledFor(logging.INFO):
        facts = {"error": type(error).__name__, "status": error.status, "pause": pause}
        _LOGGER.info("%s, again in %.3f s", error.message, pause, extra=facts)


class Deadlines:
    """Limits blocks of tasks to the same number of seconds of real time.

    Does what `asyncio.timeout` does, for blocks that all have the same limit: they end in the
    order in which they began, so that one timer, set for the oldest, is enough. A block that ends
    in time costs an entry in a dict.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.running: dict[Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, deadline: "Deadline") -> None:
        """Start the time of a deadline, or start it again."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._timer = loop, None
            self.running.clear()
        self.running.pop(deadline, None)
        self.running[deadline] = None
        deadline.ends_at = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_at(deadline.ends_at, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for deadline in list(self.running):
            if deadline.ends_at > now:
                self._timer = loop.call_at(deadline.ends_at, self._sweep, loop)
                return
            del self.running[deadline]
            # Where the loop was held up, what came in the meantime is taken in first.
            loop.call_soon(deadline.expire, now)


class Deadline:
    """A block that is cancelled once its time is up, which begins with `Deadlines.start`."""

    __slots__ = ("_cancelling", "_deadlines", "_is_expiring", "_task", "ends_at", "has_passed")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._is_expiring = False
        self.ends_at: float = math.inf
        self.has_passed: bool = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline is for the block of a task")
        self._task = task
        self._cancelling = task.cancelling()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._deadlines.running.pop(self, None)
        self.ends_at = math.inf
        # A cancellation from outside continues, also one that came at the same time.
        if self._is_expiring and self._task.uncancel() <= self._cancelling:
            self.has_passed = kind is asyncio.CancelledError
        return self.has_passed

    def expire(self, now: float) -> None:
        """End the block, unless its time was started again."""
        if self.ends_at <= now:
            self._is_expiring = True
            self._task.cancel()
