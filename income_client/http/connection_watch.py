"""Take as replies only bytes that come after the request (RFC 9112, section 9.2).

Left alone, aiohttp takes what arrived on an idle connection of its pool as the reply to the
next request. A `WatchedRequest`, given to `aiohttp.ClientSession(request_class=...)`, checks a
connection just before it is written to. It uses no private name of aiohttp. The undocumented
ones it depends on (`ClientRequest.send`, `Connection.protocol`, `Connection.add_callback`,
and `should_close` and `exception` of its protocol) are used in this module only.

A reply that arrives unasked after the request was written cannot be recognised here.
"""

import asyncio
import select
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import aiohttp

from .deadlines import Deadline

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection

_TURNS: Final = 5
"""Turns of the event loop within which it reads what had arrived."""


class UsedConnectionError(Exception):
    """A pooled connection cannot be used again; nothing was sent over it."""


class UnaskedBytesError(Exception):
    """Bytes came over a new connection before the request did."""


class WatchedReply(aiohttp.ClientResponse):
    """A reply that still knows its connection after that was given back to the pool."""

    transport: asyncio.Transport | None = None

    def discard(self) -> None:
        """Close the connection."""
        if self.transport is not None:
            self.transport.abort()


class WatchedRequest(aiohttp.ClientRequest):
    """A request that is not written to a connection on which bytes came unasked."""

    silence: Deadline | None = None
    """Limits the wait for the reply, from the moment when the request is written."""

    async def send(self, conn: "Connection") -> aiohttp.ClientResponse:
        """Write the request to a connection, which aiohttp closes if this raises.

        Raises:
            UsedConnectionError: it was used before, and another one should be taken.
            UnaskedBytesError: it is new, and bytes came over it before the request.
            aiohttp.ClientError: it is new, and was closed by the other side.
        """
        transport, protocol = conn.transport, conn.protocol
        if transport is None or protocol is None:
            raise aiohttp.ServerDisconnectedError
        watch = transport.get_protocol()
        is_new = not isinstance(watch, _Watch)
        if not isinstance(watch, _Watch):
            watch = _Watch(protocol, transport)
            transport.set_protocol(watch)
        is_lost = bool(watch.has_unread()) and await _is_lost(watch, conn)
        if is_lost or watch.came_unasked or protocol.should_close:
            if not is_new:
                raise UsedConnectionError
            if is_lost:
                raise protocol.exception() or aiohttp.ServerDisconnectedError
            raise UnaskedBytesError
        conn.add_callback(watch.rest)
        if self.silence is not None:
            self.silence.renew()
        reply = await super().send(conn)
        if isinstance(reply, WatchedReply):
            reply.transport = transport
        if not watch.expect():
            # It came while a trace hook held the request up.
            reply.close()
            raise UnaskedBytesError
        return reply


class _Watch(asyncio.Protocol):
    """Passes what a transport receives to aiohttp's protocol, and notes bytes that come unasked."""

    def __init__(self, protocol: "ResponseHandler", transport: asyncio.Transport) -> None:
        self._protocol = protocol
        self.has_unread = _unread(transport)
        self.came_unasked = False
        self._is_asked = False

    def data_received(self, data: bytes) -> None:
        if not self._is_asked:
            self.came_unasked = True
        # Also then: the owner of a borrowed session may have asked for it.
        self._protocol.data_received(data)

    def expect(self) -> bool:
        """Expect a reply from now on; False if bytes came before."""
        self._is_asked = not self.came_unasked
        return self._is_asked

    def rest(self) -> None:
        """Expect no more bytes: the reply has ended."""
        self._is_asked = False

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


async def _is_lost(watch: _Watch, conn: "Connection") -> bool:
    """Let the event loop read what has arrived: the end, a reply, or a message of TLS itself."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)
        if conn.transport is None:
            return True
        if not conn.closed and not watch.has_unread():
            return False
    watch.came_unasked = True
    return conn.closed


def _unread(transport: asyncio.Transport) -> Callable[[], object]:
    """Return a function that tells whether bytes have arrived that the loop has not read yet."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is None:
        return bool
    if not hasattr(select, "poll"):
        return lambda: select.select([sock], [], [], 0)[0]
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return partial(poller.poll, 0)
