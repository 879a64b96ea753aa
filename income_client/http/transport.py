"""Send one request over aiohttp and read its reply: connections, socket timeouts, size limits.

Knows neither what a status means nor when to try again. No error of aiohttp leaves this module,
since its text may show addresses, headers and what was received: each is replaced by one of ours
that says what kind of failure it was.
"""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final, Self, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes

import aiohttp
from yarl import URL

from income_client._version import __version__
from income_client.errors import (
    ClientClosedError,
    IncomeClientError,
    InvalidArgumentError,
    TokenError,
    UnexpectedResponseError,
)
from income_client.settings import Secret, Timeouts, check_count, check_flag, check_type
from income_client.system.frames import strip_frames
from income_client.system.http_messages import HEAD_LIMITS

from .connections import Connections, WatchedReply, WatchedRequest
from .deadlines import Deadlines
from .endpoints import Addresses, Request, Response, check_route
from .faults import (
    FAILURES,
    SILENT,
    ConnectionFault,
    LostError,
    StaleConnectionError,
    UsedConnectionError,
    fault_of,
)
from .replies import call_of, facts_of

T = TypeVar("T")

BorrowedSession: TypeAlias = aiohttp.ClientSession
"""A session that belongs to the caller."""
TraceConfig: TypeAlias = aiohttp.TraceConfig
"""aiohttp's own hooks, which also see the Authorization header."""

MAX_RESPONSE_BYTES: Final = 16 * 2**20
"""Size of the largest reply that is read: a hundred times a page of 1,000 rows."""
_QUICK_BYTES: Final = 2**18
"""Size of the largest reply that is decoded in the event loop; larger ones would stop it."""
_OK: Final = HTTPStatus.OK.value
_FORM_HEADERS: Final = {"Content-Type": "application/x-www-form-urlencoded"}
_KEEP_ALIVE_SECONDS: Final = 15.0
_KEPT_BYTES: Final = 4096
_SMALL_BODY: Final = 64 * 1024
_DRAIN_SECONDS: Final = 1.0
_ELSEWHERE: Final = "the client belongs to the event loop in which it was first used"
_INHERITED: Final[list[aiohttp.ClientSession]] = []
"""Sessions of the parent process, which a forked child neither closes nor collects.

Either of the two could shut down connections that the parent still uses.
"""
_FORKED: Final = "the client was used before this process was forked; make one after the fork"
_PUT_THERE_FOR_ALL: Final = "_is_instrumented_by_opentelemetry"
"""Attribute of the trace hooks that OpenTelemetry adds to every new session of a process."""
_USER_AGENT: Final = f"income-client/{__version__}"
_HEADER_TEXT: Final = re.compile(r"[ -~]{1,256}")


_REPEATED: Final = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)
"""Errors after which aiohttp itself would send a GET again."""

_LONG_SILENCE: Final = 0.1
"""Share of the read timeout after which a cancelled request makes its connection suspect."""


class SocketLimits:
    """Limits connecting and silence, for requests with the same timeouts.

    All that wait for a service share one timer, while aiohttp's own limit of silence starts and
    stops one twice for each reply. ``connections`` are those of the pool that the requests use.
    """

    def __init__(self, timeouts: Timeouts, connections: Connections) -> None:
        self.connecting: Final = aiohttp.ClientTimeout(
            total=None, connect=timeouts.connect, sock_connect=timeouts.connect
        )
        self.middlewares: Final = (self._send_once,)
        self.read: Final = timeouts.read
        self._silences = Deadlines(timeouts.read)
        self._connections = connections

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return this object: libraries that mock aiohttp copy the arguments of a request."""
        # A copy of the timer would begin a copy of the event loop, and fail half-way.
        return self

    async def _send_once(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send once: aiohttp would repeat a GET, which is up to the retry policy."""
        if not isinstance(request, WatchedRequest):
            raise TypeError("the session makes requests that are watched")
        request.connections = self._connections
        with self._silences.limit(
            partial(self._lost_error, request, SILENT), starts=False
        ) as silence:
            request.silence = self._silences, silence
            while True:
                try:
                    return await handler(request)
                except UsedConnectionError:
                    # It is closed now, and a new connection is never refused: this ends.
                    continue
                except _REPEATED as error:
                    raise self._lost_error(request, fault_of(error)) from None
                except asyncio.CancelledError:
                    remaining = silence.ends_at - asyncio.get_running_loop().time()
                    if (
                        request.is_on_used_connection
                        and remaining < (1 - _LONG_SILENCE) * self.read
                    ):
                        self._connections.give_up_idle(request.url)
                    raise

    def _lost_error(self, request: WatchedRequest, fault: ConnectionFault) -> LostError:
        if request.is_on_used_connection:
            self._connections.give_up_idle(request.url)
        return LostError(fault, was_used=request.is_on_used_connection)

    async def read_body(self, reply: aiohttp.ClientResponse, most: int) -> bytes | None:
        """Read a body, or return None as soon as it exceeds the limit."""
        content = reply.content
        if (reply.content_length or 0) > most:
            return None
        size = 0
        pieces = []
        with self._silences.limit(aiohttp.SocketTimeoutError) as silence:
            while not content.at_eof():
                piece = await content.readany()
                size += len(piece)
                if size > most:
                    return None
                pieces.append(piece)
                self._silences.start(silence)
        return b"".join(pieces)


class Pool:
    """A pool of connections: an aiohttp session, made in the event loop of its first request."""

    def __init__(
        self,
        make: Callable[[], aiohttp.ClientSession],
        borrowed: aiohttp.ClientSession | None = None,
    ) -> None:
        self._make = make
        self._borrowed = borrowed
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process: int | None = None
        connector = None if borrowed is None else borrowed.connector
        self.connections: Connections = (
            Connections() if connector is None else Connections.borrowed(connector)
        )
        self.replies: set[aiohttp.ClientResponse] = set()
        self.is_closed: bool = False

    def check(self) -> None:
        """Raise `ClientClosedError` if nothing can be sent from the running loop."""
        if self.is_closed:
            raise ClientClosedError("the client was closed")
        if self._is_of_parent():
            raise ClientClosedError(_FORKED)
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise ClientClosedError(_ELSEWHERE)
        if self._borrowed is not None and self._borrowed.closed:
            raise ClientClosedError("the session that the client borrowed was closed")

    def open(self) -> aiohttp.ClientSession:
        """Return the aiohttp session, which the first call makes; raise `ClientClosedError`."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop or self._is_of_parent():
            self.check()
            try:
                self._session = self._make()
            except RuntimeError:
                raise ClientClosedError(
                    "the borrowed session belongs to another event loop"
                ) from None
            self._loop, self._process = loop, os.getpid()
        return self._session

    def fault_of(self, error: Exception) -> ConnectionFault:
        """Return the connection failure of an exception; raise `ClientClosedError`, or a bug."""
        if self._session is None or self._session.closed:
            # A session that is closed while it sends raises other errors than usual.
            self.check()
        if not isinstance(error, FAILURES):
            raise error
        return fault_of(error)

    async def aclose(self) -> None:
        """Close the session if the pool made it; a second call does nothing."""
        session, loop = self._session, self._loop
        if session is None or loop is None:
            self.is_closed = True
            return
        if self._is_of_parent():
            self.is_closed, self._session = True, None
            _INHERITED.append(session)
            return
        if not loop.is_closed() and loop is not asyncio.get_running_loop():
            raise ClientClosedError(_ELSEWHERE)
        self.is_closed, self._session = True, None
        for reply in tuple(self.replies):
            # aiohttp forgets who waits for a body, and drops the time limit with it.
            reply.close()
        await session.close()

    def _is_of_parent(self) -> bool:
        """Return whether the connections belong to a process of which this is a forked child."""
        return self._process is not None and self._process != os.getpid()


class Transport:
    """Sends one request and reads its reply to the end.

    Of a borrowed session only the connections, the trace hooks and the User-Agent are used; its
    cookies, other headers, credentials, proxy and middlewares stay out of our requests.
    """

    def __init__(
        self,
        addresses: Addresses,
        *,
        session: BorrowedSession | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        user_agent: str | None = None,
        proxy: Secret | None = None,
        tls: ssl.SSLContext | None = None,
        trace_configs: Sequence[TraceConfig] = (),
        keep_error_bodies: bool = False,
    ) -> None:
        check_flag("keep_error_bodies", keep_error_bodies)
        check_type("session", session, aiohttp.ClientSession)
        check_type("ssl", tls, ssl.SSLContext)
        if proxy is not None:
            check_route(addresses, proxy)
        self._api = _parts_of(addresses.api)
        self._token = _parts_of(addresses.token)
        self._borrowed = session
        self._max_response_bytes = check_count("max_response_bytes", max_response_bytes)
        if user_agent is None and session is not None:
            user_agent = session.headers.get("User-Agent")
        self._headers = {"Accept": "application/json", "User-Agent": own_name(user_agent)}
        self._proxy = None if proxy is None else proxy_url(proxy)
        self._tls: ssl.SSLContext | bool = True if tls is None else tls
        self._trace_configs = _own_traces(trace_configs)
        self._keeps_bodies = keep_error_bodies
        self.pool: Pool = Pool(self._open_session, session)

    @strip_frames
    async def send(
        self,
        request: Request,
        headers: Mapping[str, str],
        limits: SocketLimits,
        read: Callable[[Response], T],
    ) -> T:
        """Send a request once, and return what is read from its reply.

        That has no body unless its status is 200. Where ``read`` refuses such a one, the connection
        is closed: what follows on it may be shifted by a reply. Raises `StaleConnectionError` where
        a used connection was dead.
        """
        reply: aiohttp.ClientResponse | None = None
        try:
            reply = await self.pool.open().request(
                request.method,
                self.url_of(request),
                headers=headers if request.form is None else {**headers, **_FORM_HEADERS},
                data=request.form,
                allow_redirects=False,
                timeout=limits.connecting,
                middlewares=limits.middlewares,
                proxy=self._proxy,
                ssl=self._tls,
            )
            self.pool.replies.add(reply)
            try:
                response = await self._read_reply(request, reply, limits)
            except BaseException:
                reply.close()
                raise
            finally:
                self.pool.replies.discard(reply)
        except IncomeClientError:
            raise
        except Exception as error:  # noqa: BLE001 - judged there
            failure = self.pool.fault_of(error).error(request)
            if isinstance(reply, WatchedReply) and reply.is_on_used_connection:
                self.pool.connections.give_up_idle(reply.url)
            is_stale = isinstance(error, LostError) and error.was_used
            raise StaleConnectionError(failure) if is_stale else failure from None
        try:
            if len(response.body) <= _QUICK_BYTES:
                return read(response)
            return await _read_in_thread(read, response)
        except IncomeClientError:
            if response.status == _OK and isinstance(reply, WatchedReply) and reply.transport:
                reply.transport.abort()
            raise

    def url_of(self, request: Request) -> URL:
        """Return the URL of a request."""
        scheme, authority, prefix = self._api if request.form is None else self._token
        # The same as of the whole text, which would be taken apart again.
        return URL.build(
            scheme=scheme,
            authority=authority,
            path=prefix + request.path,
            query_string=request.query,
            encoded=True,
        )

    def _open_session(self) -> aiohttp.ClientSession:
        borrowed = self._borrowed
        return aiohttp.ClientSession(
            connector=new_connector() if borrowed is None else borrowed.connector,
            connector_owner=borrowed is None,
            request_class=WatchedRequest,
            response_class=WatchedReply,
            loop=asyncio.get_running_loop(),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A proxy that tunnels gets them too, so none of them may be a credential.
            headers=self._headers,
            **HEAD_LIMITS,
            trace_configs=[*_traces_of(borrowed), *self._trace_configs],
            trust_env=False,
        )

    async def _read_reply(
        self, request: Request, reply: aiohttp.ClientResponse, limits: SocketLimits
    ) -> Response:
        if reply.status != _OK:
            drained = await _drain_reply(reply, limits, _KEPT_BYTES if self._keeps_bodies else 0)
            return Response(
                status=reply.status, headers=reply.headers, body=b"", kept=drained or None
            )
        most = self._max_response_bytes if request.form is None else _SMALL_BODY
        content = reply.content
        # All of a small one is here already.
        body = content.read_nowait() if content.is_eof() else await limits.read_body(reply, most)
        if body is None or len(body) > most:
            reply.close()
            facts = facts_of(Response(status=reply.status, headers=reply.headers, body=b""))
            cls = UnexpectedResponseError if request.form is None else TokenError
            raise cls(f"the reply is larger than {most} bytes", **call_of(request), **facts)
        # What the token endpoint says on success is a secret.
        is_kept = self._keeps_bodies and request.form is None
        beginning = body[:_KEPT_BYTES] if is_kept else None
        return Response(status=_OK, headers=reply.headers, body=body, kept=beginning)


async def _read_in_thread(read: Callable[[Response], T], response: Response) -> T:
    """Return what is read from a reply in a thread, or here if no thread can be started."""
    try:
        reading = asyncio.get_running_loop().run_in_executor(None, read, response)
    except RuntimeError:
        return read(response)
    return await reading


def new_connector(
    socket_factory: Callable[[aiohttp.AddrInfoType], socket.socket] | None = None,
) -> aiohttp.TCPConnector:
    """Return a pool of connections without a limit: the client's own semaphore is one."""
    return aiohttp.TCPConnector(
        limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS, socket_factory=socket_factory
    )


def proxy_url(proxy: Secret) -> URL:
    """Return a proxy's URL, whose credentials aiohttp sends as they are, or in UTF-8.

    aiohttp encodes them in Latin-1, and raises errors with the password for what that lacks. So
    each byte becomes the character that Latin-1 encodes as this byte.
    """
    url = URL(proxy.reveal())
    if url.raw_user is None and url.raw_password is None:
        return url
    user, password = (
        unquote_to_bytes(part or "").decode("latin-1") for part in (url.raw_user, url.raw_password)
    )
    return url.with_user(user).with_password(password)


def _parts_of(address: str) -> tuple[str, str, str]:
    url = URL(address, encoded=True)
    return url.scheme, url.raw_authority, url.raw_path.rstrip("/")


def _own_traces(configs: object) -> tuple[TraceConfig, ...]:
    if isinstance(configs, Sequence) and all(isinstance(config, TraceConfig) for config in configs):
        return tuple(configs)
    raise InvalidArgumentError(
        "trace_configs must be a sequence of aiohttp.TraceConfig", argument="trace_configs"
    )


def _traces_of(session: BorrowedSession | None) -> list[TraceConfig]:
    """Return the hooks of a session, without hooks that every new session gets anyway."""
    configs = () if session is None else session.trace_configs
    return [config for config in configs if not hasattr(config, _PUT_THERE_FOR_ALL)]


def own_name(user_agent: object) -> str:
    """Return the value of the User-Agent header: the package's own, or one of the caller's."""
    name = _USER_AGENT if user_agent is None else user_agent
    if not isinstance(name, str) or _HEADER_TEXT.fullmatch(name) is None:
        raise InvalidArgumentError(
            "the User-Agent must be a short text of printable ASCII", argument="user_agent"
        )
    return name


async def _drain_reply(reply: aiohttp.ClientResponse, limits: SocketLimits, keep: int) -> bytes:
    """Empty a failed reply, so that its connection can be used again; return its first bytes."""
    beginning = b""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while len(beginning) < keep and not reply.content.at_eof():
                beginning += await reply.content.read(keep - len(beginning))
            is_whole = await limits.read_body(reply, _SMALL_BODY) is not None
    except FAILURES:
        # The status was read, the body is not needed.
        is_whole = False
    if not is_whole:
        reply.close()
    return beginning
