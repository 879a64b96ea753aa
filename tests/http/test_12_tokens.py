"""Promise 12: one token for all calls, renewed in time, replaced once when it is refused.

All figures are counted at the server.
"""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    AuthenticationError,
    ConnectionFailedError,
    IncomeClientError,
    RetryPolicy,
    TokenError,
)
from income_client.testing import JumpingClock
from tests.support.clients import ask, outcomes, running
from tests.support.clocks import ManualClock
from tests.support.server import (
    EMPTY_PAGE,
    RESET,
    UNAUTHORIZED,
    Reply,
    Request,
    in_turn,
    reply,
    token_reply,
    turns,
)

HOUR = 3600
STALE_FROM = HOUR - 300
ONCE = RetryPolicy(max_attempts=1)


class Held:
    """A reply that is held back until it is released, to all who wait."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.arrived = asyncio.Event()
        self.released = asyncio.Event()

    async def __call__(self, request: Request) -> Reply:
        self.arrived.set()
        await self.released.wait()
        return self._reply


async def test_many_first_calls_make_one_token_request() -> None:
    async with running() as (service, client):
        assert set(await outcomes(client, ["a"] * 300)) == {"done"}
        assert (service.token_requests, len(service.calls)) == (1, 300)


@pytest.mark.parametrize(
    "ended", [1, 5, "closed"], ids=["the first", "all", "the client is closed"]
)
async def test_a_cancelled_waiter_does_not_affect_the_others(ended: int | str) -> None:
    """To close the client ends the token request, and its waiters get an error."""
    held = Held(token_reply("token-1"))
    async with running(in_turn(EMPTY_PAGE), held) as (service, client):
        waiters = [asyncio.create_task(outcomes(client, "a")) for _ in range(5)]
        await held.arrived.wait()
        if isinstance(ended, str):
            await client.aclose()
            assert await asyncio.gather(*waiters) == [["ClientClosedError"]] * 5
            assert service.calls == []
        else:
            for waiter in waiters[:ended]:
                waiter.cancel()
            await asyncio.wait(waiters[:ended])
            held.released.set()
            await asyncio.gather(*waiters[ended:], ask(client))
            assert all(waiter.cancelled() for waiter in waiters[:ended])
        assert service.token_requests == 1


@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_stale_token_serves_while_it_is_renewed_in_the_background(
    is_closed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """No call waits for the renewal; the new token is used once it has arrived.

    To close the client meanwhile is no failure, and nothing is logged.
    """
    clock = JumpingClock()
    held = Held(token_reply("token-2"))
    issue = in_turn(token_reply("token-1"), held)
    async with running(in_turn(EMPTY_PAGE), issue, clock=clock) as (service, client):
        await ask(client)
        clock.advance(STALE_FROM - 1)
        await ask(client)
        assert service.token_requests == 1
        clock.advance(2)
        for _ in range(5):
            await ask(client)
        await held.arrived.wait()
        await ask(client)
        assert {call.token for call in service.calls} == {"token-1"}
        if is_closed:
            await client.aclose()
        held.released.set()
        await turns()
        if not is_closed:
            await ask(client)
            assert service.calls[-1].token == "token-2"
        assert service.token_requests == 2
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize(
    "failure",
    [reply(503), reply(429, Retry_After="40"), UNAUTHORIZED, reply(400), reply(200), RESET],
    ids=["503", "429", "401", "400", "no token", "cut"],
)
async def test_a_failed_early_renewal_keeps_the_token_until_its_margin(failure: Reply) -> None:
    """Calls succeed with the old token, and the token endpoint is retried now and then."""
    clock = JumpingClock()
    issue = in_turn(token_reply("token-1"), failure)
    async with running(in_turn(EMPTY_PAGE), issue, clock=clock, retry=ONCE) as (service, client):
        await ask(client)
        clock.advance(STALE_FROM)
        for _ in range(19):
            await ask(client)
            await turns()
            clock.advance(15)
        assert {call.token for call in service.calls} == {"token-1"}
        assert 4 <= service.token_requests - 1 <= 11
        clock.advance(6)  # it has nine seconds left, and ten are the margin
        with pytest.raises(IncomeClientError):
            await ask(client)


async def test_no_early_renewal_sends_refused_credentials_within_ten_seconds() -> None:
    """Nor for a token of a minute, whose renewal is tried again every three seconds."""
    clock = JumpingClock()
    issue = in_turn(token_reply("token-1", 60), UNAUTHORIZED)
    async with running(in_turn(EMPTY_PAGE), issue, clock=clock, retry=ONCE) as (service, client):
        await ask(client)
        clock.advance(46)
        for _ in range(3):
            await ask(client)
            await turns()
            clock.advance(3.2)
        assert {call.token for call in service.calls} == {"token-1"}
        assert service.token_requests == 2


@given(lifetime=st.integers(1, 100_000), steps=st.integers(2, 12))
async def test_the_margins_scale_with_the_life_of_the_token(lifetime: int, steps: int) -> None:
    """A token of any lifetime is renewed before it expires and never sent after."""
    clock = JumpingClock()
    async with running(in_turn(EMPTY_PAGE), clock=clock, lifetime=lifetime) as (service, client):
        for _ in range(2 * steps):
            await ask(client)
            await turns(20)
            clock.advance(lifetime / steps)
        issued = [request.at for request in service.requests if request.path == "/token"]
        for call in service.calls:
            assert call.at - issued[int(call.token.removeprefix("token-")) - 1] < lifetime
        # No sooner than three quarters of a lifetime after the previous one.
        assert len(issued) <= 1 + 2 / 0.75


async def test_a_refused_token_is_replaced_once_for_all_refused_calls() -> None:
    all_here = asyncio.Barrier(50)

    async def answer(request: Request) -> Reply:
        if request.token == "token-2":
            return EMPTY_PAGE
        await all_here.wait()
        return UNAUTHORIZED

    async with running(answer, concurrency=50) as (service, client):
        assert set(await outcomes(client, ["a"] * 50)) == {"done"}
        assert (service.token_requests, len(service.calls)) == (2, 100)


async def test_a_late_refusal_of_an_old_token_costs_no_token_request() -> None:
    """A call refused with a token that was since replaced repeats with the new one.

    Nor does what no token would change.
    """
    late = Held(UNAUTHORIZED)

    async def answer(request: Request) -> Reply:
        if request.token == "token-2":
            return reply(403) if request.reference == "forbidden" else EMPTY_PAGE
        return await late(request) if request.reference == "late" else UNAUTHORIZED

    async with running(answer) as (service, client):
        slow = asyncio.create_task(ask(client, "late"))
        await late.arrived.wait()
        await ask(client, "other")
        late.released.set()
        await slow
        assert service.references == ["late", "other", "other", "late"]
        assert await outcomes(client, ["forbidden", "next"]) == ["PermissionDeniedError", "done"]
        assert service.token_requests == 2


@pytest.mark.parametrize("failures", [0, 2])
async def test_a_call_is_repeated_once_whatever_comes_between(failures: int) -> None:
    """The second refusal is raised at once; the repetition is none of three attempts."""
    clock = JumpingClock()
    replies = in_turn(UNAUTHORIZED, *[reply(503)] * failures, UNAUTHORIZED, EMPTY_PAGE)
    async with running(replies, clock=clock) as (service, client):
        with pytest.raises(AuthenticationError) as caught:
            await ask(client)
        assert (caught.value.status, caught.value.attempts) == (401, 2 + failures)
        assert (service.token_requests, len(service.calls)) == (2, 2 + failures)
        assert len(clock.slept) == failures


async def test_a_repetition_goes_ahead_of_calls_that_were_not_sent_yet() -> None:
    """The repeated call keeps its slot, and is first in the queue of ``max_rate``."""
    async with running(uses=1, concurrency=1) as (service, client):
        assert set(await outcomes(client, "abcd")) == {"done"}
        assert service.references == list("abbccdd")
    clock = ManualClock()
    async with running(clock=clock, uses=2, max_rate=1, concurrency=4) as (service, client):
        calls = asyncio.create_task(outcomes(client, "abcde"))
        await clock.pass_time(20)
        assert set(await calls) == {"done"}
        assert service.references == list("abccdee")
        assert [call.at for call in service.calls] == [0, 1, 2, 3, 4, 5, 6]


async def test_a_repetition_waits_for_the_pause_of_a_429() -> None:
    """A 429 of another call delays it too; it keeps its slot, and is first afterwards."""
    clock = ManualClock()
    held = Held(token_reply("token-2"))

    async def answer(request: Request) -> Reply:
        if request.reference == "throttled":
            await held.arrived.wait()
            return reply(429, Retry_After="30")
        return EMPTY_PAGE if request.token == "token-2" else UNAUTHORIZED

    issue = in_turn(token_reply("token-1"), held)
    pace: dict[str, Any] = {"concurrency": 2, "max_rate": 1000}
    async with running(answer, issue, clock=clock, retry=ONCE, **pace) as (service, client):
        calls = asyncio.create_task(outcomes(client, ["throttled", "refused", "later", "last"]))
        await clock.pass_time(1)
        held.released.set()
        await clock.pass_time(28)
        assert service.references == ["throttled", "refused"]
        await clock.pass_time(2)
        assert await calls == ["RateLimitedError", "done", "done", "done"]
        assert service.references == ["throttled", "refused", "refused", "later", "last"]


async def test_a_cancelled_repetition_frees_its_slot() -> None:
    """Cancelled while it waits for the new token, it leaves its slot to the next call."""
    held = Held(token_reply("token-2"))
    call, issue = in_turn(UNAUTHORIZED, EMPTY_PAGE), in_turn(token_reply("token-1"), held)
    async with running(call, issue, concurrency=1) as (service, client):
        refused = asyncio.create_task(ask(client, "refused"))
        await held.arrived.wait()
        waiting = asyncio.create_task(ask(client, "next"))
        await turns()
        refused.cancel()
        await asyncio.wait([refused])
        held.released.set()
        await waiting
        assert refused.cancelled()
        assert service.references == ["refused", "next"]
        assert service.token_requests == 2


@pytest.mark.parametrize("status", [400, 401])
async def test_refused_credentials_are_raised_at_once_and_retried_after_a_pause(
    status: int,
) -> None:
    """For ten seconds, calls fail with the time of the refusal and of the next try."""
    clock = JumpingClock()
    refusal = reply(status, b'{"error": "invalid_client"}')
    issue = in_turn(refusal, refusal, token_reply("token-1"))
    async with running(in_turn(EMPTY_PAGE), issue, clock=clock) as (service, client):
        for asked in (1, 2):
            with pytest.raises(AuthenticationError) as caught:
                await ask(client)
            assert (caught.value.status, caught.value.retry_after) == (status, 10)
            assert not caught.value.retryable
            clock.advance(2.5)
            errors = await asyncio.gather(*[ask(client) for _ in range(50)], return_exceptions=True)
            expected = (
                "token: the token endpoint refused the client credentials 2 s ago, "
                "and is asked again in 8 s (retry after 7.5 s)"
            )
            assert {str(error) for error in errors} == {expected}
            assert {(type(e), vars(e)["status"], vars(e)["retryable"]) for e in errors} == {
                (AuthenticationError, status, False)
            }
            assert (service.token_requests, clock.slept) == (asked, [])
            clock.advance(7.5)
        await ask(client)
        assert service.token_requests == 3


@pytest.mark.parametrize(
    "then", [token_reply("token-2", 60), reply(503)], ids=["renewed", "failed"]
)
async def test_a_refusal_that_was_not_the_last_word_fails_no_call(then: Reply) -> None:
    """Once the endpoint has answered otherwise, a call that needs a token requests one at once."""
    clock = JumpingClock()
    refused: set[str] = set()

    def admit(request: Request) -> Reply:
        return UNAUTHORIZED if request.token in refused else EMPTY_PAGE

    issue = in_turn(token_reply("token-1", 60), reply(401), then, token_reply("token-3", 60))
    async with running(admit, issue, clock=clock, retry=ONCE) as (service, client):
        await ask(client)
        for seconds in (46, 10):  # it is stale: each call renews it in the background
            clock.advance(seconds)
            await ask(client)
            await turns()
        assert service.token_requests == 3
        refused.update(("token-1", "token-2"))
        await ask(client)
        assert service.calls[-1].token == "token-3"


async def test_a_429_of_the_token_endpoint_is_honoured() -> None:
    """After it a call waits without a request or a slot, or fails if it cannot wait so long."""
    clock = JumpingClock()
    issue = in_turn(reply(429, Retry_After="30"), token_reply("token-1"))
    options: dict[str, Any] = {"retry": ONCE, "concurrency": 1}
    async with running(in_turn(EMPTY_PAGE), issue, clock=clock, **options) as (service, client):
        with pytest.raises(TokenError):
            await ask(client)
        with pytest.raises(TokenError) as caught:
            await ask(client.with_options(deadline=29))
        assert (caught.value.retryable, caught.value.retry_after) == (True, 30)
        assert (service.token_requests, clock.slept) == (1, [])
        assert set(await outcomes(client, "abc")) == {"done"}
        assert clock.slept.count(30) == 3
        assert [request.at for request in service.requests if request.path == "/token"] == [0, 30]


@pytest.mark.parametrize(
    ("out", "cls", "requests"),
    [
        (reply(500), TokenError, 3),
        (reply(200, b'{"access_to'), TokenError, 3),
        (RESET, ConnectionFailedError, 3),
        (reply(307, Location="/elsewhere"), TokenError, 1),
        (reply(200, b" " * 70_000), TokenError, 1),
    ],
    ids=["500", "half a reply", "cut", "redirect", "70 kB"],
)
async def test_a_token_request_has_attempts_of_its_own(
    out: Reply, cls: type[Exception], requests: int
) -> None:
    """The attempts are not multiplied by the attempts of the calls, which are never sent.

    Each of many that wait gets an error of its own.
    """
    async with running(token_request=in_turn(out)) as (service, client):
        errors = await asyncio.gather(*[ask(client) for _ in range(9)], return_exceptions=True)
        assert {type(error) for error in errors} == {cls}
        assert {vars(error)["attempts"] for error in errors} == {requests}
        assert (len(set(map(str, errors))), len(set(map(id, errors)))) == (1, 9)
        assert (service.token_requests, len(service.calls)) == (requests, 0)


@given(
    refusals=st.lists(st.booleans(), max_size=20),
    calls=st.integers(1, 15),
    concurrency=st.integers(1, 8),
)
async def test_whatever_is_refused_no_call_is_sent_three_times(
    refusals: list[bool], calls: int, concurrency: int
) -> None:
    left = list(refusals)

    def answer(request: Request) -> Reply:
        return UNAUTHORIZED if left and left.pop(0) else EMPTY_PAGE

    names = [str(number) for number in range(calls)]
    async with running(answer, concurrency=concurrency) as (service, client):
        found = await outcomes(client, names)
        assert service.token_requests <= 1 + sum(refusals[: len(service.calls)])
        for name, outcome in zip(names, found, strict=True):
            assert service.references.count(name) <= 2
            assert outcome == "done" or service.references.count(name) == 2
