"""The caller's own strategies for pauses and for the end, and the limits that hold all the same."""

from pathlib import Path
from typing import Any, Final

import pytest
from tenacity import (
    RetryCallState,
    stop_after_attempt,
    stop_after_delay,
    stop_before_delay,
    stop_never,
    wait_chain,
    wait_exponential_jitter,
    wait_fixed,
)

from income_client import (
    IncomeClientError,
    RetryPolicy,
    ServerError,
    Timeouts,
)
from income_client.testing import JumpingClock
from tests.support.clients import BASIC, OAUTH, ask, hosting, running
from tests.support.server import Answer, Reply, in_turn, reply, token_reply

SECRET: Final = "invented"


async def pauses(answer: Answer, policy: RetryPolicy, **options: Any) -> list[float]:
    """Make a call that fails, and return the pauses between its attempts."""
    clock = JumpingClock()
    usual: dict[str, Any] = {"auth": BASIC, "clock": clock, "retry": policy}
    async with running(answer, **usual | options) as (service, client):
        with pytest.raises(IncomeClientError) as caught:
            await ask(client)
        assert caught.value.attempts == len(service.calls) == len(clock.slept) + 1
    return clock.slept


def chosen(wait: object, stop: object, **limits: Any) -> RetryPolicy:
    """Return a policy with strategies."""
    return RetryPolicy(wait=wait, stop=stop, **limits)  # type: ignore[arg-type]


SUM: Final = wait_fixed(1) + wait_fixed(2)
CHAIN: Final = wait_chain(wait_fixed(1), wait_fixed(3))
GROWING: Final = wait_exponential_jitter(max=5, jitter=0)
AFTER: Final = stop_after_attempt


@pytest.mark.parametrize(
    ("answer", "policy", "expected"),
    [
        # Those of tenacity, alone and combined, and a function
        (reply(500), chosen(CHAIN, AFTER(4)), [1, 3, 3]),
        (reply(500), chosen(SUM, AFTER(2)), [3]),
        (reply(500), chosen(GROWING, AFTER(5)), [1, 2, 4, 5]),
        (reply(500), chosen(wait_fixed(4), AFTER(9) | stop_after_delay(10)), [4, 4, 4]),
        (reply(500), chosen(wait_fixed(4), AFTER(9) | stop_before_delay(10)), [4, 4]),
        (reply(500), chosen(wait_fixed(4), AFTER(2) & stop_after_delay(10)), [4, 4, 4]),
        (reply(500), chosen(lambda at: at.idle_for + at.attempt_number, AFTER(4)), [1, 3, 7]),
        # Where one is not given, the fields of the policy decide
        (reply(500), chosen(wait_fixed(2), None, max_attempts=4), [2, 2, 2]),
        (reply(500), chosen(None, AFTER(5), base_delay=0), [0, 0, 0, 0]),
        # The longest pause, what the service asks for, its verdict, and the budget of all calls
        (reply(500), chosen(wait_fixed(10), AFTER(3), max_delay=3), [3, 3]),
        (reply(503, Retry_After="12"), chosen(wait_fixed(10), AFTER(3)), [12, 12]),
        (reply(503, Retry_After="61"), chosen(wait_fixed(10), AFTER(3)), []),
        (reply(429, Retry_After="61"), chosen(wait_fixed(10), AFTER(3)), []),
        (reply(404), chosen(wait_fixed(10), AFTER(3)), []),
        (reply(500), chosen(wait_fixed(10), AFTER(3), budget=5), [10]),
    ],
)
async def test_strategies_decide_about_pauses_and_the_end(
    answer: Reply, policy: RetryPolicy, expected: list[float]
) -> None:
    """By the time of the client's clock, and within the other limits."""
    assert await pauses(in_turn(answer), policy) == expected


async def test_the_deadline_ends_a_call_whose_strategy_never_does() -> None:
    policy = RetryPolicy(wait=wait_fixed(20), stop=stop_never)
    timeouts = Timeouts(deadline=50)
    assert await pauses(in_turn(reply(500)), policy, timeouts=timeouts) == [20, 20]


async def test_a_strategy_sees_the_failure_and_none_of_our_frames() -> None:
    """It knows the error, the attempt and the time, and cannot log a header or a reply."""
    seen: list[tuple[int, float | None]] = []

    def wait(state: RetryCallState) -> float:
        assert state.outcome is not None
        error = state.outcome.exception()
        assert isinstance(error, ServerError)
        assert error.__traceback__ is None
        assert SECRET not in repr(state)
        seen.append((state.attempt_number, state.seconds_since_start))
        return 3

    await pauses(in_turn(reply(500)), RetryPolicy(wait=wait))
    assert seen == [(1, 0), (2, 3), (3, 6)]


async def test_a_strategy_with_a_bug_ends_the_call() -> None:
    """What it raises comes out as it is, and is not retried."""

    def wait(state: RetryCallState) -> float:
        raise KeyError(state.attempt_number)

    clock = JumpingClock()
    options: dict[str, Any] = {"auth": BASIC, "clock": clock, "retry": RetryPolicy(wait=wait)}
    async with running(in_turn(reply(500)), **options) as (service, client):
        with pytest.raises(KeyError) as caught:
            await ask(client)
        assert len(service.calls) == 1
    assert "in wait" in "".join(caught.value.__notes__)


SEVEN: Final = chosen(wait_fixed(7), AFTER(2))


async def test_token_requests_and_views_use_strategies_too() -> None:
    clock = JumpingClock()
    options: dict[str, Any] = {"auth": OAUTH, "clock": clock, "retry": SEVEN}
    failing = in_turn(reply(503), reply(503), token_reply())
    async with running(in_turn(reply(500)), failing, **options) as (service, client):
        with pytest.raises(IncomeClientError):
            await ask(client)
        assert (service.token_requests, clock.slept) == (2, [7])
        view = client.with_options(retry=RetryPolicy(wait=wait_fixed(9), max_attempts=2))
        with pytest.raises(ServerError):
            await ask(view)
    assert clock.slept == [7, 9]


async def test_downloads_use_the_same_strategies(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with hosting(in_turn(reply(500)), clock=clock, retry=SEVEN) as (client, document, _):
        with pytest.raises(IncomeClientError):
            await client.download(document, tmp_path / "slip")
    assert clock.slept == [7]
