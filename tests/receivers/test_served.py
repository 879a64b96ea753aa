"""The endpoint on real servers: the requests it gets, and the answers that are sent."""

import gzip
import ssl
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from income_client import Callback, CallbackTokenIssuer
from income_client.receivers import CallbackReceiver
from income_client.receivers.adapters import endpoint_of
from income_client.receivers.asgi import Receiver
from income_client.receivers.exchange import REWRITTEN_PEER, UNIX_PEER
from income_client.receivers.tls import callback_ssl_context
from income_client.receivers.uvicorn import H11Protocol, HttpToolsProtocol
from tests.support.callback_certificates import Papers, der_of
from tests.support.callbacks import (
    AUTHORIZATION,
    BASIC,
    Recording,
    connected,
    read_reply,
    request_bytes,
    ring,
    served_by_aiohttp,
    served_by_uvicorn,
)
from tests.support.service import until

OURS = [H11Protocol, HttpToolsProtocol]
CHUNKED = b"POST /callbacks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

each_server = pytest.mark.parametrize("http", ["aiohttp", "h11", "httptools"])
each_protocol = pytest.mark.parametrize("http", OURS)


def served(endpoint: Recording, http: Any, **options: Any) -> AbstractAsyncContextManager[str]:
    if http == "aiohttp":
        return served_by_aiohttp(endpoint, **options)
    return served_by_uvicorn(Receiver(endpoint), http=http, **options)


@each_server
async def test_a_connection_serves_many_requests_and_a_cut_body_is_noticed(http: str) -> None:
    endpoint = Recording()
    async with served(endpoint, http) as url:
        async with connected(url) as (reader, writer):
            for body in (b"1", b"2" * 300_000):
                writer.write(request_bytes(body))
                answer = await read_reply(reader)
                assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
            writer.write(request_bytes(b"ab", length=9))
            await writer.drain()
        await until(lambda: len(endpoint.bodies) == 3)
        assert (await ring(url)).status == 200
    assert endpoint.bodies == [b"1", b"2" * 300_000, None, b"{}"]


@each_server
async def test_a_body_that_is_not_read_is_no_further_request(http: str) -> None:
    """The connection ends after the answer; with uvicorn, the client need not send the body."""
    expect = () if http == "aiohttp" else (("Expect", "100-continue"),)
    endpoint = Recording(refuses=True)
    async with served(endpoint, http) as url, connected(url) as (reader, writer):
        writer.write(request_bytes(b"abc", length=9 if expect else None, headers=expect))
        writer.write(b"" if expect else request_bytes())
        answer = await read_reply(reader)
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert await reader.read() == b""
    assert len(endpoint.heads) == 1


@pytest.mark.parametrize("http", ["aiohttp", "h11", "httptools", *OURS])
async def test_a_socket_of_the_file_system_is_named_as_such(http: Any, tmp_path: Path) -> None:
    endpoint = Recording()
    path = tmp_path / "s"
    async with served(endpoint, http, uds=path) as url:
        assert (await ring(url, uds=path)).status == 200
    assert endpoint.heads[0].peer == UNIX_PEER


@pytest.mark.parametrize(
    ("http", "proxy_headers", "peer"),
    [
        ("h11", True, REWRITTEN_PEER),
        ("httptools", False, REWRITTEN_PEER),
        *((http, True, "127.0.0.1") for http in OURS),
    ],
)
async def test_forwarded_addresses_do_not_take_the_place_of_the_peer(
    http: Any, proxy_headers: bool, peer: str
) -> None:
    """Uvicorn's middleware, on by default, is seen through, or its work is recognized."""
    endpoint = Recording()
    async with served(endpoint, http, proxy_headers=proxy_headers) as url:
        for hop in ("198.51.100.7", "198.51.100.7:4711"):
            await ring(url, headers=(("X-Forwarded-For", hop),))
        await ring(url)
    assert [head.peer for head in endpoint.heads] == [peer, peer, "127.0.0.1"]


@each_protocol
async def test_certificates_come_by_the_extension_of_asgi(papers: Papers, http: Any) -> None:
    """In PEM, beside what else the scope has; where TLS asks for none, there is none."""
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(dict(scope))
        await Receiver(Recording())(scope, receive, send)

    context = callback_ssl_context(**papers.files, client_certificates="optional")
    paper = papers.service()
    async with served_by_uvicorn(app, context, http=http) as url:
        await ring(url, ssl=papers.client(paper))
        await ring(url, ssl=papers.client())
    with_one, without = (scope["extensions"]["tls"] for scope in scopes)
    assert with_one["client_cert_chain"] == [ssl.DER_cert_to_PEM_cert(der_of(paper))]
    assert without["client_cert_chain"] == []
    assert with_one["client_cert_error"] is None
    assert with_one["tls_version"] == 0x0304
    async with served_by_uvicorn(app, http=http) as url:
        await ring(url)
    assert "tls" not in scopes[-1]["extensions"]
    endpoint = Recording()
    context = callback_ssl_context(**papers.files | {"client_ca": None})
    async with served_by_uvicorn(Receiver(endpoint), context, http=http) as url:
        await ring(url, ssl=papers.client(papers.stranger()))
    assert endpoint.heads[0].certificate is None


@each_protocol
async def test_trailers_are_no_headers(http: Any) -> None:
    """What comes behind the body was written by anybody, and may have passed a proxy."""
    endpoint = Recording()
    async with served(endpoint, http) as url, connected(url) as (reader, writer):
        for _ in range(2):
            writer.write(CHUNKED + b"2\r\n{}\r\n0\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n")
            assert (await read_reply(reader)).status == 200
    for head in endpoint.heads:
        assert head.values(b"x-forwarded-for") == ()
        assert head.values(b"host") == (b"x",)
    assert len(endpoint.heads) == 2


@pytest.mark.parametrize("http", ["aiohttp", *OURS])
async def test_a_body_with_two_lengths_hides_no_request(http: str) -> None:
    """A proxy may take the other length, and send what it hides as somebody's own request."""
    callbacks: list[Callback] = []
    receiver = CallbackReceiver(callbacks.append, auth=BASIC)
    places = {"/callbacks": receiver, "/token": endpoint_of(CallbackTokenIssuer("me", "s" * 32))}
    hidden = request_bytes(b"{}", headers=(("Authorization", AUTHORIZATION),))
    fields = (("Authorization", AUTHORIZATION), ("Transfer-Encoding", "chunked"))
    server = served_by_aiohttp(places)
    if http != "aiohttp":
        server = served_by_uvicorn(places, http=http)
    async with server as url:
        for path in places:
            async with connected(url) as (reader, writer):
                writer.write(request_bytes(b"0\r\n\r\n" + hidden, path=path, headers=fields))
                assert (await read_reply(reader)).status == 400
                assert await reader.read() == b""
    assert callbacks == []


async def test_every_method_leads_to_the_endpoint() -> None:
    endpoint = Recording()
    methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"]
    async with served_by_aiohttp(endpoint) as url:
        for method in methods:
            async with connected(url) as (reader, writer):
                writer.write(request_bytes(method=method))
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    assert [head.method for head in endpoint.heads] == methods


async def test_heads_come_as_they_were_sent() -> None:
    """Fields in order and undecoded; the peer is the connection's, whatever a middleware says."""

    @web.middleware
    async def believing(request: web.Request, handler: web.RequestHandler) -> web.StreamResponse:
        changed = request.clone(remote=request.headers["X-Forwarded-For"])
        assert changed.remote == "198.51.100.7"
        response: web.StreamResponse = await handler(changed)  # type: ignore[operator]
        return response

    endpoint = Recording()
    sent = (
        *(("X-One", "a"), ("x-ONE", "\xe4\xff"), ("X-Two", ""), ("X-One", "c")),
        ("X-Forwarded-For", "198.51.100.7"),
    )
    async with served_by_aiohttp(endpoint, middlewares=(believing,)) as url:
        await ring(url, headers=sent)
    (head,) = endpoint.heads
    assert head.headers[2:] == tuple((n.encode(), v.encode("latin-1")) for n, v in sent)
    assert (head.peer, head.certificate) == ("127.0.0.1", None)


async def test_large_bodies_are_the_endpoint_s_to_limit_and_wrong_framing_is_aiohttp_s() -> None:
    endpoint = Recording()
    body = bytes(5 * 2**20)
    async with served_by_aiohttp(endpoint) as url:
        assert (await ring(url, body)).status == 200
        async with connected(url) as (reader, writer):
            writer.write(CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
            assert (await read_reply(reader)).status == 200
        async with connected(url) as (reader, writer):
            writer.write(CHUNKED + b"3\r\nabc\r\nnothing of the kind\r\n")
            assert (await reader.readline()).split(b" ")[1] == b"400"
    assert (len(endpoint.heads), endpoint.bodies) == (2, [body, b"abcde"])


async def test_a_compressed_body_is_not_unpacked_for_an_endpoint_that_refuses_it() -> None:
    bomb = gzip.compress(bytes(2**24))
    async with (
        served_by_aiohttp(Recording(refuses=True)) as url,
        connected(url) as (reader, writer),
    ):
        fields = (("Content-Encoding", "gzip"),)
        writer.write(request_bytes(bomb[:100], headers=fields, length=len(bomb)))
        answer = await read_reply(reader)
    assert (answer.status, answer.headers["connection"]) == (413, "close")
