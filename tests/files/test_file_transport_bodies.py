"""A body comes piece by piece, and a cut is an error."""

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from income_client.errors import DownloadError
from income_client.settings import Timeouts
from tests.support.clients import (
    CANARY,
    CHUNKED,
    body_of,
    fetched,
    link_to,
    open_connections,
    pooled,
)
from tests.support.loop_time import pass_time
from tests.support.server import Reply, in_turn, reply
from tests.support.service import until

WAITS = Timeouts(read=5)
OPEN_ENDED = b"HTTP/1.1 200 X\r\nConnection: close\r\n\r\nbody"


@pytest.mark.parametrize(
    ("out", "body"),
    [
        (reply(body=b"body"), b"body"),
        (reply(body=b""), b""),
        (Reply(raw=CHUNKED + b"2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n"), b"body"),
        (Reply(raw=OPEN_ENDED, closed=True), b"body"),
        (reply(206, b"dy", Content_Range="bytes 2-3/4"), b"dy"),
    ],
)
async def test_a_body_is_read_to_its_end(out: Reply, body: bytes) -> None:
    """With a length, in chunks, or until the connection is closed."""
    async with pooled(in_turn(out)) as (pool, server):
        with await pool.get(link_to(server.url), {}, WAITS) as found:
            assert await body_of(found) == body
            assert await found.read() == b""
            assert CANARY not in repr(found)


async def test_bytes_stay_as_they_came() -> None:
    """What the storage calls compressed is handed on with its name and not unpacked."""
    packed = gzip.compress(b"x" * 1000)
    answer = in_turn(reply(body=packed, Content_Encoding="gzip", ETag='"1"'))
    async with pooled(answer) as (pool, server):
        with await pool.get(link_to(server.url), {}, WAITS) as found:
            assert found.headers["content-encoding"] == "gzip"
            assert found.headers["etag"] == '"1"'
            assert await body_of(found) == packed


@pytest.mark.parametrize(
    "name", ["Content-Length", "Content-Range", "ETag", "Content-Encoding", "Location"]
)
@pytest.mark.parametrize("values", [("4", "4"), ("4", "5")])
async def test_a_reply_that_contradicts_itself_is_an_error(
    name: str, values: tuple[str, str]
) -> None:
    """A field that decides on the body must not come twice."""
    twice = "".join(f"{name}: {value}\r\n" for value in values).encode()
    length = b"" if name == "Content-Length" else b"Content-Length: 4\r\n"
    out = b"HTTP/1.1 200 X\r\n" + length + twice + b"\r\nbody"
    async with pooled(in_turn(Reply(raw=out))) as (pool, server):
        error = await fetched(pool, server.url)
    assert isinstance(error, DownloadError)
    assert error.message in (
        f"the header field {name.lower()} came twice",
        "what came is not HTTP",
    )


async def test_other_fields_may_come_twice() -> None:
    """The last one counts."""
    out = b"HTTP/1.1 200 X\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 2\r\n\r\n{}"
    async with pooled(in_turn(Reply(raw=out))) as (pool, server):
        with await pool.get(link_to(server.url), {}, WAITS) as found:
            assert found.headers["x-a"] == "2"


@pytest.mark.parametrize(
    ("out", "text"),
    [
        (reply(403, b"<Code>AccessDenied</Code>"), "<Code>AccessDenied</Code>"),
        (reply(403, b"x" * 2000), "x" * 1000),
        (reply(403, b"x" * 1000), "x" * 1000),
        (reply(403, b"\xff!"), "\ufffd!"),
        (reply(403, b""), ""),
        (reply(403, b"x" * 100, cut=-1), "x" * 99),
        (reply(403, b"x" * 100, cut=-1, held=True), "x" * 99),
    ],
)
async def test_the_text_of_an_error_is_bounded(out: Reply, text: str) -> None:
    """Its beginning is read within its time, as far as it comes."""
    async with pooled(in_turn(out)) as (pool, server):
        with await pool.get(link_to(server.url), {}, WAITS) as found:
            reading = asyncio.create_task(found.error_text(limit=1000, seconds=60))
            while out.held and not reading.done():
                await asyncio.sleep(0)
                pass_time(6)
            assert await reading == text


async def test_memory_does_not_grow_with_the_file() -> None:
    """Of 64 MiB only the pieces under way are held."""
    piece = b"x" * 2**20

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield piece

    head = Reply(headers={"Content-Length": f"{64 * 2**20}"}, slow=pieces, held=True)
    async with pooled(in_turn(head)) as (pool, server):
        size = 0
        with await pool.get(link_to(server.url), {}, WAITS) as found:
            tracemalloc.start()
            while read := await found.read():
                size += len(read)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert size == 64 * 2**20
    assert peak < 8 * 2**20


@pytest.mark.parametrize("read_some", [False, True])
async def test_leaving_early_closes_the_connection(*, read_some: bool) -> None:
    """The rest of a body is not waited for, and never taken for the next reply."""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 50_000

    head = Reply(headers={"Content-Length": "1000000000000"}, slow=endless)
    answer = in_turn(head, reply(body=b"next"))

    async with pooled(answer) as (pool, server):
        with await pool.get(link_to(server.url), {}, WAITS) as found:
            assert not read_some or await found.read()
        assert open_connections(pool) == 0
        await until(lambda: 0 not in server.connections)
        assert await fetched(pool, server.url, "/more") == b"next"
