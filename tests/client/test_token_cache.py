"""One purchase for all who wait, and renewal in time."""

import asyncio
import logging

import pytest

from income_client.errors import AuthenticationError, ClientClosedError, ServerError, TokenError
from income_client.pacing import Gate
from income_client.protocol.tokens import Token
from income_client.testing import JumpingClock
from income_client.token_cache import TokenCache
from tests.support.tokens import Shop, settle, text


@pytest.fixture
def clock() -> JumpingClock:
    """Return a clock that jumps."""
    return JumpingClock()


@pytest.fixture
def shop(clock: JumpingClock) -> Shop:
    """Return a shop."""
    return Shop(clock)


@pytest.fixture
def cache(shop: Shop, clock: JumpingClock) -> TokenCache:
    """Return a cache without a store."""
    return TokenCache(shop.buy, clock)


async def test_a_thousand_waiters_share_one_purchase(cache: TokenCache, shop: Shop) -> None:
    """However many need the first token, it is bought once."""
    tokens = await asyncio.gather(*[cache.get() for _ in range(1000)])
    assert {text(token) for token in tokens} == {"t1"}
    assert shop.asked == 1
    assert text(cache.current()) == "t1"


async def test_a_cancelled_leader_harms_nobody(cache: TokenCache, shop: Shop) -> None:
    """The purchase goes on for the others when the one who began it is cancelled."""
    shop.opened.clear()
    leader, *others = [asyncio.create_task(cache.get()) for _ in range(5)]
    await settle()
    leader.cancel()
    await settle()
    assert leader.cancelled()
    shop.opened.set()
    assert [text(token) for token in await asyncio.gather(*others)] == ["t1"] * 4
    assert shop.asked == 1


async def test_a_purchase_outlives_all_who_waited(cache: TokenCache, shop: Shop) -> None:
    """When every waiter is gone, the token still comes for the next one."""
    shop.opened.clear()
    waiters = [asyncio.create_task(cache.get()) for _ in range(3)]
    await settle()
    for waiter in waiters:
        waiter.cancel()
    await settle()
    shop.opened.set()
    await settle()
    assert text(cache.current()) == "t1"


async def test_each_waiter_gets_an_error_of_its_own(cache: TokenCache, shop: Shop) -> None:
    """A shared instance would collect the tracebacks of all its raisers."""
    shop.error = ServerError("x", status=503)
    errors = await asyncio.gather(cache.get(), cache.get())
    assert [type(error) for error in errors] == [ServerError, ServerError]
    assert errors[0] is not errors[1]
    assert shop.asked == 1
    shop.error = None
    assert text(await cache.get()) == "t2"


async def test_a_stale_token_is_renewed_in_the_background(
    cache: TokenCache,
    shop: Shop,
    clock: JumpingClock,
) -> None:
    """Callers go on with the old token until the new one is there."""
    await cache.get()
    clock.advance(3301)
    shop.opened.clear()
    assert [text(cache.current()) for _ in range(9)] == ["t1"] * 9
    await settle()
    assert text(await cache.get()) == "t1"
    shop.opened.set()
    await settle()
    assert text(cache.current()) == "t2"
    assert shop.asked == 2


async def test_a_failed_early_renewal_keeps_the_token(
    cache: TokenCache,
    shop: Shop,
    clock: JumpingClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With the token endpoint down nothing fails while the token serves, and few go out."""
    await cache.get()
    shop.error = ServerError("x", status=503)
    clock.advance(3300)
    for _ in range(2890):
        assert text(cache.current()) == "t1"
        await asyncio.sleep(0)
        clock.advance(0.1)
    await settle()
    assert 9 <= shop.asked - 1 <= 10
    warnings = [line for line in caplog.records if line.levelno == logging.WARNING]
    assert len(warnings) == shop.asked - 1
    assert vars(warnings[0])["status"] == 503
    clock.advance(2)
    assert cache.current() is None
    assert isinstance(await cache.get(), ServerError)


async def test_a_short_life_is_renewed_at_its_own_scale(clock: JumpingClock) -> None:
    """A token of a minute is neither renewed at every call nor left to die."""
    shop = Shop(clock, lifetime=60)
    cache = TokenCache(shop.buy, clock)
    await cache.get()
    for _ in range(600):
        clock.advance(1)
        assert cache.current() is not None
        await settle()
    assert 12 <= shop.asked <= 15


async def test_only_the_token_that_failed_is_dropped(cache: TokenCache, shop: Shop) -> None:
    """A late refusal of an old token does not kill the new one."""
    old = await cache.get()
    assert isinstance(old, Token)
    cache.invalidate(old)
    assert cache.current() is None
    assert text(await cache.get()) == "t2"
    cache.invalidate(old)
    assert text(cache.current()) == "t2"
    assert shop.asked == 2


async def test_refused_credentials_are_remembered_for_a_while(
    cache: TokenCache,
    shop: Shop,
    clock: JumpingClock,
) -> None:
    """For ten seconds each asker gets a copy of the refusal; then one purchase is tried."""
    shop.error = AuthenticationError("x", status=401, attempts=1)
    first, second = await cache.get(), await cache.get()
    clock.advance(9.9)
    third = await cache.get()
    assert [type(error) for error in (first, second, third)] == [AuthenticationError] * 3
    assert len({id(error) for error in (first, second, third, shop.error)}) == 4
    assert shop.asked == 1
    clock.advance(0.1)
    shop.error = None
    assert text(await cache.get()) == "t2"


async def test_a_closed_gate_stops_renewals_and_is_waited_for(
    shop: Shop,
    clock: JumpingClock,
) -> None:
    """While it is closed the stale token serves; who has none waits, if the deadline allows."""
    gate = Gate()
    cache = TokenCache(shop.buy, clock, gate=gate)
    gate.close(clock.monotonic() + 20)
    error = await cache.get(clock.monotonic() + 20)
    assert isinstance(error, TokenError)
    assert (error.retry_after, error.retryable, shop.asked) == (20, True, 0)
    tokens = await asyncio.gather(*[cache.get(clock.monotonic() + 21) for _ in range(3)])
    assert {text(token) for token in tokens} == {"t1"}
    assert clock.slept == [20] * 3
    clock.advance(3301)
    gate.close(clock.monotonic() + 20)
    assert text(cache.current()) == "t1"
    await settle()
    assert shop.asked == 1
    clock.advance(20)
    assert text(cache.current()) == "t1"
    await settle()
    assert text(cache.current()) == "t2"


async def test_closing_ends_a_purchase_and_tells_its_waiters(
    cache: TokenCache,
    shop: Shop,
) -> None:
    """Closing leaves no task; who waits gets an error rather than a cancellation."""
    shop.opened.clear()
    waiter = asyncio.create_task(cache.get())
    await settle()
    await cache.aclose()
    await cache.aclose()
    assert isinstance(await waiter, ClientClosedError)
    assert isinstance(await cache.get(), ClientClosedError)
    assert asyncio.all_tasks() == {asyncio.current_task()}
