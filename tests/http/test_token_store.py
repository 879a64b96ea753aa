"""A shared store saves token requests, and may fail."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import pytest

from income_client import IncomeClient
from income_client.emulator import Emulator
from income_client.http.tokens import StoredToken, Token, TokenCache
from income_client.settings import Secret, Timeouts
from income_client.testing import JumpingClock
from tests.support.clients import call, playing
from tests.support.loop_time import pass_time
from tests.support.server import in_turn, reply, token_rules, turns
from tests.support.tokens import NOON, Shelf, Shop, shared, text


@pytest.fixture
def clock() -> JumpingClock:
    """Return a clock that jumps."""
    return JumpingClock()


@pytest.fixture
def shop(clock: JumpingClock) -> Shop:
    """Return a shop."""
    return Shop(clock)


async def test_a_second_process_requests_nothing(shop: Shop, clock: JumpingClock) -> None:
    """What one cache received, another takes from the store."""
    shelf = Shelf()
    first, second = shared(shop, clock, shelf), shared(shop, clock, shelf)
    assert text(await first.get()) == "t1"
    await turns(10)
    assert text(await second.get()) == "t1"
    assert (shop.asked, shelf.saved) == (1, 1)


async def test_a_refused_token_is_not_taken_from_the_store(shop: Shop, clock: JumpingClock) -> None:
    """What was just refused is not loaded again; what another process saved since then is."""
    shelf = Shelf()
    first, second = shared(shop, clock, shelf), shared(shop, clock, shelf)
    tokens = [await first.get()]
    await turns(10)
    tokens.append(await second.get())
    for cache, token in zip((first, second), tokens, strict=True):
        assert isinstance(token, Token)
        cache.invalidate(token)
    assert text(await first.get()) == "t2"
    await turns(10)
    assert text(await second.get()) == "t2"
    assert shop.asked == 2


async def test_a_refused_token_of_another_process_is_replaced_as_well() -> None:
    """After a revocation of all tokens, the call succeeds with a new one."""
    ends = datetime.now(UTC) + timedelta(hours=1)
    revoked = [StoredToken(access_token=Secret(text), expires_at=ends) for text in ("a", "b")]

    class Circulating(Shelf):
        async def load(self) -> StoredToken | None:
            return revoked.pop(0) if len(revoked) > 1 else revoked[0]

    async with (
        Emulator(3) as service,
        IncomeClient(service.url, auth=service.oauth2, token_store=Circulating()) as client,
    ):
        assert (await client.get_application_page(limit=3)).applications
        calls = [request.name for request in service.requests]
    assert calls == ["list_applications"] * 2 + ["token", "list_applications"]


@pytest.mark.parametrize(("seconds", "requests"), [(3600, 0), (200, 0), (5, 1), (-10, 1)])
async def test_a_stored_token_is_used_while_it_serves(
    shop: Shop, clock: JumpingClock, seconds: float, requests: int
) -> None:
    """A token that is over, or nearly so, is replaced; a stale one is better than waiting."""
    stored = StoredToken(access_token=Secret("s"), expires_at=NOON + timedelta(seconds=seconds))
    cache = shared(shop, clock, Shelf(stored))
    await cache.get()
    assert shop.asked == requests


async def test_early_renewal_takes_a_fresh_token_of_others(shop: Shop, clock: JumpingClock) -> None:
    """If another process renewed it already, its token is taken."""
    shelf = Shelf()
    cache = shared(shop, clock, shelf)
    await cache.get()
    clock.advance(3400)
    shelf.stored = StoredToken(access_token=Secret("s"), expires_at=NOON + timedelta(hours=1.9))
    assert text(cache.current()) == "t1"
    await turns(10)
    assert text(cache.current()) == "s"
    assert shop.asked == 1


@pytest.mark.parametrize("fault", [OSError("S3CRET"), KeyError("S3CRET"), TimeoutError("S3CRET")])
async def test_a_failing_store_never_breaks_a_call(
    shop: Shop, clock: JumpingClock, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that fails is warned about by type only, and done without."""
    shelf = Shelf()
    shelf.fault = fault
    assert text(await shared(shop, clock, shelf).get()) == "t1"
    await turns(10)
    assert [line.levelname for line in caplog.records] == ["WARNING", "WARNING"]
    assert type(fault).__name__ in caplog.text
    assert "S3CRET" not in caplog.text


async def test_a_store_that_gives_something_else_is_done_without(
    shop: Shop, clock: JumpingClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Anything but a stored token counts as a failure of the store."""
    shelf = Shelf("S3CRET")  # type: ignore[arg-type]
    assert text(await shared(shop, clock, shelf).get()) == "t1"
    await turns(10)
    assert "WARNING" in [line.levelname for line in caplog.records]
    assert "S3CRET" not in caplog.text


async def test_a_hanging_store_is_not_waited_for(
    shop: Shop, clock: JumpingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that never answers delays a call a little and no more."""

    class Abyss(Shelf):
        async def load(self) -> StoredToken | None:
            await never()

    monkeypatch.setattr("income_client.http.tokens._STORE_SECONDS", 0.01)
    assert text(await shared(shop, clock, Abyss()).get()) == "t1"


async def test_loading_leaves_a_short_deadline_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a call's time, a store that hangs takes no more than a part."""

    class Abyss(Shelf):
        async def load(self) -> StoredToken | None:
            pass_time(30)
            await never()

    monkeypatch.setattr("income_client.http.tokens._STORE_SECONDS", 1000)
    answer = token_rules(in_turn(reply(body=b"fine")))
    async with playing(answer, token_store=Abyss(), timeouts=Timeouts(deadline=100)) as (
        session,
        _,
        _,
    ):
        assert await call(session) == b"fine"


async def never() -> NoReturn:
    """Wait for what never comes."""
    await asyncio.Event().wait()
    raise AssertionError


class Snail(Shelf):
    """Saves when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = asyncio.Event()
        self.began = 0

    async def save(self, token: StoredToken) -> None:
        """Wait, then keep it."""
        self.began += 1
        await self.let.wait()
        await super().save(token)


async def test_nobody_waits_for_the_saving(shop: Shop, clock: JumpingClock) -> None:
    """The token serves at once; closing ends a saving that hangs."""
    shelf = Snail()
    cache = shared(shop, clock, shelf)
    async with asyncio.timeout(2):
        assert text(await cache.get()) == "t1"
    await turns(10)
    assert (shelf.began, shelf.saved) == (1, 0)
    await cache.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert shelf.saved == 0


async def test_a_token_refused_while_it_is_saved_is_not_given_out(
    shop: Shop, clock: JumpingClock
) -> None:
    """A new one is requested, and it is the one that stays in the store."""
    shelf = Snail()
    cache = shared(shop, clock, shelf)
    token = await cache.get()
    assert isinstance(token, Token)
    await turns(10)
    cache.invalidate(token)
    assert text(await cache.get()) == "t2"
    shelf.let.set()
    await turns(10)
    assert shelf.saved == 2
    assert shelf.stored is not None
    assert shelf.stored.access_token == Secret("t2")


async def test_the_token_request_is_a_form_and_a_call_is_not() -> None:
    """Each goes out with the header that its content asks for."""
    async with playing(token_rules(in_turn(reply(body=b"fine")))) as (session, server, _):
        await call(session)
    requested, called = (request.headers.get("content-type") for request in server.requests)
    assert (requested, called) == ("application/x-www-form-urlencoded", None)


class ClaimedShelf(Shelf):
    """A store by which one of many processes renews the token."""

    def __init__(self, clock: JumpingClock) -> None:
        super().__init__()
        self.clock = clock
        self.claimed_at = -1e9
        self.claim_fault: Exception | None = None

    async def claim(self, seconds: float) -> bool:
        """Let one process renew it at a time."""
        if self.claim_fault is not None:
            raise self.claim_fault
        now = self.clock.monotonic()
        is_free = now - self.claimed_at >= seconds
        self.claimed_at = now if is_free else self.claimed_at
        return is_free

    async def save(self, token: StoredToken) -> None:
        """Keep it, which ends the claim."""
        await super().save(token)
        self.claimed_at = -1e9


async def test_one_of_many_processes_renews(shop: Shop, clock: JumpingClock) -> None:
    """At their start, before each expiry, and after the service has refused it for all."""
    shelf = ClaimedShelf(clock)
    caches = [shared(shop, clock, shelf) for _ in range(8)]
    for life in range(1, 6):
        shop.opened.clear()
        waiting = [asyncio.create_task(cache.get()) for cache in caches]
        await turns(10)
        shop.opened.set()
        tokens = await asyncio.gather(*waiting)
        assert {text(token) for token in tokens} == {f"t{life}"}
        assert shop.asked == life
        if life % 2:
            clock.advance(3600)
            continue
        for cache, token in zip(caches, tokens, strict=True):
            cache.invalidate(token)
    for cache in caches:
        await cache.aclose()


async def test_a_process_that_ends_while_it_renews_is_not_waited_for_long(
    shop: Shop, clock: JumpingClock
) -> None:
    """After five seconds another one requests the token."""
    shelf = ClaimedShelf(clock)
    assert await shelf.claim(5)
    began = clock.monotonic()
    assert text(await shared(shop, clock, shelf).get()) == "t1"
    assert 5 <= clock.monotonic() - began < 6


async def test_without_a_working_claim_the_token_is_requested(
    shop: Shop, clock: JumpingClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The claim only saves requests."""
    shelf = ClaimedShelf(clock)
    shelf.claim_fault = OSError("S3CRET")
    assert text(await shared(shop, clock, shelf).get()) == "t1"
    assert "the token could not be claimed: OSError" in caplog.text
    assert "S3CRET" not in caplog.text


async def test_a_claim_that_turns_out_to_be_needless_is_ended(
    shop: Shop, clock: JumpingClock
) -> None:
    """If another has renewed it just before the claim, nobody waits for a claim at its end."""

    class LateShelf(ClaimedShelf):
        async def claim(self, seconds: float) -> bool:
            self.stored = StoredToken(
                access_token=Secret("s"), expires_at=NOON + timedelta(seconds=60), lifetime=60
            )
            return await super().claim(seconds)

    shelf = LateShelf(clock)
    assert text(await shared(shop, clock, shelf).get()) == "s"
    await turns(10)
    assert await shelf.claim(5)


@pytest.mark.parametrize("hours", [-1, 1, -24, 24])
async def test_a_wrong_time_of_day_only_costs_token_requests(
    shop: Shop, clock: JumpingClock, hours: int
) -> None:
    """A process whose clock differs from the others' still gets tokens that are accepted."""
    shelf = ClaimedShelf(clock)
    began = clock.monotonic()

    def wrong() -> datetime:
        return NOON + timedelta(hours=hours, seconds=clock.monotonic() - began)

    caches = [
        shared(shop, clock, shelf),
        TokenCache(shop.request, clock, store=shelf, wall_time=wrong),
    ]
    ends: dict[str, float] = {}
    for _ in range(60):
        for cache in caches:
            for is_last in (False, True):
                token = await cache.get()
                if clock.monotonic() < ends.setdefault(text(token), clock.monotonic() + 3600):
                    break
                assert not is_last
                cache.invalidate(token)
            await turns(10)
        clock.advance(600)
    assert shop.asked <= 2 * 12
