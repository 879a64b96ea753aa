"""The caller's own strategies for pauses and for the end, and the limits that hold all the same."""

import asyncio
import gc
import subprocess
import sys
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
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from income_client import (
    IncomeClient,
    IncomeClientError,
    RetryPolicy,
    ServerError,
    Timeouts,
)
from income_client.emulator import Emulator, Fault
from income_client.http.endpoints import Response
from income_client.testing import JumpingClock
from tests.support.clients import BASIC, OAUTH, ask, running
from tests.support.server import EMPTY_PAGE, Answer, Reply, in_turn, reply

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


@pytest.mark.parametrize(
    ("wait", "stop", "expected"),
    [
        (wait_chain(wait_fixed(1), wait_fixed(3)), stop_after_attempt(4), [1, 3, 3]),
        (wait_fixed(1) + wait_fixed(2), stop_after_attempt(2), [3]),
        (wait_exponential_jitter(max=5, jitter=0), stop_after_attempt(5), [1, 2, 4, 5]),
        (wait_fixed(4), stop_after_attempt(9) | stop_after_delay(10), [4, 4, 4]),
        (wait_fixed(4), stop_after_attempt(9) | stop_before_delay(10), [4, 4]),
        (wait_fixed(4), stop_after_attempt(2) & stop_after_delay(10), [4, 4, 4]),
        (lambda state: state.idle_for + state.attempt_number, stop_after_attempt(4), [1, 3, 7]),
    ],
    ids=["chain", "sum", "exponential", "delay", "before", "both", "function"],
)
async def test_strategies_decide_about_pauses_and_the_end(
    wait: wait_base, stop: stop_base, expected: list[float]
) -> None:
    """Those of tenacity work, alone and combined, by the time of the client's clock."""
    policy = RetryPolicy(wait=wait, stop=stop)
    assert await pauses(in_turn(reply(500)), policy) == expected


async def test_a_strategy_alone_leaves_the_other_rule_as_it_is() -> None:
    """Either of the two may be given, and the policy's fields decide about the other."""
    policy = RetryPolicy(wait=wait_fixed(2), max_attempts=4)
    assert await pauses(in_turn(reply(500)), policy) == [2, 2, 2]
    policy = RetryPolicy(stop=stop_after_attempt(5), base_delay=0)
    assert await pauses(in_turn(reply(500)), policy) == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("answer", "limits", "expected"),
    [
        (reply(500), {"max_delay": 3}, [3, 3]),
        (reply(503, Retry_After="12"), {}, [12, 12]),
        (reply(503, Retry_After="61"), {}, []),
        (reply(429, Retry_After="61"), {}, []),
        (reply(404), {}, []),
        (reply(500), {"budget": 5}, [10]),
    ],
    ids=["longest pause", "asked", "asked too long", "throttled too long", "permanent", "budget"],
)
async def test_the_other_limits_hold_on_top_of_strategies(
    answer: Reply, limits: dict[str, Any], expected: list[float]
) -> None:
    """A strategy neither overrules the service, nor the policy, nor the budget of all calls."""
    policy = RetryPolicy(wait=wait_fixed(10), stop=stop_after_attempt(3), **limits)
    assert await pauses(in_turn(answer), policy) == expected


async def test_the_deadline_ends_a_call_whose_strategy_never_does() -> None:
    policy = RetryPolicy(wait=wait_fixed(20), stop=stop_never)
    timeouts = Timeouts(deadline=50)
    assert await pauses(in_turn(reply(500)), policy, timeouts=timeouts) == [20, 20]


async def test_a_view_has_strategies_of_its_own() -> None:
    clock = JumpingClock()
    options: dict[str, Any] = {"auth": BASIC, "clock": clock}
    async with running(in_turn(reply(500)), **options) as (_, client):
        view = client.with_options(retry=RetryPolicy(wait=wait_fixed(7), max_attempts=2))
        with pytest.raises(ServerError):
            await ask(view)
    assert clock.slept == [7]


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


async def test_token_requests_use_the_same_strategies() -> None:
    clock = JumpingClock()
    policy = RetryPolicy(wait=wait_fixed(7), stop=stop_after_attempt(2))
    options: dict[str, Any] = {"auth": OAUTH, "clock": clock, "retry": policy}
    failing = in_turn(reply(503))
    async with running(in_turn(EMPTY_PAGE), failing, **options) as (service, client):
        with pytest.raises(IncomeClientError):
            await ask(client)
        assert service.token_requests == 2
    assert clock.slept == [7]


async def test_downloads_use_the_same_strategies(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with (
        Emulator(3, clock=clock) as service,
        IncomeClient(
            service.url,
            auth=service.basic,
            clock=clock,
            retry=RetryPolicy(wait=wait_fixed(7), stop=stop_after_attempt(2)),
            downloads=service.download_policy,
        ) as client,
    ):
        documents = await client.get_documents(service.world.ids[0])
        (_, document), *_ = documents.all()
        service.faults.add(Fault("status", call="file", times=2))
        with pytest.raises(IncomeClientError):
            await client.download(document, tmp_path / "slip")
    assert clock.slept == [7]


def replies_in_memory() -> int:
    """Count the replies that are held, those of earlier tests of this process included."""
    return sum(isinstance(one, Response) for one in gc.get_objects())


class WatchingClock(JumpingClock):
    """Notes at each pause how many replies there are in memory."""

    replies: Final[list[int]] = []

    async def sleep(self, seconds: float) -> None:
        """Count before time passes."""
        self.replies.append(replies_in_memory())
        await super().sleep(seconds)


async def test_a_failed_attempt_does_not_keep_its_reply_through_the_pause() -> None:
    """Neither its frames nor its error hold it, though the collector has not run."""
    clock = WatchingClock()
    cut = reply(200, b'{"updated_after": "2026-01-')
    gc.collect()
    of_others = replies_in_memory()
    gc.disable()
    try:
        async with running(in_turn(cut), auth=BASIC, clock=clock) as (_, client):
            with pytest.raises(IncomeClientError):
                await ask(client)
    finally:
        gc.enable()
    assert clock.replies == [of_others, of_others]


_PROGRAM: Final = """
import asyncio, sys
from income_client import IncomeClient
from income_client.emulator import Emulator, Fault

async def main():
    async with Emulator(3) as service, IncomeClient(service.url, auth=service.oauth2) as client:
        await client.get_application(service.world.ids[0])
        print("tenacity" in sys.modules)
        service.faults.add(Fault("status"))
        await client.get_application(service.world.ids[0])
        print("tenacity" in sys.modules)

asyncio.run(main())
"""


async def test_first_attempts_do_without_tenacity() -> None:
    """It is imported when something has failed: that takes longer than a call."""
    run = [sys.executable, "-c", _PROGRAM]
    found = await asyncio.to_thread(subprocess.run, run, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True"]
