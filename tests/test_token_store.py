"""A shared store saves purchases, and may fail."""

from datetime import timedelta

import pytest

from income_client.protocol.tokens import StoredToken, Token
from income_client.settings import Secret
from income_client.testing import JumpingClock
from tests.scripted_server import forever
from tests.token_shop import NOON, Shelf, Shop, settle, shared, text


@pytest.fixture
def clock() -> JumpingClock:
    """Return a clock that jumps."""
    return JumpingClock()


@pytest.fixture
def shop(clock: JumpingClock) -> Shop:
    """Return a shop."""
    return Shop(clock)


async def test_a_second_process_buys_nothing(shop: Shop, clock: JumpingClock) -> None:
    """What one cache bought, another takes from the store."""
    shelf = Shelf()
    first, second = shared(shop, clock, shelf), shared(shop, clock, shelf)
    assert text(await first.get()) == "t1"
    assert text(await second.get()) == "t1"
    assert (shop.asked, shelf.saved) == (1, 1)


async def test_a_refused_token_is_not_taken_from_the_store(
    shop: Shop,
    clock: JumpingClock,
) -> None:
    """What was just refused is not loaded again; what another process bought since then is."""
    shelf = Shelf()
    first, second = shared(shop, clock, shelf), shared(shop, clock, shelf)
    tokens = [await first.get(), await second.get()]
    for cache, token in zip((first, second), tokens, strict=True):
        assert isinstance(token, Token)
        cache.invalidate(token)
    assert text(await first.get()) == "t2"
    assert text(await second.get()) == "t2"
    assert shop.asked == 2


@pytest.mark.parametrize(("seconds", "bought"), [(3600, 0), (200, 0), (5, 1), (-10, 1)])
async def test_a_stored_token_is_used_while_it_serves(
    shop: Shop,
    clock: JumpingClock,
    seconds: float,
    bought: int,
) -> None:
    """A token that is over, or nearly so, is replaced; a stale one is better than waiting."""
    stored = StoredToken(access_token=Secret("s"), expires_at=NOON + timedelta(seconds=seconds))
    cache = shared(shop, clock, Shelf(stored))
    await cache.get()
    assert shop.asked == bought


async def test_early_renewal_takes_a_fresh_token_of_others(
    shop: Shop,
    clock: JumpingClock,
) -> None:
    """If another process renewed it already, its token is taken."""
    shelf = Shelf()
    cache = shared(shop, clock, shelf)
    await cache.get()
    clock.advance(3400)
    shelf.stored = StoredToken(access_token=Secret("s"), expires_at=NOON + timedelta(hours=1.9))
    assert text(cache.current()) == "t1"
    await settle()
    assert text(cache.current()) == "s"
    assert shop.asked == 1


@pytest.mark.parametrize("fault", [OSError("S3CRET"), KeyError("S3CRET"), TimeoutError("S3CRET")])
async def test_a_failing_store_never_breaks_a_call(
    shop: Shop,
    clock: JumpingClock,
    fault: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A store that fails is warned about by type only, and done without."""
    shelf = Shelf()
    shelf.fault = fault
    assert text(await shared(shop, clock, shelf).get()) == "t1"
    assert [line.levelname for line in caplog.records] == ["WARNING", "WARNING"]
    assert type(fault).__name__ in caplog.text
    assert "S3CRET" not in caplog.text


async def test_a_store_that_gives_something_else_is_done_without(
    shop: Shop,
    clock: JumpingClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Anything that is no stored token counts as a failure of the store."""
    shelf = Shelf("S3CRET")  # type: ignore[arg-type]
    assert text(await shared(shop, clock, shelf).get()) == "t1"
    assert "WARNING" in [line.levelname for line in caplog.records]
    assert "S3CRET" not in caplog.text


async def test_a_hanging_store_is_not_waited_for(
    shop: Shop,
    clock: JumpingClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store that never answers delays a call a little and no more."""

    class Abyss(Shelf):
        async def load(self) -> StoredToken | None:
            await forever()

    monkeypatch.setattr("income_client.token_cache._STORE_SECONDS", 0.01)
    assert text(await shared(shop, clock, Abyss()).get()) == "t1"
