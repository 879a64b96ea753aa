"""The endpoint in ASGI, by the specification alone: messages in, messages out."""

from collections.abc import MutableMapping
from typing import Any

import pytest
import trustme

from income_client import ConfigurationError
from income_client.receivers.aiohttp import routes
from income_client.receivers.asgi import Receiver
from tests.support.callback_certificates import der_of, issued, pem_of
from tests.support.callback_endpoints import Refusing, Telling
from tests.support.callback_scopes import scope_of, sent_by, told

CA = trustme.CA()
PAPER = issued(CA)
DER, PEM = der_of(PAPER), pem_of(PAPER)


async def test_a_request_is_answered_with_json_and_its_length() -> None:
    """The head reaches the endpoint, the answer the server."""
    start, body = await sent_by(Receiver(Telling()), scope_of())
    assert start["status"] == 200
    assert dict(start["headers"])[b"content-length"] == b"%d" % len(body["body"])
    assert dict(start["headers"])[b"content-type"] == b"application/json"
    assert body["body"] == b'{"method":"POST","peer":"192.0.2.9","bytes":2}'


async def test_a_body_comes_in_pieces() -> None:
    """Their members may be left out, as the specification has it."""
    endpoint = Telling()
    pieces: list[dict[str, Any]] = [
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "more_body": True},
        {"type": "http.request", "body": b"c"},
    ]
    await sent_by(Receiver(endpoint), scope_of(), pieces)
    await sent_by(Receiver(endpoint), scope_of(), [{"type": "http.request"}])
    assert endpoint.bodies == [b"abc", b""]


async def test_a_body_that_ends_early_is_told() -> None:
    """The client has gone before it had sent all."""
    endpoint = Telling()
    pieces: list[dict[str, Any]] = [
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.disconnect"},
    ]
    await sent_by(Receiver(endpoint), scope_of(), pieces)
    assert endpoint.bodies == [None]


async def test_a_client_that_has_gone_is_no_error() -> None:
    """Some servers raise when there is nobody left to send to."""

    async def gone(message: MutableMapping[str, Any]) -> None:
        raise ConnectionResetError

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    await Receiver(Telling())(scope_of(), receive, gone)


@pytest.mark.parametrize(("version", "closes"), [("1.0", True), ("1.1", True), ("2", False)])
async def test_a_body_that_was_not_read_ends_the_connection(version: str, closes: bool) -> None:
    """Where the version of HTTP has that header; in others it would be an error."""
    start, _ = await sent_by(Receiver(Refusing()), scope_of(http_version=version), ())
    assert start["status"] == 413
    assert ((b"connection", b"close") in start["headers"]) is closes


async def test_it_may_be_the_whole_application() -> None:
    """Its life begins and ends without ado, and nothing but HTTP is served."""
    life = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent = await sent_by(Receiver(Telling()), {"type": "lifespan"}, life)
    assert [one["type"] for one in sent] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    sent = await sent_by(
        Receiver(Telling()), {"type": "websocket"}, [{"type": "websocket.connect"}]
    )
    assert [one["type"] for one in sent] == ["websocket.close"]
    with pytest.raises(ConfigurationError):
        await sent_by(Receiver(Telling()), {"type": "postcard"})


def test_what_is_no_endpoint_is_refused_at_once() -> None:
    """Not at the first request."""
    with pytest.raises(ConfigurationError):
        Receiver(print)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        routes(print, "/callbacks")  # type: ignore[arg-type]


def tls(**changed: Any) -> dict[str, Any]:
    """Return the TLS extension of a scope in which a certificate came."""
    return {"tls": {"client_cert_chain": [PEM], "client_cert_error": None} | changed}


async def test_a_certificate_comes_by_the_tls_extension() -> None:
    """The first of the chain is the client's."""
    other = pem_of(issued(CA, "elsewhere.example"))
    assert (await told(scope_of(extensions=tls()))).certificate == DER
    chain = (PEM, other)
    assert (await told(scope_of(extensions=tls(client_cert_chain=chain)))).certificate == DER


@pytest.mark.parametrize(
    "extensions",
    [
        None,
        {},
        {"tls": None},
        {"tls": {}},
        tls(client_cert_chain=[]),
        tls(client_cert_chain=None),
        tls(client_cert_chain=["no certificate", PEM]),
        tls(client_cert_chain=[DER]),
        tls(client_cert_error="unable to get local issuer certificate"),
        tls(client_cert_error=""),
    ],
)
async def test_what_is_not_verified_is_no_certificate(extensions: Any) -> None:
    """None came, none can be read, or the server says that something is wrong with it."""
    assert (await told(scope_of(extensions=extensions))).certificate is None
