"""Callbacks of the emulated service: where they go, how they are sent and what came of it."""

import asyncio
import errno
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from ssl import SSLContext, SSLError
from typing import Any, Final, Self

import aiohttp
import msgspec
from attrs import Attribute, field, frozen
from attrs.validators import optional
from yarl import URL

from income_client.clock import Clock
from income_client.errors import ConfigurationError
from income_client.settings import BasicAuth, OAuth2ClientCredentials, Secret

from .arguments import check_figure, instance
from .exchange import check_local_address

_LONGEST_NUMBER: Final = 9


@frozen(kw_only=True)
class CallbackAnswer:
    """The answer of an endpoint, or the fault that stands for having none."""

    status: int | None = None
    """HTTP status; None where no answer came."""
    fault: str = ""
    """Why none came: refused, unreachable, tls, timeout, dropped, reset, cut_short, unreadable,
    failed or closed; ``token_`` and one of these, or a status, where no token could be had."""
    body: bytes = field(default=b"", repr=False)
    """The content."""
    retry_after: float | None = None
    """Seconds that the answer asks for; a date is not read."""

    @property
    def is_fault(self) -> bool:
        """Whether no answer came."""
        return self.status is None

    @property
    def outcome(self) -> int | str:
        """The status, or the name of the fault."""
        return self.fault if self.status is None else self.status

    @property
    def is_json(self) -> bool:
        """Whether the content is JSON, which the service is assumed to require."""
        return json_of(self.body) is not None


@frozen(kw_only=True)
class CallbackDelivery:
    """What became of one callback."""

    application_id: str | None
    """The application it was about, if any."""
    event_type: str | None
    """What it said had happened."""
    attempts: tuple[int | str, ...]
    """What each attempt came to, in order: a status, or the name of a fault."""
    is_json: bool
    """Whether the last answer was JSON, as the service is assumed to require."""

    @property
    def delivered(self) -> bool:
        """Whether the last answer was 200, which the service is assumed to expect."""
        return self.attempts[-1:] == (HTTPStatus.OK,)

    def facts(self) -> dict[str, Any]:
        """Return it as JSON's own values."""
        return {
            "application_id": self.application_id,
            "event_type": self.event_type,
            "attempts": list(self.attempts),
            "is_json": self.is_json,
            "delivered": self.delivered,
        }

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> Self | None:
        """Return the delivery that another process tells of, None where it tells of none.

        Args:
            facts: what it tells, as `facts` returned it there.
        """
        attempts = facts.get("attempts")
        names = [facts.get("application_id"), facts.get("event_type")]
        if (
            not isinstance(attempts, list)
            or not all(isinstance(one, int | str) for one in attempts)
            or not all(one is None or isinstance(one, str) for one in names)
        ):
            return None
        return cls(
            application_id=names[0],
            event_type=names[1],
            attempts=tuple(attempts),
            is_json=bool(facts.get("is_json")),
        )


def json_of(body: bytes) -> tuple[Any] | None:
    """Return the one value of a JSON text, None if it is none."""
    try:
        return (msgspec.json.decode(body),)
    except ValueError:
        return None


def seconds_of(text: str | None) -> float | None:
    """Return the seconds of a Retry-After header, None where it tells none."""
    text = (text or "").strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return float(text) if is_number else None


_LONGEST_BODY: Final = 64 * 1024
_OWN_FIELDS: Final = (
    ("Accept", "application/json"),
    ("Accept-Encoding", "identity"),
    ("User-Agent", "income-emulator"),
)
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
"""What an error is called; the first that fits."""


@frozen(kw_only=True)
class Post:
    """What is sent, and how."""

    url: str = field(repr=False)
    """Where to, on this machine."""
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    """Header fields in their order; one that stands here takes the place of a usual one."""
    body: bytes = field(repr=False)
    """The content."""
    tls: SSLContext | None = None
    """In place of the default TLS context."""
    timeout: float
    """Seconds for the whole."""


async def send(post: Post) -> CallbackAnswer:
    """Send once and read the answer; raises nothing but cancellation."""
    try:
        async with asyncio.timeout(post.timeout), _session() as session:
            return await _exchange(session, post)
    except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
        fault = _name_of(error)
    return CallbackAnswer(fault=fault)


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )


async def _exchange(session: aiohttp.ClientSession, post: Post) -> CallbackAnswer:
    async with session.post(
        URL(post.url, encoded=True),
        data=post.body,
        headers=_with_usual(post.headers),
        allow_redirects=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_read=post.timeout),
        ssl=True if post.tls is None else post.tls,
    ) as reply:
        return CallbackAnswer(
            status=reply.status,
            body=await _start_of(reply),
            retry_after=seconds_of(reply.headers.get("Retry-After")),
        )


def _with_usual(fields: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    given = list(fields)
    names = {name.lower() for name, _ in given}
    return [one for one in _OWN_FIELDS if one[0].lower() not in names] + given


async def _start_of(reply: aiohttp.ClientResponse) -> bytes:
    """Read a body; one that is too long counts as none."""
    body = bytearray()
    async for piece in reply.content.iter_any():
        body += piece
        if len(body) > _LONGEST_BODY:
            reply.close()
            return b""
    return bytes(body)


def _name_of(error: Exception) -> str:
    # Within TLS 1.3 a certificate is refused after the handshake, as a broken connection.
    if isinstance(error.__cause__, SSLError):
        return "tls"
    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
        return "refused"
    return next((name for kind, name in _FAULTS if isinstance(error, kind)), "failed")


_SENT_AGAIN: Final = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_IS_BOOL: Final = instance(bool, "True or False")


def _address(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    fault = check_local_address(attribute.name, value)
    del value  # it may hold a secret, and crash reporters send the locals of frames
    if fault is not None:
        raise fault


def _figures(value: Any) -> tuple[float, ...]:
    try:
        figures = tuple(value)
    except TypeError:
        raise ConfigurationError("pauses are several numbers of seconds") from None
    for figure in figures:
        check_figure("each of the pauses", figure)
    return figures


def _positive(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    check_figure(attribute.name, value)
    if not value:
        raise ConfigurationError(f"{attribute.name} is a number above 0")


@frozen
class CallbackTarget:
    """An endpoint for callbacks, and how they are sent to it (contract sections 5.2 and 6).

    The contract does not say when callbacks are sent again. It is assumed here that the
    service expects 200, and sends again up to five times after 429, 500, 502, 503 and 504;
    all of that can be changed.

    Raises:
        ConfigurationError: an address leads elsewhere than to this machine, or an
            argument cannot be meant.
    """

    url: str = field(validator=_address, repr=False)
    """Where callbacks go: http or https, this machine, without user name or fragment."""
    auth: BasicAuth | OAuth2ClientCredentials | None = field(
        default=None,
        kw_only=True,
        validator=optional(
            instance((BasicAuth, OAuth2ClientCredentials), "BasicAuth or OAuth2ClientCredentials")
        ),
    )
    """What the partner has supplied; None for callbacks without an Authorization header."""
    token_url: str | None = field(
        default=None, kw_only=True, validator=optional(_address), repr=False
    )
    """Where tokens are bought, on this machine as well; needed for OAuth 2.0."""
    ssl: SSLContext | None = field(
        default=None, kw_only=True, validator=optional(instance(SSLContext, "an SSLContext"))
    )
    """The TLS context; one with a certificate makes it mutual TLS."""
    pauses: tuple[float, ...] = field(
        default=(1.0, 2.0, 4.0, 8.0, 16.0), kw_only=True, converter=_figures
    )
    """Seconds before each time that a callback is sent again, as assumed; empty: sent once."""
    timeout: float = field(default=10.0, kw_only=True, validator=_positive)
    """Seconds until an attempt, or the request for a token, is given up."""
    renews_on_401: bool = field(default=True, kw_only=True, validator=_IS_BOOL)
    """Whether a 401 makes it buy a new token and send at once, a single time."""
    honours_retry_after: bool = field(default=False, kw_only=True, validator=_IS_BOOL)
    """Whether Retry-After lengthens a pause."""
    resends_unanswered: bool = field(default=False, kw_only=True, validator=_IS_BOOL)
    """Whether it sends again when no answer came, or no token could be had."""

    def __attrs_post_init__(self) -> None:
        is_oauth2 = isinstance(self.auth, OAuth2ClientCredentials)
        addresses = [self.url] if self.token_url is None else [self.url, self.token_url]
        is_plain = not any(one.startswith("https:") for one in addresses)
        fault = None
        if is_oauth2 and self.token_url is None:
            fault = "token_url is needed where auth is OAuth2ClientCredentials"
        elif self.token_url is not None and not is_oauth2:
            fault = "token_url is given, and auth is no OAuth2ClientCredentials"
        elif self.ssl is not None and is_plain:
            fault = "ssl is given, and no address is https"
        if fault is not None:
            del self, addresses
            raise ConfigurationError(fault)

    def pause_after(self, answer: CallbackAnswer, resent: int) -> float | None:
        """Return the seconds until a callback is sent again, None if it is not.

        Args:
            answer: what the last attempt came to.
            resent: how often it was sent again so far.
        """
        is_passing = answer.status in _SENT_AGAIN
        if resent >= len(self.pauses) or not (
            is_passing or (self.resends_unanswered and answer.is_fault)
        ):
            return None
        pause = self.pauses[resent]
        if self.honours_retry_after and answer.retry_after is not None:
            return max(pause, answer.retry_after)
        return pause

    def tls_for(self, url: str) -> SSLContext | None:
        """Return the TLS context for one of the addresses, None for the default one.

        Args:
            url: `url` or `token_url`.
        """
        return self.ssl if url.startswith("https:") else None


_FORM: Final = b"grant_type=client_credentials"
_FORM_TYPE: Final = ("Content-Type", "application/x-www-form-urlencoded")
_TOKEN: Final = re.compile(r"[!-~]{1,16384}")


@frozen(kw_only=True)
class Token:
    """A token that was bought."""

    authorization: Secret
    """The value of the Authorization header."""
    lifetime: float
    """Seconds that it is good for, from then on."""


class _Purse:
    """The token of one target."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.token: Token | None = None
        self.expires = 0.0


class CallbackCredentials:
    """What callbacks carry, by target.

    Args:
        clock: what the life of tokens goes by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._purses: dict[CallbackTarget, _Purse] = {}

    async def of(self, target: CallbackTarget) -> Secret | CallbackAnswer | None:
        """Return the value of the Authorization header, None for none.

        Returns:
            An answer in its place that says why no token could be had.
        """
        match target.auth:
            case None:
                return None
            case BasicAuth():
                return target.auth.authorization()
            case OAuth2ClientCredentials():
                return await self._token_of(target, target.auth)

    def drop(self, target: CallbackTarget, used: Secret) -> None:
        """Forget a token that was not accepted, unless there is a newer one already."""
        purse = self._purses.get(target)
        if purse is not None and purse.token is not None and purse.token.authorization is used:
            purse.token = None

    async def _token_of(
        self, target: CallbackTarget, auth: OAuth2ClientCredentials
    ) -> Secret | CallbackAnswer:
        purse = self._purses.setdefault(target, _Purse())
        async with purse.turn:
            token = purse.token
            if token is None or self._clock.monotonic() >= purse.expires:
                url = target.token_url or ""
                bought = await buy_token(url, auth, tls=target.tls_for(url), seconds=target.timeout)
                if isinstance(bought, CallbackAnswer):
                    return bought
                token = purse.token = bought
                purse.expires = self._clock.monotonic() + token.lifetime
            return token.authorization


async def buy_token(
    url: str, auth: OAuth2ClientCredentials, *, tls: SSLContext | None = None, seconds: float
) -> Token | CallbackAnswer:
    """Buy a token; raises nothing but cancellation.

    Args:
        url: where, on this machine.
        auth: who buys it.
        tls: in place of the default TLS context.
        seconds: how long it may take.

    Returns:
        An answer in its place that says why it could not be had.
    """
    answer = await send(
        Post(
            url=url,
            headers=(_FORM_TYPE, ("Authorization", auth.authorization().reveal())),
            body=_FORM,
            tls=tls,
            timeout=seconds,
        )
    )
    if answer.status != HTTPStatus.OK:
        return CallbackAnswer(fault=f"token_{answer.outcome}")
    return _read(answer.body)


def _read(body: bytes) -> Token | CallbackAnswer:
    parsed = json_of(body)
    content = parsed[0] if parsed and isinstance(parsed[0], dict) else {}
    token, kind, lifetime = map(content.get, ("access_token", "token_type", "expires_in"))
    is_token = isinstance(token, str) and _TOKEN.fullmatch(token) is not None
    if not is_token or str(kind).lower() != "bearer" or type(lifetime) is not int:
        return CallbackAnswer(fault="token_unreadable")
    return Token(authorization=Secret(f"Bearer {token}"), lifetime=lifetime)


_JSON_TYPE: Final = ("Content-Type", "application/json")
_CLOSED: Final = "closed"


@frozen(kw_only=True)
class Parcel:
    """What every attempt carries besides its credentials."""

    body: bytes = field(repr=False)
    """The content."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Header fields, each in place of the usual ones of its name."""


class Journey:
    """One parcel's attempts so far.

    Attributes:
        attempts: what each came to.
        last: the last answer.
    """

    def __init__(self) -> None:
        self.attempts: list[int | str] = []
        self.last: CallbackAnswer = CallbackAnswer(fault=_CLOSED)

    def note(self, answer: CallbackAnswer) -> None:
        """Add what one more attempt came to."""
        self.attempts.append(answer.outcome)
        self.last = answer


class CallbackPost:
    """Sends parcels to endpoints of this machine, several at a time.

    Args:
        clock: what pauses and the life of tokens go by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._credentials = CallbackCredentials(clock)
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def deliver(self, target: CallbackTarget, parcel: Parcel) -> Journey:
        """Send until it is taken or the target gives up; raises nothing but cancellation.

        Once this is closed nothing is sent, and every journey is one ``closed``.
        """
        journey = Journey()
        if self._is_closed:
            journey.note(CallbackAnswer(fault=_CLOSED))
            return journey
        task = asyncio.create_task(self._travel(target, parcel, journey))
        self._under_way.add(task)
        try:
            await asyncio.wait({task})
        finally:
            self._under_way.discard(task)
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled():
            journey.note(CallbackAnswer(fault=_CLOSED))
        else:
            task.result()
        return journey

    def open(self) -> None:
        """Send again after `close`."""
        self._is_closed = False

    async def close(self) -> None:
        """End what is under way, as ``closed``, and send nothing more."""
        self._is_closed = True
        tasks = tuple(self._under_way)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _travel(self, target: CallbackTarget, parcel: Parcel, journey: Journey) -> None:
        resent = 0
        may_renew = target.renews_on_401 and isinstance(target.auth, OAuth2ClientCredentials)
        while True:
            authorization = await self._credentials.of(target)
            if isinstance(authorization, CallbackAnswer):
                answer = authorization
            else:
                answer = await _send(target, parcel, authorization)
            journey.note(answer)
            is_refused = answer.status == HTTPStatus.UNAUTHORIZED
            if is_refused and may_renew and isinstance(authorization, Secret):
                may_renew = False
                self._credentials.drop(target, authorization)
                continue
            pause = target.pause_after(answer, resent)
            if pause is None:
                return
            resent += 1
            await self._clock.sleep(pause)


async def _send(
    target: CallbackTarget, parcel: Parcel, authorization: Secret | None
) -> CallbackAnswer:
    usual = [_JSON_TYPE]
    if authorization is not None:
        usual.append(("Authorization", authorization.reveal()))
    given = {name.lower() for name, _ in parcel.headers}
    headers = (*(one for one in usual if one[0].lower() not in given), *parcel.headers)
    post = Post(
        url=target.url,
        headers=headers,
        body=parcel.body,
        tls=target.tls_for(target.url),
        timeout=target.timeout,
    )
    return await send(post)
