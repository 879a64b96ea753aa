"""Access tokens: request one, keep it while it serves, renew it in time for all callers.

However many calls wait, one token request is under way. Its failure is raised as a copy for each of
them. Nothing here shows a token or what a reply of the token endpoint held.
"""

import asyncio
import math
import re
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, Protocol

from attrs import Attribute, field, frozen

from income_client.errors import (
    AuthenticationError,
    ClientClosedError,
    ConfigurationError,
    DecodeError,
    IncomeClientError,
    InvalidArgumentError,
    TokenError,
    copy_without_traceback,
)
from income_client.events.instrumentation import Instrumentation
from income_client.settings import Secret, positive, wrong
from income_client.system.clock import Clock
from income_client.system.logs import GuardedLogger
from income_client.system.texts import standard_datetime
from income_client.wire.codec import parse

from .endpoints import Response, token_request
from .replies import call_of, content_of, facts_of, failure_of
from .retry import Gate

CONTRACT_LIFETIME: Final = 3600.0
"""Seconds that a token lives (contract section 5.1)."""

_LOGGER: Final = GuardedLogger("income_client.tokens")
_EARLIEST_RENEWAL: Final = 300.0
"""Seconds before its end from which a token is renewed, unless a quarter of its life is less."""
_SAFETY_MARGIN: Final = 10.0
"""Seconds before its end from which a token is not sent: it must reach the service in time."""
_LONGEST_LIFETIME: Final = 10 * 366 * 86400
_STORE_SECONDS: Final = 10.0
"""Seconds that a call of the store may take.


A service may keep only the newest token: a process that does not wait for the store and requests
a token may end the token of the others.
"""
_AWAY_SECONDS: Final = 60.0
"""Seconds for which a store that did not answer is not asked, so that few calls wait for it."""
_RENEWAL_SECONDS: Final = 5.0
"""Seconds that other processes wait for the one that renews the token, before another does."""
_LOOK_SECONDS: Final = 0.25
"""Seconds between two looks at the store while another process renews the token."""
_REFUSAL_SECONDS: Final = 10.0
"""Seconds for which refused credentials are not sent again: accounts get locked for it."""
_REFUSED_TOKENS: Final = 8
"""Refused tokens that are remembered: a store may give an older one again, or each in turn."""
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
    """Header field of the token."""
    obtained_at: float
    """Monotonic time at which the token was requested; its life began later."""
    lifetime: float
    """Seconds from ``obtained_at`` to the token's end."""
    is_shared: bool = False
    """Whether another process requested the token."""
    stale_at: float = field(init=False)
    """Monotonic time from which the token is renewed in the background while it is still used."""
    expired_at: float = field(init=False)
    """Monotonic time from which the token is not sent any more, shortly before it expires."""

    @property
    def is_issued(self) -> bool:
        """Whether the token endpoint issued the token; Basic credentials never expire."""
        return math.isfinite(self.lifetime)

    @headers.default
    def _headers(self) -> Mapping[str, str]:
        return SecretHeaders({"Authorization": self.authorization.reveal()})

    @stale_at.default
    def _stale_at(self) -> float:
        return self.obtained_at + self.lifetime - min(_EARLIEST_RENEWAL, self.lifetime / 4)

    @expired_at.default
    def _expired_at(self) -> float:
        return self.obtained_at + self.lifetime - min(_SAFETY_MARGIN, self.lifetime / 20)


class SecretHeaders(dict[str, str]):
    """Header fields whose values are not shown."""

    def __repr__(self) -> str:
        return f"<SecretHeaders {', '.join(self)}>"


def _as_secret(value: "str | Secret") -> Secret:
    return Secret(value) if isinstance(value, str) else value


def _check_sendable(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    if not isinstance(value, Secret) or not _is_access_token(value.reveal()):
        raise InvalidArgumentError(
            f"{attribute.name} must be a token that a header can carry", argument=attribute.name
        )


def _as_aware(value: object) -> datetime:
    try:
        if isinstance(value, datetime) and value.utcoffset() is not None:
            return standard_datetime(value)
    except Exception:  # noqa: BLE001, S110 - times and zones are classes of any library
        pass
    raise wrong("expires_at", "must be a datetime with a zone")


@frozen(kw_only=True)
class StoredToken:
    """A token as processes share it through a `TokenStore`.

    Raises:
        ConfigurationError: a field is invalid.
    """

    access_token: Secret = field(converter=_as_secret, validator=_check_sendable)
    """The token itself; a store reads it with ``reveal()``."""
    expires_at: datetime = field(converter=_as_aware)
    """Time at which the token expires, with a zone."""
    lifetime: float = field(default=CONTRACT_LIFETIME, validator=positive)
    """Seconds from the token's issue to its end, which decide how early it is renewed."""


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
        raise _refusal_error(response)
    try:
        payload = parse(response.body)
    except DecodeError as error:
        is_cut = error.retryable
        fault = f"{content_of(response)} instead of JSON" if is_cut else error.faults[0].reason
        raise _token_error(response, fault, retryable=is_cut) from None
    if not isinstance(payload, dict):
        raise _token_error(response, "the reply is not an object")
    for name, (is_right, expected) in _FIELDS.items():
        if not is_right(payload.get(name)):
            raise _token_error(response, f"{name} is not {expected}")
    return Token(
        authorization=Secret(_SCHEME + payload["access_token"]),
        obtained_at=sent_at,
        lifetime=float(payload["expires_in"]),
    )


def _refusal_error(response: Response) -> IncomeClientError:
    failure = failure_of(token_request(), response)
    message = failure.detail
    if response.status == HTTPStatus.UNAUTHORIZED:
        message += ", the client credentials were refused"
    if response.status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED}:
        return AuthenticationError(message, **_CALL, **facts_of(response))
    return TokenError(message, retryable=failure.retryable, **_CALL, **facts_of(response))


def _token_error(response: Response, fault: str, *, retryable: bool = False) -> TokenError:
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

    A client waits for the store's answer up to ten seconds, or a quarter of the calls' deadline
    if that is less; then this process requests its own tokens for a minute. Choose a store that
    answers within a second: calls without a token wait for it.

    A store may also have ``async def claim(self, seconds: float) -> bool``. By claims, one of
    many processes renews the token, and the others wait for the new token. The method returns
    False if another process has claimed the renewal within the last ``seconds`` and has not yet
    saved a token; otherwise it records this claim and returns True.
    """

    async def load(self) -> StoredToken | None:
        """Return the token that was saved last, or None."""
        ...

    async def save(self, token: StoredToken) -> None:
        """Replace the saved token by this one."""
        ...


def fixed_token(authorization: Secret) -> Token:
    """Return Basic credentials in the form of a token that never expires."""
    return Token(authorization=authorization, obtained_at=0.0, lifetime=math.inf)


class FixedCredentials:
    """The credentials of `BasicAuth`, with the methods of a `TokenCache`."""

    def __init__(self, authorization: Secret) -> None:
        self._token = fixed_token(authorization)

    def current(self) -> Token:
        """Return the credentials."""
        return self._token

    async def get(self, _deadline_at: float = math.inf) -> Token:
        """Return the credentials."""
        return self._token

    def invalidate(self, _token: Token) -> bool:
        """Return False, since no other credentials could replace them."""
        return False

    async def aclose(self) -> None:
        """Do nothing."""


def utc_now() -> datetime:
    """Return the time of the machine's clock."""
    return datetime.now(UTC)


class SharedToken:
    """The token that processes share through a store, which may fail, be slow or be away."""

    def __init__(
        self,
        store: TokenStore,
        clock: Clock,
        seconds: float,
        wall_time: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._clock = clock
        self._seconds = min(seconds, _STORE_SECONDS)
        self._wall_time = wall_time
        self._away_until = -math.inf
        self._saving: asyncio.Task[None] | None = None
        self._unsaved: Token | None = None

    async def load(self, is_wanted: Callable[[Token, float], bool]) -> Token | None:
        """Return the stored token if it should replace the token in use."""
        if self._clock.monotonic() < self._away_until:
            return None
        try:
            async with asyncio.timeout(self._seconds):
                stored = await self._store.load()
            if stored is None:
                return None
            now = self._clock.monotonic()
            token = from_stored(stored, now=now, wall_time=self._wall_time())
        except Exception as error:  # noqa: BLE001 - a store is foreign code
            self._note_failure("loaded", error)
            return None
        return token if is_wanted(token, now) else None

    async def wait_for_other(self, is_wanted: Callable[[Token, float], bool]) -> Token | None:
        """Wait for a token that another process requests; return None if this process must."""
        claim = getattr(self._store, "claim", None)
        if claim is None or self._clock.monotonic() < self._away_until:
            return None
        until = self._clock.monotonic() + 2 * _RENEWAL_SECONDS
        while self._clock.monotonic() < until:
            try:
                async with asyncio.timeout(self._seconds):
                    is_first = await claim(_RENEWAL_SECONDS)
            except Exception as error:  # noqa: BLE001 - a store is foreign code
                self._note_failure("claimed", error)
                return None
            if is_first:
                # Unless another has saved it just now: to save it again ends the others' waiting.
                token = await self.load(is_wanted)
                if token is not None:
                    self.begin_saving(token)
                return token
            await self._clock.sleep(_LOOK_SECONDS)
            token = await self.load(is_wanted)
            if token is not None:
                return token
        return None

    def begin_saving(self, token: Token) -> None:
        """Save a token in the background, after any earlier save."""
        self._unsaved = token
        if self._saving is None or self._saving.done():
            saving = self._save_newest()
            self._saving = asyncio.create_task(saving, name="income_client token saving")

    async def aclose(self) -> None:
        """End a saving under way."""
        self._unsaved = None
        await _end_task(self._saving)

    async def _save_newest(self) -> None:
        # One after the other, so that an old token never overwrites a new one.
        while (token := self._unsaved) is not None:
            self._unsaved = None
            await self._save_token(token)

    async def _save_token(self, token: Token) -> None:
        try:
            stored = to_stored(token, now=self._clock.monotonic(), wall_time=self._wall_time())
            async with asyncio.timeout(_STORE_SECONDS):
                await self._store.save(stored)
        except Exception as error:  # noqa: BLE001 - a store is foreign code
            _log_store_failure("saved", error)

    def _note_failure(self, done: str, error: Exception) -> None:
        if not isinstance(error, TimeoutError):
            _log_store_failure(done, error)
            return
        self._away_until = self._clock.monotonic() + _AWAY_SECONDS
        message = "the token could not be %s in time: this process shares none for %.0f s"
        facts = {"error": type(error).__name__, "seconds": _AWAY_SECONDS}
        _LOGGER.warning(message, done, _AWAY_SECONDS, extra=facts)


class Renewal:
    """A token request shared by all waiting calls; a cancelled call does not cancel it."""

    def __init__(self, work: Coroutine[Any, Any, Token]) -> None:
        self._task = asyncio.create_task(_outcome_of(work), name="income_client token renewal")

    @property
    def is_over(self) -> bool:
        """Whether the request has ended, so that another renewal may begin."""
        return self._task.done()

    async def wait(self) -> Token:
        """Return the new token, or raise a copy of the renewal's error."""
        # Unlike awaiting the task, this neither cancels it nor raises what ended it.
        await asyncio.wait((self._task,))
        if self._task.cancelled():
            raise _closed_error()
        bug = self._task.exception()
        if bug is not None:
            raise bug  # `result` would leave the traceback to the first who waits
        outcome = self._task.result()
        if isinstance(outcome, IncomeClientError):
            raise copy_without_traceback(outcome)
        return outcome

    async def aclose(self) -> None:
        """Cancel the request; waiting calls raise `ClientClosedError`."""
        await _end_task(self._task)


async def _outcome_of(work: Coroutine[Any, Any, Token]) -> Token | IncomeClientError:
    try:
        return await work
    except IncomeClientError as error:
        return copy_without_traceback(error)


@frozen
class _Refusal:
    """A reply of the token endpoint that has refused the credentials."""

    status: int | None
    request_id: str | None
    at: float

    def raise_if_recent(self, now: float) -> None:
        """Raise an error if the refusal is less than 10 seconds old."""
        ago = now - self.at
        if ago >= _REFUSAL_SECONDS:
            return
        remaining = _REFUSAL_SECONDS - ago
        raise AuthenticationError(
            f"the token endpoint refused the client credentials {math.floor(ago)} s ago, "
            f"and is asked again in {math.ceil(remaining)} s",
            **_CALL,
            status=self.status,
            retry_after=remaining,
            request_id=self.request_id,
        )


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
        wall_time: Callable[[], datetime] = utc_now,
        instrumentation: Instrumentation | None = None,
    ) -> None:
        self._request_token = request_token
        self._clock = clock
        self._gate = Gate() if gate is None else gate
        self._instrumentation = Instrumentation() if instrumentation is None else instrumentation
        self._shared: SharedToken | None = None
        if store is not None:
            self._shared = SharedToken(store, clock, store_seconds, wall_time)
        self._token: Token | None = None
        self._refused: deque[Secret] = deque(maxlen=_REFUSED_TOKENS)
        """The last tokens that the service refused."""
        self._renewal: Renewal | None = None
        """Renewal in flight, or else the last one."""
        self._renew_from = -math.inf
        self._refusal: _Refusal | None = None
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
        if now >= max(self._renew_from, self._gate.opens_at) and not self._is_closed:
            # An attempt that fails leaves time for nine more.
            self._renew_from = now + (token.expired_at - token.stale_at) / 10
            self._begin_renewal()
        return token

    async def get(self, deadline_at: float = math.inf) -> Token:
        """Return a token that serves, requested if need be.

        All who wait at a time wait for the same request, and a cancelled waiter does not end
        it. Refused credentials are not tried again for 10 seconds, since accounts get locked
        for it; the error says for how long.
        """
        token = self._usable_token()
        if token is None:
            pause = await self._gate.wait(self._clock, deadline_at)
            if pause is not None:
                message = "not requested, the token endpoint asked for a pause"
                raise TokenError(message, retryable=True, retry_after=pause, **_CALL)
            token = self._usable_token()
        if token is not None:
            return token
        if self._is_closed:
            raise _closed_error()
        return await self._begin_renewal().wait()

    def invalidate(self, token: Token) -> bool:
        """Drop a token that the service refused, unless it was replaced already.

        Returns that there is, or will be, another.
        """
        # By its value: the store may have given the same one again.
        if self._token is not None and self._token.authorization == token.authorization:
            self._token = None
            self._refused.append(token.authorization)
        return True

    async def aclose(self) -> None:
        """End a token request and a saving under way; calls that wait for a token fail."""
        self._is_closed = True
        try:
            if self._renewal is not None:
                await self._renewal.aclose()
        finally:
            if self._shared is not None:
                await self._shared.aclose()

    def _usable_token(self) -> Token | None:
        """Return the token in use; raise an error if the credentials were refused just now."""
        token = self.current()
        if token is None and self._refusal is not None:
            self._refusal.raise_if_recent(self._clock.monotonic())
        return token

    def _begin_renewal(self) -> Renewal:
        """Return the renewal under way, or a new one."""
        if self._renewal is None or self._renewal.is_over:
            self._renewal = Renewal(self._renew_token())
        return self._renewal

    async def _renew_token(self) -> Token:
        """Obtain a token, make it the token in use, and return it."""
        try:
            token = await self._obtain_token()
        except IncomeClientError as failure:
            self._note_failure(failure)
            raise
        self._token = token
        if not token.is_shared:
            self._refusal = None
        if token.is_issued:
            self._report_token(token)
        return token

    def _report_token(self, token: Token) -> None:
        if not token.is_shared:
            _LOGGER.debug("a token was received", extra={"lifetime": token.lifetime})
        if (emit := self._instrumentation.emit) is not None:
            # Not for those who do not listen: making the classes of events takes a while.
            from income_client.events.kinds import TokenRenewed  # noqa: PLC0415

            lifetime = max(0.0, token.expired_at - self._clock.monotonic())
            emit(TokenRenewed(lifetime=lifetime, is_shared=token.is_shared))

    async def _obtain_token(self) -> Token:
        """Return the token of another process, or else request one and share it."""
        if self._shared is None:
            return await self._request_token()
        token = await self._shared.load(self._is_wanted)
        if token is None:
            token = await self._shared.wait_for_other(self._is_wanted)
        if token is None:
            token = await self._request_token()
            if not token.is_issued:
                raise needless_store_error()
            self._shared.begin_saving(token)
        return token

    def _note_failure(self, failure: IncomeClientError) -> None:
        now = self._clock.monotonic()
        self._refusal = None
        if isinstance(failure, AuthenticationError):
            self._refusal = _Refusal(failure.status, failure.request_id, now)
            self._renew_from = max(self._renew_from, now + _REFUSAL_SECONDS)
            failure.retry_after = max(_REFUSAL_SECONDS, failure.retry_after or 0.0)
        # The client is being closed, and needs no token any more.
        is_closing = isinstance(failure, ClientClosedError)
        if self._token is not None and not is_closing:
            _log_not_renewed(failure, self._token.expired_at - now)

    def _is_wanted(self, shared: Token, now: float) -> bool:
        """Return whether a shared token should replace the one in use."""
        if shared.authorization in self._refused:
            return False
        if now < shared.stale_at:
            return True
        current = self._token
        return now < shared.expired_at and (current is None or now >= current.expired_at)


def needless_store_error() -> ConfigurationError:
    """Return the error of a store beside credentials that need no token."""
    return InvalidArgumentError(
        "token_store is for OAuth2ClientCredentials", argument="token_store"
    )


def _closed_error() -> ClientClosedError:
    return ClientClosedError("the client was closed while a call waited for its token")


async def _end_task(task: "asyncio.Task[Any] | None") -> None:
    """Cancel a task and wait for its end, unless its event loop has ended."""
    if task is not None and not task.done() and task.get_loop().is_running():
        task.cancel()
        await asyncio.wait((task,))


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
