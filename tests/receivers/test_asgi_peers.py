"""Whom an ASGI server says a request came from, and when that is not believed."""

import logging
from typing import Any

import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from income_client.receivers.asgi import Receiver
from income_client.receivers.exchange import (
    REWRITTEN_PEER,
    UNIX_PEER,
    Refusal,
    RequestHead,
    answer,
)
from income_client.receivers.networks import TrustedProxies
from tests.support.callback_endpoints import Telling
from tests.support.callback_scopes import scope_of, sent_by, told
from tests.support.refusals import refusal_of

PROXY = ("127.0.0.1", 40312)


def forwarded(*values: str, name: bytes = b"x-forwarded-for", **changed: Any) -> dict[str, Any]:
    """Return a scope with these header fields."""
    return scope_of(headers=[(name, value.encode("latin-1")) for value in values], **changed)


@pytest.mark.parametrize(
    ("changed", "peer"),
    [
        ({}, "192.0.2.9"),
        ({"client": ["2001:db8::9", 1]}, "2001:db8::9"),
        ({"client": None}, None),
        ({"client": None, "server": None}, None),
        ({"client": None, "server": ("", None)}, None),
        ({"client": None, "server": ("/run/app.sock", None)}, UNIX_PEER),
        ({"client": None, "server": ["/run/app.sock", None]}, UNIX_PEER),
        ({"client": ("192.0.2.9", 4711), "server": ("/run/app.sock", None)}, REWRITTEN_PEER),
        ({"client": ("192.0.2.9", 0)}, REWRITTEN_PEER),
        ({"client": ("192.0.2.9", None)}, REWRITTEN_PEER),
        ({"client": ("192.0.2.9", -4711)}, REWRITTEN_PEER),
        ({"client": ("192.0.2.9", 70000)}, REWRITTEN_PEER),
        ({"client": (None, 4711)}, REWRITTEN_PEER),
    ],
)
async def test_who_the_other_end_is(changed: dict[str, Any], peer: str | None) -> None:
    """An address with a port that connections have; a socket of the file system; or unknown."""
    assert (await told(scope_of(**changed))).peer == peer


FORWARDING = [b"X-Forwarded-For", b"x-real-ip", b"Forwarded"]


@pytest.mark.parametrize("name", FORWARDING)
@pytest.mark.parametrize("value", ["198.51.100.7", "192.0.2.9", "", "for=192.0.2.9", "unix:"])
async def test_with_a_forwarding_header_nobody_is_believed(name: bytes, value: str) -> None:
    """The address may be the header's; who knows the server may say that it is not."""
    scope = forwarded(value, name=name)
    assert (await told(scope)).peer == REWRITTEN_PEER
    endpoint = Telling()
    await sent_by(Receiver(endpoint, is_peer_true=True), scope)
    assert endpoint.heads[0].peer == "192.0.2.9"


HOPS = [
    "198.51.100.7",
    "198.51.100.7:4711",
    "198.51.100.7: 4711 ",
    "198.51.100.7:+4711",
    "198.51.100.7:4_711",
    "198.51.100.7:04711",
    "198.51.100.7:-4711",
    "198.51.100.7:99999",
    "[2001:db8::7]:4711",
    "[2001:db8::7]",
    "2001:db8::7",
    "somebody",
    "somebody:4711",
    "unix:",
    "127.0.0.1:4711",
    "203.0.113.9, 198.51.100.7:4711",
    "198.51.100.7:4711, 127.0.0.1",
    "127.0.0.1:4711, 127.0.0.1:4712",
    "[::ffff:198.51.100.7%a;b]:80",
    '[::ffff:127.0.0.1%a"b]:80',
    "1:1," * 20_000,
]


@pytest.mark.parametrize("trusted", ["127.0.0.1", "*", "127.0.0.1, 198.51.100.7"])
@pytest.mark.parametrize("hop", HOPS)
async def test_an_address_that_uvicorn_took_from_a_header_is_not_believed(
    hop: str, trusted: str
) -> None:
    """Neither as a source nor as a proxy, in whichever form it stood there."""
    endpoint = Telling()
    app = ProxyHeadersMiddleware(Receiver(endpoint), trusted)  # type: ignore[arg-type]
    await sent_by(app, forwarded(hop, client=PROXY))
    await sent_by(app, forwarded(hop, client=None, server=("/s", None)))
    over_tcp, over_unix = endpoint.heads
    assert over_tcp.peer == REWRITTEN_PEER
    assert over_unix.peer in (UNIX_PEER, REWRITTEN_PEER)
    assert over_unix.peer == (REWRITTEN_PEER if trusted == "*" else UNIX_PEER)


def test_a_rewritten_peer_is_no_proxy_and_no_source() -> None:
    """Not even where every socket of the file system is trusted."""
    proxies = TrustedProxies(["127.0.0.1", "unix:"])
    head = RequestHead(
        method="POST", headers=((b"X-Forwarded-For", b"127.0.0.1"),), peer=REWRITTEN_PEER
    )
    assert not proxies.is_one(head.peer)
    assert refusal_of(proxies.source, head) is Refusal.SOURCE_REWRITTEN


class Forbidding(Telling):
    """Answers 403."""

    async def answer(self, head: Any, body: Any) -> Any:
        """Refuse."""
        return answer(403)


async def test_the_operator_is_told_once_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    """Where a request was refused and its peer had been rewritten; else nothing is said."""
    with caplog.at_level(logging.INFO):
        await sent_by(Receiver(Telling()), forwarded("198.51.100.7", client=("198.51.100.7", 0)))
        await sent_by(Receiver(Forbidding()), scope_of())
        assert not caplog.records
        app = Receiver(Forbidding())
        for _ in range(2):
            await sent_by(app, forwarded("198.51.100.7", client=("198.51.100.7", 0)))
    (record,) = caplog.records
    assert record.name == "income_client.receivers"
    assert "uvicorn:H11Protocol" in record.getMessage()
    assert "198.51.100.7" not in record.getMessage()
