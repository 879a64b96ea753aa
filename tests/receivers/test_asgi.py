"""The endpoint in ASGI, by the specification alone: messages in, messages out."""

import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import partial
from typing import Any, Final

import pytest
import trustme
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from income_client import ConfigurationError
from income_client.receivers.aiohttp import routes
from income_client.receivers.asgi import Receiver
from income_client.receivers.exchange import REWRITTEN_PEER, UNIX_PEER, RequestHead, make_answer
from tests.support.callback_certificates import der_of, issued, pem_of
from tests.support.callbacks import Recording

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


async def test_a_request_is_answered_with_json_and_its_length() -> None:
    start, body = await sent_by(Receiver(Recording()), scope_of())
    assert start["status"] == 200
    assert dict(start["headers"])[b"content-length"] == b"%d" % len(body["body"])
    assert dict(start["headers"])[b"content-type"] == b"application/json"
    assert body["body"] == b'{"method":"POST","peer":"192.0.2.9","bytes":2}'


async def test_a_body_comes_in_pieces() -> None:
    """Their members may be left out, as the specification has it; the client may go away."""
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
    """Where the version of HTTP has that header; in others it would be an error."""
    app = Receiver(Recording(refuses=True))
    for version, closes in (("1.0", True), ("1.1", True), ("2", False)):
        start, _ = await sent_by(app, scope_of(http_version=version), ())
        assert start["status"] == 413
        assert ((b"connection", b"close") in start["headers"]) is closes


async def test_it_may_be_the_whole_application() -> None:
    """It starts and stops, and serves nothing but HTTP."""

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


async def test_with_a_forwarding_header_no_peer_is_believed() -> None:
    """The address may be the header's, unless the caller says that the server's is true."""
    for name, value in (
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
    """Where a request was refused and its peer had been rewritten; else it says nothing."""
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
