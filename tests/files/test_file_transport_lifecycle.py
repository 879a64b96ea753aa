"""Connections for files belong to one loop and are used again, or closed; frames show nothing."""

import asyncio
import contextlib
from typing import Any

import pytest

from income_client.errors import ClientClosedError, DownloadError
from income_client.file_transport import FilePool, FileReply
from income_client.settings import Timeouts
from tests.support.file_pool import (
    CANARY,
    CHUNKED,
    HERE,
    fetched,
    link_to,
    open_connections,
    pooled,
)
from tests.support.leaks import frames_below_tests, held_by, package_frames
from tests.support.scripted_server import Answer, Seen, always, forever, reply, serving

WAITS = Timeouts(read=5)
ELSEWHERE = "the client belongs to the event loop in which it was first used"
FAULTS: dict[str, Answer] = {
    "closed": always(None),
    "not HTTP": always(b"HTTP/9 " + CANARY.encode() + b"\r\n\r\n"),
    "bad field": always(b"HTTP/1.1 200 X\r\nX-\x00: " + CANARY.encode() + b"\r\n\r\n"),
    "long field": always(b"HTTP/1.1 200 X\r\nX: " + CANARY.encode() * 2000 + b"\r\n\r\n"),
    "twice": always(reply(ETag="a\r\nETag: b", Location=f"https://x.example/{CANARY}")),
    "bad chunk": always(CHUNKED + b"zz\r\n" + CANARY.encode()),
}


async def test_connections_are_used_again() -> None:
    """A body that was read to its end gives its connection back, whatever the status."""
    replies = [reply(), reply(206, b"x" * 9), reply(403, b"x" * 5000), reply(304, b""), reply()]
    connections = set()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes:
        connections.add(writer)
        return replies.pop(0)

    async with pooled(answer) as (pool, server):
        for _ in range(5):
            assert isinstance(await fetched(pool, server), bytes)
            assert open_connections(pool) == 0
    assert len(connections) == 1


@pytest.mark.parametrize("read_some", [False, True])
async def test_leaving_early_closes_the_connection(*, read_some: bool) -> None:
    """The rest of a body is not waited for, and never taken for the next reply."""
    closed = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        if "more" in seen.path:
            return reply(body=b"next")
        writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 1000000000000\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 50_000)
                await writer.drain()
        except ConnectionError:
            closed.set()
        return None

    async with pooled(answer) as (pool, server):
        async with pool.get(link_to(server.url), {}, WAITS) as found:
            assert isinstance(found, FileReply)
            assert not read_some or isinstance(await found.read(), bytes)
        assert open_connections(pool) == 0
        await closed.wait()
        assert await fetched(pool, server, "/more") == b"next"


@pytest.mark.parametrize("moment", ["connecting", "head", "body"])
async def test_cancelling_closes_the_connection(moment: str) -> None:
    """A cancelled download leaves no connection, and its traceback shows no address."""
    reached = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        reached.set()
        if moment == "body":
            writer.write(reply(body=b"x" * 100)[:-50])
            await writer.drain()
        await forever()

    async with pooled(answer) as (pool, server):
        task = asyncio.create_task(fetched(pool, server))
        if moment == "connecting":
            await asyncio.sleep(0)
        else:
            await reached.wait()
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            shown = frames_of(error)
        assert CANARY not in shown
        assert open_connections(pool) == 0


def frames_of(error: BaseException) -> str:
    """Return a traceback with the locals of the package's frames and those below."""
    inner = frames_below_tests(error)
    assert inner
    return "".join(f"{frame.name} {frame.locals}" for frame in inner)


async def test_an_error_of_the_block_shows_no_address() -> None:
    """What the consumer raises passes no frame that holds one."""
    async with pooled(always(reply())) as (pool, server):
        request = pool.get(link_to(server.url), {}, WAITS)
        with pytest.raises(ZeroDivisionError) as caught:
            async with request:
                raise ZeroDivisionError
        assert all(CANARY not in str(frame.locals) for frame in package_frames(caught.value))
        assert CANARY not in repr(request)


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_error_shows_no_address(fault: str) -> None:
    """Neither its text nor what hangs on it, however the storage fails."""
    async with pooled(FAULTS[fault]) as (pool, server):
        error = await fetched(pool, server)
    assert isinstance(error, DownloadError)
    assert error.__cause__ is None
    assert error.__context__ is None
    assert CANARY not in held_by(error)


async def test_an_unreachable_storage_is_told() -> None:
    """Nobody listens, or nobody speaks TLS there: told by kind."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply())
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    pool = FilePool(HERE)
    async with pool.get(link_to(f"https://{place}"), {}, WAITS) as found:
        assert isinstance(found, DownloadError)
    server.close()
    await server.wait_closed()
    async with pool.get(link_to(f"http://{place}"), {}, WAITS) as gone:
        assert isinstance(gone, DownloadError)
    await pool.aclose()
    assert found.message == "TLS handshake failed"
    assert gone.message == "connection refused"
    for error in (found, gone):
        assert error.retryable
        assert CANARY not in held_by(error)


async def test_a_closed_pool_stays_closed() -> None:
    """Closing twice does nothing, and nothing is sent afterwards."""
    async with pooled(always(reply())) as (pool, server):
        assert pool.refusal() is None
        await pool.aclose()
        await pool.aclose()
        assert pool.is_closed
        error = await fetched(pool, server)
        assert isinstance(error, ClientClosedError)
        assert error.message == "the client was closed"
        assert server.seen == []


async def test_closing_ends_a_request_under_way() -> None:
    """Who waits for a reply gets told so."""
    reached = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        reached.set()
        await forever()

    async with pooled(answer) as (pool, server):
        task = asyncio.create_task(fetched(pool, server))
        await reached.wait()
        await pool.aclose()
        assert isinstance(await task, ClientClosedError)


async def test_closing_ends_a_body_under_way() -> None:
    """So does who waits for the rest of a file."""

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        writer.write(reply(body=b"x" * 100)[:-50])
        await writer.drain()
        await forever()

    async with (
        pooled(answer) as (pool, server),
        pool.get(link_to(server.url), {}, WAITS) as found,
    ):
        assert isinstance(found, FileReply)
        assert await found.read() == b"x" * 50
        task = asyncio.create_task(found.read())
        await asyncio.sleep(0)
        await pool.aclose()
        assert isinstance(await task, ClientClosedError)


def test_another_event_loop_is_told_apart() -> None:
    """The connections belong to the loop of the first request."""
    with asyncio.Runner() as first:

        async def begin() -> tuple[FilePool, Any, Any]:
            stack = contextlib.AsyncExitStack()
            server = await stack.enter_async_context(serving(always(reply())))
            pool = FilePool(HERE)
            assert await fetched(pool, server) == b"{}"
            return pool, server, stack

        pool, server, stack = first.run(begin())
        with asyncio.Runner() as second:
            error = second.run(fetched(pool, server))
            assert isinstance(error, ClientClosedError)
            assert error.message == ELSEWHERE
            with pytest.raises(ClientClosedError, match=ELSEWHERE):
                second.run(pool.aclose())
            assert not pool.is_closed
        first.run(pool.aclose())
        first.run(stack.aclose())
