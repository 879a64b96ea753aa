"""Machines between a client and a service: TLS, proxies, and proxies that change the bytes."""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import trustme

from income_client.testing import IncomeService
from tests.support.processes import beside
from tests.support.server import END_OF_HEAD, accepting


@cache
def tls_pair() -> tuple[ssl.SSLContext, dict[str, Any]]:
    """Return a server's TLS context, and the client's option that trusts it."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(client)
    return server, {"ssl": client}


Change = Callable[[bytes], bytes]
"""Returns what is passed on of some bytes: a whole request, or a part of a reply."""


def unchanged(piece: bytes) -> bytes:
    """Pass all of it on."""
    return piece


@contextlib.asynccontextmanager
async def changing(
    url: str,
    *,
    requests: Change = unchanged,
    replies: Change = unchanged,
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Pass bytes on to a service and back, changed, on a port of its own."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up, down = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        await asyncio.gather(_relay(reader, down, requests), _relay(up, writer, replies))

    async with accepting(handle, context) as port:
        yield port


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
async def tunnelling(port: int) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Run a proxy that tunnels to a local port; yield its address, and what it sees."""
    sees: list[bytes] = []

    def note(piece: bytes) -> bytes:
        sees.append(piece)
        return piece

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        note(await reader.readuntil(END_OF_HEAD))
        writer.write(b"HTTP/1.1 200 X\r\n\r\n")
        up, down = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_relay(reader, down, note), _relay(up, writer, note))

    async with accepting(handle) as own_port:
        yield f"127.0.0.1:{own_port}", sees


async def _relay(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Change
) -> None:
    try:
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                writer.write(change(piece))
                await writer.drain()
    finally:
        writer.close()


class MalformedRows:
    """A service seen past something that spoils the date of some rows of its list.

    Attributes:
        env: the variables that lead a command there.
        is_mended: whether the rows are passed on as they are.
    """

    def __init__(self, application_ids: tuple[str, ...]) -> None:
        some = "|".join(application_ids)
        row = rf'("application_id":\s*"(?:{some})"[^}}]*"application_date":\s*")\d'
        self._rows = re.compile(row.encode())
        self.env: dict[str, str] = {}
        self.is_mended = False

    def change(self, piece: bytes) -> bytes:
        """Change a part of a reply."""
        if self.is_mended or b'"applications":' not in piece:
            return piece
        return self._rows.sub(rb"\1x", piece)


@contextlib.contextmanager
def malformed_rows(service: IncomeService, *application_ids: str) -> Iterator[MalformedRows]:
    """Put this in front of a service."""
    rows = MalformedRows(application_ids)
    with beside(changing(service.url, replies=rows.change)) as port:
        rows.env["INCOME_BASE_URL"] = f"http://127.0.0.1:{port}"
        yield rows
