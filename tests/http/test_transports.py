"""What both transports keep, that of calls and that of files: replies whole, or errors of ours."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import pytest
from attrs import frozen

from income_client import (
    ClientClosedError,
    ConnectionFailedError,
    DeadlineExceededError,
    DownloadError,
    IncomeClientError,
)
from income_client.downloads.http import FilePool
from income_client.http.endpoints import Response, addresses
from income_client.http.transport import Transport
from tests.support.clients import CHUNKED, HERE, fetched, open_connections, send
from tests.support.leaks import held_by
from tests.support.server import (
    HUNG_UP,
    Answer,
    Reply,
    Request,
    ScriptedServer,
    accepting,
    in_turn,
    reply,
    reset,
)

CANARY: Final = b"S3CRET"
ELSEWHERE: Final = "the client belongs to the event loop in which it was first used"
Result = bytes | IncomeClientError


@frozen
class Door:
    """A transport to one server, and what is asked through it."""

    ask: Callable[..., Awaitable[Result]]
    """Makes one request, and returns the body of its reply; takes the seconds of silence."""
    close: Callable[[], Awaitable[None]]
    in_use: Callable[[], int]
    """Counts the connections that are neither closed nor back in the pool."""


def door_to(kind: str, url: str) -> Door:
    """Return a transport of one kind to an address."""
    if kind == "files":
        pool = FilePool(HERE)

        async def fetch(read: float = 5.0) -> Result:
            return await fetched(pool, url, read=read)

        return Door(fetch, pool.aclose, lambda: open_connections(pool))
    transport = Transport(addresses(url))

    async def call(read: float = 5.0) -> Result:
        found = await send(transport, read=read)
        return found.body if isinstance(found, Response) else found

    def in_use() -> int:
        assert transport.pool._session is not None
        assert transport.pool._session.connector is not None
        return len(transport.pool._session.connector._acquired)

    return Door(call, transport.pool.aclose, in_use)


@contextlib.asynccontextmanager
async def open_door(kind: str, answer: Answer) -> AsyncIterator[tuple[Door, ScriptedServer]]:
    """Run a server and a transport to it."""
    async with ScriptedServer(answer) as server:
        door = door_to(kind, server.url)
        try:
            yield door, server
        finally:
            await door.close()


def failure_in(found: Result) -> IncomeClientError:
    """Return an error, which may be retried and holds nothing of what came."""
    assert isinstance(found, ConnectionFailedError | DeadlineExceededError | DownloadError)
    assert found.retryable
    assert found.__cause__ is None
    assert found.__context__ is None
    assert CANARY.decode() not in held_by(found)
    return found


every = pytest.mark.parametrize("kind", ["calls", "files"])


@every
async def test_connections_are_used_again(kind: str) -> None:
    """A reply that was read to its end gives its connection back, whatever its status."""
    replies = [reply(), reply(404, b"x" * 5000), reply(204, b""), reply(503), reply()]
    async with open_door(kind, in_turn(*replies)) as (door, server):
        for _ in range(5):
            assert isinstance(await door.ask(), bytes)
            assert door.in_use() == 0
    assert {request.connection for request in server.requests} == {0}


@every
@pytest.mark.parametrize(
    ("out", "text"),
    [
        (b"\x16\x03\x01\x02\x00" + CANARY + b"\r\n\r\n", "what came is not HTTP"),
        (b"HTTP/9.9.9 " + CANARY + b"\r\n\r\n", "what came is not HTTP"),
        (b"HTTP/1.1 200 X\r\nX-\x00: " + CANARY + b"\r\n\r\n", "what came is not HTTP"),
        (b"HTTP/1.1 200 X\r\nX: " + CANARY * 2000 + b"\r\n\r\n", "what came is not HTTP"),
        (b"HTTP/1.1 200 X\r\n" + b"X: a\r\n" * 200 + b"\r\n", "what came is not HTTP"),
        (
            b"HTTP/1.1 200 X\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            "what came is not HTTP",
        ),
        (
            b"HTTP/1.1 200 X\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
            "what came is not HTTP",
        ),
        (CHUNKED + b"zz\r\n" + CANARY, "what came is not HTTP"),
        (b"", "connection closed without a reply"),
    ],
)
async def test_what_cannot_be_read_is_a_failure(kind: str, out: bytes, text: str) -> None:
    """Broken HTTP is reported by kind; nothing of it is shown, and it can be tried again."""
    async with open_door(kind, in_turn(Reply(raw=out, closed=True))) as (door, _):
        assert failure_in(await door.ask()).message.endswith(text)


@every
@pytest.mark.parametrize("ending", ["fin", "rst", "hang"])
@pytest.mark.parametrize("sent", [0, 5, 500])
async def test_a_body_that_ends_early_is_noticed(kind: str, sent: int, ending: str) -> None:
    """Cut before the head, within it or within the body: never a reply, never a hang."""
    body, is_held, is_reset = b"x" * 1000, ending == "hang", ending == "rst"
    partial = reply(body=body, cut=sent, held=is_held, reset=is_reset)
    async with open_door(kind, in_turn(partial)) as (door, _):
        failure_in(await door.ask(0.05 if ending == "hang" else 5.0))


@every
async def test_a_broken_connection_is_not_retried_behind_our_back(kind: str) -> None:
    """One request is one at the server, on a fresh connection and on a used one."""
    async with open_door(kind, in_turn(reply(), HUNG_UP)) as (door, server):
        assert await door.ask() == b"{}"
        for _ in range(2):
            failure_in(await door.ask())
        assert len(server.requests) == 3


@every
async def test_one_dead_connection_is_enough(kind: str) -> None:
    """After the first failure on a used connection, the idle ones are closed."""
    together = asyncio.Barrier(8)
    dead = set[int]()

    async def answer(request: Request) -> Reply:
        if len(server.requests) <= 8:
            await together.wait()
        return HUNG_UP if request.connection in dead else reply()

    async with open_door(kind, answer) as (door, server):
        await asyncio.gather(*[door.ask() for _ in range(8)])
        dead.update(server.connections)
        failure_in(await door.ask())
        for _ in range(3):
            assert await door.ask() == b"{}"
        assert len(server.requests) == 12


@every
async def test_nobody_at_the_address_is_told(kind: str) -> None:
    """The connection was refused: nothing was sent."""
    async with ScriptedServer(in_turn(reply())) as server:
        pass
    door = door_to(kind, server.url)
    error = failure_in(await door.ask())
    await door.close()
    assert error.message.endswith("connection refused")


@every
async def test_who_does_not_speak_tls_is_not_spoken_to(kind: str) -> None:
    """It is reported that the handshake failed."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(reply(body=CANARY)))
        await reader.read(1)

    async with accepting(greet) as port:
        door = door_to(kind, f"https://127.0.0.1:{port}")
        error = failure_in(await door.ask())
        await door.close()
    assert error.message.endswith("TLS handshake failed")


@every
@pytest.mark.parametrize("ending", ["fin", "rst"])
async def test_a_handshake_that_is_broken_off_is_told_from_a_refusal(
    kind: str, ending: str
) -> None:
    """The connection was accepted, so the network is in order."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        if ending == "rst":
            reset(writer)

    async with accepting(hang_up) as port:
        door = door_to(kind, f"https://127.0.0.1:{port}")
        error = failure_in(await door.ask())
        await door.close()
    assert "connected, but the other side broke off the TLS handshake" in error.message


def silent_from(moment: str, reached: asyncio.Event) -> Answer:
    """Answer nothing, or half a body."""

    def answer(_: Request) -> Reply:
        reached.set()
        return reply(body=b"x" * 100, cut=-50 if moment == "body" else 0, held=True)

    return answer


@every
@pytest.mark.parametrize("moment", ["connecting", "head", "body"])
async def test_cancelling_closes_the_connection(kind: str, moment: str) -> None:
    """A cancelled request leaves neither a task nor a connection."""
    reached = asyncio.Event()
    async with open_door(kind, silent_from(moment, reached)) as (door, _):
        task = asyncio.ensure_future(door.ask())
        if moment != "connecting":
            await reached.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert door.in_use() == 0


@every
@pytest.mark.parametrize("moment", ["head", "body"])
async def test_closing_ends_what_is_under_way(kind: str, moment: str) -> None:
    """A call that waits for a reply or for its rest gets an error."""
    reached = asyncio.Event()
    async with open_door(kind, silent_from(moment, reached)) as (door, _):
        task = asyncio.ensure_future(door.ask(3600))
        await reached.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        await door.close()
        assert isinstance(await task, ClientClosedError)


@every
async def test_what_was_closed_stays_closed(kind: str) -> None:
    """Closing twice does nothing, and nothing is sent afterwards."""
    async with open_door(kind, in_turn(reply())) as (door, server):
        await door.close()
        await door.close()
        error = await door.ask()
        assert isinstance(error, ClientClosedError)
        assert error.message == "the client was closed"
        assert server.requests == []


@every
def test_another_event_loop_is_told_apart(kind: str) -> None:
    """The connections belong to the loop of the first request."""

    async def begin() -> tuple[Door, Any]:
        stack = contextlib.AsyncExitStack()
        server = await stack.enter_async_context(ScriptedServer(in_turn(reply())))
        door = door_to(kind, server.url)
        assert await door.ask() == b"{}"
        return door, stack

    async def ask(door: Door) -> Result:
        return await door.ask()

    async def close(door: Door) -> None:
        await door.close()

    with asyncio.Runner() as first:
        door, stack = first.run(begin())
        with asyncio.Runner() as second:
            error = second.run(ask(door))
            assert isinstance(error, ClientClosedError)
            assert error.message == ELSEWHERE
            with pytest.raises(ClientClosedError, match=ELSEWHERE):
                second.run(close(door))
        first.run(close(door))
        first.run(stack.aclose())
