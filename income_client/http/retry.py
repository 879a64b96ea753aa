"""Whether a failed request is made again, and when: a `RetryPolicy` as tenacity's rules.

The first attempt is awaited plainly: nothing here runs until it has failed.
From then on tenacity's stop, retry and wait objects decide, asked with a call
state that starts at that failure. Knows nothing of HTTP: errors say
themselves whether they can be retried and how long the service wants peace.
"""

import logging
import random
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, TypeVar

from attrs import frozen
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exception,
)
from tenacity.wait import wait_base

from income_client.clock import Clock
from income_client.errors import DeadlineExceededError, IncomeClientError
from income_client.settings import RetryPolicy

from .pacing import Gate

T = TypeVar("T")
Chance = Callable[[], float]
OnRetry = Callable[[IncomeClientError, float], object]
"""Is given a failure, and the seconds until the next attempt."""

_LOGGER: Final = logging.getLogger("income_client.session")
_COST: Final = 5
_COST_AFTER_TIMEOUT: Final = 10
_REWARD: Final = 1
_MOST_DOUBLINGS: Final = 64


async def pause_at(gate: Gate, clock: Clock, *, deadline_at: float) -> float | None:
    """Wait until a gate is open; return at once if that is too late.

    Args:
        gate: closed while the service wants peace.
        clock: what its moments are of.
        deadline_at: the moment from which on it is too late.

    Returns:
        None once it is open, or the seconds that it stays closed beyond use.
    """
    now = clock.monotonic()
    while (seconds := gate.remaining(now)) > 0:
        if now + seconds >= deadline_at:
            return seconds
        await clock.sleep(seconds)
        now = clock.monotonic()
    return None


class RetryBudget:
    """What all calls of a client may spend on retries, so that an outage is not made worse.

    Args:
        capacity: tokens at the start and at most.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._left = capacity

    @property
    def left(self) -> int:
        """Tokens that can be spent now."""
        return self._left

    def take(self, cost: int) -> bool:
        """Pay for a retry; False, and nothing is paid, if the budget does not hold that much."""
        if cost > self._left:
            return False
        self._left -= cost
        return True

    def give(self, amount: int = _REWARD) -> None:
        """Put tokens back: the cost of a retry that succeeded, or 1 for a plain success."""
        self._left = min(self._capacity, self._left + amount)


@frozen(kw_only=True)
class Settled:
    """A failure that is not this loop's to retry: another loop tried, or no attempt can help."""

    error: IncomeClientError
    """What the call ends with."""


@frozen(kw_only=True)
class Verdict:
    """What follows from one failure."""

    pause: float
    """Seconds for which the service should be left alone."""
    is_last: bool
    """Whether the failure is what the call ends with."""


class Retrier:
    """Makes attempts until one succeeds or the policy, the deadline or the budget says no.

    Args:
        policy: when and how often.
        budget: shared by all calls of a client.
        clock: sleeps through the pauses.
        chance: gives numbers from 0 to 1, evenly; tests put in their own.
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
        self._rules = Retrying(
            stop=stop_after_attempt(policy.max_attempts),
            retry=retry_if_exception(_is_retryable),
            wait=_Longest(wait_exception(_asked_pause), _FullJitter(policy, chance)),
        )

    def with_policy(self, policy: RetryPolicy) -> "Retrier":
        """Return one with another policy that spends the same budget."""
        return Retrier(policy, self._budget, self._clock, chance=self._chance)

    async def run(
        self,
        attempt: Callable[[], Awaitable[T | Settled | IncomeClientError]],
        *,
        deadline_at: float,
        gate: Gate | None = None,
        on_retry: OnRetry | None = None,
    ) -> T | IncomeClientError:
        """Make the first attempt, and after failures that allow it, further ones.

        Args:
            attempt: makes one; returns its result or its failure, raises neither.
            deadline_at: no pause ends after this moment of the clock.
            gate: closed by a 429 for as long as the service wants peace.
            on_retry: told of each failure that is followed by another attempt.

        Returns:
            The first success, or the last failure.
        """
        outcome = await attempt()
        if isinstance(outcome, Settled):
            return outcome.error
        if not isinstance(outcome, IncomeClientError):
            self._budget.give()
            return outcome
        retries = _Retries(self._policy, self._rules, self._budget)
        while True:
            now = self._clock.monotonic()
            verdict = retries.after(outcome, left=deadline_at - now)
            if gate is not None and _is_throttled(outcome):
                gate.close(now + min(verdict.pause, self._policy.max_retry_after))
            if verdict.is_last:
                return outcome
            _log_retry(outcome, verdict.pause)
            if on_retry is not None:
                on_retry(outcome, verdict.pause)
            await self._clock.sleep(verdict.pause)
            outcome = await attempt()
            if isinstance(outcome, Settled):
                return outcome.error
            if not isinstance(outcome, IncomeClientError):
                retries.succeeded()
                return outcome


class _Retries:
    """The retries of one call, from its first failure on."""

    def __init__(self, policy: RetryPolicy, rules: Retrying, budget: RetryBudget) -> None:
        self._policy = policy
        self._rules = rules
        self._budget = budget
        self._state = RetryCallState(rules, fn=None, args=(), kwargs={})
        self._paid = 0

    def after(self, error: IncomeClientError, *, left: float) -> Verdict:
        """Decide what follows from a failure with this many seconds left."""
        state = self._state
        state.set_exception((type(error), error, None))
        pause = self._rules.wait(state)
        is_last = (
            not self._rules.retry(state)
            or self._rules.stop(state)
            or _asked_pause(error) > self._policy.max_retry_after
            or pause >= left
            or not self._pay(error)
        )
        state.prepare_for_next_attempt()
        return Verdict(pause=pause, is_last=is_last)

    def succeeded(self) -> None:
        """Put back what the retry that succeeded has cost."""
        self._budget.give(self._paid)

    def _pay(self, error: IncomeClientError) -> bool:
        is_timeout = isinstance(error, DeadlineExceededError)
        self._paid = _COST_AFTER_TIMEOUT if is_timeout else _COST
        return self._budget.take(self._paid)


class _FullJitter(wait_base):
    """Evenly between 0 and a bound that doubles with every attempt."""

    def __init__(self, policy: RetryPolicy, chance: Chance) -> None:
        self._policy = policy
        self._chance = chance

    def __call__(self, retry_state: RetryCallState) -> float:
        error = None if retry_state.outcome is None else retry_state.outcome.exception()
        policy = self._policy
        first = policy.throttled_delay if _is_throttled(error) else policy.base_delay
        doublings = min(retry_state.attempt_number - 1, _MOST_DOUBLINGS)
        return self._chance() * min(policy.max_delay, first * 2.0**doublings)


class _Longest(wait_base):
    """The longest of several pauses."""

    def __init__(self, *waits: wait_base) -> None:
        self._waits = waits

    def __call__(self, retry_state: RetryCallState) -> float:
        return max(wait(retry_state) for wait in self._waits)


def _is_retryable(error: BaseException) -> bool:
    return isinstance(error, IncomeClientError) and error.retryable


def _is_throttled(error: BaseException | None) -> bool:
    # The API says it with a class of its own, the token endpoint within its TokenError.
    return getattr(error, "status", None) == HTTPStatus.TOO_MANY_REQUESTS


def _asked_pause(error: BaseException) -> float:
    return getattr(error, "retry_after", None) or 0.0


def _log_retry(error: IncomeClientError, pause: float) -> None:
    if _LOGGER.isEnabledFor(logging.INFO):
        facts = {"error": type(error).__name__, "status": error.status, "pause": pause}
        _LOGGER.info("%s, again in %.3f s", error.message, pause, extra=facts)
