"""How long a service may be silent, and replies read within that; knows no status and no host.

aiohttp's own limit sets and cancels a timer of the event loop twice per reply.
Here all that wait share one, as the calls do. A reply that has come whole, as a
small one does with its header, is not watched at all.
"""

import asyncio
from typing import TYPE_CHECKING, Final, Self

import aiohttp

from income_client.settings import Timeouts

from .connection_faults import LostError, fault_of
from .connection_watch import UsedConnectionError
from .deadlines import Deadline, Deadlines

if TYPE_CHECKING:
    from aiohttp.connector import Connection


FAILURES: Final[tuple[type[Exception], ...]] = (
    aiohttp.ClientError,
    aiohttp.http_exceptions.HttpProcessingError,
    OSError,
)
"""What aiohttp raises, and no bug of ours is."""

_REPEATED: Final = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)
"""After these aiohttp sends a GET again by itself."""


async def send_once(
    request: aiohttp.ClientRequest,
    handler: aiohttp.ClientHandlerType,
) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a GET behind the back of the retry policy."""
    while True:
        try:
            return await handler(request)
        except UsedConnectionError:
            continue
        except _REPEATED as error:
            fault = fault_of(error)
        raise LostError(fault)


class Reply(aiohttp.ClientResponse):
    """A reply that knows its connection after it was given back to the pool as well."""

    transport: asyncio.Transport | None = None

    def discard(self) -> None:
        """Close the connection."""
        if self.transport is not None:
            self.transport.abort()


class Patience:
    """The limits of sockets, as aiohttp takes them, for requests of one event loop.

    Args:
        timeouts: ``connect`` and ``read``; the deadline is the caller's.

    Attributes:
        connecting: the limits of a new connection, and no other.
        middlewares: what a request is sent with.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self.connecting: Final = aiohttp.ClientTimeout(
            total=None,
            connect=timeouts.connect,
            sock_connect=timeouts.connect,
        )
        self.middlewares: Final = (self._send,)
        self._silences = silences = Deadlines(timeouts.read)

        class TimedReply(Reply):
            async def start(self, connection: "Connection") -> Self:
                self.transport = connection.transport
                with silences.begin() as silence:
                    await super().start(connection)
                _check(silence)
                return self

        self._reply_class = TimedReply

    async def _send(
        self,
        request: aiohttp.ClientRequest,
        handler: aiohttp.ClientHandlerType,
    ) -> aiohttp.ClientResponse:
        request.response_class = self._reply_class
        # As `send_once`, which would be one more coroutine for every request to go through.
        while True:
            try:
                return await handler(request)
            except UsedConnectionError:
                continue
            except _REPEATED as error:
                fault = fault_of(error)
            raise LostError(fault)

    async def body(self, reply: aiohttp.ClientResponse, limit: int) -> bytes | None:
        """Read a body, or return None as soon as it is longer than the limit.

        Raises:
            aiohttp.ClientError: it is cut short, unreadable, or silent for too long.
        """
        content = reply.content
        if content.is_eof():
            # All of it is here: nothing is waited for.
            whole = content.read_nowait()
            return whole if len(whole) <= limit else None
        if (reply.content_length or 0) > limit:
            return None
        body = None
        with self._silences.begin() as silence:
            body = await _read(content, limit, silence)
        _check(silence)
        return body


async def _read(content: aiohttp.StreamReader, limit: int, silence: Deadline) -> bytes | None:
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


def _check(silence: Deadline) -> None:
    if silence.has_passed:
        raise aiohttp.SocketTimeoutError
