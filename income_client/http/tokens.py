"""Access tokens: request one, keep it while it serves, renew it in time for all callers.

However many calls wait, one token request is under way. Its failure is raised as a copy for each of
them. Nothing here shows a token or what a reply of the token endpoint held.
"""

import asyncio
import enum
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, Protocol

from attrs import Attribute, field, frozen

from income_client.clock import Clock
from income_client.errors import (
    AuthenticationError,
    ClientClosedError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    IncomeClientError,
    TokenError,
    UnexpectedResponseError,
)
from income_client.events import TokenRenewed
from income_client.instrumentation import CallWatch, Instrumentation
from income_client.settings import (
    OAuth2ClientCredentials,
    Secret,
    Timeouts,
    positive,
)
from income_client.wire.codec import parse

from .endpoints import Response, token_request
from .replies import content_of, facts_of, failure_of, label
from .retry import Gate, Retrier, wait_for_gate
from .transport import Transport

CONTRACT_LIFETIME: Final = 3600.0
"""Seconds that a token lives (contract section 5.1)."""

_LOGGER: Final = logging.getLogger("income_client.tokens")
_EARLIEST_RENEWAL: Final = 300.0
_SAFETY_MARGIN: Final = 10.0
_LONGEST_LIFETIME: Final = 10 * 366 * 86400
_LONGEST_RENEWAL_PAUSE: Final = 30.0
_LOAD_SECONDS: Final = 1.0
_SAVE_SECONDS: Final = 5.0
_REFUSAL_SECONDS: Final = 10.0
_SCHEME: Final = "Bearer "
_ACCESS_TOKEN: Final = re.compile(r"[!-~]{1,16384}")


class TokenState(enum.Enum):
    """How far a token is from its end."""

    FRESH = "fresh"
    """Used as it is."""
    STALE = "stale"
    """Used, while a new one is requested."""
    EXPIRED = "expired"
    """Not used any more."""


@frozen(kw_only=True)
class Token:
    """A token, and the moments of a monotonic clock at which its state changes.

    The margins scale with its life, so that a token of a minute is neither
    renewed at every call nor used up to its last instant.
    """

    authorization: Secret
    """The value of the Authorization header."""
    obtained_at: float
    """When the request for it was sent; its life began later."""
    lifetime: float
    """Seconds from then to its end."""
    stale_at: float = field(init=False)
    """When it should be replaced."""
    expired_at: float = field(init=False)
    """When it stops being sent, a little before it expires."""

    @stale_at.default
    def _stale_at(self) -> float:
        return self.obtained_at + self.lifetime - min(_EARLIEST_RENEWAL, self.lifetime / 4)

    @expired_at.default
    def _expired_at(self) -> float:
        return self.obtained_at + self.lifetime - min(_SAFETY_MARGIN, self.lifetime / 20)

    def state(self, now: float) -> TokenState:
        """Return its state at a moment."""
        if now < self.stale_at:
            return TokenState.FRESH
        return TokenState.STALE if now < self.expired_at else TokenState.EXPIRED


def _secret(value: "str | Secret") -> Secret:
    return Secret(value) if isinstance(value, str) else value


def _sendable(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    if not isinstance(value, Secret) or not _is_access_token(value.reveal()):
        raise ConfigurationError(f"{attribute.name} must be a token that a header can carry")


def _aware(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ConfigurationError(f"{attribute.name} must be a datetime with a zone")


@frozen(kw_only=True)
class StoredToken:
    """A token as processes share it through a `TokenStore`.

    Raises:
        ConfigurationError: a field is invalid.
    """

    access_token: Secret = field(converter=_secret, validator=_sendable)
    """The token itself; a store reads it with ``reveal()``."""
    expires_at: datetime = field(validator=_aware)
    """When it ends, with a zone."""
    lifetime: float = field(default=CONTRACT_LIFETIME, validator=positive)
    """Its whole life in seconds, which decides how early it is renewed."""


def to_stored(token: Token, *, now: float, wall_time: datetime) -> StoredToken:
    """Return a token as a store keeps it."""
    remaining = token.obtained_at + token.lifetime - now
    return StoredToken(
        access_token=Secret(token.authorization.reveal().removeprefix(_SCHEME)),
        expires_at=wall_time + timedelta(seconds=remaining),
        lifetime=token.lifetime,
    )


def from_stored(stored: StoredToken, *, now: float, wall_time: datetime) -> Token:
    """Return a stored token as this process uses it.

    One that ends later than its whole life from now, as after a clock was set back, is
    taken to begin now.
    """
    remaining = min((stored.expires_at - wall_time).total_seconds(), stored.lifetime)
    return Token(
        authorization=Secret(_SCHEME + stored.access_token.reveal()),
        obtained_at=now + remaining - stored.lifetime,
        lifetime=stored.lifetime,
    )


def read_token(response: Response, *, sent_at: float) -> Token:
    """Read the reply of the token endpoint (contract section 5.1).

    Raises:
        AuthenticationError: the credentials were refused.
        TokenError: any other reply that holds no usable token.
    """
    if response.status != HTTPStatus.OK:
        raise _refusal(response)
    reason, is_whole = None, True
    try:
        payload = parse(response.body)
    except DecodeError as error:
        reason, is_whole = error.faults[0].reason, not error.retryable
    if not is_whole:
        raise _unusable(response, f"{content_of(response)} instead of JSON", retryable=True)
    if reason is not None:
        raise _unusable(response, reason)
    if not isinstance(payload, dict):
        raise _unusable(response, "the reply is not an object")
    for name, (is_right, expected) in _FIELDS.items():
        if not is_right(payload.get(name)):
            raise _unusable(response, f"{name} is not {expected}")
    return Token(
        authorization=Secret(_SCHEME + payload["access_token"]),
        obtained_at=sent_at,
        lifetime=float(payload["expires_in"]),
    )


def _refusal(response: Response) -> IncomeClientError:
    failure = failure_of(token_request(), response)
    message = "token: the reply is unexpected" if failure is None else failure.message
    if response.status == HTTPStatus.UNAUTHORIZED:
        message += ", the client credentials were refused"
    if response.status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED}:
        return AuthenticationError(message, **facts_of(response))
    retryable = failure is not None and failure.retryable
    return TokenError(message, retryable=retryable, **facts_of(response))


def _unusable(response: Response, fault: str, *, retryable: bool = False) -> TokenError:
    message = f"{label(token_request())}: {fault}"
    return TokenError(message, retryable=retryable, **facts_of(response))


def _is_access_token(value: object) -> bool:
    return isinstance(value, str) and _ACCESS_TOKEN.fullmatch(value) is not None


def _is_bearer(value: object) -> bool:
    return isinstance(value, str) and value.lower() == "bearer"


def _is_lifetime(value: object) -> bool:
    return type(value) is int and 0 < value <= _LONGEST_LIFETIME


_FIELDS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "access_token": (_is_access_token, "a text of printable ASCII without spaces, 16 KiB at most"),
    "token_type": (_is_bearer, "Bearer"),
    "expires_in": (_is_lifetime, "a whole number of seconds, above 0 and below ten years"),
}


class TokenEndpoint:
    """Requests tokens from the service (contract section 5.1).

    The retrier shares its budget with the calls. The gate is closed by a 429 for as long as the
    endpoint asks; no token request may begin before it is open.
    """

    def __init__(
        self,
        credentials: OAuth2ClientCredentials,
        transport: Transport,
        retrier: Retrier,
        timeouts: Timeouts,
        clock: Clock,
        *,
        instrumentation: Instrumentation,
        host: str | None,
    ) -> None:
        self._authorization = credentials.authorization()
        self._transport = transport
        self._retrier = retrier
        self._timeouts = timeouts
        self._clock = clock
        self._instrumentation = instrumentation
        self._host = host
        self.gate: Gate = Gate()

    async def request(self) -> Token:
        """Request a token, with retries, within a deadline of its own."""
        watch = self._instrumentation.begin(token_request().name, self._host, self._clock)
        work = self._bounded(watch)
        return await (work if watch is None else watch.over(work))

    async def _bounded(self, watch: CallWatch | None) -> Token:
        deadline = self._timeouts.deadline
        sent = 0

        async def attempt() -> Token:
            nonlocal sent
            sent += 1
            return await self._attempt(watch)

        try:
            async with asyncio.timeout(deadline):
                return await self._retrier.run(
                    attempt,
                    deadline_at=self._clock.monotonic() + deadline,
                    gate=self.gate,
                    on_retry=None if watch is None else watch.retried,
                )
        except TimeoutError:
            message = f"{label(token_request())}: no token in {deadline:g} s"
            raise DeadlineExceededError(message, attempts=sent) from None
        except IncomeClientError as error:
            error.attempts = sent
            raise

    async def _attempt(self, watch: CallWatch | None) -> Token:
        sent_at = self._clock.monotonic()
        if watch is not None:
            watch.sent()
        response: Response | None = None
        try:
            response = await self._transport.send(
                token_request(), self._authorization, self._timeouts
            )
            token = read_token(response, sent_at=sent_at)
        except IncomeClientError as error:
            if response is not None:
                response.discard()
            failure = _too_large(error) if isinstance(error, UnexpectedResponseError) else error
            if watch is not None:
                watch.answered(error.status, failure)
            raise failure from None
        if watch is not None:
            watch.answered(response.status, token)
        return token


def _too_large(error: UnexpectedResponseError) -> TokenError:
    """Return the error for a reply that the transport did not read to its end."""
    return TokenError(
        error.message,
        status=error.status,
        retry_after=error.retry_after,
        request_id=error.request_id,
    )


class TokenStore(Protocol):
    """A place where processes share one token; protect it as the secret that it holds."""

    async def load(self) -> StoredToken | None:
        """Return the token that was saved last, or None."""
        ...

    async def save(self, token: StoredToken) -> None:
        """Replace the saved token by this one."""
        ...


def _utc_now() -> datetime:
    return datetime.now(UTC)


class TokenCache:
    """Holds the token in use and replaces it in time.

    Args:
        request_token: requests a new token.
        clock: measures the token's age.
        gate: no token request begins while it is closed; always open by default.
        store: shared with other processes; its failures never break a call.
        load_seconds: how long the store may take to load before a token is requested.
        wall_time: the time of day, for the store.
        instrumentation: receives an event for each new token.
    """

    def __init__(
        self,
        request_token: Callable[[], Awaitable[Token]],
        clock: Clock,
        *,
        gate: Gate | None = None,
        store: TokenStore | None = None,
        load_seconds: float = _LOAD_SECONDS,
        wall_time: Callable[[], datetime] = _utc_now,
        instrumentation: Instrumentation | None = None,
    ) -> None:
        self._request_token = request_token
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
        """Return the token in use, or None if a new one has to be awaited.

        A stale one is returned, and its renewal begins in the background.
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

    async def get(self, deadline_at: float = math.inf) -> Token:
        """Return a token that serves, requested if need be.

        All who wait at a time wait for the same request, and a cancelled waiter does not end
        it. Refused credentials are not tried again for 10 seconds, since accounts get locked
        for it; the error says for how long.

        Raises:
            IncomeClientError: a copy of the request's failure; or the gate stays closed until
                ``deadline_at``, a moment of the clock; or the cache was closed.
        """
        token = self._known()
        if token is None:
            pause = await wait_for_gate(self._gate, self._clock, deadline_at=deadline_at)
            if pause is not None:
                message = "token: not requested, the token endpoint asked for a pause"
                raise TokenError(message, retryable=True, retry_after=pause)
            token = self._known()
        if token is not None:
            return token
        flight = self._begin_renewal()
        if flight is not None:
            # Unlike awaiting the task, this neither cancels it nor raises what ended it.
            await asyncio.wait((flight,))
        if flight is None or flight.cancelled():
            raise ClientClosedError("the client was closed while a call waited for its token")
        outcome = flight.result()
        if isinstance(outcome, IncomeClientError):
            raise outcome.again()
        return outcome

    def invalidate(self, token: Token) -> None:
        """Drop a token that the service refused, unless it was replaced already."""
        if self._token is token:
            self._token = None
            self._refused = token.authorization

    async def aclose(self) -> None:
        """End a token request and a saving under way; calls that wait for a token fail."""
        self._is_closed = True
        self._unsaved = None
        tasks = [task for task in (self._flight, self._saving) if task and not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _known(self) -> Token | None:
        token = self.current()
        if token is None and self._refusal is not None:
            ago = self._clock.monotonic() - self._refused_at
            if ago < _REFUSAL_SECONDS:
                raise _still_refused(self._refusal, ago)
        return token

    def _begin_renewal(self) -> "asyncio.Task[Token | IncomeClientError] | None":
        if self._is_closed:
            return None
        if self._flight is None or self._flight.done():
            self._flight = asyncio.create_task(self._renew(), name="income_client token renewal")
        return self._flight

    async def _renew(self) -> Token | IncomeClientError:
        """Replace the token; return a failure instead of raising it, for all who wait."""
        shared = await self._load()
        if shared is not None:
            self._token = shared
            self._report_renewed(shared, is_shared=True)
            return shared
        try:
            token = await self._request_token()
        except IncomeClientError as error:
            failure = error.again()
        else:
            self._token, self._refusal = token, None
            _log_renewed(token)
            self._report_renewed(token, is_shared=False)
            self._begin_saving(token)
            return token
        now = self._clock.monotonic()
        self._refusal = None
        if isinstance(failure, AuthenticationError):
            self._refusal, self._refused_at = failure, now
            failure.retry_after = max(_REFUSAL_SECONDS, failure.retry_after or 0.0)
        if self._token is not None:
            _log_not_renewed(failure, self._token.expired_at - now)
        return failure

    def _report_renewed(self, token: Token, *, is_shared: bool) -> None:
        emit = self._instrumentation.emit
        if emit is not None:
            left = max(0.0, token.expired_at - self._clock.monotonic())
            emit(TokenRenewed(lifetime=left, is_shared=is_shared))

    async def _load(self) -> Token | None:
        """Return the store's token if it should replace the one in use."""
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
        return token if self._is_better(token, now) else None

    def _is_better(self, stored: Token, now: float) -> bool:
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
        # One after the other, so that an old token never overwrites a new one.
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
    """Return the error for a call within 10 seconds of a refusal."""
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
        _LOGGER.debug("a token was received", extra={"lifetime": token.lifetime})


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
