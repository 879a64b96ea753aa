"""The arithmetic of retries: how often, after which pause, from which budget."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import retrying
from income_client.errors import (
    ConnectionFailedError,
    DeadlineExceededError,
    IncomeClientError,
    NotFoundError,
    RateLimitedError,
    ServerError,
    TokenError,
)
from income_client.pacing import Gate
from income_client.retrying import Retrier, RetryBudget, Settled, pause_at
from income_client.settings import RetryPolicy
from income_client.testing import JumpingClock

Outcome = str | Settled | IncomeClientError


def script(*outcomes: Outcome) -> tuple[Callable[[], Awaitable[Outcome]], list[Outcome]]:
    """Return an attempt that has these outcomes in turn, and the list of those left."""
    left = list(outcomes)

    async def attempt() -> Outcome:
        return left.pop(0)

    return attempt, left


def retrier(
    policy: RetryPolicy | None = None,
    *,
    chance: float = 1.0,
    budget: RetryBudget | None = None,
) -> tuple[Retrier, JumpingClock]:
    """Return a retrier whose jitter always takes this share, and its clock."""
    clock = JumpingClock()
    policy = policy or RetryPolicy()
    budget = budget or RetryBudget(policy.budget)
    return Retrier(policy, budget, clock, chance=lambda: chance), clock


async def run(
    some: tuple[Retrier, JumpingClock],
    attempt: Callable[[], Awaitable[Outcome]],
    *,
    deadline: float = 120.0,
    gate: Gate | None = None,
) -> str | IncomeClientError:
    """Run it against a deadline that begins now."""
    loop, clock = some
    return await loop.run(attempt, deadline_at=clock.monotonic() + deadline, gate=gate)


def failed(cls: type[IncomeClientError] = ServerError, after: float | None = None) -> Outcome:
    """Return some failure."""
    status = 429 if cls is RateLimitedError else None
    return cls("x", retry_after=after, status=status)


async def test_a_first_success_never_reaches_tenacity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machinery runs until something fails."""
    monkeypatch.setattr(retrying, "RetryCallState", None)
    some = retrier()
    attempt, _ = script("fine")
    assert await run(some, attempt) == "fine"
    assert some[1].slept == []


@pytest.mark.parametrize("most", [1, 2, 3, 5])
async def test_no_more_attempts_are_made_than_allowed(most: int) -> None:
    """The last failure comes out once the attempts are used up."""
    failures = [failed() for _ in range(9)]
    attempt, left = script(*failures)
    some = retrier(RetryPolicy(max_attempts=most))
    assert await run(some, attempt) is failures[most - 1]
    assert len(left) == 9 - most


async def test_pauses_double_up_to_the_longest() -> None:
    """The bound of the jitter is base times 2 to the power of the attempts, and capped."""
    attempt, _ = script(*[failed() for _ in range(5)], "fine")
    some = retrier(RetryPolicy(max_attempts=6, base_delay=0.5, max_delay=3))
    assert await run(some, attempt) == "fine"
    assert some[1].slept == [0.5, 1.0, 2.0, 3.0, 3.0]


async def test_a_throttled_call_begins_with_the_longer_pause() -> None:
    """A 429 without a pause of its own has its own base."""
    attempt, _ = script(failed(RateLimitedError), failed(RateLimitedError), "fine")
    some = retrier(chance=0.5)
    assert await run(some, attempt) == "fine"
    assert some[1].slept == [0.5, 1.0]


async def test_countless_attempts_overflow_nothing() -> None:
    """The exponent is bounded, whatever the policy allows."""
    attempt, _ = script(*[failed() for _ in range(1200)], "fine")
    policy = RetryPolicy(max_attempts=2000, max_delay=0.001, budget=10_000)
    assert await run(retrier(policy), attempt) == "fine"


@pytest.mark.parametrize("chance", [0.0, 1.0])
async def test_the_service_is_never_asked_before_it_wants(chance: float) -> None:
    """A pause is the longer one of the jitter and what the service asked for."""
    attempt, _ = script(failed(after=2), failed(after=0.01), "fine")
    some = retrier(RetryPolicy(base_delay=1), chance=chance)
    assert await run(some, attempt) == "fine"
    assert some[1].slept == [2, max(0.01, 2 * chance)]


async def test_too_long_a_pause_is_raised_at_once() -> None:
    """Beyond the cap the failure comes out, with what the service asked for."""
    attempt, left = script(failed(RateLimitedError, after=86400), "fine")
    some = retrier()
    outcome = await run(some, attempt)
    assert isinstance(outcome, RateLimitedError)
    assert outcome.retry_after == 86400
    assert (some[1].slept, left) == ([], ["fine"])


async def test_a_pause_that_outlasts_the_deadline_is_not_begun() -> None:
    """The failure comes out at once rather than after a useless wait."""
    attempt, left = script(failed(after=10), "fine")
    some = retrier()
    assert isinstance(await run(some, attempt, deadline=10), ServerError)
    assert (some[1].slept, left) == ([], ["fine"])


async def test_a_failure_that_cannot_be_cured_is_not_retried() -> None:
    """The error itself says whether it can be retried."""
    attempt, left = script(failed(NotFoundError), "fine")
    assert isinstance(await run(retrier(), attempt), NotFoundError)
    assert left == ["fine"]


async def test_a_settled_failure_is_not_retried() -> None:
    """What another loop has tried already comes out, whatever it says of itself."""
    for before in ([], [failed()]):
        settled = Settled(error=ConnectionFailedError("x"))
        attempt, left = script(*before, settled, "fine")
        assert await run(retrier(), attempt) is settled.error
        assert left == ["fine"]


async def test_an_empty_budget_ends_all_retries_and_no_first_attempt() -> None:
    """With the budget spent a call fails with its first failure; first attempts go on."""
    budget = RetryBudget(5)
    attempt, left = script(failed(), failed(), "fine")
    some = retrier(budget=budget)
    assert isinstance(await run(some, attempt), ServerError)
    assert (left, budget.left) == (["fine"], 0)
    assert await run(some, attempt) == "fine"
    assert budget.left == 1


@pytest.mark.parametrize(
    ("outcomes", "left"),
    [
        (["fine"], 81),
        ([failed(), "fine"], 80),
        ([failed(), failed(), "fine"], 75),
        ([failed(DeadlineExceededError), failed(), "fine"], 70),
        ([failed(DeadlineExceededError), failed(), failed()], 65),
        ([failed(NotFoundError)], 80),
    ],
)
async def test_a_retry_costs_and_success_gives_back(outcomes: list[Outcome], left: int) -> None:
    """A retry costs 5, after a time-out 10; the one that succeeds is free; plain success adds 1."""
    budget = RetryBudget(100)
    budget.take(20)
    attempt, _ = script(*outcomes)
    await run(retrier(budget=budget), attempt)
    assert budget.left == left


async def test_a_429_closes_the_gate_for_everyone() -> None:
    """The gate opens when the service wants to hear again, but is closed no longer than the cap."""
    for after, closed in ((7.0, 7.0), (86400.0, 60.0), (None, 1.0)):
        gate = Gate()
        attempt, _ = script(failed(RateLimitedError, after=after))
        some = retrier(RetryPolicy(max_attempts=1))
        began = some[1].monotonic()
        assert isinstance(await run(some, attempt, gate=gate), RateLimitedError)
        assert gate.remaining(began) == closed


async def test_a_throttled_purchase_closes_its_gate_too() -> None:
    """The token endpoint says 429 within a `TokenError`."""
    gate = Gate()
    error = TokenError("x", status=429, retryable=True, retry_after=7.0)
    attempt, _ = script(error)
    some = retrier(RetryPolicy(max_attempts=1))
    began = some[1].monotonic()
    assert await run(some, attempt, gate=gate) is error
    assert gate.remaining(began) == 7.0


@pytest.mark.parametrize(("deadline", "slept"), [(8.0, [7.0]), (7.0, [])])
async def test_a_gate_is_waited_for_unless_it_opens_too_late(
    deadline: float,
    slept: list[float],
) -> None:
    """Nobody waits for what will be of no use."""
    clock = JumpingClock()
    gate = Gate()
    gate.close(clock.monotonic() + 7)
    pause = await pause_at(gate, clock, deadline_at=clock.monotonic() + deadline)
    assert (pause, clock.slept) == (None if slept else 7.0, slept)


async def test_another_failure_leaves_the_gate_open() -> None:
    """A 503 with a pause concerns its own call only."""
    gate = Gate()
    attempt, _ = script(failed(after=7), "fine")
    some = retrier()
    began = some[1].monotonic()
    await run(some, attempt, gate=gate)
    assert gate.remaining(began) == 0


FAILURES = st.builds(
    failed,
    st.sampled_from([ServerError, RateLimitedError, DeadlineExceededError, NotFoundError]),
    st.none() | st.floats(0, 200),
)


@given(
    calls=st.lists(st.lists(FAILURES | st.just("fine"), min_size=1, max_size=6), max_size=8),
    capacity=st.integers(0, 40),
    most=st.integers(1, 6),
    deadline=st.floats(0.001, 300),
    chance=st.floats(0, 1),
)
def test_whatever_happens_the_limits_hold(
    calls: list[list[Outcome]],
    capacity: int,
    most: int,
    deadline: float,
    chance: float,
) -> None:
    """Pauses end before the deadline, attempts and budget stay in their bounds."""
    budget = RetryBudget(capacity)
    some = retrier(RetryPolicy(max_attempts=most), chance=chance, budget=budget)

    async def play(outcomes: list[Outcome]) -> None:
        attempt, left = script(*outcomes, "fine")
        began = some[1].monotonic()
        slept = len(some[1].slept)
        await run(some, attempt, deadline=deadline)
        pauses = some[1].slept[slept:]
        # A clock that stands at a million seconds rounds off what is beyond nanoseconds.
        latest = deadline + 1e-6
        assert some[1].monotonic() - began <= latest
        assert all(pause < latest for pause in pauses)
        assert len(outcomes) + 1 - len(left) == len(pauses) + 1 <= most
        assert 0 <= budget.left <= capacity

    for outcomes in calls:
        asyncio.run(play(outcomes))


def test_the_jitter_is_spread_evenly() -> None:
    """Pauses of many calls fill the whole range."""
    policy = RetryPolicy(max_attempts=2, base_delay=1, budget=100_000)
    clock = JumpingClock()
    loop = Retrier(policy, RetryBudget(policy.budget), clock)

    async def many() -> None:
        for _ in range(2000):
            attempt, _ = script(failed(), "fine")
            await loop.run(attempt, deadline_at=clock.monotonic() + 10)

    asyncio.run(many())
    fifths = [sum(n / 5 <= pause < (n + 1) / 5 for pause in clock.slept) for n in range(5)]
    assert sum(fifths) == 2000
    assert all(300 < count < 500 for count in fifths)
