"""Document files over aiohttp, on connections of their own that never see a credential.

What a status means and when to try again is decided elsewhere. Nothing of aiohttp leaves this
module: its errors show the addresses, which open the files.
"""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache, partial
from typing import Final, Self, cast

import aiohttp

from income_client.errors import ClientClosedError, DownloadError, UnsafeLinkError
from income_client.http.connections import WatchedRequest
from income_client.http.faults import FAILURES, fault_of
from income_client.http.transport import (
    Pool,
    SocketLimits,
    new_connector,
    own_name,
    proxy_url,
)
from income_client.settings import DownloadPolicy, Secret, Timeouts
from income_client.system.hosts import is_this_machine
from income_client.system.http_messages import HEAD_LIMITS

from .links import Link, check_peer

_KINDS_OF_TIMEOUTS: Final = 16
_READ_BUFFER_BYTES: Final = 256 * 1024
_ERROR_BYTES: Final = 64 * 1024
_ERROR_SECONDS: Final = 1.0
_LOOPBACK: Final = "127.0.0.1"
_SINGLE_FIELDS: Final = frozenset(
    {
        "content-encoding",
        "content-length",
        "content-range",
        "etag",
        "location",
        "transfer-encoding",
    }
)


class FilePool(Pool):
    """A pool of connections for document files.

    The aiohttp session is made in the event loop of the first request. The IP address of each
    connection is checked before its first packet: the name of an allowed host may lead anywhere.
    Behind a proxy only the proxy sees where it leads, and has to refuse its own network.
    """

    def __init__(
        self,
        policy: DownloadPolicy,
        *,
        user_agent: str | None = None,
        proxy: Secret | None = None,
    ) -> None:
        super().__init__(self._open_session)
        self._policy = policy
        self._tls = True if policy.ssl is None else policy.ssl
        self._headers = {
            "User-Agent": own_name(user_agent),
            "Accept": "*/*",
            "Accept-Encoding": "identity",
        }
        self._proxy = None if proxy is None else proxy_url(proxy)
        self._limits = lru_cache(maxsize=_KINDS_OF_TIMEOUTS)(
            partial(SocketLimits, connections=self.connections)
        )

    async def get(self, link: Link, headers: Mapping[str, str], timeouts: Timeouts) -> "FileReply":
        """Request a file once, and return the reply, which closes its connection as a context."""
        if self._proxy is not None and is_this_machine(link.host):
            check_peer(_LOOPBACK, self._policy)
        limits = self._limits(timeouts)
        try:
            reply = await self.open().get(
                link.url,
                headers=headers,
                allow_redirects=False,
                timeout=limits.connecting,
                middlewares=limits.middlewares,
                proxy=self._proxy,
                ssl=self._tls,
            )
        except _RefusedPeerError as refused:
            fault: DownloadError = UnsafeLinkError(
                f"{link.host}: {refused.message}", reason=refused.reason
            )
        except ClientClosedError:
            raise
        except Exception as error:  # noqa: BLE001 - judged there
            fault = self.fault_of(error).download_error()
        else:
            return FileReply(self, reply, limits.read)
        raise fault

    def _open_session(self) -> aiohttp.ClientSession:
        # The proxy is the caller's own choice, wherever it is.
        factory = partial(_checked_socket, self._policy) if self._proxy is None else None
        session = aiohttp.ClientSession(
            connector=new_connector(factory),
            request_class=WatchedRequest,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            read_bufsize=_READ_BUFFER_BYTES,
            **HEAD_LIMITS,
        )
        # Instrumentation adds trace configs to every session: an address is a secret here.
        session.trace_configs.clear()
        return session


class FileReply:
    """The reply to a request for a file, its body still to be read; names of fields in lower case.

    Leaving it as a context gives up its connection, unless the body was read to its end.
    """

    def __init__(self, pool: Pool, reply: aiohttp.ClientResponse, seconds: float) -> None:
        self._pool = pool
        self._reply = reply
        self._seconds = seconds
        self.status: int = reply.status
        self.headers: Mapping[str, str] = _headers_of(reply)
        pool.replies.add(reply)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.replies.discard(self._reply)
        if self._reply.content.at_eof():
            self._reply.release()
        else:
            self._reply.close()

    async def read(self) -> bytes:
        """Return the next bytes as they were received, none at the end of the body.

        What came before a cut is returned before the error is raised.
        """
        content = self._reply.content
        try:
            piece = content.read_nowait()
            if not piece and not content.at_eof():
                async with asyncio.timeout(self._seconds):
                    # Nothing comes before the end too, for example for a chunk's extension.
                    while not piece and not content.at_eof():
                        piece = await content.readany()
        except FAILURES as error:
            fault = fault_of(error)
            piece = _take_unread(content)
        else:
            return piece
        if not piece:
            self._pool.check()
            raise fault.download_error()
        return piece

    async def error_text(self, limit: int = _ERROR_BYTES, seconds: float = _ERROR_SECONDS) -> str:
        """Return the beginning of an error's body as text, as far as it arrives in time."""
        start = bytearray()
        with suppress(TimeoutError, ClientClosedError, DownloadError):
            async with asyncio.timeout(seconds):
                while len(start) < limit and (piece := await self.read()):
                    start += piece
        return start[:limit].decode(errors="replace")


class _RefusedPeerError(RuntimeError):
    """An address of a host that files may not come from.

    Of all classes this one passes through aiohttp's race for the first connection, if every
    address of the host was refused and each error has the same text.
    """

    def __init__(self, refused: UnsafeLinkError) -> None:
        super().__init__()
        self.message = refused.message
        self.reason = refused.reason


def _checked_socket(policy: DownloadPolicy, info: aiohttp.AddrInfoType) -> socket.socket:
    """Create the socket for a connection, unless files may not come from its address."""
    family, kind, protocol, _, address = info
    try:
        check_peer(str(address[0]), policy)
    except UnsafeLinkError as refused:
        raise _RefusedPeerError(refused) from None
    return socket.socket(family, kind, protocol)


def _headers_of(reply: aiohttp.ClientResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for spelling, value in reply.headers.items():
        name = spelling.lower()
        if name in headers and name in _SINGLE_FIELDS:
            reply.close()
            raise DownloadError(f"the header field {name} came twice", retryable=True)
        headers[name] = value
    return headers


def _take_unread(content: aiohttp.StreamReader) -> bytes:
    """Return the unread bytes of a broken connection."""
    error = content.exception()
    if error is None:
        return b""
    # A stream that has an exception returns nothing else, although the bytes are the file's.
    content.set_exception(cast("BaseException", None))
    try:
        return content.read_nowait()
    finally:
        content.set_exception(error)
