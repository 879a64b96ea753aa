"""Callbacks of the emulated service: their target, their attempts and the outcome.

What the contract leaves open about callbacks (sections 5.2 and 6) is a field of
`CallbackTarget`. Nothing of a borrower's is sent.
"""

import asyncio
import errno
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from ssl import SSLContext, SSLError
from typing import Any, Final, TypeAlias

import aiohttp
import msgspec
from attrs import define, field, frozen
from attrs.validators import optional
from yarl import URL

from income_client.errors import ConfigurationError
from income_client.settings import (
    BasicAuth,
    OAuth2ClientCredentials,
    Secret,
    check_not_negative,
    check_type,
    flag,
    invalid,
    positive,
    validated,
)
from income_client.system.clock import Clock
from income_client.system.texts import has_surrogate

from .exchange import check_local_address

USUAL_EVENT: Final = "income_calculations"
"""Assumed event type of callbacks; others are ``extractions`` and ``error``."""

Fields: TypeAlias = tuple[tuple[str, str], ...]
"""Header fields in order."""

_RETRIED: Final = frozenset({429, 500, 502, 503, 504})
_LONGEST_ANSWER: Final = 64 * 1024
_LONGEST_NUMBER: Final = 9
_OWN_FIELDS: Final = (
    ("Accept", "application/json"),
    ("Accept-Encoding", "identity"),
    ("User-Agent", "income-emulator"),
)
_JSON_TYPE: Final = ("Content-Type", "application/json")
_FORM_TYPE: Final = ("Content-Type", "application/x-www-form-urlencoded")
_TOKEN: Final = re.compile(r"[!-~]{1,16384}")
_FIELD_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_FIELD_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_FAULTS: Final = (
    (aiohttp.ClientSSLError, "tls"),
    (SSLError, "tls"),
    (TimeoutError, "timeout"),
    (aiohttp.ClientConnectorError, "unreachable"),
    (aiohttp.ServerDisconnectedError, "dropped"),
    (OSError, "reset"),
    (aiohttp.ClientPayloadError, "cut_short"),
    (aiohttp.ClientResponseError, "unreadable"),
)
"""Names of errors by their class; the first class that fits counts."""


def _optional_type(*types: type) -> Any:
    return validated(lambda name, value: check_type(name, value, *types))


_local: Final = validated(check_local_address)


def _read_pauses(value: Any) -> tuple[float, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise invalid("pauses", "several numbers of seconds", value)
    return tuple(check_not_negative("each of the pauses", pause) for pause in value)


@frozen
class CallbackTarget:
    """An endpoint for callbacks, and how they are sent to it (contract sections 5.2 and 6).

    The contract does not say when callbacks are sent again. It is assumed here that the
    service expects 200, and sends again up to five times after 429, 500, 502, 503 and 504;
    all of that can be changed.

    Raises:
        ConfigurationError: an address leads elsewhere than to this machine, or an
            argument is invalid.
    """

    url: str = field(validator=_local, repr=False)
    """URL of the partner's endpoint: http or https, this machine, without user name or fragment.
    """
    auth: BasicAuth | OAuth2ClientCredentials | None = field(
        default=None, kw_only=True, validator=_optional_type(BasicAuth, OAuth2ClientCredentials)
    )
    """Credentials that the partner supplied; None for callbacks without an Authorization header.
    """
    token_url: str | None = field(
        default=None, kw_only=True, validator=optional(_local), repr=False
    )
    """The token endpoint, on this machine as well; needed for OAuth 2.0."""
    ssl: SSLContext | None = field(default=None, kw_only=True, validator=_optional_type(SSLContext))
    """The TLS context; one with a certificate makes it mutual TLS."""
    pauses: tuple[float, ...] = field(
        default=(1.0, 2.0, 4.0, 8.0, 16.0), kw_only=True, converter=_read_pauses
    )
    """Seconds before each repetition of a callback, as assumed; empty for a single attempt."""
    timeout: float = field(default=10.0, kw_only=True, validator=positive)
    """Seconds until an attempt, or the request for a token, is given up."""
    renews_on_401: bool = field(default=True, kw_only=True, validator=flag)
    """Whether a 401 makes the service request a new token and send again at once, a single time.
    """
    honours_retry_after: bool = field(default=False, kw_only=True, validator=flag)
    """Whether Retry-After lengthens a pause."""
    resends_unanswered: bool = field(default=False, kw_only=True, validator=flag)
    """Whether the service sends again if no answer came, or if no token could be had."""

    def __attrs_post_init__(self) -> None:
        is_oauth2 = isinstance(self.auth, OAuth2ClientCredentials)
        if is_oauth2 and self.token_url is None:
            raise ConfigurationError("token_url is needed where auth is OAuth2ClientCredentials")
        if self.token_url is not None and not is_oauth2:
            raise ConfigurationError("token_url is given, and auth is not OAuth2ClientCredentials")
        is_https = any(url.startswith("https:") for url in (self.url, self.token_url or ""))
        if self.ssl is not None and not is_https:
            raise ConfigurationError("ssl is given, and no address is https")


@frozen(kw_only=True)
class CallbackDelivery:
    """The outcome of sending one callback."""

    application_id: str | None
    """Application of the callback, if any."""
    event_type: str | None
    """Event that the callback reported."""
    attempts: tuple[int | str, ...]
    """Outcome of each attempt, in order: an HTTP status, or the name of a fault."""
    is_json: bool
    """Whether the last answer was JSON, as the service is assumed to require."""

    @property
    def delivered(self) -> bool:
        """Whether the last answer was 200, which the service is assumed to expect."""
        return self.attempts[-1:] == (HTTPStatus.OK,)


@frozen(kw_only=True)
class CallbackAnswer:
    """The answer to one POST."""

    outcome: int | str
    """The status, or the fault for which there is none: refused, unreachable, tls, timeout,
    dropped, reset, cut_short, unreadable, failed or closed; ``token_`` and one of these, or
    a status, where no token could be had."""
    body: bytes = field(default=b"", repr=False)
    """Content of the answer."""
    retry_after: float | None = None
    """Seconds that the answer asks for; a date is not read."""

    @property
    def is_json(self) -> bool:
        """Whether the content is JSON, which the service is assumed to require."""
        try:
            msgspec.json.decode(self.body)
        except ValueError:
            return False
        return True


@frozen
class _TokenReply:
    """The reply of a token endpoint (contract section 5.1)."""

    access_token: str = field(repr=False)
    token_type: str
    expires_in: int


class TokenError(Exception):
    """A token could not be obtained."""

    def __init__(self, outcome: int | str) -> None:
        super().__init__(outcome)
        self.outcome: int | str = outcome
        """Outcome of the token request: an HTTP status, or the name of a fault."""


@define
class _CachedToken:
    """The access token of one target, and when it expires by the clock."""

    authorization: Secret | None = None
    expires: float = 0.0
    lock: asyncio.Lock = field(factory=asyncio.Lock)


class CallbackSender:
    """Sends callbacks, several at a time; the clock measures pauses and lifetimes of tokens."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens: defaultdict[CallbackTarget, _CachedToken] = defaultdict(_CachedToken)
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def deliver(
        self, target: CallbackTarget, body: bytes, headers: Fields = ()
    ) -> list[CallbackAnswer]:
        """Send a callback until it is accepted or given up, and return each attempt's answer.

        Header fields take the place of the usual ones of their names. Once this is closed,
        the last attempt is ``closed``.
        """
        answers: list[CallbackAnswer] = []
        if not self._is_closed:
            task = asyncio.create_task(self._send_callback(target, body, headers, answers))
            self._under_way.add(task)
            try:
                await asyncio.wait({task})
            finally:
                self._under_way.discard(task)
                if not task.done():
                    task.cancel()
                    await asyncio.wait({task})
            if not task.cancelled():
                task.result()
                return answers
        return [*answers, CallbackAnswer(outcome="closed")]

    async def close(self) -> None:
        """End attempts in progress as ``closed``, and send no more callbacks."""
        self._is_closed = True
        tasks = tuple(self._under_way)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _send_callback(
        self, target: CallbackTarget, body: bytes, headers: Fields, answers: list[CallbackAnswer]
    ) -> None:
        resent = 0
        may_renew = target.renews_on_401 and isinstance(target.auth, OAuth2ClientCredentials)
        while True:
            authorization = None
            try:
                authorization = await self._authorization_header(target)
            except TokenError as error:
                answer = CallbackAnswer(outcome=f"token_{error.outcome}")
            else:
                own = [] if authorization is None else [("Authorization", authorization.reveal())]
                fields = _merge_fields([_JSON_TYPE, *own], headers)
                answer = await post(
                    target.url, body, headers=fields, tls=target.ssl, seconds=target.timeout
                )
            answers.append(answer)
            if answer.outcome == HTTPStatus.UNAUTHORIZED and may_renew:
                may_renew = False
                self._forget_token(target, authorization)
                continue
            pause = _pause_after(answer, resent, target)
            if pause is None:
                return
            resent += 1
            await self._clock.sleep(pause)

    async def _authorization_header(self, target: CallbackTarget) -> Secret | None:
        """Return the value of the Authorization header (contract section 5.2), None for none."""
        if not isinstance(target.auth, OAuth2ClientCredentials):
            return None if target.auth is None else target.auth.authorization()
        cached = self._tokens[target]
        async with cached.lock:
            if cached.authorization is None or self._clock.monotonic() >= cached.expires:
                cached.authorization, lifetime = await request_token(
                    target.token_url or "", target.auth, tls=target.ssl, seconds=target.timeout
                )
                cached.expires = self._clock.monotonic() + lifetime
            return cached.authorization

    def _forget_token(self, target: CallbackTarget, used: Secret | None) -> None:
        """Forget a rejected token, unless a newer token has replaced it."""
        cached = self._tokens[target]
        if cached.authorization is used:
            cached.authorization = None


def _pause_after(answer: CallbackAnswer, resent: int, target: CallbackTarget) -> float | None:
    """Return the seconds until a callback is sent again, None if it is not."""
    is_unanswered = isinstance(answer.outcome, str)
    is_retried = target.resends_unanswered if is_unanswered else answer.outcome in _RETRIED
    if not is_retried or resent >= len(target.pauses):
        return None
    requested = answer.retry_after if target.honours_retry_after else None
    return max(target.pauses[resent], requested or 0.0)


async def request_token(
    url: str,
    auth: OAuth2ClientCredentials,
    *,
    seconds: float,
    tls: SSLContext | None = None,
) -> tuple[Secret, int]:
    """Request a token (contract section 5.1); return its header and the seconds until it expires.

    Raises:
        TokenError: there is none.
    """
    headers = (_FORM_TYPE, ("Authorization", auth.authorization().reveal()))
    form = b"grant_type=client_credentials"
    answer = await post(url, form, headers=headers, tls=tls, seconds=seconds)
    if answer.outcome != HTTPStatus.OK:
        raise TokenError(answer.outcome)
    try:
        reply = msgspec.json.decode(answer.body, type=_TokenReply)
    except ValueError:
        raise TokenError("unreadable") from None
    if reply.token_type.lower() != "bearer" or _TOKEN.fullmatch(reply.access_token) is None:
        raise TokenError("unreadable")
    return Secret(f"Bearer {reply.access_token}"), reply.expires_in


async def post(
    url: str,
    body: bytes,
    *,
    headers: Fields,
    seconds: float,
    tls: SSLContext | None = None,
) -> CallbackAnswer:
    """Send one POST, and return its answer within a time limit; raise nothing but cancellation.

    Redirects are not followed, and cookies, proxies and netrc are not used.
    """
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None),
    )
    try:
        async with (
            asyncio.timeout(seconds),
            session,
            session.post(
                URL(url, encoded=True),
                data=body,
                headers=_merge_fields(_OWN_FIELDS, headers),
                allow_redirects=False,
                ssl=True if tls is None else tls,
            ) as reply,
        ):
            return CallbackAnswer(
                outcome=reply.status,
                body=await _start_of(reply),
                retry_after=_seconds_of(reply.headers.get("Retry-After", "")),
            )
    except Exception as error:  # noqa: BLE001 - any of them is the outcome
        return CallbackAnswer(outcome=_name_of(error))


async def _start_of(reply: aiohttp.ClientResponse) -> bytes:
    """Read a body up to the limit; a longer body counts as empty."""
    body = bytearray()
    async for piece in reply.content.iter_any():
        body += piece
        if len(body) > _LONGEST_ANSWER:
            reply.close()
            return b""
    return bytes(body)


def _seconds_of(text: str) -> float | None:
    """Return the seconds of a Retry-After header, None for anything but a whole number."""
    text = text.strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return float(text) if is_number else None


def _name_of(error: Exception) -> str:
    # Within TLS 1.3 a certificate is refused after the handshake, as a broken connection.
    if isinstance(error.__cause__, SSLError):
        return "tls"
    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
        return "refused"
    return next((name for kind, name in _FAULTS if isinstance(error, kind)), "failed")


def _merge_fields(usual: Iterable[tuple[str, str]], fields: Fields) -> Fields:
    """Return header fields, preceded by the usual fields of other names."""
    names = {name.lower() for name, _ in fields}
    return (*(pair for pair in usual if pair[0].lower() not in names), *fields)


def check_text(name: str, value: object) -> None:
    """Raise unless the value is None or a text that JSON can hold."""
    is_text = isinstance(value, str) and not has_surrogate(value)
    if value is not None and not is_text:
        raise invalid(name, "a str without surrogates", value)


def payload_bytes(payload: Any) -> bytes:
    """Return the bytes of a payload: bytes unchanged, other values as JSON."""
    if isinstance(payload, bytes | bytearray):
        return bytes(payload)
    try:
        text = json.dumps(payload, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError):
        raise invalid("payload", "bytes or what JSON can hold", payload) from None


def header_fields(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> Fields:
    """Return header fields as pairs; raise for a field that cannot be sent."""
    pairs = tuple(headers.items() if isinstance(headers, Mapping) else headers)
    if not all(
        _FIELD_NAME.fullmatch(name) and _FIELD_VALUE.fullmatch(text) for name, text in pairs
    ):
        raise ConfigurationError("headers must be names and values of header fields")
    return pairs
