"""Decide when a request may go out, how long it may take, and whether it is sent again.

Sends nothing itself: a loop makes the attempts, and asks `Retries` after each that has failed. Then
tenacity's strategies, or the caller's, decide about the pause and the end. Knows nothing of HTTP:
errors say themselves whether they can be retried and how long the service asks to be left alone.
All moments are of a monotonic clock, in seconds.
"""

import logging
import math
import random
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from tenacity import AsyncRetrying, RetryCallState, stop_after_attempt, wait_exponential

from income_client.errors import DeadlineExceededError, IncomeClientError, copy_without_traceback
from income_client.settings import RetryPolicy
from income_client.system.clock import Clock
from income_client.system.logs import GuardedLogger

Chance = Callable[[], float]

_LOGGER: Final = GuardedLogger("income_client.session")
_COST: Final = 5
_COST_AFTER_TIMEOUT: Final = 10
_REWARD: Final = 1
_LATEST: Final = 0.1
"""Seconds by which the timers of a busy event loop are late."""


class Gate:
    """A gate in front of all requests, closed while the service asks for a pause."""

    __slots__ = ("opens_at",)

    def __init__(self) -> None:
        self.opens_at: float = -math.inf

    def close(self, until: float) -> None:
        """Close the gate until a moment, unless it is already closed for longer."""
        self.opens_at = max(self.opens_at, until)

    async def wait(self, clock: Clock, deadline_at: float) -> float | None:
        """Wait until the gate opens; if that is too late, return the seconds until then at once."""
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
        """Add a call at the end of the queue, or with ``ahead`` after the calls that are ahead."""
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

    def take_turn(self, ready_at: float, now: float) -> None:
        """Take the next turn, for a call that was ready at ``ready_at`` and is sent now."""
        # Not counted from the present: each timer that is late would slow down all that follow.
        self._next_at = max(self._next_at, ready_at, now - _LATEST) + self._interval


class RetryBudget:
    """Limits the retries of all calls of a client, so that they do not make an outage worse."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._points = capacity

    def pay(self, cost: int) -> bool:
        """Pay for a retry, or return False if the budget does not suffice."""
        if cost > self._points:
            return False
        self._points -= cost
        return True

    def refund(self, amount: int = _REWARD) -> None:
        """Put back the cost of a retry that succeeded, or 1 for a plain success."""
        self._points = min(self._capacity, self._points + amount)


class Retries:
    """The attempts of one call: their number, their cost, and the pauses between them.

    ``seconds`` is the time of the whole call, from now on. ``chance`` gives numbers from 0 to 1,
    evenly; tests put in their own.
    """

    __slots__ = (
        "_budget",
        "_chance",
        "_clock",
        "_paid",
        "_policy",
        "_state",
        "began_at",
        "ends_at",
    )

    def __init__(
        self,
        policy: RetryPolicy,
        budget: RetryBudget,
        clock: Clock,
        *,
        seconds: float = math.inf,
        chance: Chance = random.random,
    ) -> None:
        self._policy = policy
        self._budget = budget
        self._clock = clock
        self._chance = chance
        self._paid = _REWARD
        self._state: RetryCallState | None = None
        self.began_at: float = clock.monotonic()
        self.ends_at: float = self.began_at + seconds

    def pause_after(self, error: IncomeClientError, gate: Gate | None = None) -> float | None:
        """Pay for another attempt and return the seconds until then; None if there is none.

        A 429 closes the gate for as long as the service asks.
        """
        if not error.retryable:
            return None
        policy, now = self._policy, self._clock.monotonic()
        pause, is_over = self._consult_strategies(error, now)
        if gate is not None and _is_throttled(error):
            gate.close(now + min(pause, policy.max_retry_after))
        if is_over or now + pause >= self.ends_at:
            return None
        cost = _COST_AFTER_TIMEOUT if isinstance(error, DeadlineExceededError) else _COST
        if not self._budget.pay(cost):
            return None
        self._paid = cost
        _log_retry(error, pause)
        return pause

    def succeed(self) -> None:
        """Return the cost of the last attempt to the budget, or the reward for a first success."""
        self._budget.refund(self._paid)

    def _consult_strategies(self, error: IncomeClientError, now: float) -> tuple[float, bool]:
        """Return the pause after an attempt that failed, and whether it was the last one."""
        policy = self._policy
        if self._state is None:
            strategies = AsyncRetrying(wait=_wait_of(policy, self._chance), stop=_stop_of(policy))
            self._state = RetryCallState(strategies, None, (), {})
            self._state.start_time = self.began_at
        state = self._state
        # A copy: strategies may be the caller's, and frames of ours hold headers and replies.
        state.set_exception((type(error), copy_without_traceback(error), None))
        state.outcome_timestamp = now
        retry_after = error.retry_after or 0.0
        pause = max(retry_after, min(policy.max_delay, state.retry_object.wait(state)))
        state.upcoming_sleep = pause
        is_over = retry_after > policy.max_retry_after or state.retry_object.stop(state)
        state.prepare_for_next_attempt()
        state.idle_for += pause
        return pause, is_over


def _wait_of(policy: RetryPolicy, chance: Chance) -> Callable[[RetryCallState], float]:
    """Return the caller's strategy for pauses, or full jitter under a bound that doubles."""
    if policy.wait is not None:
        return policy.wait
    bound = wait_exponential(multiplier=policy.base_delay, max=policy.max_delay)
    throttled = wait_exponential(multiplier=policy.throttled_delay, max=policy.max_delay)

    def wait(state: RetryCallState) -> float:
        failure = None if state.outcome is None else state.outcome.exception()
        return chance() * (throttled if _is_throttled(failure) else bound)(state)

    return wait


def _stop_of(policy: RetryPolicy) -> Callable[[RetryCallState], bool]:
    """Return the caller's strategy for the end, or a number of attempts."""
    return policy.stop or stop_after_attempt(policy.max_attempts)


def _is_throttled(error: BaseException | None) -> bool:
    # The API answers 429 with a class of its own, the token endpoint within its TokenError.
    return isinstance(error, IncomeClientError) and error.status == HTTPStatus.TOO_MANY_REQUESTS


def _log_retry(error: IncomeClientError, pause: float) -> None:
    if _LOGGER.isEnabledFor(logging.INFO):
        facts = {"error": type(error).__name__, "status": error.status, "pause": pause}
        _LOGGER.info("%s, again in %.3f s", error.message, pause, extra=facts)
