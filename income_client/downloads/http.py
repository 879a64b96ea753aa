"""Document files over aiohttp, on connections of their own that never see a credential.

Knows connections and the IP addresses they lead to. Refuses to know what a
status means, when to try again and where a file is kept. As in `transport`,
nothing of aiohttp leaves it, and failures are values: its errors and frames
show the addresses, which open the files.
"""

import asyncio
import socket
from collections.abc import Mapping
from functools import partial
from typing import Final

import aiohttp
from yarl import URL

from income_client.errors import ClientClosedError, UnsafeLinkError
from income_client.hosts import is_this_machine
from income_client.http.connection_watch import WatchedRequest
from income_client.http.transport import (
    FAILURES,
    LostError,
    cleaned,
    elsewhere,
    fault_of,
    own_name,
    send_once,
    socket_limits,
)
from income_client.settings import DownloadPolicy, Secret, Timeouts

from .file_reply import FileReply, FileRequest, OpenReplies, Outcome, received
from .links import Link
from .peers import peer_refusal

__all__ = ["FilePool", "FileReply", "FileRequest"]

_KEEP_ALIVE_SECONDS: Final = 15.0
_READ_BUFFER_BYTES: Final = 256 * 1024
_LOOPBACK: Final = "127.0.0.1"


class FilePool:
    """A pool of connections for document files.

    The aiohttp session is made in the event loop of the first request. Each
    connection is checked before its first packet: the name of an allowed host
    may lead anywhere. Behind a proxy only the proxy sees where it leads, and has
    to refuse what is within its own network.

    Args:
        policy: where files may come from, and the TLS context.
        user_agent: in place of the package's own.
        proxy: address of an HTTP proxy, as `proxy_address` checked it.

    Attributes:
        is_closed: whether it was closed, or is being closed.

    Raises:
        ConfigurationError: an argument cannot be meant.
    """

    def __init__(
        self,
        policy: DownloadPolicy,
        *,
        user_agent: str | None = None,
        proxy: Secret | None = None,
    ) -> None:
        self._policy = policy
        self._headers = {
            "User-Agent": own_name(user_agent),
            "Accept": "*/*",
            "Accept-Encoding": "identity",
        }
        self._proxy = proxy
        self._replies = OpenReplies(self.refusal)
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_closed: bool = False

    def refusal(self) -> ClientClosedError | None:
        """Return what stands against a request from the running loop, None if nothing does."""
        if self.is_closed:
            return ClientClosedError("the client was closed")
        return elsewhere() if self._is_elsewhere() else None

    def get(self, link: Link, headers: Mapping[str, str], timeouts: Timeouts) -> FileRequest:
        """Ask for a file once, as a context manager.

        Its block is given the reply, or the error that stands for having none;
        entering raises only cancellation, and bugs. When the block ends before the
        body does, the connection is closed.

        Args:
            link: the address, checked.
            headers: further header fields, such as Range.
            timeouts: ``connect`` and ``read``, within which together the reply begins.
        """
        return FileRequest(partial(self._send, link, dict(headers), timeouts))

    async def aclose(self) -> None:
        """Close the connections; a second time does nothing.

        Raises:
            ClientClosedError: another loop than this one has them.
        """
        if self._session is not None and self._is_elsewhere():
            raise elsewhere()
        self.is_closed = True
        self._replies.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _send(self, link: Link, headers: dict[str, str], timeouts: Timeouts) -> Outcome:
        refused = self.refusal() or self._proxied_refusal(link)
        if refused is not None:
            return refused
        session = self._opened()
        try:
            async with asyncio.timeout(timeouts.connect + timeouts.read):
                reply = await session.get(
                    URL(link.address, encoded=True),
                    headers=self._headers | headers,
                    allow_redirects=False,
                    timeout=socket_limits(timeouts),
                    proxy=None if self._proxy is None else URL(self._proxy.reveal()),
                    ssl=True if self._policy.ssl is None else self._policy.ssl,
                )
        except _RefusedPeerError as refusal:
            return UnsafeLinkError(f"{link.host}: {refusal.message}", reason=refusal.reason)
        except LostError as lost:
            fault = lost.fault
        except FAILURES as error:
            fault = fault_of(error)
        except Exception as bug:  # noqa: BLE001 - raised again
            if session.closed and (refused := self.refusal()) is not None:
                return refused
            raise cleaned(bug) from None
        else:
            return received(reply, self._replies, seconds=timeouts.read)
        refused = self.refusal() if session.closed else None
        return refused or fault.download_error()

    def _proxied_refusal(self, link: Link) -> UnsafeLinkError | None:
        if self._proxy is None or not is_this_machine(link.host):
            return None
        return peer_refusal(_LOOPBACK, self._policy)

    def _is_elsewhere(self) -> bool:
        return self._loop is not None and self._loop is not asyncio.get_running_loop()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            # The proxy is the caller's own choice, wherever it is.
            factory = partial(_checked_socket, self._policy) if self._proxy is None else None
            self._loop = asyncio.get_running_loop()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    keepalive_timeout=_KEEP_ALIVE_SECONDS,
                    socket_factory=factory,
                ),
                request_class=WatchedRequest,
                cookie_jar=aiohttp.DummyCookieJar(),
                middlewares=(send_once,),
                trust_env=False,
                auto_decompress=False,
                read_bufsize=_READ_BUFFER_BYTES,
            )
            # An instrumented process puts some into every session: an address is a secret here.
            self._session.trace_configs.clear()
        return self._session


class _RefusedPeerError(RuntimeError):
    """An address of a host that files may not come from.

    Of all classes this one passes through the race for the first connection, if
    every address of the host was refused and each error has the same text.
    """

    def __init__(self, refused: UnsafeLinkError) -> None:
        super().__init__()
        self.message = refused.message
        self.reason = refused.reason


def _checked_socket(policy: DownloadPolicy, info: aiohttp.AddrInfoType) -> socket.socket:
    """Make the socket for a connection, unless it would lead where nothing may go."""
    family, kind, protocol, _, address = info
    refused = peer_refusal(str(address[0]), policy)
    if refused is not None:
        raise _RefusedPeerError(refused)
    return socket.socket(family, kind, protocol)
