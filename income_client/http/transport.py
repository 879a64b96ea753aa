"""Our `Request` over aiohttp, and our `Response` back: the only module that imports its client.

Knows connections, time limits of sockets and size limits of bodies. Refuses to
know what a status means, when to try again and which host may be trusted.
Nothing of aiohttp leaves it, errors least of all, since their texts show
addresses and headers: each becomes a value of ours that tells its kind only.
"""

import asyncio
import ssl
from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Final, TypeAlias

import aiohttp
from yarl import URL

from income_client.errors import (
    ClientClosedError,
    ConfigurationError,
    IncomeClientError,
    UnexpectedResponseError,
)
from income_client.settings import Secret, Timeouts, check_count

from .addresses import Addresses
from .connection_faults import LostError, cleaned, fault_of
from .connection_watch import WatchedRequest
from .messages import Origin, Request, Response
from .own_name import own_name
from .replies import facts_of, label
from .silence import FAILURES, Patience, Reply

BorrowedSession: TypeAlias = aiohttp.ClientSession
"""A session that belongs to the caller."""
TraceConfig: TypeAlias = aiohttp.TraceConfig
"""aiohttp's own hooks; what they are shown includes the Authorization header."""

_OK: Final = HTTPStatus.OK.value
_KEEP_ALIVE_SECONDS: Final = 15.0
_SMALL_BODY: Final = 64 * 1024
_DRAIN_SECONDS: Final = 1.0
_KINDS_OF_PATIENCE: Final = 16
_PUT_THERE_FOR_ALL: Final = "_is_instrumented_by_opentelemetry"
"""What marks the hooks of a process whose sessions are all instrumented as they are made."""


class Transport:
    """Sends one request and reads its reply to the end.

    The aiohttp session is made in the event loop of the first request. Of a
    borrowed one the connections and the trace hooks are used; its cookies,
    headers, credentials and middlewares stay out of our requests.

    Args:
        addresses: where the requests go.
        session: a caller's session, never closed here.
        max_response_bytes: longest body of a successful reply, decompressed.
        user_agent: in place of the package's own.
        proxy: address of an HTTP proxy, as `proxy_address` checked it.
        tls: in place of aiohttp's default context.
        trace_configs: aiohttp's trace hooks.

    Attributes:
        is_closed: whether it was closed, or is being closed.

    Raises:
        ConfigurationError: an argument cannot be meant.
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
    ) -> None:
        if session is not None and not isinstance(session, aiohttp.ClientSession):
            raise ConfigurationError("session is no aiohttp.ClientSession")
        if tls is not None and not isinstance(tls, ssl.SSLContext):
            raise ConfigurationError("ssl is no SSLContext")
        self._addresses = addresses
        self._api = URL(addresses.api, encoded=True)
        self._prefix = self._api.raw_path.rstrip("/")
        self._borrowed = session
        self._max_response_bytes = check_count("max_response_bytes", max_response_bytes)
        self._headers = {"Accept": "application/json", "User-Agent": own_name(user_agent)}
        self._proxy = None if proxy is None else URL(proxy.reveal())
        self._tls: ssl.SSLContext | bool = True if tls is None else tls
        self._trace_configs = _own_traces(trace_configs)
        self._patience = lru_cache(maxsize=_KINDS_OF_PATIENCE)(Patience)
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._replies: set[aiohttp.ClientResponse] = set()
        self.is_closed: bool = False

    def refusal(self) -> ClientClosedError | None:
        """Return what stands against sending from the running loop, None if nothing does."""
        if self.is_closed:
            return ClientClosedError("the client was closed")
        if self._is_elsewhere():
            return elsewhere()
        if self._borrowed is not None and self._borrowed.closed:
            return ClientClosedError("the session that the client borrowed was closed")
        return None

    async def send(
        self,
        request: Request,
        authorization: Secret,
        timeouts: Timeouts,
    ) -> Response | IncomeClientError:
        """Send a request once and read the reply.

        Args:
            request: what to send, and to which origin.
            authorization: the value of the Authorization header.
            timeouts: ``connect`` and ``read``; the deadline is the caller's.

        Returns:
            The reply, without its body unless the status is 200, or the error
            that stands for having none. Raises only cancellation, and bugs.
        """
        session = self._opened()
        if isinstance(session, ClientClosedError):
            return session
        patience = self._patience(timeouts)
        try:
            async with session.request(
                request.method,
                self._url(request),
                headers=_headers(request, authorization),
                data=request.form,
                allow_redirects=False,
                timeout=patience.connecting,
                middlewares=patience.middlewares,
                proxy=self._proxy,
                ssl=self._tls,
            ) as reply:
                self._replies.add(reply)
                try:
                    return await self._read(request, reply, patience)
                finally:
                    self._replies.discard(reply)
        except LostError as lost:
            fault = lost.fault
        except FAILURES as error:
            fault = fault_of(error)
        except Exception as bug:  # noqa: BLE001 - raised again
            # A session that is closed while it sends fails in ways of its own.
            if session.closed and (refused := self.refusal()) is not None:
                return refused
            raise cleaned(bug) from None
        refused = self.refusal() if session.closed else None
        return refused or fault.error(request)

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

    def _opened(self) -> aiohttp.ClientSession | ClientClosedError:
        refused = self.refusal()
        if refused is not None:
            return refused
        if self._session is None:
            try:
                self._session = self._open()
            except RuntimeError:
                return ClientClosedError("the borrowed session belongs to another event loop")
            self._loop = asyncio.get_running_loop()
        return self._session

    def _open(self) -> aiohttp.ClientSession:
        borrowed = self._borrowed
        if borrowed is None:
            # The client's own semaphore stands before the connector.
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
            loop=asyncio.get_running_loop(),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A proxy that tunnels is told them too, so none of them is ever a credential.
            headers=self._headers,
            trace_configs=[*theirs, *self._trace_configs],
            trust_env=False,
        )

    async def _read(
        self,
        request: Request,
        reply: aiohttp.ClientResponse,
        patience: Patience,
    ) -> Response | IncomeClientError:
        headers = reply.headers
        if reply.status != _OK:
            await _drain(reply, patience)
            return Response(status=reply.status, headers=headers, body=b"")
        limit = _SMALL_BODY if request.origin is Origin.TOKEN else self._max_response_bytes
        body = await patience.body(reply, limit)
        if body is not None:
            # Not so where a test has taken aiohttp's place.
            discard = reply.discard if isinstance(reply, Reply) else reply.close
            return Response(status=reply.status, headers=headers, body=body, discard=discard)
        reply.close()
        facts = facts_of(Response(status=reply.status, headers=headers, body=b""))
        return UnexpectedResponseError(
            f"{label(request)}: the reply is larger than {limit} bytes",
            **facts,
        )


def elsewhere() -> ClientClosedError:
    """Return the error for a use from another event loop than the first."""
    return ClientClosedError("the client belongs to the event loop in which it was first used")


def _own_traces(configs: object) -> tuple[TraceConfig, ...]:
    if isinstance(configs, Sequence) and all(isinstance(one, TraceConfig) for one in configs):
        return tuple(configs)
    raise ConfigurationError("trace_configs is no sequence of aiohttp.TraceConfig")


def _traces_of(session: BorrowedSession) -> list[TraceConfig]:
    """Return the hooks of a session, without those that every new session gets anyway."""
    return [one for one in session.trace_configs if not hasattr(one, _PUT_THERE_FOR_ALL)]


@lru_cache(maxsize=64)
def socket_limits(timeouts: Timeouts) -> aiohttp.ClientTimeout:
    """Return the limits of sockets; the whole has a limit elsewhere."""
    # The deadline of the call is the one timer for the whole.
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


async def _drain(reply: aiohttp.ClientResponse, patience: Patience) -> None:
    """Empty a reply whose status says it all, so that its connection can be used again."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            is_whole = await patience.body(reply, _SMALL_BODY) is not None
    except FAILURES:
        # The status was read, the body is not wanted.
        is_whole = False
    if not is_whole:
        reply.close()
