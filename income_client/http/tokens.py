"""Access tokens: request one, keep it while it serves, renew it in time for all callers.

However many calls wait, one token request is under way. Its failure is raised as a copy for each of
them. Nothing here shows a token or what a reply of the token endpoint held.
"""

import asyncio
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
    DecodeError,
    IncomeClientError,
    TokenError,
)
from income_client.events import TokenRenewed
from income_client.instrumentation import Instrumentation
from income_client.settings import Secret, positive
from income_client.wire.codec import parse

from .endpoints import Response, token_request
from .replies import call_of, content_of, facts_of, failure_of
from .retry import Gate

CONTRACT_LIFETIME: Final = 3600.0
"""Seconds that a token lives (contract section 5.1)."""

_LOGGER: Final = logging.getLogger("income_client.tokens")
_EARLIEST_RENEWAL: Final = 300.0
_SAFETY_MARGIN: Final = 10.0
_LONGEST_LIFETIME: Final = 10 * 366 * 86400
_LONGEST_RENEWAL_PAUSE: Final = 30.0
_STORE_SECONDS: Final = 10.0
"""How long an answer of the store is waited for: a service may keep the newest token only, and a
process that requests its own ends the others'."""
_SLOW_SECONDS: Final = 1.0
_ALONE_SECONDS: Final = 60.0
"""How long a store that has not answered is done without, so that few calls wait for it."""
_CLAIM_SECONDS: Final = 5.0
"""How long the others wait for the process that renews the token, before one of them does."""
_ANSWERS_OF_A_CLAIM: Final = 4
"""Answers of the store that they wait for at least: claim, load and save, and one more."""
_LOOK_SECONDS: Final = 0.25
_REFUSAL_SECONDS: Final = 10.0
_CALL: Final = call_of(token_request())
_SCHEME: Final = "Bearer "
_ACCESS_TOKEN: Final = re.compile(r"[!-~]{1,16384}")


@frozen(kw_only=True)
class Token:
    """A token, and the moments of a monotonic clock between which it is used.

    The margins scale with its life, so that a token of a minute is neither
    renewed at every call nor used up to its last instant.
    """

    authorization: Secret
    """The value of the Authorization header."""
    headers: Mapping[str, str] = field(init=False, repr=False, eq=False)
    """That header."""
    obtained_at: float
    """When the request for it was sent; its life began later."""
    lifetime: float
    """Seconds from then to its end."""
    is_shared: bool = False
    """Whether another process has requested it."""
    stale_at: float = field(init=False)
    """When it is stale: used, while a new one is requested."""
    expired_at: float = field(init=False)
    """When it stops being sent, a little before it expires."""

    @headers.default
    def _headers(self) -> Mapping[str, str]:
        return {"Authorization": self.authorization.reveal()}

    @stale_at.default
    def _stale_at(self) -> float:
        return self.obtained_at + self.lifetime - min(_EARLIEST_RENEWAL, self.lifetime / 4)

    @expired_at.default
    def _expired_at(self) -> float:
        return self.obtained_at + self.lifetime - min(_SAFETY_MARGIN, self.lifetime / 20)


def _secret(value: "str | Secret") -> Secret:
    return Secret(value) if isinstance(value, str) else value


def _sendable(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    if not isinstance(value, Secret) or not _is_access_token(value.reveal()):
        raise ConfigurationError(
            f"{attribute.name} must be a token that a header can carry", argument=attribute.name
        )


def _aware(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ConfigurationError(
            f"{attribute.name} must be a datetime with a zone", argument=attribute.name
        )


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
        is_shared=True,
    )


def read_token(response: Response, *, sent_at: float) -> Token:
    """Read the reply of the token endpoint (contract section 5.1)."""
    if response.status != HTTPStatus.OK:
        raise _refusal(response)
    try:
        payload = parse(response.body)
    except DecodeError as error:
        is_cut = error.retryable
        fault = f"{content_of(response)} instead of JSON" if is_cut else error.faults[0].reason
        raise _unusable(response, fault, retryable=is_cut) from None
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
    message = failure.detail
    if response.status == HTTPStatus.UNAUTHORIZED:
        message += ", the client credentials were refused"
    if response.status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED}:
        return AuthenticationError(message, **_CALL, **facts_of(response))
    return TokenError(message, retryable=failure.retryable, **_CALL, **facts_of(response))


def _unusable(response: Response, fault: str, *, retryable: bool = False) -> TokenError:
    return TokenError(fault, retryable=retryable, **_CALL, **facts_of(response))


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


class TokenStore(Protocol):
    """A place where processes share one token; protect it as the secret that it holds.

    An answer is waited for up to ten seconds, or a quarter of the calls' deadline if that is
    less; then this process requests its own tokens for a minute. Take a store that answers
    within a second: calls without a token wait for it.

    A store may also have ``async def claim(self, seconds: float) -> bool``, by which of many
    processes one renews the token while the others wait for what it saves. It returns False
    while another process, which has claimed the renewal less than so many seconds ago, has
    saved no token yet; else it notes this claim and returns True.
    """

    async def load(self) -> StoredToken | None:
        """Return the token that was saved last, or None."""
        ...

    async def save(self, token: StoredToken) -> None:
        """Replace the saved token by this one."""
        ...


class FixedCredentials:
    """The credentials of `BasicAuth`, with the methods of a `TokenCache`."""

    def __init__(self, authorization: Secret) -> None:
        self._token = Token(authorization=authorization, obtained_at=0.0, lifetime=math.inf)

    def current(self) -> Token:
        """Return what is sent with every request."""
        return self._token

    async def get(self, _deadline_at: float = math.inf) -> Token:
        """Return the same."""
        return self._token

    def invalidate(self, _token: Token) -> bool:
        """Return False: nothing replaces them."""
        return False

    async def aclose(self) -> None:
        """Do nothing."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class TokenCache:
    """Holds the token in use and replaces it in time."""

    def __init__(
        self,
        request_token: Callable[[], Awaitable[Token]],
        clock: Clock,
        *,
        gate: Gate | None = None,
        store: TokenStore | None = None,
        store_seconds: float = _STORE_SECONDS,
        wall_time: Callable[[], datetime] = _utc_now,
        instrumentation: Instrumentation | None = None,
    ) -> None:
        self._request_token = request_token
        self._clock = clock
        self._gate = Gate() if gate is None else gate
        self._store = store
        self._store_seconds = min(store_seconds, _STORE_SECONDS)
        self._answered_in = 0.0
        """Seconds that the last load took."""
        self._shares_from = -math.inf
        self._has_warned = False
        self._wall_time = wall_time
        self._instrumentation = Instrumentation() if instrumentation is None else instrumentation
        self._token: Token | None = None
        self._refused: Secret | None = None
        self._flight: asyncio.Task[Token | IncomeClientError] | None = None
        self._renew_from = -math.inf
        self._saving: asyncio.Task[None] | None = None
        self._unsaved: Token | None = None
        self._refusal: AuthenticationError | None = None
        self._refused_at = -math.inf
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
        if now >= token.expired_at:
            return None
        if now >= max(self._renew_from, self._gate.opens_at):
            self._renew_from = now + min(_LONGEST_RENEWAL_PAUSE, token.lifetime / 20)
            self._begin_renewal()
        return token

    async def get(self, deadline_at: float = math.inf) -> Token:
        """Return a token that serves, requested if need be.

        All who wait at a time wait for the same request, and a cancelled waiter does not end
        it. Refused credentials are not tried again for 10 seconds, since accounts get locked
        for it; the error says for how long.
        """
        token = self._known()
        if token is None:
            pause = await self._gate.wait(self._clock, deadline_at)
            if pause is not None:
                message = "not requested, the token endpoint asked for a pause"
                raise TokenError(message, retryable=True, retry_after=pause, **_CALL)
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

    def invalidate(self, token: Token) -> bool:
        """Drop a token that the service refused, unless it was replaced already.

        Returns that there is, or will be, another.
        """
        if self._token is token:
            self._token = None
            self._refused = token.authorization
        return True

    async def aclose(self) -> None:
        """End a token request and a saving under way; calls that wait for a token fail."""
        self._is_closed = True
        self._unsaved = None
        both = [task for task in (self._flight, self._saving) if task is not None]
        # Those of a loop that has ended do not run any more.
        tasks = [task for task in both if not task.done() and task.get_loop().is_running()]
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
        shared = await self._load() or await self._renewed_by_other()
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
            _LOGGER.debug("a token was received", extra={"lifetime": token.lifetime})
            self._report_renewed(token, is_shared=False)
            self._begin_saving(token)
            return token
        now = self._clock.monotonic()
        self._refusal = None
        if isinstance(failure, AuthenticationError):
            self._refusal, self._refused_at = failure, now
            failure.retry_after = max(_REFUSAL_SECONDS, failure.retry_after or 0.0)
        # The client is being closed, and needs no token any more.
        is_closing = isinstance(failure, ClientClosedError)
        if self._token is not None and not is_closing:
            _log_not_renewed(failure, self._token.expired_at - now)
        return failure

    def _report_renewed(self, token: Token, *, is_shared: bool) -> None:
        emit = self._instrumentation.emit
        if emit is not None:
            left = max(0.0, token.expired_at - self._clock.monotonic())
            emit(TokenRenewed(lifetime=left, is_shared=is_shared))

    async def _load(self) -> Token | None:
        """Return the store's token if it should replace the one in use."""
        began = self._clock.monotonic()
        if self._store is None or began < self._shares_from:
            return None
        try:
            async with asyncio.timeout(self._store_seconds):
                stored = await self._store.load()
            self._note_answer(self._clock.monotonic() - began)
            if stored is None:
                return None
            now = self._clock.monotonic()
            token = from_stored(stored, now=now, wall_time=self._wall_time())
        except Exception as error:  # noqa: BLE001 - a store is foreign code
            self._note_store_failure("loaded", error)
            return None
        return token if self._is_better(token, now) else None

    async def _renewed_by_other(self) -> Token | None:
        """Return the token that another process renews meanwhile; None if this one is to do it."""
        claim = getattr(self._store, "claim", None)
        if claim is None or self._clock.monotonic() < self._shares_from:
            return None
        seconds = max(_CLAIM_SECONDS, _ANSWERS_OF_A_CLAIM * self._answered_in)
        until = self._clock.monotonic() + 2 * seconds
        while self._clock.monotonic() < until:
            try:
                async with asyncio.timeout(self._store_seconds):
                    is_claimed = await claim(seconds)
            except Exception as error:  # noqa: BLE001 - a store is foreign code
                self._note_store_failure("claimed", error)
                return None
            if not is_claimed:
                await self._clock.sleep(_LOOK_SECONDS)
            # The one that had claimed it may have saved it just now.
            token = await self._load()
            if token is not None and is_claimed:
                self._begin_saving(token)  # which ends the claim: others would wait for it
            if token is not None or is_claimed:
                return token
        return None

    def _note_answer(self, seconds: float) -> None:
        self._answered_in = seconds
        if seconds > _SLOW_SECONDS and not self._has_warned:
            self._has_warned = True
            message = "the token store is slow: a call waited %.1f s for its answer"
            _LOGGER.warning(message, seconds, extra={"seconds": seconds})

    def _note_store_failure(self, done: str, error: Exception) -> None:
        if not isinstance(error, TimeoutError):
            _log_store_failure(done, error)
            return
        self._shares_from = self._clock.monotonic() + _ALONE_SECONDS
        message = "the token could not be %s in time: this process shares none for %.0f s"
        facts = {"error": type(error).__name__, "seconds": _ALONE_SECONDS}
        _LOGGER.warning(message, done, _ALONE_SECONDS, extra=facts)

    def _is_better(self, stored: Token, now: float) -> bool:
        if stored.authorization == self._refused:
            return False
        if now < stored.stale_at:
            return True
        held = self._token
        return now < stored.expired_at and (held is None or now >= held.expired_at)

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
            async with asyncio.timeout(_STORE_SECONDS):
                await store.save(stored)
        except Exception as error:  # noqa: BLE001 - a store is foreign code
            _log_store_failure("saved", error)


def _still_refused(refusal: AuthenticationError, ago: float) -> AuthenticationError:
    """Return the error for a call within 10 seconds of a refusal."""
    left = _REFUSAL_SECONDS - ago
    return AuthenticationError(
        f"the token endpoint refused the client credentials {math.floor(ago)} s ago, "
        f"and is asked again in {math.ceil(left)} s",
        **_CALL,
        status=refusal.status,
        retry_after=left,
        request_id=refusal.request_id,
    )


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
