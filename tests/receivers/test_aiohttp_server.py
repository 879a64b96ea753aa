"""A server for routes while a block runs; idle connections keep nobody out for long."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import pytest
import trustme
from aiohttp import web

from income_client import ConfigurationError
from income_client.receivers.aiohttp_server import serving
from tests.support.callback_servers import ring


async def _hello(_: web.Request) -> web.Response:
    return web.json_response("hello")


_HOSTS = {"127.0.0.1": "127.0.0.1"} | ({"::1": "[::1]"} if socket.has_dualstack_ipv6() else {})


@pytest.mark.parametrize(("host", "named"), _HOSTS.items())
async def test_routes_are_served_inside(host: str, named: str) -> None:
    """Inside the block the address answers, afterwards nobody does, and no task is left."""
    tasks = asyncio.all_tasks()
    async with aiohttp.ClientSession() as session:
        async with serving([web.get("/", _hello)], host=host, port=0) as url:
            assert url.startswith(f"http://{named}:")
            async with session.get(url) as reply:
                assert await reply.json() == "hello"
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= tasks


async def test_requests_under_way_are_answered() -> None:
    """A request that is being handled when the block ends still gets its answer."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        begun.set()
        await may_end.wait()
        return web.json_response("done")

    async with aiohttp.ClientSession() as session:

        async def ask(url: str) -> object:
            async with session.get(url) as reply:
                return await reply.json()

        async with serving([web.get("/", slow)], host="127.0.0.1", port=0) as url:
            asking = asyncio.create_task(ask(url))
            await begun.wait()
            asyncio.get_running_loop().call_soon(may_end.set)
        assert await asking == "done"


async def test_a_request_for_nothing_is_told() -> None:
    """With its path, and answered in JSON."""
    told: list[str] = []
    routes = [web.get("/", _hello)]
    async with (
        serving(routes, host="127.0.0.1", port=0, on_unknown=told.append) as url,
        aiohttp.ClientSession() as session,
        session.post(f"{url}/callback") as reply,
    ):
        assert (reply.status, await reply.json()) == (404, {"error": "Not Found"})
    assert told == ["/callback"]


async def test_lines_that_cannot_be_read_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Credentials may stand in them."""
    caplog.set_level(logging.DEBUG)
    async with serving([web.get("/", _hello)], host="127.0.0.1", port=0) as url:
        answer = await ring(url, path="/", headers=(("Authorization", "Basic c2VjcmV0\x01"),))
    assert answer.status == 400
    assert "c2VjcmV0" not in caplog.text


async def test_a_taken_port_is_an_error() -> None:
    """A port that somebody else has is an OSError before the block begins."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match=r"(?i)address already in use"):
            async with serving([], host="127.0.0.1", port=taken.getsockname()[1]):
                pytest.fail("nothing can be served there")


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
SOON: Final = 0.05
NEVER: Final = 3600.0
WHOLE: Final = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


HALVES: Final = {
    "nothing": b"",
    "half-a-line": b"POST /call",
    "half-a-head": b"POST /callbacks HTTP/1.1\r\nHost: x\r\nX-More: ",
}


@asynccontextmanager
async def served(**limits: Any) -> AsyncIterator[str]:
    """Serve a route that answers at once."""
    async with serving([web.get("/", _hello)], host="127.0.0.1", port=0, **limits) as url:
        yield url


async def connected(stack: AsyncExitStack, url: str, begin: bytes = b"") -> Connection:
    """Connect, and send something."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)

    async def close() -> None:
        writer.transport.abort()

    stack.push_async_callback(close)
    writer.write(begin)
    await writer.drain()
    return reader, writer


async def ended(connection: Connection) -> bytes:
    """Wait until the server closes a connection, and return what it sent before."""
    try:
        async with asyncio.timeout(20):
            return await connection[0].read()
    except ConnectionResetError:
        return b""


async def answered(url: str) -> bytes:
    """Send a whole request on a connection of its own, and return the first line of the answer."""
    async with AsyncExitStack() as stack, asyncio.timeout(20):
        reader, _ = await connected(stack, url, WHOLE)
        return await reader.readline()


async def test_a_head_that_comes_in_drops_has_no_more_time() -> None:
    """Each byte would otherwise buy as much time as a whole head."""
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


async def test_a_connection_is_kept_for_a_while_between_requests() -> None:
    """It serves several requests, and is closed when no further one comes."""
    async with served(idle_timeout=SOON) as url, AsyncExitStack() as stack:
        connection = await connected(stack, url, WHOLE + WHOLE)
        assert (await ended(connection)).count(b"200 OK") == 2


async def test_the_rest_of_a_refused_body_is_not_waited_for() -> None:
    """Who is answered early and sends on gets the answer, and then the end."""
    head = b"POST /elsewhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nsome"
    async with served(idle_timeout=SOON) as url, AsyncExitStack() as stack:
        assert b" 404 " in await ended(await connected(stack, url, head))


@pytest.mark.parametrize("begin", HALVES.values(), ids=HALVES.keys())
async def test_a_request_waits_for_idle_connections_no_longer_than_they_may_stay(
    begin: bytes,
) -> None:
    """However many of them there are, each makes room once its time is over."""
    async with served(idle_timeout=SOON, max_connections=3) as url, AsyncExitStack() as stack:
        idle = [await connected(stack, url, begin) for _ in range(10)]
        assert await answered(url) == b"HTTP/1.1 200 OK\r\n"
        for connection in idle[:7]:
            assert await ended(connection) == b""


async def test_no_more_connections_than_that_are_served_at_a_time() -> None:
    """A further one waits, and is served after them."""
    begun, may_end = asyncio.Semaphore(0), asyncio.Event()
    at_once = 0

    async def slow(_: web.Request) -> web.Response:
        nonlocal at_once
        at_once += 1
        assert at_once <= 2
        begun.release()
        await may_end.wait()
        at_once -= 1
        return web.Response(headers={"Connection": "close"})

    limits: dict[str, Any] = {"idle_timeout": NEVER, "max_connections": 2}
    async with serving([web.get("/", slow)], host="127.0.0.1", port=0, **limits) as url:
        asking = [asyncio.create_task(answered(url)) for _ in range(5)]
        for _ in range(2):
            await begun.acquire()
        assert not any(one.done() for one in asking)
        may_end.set()
        assert await asyncio.gather(*asking) == [b"HTTP/1.1 200 OK\r\n"] * 5


async def test_a_client_that_does_not_speak_tls_is_not_waited_for() -> None:
    """Neither one that is silent, nor one that says something else; others are served."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with (
        served(ssl=context, idle_timeout=SOON, max_connections=2) as url,
        AsyncExitStack() as stack,
    ):
        held = [await connected(stack, url, begin) for begin in (b"", WHOLE, b"", b"")]
        port = urlsplit(url).port
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
            writer.write(WHOLE)
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        writer.transport.abort()
        for connection in held:
            assert b"200 OK" not in await ended(connection)


async def test_every_address_of_a_host_is_served() -> None:
    """However few connections may be open, none of them is kept for one of the addresses."""
    limits: dict[str, Any] = {"idle_timeout": SOON, "max_connections": 1}
    async with serving([web.get("/", _hello)], host="", port=0, **limits) as url:
        assert await answered(url) == b"HTTP/1.1 200 OK\r\n"


async def test_too_many_connections_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A line says so, however many there are: clients must not be able to fill the disk."""
    async with served(idle_timeout=SOON, max_connections=1) as url, AsyncExitStack() as stack:
        for _ in range(5):
            await connected(stack, url, b"GET")
        assert await answered(url) == b"HTTP/1.1 200 OK\r\n"
    assert [record.message for record in caplog.records] == [
        "too many connections are open: others wait until some are closed"
    ]


@pytest.mark.parametrize(
    "limits", [{"idle_timeout": 0}, {"max_connections": 0}], ids=["idle", "connections"]
)
async def test_a_limit_is_positive(limits: dict[str, Any]) -> None:
    """None at all cannot be asked for."""
    with pytest.raises(ConfigurationError):
        async with served(**limits):
            pytest.fail("this serves nobody")
