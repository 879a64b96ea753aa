"""Promise 13: one deadline, bounded retries, pauses as the service asks, shared by all calls.

All figures are counted at the server. Connections that have died are in test_connections.py.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    ConnectionFailedError,
    DeadlineExceededError,
    DecodeError,
    IncomeClient,
    IncomeClientError,
    InvalidRequestError,
    RateLimitedError,
    ResponseError,
    RetryPolicy,
    ServerError,
    Timeouts,
    TokenError,
    UnexpectedResponseError,
)
from income_client.http.retry import Gate, Retries, RetryBudget
from income_client.testing import JumpingClock
from tests.support.clients import BASIC, ask, outcomes, running
from tests.support.clocks import ManualClock, pass_time
from tests.support.server import (
    EMPTY_PAGE,
    RESET,
    SILENT,
    UNAUTHORIZED,
    Answer,
    Reply,
    Request,
    ScriptedServer,
    in_turn,
    reply,
    token_reply,
    turns,
)
from tests.support.service import until

ONCE = RetryPolicy(max_attempts=1)
HALF_A_BODY = reply(200, b'{"updated_after": "2026-01-')
ANOTHER_SHAPE = reply(200, b'{"updated_after": "2026-01-01T00:00:00"}')
LOGIN_PAGE = reply(200, b"<html>", "text/html")


# The arithmetic: attempts, pauses and what they cost


def retries_of(policy: RetryPolicy, budget: int = 10_000, **options: Any) -> Retries:
    """Return the attempts of a call on a clock that stands."""
    return Retries(policy, RetryBudget(budget), JumpingClock(), **options)


def failed(cls: type[ResponseError] = ServerError, after: float | None = None) -> ResponseError:
    error = cls("x", status=429 if cls is RateLimitedError else 503, retry_after=after)
    error.retryable = True
    return error


@given(
    chance=st.floats(0, 1),
    most=st.integers(1, 8),
    base=st.floats(0, 10),
    longest=st.floats(0, 20),
    cls=st.sampled_from([ServerError, RateLimitedError]),
)
def test_pauses_have_full_jitter_under_a_bound_that_doubles(
    chance: float, most: int, base: float, longest: float, cls: type[ResponseError]
) -> None:
    """The bound doubles from ``base_delay``, or from ``throttled_delay`` after a 429."""
    options: dict[str, Any] = {"max_attempts": most, "max_delay": longest}
    options["throttled_delay" if cls is RateLimitedError else "base_delay"] = base
    retries = retries_of(RetryPolicy(**options), chance=lambda: chance)
    found = [retries.pause_after(failed(cls)) for _ in range(most)]
    bounds = [min(base * 2**number, longest) for number in range(most - 1)]
    assert found == [*(pytest.approx(chance * bound) for bound in bounds), None]


def test_a_retry_is_logged_with_its_cause_and_its_pause(caplog: pytest.LogCaptureFixture) -> None:
    """Cause and pause are fields of the log record, which a log pipeline can count and add up."""
    caplog.set_level(logging.INFO, "income_client.session")
    retries = retries_of(RetryPolicy(), chance=lambda: 0.5)
    pause = retries.pause_after(failed())
    (record,) = caplog.records
    facts = vars(record)
    assert (facts["error"], facts["status"], facts["pause"]) == ("ServerError", 503, pause)


@pytest.mark.parametrize("cls", [ServerError, RateLimitedError])
@pytest.mark.parametrize(
    ("after", "seconds", "pause"),
    [(60, 61, 60), (61, 1000, None), (50, 50, None), (0.5, 61, 0.5)],
    ids=["the cap", "beyond the cap", "beyond the deadline", "short"],
)
def test_a_retry_after_is_the_pause_or_the_end(
    cls: type[ResponseError], after: float, seconds: float, pause: float | None
) -> None:
    """A 429 holds all others back as well, for as long as the cap; a shorter one ends no pause."""
    gate = Gate()
    retries = retries_of(RetryPolicy(base_delay=0, throttled_delay=0), seconds=seconds)
    assert retries.pause_after(failed(cls, after), gate) == pause
    opens_at = retries.began_at + min(after, 60) if cls is RateLimitedError else -math.inf
    assert gate.opens_at == opens_at
    gate.close(until=-1)
    assert gate.opens_at == max(opens_at, -1)


@given(
    capacity=st.integers(0, 40),
    steps=st.lists(st.sampled_from([None, ServerError, DeadlineExceededError]), max_size=30),
)
def test_the_budget_is_spent_by_retries_and_refilled_by_success(
    capacity: int, steps: list[type[IncomeClientError] | None]
) -> None:
    """A retry costs 5, and 10 after a time-out; it is free if it succeeds, and a first pays 1."""
    budget, left, paid = RetryBudget(capacity), capacity, 1
    policy = RetryPolicy(max_attempts=100)
    retries = Retries(policy, budget, JumpingClock())
    for cls in steps:
        if cls is None:
            retries.succeed()
            left, paid = min(capacity, left + paid), 1
            retries = Retries(policy, budget, JumpingClock())
            continue
        cost = 10 if cls is DeadlineExceededError else 5
        error = cls("x")
        error.retryable = True
        assert (retries.pause_after(error) is None) is (cost > left)
        if cost <= left:
            left, paid = left - cost, cost


@contextlib.asynccontextmanager
async def calling(
    answer: Answer, **options: Any
) -> AsyncIterator[tuple[ScriptedServer, IncomeClient, JumpingClock]]:
    """Run a service without authentication, and a client of it on a clock that jumps."""
    clock = JumpingClock()
    usual: dict[str, Any] = {"auth": BASIC, "clock": clock}
    async with running(answer, **usual | options) as (service, client):
        yield service, client, clock


async def failure(client: IncomeClient, name: str = "a") -> IncomeClientError:
    """Make a call that fails, and return its error."""
    with pytest.raises(IncomeClientError) as caught:
        await ask(client, name)
    return caught.value


# One deadline


@pytest.mark.parametrize("stage", ["token", "queue", "reply", "another token"])
async def test_the_deadline_bounds_every_wait(stage: str) -> None:
    replies = in_turn(UNAUTHORIZED if stage == "another token" else SILENT)
    issue = in_turn(*[token_reply()] * (stage != "token"), SILENT)
    patient = Timeouts(read=1000, deadline=1000)
    async with running(replies, issue, concurrency=1, timeouts=patient) as (service, client):
        blocker = asyncio.create_task(ask(client)) if stage == "queue" else None
        await turns()
        call = asyncio.create_task(failure(client.with_options(deadline=60)))
        reached = {"token": (1, 0), "another token": (2, 1)}.get(stage, (1, 1))
        await until(lambda: (service.token_requests, len(service.calls)) == reached)
        await turns()
        pass_time(60)
        error = await call
        assert isinstance(error, DeadlineExceededError)
        assert error.message == "list_applications: not done within 60 s"
        if blocker is not None:
            blocker.cancel()
            await asyncio.wait([blocker])


async def test_the_deadline_bounds_the_body() -> None:
    """A reply whose body trickles in is abandoned, although each piece comes in time."""

    async def drip() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await turns()
            pass_time(4)

    trickling = reply(200, b" " * 100_000, cut=-100_000, slow=drip)
    timeouts = Timeouts(deadline=60, read=5)
    async with calling(in_turn(trickling), timeouts=timeouts) as (_, client, _):
        assert (await failure(client)).message == "list_applications: not done within 60 s"


async def test_a_turn_that_comes_after_the_deadline_raises_at_once() -> None:
    async with calling(in_turn(EMPTY_PAGE), max_rate=0.1) as (service, client, clock):
        await ask(client)
        error = await failure(client.with_options(deadline=9))
        assert isinstance(error, DeadlineExceededError)
        assert (len(service.calls), error.attempts, clock.slept) == (1, 0, [])


# Which failures are retried


TRANSIENT: dict[str, tuple[Reply, type[Exception]]] = {
    "503": (reply(503), ServerError),
    "408": (reply(408), InvalidRequestError),
    "429": (reply(429), RateLimitedError),
    "cut": (RESET, ConnectionFailedError),
    "half a body": (HALF_A_BODY, DecodeError),
    "no body": (reply(200, b""), DecodeError),
    "login page": (LOGIN_PAGE, UnexpectedResponseError),
}


@pytest.mark.parametrize("kind", TRANSIENT)
async def test_a_transient_failure_is_tried_three_times(kind: str) -> None:
    """After pauses of their own each; the third failure in a row is raised."""
    out, cls = TRANSIENT[kind]
    async with calling(in_turn(*[out] * 5, EMPTY_PAGE)) as (service, client, clock):
        error = await failure(client)
        assert type(error) is cls
        assert (error.attempts, error.retryable) == (3, True)
        assert (len(service.calls), len(set(clock.slept))) == (3, 2)
        await ask(client)
        slept = len(clock.slept)
        assert slept >= 4
        await ask(client)
        assert (len(service.calls), len(clock.slept)) == (7, slept)


PERMANENT = {
    **{str(status): reply(status, b"") for status in (204, 302, 304, 400, 401, 404, 425, 499, 999)},
    "another shape": ANOTHER_SHAPE,
    "a list": reply(200, b"[]"),
}


@pytest.mark.parametrize("kind", PERMANENT)
async def test_a_permanent_failure_is_tried_once(kind: str) -> None:
    """Other replies are raised at once, as the next one would be the same."""
    async with calling(in_turn(PERMANENT[kind], EMPTY_PAGE)) as (service, client, clock):
        error = await failure(client)
        assert isinstance(error, ResponseError | DecodeError)
        assert (error.attempts, error.retryable) == (1, False)
        assert (len(service.calls), clock.slept) == (1, [])


# How long the pauses are, and what the budget allows


DATES = {"Retry_After": "Wed, 01 Jul 2026 12:01:00 GMT", "Date": "Wed, 01 Jul 2026 12:00:00 GMT"}


@pytest.mark.parametrize(
    ("status", "headers"), [(429, {"Retry_After": "60"}), (503, DATES)], ids=["seconds", "date"]
)
async def test_a_retry_after_is_honoured(status: int, headers: dict[str, Any]) -> None:
    """A Retry-After beyond the cap of 60 seconds, or the deadline, raises the error instead."""
    answer = in_turn(reply(status, **headers), EMPTY_PAGE, reply(status, **headers))
    async with calling(answer) as (service, client, clock):
        await ask(client)
        assert clock.slept == [60]
        assert [call.at for call in service.calls] == [0, 60]
        error = await failure(client.with_options(deadline=60))
        assert (error.status, error.retry_after, error.attempts) == (status, 60, 1)
        assert clock.slept == [60]


async def test_the_budget_limits_retries_and_not_first_attempts() -> None:
    """After two retries calls, of views too, fail with their first failure, and all are sent.

    Token requests spend the same.
    """
    issue = in_turn(reply(500), reply(500), token_reply("token-1"))
    policy = RetryPolicy(budget=5)
    async with running(in_turn(reply(500)), issue, retry=policy) as (service, client):
        assert isinstance(await failure(client), TokenError)
        assert service.token_requests == 2
        assert (await failure(client)).attempts == 1
    async with calling(in_turn(reply(500)), retry=RetryPolicy(budget=10)) as (service, client, _):
        view = client.with_options(retry=RetryPolicy(budget=500))
        found = [(await failure(client if n % 2 else view)).attempts for n in range(20)]
        assert found == [3] + [1] * 19
        assert len(service.calls) == 22


# The gate


async def test_a_call_whose_deadline_is_within_the_pause_fails_at_once() -> None:
    """Queued or not, it is not sent, and its error has the remaining pause."""
    clock = ManualClock()
    answer = in_turn(reply(429, Retry_After="30"), EMPTY_PAGE)
    async with running(answer, auth=BASIC, clock=clock, concurrency=1) as (service, client):
        patient = asyncio.create_task(outcomes(client, list("abc")))
        await asyncio.sleep(0)
        queued = asyncio.create_task(failure(client.with_options(deadline=20), "queued"))
        await clock.pass_time(1)
        assert queued.done()
        late = await failure(client.with_options(deadline=29), "late")
        for error, pause in ((await queued, 30), (late, 29)):
            assert isinstance(error, RateLimitedError)
            assert (error.status, error.retry_after, error.attempts) == (None, pause, 0)
        await clock.pass_time(30)
        assert set(await patient) == {"done"}
        assert [call.at for call in service.calls] == [0, 30, 30, 30]
        assert {"queued", "late"}.isdisjoint(service.references)


async def test_a_longer_pause_is_kept_by_calls_that_wait_already() -> None:
    """A call in flight is asked for another pause while others wait for the first one's end."""
    clock = ManualClock()

    async def answer(request: Request) -> Reply:
        if request.reference == "late":
            return EMPTY_PAGE
        await clock.sleep(0 if request.reference == "a" else 10)
        return reply(429, Retry_After="30" if request.reference == "a" else "60")

    options: dict[str, Any] = {"auth": BASIC, "concurrency": 2, "retry": ONCE}
    async with running(answer, clock=clock, **options) as (service, client):
        first = asyncio.create_task(outcomes(client, ["a", "b"]))
        await clock.pass_time(5)
        late = asyncio.create_task(outcomes(client, ["late"]))
        await clock.pass_time(100)
        assert await first == ["RateLimitedError"] * 2
        assert await late == ["done"]
        assert service.calls[-1].at == 70


async def test_a_429_keeps_the_queue_of_max_rate() -> None:
    """Calls that were waiting for their turn are the first ones after the pause."""
    clock = ManualClock()
    answer = in_turn(reply(429, Retry_After="1.5"), EMPTY_PAGE)
    options: dict[str, Any] = {"auth": BASIC, "retry": ONCE, "max_rate": 1, "concurrency": 2}
    async with running(answer, clock=clock, **options) as (service, client):
        calls = asyncio.create_task(outcomes(client, list("abcdef")))
        await clock.pass_time(20)
        assert await calls == ["RateLimitedError"] + ["done"] * 5
        assert service.references == list("abcdef")
        assert [call.at for call in service.calls] == [0, 1.5, 2.5, 3.5, 4.5, 5.5]


# The rate


@given(
    rate=st.floats(0.5, 50),
    calls=st.lists(st.tuples(st.floats(0, 3), st.booleans()), min_size=1, max_size=8),
    concurrency=st.integers(1, 4),
)
async def test_requests_are_never_closer_than_max_rate_allows(
    rate: float, calls: list[tuple[float, bool]], concurrency: int
) -> None:
    """Whenever calls start or are cancelled, the others keep their distance and order."""
    clock = ManualClock()
    options: dict[str, Any] = {"max_rate": rate, "concurrency": concurrency, "auth": BASIC}
    async with running(in_turn(EMPTY_PAGE), clock=clock, **options) as (service, client):
        made = []
        for number, (gap, is_cancelled) in enumerate(calls):
            task = asyncio.create_task(outcomes(client, [str(number)]))
            made.append(task)
            await turns(3)
            if is_cancelled:
                task.cancel()
            await clock.pass_time(gap)
        await clock.pass_time(len(calls) / rate + 1)
        assert all(task.done() for task in made)
    moments = [call.at for call in service.calls]
    assert all(later - earlier >= 1 / rate - 1e-6 for earlier, later in pairwise(moments))
    assert service.references == sorted(service.references, key=int)


async def test_first_attempts_do_not_wait_for_the_retries_of_others() -> None:
    clock = ManualClock()

    def answer(request: Request) -> Reply:
        return reply(503, Retry_After="30") if request.reference == "failing" else EMPTY_PAGE

    options: dict[str, Any] = {"auth": BASIC, "clock": clock, "concurrency": 1}
    async with running(answer, retry=RetryPolicy(budget=50), **options) as (service, client):
        failing = [asyncio.create_task(outcomes(client, ["failing"])) for _ in range(20)]
        await until(lambda: len(service.calls) == 20)
        await clock.pass_time(1)
        for number in range(20):
            await ask(client, str(number))
        assert {call.at for call in service.calls[20:]} == {1}
        await clock.pass_time(100)
        await asyncio.wait(failing)


# All of it together

REPLIES = {
    "page": EMPTY_PAGE,
    "500": reply(500),
    "429": reply(429),
    "429, 7 s": reply(429, Retry_After="7"),
    "503, 90 s": reply(503, Retry_After="90"),
    "404": reply(404),
    "cut": RESET,
    "half a body": HALF_A_BODY,
    "another shape": ANOTHER_SHAPE,
}
FINAL = {"page", "503, 90 s", "404", "another shape"}


@given(
    scripts=st.lists(st.lists(st.sampled_from(sorted(REPLIES)), max_size=6), max_size=8),
    most=st.integers(1, 5),
    budget=st.integers(0, 60),
    deadline=st.floats(1, 200),
    rate=st.none() | st.floats(0.5, 100),
    concurrency=st.integers(1, 4),
)
async def test_whatever_the_service_replies_the_limits_hold(
    scripts: list[list[str]],
    most: int,
    budget: int,
    deadline: float,
    rate: float | None,
    concurrency: int,
) -> None:
    """For any replies, no request is needless, no retry beyond the budget, no pause too long.

    A call is repeated once, for nothing, after its first cut on a used connection.
    """
    left = {str(number): list(script) for number, script in enumerate(scripts)}
    seen: dict[str, list[str]] = {name: [] for name in left}
    lost: dict[str, list[bool]] = {name: [] for name in left}

    def answer(request: Request) -> Reply:
        kind = left[request.reference].pop(0) if left[request.reference] else "page"
        seen[request.reference].append(kind)
        lost[request.reference].append(kind == "cut" and not request.is_first)
        return REPLIES[kind]

    options: dict[str, Any] = {
        "retry": RetryPolicy(max_attempts=most, budget=budget),
        "timeouts": Timeouts(deadline=deadline),
        "concurrency": concurrency,
        "max_rate": rate,
    }
    async with calling(answer, **options) as (service, client, clock):
        began = clock.monotonic()
        found = await outcomes(client, list(left))
        assert clock.monotonic() - began <= deadline + 1e-6
        assert all(pause <= deadline + 1e-6 for pause in clock.slept)
        calls = len(service.calls)
    retries = 0
    for (name, kinds), outcome in zip(seen.items(), found, strict=True):
        counted = len(kinds) - any(lost[name][:-1])
        assert counted <= most, name
        assert not FINAL.intersection(kinds[:-1]), name
        assert (outcome == "done") == (kinds[-1:] == ["page"]), name
        retries += max(0, counted - 1)
    # Each success refills the budget by at most 5.
    assert 5 * retries <= budget + 5 * found.count("done")
    assert calls == sum(map(len, seen.values()))
