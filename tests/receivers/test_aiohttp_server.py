"""A server for routes while a block runs."""

import asyncio
import logging
import socket

import aiohttp
import pytest
from aiohttp import web

from income_client.receivers.aiohttp_server import serving
from tests.support.callback_servers import ring


async def _hello(_: web.Request) -> web.Response:
    return web.json_response("hello")


_HOSTS = {"127.0.0.1": "127.0.0.1"} | ({"::1": "[::1]"} if socket.has_dualstack_ipv6() else {})
"""Loopback addresses of this machine, as they are bound and as they stand in an address."""


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
