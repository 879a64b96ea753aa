"""The endpoint on real servers: the requests it gets, and the answers that are sent."""

import base64
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
from aiohttp import web
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from income_client import ConfigurationError
from income_client.receivers import (
    Callback,
    CallbackClientCertificate,
    CallbackReceiver,
    CallbackTokenIssuer,
)
from income_client.receivers.adapters import Endpoint, endpoint_of
from income_client.receivers.aiohttp import routes
from income_client.receivers.asgi import Receiver
from income_client.receivers.exchange import REWRITTEN_PEER, UNIX_PEER, RequestHead, make_answer
from income_client.receivers.tls import callback_ssl_context
from income_client.receivers.uvicorn import H11Protocol
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
from tests.support.identities import SERVICE, Papers, der_of, issued, pem_of
from tests.support.service import until

CHUNKED = b"POST /callbacks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

each_server = pytest.mark.parametrize("http", ["aiohttp", "h11", "httptools"])
each_of_ours = pytest.mark.parametrize("http", ["aiohttp", H11Protocol])


def served(endpoint: Endpoint, http: Any, **options: Any) -> AbstractAsyncContextManager[str]:
    if http == "aiohttp":
        return served_by_aiohttp(endpoint, **options)
    return served_by_uvicorn(Receiver(endpoint), http=http, **options)


@each_server
async def test_a_connection_serves_many_requests_and_a_cut_body_is_noticed(http: str) -> None:
    endpoint = Recording()
    async with served(endpoint, http) as url:
        async with connected(url) as (reader, writer):
            for body in (b"1", b"2" * 2**21):
                writer.write(request_bytes(body))
                answer = await read_reply(reader)
                assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
            writer.write(request_bytes(b"ab", length=9))
            await writer.drain()
        await until(lambda: len(endpoint.bodies) == 3)
        assert (await ring(url)).status == 200
    assert endpoint.bodies == [b"1", b"2" * 2**21, None, b"{}"]


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


@pytest.mark.parametrize("http", ["aiohttp", "h11", "httptools", H11Protocol])
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
        (H11Protocol, True, "127.0.0.1"),
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


async def test_certificates_are_those_that_tls_has_verified(papers: Papers) -> None:
    """A server without client authorities ignores a certificate that a client sends."""
    endpoint, paper = Recording(), papers.service()
    asking = callback_ssl_context(**papers.files, client_certificates="optional")
    async with served_by_aiohttp(endpoint, asking) as url:
        for one in (paper, None):
            assert (await ring(url, ssl=papers.client(one))).status == 200
    silent = callback_ssl_context(**papers.files | {"client_ca": None})
    async with served_by_aiohttp(endpoint, silent) as url:
        assert (await ring(url, ssl=papers.client(papers.stranger()))).status == 200
    assert [head.certificate for head in endpoint.heads] == [der_of(paper), None, None]


@each_of_ours
async def test_trailers_are_no_headers(http: Any) -> None:
    """Anybody may have written trailers, and the next request may be another client's."""
    endpoint = Recording()
    async with served(endpoint, http) as url, connected(url) as (reader, writer):
        writer.write(CHUNKED + b"2\r\n{}\r\n0\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n")
        writer.write(request_bytes(headers=(("Connection", "close"),)))
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    # After aiohttp has read trailers, no request follows on the same connection.
    assert endpoint.bodies == [b"{}"] * (1 if http == "aiohttp" else 2)
    for head in endpoint.heads:
        assert head.values(b"x-forwarded-for") == ()


@pytest.mark.parametrize("is_unix", [False, True], ids=["TCP", "unix"])
@pytest.mark.parametrize("trailer", ["Client-Cert", "X-SSL-Client-Verify"])
@pytest.mark.parametrize("http", ["httptools", "h11", H11Protocol, "aiohttp"])
async def test_a_trailer_proves_no_certificate(
    http: Any, trailer: str, papers: Papers, tmp_path: Path, *, is_unix: bool
) -> None:
    """A trusted proxy removes such header fields of a client, and passes its trailers on.

    A server that takes trailers for header fields must be noticed, or any client passes.
    """
    verified = None if trailer == "Client-Cert" else (trailer, "SUCCESS")
    holder = CallbackClientCertificate(
        san=SERVICE, proxy_header="Client-Cert", verified_header=verified
    )
    callbacks: list[Callback] = []
    receiver = CallbackReceiver(
        callbacks.append, auth=holder, trusted_proxies=["127.0.0.1", "unix:"]
    )
    fields = {
        "Client-Cert": f":{base64.b64encode(der_of(papers.service())).decode()}:",
        "X-SSL-Client-Verify": "SUCCESS",
    }
    named = {name: f"{name}: {value}\r\n".encode() for name, value in fields.items()}
    smuggled = named.pop(trailer)
    content = b"Content-Type: application/json\r\n"
    head = CHUNKED.removesuffix(b"\r\n") + content + b"".join(named.values()) + b"\r\n"
    uds = tmp_path / "s" if is_unix else None
    async with served(receiver, http, uds=uds) as url, connected(url, uds=uds) as (reader, writer):
        writer.write(head + b"2\r\n{}\r\n0\r\n" + smuggled + b"\r\n")
        assert (await read_reply(reader)).status == 403
    assert callbacks == []


@each_of_ours
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


# ASGI by the specification alone: messages in, messages out


PAPER = issued(trustme.CA())
DER, PEM = der_of(PAPER), pem_of(PAPER)
OTHER = pem_of(issued(trustme.CA(), "elsewhere.example"))
REQUEST: Final[dict[str, Any]] = {"type": "http.request"}
GONE: Final[dict[str, Any]] = {"type": "http.disconnect"}


WHOLE: Final = ({"type": "http.request", "body": b"{}"},)


def scope_of(**changed: Any) -> dict[str, Any]:
    """Return the ASGI scope of a callback."""
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/callbacks",
        "headers": [(b"content-type", b"application/json")],
        "client": ("192.0.2.9", 4711),
        "server": ("192.0.2.1", 443),
    } | changed


async def sent_by(
    app: Callable[[Any, Any, Any], Awaitable[None]],
    scope: dict[str, Any],
    messages: Iterable[dict[str, Any]] = WHOLE,
) -> list[MutableMapping[str, Any]]:
    """Return what an ASGI application sends upon these messages."""
    sent: list[MutableMapping[str, Any]] = []
    coming = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(coming)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


async def head_in(scope: dict[str, Any]) -> RequestHead:
    """Return the head that an endpoint gets from an ASGI scope."""
    endpoint = Recording()
    await sent_by(Receiver(endpoint), scope)
    return endpoint.heads[0]


async def test_a_body_comes_in_pieces() -> None:
    """Optional members of a message may be absent (ASGI), and the client may disconnect."""
    begin, more = {**REQUEST, "body": b"ab", "more_body": True}, {**REQUEST, "more_body": True}
    endpoint = Recording()
    for pieces in ([REQUEST], [begin, more, {**REQUEST, "body": b"c"}], [begin, GONE]):
        await sent_by(Receiver(endpoint), scope_of(), pieces)
    assert endpoint.bodies == [b"", b"abc", None]


async def test_a_client_that_has_gone_is_no_error() -> None:
    """Some servers raise when there is nobody left to send to."""

    async def gone(message: MutableMapping[str, Any]) -> None:
        raise ConnectionResetError

    async def receive() -> dict[str, Any]:
        return REQUEST

    await Receiver(Recording())(scope_of(), receive, gone)


async def test_a_body_that_was_not_read_ends_the_connection() -> None:
    """The reply has the header Connection: close in HTTP/1; in HTTP/2 it would be an error."""
    app = Receiver(Recording(refuses=True))
    for version, closes in (("1.0", True), ("1.1", True), ("2", False)):
        start, _ = await sent_by(app, scope_of(http_version=version), ())
        assert start["status"] == 413
        assert ((b"connection", b"close") in start["headers"]) is closes


async def test_it_may_be_the_whole_application() -> None:
    """The application starts and stops with the server, and serves nothing but HTTP."""

    async def types_sent(kind: str, *came: str) -> list[str]:
        messages = [{"type": f"{kind}.{one}"} for one in came]
        return [one["type"] for one in await sent_by(app, {"type": kind}, messages)]

    app = Receiver(Recording())
    started = await types_sent("lifespan", "startup", "shutdown")
    assert started == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert await types_sent("websocket", "connect") == ["websocket.close"]
    with pytest.raises(ConfigurationError):
        await types_sent("postcard")


def test_what_is_not_an_endpoint_is_refused_at_once() -> None:
    nothing: Any = print
    for make in (Receiver, partial(routes, path="/callbacks")):
        with pytest.raises(ConfigurationError):
            make(nothing)


def tls(**changed: Any) -> dict[str, Any]:
    return {"tls": {"client_cert_chain": [PEM], "client_cert_error": None} | changed}


CERTIFICATES: Final[tuple[tuple[Any, bytes | None], ...]] = (
    (tls(), DER),
    (tls(client_cert_chain=(PEM, OTHER)), DER),
    (None, None),
    ({}, None),
    ({"tls": None}, None),
    ({"tls": {}}, None),
    *((tls(client_cert_chain=one), None) for one in ([], None, ["none", PEM], [DER])),
    (tls(client_cert_error="unable to get local issuer certificate"), None),
    (tls(client_cert_error=""), None),
)


async def test_a_certificate_comes_by_the_tls_extension() -> None:
    """The first of the chain, if it can be read and the server finds nothing wrong with it."""
    for extensions, certificate in CERTIFICATES:
        assert (await head_in(scope_of(extensions=extensions))).certificate == certificate


def forwarded(value: str, name: bytes = b"x-forwarded-for", **changed: Any) -> dict[str, Any]:
    return scope_of(headers=[(name, value.encode("latin-1"))], **changed)


TCP: Final = ("192.0.2.1", 443)
ENDS: Final[tuple[tuple[Any, Any, str | None], ...]] = (
    (("192.0.2.9", 4711), TCP, "192.0.2.9"),
    (["2001:db8::9", 1], TCP, "2001:db8::9"),
    *((None, server, None) for server in (TCP, None, ("", None))),
    *((None, server, UNIX_PEER) for server in (("/s", None), ["/s", None])),
    (("192.0.2.9", 4711), ("/s", None), REWRITTEN_PEER),
    *((("192.0.2.9", port), TCP, REWRITTEN_PEER) for port in (0, None, -4711, 70000)),
    ((None, 4711), TCP, REWRITTEN_PEER),
)


async def test_who_the_other_end_is() -> None:
    """An address with a port that connections have; a socket of the file system; or unknown."""
    for client, server, peer in ENDS:
        assert (await head_in(scope_of(client=client, server=server))).peer == peer


async def test_with_a_doubtful_header_no_peer_is_believed() -> None:
    """The address may be a header's, or a header a trailer, unless the caller knows the server."""
    for name, value in (
        (b"Transfer-Encoding", "chunked"),
        (b"trailer", "Client-Cert"),
        *((b"X-Forwarded-For", value) for value in ("198.51.100.7", "192.0.2.9", "", "unix:")),
        (b"x-real-ip", "198.51.100.7"),
        (b"Forwarded", "for=192.0.2.9"),
    ):
        scope, endpoint = forwarded(value, name), Recording()
        assert (await head_in(scope)).peer == REWRITTEN_PEER
        await sent_by(Receiver(endpoint, is_peer_true=True), scope)
        assert endpoint.heads[0].peer == "192.0.2.9"


IPV4 = "198.51.100.7"
HOPS = [
    IPV4,
    *(f"{IPV4}:{port}" for port in ("4711", " 4711 ", "+4711", "4_711", "04711", "-4711", "99999")),
    *("[2001:db8::7]:4711", "[2001:db8::7]", "2001:db8::7", "somebody", "somebody:4711", "unix:"),
    *("127.0.0.1:4711", f"203.0.113.9, {IPV4}:4711", f"{IPV4}:4711, 127.0.0.1"),
    *("127.0.0.1:4711, 127.0.0.1:4712", f"[::ffff:{IPV4}%a;b]:80", '[::ffff:127.0.0.1%a"b]:80'),
    "1:1," * 20_000,
]


@pytest.mark.parametrize("trusted", ["127.0.0.1", "*", "127.0.0.1, 198.51.100.7"])
async def test_an_address_that_uvicorn_took_from_a_header_is_not_believed(trusted: str) -> None:
    """Neither as a source nor as a proxy, however it was written."""
    for hop in HOPS:
        endpoint = Recording()
        app = ProxyHeadersMiddleware(Receiver(endpoint), trusted)  # type: ignore[arg-type]
        await sent_by(app, forwarded(hop, client=("127.0.0.1", 40312)))
        await sent_by(app, forwarded(hop, client=None, server=("/s", None)))
        over_tcp, over_unix = endpoint.heads
        assert over_tcp.peer == REWRITTEN_PEER
        assert over_unix.peer == (REWRITTEN_PEER if trusted == "*" else UNIX_PEER)


class Forbidding(Recording):
    """Answers 403."""

    async def answer(self, head: Any, body: Any) -> Any:
        return make_answer(403)


async def test_the_log_says_once_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    """Only a refusal whose peer address a proxy has rewritten is logged, and only once."""
    rewritten = forwarded(IPV4, client=(IPV4, 0))
    with caplog.at_level(logging.INFO):
        await sent_by(Receiver(Recording()), rewritten)
        await sent_by(Receiver(Forbidding()), scope_of())
        assert not caplog.records
        app = Receiver(Forbidding())
        for _ in range(2):
            await sent_by(app, rewritten)
    (record,) = caplog.records
    assert record.name == "income_client.receivers"
    assert "uvicorn:H11Protocol" in record.getMessage()
    assert IPV4 not in record.getMessage()
