"""A pool of file connections against a scripted server on this machine."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from income_client.downloads.http import FilePool, FileReply
from income_client.downloads.links import Link, read_link
from income_client.errors import IncomeClientError
from income_client.settings import DownloadPolicy, Timeouts
from tests.support.server import Answer, ScriptedServer

CANARY = "c4n4ry"
TARGET = f"/{CANARY}-key?X-Amz-Signature={CANARY}-signature"
HERE = DownloadPolicy(
    allowed_hosts=["localhost", "127.0.0.1", "*.example.com:*"],
    require_https=False,
    allow_private_networks=True,
)
CHUNKED = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n"


def link_to(url: str, target: str = TARGET, policy: DownloadPolicy = HERE) -> Link:
    """Return a checked address."""
    return read_link(url + target, policy)


@contextlib.asynccontextmanager
async def pooled(
    answer: Answer, policy: DownloadPolicy = HERE, **options: Any
) -> AsyncIterator[tuple[FilePool, ScriptedServer]]:
    """Run a server and a pool of connections to it."""
    async with ScriptedServer(answer) as server:
        pool = FilePool(policy, **options)
        try:
            yield pool, server
        finally:
            await pool.aclose()


async def body_of(reply: FileReply) -> bytes:
    """Read a body to its end."""
    whole = b""
    while piece := await reply.read():
        whole += piece
    return whole


async def fetched(
    pool: FilePool, url: str, target: str = TARGET, read: float = 5.0
) -> bytes | IncomeClientError:
    """Ask for a file and read it to its end; an error is returned as it leaves the package."""
    try:
        with await pool.get(link_to(url, target), {}, Timeouts(read=read)) as reply:
            return await body_of(reply)
    except IncomeClientError as error:
        return error.again()


def open_connections(pool: FilePool) -> int:
    """Return how many connections are neither closed nor back in the pool."""
    assert pool._session is not None
    assert pool._session.connector is not None
    return len(pool._session.connector._acquired)
