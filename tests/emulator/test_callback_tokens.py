"""Callbacks with tokens, which are bought where the partner says (contract section 5.2)."""

import asyncio
from typing import Any, Final
from urllib.parse import parse_qs

import pytest

from income_client import OAuth2ClientCredentials
from income_client.emulator import CallbackTarget, Emulator
from income_client.testing import JumpingClock
from tests.support.scripted_server import (
    ScriptedServer,
    Seen,
    always,
    reply,
    serving,
    token_reply,
    with_tokens,
)

AUTH: Final = OAuth2ClientCredentials("callback-client", "invented-secret")


def target_at(server: ScriptedServer, **options: Any) -> CallbackTarget:
    """Return a target there, and a token address beside it."""
    return CallbackTarget(
        f"{server.url}/callbacks", auth=AUTH, token_url=f"{server.url}/token", **options
    )


def carried(server: ScriptedServer) -> list[str]:
    """Return the Authorization headers of the callbacks that came."""
    return [seen.authorization for seen in server.seen if seen.path == "/callbacks"]


async def test_a_token_is_bought_and_kept(service: Emulator) -> None:
    """One token request of client credentials serves many callbacks at once and later."""
    async with serving(with_tokens(always(reply()))) as server:
        service.callbacks = target_at(server)
        await asyncio.gather(*map(service.fire_callback, service.world.ids[:5]))
        await service.fire_callback()
    assert carried(server) == ["Bearer token-1"] * 6
    assert server.token_requests == 1
    bought = server.seen[0]
    assert bought.authorization == AUTH.authorization().reveal()
    assert bought.headers["content-type"] == "application/x-www-form-urlencoded"
    assert parse_qs(bought.body.decode()) == {"grant_type": ["client_credentials"]}


async def test_a_token_is_bought_anew_once_it_expired() -> None:
    """The life of a token goes by the emulator's clock."""
    clock = JumpingClock()
    async with (
        Emulator(5, clock=clock) as service,
        serving(with_tokens(always(reply()), lifetime=100)) as server,
    ):
        service.callbacks = target_at(server)
        for passed in (0, 99, 1):
            clock.advance(passed)
            await service.fire_callback()
    assert carried(server) == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


async def test_a_refused_token_is_renewed_once() -> None:
    """A 401 leads to one new token and one more attempt without a pause, and no further."""
    clock = JumpingClock()
    async with Emulator(5, clock=clock) as service:
        for answers, attempts in (
            ([reply(401), reply()], (401, 200)),
            ([reply(401)], (401, 401)),
            ([reply(503), reply(401), reply(503), reply()], (503, 401, 503, 200)),
        ):
            async with serving(with_tokens(always(*answers))) as server:
                delivery = await service.fire_callback(target=target_at(server))
            assert delivery.attempts == attempts
            assert server.token_requests == 2
    assert clock.slept == [1, 2]


async def test_it_need_not_be_renewed(service: Emulator) -> None:
    """Whether the service buys a new token at all is a setting."""
    async with serving(with_tokens(always(reply(401), reply()))) as server:
        target = target_at(server, renews_on_401=False)
        assert (await service.fire_callback(target=target)).attempts == (401,)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (reply(401), "token_401"),
        (reply(302, Location="/callbacks"), "token_302"),
        (None, "token_dropped"),
        (reply(body=b"no JSON"), "token_unreadable"),
        (reply(body=b"[]"), "token_unreadable"),
        (token_reply(""), "token_unreadable"),
        (token_reply("two words"), "token_unreadable"),
        (token_reply("line\r\nX: y"), "token_unreadable"),
        (token_reply(token_type="mac"), "token_unreadable"),
        (token_reply(expires_in="3600"), "token_unreadable"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_without_a_token_nothing_is_sent(
    service: Emulator, answer: bytes | None, fault: str
) -> None:
    """Where no token can be had, the attempt is named for that and the endpoint sees nothing."""
    async with serving(always(answer)) as server:
        delivery = await service.fire_callback(target=target_at(server))
    assert delivery.attempts == (fault,)
    assert carried(server) == []


async def test_a_failed_token_request_is_made_again() -> None:
    """Where missing answers are followed by another attempt, missing tokens are too."""
    count = 0

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes:
        nonlocal count
        count += 1
        return reply(503) if count == 1 else token_reply("token-2")

    async with Emulator(5, clock=JumpingClock()) as service, serving(answer) as server:
        target = target_at(server, resends_unanswered=True)
        assert (await service.fire_callback(target=target)).attempts == ("token_503", 200)


async def test_tokens_are_their_targets_own(service: Emulator) -> None:
    """A token is never sent to another endpoint than the one it was bought for."""
    async with (
        serving(with_tokens(always(reply()))) as one,
        serving(with_tokens(always(reply()))) as other,
    ):
        for server in (one, other, one):
            await service.fire_callback(target=target_at(server))
    assert (one.token_requests, other.token_requests) == (1, 1)
