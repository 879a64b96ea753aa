"""A session's pauses, slots, rate and deadline."""

import asyncio

import pytest

from income_client.errors import (
    DeadlineExceededError,
    RateLimitedError,
)
from income_client.settings import RetryPolicy, Timeouts
from income_client.testing import JumpingClock
from tests.support.scripted_server import (
    Seen,
    always,
    forever,
    reply,
    token_reply,
)
from tests.support.session import BASIC, call, failure, playing


async def test_a_pause_that_the_service_asks_for_is_kept() -> None:
    """429 with Retry-After: 2 waits two seconds and goes on."""
    answer = always(reply(429, Retry_After="2"), reply(body=b"fine"))
    async with playing(answer, auth=BASIC) as (session, server, clock):
        assert await call(session) == b"fine"
        assert clock.slept == [2.0]
        assert server.api_requests == 2


async def test_a_pause_of_a_day_is_raised() -> None:
    """429 with Retry-After: 86400 is an error at once that says so."""
    async with playing(always(reply(429, Retry_After="86400")), auth=BASIC) as (session, _, clock):
        error = await failure(session)
        assert isinstance(error, RateLimitedError)
        assert (error.retry_after, clock.slept) == (86400.0, [])


async def test_all_calls_wait_while_the_service_wants_peace() -> None:
    """After a 429 a call of another task waits as well, or fails at once if it cannot."""
    answer = always(reply(429, Retry_After="30"), reply(body=b"fine"))
    once = RetryPolicy(max_attempts=1)
    async with playing(answer, auth=BASIC, retry=once) as (session, server, clock):
        assert isinstance(await failure(session), RateLimitedError)
        hurried = session.with_options(timeouts=Timeouts(deadline=29))
        error = await failure(hurried)
        assert isinstance(error, RateLimitedError)
        assert (error.attempts, error.status, error.retry_after) == (0, None, 30.0)
        assert (server.api_requests, clock.slept) == (1, [])
        assert await call(session) == b"fine"
        assert clock.slept == [30.0]


async def test_calls_in_the_queue_wait_at_the_gate_too() -> None:
    """Who waited for a slot while the gate closed does not slip through."""
    clock = JumpingClock()
    sent_at = []

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes:
        sent_at.append(clock.monotonic() - began)
        return reply(429, Retry_After="5") if len(sent_at) == 1 else reply(body=b"fine")

    began = clock.monotonic()
    async with playing(answer, clock, auth=BASIC, concurrency=1) as (session, _, _):
        await asyncio.gather(*[call(session) for _ in range(5)])
    assert sent_at == [0.0] + [5.0] * 5


async def test_requests_are_spaced_by_the_rate() -> None:
    """With a rate of 4 a second, requests are a quarter of a second apart."""
    clock = JumpingClock()
    sent_at = []

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes:
        sent_at.append(clock.monotonic() - began)
        return reply()

    began = clock.monotonic()
    async with playing(answer, clock, auth=BASIC, max_rate=4) as (session, _, _):
        await asyncio.gather(*[call(session) for _ in range(5)])
        hurried = session.with_options(timeouts=Timeouts(deadline=0.2))
        error = await failure(hurried)
    assert sent_at == sorted(sent_at)
    assert len({round(moment, 6) for moment in sent_at}) <= 5
    assert max(sent_at) == pytest.approx(1.0)
    assert isinstance(error, DeadlineExceededError)


async def test_no_more_requests_are_in_flight_than_allowed() -> None:
    """Slots bound the requests; a call that pauses leaves its slot to others."""
    flying = most = 0

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0.002)
        flying -= 1
        return reply()

    async with playing(answer, auth=BASIC, concurrency=3) as (session, _, _):
        await asyncio.gather(*[call(session) for _ in range(12)])
    assert most == 3


async def test_a_pausing_call_frees_its_slot() -> None:
    """With one slot, a call goes through while another one pauses."""

    class Frozen(JumpingClock):
        async def sleep(self, seconds: float) -> None:
            pausing.set()
            await go_on.wait()

    pausing, go_on = asyncio.Event(), asyncio.Event()
    answer = always(reply(503), reply(body=b"fine"))
    async with playing(answer, Frozen(), auth=BASIC, concurrency=1) as (session, _, _):
        first = asyncio.create_task(call(session))
        await pausing.wait()
        assert await call(session) == b"fine"
        go_on.set()
        assert await first == b"fine"


@pytest.mark.parametrize("stage", ["slot", "token", "head", "trickle"])
async def test_the_deadline_ends_every_wait(stage: str) -> None:
    """Queueing, the token, the reply and a body that drips are bound by one deadline."""

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes:
        if seen.path == "/token" and stage != "token":
            return token_reply()
        if stage == "trickle":
            writer.write(reply(body=b"x" * 1000)[:-1000])
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.005)
        return await forever()

    short = Timeouts(deadline=0.1)
    async with playing(answer, concurrency=1, timeouts=Timeouts(deadline=5)) as (session, _, _):
        blocker = asyncio.create_task(call(session)) if stage == "slot" else None
        error = await failure(session.with_options(timeouts=short))
        assert isinstance(error, DeadlineExceededError)
        assert error.message == "get_application(1): not done within 0.1 s"
        if blocker is not None:
            blocker.cancel()
            await asyncio.wait((blocker,))
