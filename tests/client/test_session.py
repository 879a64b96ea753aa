"""One call and its attempts, from the first to closing, counted at the server."""

import asyncio
from traceback import walk_tb
from typing import Any

import aiohttp
import pytest

from income_client.errors import (
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    NotFoundError,
    ServerError,
    UnexpectedResponseError,
)
from income_client.protocol.messages import Response
from income_client.session import SessionManager
from income_client.settings import RetryPolicy
from income_client.testing import JumpingClock
from income_client.token_cache import TokenCache
from tests.support.scripted_server import (
    Seen,
    always,
    forever,
    reply,
    serving,
    token_reply,
    with_tokens,
)
from tests.support.session import ASKED, BASIC, OAUTH, call, failure, playing


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_failing_service_is_asked_three_times(status: int) -> None:
    """Two failures are survived, three are raised with what was tried."""
    bad = reply(status, X_Request_Id="r-7")
    async with playing(always(bad, bad, reply(body=b"fine")), auth=BASIC) as (session, server, _):
        assert await call(session) == b"fine"
        assert server.api_requests == 3
    async with playing(always(bad), auth=BASIC) as (session, server, _):
        error = await failure(session)
        assert isinstance(error, ServerError)
        assert (error.attempts, error.status, error.request_id) == (3, status, "r-7")
        assert server.api_requests == 3


@pytest.mark.parametrize(
    ("out", "cls"),
    [
        (reply(404), NotFoundError),
        (reply(302), UnexpectedResponseError),
        (reply(204, b""), UnexpectedResponseError),
        (reply(304, b""), UnexpectedResponseError),
        (reply(999), UnexpectedResponseError),
    ],
)
async def test_what_will_not_change_is_asked_once(out: bytes, cls: type[Exception]) -> None:
    """Other statuses are raised at once."""
    async with playing(always(out), auth=BASIC) as (session, server, _):
        assert type(await failure(session)) is cls
        assert server.api_requests == 1


async def test_a_dropped_connection_is_retried_and_counted() -> None:
    """Connections that break count like failures; the server sees each attempt once."""
    async with playing(always(None, None, reply(body=b"fine")), auth=BASIC) as (session, server, _):
        assert await call(session) == b"fine"
        assert server.api_requests == 3
    async with playing(always(None), auth=BASIC) as (session, server, _):
        error = await failure(session)
        assert isinstance(error, ConnectionFailedError)
        assert (error.attempts, server.api_requests) == (3, 3)


async def test_a_reader_decides_what_is_a_failure() -> None:
    """An error that the reader returns is retried as it says itself."""
    found: list[ServerError | str] = [ServerError("x"), "fine"]
    async with playing(always(reply()), auth=BASIC) as (session, server, _):
        assert await session.call(ASKED, lambda _: found.pop(0)) == "fine"
        assert server.api_requests == 2


async def test_cancelling_anywhere_leaves_nothing_behind() -> None:
    """After a cancellation at any step every slot is free, no task is left, and calls go on."""
    before = asyncio.all_tasks()
    for steps in range(1000):
        async with serving(with_tokens(always(reply(503), reply(body=b"fine")))) as server:
            session = SessionManager(server.url, auth=OAUTH, clock=JumpingClock(), concurrency=1)
            task = asyncio.create_task(call(session))
            for _ in range(steps):
                await asyncio.sleep(0)
            is_through = task.done()
            task.cancel()
            await asyncio.wait((task,))
            assert not session._shared.slots.locked()
            assert await call(session) == b"fine"
            await session.aclose()
        left = asyncio.all_tasks() - before
        await asyncio.wait(left, timeout=1) if left else None
        assert asyncio.all_tasks() == before
        if is_through:
            break
    assert 20 < steps < 999


async def test_a_view_shares_everything_but_its_limits() -> None:
    """A view uses the same token and connections and has its own attempts."""
    async with playing(with_tokens(always(reply(body=b"fine"), reply(503)))) as (
        session,
        server,
        _,
    ):
        assert await call(session) == b"fine"
        view = session.with_options(retry=RetryPolicy(max_attempts=1))
        assert (await failure(view)).attempts == 1
        assert (await failure(session)).attempts == 3
        assert server.token_requests == 1
        assert len(server.connections) == 1
        with pytest.raises(ConfigurationError):
            session.with_options(retry=3)  # type: ignore[arg-type]


async def test_a_view_spends_the_same_budget() -> None:
    """Retries of a view are paid from the client's one budget."""
    policy = RetryPolicy(budget=10)
    async with playing(always(reply(503)), auth=BASIC, retry=policy) as (session, _, _):
        view = session.with_options(retry=RetryPolicy())
        assert (await failure(view)).attempts == 3
        assert (await failure(session)).attempts == 1


async def test_a_closed_session_sends_nothing() -> None:
    """After closing, every call says so; closing again does nothing."""
    async with playing(always(reply())) as (session, server, _):
        await session.aclose()
        await session.aclose()
        assert isinstance(await failure(session), ClientClosedError)
        assert server.seen == []


async def test_closing_ends_calls_under_way() -> None:
    """Who waits for a token or a reply while the client is closed is told so."""
    hang = asyncio.Event()
    for token_hangs in (True, False):

        async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes:
            if seen.path == "/token" and not token_hangs:  # noqa: B023 - used in this round only
                return token_reply()
            hang.set()
            return await forever()

        hang.clear()
        async with playing(answer) as (session, _, clock):
            task = asyncio.create_task(failure(session))
            await hang.wait()
            await session.aclose()
            assert isinstance(await task, ClientClosedError)
            assert clock.slept == []


def test_a_session_belongs_to_one_event_loop() -> None:
    """A call from a second loop says so, clearly, and sends nothing."""

    async def first() -> SessionManager:
        async with serving(always(reply())) as server:
            session = SessionManager(server.url, auth=BASIC)
            await call(session)
            return session

    with asyncio.Runner() as runner:
        session = runner.run(first())
        with asyncio.Runner() as other:
            error = other.run(failure(session))
        assert isinstance(error, ClientClosedError)
        assert "belongs to the event loop in which it was first used" in str(error)
        runner.run(session.aclose())


def test_a_session_made_outside_a_loop_works_in_one() -> None:
    """Nothing is bound to a loop before the first call."""
    session = SessionManager("http://127.0.0.1:9", auth=BASIC, retry=RetryPolicy(max_attempts=1))

    async def use() -> None:
        assert isinstance(await failure(session), ConnectionFailedError)
        await session.aclose()

    asyncio.run(use())


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "http://example.com"},
        {"auth_url": "http://example.com"},
        {"base_url": "https://user:S3CRET@example.com"},
        {"auth_url": "https://user:S3CRET@example.com"},
        {"proxy": "socks5://user:S3CRET@proxy"},
        {"proxy": "http://user:S3CRET@proxy", "concurrency": 0},
        {"auth": "user:S3CRET"},
        {"auth": ("user", "S3CRET")},
        {"auth": None},
        {"timeouts": 5},
        {"timeouts": 0},
        {"retry": 3},
        {"retry": 0},
        {"user_agent": 7},
        {"trace_configs": [7]},
        {"token_store": object()},
        {"concurrency": 0},
        {"concurrency": 2.0},
        {"concurrency": True},
        {"max_rate": 0},
        {"max_rate": float("nan")},
        {"max_rate": "4"},
        {"max_response_bytes": 0},
        {"auth": BASIC, "token_store": object()},
    ],
)
def test_an_argument_that_cannot_be_meant_is_refused(options: dict[str, Any]) -> None:
    """Every argument is checked when the session is made."""
    good: dict[str, Any] = {"base_url": "https://a.example", "auth": OAUTH}
    with pytest.raises(ConfigurationError) as caught:
        SessionManager(**good | options)
    assert "S3CRET" not in str(caught.value)
    frames = [frame for frame, _ in walk_tb(caught.tb) if frame.f_globals is not globals()]
    assert frames
    assert not any("S3CRET" in repr(frame.f_locals) for frame in frames)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"auth": ("u", "p")}, "auth must be BasicAuth or OAuth2ClientCredentials, found tuple"),
        ({"base_url": None}, "base_url must be a str, found NoneType"),
        ({"base_url": b"https://a.example"}, "base_url must be a str, found bytes"),
    ],
)
def test_an_argument_of_another_type_is_told_what_it_should_be(
    options: dict[str, Any],
    message: str,
) -> None:
    """The message names what is wanted and the type that came."""
    good: dict[str, Any] = {"base_url": "https://a.example", "auth": OAUTH}
    with pytest.raises(ConfigurationError) as caught:
        SessionManager(**good | options)
    assert str(caught.value) == message


async def test_a_cancelled_closing_ends_the_token_request_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever becomes of closing the connections, no task is left."""
    hang, closes = asyncio.Event(), asyncio.Event()
    close = aiohttp.ClientSession.close

    unclosed: list[aiohttp.ClientSession] = []

    async def hang_on(self: aiohttp.ClientSession) -> None:
        unclosed.append(self)
        closes.set()
        await forever()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes:
        hang.set()
        return await forever()

    async with playing(answer) as (session, _, _):
        waiter = asyncio.create_task(failure(session))
        await hang.wait()
        cache = session._shared.credentials
        assert isinstance(cache, TokenCache)
        flight = cache._flight
        assert flight is not None
        monkeypatch.setattr(aiohttp.ClientSession, "close", hang_on)
        closing = asyncio.create_task(session.aclose())
        await closes.wait()
        closing.cancel()
        await asyncio.wait((closing,))
        is_ended = flight.done()
        await close(*unclosed)
        assert is_ended
        assert isinstance(await waiter, ClientClosedError)


async def test_a_reader_sees_the_whole_reply() -> None:
    """Status, headers and body reach the reader as they came."""
    seen: list[Response] = []
    async with playing(always(reply(body=b"x", X_A="b")), auth=BASIC) as (session, _, _):
        await session.call(ASKED, seen.append)
    assert (seen[0].status, seen[0].body, seen[0].headers["x-a"]) == (200, b"x", "b")
