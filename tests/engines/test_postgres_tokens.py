"""An access token that processes share through PostgreSQL."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from income_client import CheckpointError, ConfigurationError, IncomeClient, StoredToken
from income_client.engines.postgres import PostgresTokenStore
from tests.support.canaries import CANARY
from tests.support.service import served

TOKEN: Final = StoredToken(
    access_token=CANARY, expires_at=datetime(2031, 1, 1, 0, 0, 0, 5, UTC), lifetime=3600.5
)


@pytest.fixture
async def tokens(pool: Any) -> PostgresTokenStore:
    """Return a store with its table."""
    store = PostgresTokenStore(pool)
    await store.create_schema()
    return store


async def pass_time(pool: Any, seconds: float) -> None:
    """Make all claims so much older."""
    older = "UPDATE income_tokens SET claimed_at = claimed_at - make_interval(secs => $1)"
    await pool.execute(older, seconds)


async def test_a_token_comes_back_as_it_was_saved(pool: Any, tokens: PostgresTokenStore) -> None:
    """Each key has its own, for each process that uses it."""
    assert await tokens.load() is None
    await tokens.save(TOKEN)
    assert await PostgresTokenStore(pool).load() == TOKEN
    other = PostgresTokenStore(pool, "staging")
    assert await other.load() is None
    later = StoredToken(access_token="other", expires_at=datetime(2032, 1, 1, tzinfo=UTC))
    await other.save(later)
    await tokens.save(TOKEN)
    assert (await tokens.load(), await other.load()) == (TOKEN, later)


async def test_one_process_claims_the_renewal(pool: Any, tokens: PostgresTokenStore) -> None:
    """Until it has saved the token, or its claim is old."""
    others = [PostgresTokenStore(pool) for _ in range(7)]
    claims = await asyncio.gather(*(one.claim(10) for one in (tokens, *others)))
    assert sum(claims) == 1
    await tokens.save(TOKEN)
    assert [await one.claim(10) for one in (tokens, *others)] == [True] + [False] * 7
    assert await tokens.claim(10), "its own claim hinders nobody"
    assert await tokens.load() == TOKEN, "a claim leaves the token in use"
    await pass_time(pool, 9)
    assert not await others[0].claim(10)
    await pass_time(pool, 1)
    assert await others[0].claim(10)
    assert not await tokens.claim(10)
    await tokens.save(TOKEN)
    assert await others[1].claim(10), "a save ends the claim of any process"
    assert await PostgresTokenStore(pool, "staging").claim(10), "each key has its own"


async def test_a_claim_from_the_future_holds_no_longer(
    pool: Any, tokens: PostgresTokenStore
) -> None:
    """The clock of the server was set back, or another server has taken over."""
    assert await tokens.claim(10)
    await pass_time(pool, -3600)
    assert await PostgresTokenStore(pool).claim(10)


async def test_a_missing_table_is_an_error(pool: Any, tokens: PostgresTokenStore) -> None:
    """It says which command makes the table."""
    await pool.execute("DROP TABLE income_tokens")
    with pytest.raises(CheckpointError, match="income-client schema postgres") as caught:
        await tokens.save(TOKEN)
    assert not caught.value.retryable


async def test_a_row_that_is_no_token_is_an_error(pool: Any, tokens: PostgresTokenStore) -> None:
    """Somebody has changed it by hand; the client requests a token of its own."""
    await tokens.save(TOKEN)
    await pool.execute("UPDATE income_tokens SET access_token = $1", f"{CANARY} \u00e4")
    with pytest.raises(CheckpointError, match="access_token must be"):
        await tokens.load()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "10", None])
async def test_invalid_arguments_are_named(tokens: PostgresTokenStore, seconds: Any) -> None:
    """Before the database is asked."""
    with pytest.raises(ConfigurationError, match="seconds"):
        await tokens.claim(seconds)


async def test_other_invalid_arguments_are_named(pool: Any, tokens: PostgresTokenStore) -> None:
    """A token is no text."""
    unchecked: Any = tokens
    with pytest.raises(ConfigurationError, match="token must be"):
        await unchecked.save("a token")
    with pytest.raises(ConfigurationError, match="key must be"):
        PostgresTokenStore(pool, "")


async def test_clients_share_one_token(pool: Any, tokens: PostgresTokenStore) -> None:
    """The second asks the table and not the token endpoint."""
    async with served(3) as (service, _):
        for _ in range(2):
            options: dict[str, Any] = {"token_store": PostgresTokenStore(pool)}
            async with IncomeClient(service.url, auth=service.oauth2, **options) as client:
                await client.get_application(service.world.ids[0])
                async with asyncio.timeout(30):
                    while await tokens.load() is None:
                        pass
        assert sum(request.name == "token" for request in service.requests) == 1
    stored = await tokens.load()
    assert stored is not None
    assert stored.expires_at > datetime.now(UTC) - timedelta(days=1)
