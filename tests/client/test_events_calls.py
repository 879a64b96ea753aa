"""What a program is told of each call, in order, and that telling breaks nothing."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from income_client import (
    CallFinished,
    Event,
    IncomeClientError,
    RequestAnswered,
    RequestRetried,
    RequestSent,
    RetryPolicy,
    Secret,
    StoredToken,
    Timeouts,
    TokenRenewed,
)
from income_client.testing import JumpingClock
from tests.support.clients import BASIC, call, failure, playing
from tests.support.loop_time import stay_silent
from tests.support.server import (
    HUNG_UP,
    SILENT,
    Reply,
    Request,
    in_turn,
    reply,
    token_reply,
    token_rules,
)
from tests.support.tokens import Shelf


def shapes(events: list[Event]) -> list[tuple[Any, ...]]:
    """Return what the events say without their seconds."""
    found: list[tuple[Any, ...]] = []
    for event in events:
        match event:
            case RequestSent(call=name, attempt=attempt):
                found.append(("sent", name, attempt))
            case RequestAnswered(call=name, attempt=attempt, status=status, error=error):
                found.append(("answered", name, attempt, status, error))
            case RequestRetried(call=name, attempt=attempt, status=status, error=error):
                found.append(("retried", name, attempt, status, error))
            case CallFinished(call=name, attempts=attempts, status=status, error=error):
                found.append(("finished", name, attempts, status, error))
            case TokenRenewed(is_shared=is_shared):
                found.append(("token", is_shared))
    return found


async def test_a_call_that_works_is_three_events() -> None:
    """A request goes out, is answered, and the call has finished."""
    events: list[Event] = []
    async with playing(in_turn(reply()), auth=BASIC, on_event=events.append) as (session, _, _):
        await call(session)
    assert shapes(events) == [
        ("sent", "get_application", 1),
        ("answered", "get_application", 1, 200, None),
        ("finished", "get_application", 1, 200, None),
    ]


async def test_a_retry_is_told_with_its_pause() -> None:
    """Each failure stands there with the seconds until the next attempt, which count as waited."""
    events: list[Event] = []
    answers = in_turn(reply(503), reply(503, Retry_After="7"), reply())
    async with playing(answers, auth=BASIC, on_event=events.append) as (session, _, _):
        await call(session)
    assert shapes(events)[1:3] == [
        ("answered", "get_application", 1, 503, "ServerError"),
        ("retried", "get_application", 1, 503, "ServerError"),
    ]
    pauses = [event.pause for event in events if isinstance(event, RequestRetried)]
    assert len(pauses) == 2
    assert pauses[1] >= 7
    (finished,) = (event for event in events if isinstance(event, CallFinished))
    assert finished.attempts == 3
    assert finished.waited == pytest.approx(sum(pauses))
    assert finished.seconds == pytest.approx(finished.waited)


async def test_a_call_that_fails_finishes_with_its_error() -> None:
    """The class of what it raised is its last word, also where no reply came."""
    cases = ((reply(404), 404, "NotFoundError"), (HUNG_UP, None, "ConnectionFailedError"))
    for out, status, error in cases:
        events: list[Event] = []
        options: dict[str, Any] = {"auth": BASIC, "retry": RetryPolicy(max_attempts=1)}
        async with playing(in_turn(out), on_event=events.append, **options) as (session, _, _):
            assert type(await failure(session)).__name__ == error
        assert shapes(events)[1:] == [
            ("answered", "get_application", 1, status, error),
            ("finished", "get_application", 1, status, error),
        ]


async def test_tokens_are_told_of() -> None:
    """The purchase is a call of its own; the first refused token is a retry without a pause."""
    events: list[Event] = []
    answers = token_rules(in_turn(reply(401), reply()))
    async with playing(answers, on_event=events.append) as (session, _, _):
        await call(session)
    bought = [
        ("sent", "token", 1),
        ("answered", "token", 1, 200, None),
        ("finished", "token", 1, 200, None),
        ("token", False),
    ]
    assert shapes(events) == [
        *bought,
        ("sent", "get_application", 1),
        ("answered", "get_application", 1, 401, "AuthenticationError"),
        *bought,
        ("retried", "get_application", 1, 401, "AuthenticationError"),
        ("sent", "get_application", 2),
        ("answered", "get_application", 2, 200, None),
        ("finished", "get_application", 2, 200, None),
    ]


async def test_a_repetition_that_never_goes_out_is_not_told() -> None:
    """A refused token that cannot be replaced is no retry: whoever counts them counts requests."""
    events: list[Event] = []
    answer = token_rules(in_turn(reply(401)), in_turn(token_reply(), reply(400)))
    async with playing(answer, on_event=events.append) as (session, server, _):
        await failure(session)
        assert (server.token_requests, len(server.calls)) == (2, 1)
    assert not [event for event in events if isinstance(event, RequestRetried)]
    (finished,) = (
        event
        for event in events
        if isinstance(event, CallFinished) and event.call == "get_application"
    )
    assert (finished.attempts, finished.status, finished.error) == (1, 401, "AuthenticationError")


async def test_a_token_of_the_store_is_shared() -> None:
    """Then none is bought."""
    events: list[Event] = []
    ends = datetime.now(UTC) + timedelta(hours=1)
    shelf = Shelf(StoredToken(access_token=Secret("invented"), expires_at=ends))
    answers = token_rules(in_turn(reply()))
    options: dict[str, Any] = {"on_event": events.append, "token_store": shelf}
    async with playing(answers, **options) as (session, server, _):
        await call(session)
        assert server.token_requests == 0
    (renewed,) = (event for event in events if isinstance(event, TokenRenewed))
    assert renewed.is_shared
    assert renewed.lifetime > 0


@pytest.mark.parametrize(
    ("ending", "error"),
    [("cancelled", "CancelledError"), ("late", "DeadlineExceededError")],
)
async def test_a_request_that_is_cut_off_has_its_end_too(ending: str, error: str) -> None:
    """Whoever counts what was sent and answered comes to the same sum."""
    events: list[Event] = []

    async def answer(request: Request) -> Reply:
        if ending == "cancelled":
            task.cancel()
        else:
            await stay_silent(60)
        return SILENT

    patient = Timeouts(read=1000, deadline=60)
    options: dict[str, Any] = {"timeouts": patient, "auth": BASIC}
    async with playing(answer, on_event=events.append, **options) as (session, _, _):
        task = asyncio.create_task(call(session))
        await asyncio.wait((task,))
        assert task.cancelled() or isinstance(task.exception(), IncomeClientError)
    assert shapes(events) == [
        ("sent", "get_application", 1),
        ("answered", "get_application", 1, None, error),
        ("finished", "get_application", 1, None, error),
    ]


@pytest.mark.parametrize("error", [ValueError("invented-secret"), asyncio.CancelledError()])
async def test_a_hook_that_raises_breaks_nothing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """It is complained of once, by the class of its error, and goes on being called."""
    events: list[Event] = []

    def hook(event: Event) -> None:
        events.append(event)
        raise error

    with caplog.at_level(logging.DEBUG, "income_client.events"):
        async with playing(in_turn(reply()), auth=BASIC, on_event=hook) as (session, _, _):
            await call(session)
            await call(session)
    assert len(events) == 6
    (line,) = caplog.records
    assert line.levelno == logging.WARNING
    assert line.getMessage().startswith(f"on_event raised {type(error).__name__};")
    assert "invented-secret" not in caplog.text + repr(vars(line))


async def test_a_view_tells_the_same_hook() -> None:
    """What shares connections and token shares who is told."""
    events: list[Event] = []
    async with playing(in_turn(reply()), auth=BASIC, on_event=events.append) as (session, _, _):
        await call(session.with_options(retry=RetryPolicy(max_attempts=1)))
    assert len(events) == 3


async def test_without_a_hook_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """While nobody listens no event comes to be."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError

    for cls in (RequestSent, RequestAnswered, CallFinished, TokenRenewed):
        monkeypatch.setattr(cls, "__init__", refuse)
    clock = JumpingClock()
    async with playing(token_rules(in_turn(reply())), clock) as (session, _, _):
        await call(session)
