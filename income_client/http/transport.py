"""Send one request over aiohttp and read its reply: connections, socket timeouts, size limits.

Knows neither what a status means nor when to try again. No error of aiohttp leaves this module,
since its text may show addresses, headers and what was received: each is replaced by one of ours
that says what kind of failure it was.
"""

import asyncio
import errno
import re
import ssl
import traceback
from collections.abc import Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import aiohttp
from attrs import evolve, field, frozen
from yarl import URL

from income_client._version import __version__
from income_client.errors import (
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    DownloadError,
    IncomeClientError,
    TransportError,
    UnexpectedResponseError,
)
from income_client.settings import Secret, Timeouts, check_count

from .connection_watch import (
    UnaskedBytesError,
    UsedConnectionError,
    WatchedReply,
    WatchedRequest,
)
from .deadlines import Deadlines
from .endpoints import Addresses, Origin, Request, Response
from .replies import facts_of, label

BorrowedSession: TypeAlias = aiohttp.ClientSession
"""A session that belongs to the caller."""
TraceConfig: TypeAlias = aiohttp.TraceConfig
"""aiohttp's own hooks, which also see the Authorization header."""

_OK: Final = HTTPStatus.OK.value
_KEEP_ALIVE_SECONDS: Final = 15.0
_KEPT_BYTES: Final = 4096
_SMALL_BODY: Final = 64 * 1024
_DRAIN_SECONDS: Final = 1.0
_KINDS_OF_TIMEOUTS: Final = 16
_PUT_THERE_FOR_ALL: Final = "_is_instrumented_by_opentelemetry"
"""What marks the hooks of a process whose sessions are all instrumented as they are made."""
_USER_AGENT: Final = f"income-client/{__version__}"
_HEADER_TEXT: Final = re.compile(r"[ -~]{1,256}")


@frozen
class ConnectionFault:
    """One way in which no reply comes."""

    text: str
    """For the message."""
    cls: type[TransportError] = ConnectionFailedError
    """The error that is raised for it."""
    retryable: bool = True
    """Whether it may be gone the next time."""
    facts: Mapping[str, Any] = field(factory=dict)
    """What the error carries of a proxy's reply."""

    def error(self, request: Request) -> TransportError:
        """Return the error for this request."""
        return self.cls(f"{label(request)}: {self.text}", retryable=self.retryable, **self.facts)

    def download_error(self) -> DownloadError:
        """Return the error for a file, whose requests only its download knows."""
        return DownloadError(self.text, retryable=self.retryable, **self.facts)


class LostError(Exception):
    """A connection that broke; unlike aiohttp's own errors, it makes aiohttp send nothing again."""

    def __init__(self, fault: ConnectionFault) -> None:
        super().__init__()
        self.fault = fault


FAILURES: Final[tuple[type[Exception], ...]] = (
    aiohttp.ClientError,
    aiohttp.http_exceptions.HttpProcessingError,
    OSError,
    LostError,
    UnaskedBytesError,
)
"""What is raised where no reply comes; anything else is a bug."""

_UNTRUSTED: Final = ConnectionFault("TLS certificate not accepted", retryable=False)
_UNREACHABLE: Final = ConnectionFault("host not reachable")
_SILENT: Final = ConnectionFault("nothing came for too long", DeadlineExceededError)
_RESET: Final = ConnectionFault("connection reset")
_CUT_SHORT: Final = ConnectionFault("body cut short or unreadable")
_REFUSED_BY_PROXY: Final = ConnectionFault("proxy refused the connection")
_NOT_HTTP: Final = ConnectionFault("what came is not HTTP")
_ENCODED: Final = ConnectionFault("the reply has a Content-Encoding that was not asked for")
_UNDECODABLE: Final = ConnectionFault("the body could not be decompressed")
_HANDSHAKE: Final = ConnectionFault("TLS handshake failed")
_REFUSED_HANDSHAKE: Final = ConnectionFault(
    "TLS handshake refused by the other side, which may require a client certificate"
)
_NO_CLIENT_CERTIFICATE: Final = ConnectionFault(
    "the other side requires a client certificate", retryable=False
)
_CLIENT_CERTIFICATE: Final = ConnectionFault(
    "the other side did not accept the client certificate", retryable=False
)

_BY_CLASS: Final[Mapping[type[BaseException], ConnectionFault]] = {
    aiohttp.ClientConnectorCertificateError: _UNTRUSTED,
    aiohttp.ServerFingerprintMismatch: _UNTRUSTED,
    aiohttp.ClientSSLError: _HANDSHAKE,
    aiohttp.ClientConnectorDNSError: ConnectionFault("host name not found"),
    aiohttp.ClientProxyConnectionError: ConnectionFault("proxy not reachable"),
    aiohttp.ClientHttpProxyError: _REFUSED_BY_PROXY,
    aiohttp.ConnectionTimeoutError: ConnectionFault("no connection in time", DeadlineExceededError),
    TimeoutError: _SILENT,
    aiohttp.ServerDisconnectedError: ConnectionFault("connection closed without a reply"),
    aiohttp.ClientPayloadError: _CUT_SHORT,
    aiohttp.ClientResponseError: _NOT_HTTP,
    aiohttp.http_exceptions.HttpProcessingError: _NOT_HTTP,
    ConnectionResetError: _RESET,
    UnaskedBytesError: ConnectionFault("bytes came before anything was asked"),
}
"""By class; the narrowest one of an error decides."""

_TLS_REASON: Final = re.compile(r"\[SSL: (?P<reason>[A-Z0-9_]+)\]")
_BY_TLS_REASON: Final[Mapping[str, ConnectionFault]] = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _NO_CLIENT_CERTIFICATE,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": _REFUSED_HANDSHAKE,
    "SSLV3_ALERT_BAD_CERTIFICATE": _CLIENT_CERTIFICATE,
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": _CLIENT_CERTIFICATE,
    "SSLV3_ALERT_CERTIFICATE_REVOKED": _CLIENT_CERTIFICATE,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _CLIENT_CERTIFICATE,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _CLIENT_CERTIFICATE,
    "TLSV1_ALERT_UNKNOWN_CA": _CLIENT_CERTIFICATE,
    "TLSV1_ALERT_ACCESS_DENIED": _CLIENT_CERTIFICATE,
}
"""By the name that OpenSSL gives to an alert of the other side."""

_UNDECODED: Final = "Can not decode content-encoding"
"""What aiohttp says of a body that it cannot decompress."""

_WORTH_ANOTHER_TRY: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})

_BY_NUMBER: Final[Mapping[int | None, ConnectionFault]] = {
    errno.ECONNREFUSED: ConnectionFault("connection refused"),
    errno.ECONNRESET: _RESET,
    errno.EPIPE: _RESET,
    errno.ETIMEDOUT: _SILENT,
    errno.EHOSTUNREACH: _UNREACHABLE,
    errno.ENETUNREACH: _UNREACHABLE,
}


def fault_of(error: BaseException) -> ConnectionFault:
    """Return what is reported of an error of aiohttp or of the system."""
    if isinstance(error, LostError):
        return error.fault
    tls = _TLS_REASON.search(str(error)) if isinstance(error, OSError) else None
    if tls is not None and tls["reason"] in _BY_TLS_REASON:
        return _BY_TLS_REASON[tls["reason"]]
    for cls in type(error).__mro__:
        fault = _BY_CLASS.get(cls)
        if fault is not None:
            return _closer(fault, error)
    number = error.errno if isinstance(error, OSError) else None
    unnamed = ConnectionFault(f"connection failed with {type(error).__name__}")
    return _BY_NUMBER.get(number, unnamed)


def cleaned(bug: Exception) -> Exception:
    """Return a bug with its stack as a note, in place of frames and contexts that hold headers."""
    bug.add_note("raised in:\n" + "".join(traceback.format_tb(bug.__traceback__)))
    bug.__cause__ = bug.__context__ = None
    return bug.with_traceback(None)


def _closer(fault: ConnectionFault, error: Any) -> ConnectionFault:
    """Return what an error says beyond its class."""
    if fault is _REFUSED_BY_PROXY:
        status = error.status
        return evolve(
            fault,
            text=f"proxy refused the connection with status {status}",
            retryable=status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _WORTH_ANOTHER_TRY,
            facts=facts_of(Response(status=status, headers=error.headers or {}, body=b"")),
        )
    if _UNDECODED in str(error):
        return _UNDECODABLE if fault is _CUT_SHORT else _ENCODED
    return fault


_REPEATED: Final = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)
"""After these aiohttp sends a GET again by itself."""


async def send_once(
    request: aiohttp.ClientRequest,
    handler: aiohttp.ClientHandlerType,
) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a GET, which is up to the retry policy."""
    while True:
        try:
            return await handler(request)
        except UsedConnectionError:
            continue
        except _REPEATED as error:
            fault = fault_of(error)
        raise LostError(fault)


class _SocketLimits:
    """Limits connecting and silence, for requests with the same timeouts.

    All that wait for a service share one timer, while aiohttp's own limit of silence starts and
    stops one twice for each reply.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self.connecting: Final = aiohttp.ClientTimeout(
            total=None, connect=timeouts.connect, sock_connect=timeouts.connect
        )
        self.middlewares: Final = (self._send,)
        self._silences = Deadlines(timeouts.read)

    async def _send(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        with self._silences.begin(is_running=False) as silence:
            if isinstance(request, WatchedRequest):
                request.silence = silence
            return await send_once(request, handler)
        raise aiohttp.SocketTimeoutError

    async def body(self, reply: aiohttp.ClientResponse, limit: int) -> bytes | None:
        """Read a body, or return None as soon as it is longer than the limit."""
        content = reply.content
        if content.is_eof():
            # All of it is here.
            whole = content.read_nowait()
            return whole if len(whole) <= limit else None
        if (reply.content_length or 0) > limit:
            return None
        with self._silences.begin() as silence:
            size = 0
            pieces = []
            while not content.at_eof():
                piece = await content.readany()
                silence.renew()
                size += len(piece)
                if size > limit:
                    return None
                pieces.append(piece)
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        raise aiohttp.SocketTimeoutError


class Transport:
    """Sends one request and reads its reply to the end.

    The aiohttp session is made in the event loop of the first request. Of a borrowed session only
    the connections and the trace hooks are used; its cookies, headers, credentials and middlewares
    stay out of our requests.

    Args:
        addresses: where the requests go.
        session: a caller's session, never closed here.
        max_response_bytes: longest body of a successful reply, decompressed.
        user_agent: in place of the package's own.
        proxy: address of an HTTP proxy, as `proxy_address` checked it.
        tls: in place of aiohttp's default context.
        trace_configs: aiohttp's trace hooks.
        keep_error_bodies: whether errors keep the first bytes of the body.

    Attributes:
        is_closed: whether it was closed, or is being closed.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    def __init__(
        self,
        addresses: Addresses,
        *,
        session: BorrowedSession | None = None,
        max_response_bytes: int = 64 * 2**20,
        user_agent: str | None = None,
        proxy: Secret | None = None,
        tls: ssl.SSLContext | None = None,
        trace_configs: Sequence[TraceConfig] = (),
        keep_error_bodies: bool = False,
    ) -> None:
        if not isinstance(keep_error_bodies, bool):
            raise ConfigurationError("keep_error_bodies must be True or False")
        if session is not None and not isinstance(session, aiohttp.ClientSession):
            raise ConfigurationError("session must be an aiohttp.ClientSession")
        if tls is not None and not isinstance(tls, ssl.SSLContext):
            raise ConfigurationError("ssl must be an SSLContext")
        self._addresses = addresses
        self._api = URL(addresses.api, encoded=True)
        self._prefix = self._api.raw_path.rstrip("/")
        self._borrowed = session
        self._max_response_bytes = check_count("max_response_bytes", max_response_bytes)
        self._headers = {"Accept": "application/json", "User-Agent": own_name(user_agent)}
        self._proxy = None if proxy is None else URL(proxy.reveal())
        self._tls: ssl.SSLContext | bool = True if tls is None else tls
        self._trace_configs = _own_traces(trace_configs)
        self._limits = lru_cache(maxsize=_KINDS_OF_TIMEOUTS)(_SocketLimits)
        self._keeps_bodies = keep_error_bodies
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._replies: set[aiohttp.ClientResponse] = set()
        self.is_closed: bool = False

    def check(self) -> None:
        """Refuse to send from the running loop once closed, or in another loop than the first.

        Raises:
            ClientClosedError: nothing can be sent.
        """
        if self.is_closed:
            raise ClientClosedError("the client was closed")
        if self._is_elsewhere():
            raise elsewhere()
        if self._borrowed is not None and self._borrowed.closed:
            raise ClientClosedError("the session that the client borrowed was closed")

    async def send(self, request: Request, authorization: Secret, timeouts: Timeouts) -> Response:
        """Send a request once and read the reply, without its body unless the status is 200.

        Args:
            request: what to send, and to which origin.
            authorization: the value of the Authorization header.
            timeouts: ``connect`` and ``read``; the deadline is the caller's.

        Raises:
            IncomeClientError: no reply came, or one that is too large.
        """
        session = self._opened()
        limits = self._limits(timeouts)
        try:
            async with session.request(
                request.method,
                self._url(request),
                headers=_headers(request, authorization),
                data=request.form,
                allow_redirects=False,
                timeout=limits.connecting,
                middlewares=limits.middlewares,
                proxy=self._proxy,
                ssl=self._tls,
            ) as reply:
                self._replies.add(reply)
                try:
                    return await self._read(request, reply, limits)
                finally:
                    self._replies.discard(reply)
        except FAILURES as error:
            fault = fault_of(error)
        except IncomeClientError:
            raise
        except Exception as bug:  # noqa: BLE001 - raised again
            # A session that is closed while it sends fails in ways of its own.
            if session.closed:
                self.check()
            raise cleaned(bug) from None
        if session.closed:
            self.check()
        raise fault.error(request)

    async def aclose(self) -> None:
        """Close what was opened here; a second time does nothing.

        Raises:
            ClientClosedError: another loop than this one has the connections.
        """
        if self._session is not None and self._is_elsewhere():
            raise elsewhere()
        self.is_closed = True
        session, self._session = self._session, None
        if session is not None:
            for reply in tuple(self._replies):
                # aiohttp forgets who waits for a body, and drops the time limit with it.
                reply.close()
            await session.close()

    def _url(self, request: Request) -> URL:
        if request.origin is Origin.TOKEN:
            return URL(self._addresses.of(request), encoded=True)
        # The same as of the whole text, which would be taken apart again.
        return URL.build(
            scheme=self._api.scheme,
            authority=self._api.raw_authority,
            path=self._prefix + request.path,
            query_string=request.query,
            encoded=True,
        )

    def _is_elsewhere(self) -> bool:
        return self._loop is not None and self._loop is not asyncio.get_running_loop()

    def _opened(self) -> aiohttp.ClientSession:
        self.check()
        if self._session is None:
            try:
                self._session = self._open()
            except RuntimeError:
                raise ClientClosedError(
                    "the borrowed session belongs to another event loop"
                ) from None
            self._loop = asyncio.get_running_loop()
        return self._session

    def _open(self) -> aiohttp.ClientSession:
        borrowed = self._borrowed
        if borrowed is None:
            # The client's own semaphore limits the connections.
            connector: aiohttp.BaseConnector | None = aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=_KEEP_ALIVE_SECONDS,
            )
        else:
            connector = borrowed.connector
        theirs = () if borrowed is None else _traces_of(borrowed)
        return aiohttp.ClientSession(
            connector=connector,
            connector_owner=borrowed is None,
            request_class=WatchedRequest,
            response_class=WatchedReply,
            loop=asyncio.get_running_loop(),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A proxy that tunnels gets them too, so none of them may be a credential.
            headers=self._headers,
            trace_configs=[*theirs, *self._trace_configs],
            trust_env=False,
        )

    async def _read(
        self, request: Request, reply: aiohttp.ClientResponse, limits: "_SocketLimits"
    ) -> Response:
        headers = reply.headers
        if reply.status != _OK:
            drained = await _drain(reply, limits, _KEPT_BYTES if self._keeps_bodies else 0)
            return Response(status=reply.status, headers=headers, body=b"", kept=drained or None)
        limit = _SMALL_BODY if request.origin is Origin.TOKEN else self._max_response_bytes
        body = await limits.body(reply, limit)
        if body is not None:
            # A test may have replaced aiohttp.
            discard = reply.discard if isinstance(reply, WatchedReply) else reply.close
            # What the token endpoint says on success is a secret.
            is_kept = self._keeps_bodies and request.origin is not Origin.TOKEN
            kept = body[:_KEPT_BYTES] if is_kept else None
            return Response(
                status=reply.status, headers=headers, body=body, kept=kept, discard=discard
            )
        reply.close()
        facts = facts_of(Response(status=reply.status, headers=headers, body=b""))
        message = f"{label(request)}: the reply is larger than {limit} bytes"
        raise UnexpectedResponseError(message, **facts)


def elsewhere() -> ClientClosedError:
    """Return the error for a use from another event loop than the first."""
    return ClientClosedError("the client belongs to the event loop in which it was first used")


def _own_traces(configs: object) -> tuple[TraceConfig, ...]:
    if isinstance(configs, Sequence) and all(isinstance(one, TraceConfig) for one in configs):
        return tuple(configs)
    raise ConfigurationError("trace_configs must be a sequence of aiohttp.TraceConfig")


def _traces_of(session: BorrowedSession) -> list[TraceConfig]:
    """Return the hooks of a session, without those that every new session gets anyway."""
    return [one for one in session.trace_configs if not hasattr(one, _PUT_THERE_FOR_ALL)]


def own_name(user_agent: object) -> str:
    """Return the value of the User-Agent header: the package's own, or one of the caller's.

    Raises:
        ConfigurationError: it cannot be sent in a header.
    """
    name = _USER_AGENT if user_agent is None else user_agent
    if not isinstance(name, str) or _HEADER_TEXT.fullmatch(name) is None:
        raise ConfigurationError("user_agent must be a short text of printable ASCII")
    return name


@lru_cache(maxsize=64)
def socket_limits(timeouts: Timeouts) -> aiohttp.ClientTimeout:
    """Return the limits of one connection; the deadline of the call limits the whole."""
    return aiohttp.ClientTimeout(
        total=None,
        connect=timeouts.connect,
        sock_connect=timeouts.connect,
        sock_read=timeouts.read,
    )


def _headers(request: Request, authorization: Secret) -> dict[str, str]:
    headers = {"Authorization": authorization.reveal()}
    if request.form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    return headers


async def _drain(reply: aiohttp.ClientResponse, limits: "_SocketLimits", keep: int) -> bytes:
    """Empty a failed reply, so that its connection can be used again; return its first bytes."""
    kept = b""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while len(kept) < keep and not reply.content.at_eof():
                kept += await reply.content.read(keep - len(kept))
            is_whole = await limits.body(reply, _SMALL_BODY) is not None
    except FAILURES:
        # The status was read, the body is not needed.
        is_whole = False
    if not is_whole:
        reply.close()
    return kept
