"""An access token that processes share through NATS or PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import pytest
from attrs import evolve, frozen
from nats.aio.client import Client

from income_client import CheckpointError, ConfigurationError, Secret, StoredToken
from income_client.engines.nats import NatsTokenStore
from income_client.engines.postgres import PostgresTokenStore
from tests.support.canaries import CANARY
from tests.support.nats_server import bucket, connected

TOKEN: Final = StoredToken(
    access_token=CANARY, expires_at=datetime(2031, 1, 1, 0, 0, 0, 5, UTC), lifetime=3600.5
)
LATER: Final = evolve(
    TOKEN, access_token=Secret("later"), expires_at=datetime(2032, 1, 1, tzinfo=UTC)
)


@frozen
class Shared:
    """A store of tokens with its clock."""

    open: Callable[..., Any]
    """Make the store of a process, with another key if that is said."""
    pass_time: Callable[[float], Awaitable[None]]


async def pass_time(pool: Any, seconds: float) -> None:
    """Make all claims so much older."""
    older = "UPDATE income_tokens SET claimed_at = claimed_at - make_interval(secs => $1)"
    await pool.execute(older, seconds)


@pytest.fixture
async def tokens(pool: Any) -> PostgresTokenStore:
    """Return a store with its table."""
    store = PostgresTokenStore(pool)
    await store.create_schema()
    return store


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Awaitable[None]]:
    """Stop the clock by which a store in NATS counts, and return what moves it."""
    now = 1000.0

    async def pass_time(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("income_client.engines.nats.time.monotonic", lambda: now)
    return pass_time


@pytest.fixture(params=["nats", "postgres"])
async def shared(request: pytest.FixtureRequest) -> AsyncIterator[Shared]:
    if request.param == "nats":
        async with connected(request.getfixturevalue("nats_server")) as client:
            moving = request.getfixturevalue("clock")
            yield Shared(partial(NatsTokenStore, await bucket(client)), moving)
        return
    async with request.getfixturevalue("postgres").pool() as pool:
        await PostgresTokenStore(pool).create_schema()
        yield Shared(partial(PostgresTokenStore, pool), partial(pass_time, pool))


async def test_a_token_comes_back_as_it_was_saved(shared: Shared) -> None:
    """Each key has its own, for each process that uses it."""
    tokens, other = shared.open(), shared.open("staging")
    assert await tokens.load() is None
    await tokens.save(TOKEN)
    assert await shared.open().load() == TOKEN
    assert await other.load() is None
    await other.save(LATER)
    await tokens.save(TOKEN)
    assert (await tokens.load(), await other.load()) == (TOKEN, LATER)


async def test_one_process_claims_the_renewal(shared: Shared) -> None:
    """Until it has saved the token, or its claim is old."""
    stores = [shared.open() for _ in range(8)]
    for _ in range(2):
        claims = await asyncio.gather(*(one.claim(10) for one in stores))
        assert sum(claims) == 1
        await stores[claims.index(True)].save(TOKEN)
        assert [await one.load() for one in stores] == [TOKEN] * 8
    assert [await one.claim(10) for one in stores] == [True] + [False] * 7
    claimer, second, third, *_ = stores
    assert await claimer.claim(10), "its own claim hinders nobody"
    assert await claimer.load() == TOKEN, "a claim leaves the token in use"
    assert not await second.claim(10)
    await shared.pass_time(9)
    assert not await second.claim(10)
    await shared.pass_time(1)
    assert await second.claim(10)
    assert not await claimer.claim(10)
    await second.save(TOKEN)
    assert await third.claim(10), "a save ends the claim"
    assert await shared.open("staging").claim(10), "each key has its own"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "10", None])
async def test_invalid_seconds_are_named(shared: Shared, seconds: Any) -> None:
    with pytest.raises(ConfigurationError, match="seconds"):
        await shared.open().claim(seconds)


# PostgreSQL


async def test_a_claim_from_the_future_holds_no_longer(
    pool: Any, tokens: PostgresTokenStore
) -> None:
    """The clock of the server was set back, or another server has taken over."""
    assert await tokens.claim(10)
    await pass_time(pool, -3600)
    assert await PostgresTokenStore(pool).claim(10)


async def test_what_no_token_can_come_from_is_an_error(
    pool: Any, tokens: PostgresTokenStore
) -> None:
    """A row that somebody has changed by hand; a missing table, with the command that makes it."""
    await tokens.save(TOKEN)
    await pool.execute("UPDATE income_tokens SET access_token = $1", f"{CANARY} \u00e4")
    with pytest.raises(CheckpointError, match="access_token must be"):
        await tokens.load()
    await pool.execute("DROP TABLE income_tokens")
    with pytest.raises(CheckpointError, match="income-client schema postgres") as caught:
        await tokens.save(TOKEN)
    assert not caught.value.retryable


async def test_invalid_arguments_are_named(pool: Any, tokens: PostgresTokenStore) -> None:
    unchecked: Any = tokens
    with pytest.raises(ConfigurationError, match="token must be"):
        await unchecked.save("a token")
    with pytest.raises(ConfigurationError, match="key must be"):
        PostgresTokenStore(pool, "")


# NATS


async def test_a_token_that_came_after_its_claim_was_over_is_shared_all_the_same(
    client: Client, clock: Callable[[float], Awaitable[None]]
) -> None:
    """Other processes need no request of their own; a later token replaces an earlier one only."""
    kv = await bucket(client)
    slow, second, third = [NatsTokenStore(kv) for _ in range(3)]
    assert await slow.claim(5)
    assert not await second.claim(5)
    await clock(6)
    assert await second.claim(5)
    await slow.save(TOKEN)
    assert await third.load() == TOKEN
    await second.save(LATER)
    assert await third.load() == LATER
    assert await slow.claim(5)
    assert not await second.claim(5)
    await clock(6)
    assert await second.claim(5)
    await second.save(LATER)
    await slow.save(TOKEN)
    assert await third.load() == LATER
