"""Connections of a pool: decide which are used again, and when idle ones are closed.

No private name of aiohttp is used. The undocumented ones that a reply's connection has to be
watched with (`ClientRequest.send`, `protocol`, `transport` and `closed` of its `Connection`, and
`should_close` and `exception` of the protocol) are used in `WatchedRequest` and `_Watch` only.
"""

import asyncio
import select
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, WeakSet

import aiohttp
from yarl import URL

from .deadlines import Deadline, Deadlines
from .faults import UNASKED, LostError, UsedConnectionError

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection

_TURNS: Final = 5
"""Turns of the event loop after which it has read all bytes that had arrived before."""


class _Watch(asyncio.Protocol):
    """A protocol in front of aiohttp's that records whether bytes come without a request."""

    def __init__(
        self, protocol: "ResponseHandler", transport: asyncio.Transport, origin: URL
    ) -> None:
        self._protocol = protocol
        self.transport: asyncio.Transport = transport
        self.origin: URL = origin
        self.has_unread: Callable[[], object] = _unread_check(transport)
        self.came_unasked: bool = False
        self.is_given_up: bool = False
        """Whether another connection has failed since this one last received bytes."""
        self.user: Connection | None = None
        """aiohttp's object for the last use of the connection."""
        self._expecting: Connection | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the connection was given back to the pool, or closed."""
        return self.user is None or self.user.protocol is None

    def data_received(self, data: bytes) -> None:
        self.is_given_up = False
        if self._expecting is None or self._expecting.protocol is None:
            self.came_unasked = True
        # Passed on in any case, since the owner of a borrowed session may have asked for it.
        self._protocol.data_received(data)

    def expect(self, conn: "Connection") -> bool:
        """Take bytes for a reply until ``conn`` is released; return False if some came before."""
        self._expecting = conn
        return not self.came_unasked

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


class Connections:
    """Connections that requests of the package have used: of an own pool, or of a caller's."""

    def __init__(self, *, is_own: bool = True) -> None:
        self._is_own = is_own
        self._watches: WeakSet[_Watch] = WeakSet()

    @classmethod
    def borrowed(cls, connector: aiohttp.BaseConnector) -> "Connections":
        """Return the connections of a caller's pool, which several clients may share."""
        return _BORROWED.setdefault(connector, cls(is_own=False))

    def add(self, watch: _Watch) -> None:
        """Note a connection when it is used for the first time."""
        self._watches.add(watch)

    def give_up_idle(self, url: URL) -> None:
        """Close the idle connections to a URL's origin, since a reused connection to it has failed.

        After a suspend, behind a gateway that has forgotten them, or if a server has died, all
        idle connections are dead. A caller's connection is closed when a request of the package
        gets it: until then, the caller may be using a connection that seems idle here.
        """
        origin = url.origin()
        for watch in tuple(self._watches):
            if watch.is_idle and watch.origin == origin:
                watch.is_given_up = True
                if self._is_own:
                    watch.transport.abort()


_BORROWED: Final[WeakKeyDictionary[aiohttp.BaseConnector, Connections]] = WeakKeyDictionary()
"""Connections of callers' pools."""


class WatchedReply(aiohttp.ClientResponse):
    """A reply that still knows its transport after the connection has returned to the pool."""

    transport: asyncio.Transport | None = None
    is_on_used_connection: bool = False

    def __repr__(self) -> str:
        return f"<WatchedReply {self.status}>"


class WatchedRequest(aiohttp.ClientRequest):
    """A request that is not written to a connection on which bytes came unasked.

    Left alone, aiohttp takes what arrived on an idle connection as the reply to the next request
    (RFC 9112, section 9.2). A reply that arrives unasked after the request was written cannot be
    recognised here.
    """

    silence: tuple[Deadlines, Deadline] | None = None
    """Limit of the wait for the reply, which begins when the request is written."""
    connections: Connections | None = None
    """Connections of the pool that sends the request."""
    is_on_used_connection: bool = False
    """Whether the request was written to a connection that had served before."""

    async def send(self, conn: "Connection") -> aiohttp.ClientResponse:
        """Write the request to a connection, which aiohttp closes if this raises."""
        transport, protocol = conn.transport, conn.protocol
        if transport is None or protocol is None:
            raise aiohttp.ServerDisconnectedError
        watch = transport.get_protocol()
        is_new = not isinstance(watch, _Watch)
        if not isinstance(watch, _Watch):
            watch = _Watch(protocol, transport, self.url.origin())
            transport.set_protocol(watch)
            if self.connections is not None:
                self.connections.add(watch)
        watch.user = conn
        is_lost = conn.closed or (bool(watch.has_unread()) and await _is_lost(watch, conn))
        if is_lost or watch.is_given_up or watch.came_unasked or protocol.should_close:
            if not is_new:
                # Inside TLS, closing in order would wait for an answer.
                transport.abort()
                raise UsedConnectionError
            if is_lost:
                raise protocol.exception() or aiohttp.ServerDisconnectedError
            raise LostError(UNASKED)
        self.is_on_used_connection = not is_new
        if self.silence is not None:
            deadlines, deadline = self.silence
            deadlines.start(deadline)
        reply = await super().send(conn)
        if isinstance(reply, WatchedReply):
            reply.transport = transport
            reply.is_on_used_connection = not is_new
        if not watch.expect(conn):
            # Bytes came while a trace hook delayed the request.
            reply.close()
            raise LostError(UNASKED)
        return reply


async def _is_lost(watch: _Watch, conn: "Connection") -> bool:
    """Let the event loop read what has arrived; return whether the connection has ended.

    What has arrived may be its end, an unasked reply, or a message of TLS itself.
    """
    for _ in range(_TURNS):
        await asyncio.sleep(0)
        if conn.transport is None:
            return True
        if not conn.closed and not watch.has_unread():
            return False
    watch.came_unasked = True
    return conn.closed


def _unread_check(transport: asyncio.Transport) -> Callable[[], object]:
    """Return a function that says whether bytes have arrived that the loop has not read yet."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is None:
        return bool
    if not hasattr(select, "poll"):
        return lambda: select.select([sock], [], [], 0)[0]
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return partial(poller.poll, 0)
