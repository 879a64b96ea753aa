"""A proxy on loopback that spoils replies on their way, and counts what went through."""

import asyncio
import contextlib
import enum
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from typing import assert_never
from urllib.parse import urlsplit

from attrs import field, frozen

from tests.support.stopping import stop

_PIECE_BYTES = 16 * 1024
_END = b"\r\n\r\n"


class Ending(enum.Enum):
    """How a reply ends."""

    WHOLE = "whole"
    CUT = "cut"
    RESET = "reset"


@frozen(kw_only=True)
class Damage:
    """What happens to one reply."""

    ending: Ending = Ending.WHOLE
    """How it ends."""
    after: int = 0
    """Body bytes that are let through before it ends so."""


NO_DAMAGE = Damage()


@frozen(kw_only=True)
class RequestHead:
    """The head of a request as it arrived."""

    method: str
    target: str = field(repr=False)
    """Raw path and query."""
    headers: Mapping[str, str] = field(repr=False)
    """Fields; names in lower case."""

    @property
    def path(self) -> str:
        """The raw path."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """The raw query."""
        return self.target.partition("?")[2]

    def written(self) -> bytes:
        """Return the head as bytes, for a connection that carries nothing else."""
        fields = {**self.headers, "connection": "close"}
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {text}" for name, text in fields.items()]
        return "\r\n".join(lines).encode("latin-1") + _END


Weather = Callable[[RequestHead], Damage]
Gate = Callable[[RequestHead], RequestHead | bytes]


def fine(_head: RequestHead) -> Damage:
    """Spoil nothing."""
    return NO_DAMAGE


def let_through(head: RequestHead) -> RequestHead:
    """Refuse nothing, change nothing."""
    return head


class CuttingProxy:
    """Hands requests on to one server, and its replies back as the weather lets it.

    Attributes:
        port: where it listens.
        weather: decides what becomes of the reply to a request.
        gate: sees every request first; may change its head, or answer it itself.
        requests: the heads that arrived.
        body_bytes: how many bytes of bodies were handed to clients.
    """

    def __init__(self, upstream: str, port: int) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname or "127.0.0.1", parts.port or 80)
        self.port = port
        self.weather: Weather = fine
        self.gate: Gate = let_through
        self.requests: list[RequestHead] = []
        self.body_bytes = 0

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until a reply ends early."""
        while True:
            head = _request_head(await reader.readuntil(_END))
            self.requests.append(head)
            passed = self.gate(head)
            if isinstance(passed, bytes):
                reply_head, _, body = passed.partition(_END)
                source = asyncio.StreamReader()
                source.feed_data(body)
                source.feed_eof()
                length: int | None = len(body)
                await self._hand_back(reply_head, source, length, self.weather(head), writer)
            else:
                await self._hand_on(passed, self.weather(head), writer)
            if writer.is_closing():
                return

    async def _hand_on(
        self, head: RequestHead, damage: Damage, writer: asyncio.StreamWriter
    ) -> None:
        source, sink = await asyncio.open_connection(*self._upstream)
        try:
            sink.write(head.written())
            reply_head = (await source.readuntil(_END)).removesuffix(_END)
            length = None if head.method == "HEAD" else _length(reply_head)
            await self._hand_back(reply_head, source, length, damage, writer)
        finally:
            sink.close()

    async def _hand_back(
        self,
        reply_head: bytes,
        source: asyncio.StreamReader,
        length: int | None,
        damage: Damage,
        writer: asyncio.StreamWriter,
    ) -> None:
        is_cut = damage.ending is not Ending.WHOLE
        writer.write(_for_client(reply_head, keep=length is not None and not is_cut) + _END)
        left = damage.after if is_cut else length
        while left is None or left > 0:
            size = _PIECE_BYTES if left is None else min(_PIECE_BYTES, left)
            piece = await source.read(size)
            if not piece:
                break
            writer.write(piece)
            await writer.drain()
            self.body_bytes += len(piece)
            left = None if left is None else left - len(piece)
        await _end(damage.ending, writer, keep=length is not None)


async def _end(ending: Ending, writer: asyncio.StreamWriter, *, keep: bool) -> None:
    match ending:
        case Ending.WHOLE:
            if not keep:
                writer.close()
        case Ending.CUT:
            writer.close()
        case Ending.RESET:
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        case _ as never:
            assert_never(never)


def _request_head(head: bytes) -> RequestHead:
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    method, target, _ = first.split(" ")
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): text.strip() for name, _, text in fields}
    return RequestHead(method=method, target=target, headers=headers)


def _length(reply_head: bytes) -> int | None:
    for line in reply_head.split(b"\r\n"):
        name, _, text = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(text)
    return None


def _for_client(reply_head: bytes, *, keep: bool) -> bytes:
    first, *lines = reply_head.split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith(b"connection:")]
    status = b"HTTP/1.1 " + first.partition(b" ")[2]
    return b"\r\n".join([status, *kept, b"Connection: " + (b"keep-alive" if keep else b"close")])


@contextlib.asynccontextmanager
async def cutting_proxy(upstream: str) -> AsyncIterator[CuttingProxy]:
    """Run a proxy in front of the server at an address on this machine."""
    tasks: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await proxy.converse(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0, backlog=1000)
    proxy = CuttingProxy(upstream, server.sockets[0].getsockname()[1])
    try:
        yield proxy
    finally:
        await stop(server)
        pending = list(tasks)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await server.wait_closed()
