"""Bytes on a wire become replies or errors of ours: what the transports of calls and files keep."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final

import pytest
from attrs import frozen
from yarl import URL

from income_client import (
    ClientClosedError,
    ConnectionFailedError,
    DeadlineExceededError,
    DownloadError,
    IncomeClientError,
)
from income_client.downloads.http import FilePool
from income_client.http.endpoints import (
    Response,
    addresses,
    get_application,
    get_documents,
    list_applications,
    token_request,
)
from income_client.http.transport import Transport
from tests.support.beside import beside
from tests.support.clients import CHUNKED, HERE, connected, fetched, one, open_connections, send
from tests.support.leaks import held_by
from tests.support.loop_time import pass_time, silence
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
    turns,
)
from tests.support.service import until

CANARY: Final = b"S3CRET"
ELSEWHERE: Final = "the client belongs to the event loop in which it was first used"
Result = bytes | IncomeClientError


@frozen
class Door:
    """A transport to one server, and what is asked through it."""

    ask: Callable[..., Awaitable[Result]]
    """Makes one request, and returns the body of its reply; takes the seconds of silence."""
    aclose: Callable[[], Awaitable[None]]
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

    return Door(call, transport.pool.aclose, lambda: open_connections(transport.pool))


@contextlib.asynccontextmanager
async def open_door(kind: str, answer: Answer) -> AsyncIterator[tuple[Door, ScriptedServer]]:
    async with (
        ScriptedServer(answer) as server,
        contextlib.aclosing(door_to(kind, server.url)) as door,
    ):
        yield door, server


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


NOT_HTTP: Final = {
    "TLS": b"\x16\x03\x01\x02\x00" + CANARY + b"\r\n\r\n",
    "an unknown version": b"HTTP/9.9.9 " + CANARY + b"\r\n\r\n",
    "a zero in a name": b"HTTP/1.1 200 X\r\nX-\x00: " + CANARY + b"\r\n\r\n",
    "a long field": b"HTTP/1.1 200 X\r\nX: " + CANARY * 2000 + b"\r\n\r\n",
    "many fields": b"HTTP/1.1 200 X\r\n" + b"X: a\r\n" * 200 + b"\r\n",
    "two lengths": b"HTTP/1.1 200 X\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "chunks with a length": CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n{}"),
    "a bad chunk": CHUNKED + b"zz\r\n" + CANARY,
}


@every
@pytest.mark.parametrize("fault", NOT_HTTP)
async def test_what_cannot_be_read_is_a_failure(kind: str, fault: str) -> None:
    """Broken HTTP is reported by kind; nothing of it is shown, and it can be tried again."""
    async with open_door(kind, in_turn(Reply(raw=NOT_HTTP[fault], closed=True))) as (door, _):
        assert failure_in(await door.ask()).message.endswith("what came is not HTTP")


@every
@pytest.mark.parametrize(("sent", "is_reset"), [(0, False), (5, False), (500, False), (500, True)])
async def test_a_body_that_ends_early_is_noticed(kind: str, sent: int, is_reset: bool) -> None:
    """Cut before the head, within it or within the body: never a reply, never a hang."""
    partial_reply = reply(body=b"x" * 1000, cut=sent, reset=is_reset)
    async with open_door(kind, in_turn(partial_reply)) as (door, _):
        message = failure_in(await door.ask()).message
    assert sent or message.endswith("connection closed without a reply")


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


BROKEN_OFF: Final = "connected, but the other side broke off the TLS handshake"
"""The connection was accepted, so the network is in order."""


@every
async def test_a_handshake_that_fails_is_told_from_a_refusal(kind: str) -> None:
    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if ending == "plain text":
            writer.write(bytes(reply(body=CANARY)))
        await reader.read(1)
        if ending == "rst":
            reset(writer)

    async with accepting(converse) as port:
        endings = {"plain text": "TLS handshake failed", "fin": BROKEN_OFF, "rst": BROKEN_OFF}
        for ending, text in endings.items():  # noqa: B007 - the server reads it
            async with contextlib.aclosing(door_to(kind, f"https://127.0.0.1:{port}")) as door:
                assert text in failure_in(await door.ask()).message
    async with contextlib.aclosing(door_to(kind, f"http://127.0.0.1:{port}")) as door:
        assert failure_in(await door.ask()).message.endswith("connection refused")


@every
@pytest.mark.parametrize("moment", ["connecting", "head", "body"])
@pytest.mark.parametrize("ending", ["cancelled", "closed"])
async def test_what_is_under_way_can_be_ended(kind: str, moment: str, ending: str) -> None:
    """By a cancellation, which closes its connection, or by closing the transport for good."""
    out = reply(body=b"x" * 100, cut=-50 if moment == "body" else 0, held=True)
    async with open_door(kind, in_turn(out)) as (door, server):
        task = asyncio.ensure_future(door.ask(3600))
        if moment != "connecting":
            await until(lambda: bool(server.requests))
            await turns(20)
        await asyncio.sleep(0)
        if ending == "closed":
            for _ in range(2):
                await door.aclose()
            for error in (await task, await door.ask()):
                assert isinstance(error, ClientClosedError)
                assert error.message == "the client was closed"
            assert len(server.requests) == (0 if moment == "connecting" else 1)
            return
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert door.in_use() == 0


@every
def test_another_event_loop_is_told_apart(kind: str) -> None:
    """The connections belong to the loop of the first request, which can use and close them."""

    async def ask() -> Result:
        return await door.ask()

    async def close() -> None:
        await door.aclose()

    with beside(ScriptedServer(in_turn(reply()))) as server, asyncio.Runner() as first:
        door = door_to(kind, server.url)
        assert first.run(ask()) == b"{}"
        with asyncio.Runner() as second:
            error = second.run(ask())
            assert isinstance(error, ClientClosedError)
            assert error.message == ELSEWHERE
            with pytest.raises(ClientClosedError, match=ELSEWHERE):
                second.run(close())
        assert first.run(ask()) == b"{}"
        first.run(close())


# The transport of calls


async def test_a_request_carries_what_it_needs_and_no_more() -> None:
    """Path and query arrive byte by byte; the header is set by us alone."""
    request = list_applications(application_reference_id="%2F ~+'&é")
    async with connected(in_turn(reply(body=b'{"a":1}', X_Request_Id="r"))) as (transport, server):
        answer = await send(transport, request)
        await send(transport, token_request())
    assert isinstance(answer, Response)
    assert (answer.status, answer.body, answer.headers["x-request-id"]) == (200, b'{"a":1}', "r")
    get, post = server.requests
    assert f"{get.path}?{get.query}" == f"{request.path}?{request.query}"
    assert get.authorization == "Bearer S3CRET"
    assert get.headers["accept"] == "application/json"
    assert get.headers["user-agent"].startswith("income-client/")
    assert {"cookie", "content-type"}.isdisjoint(get.headers)
    assert (post.method, post.path) == ("POST", "/token")
    assert post.body == b"grant_type=client_credentials"
    assert post.headers["content-type"] == "application/x-www-form-urlencoded"


async def test_a_status_that_is_no_success_needs_no_body() -> None:
    """However the body of an error continues, or an upgrade nobody asked for, its status counts."""
    fields = {"Content-Length": "90000", "Retry-After": "3"}
    for tail in (b"", b"x" * 70_000):
        found = await one(in_turn(Reply(status=503, headers=fields, body=tail, closed=True)))
        assert isinstance(found, Response)
        assert (found.status, found.body, found.headers["retry-after"]) == (503, b"", "3")
    upgrade = b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nS3CRET"
    found = await one(in_turn(Reply(raw=upgrade)))
    assert isinstance(found, Response)
    assert (found.status, found.body) == (101, b"")


@pytest.mark.parametrize(
    "root",
    ["http://127.0.0.1:8000", "https://a.example", "https://a.example/x/y%2F", "http://[::1]:80"],
)
@pytest.mark.parametrize("name", ["plain", "%2F ~+'&é", ":@?#"])
def test_an_address_is_that_of_the_whole_text(root: str, name: str) -> None:
    """Whether it is put together of its parts or read from a text: the same to the last byte."""
    places = addresses(root, "https://login.example/y/")
    transport = Transport(places)
    for request in (
        get_application(name),
        get_documents(name, pages=True),
        list_applications(updated_after="2024-01-01T00:00:00", application_reference_id=name),
        token_request(),
    ):
        origin = places.token if request.form else places.api
        query = f"?{request.query}" if request.query else ""
        url, wanted = transport.url_of(request), URL(origin + request.path + query, encoded=True)
        assert (url, str(url), url.raw_path_qs) == (wanted, str(wanted), wanted.raw_path_qs)
        assert (url.raw_host, url.port) == (wanted.raw_host, wanted.port)
        assert url.host_port_subcomponent == wanted.host_port_subcomponent


@pytest.mark.parametrize("prefix", ["/income%2Fapi", "/%7Elender", "/a%20b"])
async def test_the_path_of_the_address_is_sent_as_it_was_given(prefix: str) -> None:
    """What is quoted in it stays quoted: it may mean something else to a gateway."""
    async with ScriptedServer(in_turn(reply())) as server:
        transport = Transport(addresses(f"{server.url}{prefix}"))
        await send(transport, get_application("app-1"))
        await transport.pool.aclose()
    assert [one.path for one in server.requests] == [f"{prefix}/v1/income/applications/app-1"]


# Silence: a reply may be slow, but not stand still

LIMIT: Final = 100.0
"""Seconds of the loop's time, far more than a test takes."""


@every
@pytest.mark.parametrize("sent", [0, 30, -20], ids=["nothing", "half a head", "half a body"])
async def test_a_silent_service_is_given_up(kind: str, sent: int) -> None:
    """The task itself continues; what was sent is not sent again, and the next is answered."""
    begun = reply(body=b"x" * 100, cut=sent, slow=partial(silence, LIMIT))
    async with open_door(kind, in_turn(begun, reply())) as (door, server):
        error = failure_in(await door.ask(LIMIT))
        assert len(server.requests) == 1
        assert await door.ask() == b"{}"
    assert isinstance(error, DeadlineExceededError) is (kind == "calls")
    assert error.message.endswith("nothing came for too long")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_a_slow_body_is_read() -> None:
    """What comes in pieces may take longer than the longest silence."""

    async def drops() -> AsyncIterator[bytes]:
        for _ in range(8):
            await turns()
            pass_time(LIMIT * 0.75)
            yield b"x"

    found = await one(in_turn(reply(body=b"x" * 8, cut=-8, slow=drops)), read=LIMIT)
    assert isinstance(found, Response)
    assert found.body == b"x" * 8


async def test_a_loop_that_was_held_up_is_no_silence() -> None:
    """A reply that lay there while the caller's own code ran is taken, however late."""

    def answer(_: Request) -> Reply:
        # Once this has been sent, and before it can be read.
        asyncio.get_running_loop().call_soon(pass_time, LIMIT * 1.5)
        return reply(body=b"{}")

    found = await one(answer, read=LIMIT)
    assert isinstance(found, Response)
    assert found.body == b"{}"
