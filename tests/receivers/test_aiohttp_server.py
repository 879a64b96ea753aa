"""A server for routes while a block runs; strangers keep nobody out."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web
from attrs import define, field

from income_client import ConfigurationError
from income_client.receivers import CallbackTokenIssuer
from income_client.receivers.aiohttp import routes
from income_client.receivers.aiohttp_server import serving
from income_client.receivers.exchange import LONGEST_TOKEN
from tests.support.callbacks import request_bytes, ring
from tests.support.proxies import tls_pair
from tests.support.service import until

SOON: Final = 0.05
NEVER: Final = 3600.0
SMALL: Final = 2_048
"""Bytes of a socket's buffer: the least that systems allow, or below it."""
STRANGERS: Final = 220
"""More connections than the server has by default."""
PATIENCE: Final = 20.0
WHOLE: Final = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
OK: Final = b"HTTP/1.1 200 OK\r\n"
HOSTS: Final = {"127.0.0.1": "127.0.0.1"} | (
    {"::1": "[::1]"} if socket.has_dualstack_ipv6() else {}
)
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def hello(_: web.Request) -> web.Response:
    return web.json_response("hello")


@define
class SlowHandler:
    """A handler that answers once it may."""

    begun: asyncio.Event = field(factory=asyncio.Event)
    may_end: asyncio.Event = field(factory=asyncio.Event)

    async def answer(self, _: web.Request) -> web.Response:
        self.begun.set()
        await self.may_end.wait()
        return web.Response()


@asynccontextmanager
async def served(handler: Any = hello, **options: Any) -> AsyncIterator[str]:
    given: dict[str, Any] = {"host": "127.0.0.1", "port": 0} | options
    async with serving([web.get("/", handler)], **given) as url:
        yield url


async def test_a_token_is_refused_by_the_receiver_and_not_by_aiohttp() -> None:
    """Callers' tokens may be longer than aiohttp's own limit of 8,190 bytes for a field."""
    async with served() as url, aiohttp.ClientSession() as session:
        headers = {"Authorization": "Bearer " + "a" * LONGEST_TOKEN}
        async with session.get(url, headers=headers) as answer:
            assert answer.status == 200


async def connected(stack: AsyncExitStack, url: str, begin: bytes = b"") -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)

    def close() -> None:
        writer.transport.abort()

    stack.callback(close)
    writer.write(begin)
    await writer.drain()
    return reader, writer


async def ended(connection: Connection) -> bytes:
    """Wait until the server closes a connection, and return what it sent before."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await connection[0].read()
    except ConnectionResetError:
        return b""


async def answered(url: str) -> bytes:
    """Send a whole request on a new connection, and return the first line of the answer."""
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        reader, _ = await connected(stack, url, WHOLE)
        return await reader.readline()


@pytest.mark.parametrize(("host", "named"), HOSTS.items())
async def test_routes_are_served_inside(host: str, named: str) -> None:
    tasks = asyncio.all_tasks()
    unknown: list[str] = []
    async with aiohttp.ClientSession() as session:
        async with served(host=host, on_unknown=unknown.append) as url:
            assert url.startswith(f"http://{named}:")
            async with session.get(url) as reply:
                assert await reply.json() == "hello"
            async with session.post(f"{url}/callback") as reply:
                assert (reply.status, await reply.json()) == (404, {"error": "Not Found"})
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url)
    assert unknown == ["/callback"]
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= tasks


async def test_requests_under_way_are_answered() -> None:
    slow = SlowHandler()
    async with served(slow.answer) as url:
        asking = asyncio.create_task(answered(url))
        await slow.begun.wait()
        asyncio.get_running_loop().call_soon(slow.may_end.set)
    assert await asking == OK


async def test_lines_that_cannot_be_read_are_not_logged_and_a_taken_port_is_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with served() as url:
        answer = await ring(url, path="/", headers=(("Authorization", "Basic c2VjcmV0\x01"),))
        with pytest.raises(OSError, match=r"(?i)address already in use"):
            async with served(port=urlsplit(url).port):
                pytest.fail("nothing can be served there")
    assert answer.status == 400
    assert "c2VjcmV0" not in caplog.text


async def test_a_head_that_comes_in_drops_has_no_more_time() -> None:
    """Otherwise each byte would give as much time as a whole head."""
    async with served(idle_timeout=SOON) as url, AsyncExitStack() as stack:
        reader, writer = await connected(stack, url, b"GET / HTTP/1.1\r\nX-More: ")
        dropped = 0
        while not reader.at_eof() and dropped < 1000:
            dropped += 1
            try:
                writer.write(b"x")
                async with asyncio.timeout(0.02):
                    assert await reader.read() == b""
            except TimeoutError:
                continue
            except ConnectionError:
                break
        assert dropped < 1000


REFUSED: Final = b"POST /elsewhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nsome"


async def test_a_connection_is_kept_for_a_while() -> None:
    """A connection serves several requests; it is closed when idle, and after a refused body."""
    async with (
        asyncio.timeout(8),  # aiohttp's own limits are 10 seconds and more
        served(idle_timeout=SOON) as url,
        AsyncExitStack() as stack,
    ):
        kept, refused = [await connected(stack, url, sent) for sent in (WHOLE + WHOLE, REFUSED)]
        assert (await ended(kept)).count(b" 200 OK") == 2
        assert (await ended(refused)).count(b" 404 ") == 1


TRAILED: Final = (
    b"POST /elsewhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n"
)


async def test_no_request_follows_trailers() -> None:
    """The last of them would be taken for a header of it, wherever the first one went."""
    async with served() as url, AsyncExitStack() as stack:
        answers = await ended(await connected(stack, url, TRAILED + WHOLE))
    assert (answers.count(b" 404 "), answers.count(b" 200 OK")) == (1, 0)


IDLE: Final = (b"", b"POST /call", b"POST /callbacks HTTP/1.1\r\nHost: x\r\nX-More: ")


async def test_idle_connections_make_room(caplog: pytest.LogCaptureFixture) -> None:
    """The oldest ones are closed for new ones, without a wait; one line of the log says so."""
    async with served(idle_timeout=NEVER, max_connections=3) as url, AsyncExitStack() as stack:
        idle = [await connected(stack, url, IDLE[number % 3]) for number in range(10)]
        assert await answered(url) == OK
        for connection in idle[:-2]:
            assert await ended(connection) == b""
        assert not any(reader.at_eof() for reader, _ in idle[-2:])
    assert [record.message for record in caplog.records] == [
        "too many connections are open: the oldest are closed"
    ]


async def test_a_request_that_is_being_answered_makes_room_last() -> None:
    slow = SlowHandler()
    async with (
        served(slow.answer, idle_timeout=NEVER, max_connections=2) as url,
        AsyncExitStack() as stack,
    ):
        reader, _ = await connected(stack, url, WHOLE)
        await slow.begun.wait()
        idle = [await connected(stack, url) for _ in range(5)]
        for connection in idle[:-1]:
            assert await ended(connection) == b""
        slow.may_end.set()
        assert await reader.readline() == OK


@pytest.mark.parametrize("begin", IDLE)
async def test_a_callback_is_answered_beside_many_slow_strangers(begin: bytes) -> None:
    """None of them has to be waited for: no time passes here."""
    async with served(idle_timeout=NEVER) as url, AsyncExitStack() as stack:
        for _ in range(STRANGERS):
            await connected(stack, url, begin)
        assert await answered(url) == OK


async def test_a_callback_is_answered_beside_many_slow_bodies() -> None:
    """A token request is read before it can be refused, so strangers may send it slowly."""
    issuer = CallbackTokenIssuer("me", "s" * 32)
    async with (
        serving(
            [web.get("/", hello), *routes(issuer, "/token")],
            host="127.0.0.1",
            port=0,
            idle_timeout=NEVER,
        ) as url,
        AsyncExitStack() as stack,
    ):
        for _ in range(STRANGERS):
            await connected(stack, url, request_bytes(b"grant", path="/token", length=90))
        assert await answered(url) == OK


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("path", ["/", "/elsewhere", "/token"])
async def test_a_refusal_ends_the_connection(path: str, *, is_told: bool) -> None:
    """Otherwise strangers keep their connections by asking for what they do not get."""
    issuer = CallbackTokenIssuer("me", "s" * 32)
    asked = request_bytes(b"", path=path)
    async with (
        serving(
            [web.get("/", hello), *routes(issuer, "/token")],
            host="127.0.0.1",
            port=0,
            idle_timeout=NEVER,
            on_unknown=(lambda _: None) if is_told else None,
        ) as url,
        AsyncExitStack() as stack,
    ):
        answers = await ended(await connected(stack, url, asked + WHOLE))
    status, *fields = answers.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    assert status.split()[1] in {b"400", b"401", b"404", b"405"}
    assert b"connection: close" in fields
    assert answers.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("path", ["/elsewhere", "/token"])
async def test_a_refusal_ends_the_connection_whatever_a_request_expects(path: str) -> None:
    """Aiohttp would answer an unknown expectation itself, and keep the connection."""
    issuer = CallbackTokenIssuer("me", "s" * 32)
    asked = f"GET {path} HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n".encode()
    async with (
        serving(routes(issuer, "/token"), host="127.0.0.1", port=0, idle_timeout=NEVER) as url,
        AsyncExitStack() as stack,
    ):
        answers = await ended(await connected(stack, url, asked * 3))
    assert b"connection: close" in answers.lower()
    assert answers.count(b"HTTP/1.1") == 1


async def test_a_client_that_waits_to_send_its_body_is_asked_for_it() -> None:
    """Clients such as curl wait like this before a large body."""

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
    async with (
        serving([web.post("/", echo)], host="127.0.0.1", port=0) as url,
        AsyncExitStack() as stack,
        asyncio.timeout(PATIENCE),
    ):
        reader, writer = await connected(stack, url, head)
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"body")
        assert (await reader.readuntil(b"body")).startswith(OK)


@pytest.mark.parametrize("size", [2**24, 2**15])
async def test_a_client_that_does_not_read_its_answer_is_not_waited_for(size: int) -> None:
    """Nor is one whose answer fits into the buffer of the server's transport."""
    transports: list[asyncio.Transport] = []

    async def large(request: web.Request) -> web.Response:
        assert request.transport is not None
        transports.append(request.transport)
        sending = request.transport.get_extra_info("socket")
        sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
        return web.Response(body=bytes(size))

    async with served(large, idle_timeout=SOON) as url:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
            client.connect(("127.0.0.1", urlsplit(url).port))
            client.sendall(WHOLE)
            await until(lambda: any(transport.is_closing() for transport in transports))
            assert len(await asyncio.to_thread(read_all, client)) < size


def read_all(client: socket.socket) -> bytes:
    """Return what a blocking socket receives until the end or a reset."""
    received = bytearray()
    with suppress(ConnectionResetError):
        while piece := client.recv(2**16):
            received += piece
    return bytes(received)


async def test_a_client_that_does_not_speak_tls_is_not_waited_for() -> None:
    """Neither one that is silent, nor one that says something else; others are served."""
    context, trusting = tls_pair()
    async with (
        served(ssl=context, idle_timeout=SOON, max_connections=2) as url,
        AsyncExitStack() as stack,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(**trusting)) as session,
    ):
        held = [await connected(stack, url, begin) for begin in (b"", WHOLE, b"", b"")]
        async with asyncio.timeout(PATIENCE):
            assert await first_answer(session, url) == 200
        for connection in held:
            assert b"200 OK" not in await ended(connection)


async def first_answer(session: aiohttp.ClientSession, url: str) -> int:
    """Ask until there is an answer: on a busy machine a good handshake may take too long too."""
    while True:
        with suppress(aiohttp.ClientError):
            async with session.get(url) as reply:
                return reply.status


async def test_a_limit_is_positive() -> None:
    for limits in ({"idle_timeout": 0}, {"max_connections": 0}):
        with pytest.raises(ConfigurationError):
            async with served(**limits):
                pytest.fail("this serves nobody")
