"""One access token for many callers, and one request for it however many wait.

Knows when a token is renewed and who waits for that; knows neither how one is
bought nor how it is sent. Everything fails as a value: an error is copied for
each waiter, so that no two callers raise the same one.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final, Protocol

from income_client.clock import Clock
from income_client.errors import (
    AuthenticationError,
    ClientClosedError,
    IncomeClientError,
    TokenError,
)
from income_client.events import TokenRenewed
from income_client.instrumentation import Instrumentation
from income_client.settings import Secret

from .pacing import Gate
from .retry import pause_at
from .tokens import StoredToken, Token, TokenState, from_stored, to_stored

_LOGGER: Final = logging.getLogger("income_client.tokens")
_LONGEST_RENEWAL_PAUSE: Final = 30.0
_LOAD_SECONDS: Final = 1.0
_SAVE_SECONDS: Final = 5.0
_REFUSAL_SECONDS: Final = 10.0


class TokenStore(Protocol):
    """A place where processes share one token; it holds a secret and is kept like one."""

    async def load(self) -> StoredToken | None:
        """Return the token that was saved last, None if there is none."""
        ...

    async def save(self, token: StoredToken) -> None:
        """Keep this token in place of any other."""
        ...


def _utc_now() -> datetime:
    return datetime.now(UTC)


class TokenCache:
    """Holds the token in use and replaces it in time.

    Args:
        buy: gets a new token, or the error for having none; raises nothing.
        clock: tells the token's age.
        gate: while it is closed nothing is bought; always open by default.
        store: shared with other processes; its failures never break a call.
        load_seconds: how long the store may take to load, before a token is bought.
        wall_time: the time of day, for the store's sake.
        instrumentation: told of new tokens.
    """

    def __init__(
        self,
        buy: Callable[[], Awaitable[Token | IncomeClientError]],
        clock: Clock,
        *,
        gate: Gate | None = None,
        store: TokenStore | None = None,
        load_seconds: float = _LOAD_SECONDS,
        wall_time: Callable[[], datetime] = _utc_now,
        instrumentation: Instrumentation | None = None,
    ) -> None:
        self._buy = buy
        self._clock = clock
        self._gate = Gate() if gate is None else gate
        self._store = store
        self._load_seconds = min(load_seconds, _LOAD_SECONDS)
        self._wall_time = wall_time
        self._instrumentation = Instrumentation() if instrumentation is None else instrumentation
        self._token: Token | None = None
        self._refused: Secret | None = None
        self._flight: asyncio.Task[Token | IncomeClientError] | None = None
        self._renew_from = 0.0
        self._saving: asyncio.Task[None] | None = None
        self._unsaved: Token | None = None
        self._refusal: AuthenticationError | None = None
        self._refused_at = 0.0
        self._is_closed = False

    def current(self) -> Token | None:
        """Return the token in use, None if there is none that serves.

        A stale one is returned, and its renewal begins behind the caller's back.
        """
        token = self._token
        if token is None:
            return None
        now = self._clock.monotonic()
        if now < token.stale_at:
            return token
        if token.state(now) is TokenState.EXPIRED:
            return None
        if now >= self._renew_from and self._gate.remaining(now) == 0:
            self._renew_from = now + min(_LONGEST_RENEWAL_PAUSE, token.lifetime / 20)
            self._begin_renewal()
        return token

    async def get(self, deadline_at: float = math.inf) -> Token | IncomeClientError:
        """Return a token that serves, bought if need be, or a copy of the error of its purchase.

        All who wait at a time wait for the same purchase, and none of them
        takes it along when cancelled. While the gate is closed they wait for
        that; refused credentials are not tried again for 10 seconds, since
        accounts get locked for it. The error says for how long.

        Args:
            deadline_at: the moment of the clock beyond which the gate is not waited for.
        """
        known = self._known()
        if known is None:
            pause = await pause_at(self._gate, self._clock, deadline_at=deadline_at)
            if pause is not None:
                message = "token: not asked for, the token endpoint wants a pause"
                return TokenError(message, retryable=True, retry_after=pause)
            known = self._known()
        if known is not None:
            return known
        flight = self._begin_renewal()
        if flight is not None:
            # Unlike awaiting the task, this neither cancels it nor raises what ended it.
            await asyncio.wait((flight,))
        if flight is None or flight.cancelled():
            return ClientClosedError("the client was closed while a call waited for its token")
        outcome = flight.result()
        return outcome.again() if isinstance(outcome, IncomeClientError) else outcome

    def invalidate(self, token: Token) -> None:
        """Drop a token that the service refused, unless it was replaced already."""
        if self._token is token:
            self._token = None
            self._refused = token.authorization

    async def aclose(self) -> None:
        """End a purchase and a saving that are under way; who waits for a token gets an error."""
        self._is_closed = True
        self._unsaved = None
        tasks = [task for task in (self._flight, self._saving) if task and not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _known(self) -> Token | AuthenticationError | None:
        token = self.current()
        if token is not None or self._refusal is None:
            return token
        ago = self._clock.monotonic() - self._refused_at
        return _still_refused(self._refusal, ago) if ago < _REFUSAL_SECONDS else None

    def _begin_renewal(self) -> "asyncio.Task[Token | IncomeClientError] | None":
        if self._is_closed:
            return None
        if self._flight is None or self._flight.done():
            self._flight = asyncio.create_task(self._renew(), name="income_client token renewal")
        return self._flight

    async def _renew(self) -> Token | IncomeClientError:
        shared = await self._load()
        if shared is not None:
            self._token = shared
            self._tell_renewed(shared, is_shared=True)
            return shared
        outcome = await self._buy()
        self._refusal = None
        if isinstance(outcome, Token):
            self._token = outcome
            _log_renewed(outcome)
            self._tell_renewed(outcome, is_shared=False)
            self._begin_saving(outcome)
            return outcome
        now = self._clock.monotonic()
        if isinstance(outcome, AuthenticationError):
            self._refusal, self._refused_at = outcome, now
            outcome.retry_after = max(_REFUSAL_SECONDS, outcome.retry_after or 0.0)
        if self._token is not None:
            _log_not_renewed(outcome, self._token.expired_at - now)
        return outcome

    def _tell_renewed(self, token: Token, *, is_shared: bool) -> None:
        emit = self._instrumentation.emit
        if emit is not None:
            left = max(0.0, token.expired_at - self._clock.monotonic())
            emit(TokenRenewed(lifetime=left, is_shared=is_shared))

    async def _load(self) -> Token | None:
        """Return the store's token if it is one to change to."""
        if self._store is None:
            return None
        try:
            async with asyncio.timeout(self._load_seconds):
                stored = await self._store.load()
            if stored is None:
                return None
            now = self._clock.monotonic()
            token = from_stored(stored, now=now, wall_time=self._wall_time())
        except Exception as error:  # noqa: BLE001 - a store is foreign code
            _log_store_failure("loaded", error)
            return None
        return token if self._is_welcome(token, now) else None

    def _is_welcome(self, stored: Token, now: float) -> bool:
        if stored.authorization == self._refused:
            return False
        match stored.state(now):
            case TokenState.FRESH:
                return True
            case TokenState.STALE:
                held = self._token
                return held is None or held.state(now) is TokenState.EXPIRED
            case TokenState.EXPIRED:
                return False

    def _begin_saving(self, token: Token) -> None:
        if self._store is None or self._is_closed:
            return
        self._unsaved = token
        if self._saving is None or self._saving.done():
            saving = self._save_newest(self._store)
            self._saving = asyncio.create_task(saving, name="income_client token saving")

    async def _save_newest(self, store: TokenStore) -> None:
        # One after the other, so that an old token never comes to lie over a new one.
        while (token := self._unsaved) is not None:
            self._unsaved = None
            await self._save(store, token)

    async def _save(self, store: TokenStore, token: Token) -> None:
        try:
            stored = to_stored(token, now=self._clock.monotonic(), wall_time=self._wall_time())
            async with asyncio.timeout(_SAVE_SECONDS):
                await store.save(stored)
        except Exception as error:  # noqa: BLE001 - a store is foreign code
            _log_store_failure("saved", error)


def _still_refused(refusal: AuthenticationError, ago: float) -> AuthenticationError:
    """Return the error for a call that comes so many seconds after a refusal."""
    left = _REFUSAL_SECONDS - ago
    return AuthenticationError(
        f"token: the token endpoint refused the client credentials {math.floor(ago)} s ago, "
        f"and is asked again in {math.ceil(left)} s",
        status=refusal.status,
        retry_after=left,
        request_id=refusal.request_id,
    )


def _log_renewed(token: Token) -> None:
    if _LOGGER.isEnabledFor(logging.DEBUG):
        _LOGGER.debug("a token was bought", extra={"lifetime": token.lifetime})


def _log_not_renewed(error: IncomeClientError, seconds_left: float) -> None:
    name = type(error).__name__
    facts = {"error": name, "status": error.status, "seconds_left": seconds_left}
    _LOGGER.warning(
        "the token was not renewed (%s); the one in use serves for %.0f s more",
        name,
        max(0.0, seconds_left),
        extra=facts,
    )


def _log_store_failure(done: str, error: Exception) -> None:
    name = type(error).__name__
    _LOGGER.warning("the token could not be %s: %s", done, name, extra={"error": name})
