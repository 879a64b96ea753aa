"""A session's tokens and credentials: bought once, replaced once, shown to nobody else."""

import asyncio
from typing import Any

import pytest

from income_client.errors import (
    AuthenticationError,
    ConnectionFailedError,
    PermissionDeniedError,
    TokenError,
    UnexpectedResponseError,
)
from income_client.settings import RetryPolicy, Timeouts
from tests.support.scripted_server import (
    Seen,
    always,
    reply,
    serving,
    token_reply,
    with_tokens,
)
from tests.support.session import BASIC, call, failure, playing

INVALID_TOKEN: dict[str, Any] = {"WWW_Authenticate": 'Bearer error="invalid_token"'}


async def test_a_call_buys_a_token_and_keeps_it() -> None:
    """The token request carries the client's credentials, the calls the token."""
    async with playing(with_tokens(always(reply(body=b"fine")))) as (session, server, _):
        assert [await call(session) for _ in range(3)] == [b"fine"] * 3
    assert server.token_requests == 1
    assert server.seen[0].authorization == "Basic cGFydG5lcjppbnZlbnRlZA=="
    assert {seen.authorization for seen in server.seen[1:]} == {"Bearer token-1"}


async def test_user_and_password_need_no_token() -> None:
    """Basic credentials go with every call."""
    async with playing(always(reply(body=b"fine")), auth=BASIC) as (session, server, _):
        assert await call(session) == b"fine"
    assert server.seen[0].authorization == "Basic dXNlcjppbnZlbnRlZA=="


async def test_a_thousand_first_calls_buy_one_token() -> None:
    """However many begin at once, the token is bought once."""
    async with playing(with_tokens(always(reply(body=b"fine")))) as (session, server, _):
        assert set(await asyncio.gather(*[call(session) for _ in range(1000)])) == {b"fine"}
        assert (server.token_requests, server.api_requests) == (1, 1000)


async def test_two_hundred_refusals_buy_one_token() -> None:
    """Those who are refused with the same token wait for the same new one."""
    arrived = 0
    all_here = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes:
        nonlocal arrived
        if seen.authorization == "Bearer token-2":
            return reply(body=b"fine")
        arrived += 1
        if arrived == 200:
            all_here.set()
        await all_here.wait()
        return reply(401, **INVALID_TOKEN)

    async with playing(with_tokens(answer), concurrency=200) as (session, server, _):
        assert set(await asyncio.gather(*[call(session) for _ in range(200)])) == {b"fine"}
        assert (server.token_requests, server.api_requests) == (2, 400)


async def test_a_late_refusal_of_an_old_token_buys_nothing() -> None:
    """A call that was sent with a token since replaced is repeated with the present one."""
    late, replaced = asyncio.Event(), asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes:
        if seen.authorization == "Bearer token-2":
            return reply(body=b"fine")
        if not late.is_set():
            late.set()
            await replaced.wait()
        return reply(401, **INVALID_TOKEN)

    async with playing(with_tokens(answer)) as (session, server, _):
        slow = asyncio.create_task(call(session))
        await late.wait()
        assert await call(session) == b"fine"
        replaced.set()
        assert await slow == b"fine"
        assert server.token_requests == 2


async def test_a_second_refusal_is_raised() -> None:
    """A call is repeated once, whatever the service says, and 401 has no further tries."""
    async with playing(with_tokens(always(reply(401)))) as (session, server, clock):
        error = await failure(session)
        assert isinstance(error, AuthenticationError)
        assert (error.status, error.attempts, error.retryable) == (401, 2, False)
        assert (server.token_requests, server.api_requests, clock.slept) == (2, 2, [])


async def test_the_repetition_does_not_count_as_an_attempt() -> None:
    """A refused token costs neither a pause nor one of the attempts, but happens once a call."""
    answers = [reply(503), reply(401), reply(503), reply(body=b"fine")]
    async with playing(with_tokens(always(*answers))) as (session, server, clock):
        assert await call(session) == b"fine"
        assert (server.token_requests, server.api_requests) == (2, 4)
        assert clock.slept == [0.025, 0.05]
    answers = [reply(401), reply(503), reply(401)]
    async with playing(with_tokens(always(*answers))) as (session, server, _):
        assert isinstance(await failure(session), AuthenticationError)
        assert server.api_requests == 3


async def test_refused_basic_credentials_are_raised_at_once() -> None:
    """There is nothing to refresh."""
    async with playing(always(reply(401)), auth=BASIC) as (session, server, _):
        assert isinstance(await failure(session), AuthenticationError)
        assert server.api_requests == 1


async def test_a_forbidden_call_refreshes_nothing() -> None:
    """403 is neither repeated nor a reason to distrust the token."""
    async with playing(with_tokens(always(reply(403)))) as (session, server, _):
        assert isinstance(await failure(session), PermissionDeniedError)
        assert (server.token_requests, server.api_requests) == (1, 1)


@pytest.mark.parametrize(
    ("answers", "cls", "requests"),
    [
        ([reply(500)], TokenError, 3),
        ([reply(body=b"<html>", content_type="text/html")], TokenError, 3),
        ([reply(429, Retry_After="99")], TokenError, 1),
        ([reply(307, Location="/elsewhere")], TokenError, 1),
        ([reply(400, b'{"error": "invalid_client"}')], AuthenticationError, 1),
        ([reply(401)], AuthenticationError, 1),
        ([token_reply(token_type="mac")], TokenError, 1),
        ([token_reply("")], TokenError, 1),
        ([token_reply("a\r\nX: y")], TokenError, 1),
        ([None], ConnectionFailedError, 3),
    ],
)
async def test_a_token_that_cannot_be_had_is_raised(
    answers: list[bytes | None],
    cls: type[Exception],
    requests: int,
) -> None:
    """The token request has its own three tries, which are not multiplied by the call's."""
    async with playing(always(*answers)) as (session, server, _):
        error = await failure(session)
        assert type(error) is cls
        assert (server.token_requests, server.api_requests) == (requests, 0)
        assert error.attempts == requests


async def test_a_wrong_secret_is_not_tried_again_and_again() -> None:
    """Two thousand calls make one token request, and ten seconds later one more."""
    async with playing(always(reply(401))) as (session, server, clock):
        errors = await asyncio.gather(*[failure(session) for _ in range(2000)])
        clock.advance(3.4)
        later = await failure(session)
        assert {type(error) for error in [*errors, later]} == {AuthenticationError}
        assert {(error.message, error.retry_after) for error in errors} == {
            ("token: 401 Unauthorized, the client credentials were refused", 10.0),
        }
        assert later.message == (
            "token: the token endpoint refused the client credentials 3 s ago, "
            "and is asked again in 7 s"
        )
        assert server.token_requests == 1
        clock.advance(6.6)
        await failure(session)
        assert server.token_requests == 2


async def test_a_throttled_token_endpoint_is_left_alone() -> None:
    """No token request goes out during the pause: calls fail at once, or wait if they can."""
    scripted = always(reply(429, Retry_After="30"), token_reply(), reply(body=b"fine"))
    once = RetryPolicy(max_attempts=1)
    held: list[bool] = []

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        if seen.path == "/token":
            held.append(session._shared.slots.locked())
        return await scripted(seen, writer)

    async with playing(answer, retry=once, concurrency=1) as (session, server, clock):
        assert isinstance(await failure(session), TokenError)
        hurried = session.with_options(timeouts=Timeouts(deadline=29))
        error = await failure(hurried)
        assert isinstance(error, TokenError)
        assert (error.retryable, error.status, error.retry_after) == (True, None, 30.0)
        assert (server.token_requests, clock.slept) == (1, [])
        assert await asyncio.gather(*[call(session) for _ in range(5)]) == [b"fine"] * 5
        assert held == [False, False]
        assert clock.slept == [30.0] * 5
        assert (server.token_requests, server.api_requests) == (2, 5)


async def test_a_token_endpoint_that_recovers_is_not_noticed() -> None:
    """Failures of the token request are retried while the call waits."""
    answer = always(reply(503), None, token_reply(), reply(body=b"fine"))
    async with playing(answer) as (session, server, clock):
        assert await call(session) == b"fine"
        assert (server.token_requests, server.api_requests) == (3, 1)
        assert clock.slept == [0.025, 0.05]


async def test_a_token_endpoint_that_is_down_fails_nobody_while_the_token_serves() -> None:
    """In the last minutes of a token the calls go on, whatever the token endpoint does."""

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        if seen.path != "/token":
            return reply(body=b"fine")
        return token_reply() if server.token_requests == 1 else None

    async with playing(answer) as (session, server, clock):
        await call(session)
        clock.advance(3301)
        for _ in range(20):
            assert await call(session) == b"fine"
        assert server.token_requests > 1


@pytest.mark.parametrize("before", [[], [reply(401)], [reply(503)], [reply(503), reply(401)]])
async def test_another_host_never_sees_the_credentials(before: list[bytes]) -> None:
    """A redirect is an error, with a refreshed token or a retry in between as well."""
    async with serving(always(reply())) as other:
        answers = [*before, reply(307, Location=f"{other.url}/x")]
        async with playing(with_tokens(always(*answers))) as (session, _, _):
            assert isinstance(await failure(session), UnexpectedResponseError)
        async with playing(always(*before, reply(307, Location=f"{other.url}/token"))) as (
            session,
            _,
            _,
        ):
            assert isinstance(await failure(session), TokenError | AuthenticationError)
        assert other.seen == []


async def test_a_token_host_of_its_own_gets_the_token_request_only() -> None:
    """Client credentials go to the token host, tokens to the API."""
    async with serving(with_tokens(always(reply()))) as login:
        async with playing(always(reply(body=b"fine")), auth_url=login.url) as (session, server, _):
            assert await call(session) == b"fine"
        assert [seen.path for seen in login.seen] == ["/token"]
        assert server.token_requests == 0
