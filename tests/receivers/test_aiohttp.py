"""The endpoint in aiohttp: what it is told of a request, and what becomes of its answer."""

import gzip
from pathlib import Path

import pytest
from aiohttp import web

from income_client import ConfigurationError
from income_client.receivers.aiohttp import routes
from income_client.receivers.exchange import UNIX_PEER
from tests.support.callback_endpoints import Refusing, Telling
from tests.support.callback_servers import connected, heard, request_bytes, ring, served_by_aiohttp
from tests.support.service import until


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"])
async def test_every_method_leads_to_the_endpoint(method: str) -> None:
    """What is no POST is the endpoint's to refuse."""
    endpoint = Telling()
    async with served_by_aiohttp(endpoint) as url, connected(url) as (reader, writer):
        writer.write(request_bytes(method=method))
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    assert [head.method for head in endpoint.heads] == [method]


async def test_headers_come_in_order_and_undecoded() -> None:
    """Doubled fields, foreign bytes and the spelling of names are kept."""
    endpoint = Telling()
    sent = (("X-One", "a"), ("x-ONE", "\xe4\xff"), ("X-Two", ""), ("X-One", "c"))
    async with served_by_aiohttp(endpoint) as url:
        await ring(url, headers=sent)
    (head,) = endpoint.heads
    assert head.headers[2:] == tuple((n.encode(), v.encode("latin-1")) for n, v in sent)
    assert head.certificate is None


async def test_the_peer_is_the_connection_s() -> None:
    """A middleware that believes a header changes what `request.remote` says, and nothing here."""

    @web.middleware
    async def believing(request: web.Request, handler: web.RequestHandler) -> web.StreamResponse:
        told = request.clone(remote=request.headers["X-Forwarded-For"])
        assert told.remote == "198.51.100.7"
        response: web.StreamResponse = await handler(told)  # type: ignore[operator]
        return response

    endpoint = Telling()
    async with served_by_aiohttp(endpoint, middlewares=(believing,)) as url:
        await ring(url, headers=(("X-Forwarded-For", "198.51.100.7"),))
    assert endpoint.heads[0].peer == "127.0.0.1"


async def test_a_socket_of_the_file_system_is_named_as_such(tmp_path: Path) -> None:
    """Its other end has no address."""
    endpoint = Telling()
    path = tmp_path / "s"
    async with served_by_aiohttp(endpoint, uds=path) as url:
        assert (await ring(url, uds=path)).status == 200
    assert endpoint.heads[0].peer == UNIX_PEER


async def test_large_bodies_are_the_endpoint_s_to_limit() -> None:
    """What aiohttp's own limit would refuse comes through, whole or in chunks."""
    endpoint = Telling()
    body = bytes(5 * 2**20)
    async with served_by_aiohttp(endpoint) as url:
        assert (await ring(url, body)).status == 200
        async with connected(url) as (reader, writer):
            head = b"POST /callbacks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            writer.write(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
            assert (await heard(reader)).status == 200
    assert endpoint.bodies == [body, b"abcde"]


async def test_a_body_that_ends_early_is_told() -> None:
    """The connection ends before as much has come as was announced."""
    endpoint = Telling()
    async with served_by_aiohttp(endpoint) as url:
        async with connected(url) as (_, writer):
            writer.write(request_bytes(b"abc", length=99))
            await writer.drain()
        await until(lambda: len(endpoint.bodies) == 1)
    assert endpoint.bodies == [None]


async def test_wrong_framing_that_comes_with_the_head_is_aiohttp_s_to_refuse() -> None:
    """It is answered before the endpoint hears of the request."""
    endpoint = Telling()
    async with served_by_aiohttp(endpoint) as url, connected(url) as (reader, writer):
        head = b"POST /callbacks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head + b"3\r\nabc\r\nnothing of the kind\r\n")
        assert (await reader.readline()).split(b" ")[1] == b"400"
    assert endpoint.heads == []


async def test_a_compressed_body_is_not_unpacked_for_an_endpoint_that_refuses_it() -> None:
    """The answer comes without the body."""
    endpoint = Refusing()
    bomb = gzip.compress(bytes(2**24))
    async with served_by_aiohttp(endpoint) as url, connected(url) as (reader, writer):
        fields = (("Content-Encoding", "gzip"),)
        writer.write(request_bytes(bomb[:100], headers=fields, length=len(bomb)))
        answer = await heard(reader)
        assert answer.status == 413
        assert answer.headers["connection"] == "close"


async def test_the_connection_ends_after_a_body_that_was_not_read() -> None:
    """The rest of it is no further request."""
    endpoint = Refusing()
    async with served_by_aiohttp(endpoint) as url, connected(url) as (reader, writer):
        writer.write(request_bytes(b"abc") + request_bytes())
        assert (await heard(reader)).status == 413
        assert await reader.read() == b""
    assert len(endpoint.heads) == 1


async def test_a_connection_serves_many_requests() -> None:
    """What was read to its end is followed by the next."""
    endpoint = Telling()
    async with served_by_aiohttp(endpoint) as url, connected(url) as (reader, writer):
        for body in (b"1", b"22"):
            writer.write(request_bytes(body))
            answer = await heard(reader)
            assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert endpoint.bodies == [b"1", b"22"]


def test_what_is_no_endpoint_is_refused_at_once() -> None:
    """Not at the first request."""
    with pytest.raises(ConfigurationError):
        routes(print, "/callbacks")  # type: ignore[arg-type]
