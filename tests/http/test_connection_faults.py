"""Every foreign error is reported by its kind, and a bug as itself: it shows no secret."""

import errno
import socket
import ssl
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
import pytest

from income_client import BasicAuth, IncomeClient, OAuth2ClientCredentials
from income_client.checkpoints import MemoryCheckpointStore
from income_client.emulator import Emulator
from income_client.errors import ConnectionFailedError, DeadlineExceededError
from income_client.http.endpoints import get_application
from income_client.http.faults import fault_of
from income_client.testing import JumpingClock, make_document
from tests.support.canaries import CANARY

BROKEN_OFF = (
    "connected, but the other side broke off the TLS handshake; "
    "it may serve no TLS there, or require a client certificate"
)
PLAIN: Any = SimpleNamespace(host="h", port=1, ssl=True, is_ssl=False)
KEY: Any = SimpleNamespace(host="h", port=1, ssl=True, is_ssl=True)

UNTRUSTED: Final = "TLS certificate not accepted"
WANTED: Final = "the other side requires a client certificate"
REFUSED: Final = "the other side did not accept the client certificate"
PERHAPS_WANTED: Final = (
    "TLS handshake refused by the other side, which may require a client certificate"
)
FINAL: Final = {UNTRUSTED, WANTED, REFUSED}


def alerted(alert: str) -> Exception:
    """Return the error that what the other side says of our certificate becomes."""
    said = ssl.SSLError(1, f"[SSL: {alert}] some words (_ssl.c:1000)")
    return aiohttp.ClientConnectorSSLError(KEY, said)


# fmt: off
KINDS: Final = [
    (aiohttp.ClientConnectorError(KEY, OSError(errno.ECONNREFUSED, "x")), "connection refused"),
    (aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "x")),            "host name not found"),
    (aiohttp.ClientProxyConnectionError(KEY, OSError(1, "x")),          "proxy not reachable"),
    (aiohttp.ClientConnectorSSLError(KEY, ssl.SSLError(1, "x")),        "TLS handshake failed"),
    (aiohttp.ClientConnectorError(KEY, ConnectionResetError()),         BROKEN_OFF),
    (aiohttp.ClientConnectorError(KEY, ConnectionResetError(104, "x")), BROKEN_OFF),
    (aiohttp.ClientConnectorError(KEY, ConnectionAbortedError()),       BROKEN_OFF),
    (aiohttp.ClientConnectorError(PLAIN, ConnectionResetError(104, "x")), "connection reset"),
    (aiohttp.ClientOSError(errno.ECONNRESET, "x"),                      "connection reset"),
    (aiohttp.ClientOSError(errno.EPIPE, "x"),                           "connection reset"),
    (aiohttp.ClientOSError(errno.ENETUNREACH, "x"),                     "host not reachable"),
    (aiohttp.ClientOSError(errno.EHOSTUNREACH, "x"),                    "host not reachable"),
    (aiohttp.ClientConnectionResetError("x"),                           "connection reset"),
    (aiohttp.ServerDisconnectedError(),              "connection closed without a reply"),
    (aiohttp.ClientPayloadError("x"),                "body cut short or unreadable"),
    (alerted("TLSV1_ALERT_INTERNAL_ERROR"),          "TLS handshake failed"),
    (alerted("SSLV3_ALERT_HANDSHAKE_FAILURE"),       PERHAPS_WANTED),
    (alerted("TLSV13_ALERT_CERTIFICATE_REQUIRED"),   WANTED),
    *((alerted(name), REFUSED) for name in (
        "SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_REVOKED", "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_ACCESS_DENIED",
    )),
    (aiohttp.ClientConnectorCertificateError(KEY, ssl.SSLCertVerificationError(1, "x")), UNTRUSTED),
    (aiohttp.ServerFingerprintMismatch(b"a", b"b", "h", 1), UNTRUSTED),
    (ValueError("x"),                                "connection failed with ValueError"),
    (RecursionError("x"),                            "connection failed with RecursionError"),
]
# fmt: on


@pytest.mark.parametrize(("error", "text"), KINDS)
def test_an_error_is_told_by_its_narrowest_class(error: Exception, text: str) -> None:
    """The message is ours, the class a failed connection; a certificate is not tried again."""
    made = fault_of(error).error(get_application("1"))
    assert type(made) is ConnectionFailedError
    assert made.message == f"get_application(1): {text}"
    assert made.retryable is (text not in FINAL)


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        OSError(errno.ETIMEDOUT, "x"),
        aiohttp.SocketTimeoutError("x"),
        aiohttp.ConnectionTimeoutError("x"),
        aiohttp.ServerTimeoutError("x"),
    ],
)
def test_a_wait_that_was_too_long_is_told_apart(error: Exception) -> None:
    """Time-outs cost more of the retry budget, so they have a class of their own."""
    assert fault_of(error).cls is DeadlineExceededError


# Bugs

BASIC: Final = BasicAuth("user", CANARY)


def broken_hook(name: str) -> tuple[aiohttp.TraceConfig, list[None]]:
    """Return a trace hook with a bug, and a list that shows how often it was called."""
    calls: list[None] = []

    async def hook(*_: Any) -> None:
        calls.append(None)
        raise TypeError("a bug")

    trace = aiohttp.TraceConfig()
    getattr(trace, name).append(hook)
    return trace, calls


HOOKS: Final = (
    *("on_request_start", "on_connection_create_start", "on_request_headers_sent"),
    "on_request_end",
)
WORK: Final[dict[str, Callable[[IncomeClient], Any]]] = {
    "call": lambda client: client.get_application("app-1"),
    "walk": lambda client: client.list_applications().__anext__(),
    "fetch": lambda client: client.fetch_records(["app-1", "app-2"]).__anext__(),
    "poll": lambda client: client.poll(MemoryCheckpointStore()).__anext__(),
}


@pytest.mark.parametrize(
    ("work", "hook"), [*product(["call"], HOOKS[1:]), *product(WORK, HOOKS[:1])]
)
async def test_a_bug_comes_out_as_itself(work: str, hook: str) -> None:
    """It is not retried, not even by a poller, and shows where it was raised without variables."""
    trace, calls = broken_hook(hook)
    clock = JumpingClock()
    async with (
        Emulator(3, clock=clock) as service,
        IncomeClient(service.url, auth=BASIC, clock=clock, trace_configs=[trace]) as client,
    ):
        with pytest.raises(TypeError, match="a bug") as caught:
            await WORK[work](client)
    assert clock.slept == []
    assert len(calls) <= 4
    assert "in hook" in str(caught.value.__notes__)


async def test_a_bug_on_the_way_to_a_token_comes_out_as_itself() -> None:
    """All that wait for the token get it, and the secret is in none of their reports."""
    trace, calls = broken_hook("on_request_start")
    clock = JumpingClock()
    auth = OAuth2ClientCredentials("user", CANARY)
    async with (
        Emulator(3, clock=clock) as service,
        IncomeClient(service.url, auth=auth, clock=clock, trace_configs=[trace]) as client,
    ):
        for _ in range(2):
            with pytest.raises(TypeError, match="a bug"):
                await client.get_application("app-1")
    assert (len(calls), clock.slept) == (2, [])


async def test_a_bug_below_the_connection_comes_out_as_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """That of a download leaves no file, and its report shows no signed address."""
    clock = JumpingClock()
    signed = make_document(url=f"https://files.amazonaws.com/slip?X-Amz-Signature={CANARY}")

    def look_up(*_: Any, **__: Any) -> None:
        raise AttributeError("a bug")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with IncomeClient("https://service.example", auth=BASIC, clock=clock) as client:
        for call in (
            client.get_application("app-1"),
            client.download(signed, tmp_path / "slip"),
        ):
            with pytest.raises(AttributeError, match="a bug") as caught:
                await call
            assert "in look_up" in str(caught.value.__notes__)
    assert clock.slept == []
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240 - one look
