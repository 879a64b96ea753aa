"""What may be between a client and a service: TLS, a proxy, what changes bytes or hangs up."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

import trustme

Change = Callable[[bytes], bytes]
"""Returns what is passed on of some bytes: a whole request, or a part of a reply."""


def unchanged(piece: bytes) -> bytes:
    """Pass all of it on."""
    return piece


@contextlib.asynccontextmanager
async def terminating(issued: trustme.LeafCert, url: str) -> AsyncIterator[int]:
    """Terminate TLS in front of a service, on a port of its own."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    issued.configure_cert(context)
    async with changing(url, context=context) as port:
        yield port


@contextlib.asynccontextmanager
async def proxying(url: str) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Forward requests that name the whole address; give the port, and what came."""
    came: list[bytes] = []

    def shorten(piece: bytes) -> bytes:
        came.append(piece)
        return piece.replace(f" {url}/".encode(), b" /")

    async with changing(url, requests=shorten) as port:
        yield port, came


@contextlib.asynccontextmanager
async def changing(
    url: str,
    *,
    requests: Change = unchanged,
    replies: Change = unchanged,
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Pass bytes on to a service and back, changed, on a port of its own."""

    async def relay(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Change
    ) -> None:
        try:
            with contextlib.suppress(OSError):
                while piece := await reader.read(65536):
                    writer.write(change(piece))
                    await writer.drain()
        finally:
            writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up, down = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        await asyncio.gather(relay(reader, down, requests), relay(up, writer, replies))

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextlib.asynccontextmanager
async def hanging_up(*, after: int) -> AsyncIterator[int]:
    """Accept connections, and close each when some bytes have come; what is not read resets it."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(after)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextlib.asynccontextmanager
async def tunnelling(port: int) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Run a proxy that tunnels to a local port; yield its URL, and what it sees."""
    sees: list[bytes] = []

    async def relay(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError):
                while piece := await source.read(65536):
                    sees.append(piece)
                    sink.write(piece)
                    await sink.drain()
        finally:
            sink.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sees.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 X\r\n\r\n")
        there, onward = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(relay(reader, onward), relay(there, writer))

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", sees
    finally:
        server.close()
