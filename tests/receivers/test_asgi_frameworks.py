"""The endpoint within applications of three frameworks, on real uvicorn servers."""

from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from litestar import Litestar, asgi
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.routing import Route

from income_client.protocol.callbacks.exchange import REWRITTEN_PEER, UNIX_PEER
from income_client.receivers.asgi import Receiver
from income_client.receivers.uvicorn import H11Protocol, HttpToolsProtocol
from tests.support.callback_endpoints import Refusing, Telling
from tests.support.callback_servers import connected, heard, request_bytes, ring, served_by_uvicorn
from tests.support.service import until

PROTOCOLS = ["h11", "httptools"]


def fastapi(app: Receiver) -> FastAPI:
    """Return an application with a route that leads to it."""
    return FastAPI(routes=[Route("/callbacks", app)])


def starlette(app: Receiver) -> Starlette:
    """Return one of Starlette's, with a middleware of the kind that wraps both directions."""

    async def passing(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    middleware = Middleware(BaseHTTPMiddleware, dispatch=passing)
    return Starlette(routes=[Route("/callbacks", app)], middleware=[middleware])


def litestar(app: Receiver) -> Litestar:
    """Return one of Litestar's."""
    return Litestar([asgi("/callbacks", copy_scope=True)(app)], logging_config=None)


@pytest.mark.parametrize("http", PROTOCOLS)
@pytest.mark.parametrize("framework", [fastapi, starlette, litestar])
async def test_callbacks_reach_it_in_each_framework(framework: Any, http: str) -> None:
    """On the path as it was given, without a redirect, whatever the method."""
    endpoint = Telling()
    async with served_by_uvicorn(framework(Receiver(endpoint)), http=http) as url:
        answer = await ring(url, b'{"a": 1}')
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.body == b'{"method":"POST","peer":"127.0.0.1","bytes":8}'
        assert (await ring(url, method="DELETE")).status == 200
        assert (await ring(url, path="/elsewhere")).status == 404
    assert [head.method for head in endpoint.heads] == ["POST", "DELETE"]


@pytest.mark.parametrize("http", PROTOCOLS)
async def test_a_connection_serves_many_requests(http: str) -> None:
    """What was read to its end is followed by the next."""
    endpoint = Telling()
    app = Receiver(endpoint)
    async with served_by_uvicorn(app, http=http) as url, connected(url) as (reader, writer):
        for body in (b"1", b"2" * 300_000):
            writer.write(request_bytes(body))
            assert (await heard(reader)).status == 200
    assert [len(body or b"") for body in endpoint.bodies] == [1, 300_000]


@pytest.mark.parametrize("http", PROTOCOLS)
async def test_a_body_that_is_not_read_is_no_further_request(http: str) -> None:
    """The connection ends after the answer; and nobody was told to send the body."""
    endpoint = Refusing()
    app = Receiver(endpoint)
    async with served_by_uvicorn(app, http=http) as url, connected(url) as (reader, writer):
        writer.write(request_bytes(length=9, headers=(("Expect", "100-continue"),)))
        answer = await heard(reader)
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert await reader.read() == b""
    assert len(endpoint.heads) == 1


@pytest.mark.parametrize("http", PROTOCOLS)
async def test_a_body_that_is_cut_is_told(http: str) -> None:
    """The client goes away in the middle of it."""
    endpoint = Telling()
    async with served_by_uvicorn(Receiver(endpoint), http=http) as url:
        async with connected(url) as (_, writer):
            writer.write(request_bytes(b"ab", length=9))
            await writer.drain()
        await until(lambda: len(endpoint.bodies) == 1)
        assert (await ring(url)).status == 200
    assert endpoint.bodies == [None, b"{}"]


@pytest.mark.parametrize("http", [*PROTOCOLS, H11Protocol, HttpToolsProtocol])
async def test_a_socket_of_the_file_system_is_named_as_such(http: Any, tmp_path: Path) -> None:
    """Whether uvicorn says it or the connection."""
    endpoint = Telling()
    path = tmp_path / "s"
    async with served_by_uvicorn(Receiver(endpoint), http=http, uds=path) as url:
        assert (await ring(url, uds=path)).status == 200
    assert endpoint.heads[0].peer == UNIX_PEER


@pytest.mark.parametrize(
    ("http", "proxy_headers", "peer"),
    [
        ("h11", True, REWRITTEN_PEER),
        ("httptools", True, REWRITTEN_PEER),
        ("h11", False, REWRITTEN_PEER),
        ("httptools", False, REWRITTEN_PEER),
        (H11Protocol, True, "127.0.0.1"),
        (HttpToolsProtocol, True, "127.0.0.1"),
    ],
)
async def test_forwarded_addresses_do_not_take_the_place_of_the_peer(
    http: Any, proxy_headers: bool, peer: str
) -> None:
    """Uvicorn's middleware, on by default, is seen through, or is told from."""
    endpoint = Telling()
    app = Receiver(endpoint)
    async with served_by_uvicorn(app, http=http, proxy_headers=proxy_headers) as url:
        for hop in ("198.51.100.7", "198.51.100.7:4711"):
            await ring(url, headers=(("X-Forwarded-For", hop),))
        await ring(url)
    assert [head.peer for head in endpoint.heads] == [peer, peer, "127.0.0.1"]
