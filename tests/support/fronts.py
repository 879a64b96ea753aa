"""What may stand between a client and a service: TLS, and a proxy for plain HTTP."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

import trustme


@contextlib.asynccontextmanager
async def terminating(issued: trustme.LeafCert, url: str) -> AsyncIterator[int]:
    """Terminate TLS in front of a service, on a port of its own."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    issued.configure_cert(context)
    async with _relaying(url, lambda piece: piece, context) as port:
        yield port


@contextlib.asynccontextmanager
async def proxying(url: str) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Forward requests that name the whole address; give the port, and what came."""
    came: list[bytes] = []

    def shorten(piece: bytes) -> bytes:
        came.append(piece)
        return piece.replace(f" {url}/".encode(), b" /")

    async with _relaying(url, shorten, None) as port:
        yield port, came


@contextlib.asynccontextmanager
async def _relaying(
    url: str, changed: Callable[[bytes], bytes], context: ssl.SSLContext | None
) -> AsyncIterator[int]:
    async def relay(
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        change: Callable[[bytes], bytes],
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                writer.write(change(piece))
                await writer.drain()
        writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up, down = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        await asyncio.gather(relay(reader, down, changed), relay(up, writer, lambda piece: piece))

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
