"""Bytes on a wire become replies or errors of ours: what the transports of calls and files keep."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final

import pytest

from income_client import (
    ClientClosedError,
    ConnectionFailedError,
    DeadlineExceededError,
    DownloadError,
    IncomeClientError,
)
from income_client.downloads.http import FilePool
from income_client.http.endpoints import (
    ListFilter,
    Response,
    addresses,
    get_application,
    list_applications,
    token_request,
)
from income_client.http.transport import Pool, Transport
from tests.support.canaries import held_by
from tests.support.clients import CHUNKED, HERE, connected, fetched, one, open_connections, send
from tests.support.clocks import pass_time, silence
from tests.support.processes import beside
from tests.support.server import (
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


Ask = Callable[..., Awaitable[Result]]
"""Makes one request, and returns the body of its reply; takes the seconds of silence."""


def opened(kind: str, url: str) -> tuple[Ask, Pool]:
    """Return how to ask at an address through a transport of one kind, and its connections."""
    if kind == "files":
        pool = FilePool(HERE)
        return partial(fetched, pool, url), pool
    transport = Transport(addresses(url))

    async def call(read: float = 5.0) -> Result:
        found = await send(transport, read=read)
        return found.body if isinstance(found, Response) else found

    return call, transport.pool


@contextlib.asynccontextmanager
async def serving(kind: str, answer: Answer) -> AsyncIterator[tuple[Ask, Pool, ScriptedServer]]:
    async with ScriptedServer(answer) as server:
        ask, pool = opened(kind, server.url)
        async with contextlib.aclosing(pool):
            yield ask, pool, server


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
    async with serving(kind, in_turn(*replies)) as (ask, pool, server):
        for _ in range(5):
            assert isinstance(await ask(), bytes)
            assert open_connections(pool) == 0
    assert {request.connection for request in server.requests} == {0}


NOT_HTTP: Final = {
    "TLS": b"\x16\x03\x01\x02\x00" + CANARY + b"\r\n\r\n",
    "an unknown version": b"HTTP/9.9.9 " + CANARY + b"\r\n\r\n",
    "a zero in a name": b"HTTP/1.1 200 X\r\nX-\x00: " + CANARY + b"\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 X\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "chunks with a length": CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n{}"),
    "a bad chunk": CHUNKED + b"zz\r\n" + CANARY,
}


@every
@pytest.mark.parametrize("fault", NOT_HTTP)
async def test_what_cannot_be_read_is_a_failure(kind: str, fault: str) -> None:
    """Broken HTTP is reported by kind; nothing of it is shown, and it can be tried again."""
    async with serving(kind, in_turn(Reply(raw=NOT_HTTP[fault], closed=True))) as (ask, _, _):
        assert failure_in(await ask()).message.endswith("what came is not HTTP")


@every
@pytest.mark.parametrize("fields", [b"X: " + CANARY * 20_000, b"X: a\r\n" * 2_000])
async def test_a_head_beyond_the_limits_is_a_failure(kind: str, fields: bytes) -> None:
    """The error says so, since that is no fault of a proxy that answers in the service's place."""
    head = b"HTTP/1.1 200 X\r\n" + fields + b"\r\n\r\n"
    async with serving(kind, in_turn(Reply(raw=head, closed=True))) as (ask, _, _):
        assert failure_in(await ask()).message.endswith("the head of the reply is too long")


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
            ask, pool = opened(kind, f"https://127.0.0.1:{port}")
            assert text in failure_in(await ask()).message
            await pool.aclose()
    ask, pool = opened(kind, f"http://127.0.0.1:{port}")
    assert failure_in(await ask()).message.endswith("connection refused")
    await pool.aclose()


@every
@pytest.mark.parametrize("moment", ["connecting", "head", "body"])
@pytest.mark.parametrize("ending", ["cancelled", "closed"])
async def test_what_is_under_way_can_be_ended(kind: str, moment: str, ending: str) -> None:
    """A cancellation closes the request's connection; closing the transport ends all requests."""
    out = reply(body=b"x" * 100, cut=-50 if moment == "body" else 0, held=True)
    async with serving(kind, in_turn(out)) as (ask, pool, server):
        task = asyncio.ensure_future(ask(read=3600))
        if moment != "connecting":
            await until(lambda: bool(server.requests))
            await turns(20)
        await asyncio.sleep(0)
        if ending == "closed":
            for _ in range(2):
                await pool.aclose()
            for error in (await task, await ask()):
                assert isinstance(error, ClientClosedError)
                assert error.message == "the client was closed"
            assert len(server.requests) == (0 if moment == "connecting" else 1)
            return
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert open_connections(pool) == 0


@every
def test_another_event_loop_is_told_apart(kind: str) -> None:
    """The connections belong to the loop of the first request, which can use and close them."""

    async def asked() -> Result:
        return await ask()

    with beside(ScriptedServer(in_turn(reply()))) as server, asyncio.Runner() as first:
        ask, pool = opened(kind, server.url)
        assert first.run(asked()) == b"{}"
        with asyncio.Runner() as second:
            error = second.run(asked())
            assert isinstance(error, ClientClosedError)
            assert error.message == ELSEWHERE
            with pytest.raises(ClientClosedError, match=ELSEWHERE):
                second.run(pool.aclose())
        assert first.run(asked()) == b"{}"
        first.run(pool.aclose())


# The transport of calls


async def test_a_request_carries_what_it_needs_and_no_more() -> None:
    """Path and query arrive byte by byte; the header is set by us alone."""
    request = list_applications(list_filter=ListFilter(application_reference_id="%2F ~+'&é"))
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


@pytest.mark.parametrize("prefix", ["/income%2Fapi", "/%7Elender", "/a%20b"])
async def test_the_path_of_the_address_is_sent_as_it_was_given(prefix: str) -> None:
    """Quoted characters stay quoted: a gateway may interpret them."""
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
    async with serving(kind, in_turn(begun, reply())) as (ask, _, server):
        error = failure_in(await ask(read=LIMIT))
        assert len(server.requests) == 1
        assert await ask() == b"{}"
    assert isinstance(error, DeadlineExceededError) is (kind == "calls")
    assert error.message.endswith("nothing came for too long")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_a_slow_body_is_read() -> None:
    """A body in pieces may take longer than the read timeout."""

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
