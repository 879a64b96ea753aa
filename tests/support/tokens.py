"""A token endpoint and a token store at a test's command."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol

from income_client.clock import Clock
from income_client.errors import IncomeClientError
from income_client.http.tokens import StoredToken, Token, TokenCache
from income_client.settings import Secret

NOON = datetime(2026, 6, 30, 12, tzinfo=UTC)


class Shop:
    """Gives tokens t1, t2 and so on, or fails; waits until it is opened."""

    def __init__(self, clock: Clock, lifetime: float = 3600) -> None:
        self.clock = clock
        self.lifetime = lifetime
        self.asked = 0
        self.error: IncomeClientError | None = None
        self.opened = asyncio.Event()
        self.opened.set()

    async def request(self) -> Token:
        """Give one."""
        self.asked += 1
        await self.opened.wait()
        if self.error is not None:
            raise self.error
        return Token(
            authorization=Secret(f"Bearer t{self.asked}"),
            obtained_at=self.clock.monotonic(),
            lifetime=self.lifetime,
        )


class Shelf:
    """A store in memory that may be made to fail."""

    def __init__(self, stored: StoredToken | None = None) -> None:
        self.stored = stored
        self.fault: Exception | None = None
        self.saved = 0

    async def load(self) -> StoredToken | None:
        """Return what is there."""
        self._fail()
        return self.stored

    async def save(self, token: StoredToken) -> None:
        """Keep it."""
        self._fail()
        self.saved += 1
        self.stored = token

    def _fail(self) -> None:
        if self.fault is not None:
            raise self.fault


def text(token: Token | None) -> str:
    """Return the token's own text."""
    assert isinstance(token, Token)
    return token.authorization.reveal().removeprefix("Bearer ")


class Endpoint(Protocol):
    """Where tokens are requested."""

    async def request(self) -> Token:
        """Give one."""


def shared(
    endpoint: Endpoint, clock: Clock, shelf: Shelf, ahead: timedelta = timedelta()
) -> TokenCache:
    """Return a cache with a store; the time of day goes with the clock, or ahead of it."""
    began = clock.monotonic()
    return TokenCache(
        endpoint.request,
        clock,
        store=shelf,
        wall_time=lambda: NOON + ahead + timedelta(seconds=clock.monotonic() - began),
    )
