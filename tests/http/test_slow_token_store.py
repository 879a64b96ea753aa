"""A token store that answers slowly: processes wait for it, and do not end each other's tokens."""

import asyncio
from datetime import timedelta
from typing import Final

import pytest
from attrs import define, field

from income_client.http.tokens import StoredToken, Token, TokenCache
from tests.support.loop_time import LoopClock, skipped_waits
from tests.support.tokens import NOON, Shelf, Shop, text

LIFETIME: Final = 8.0
SECONDS: Final = 300.0


@define
class SlowShelf(Shelf):
    """A store each of whose answers takes its time; what it does, it does in the middle."""

    clock: LoopClock
    seconds: float
    stored: StoredToken | None = None
    fault: Exception | None = None
    saved: int = 0
    claimed_at: float = float("-inf")

    async def load(self) -> StoredToken | None:
        """Return what is there."""
        await asyncio.sleep(self.seconds / 2)
        stored = await super().load()
        await asyncio.sleep(self.seconds / 2)
        return stored

    async def claim(self, seconds: float) -> bool:
        """Let one process renew it at a time."""
        await asyncio.sleep(self.seconds / 2)
        now = self.clock.monotonic()
        is_free = now - self.claimed_at >= seconds
        self.claimed_at = now if is_free else self.claimed_at
        await asyncio.sleep(self.seconds / 2)
        return is_free

    async def save(self, token: StoredToken) -> None:
        """Keep it, which ends the claim."""
        await asyncio.sleep(self.seconds / 2)
        await super().save(token)
        self.claimed_at = float("-inf")
        await asyncio.sleep(self.seconds / 2)


@define
class Service:
    """Accepts the newest token only, until it expires."""

    shop: Shop
    ends: dict[str, float] = field(factory=dict)
    calls: int = 0
    refused: int = 0

    async def request(self) -> Token:
        """Give a new token."""
        await asyncio.sleep(0.05)
        token = await self.shop.request()
        self.ends = {text(token): self.shop.clock.monotonic() + token.lifetime}
        return token

    async def be_called(self, cache: TokenCache) -> None:
        """Take calls of one process, each of which is repeated once after a 401."""
        now = self.shop.clock.monotonic
        until = now() + SECONDS
        while now() < until:
            self.calls += 1
            for is_last in (False, True):
                token = await cache.get()
                await asyncio.sleep(0.05)
                if now() < self.ends.get(text(token), 0.0):
                    break
                cache.invalidate(token)
                self.refused += is_last
            await asyncio.sleep(0.1)


def caches_of(service: Service, shelf: SlowShelf, processes: int) -> list[TokenCache]:
    """Return a cache for each of so many processes."""
    began = shelf.clock.monotonic()
    return [
        TokenCache(
            service.request,
            shelf.clock,
            store=shelf,
            wall_time=lambda: NOON + timedelta(seconds=shelf.clock.monotonic() - began),
        )
        for _ in range(processes)
    ]


@pytest.mark.parametrize("seconds", [0.05, 0.9, 1.3, 2.0, 3.0])
async def test_no_call_fails_because_the_store_is_slow(
    seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Each process waits for it, and says once that it is slow."""
    with skipped_waits() as clock:
        service, shelf = Service(Shop(clock, LIFETIME)), SlowShelf(clock, seconds)
        caches = caches_of(service, shelf, 4)
        await asyncio.gather(*map(service.be_called, caches))
        for cache in caches:
            await cache.aclose()
    assert service.calls > 1000
    assert service.refused == 0
    assert service.shop.asked < 1.5 * SECONDS / (LIFETIME * 3 / 4)
    warnings = [line.getMessage() for line in caplog.records]
    assert len(warnings) == (4 if seconds > 1 else 0)
    assert all("token store is slow" in warning for warning in warnings)


async def test_a_store_that_does_not_answer_is_done_without_for_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One call waits ten seconds for it, and not each that needs a token."""
    with skipped_waits() as clock:
        service, shelf = Service(Shop(clock, LIFETIME)), SlowShelf(clock, 3600.0)
        [cache] = caches_of(service, shelf, 1)
        waits = []
        for _ in range(9):
            began = clock.monotonic()
            await cache.get()
            waits.append(round(clock.monotonic() - began))
            await asyncio.sleep(LIFETIME)
        await cache.aclose()
    assert waits == [10, *[0] * 7, 10]
    assert "shares none for 60 s" in caplog.text
