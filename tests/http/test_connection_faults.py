"""Every foreign error is reported by its kind."""

import errno
import ssl
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from income_client.errors import ConnectionFailedError, DeadlineExceededError
from income_client.http.endpoints import get_application
from income_client.http.faults import fault_of

BROKEN_OFF = (
    "connected, but the other side broke off the TLS handshake; "
    "it may serve no TLS there, or require a client certificate"
)
PLAIN: Any = SimpleNamespace(host="h", port=1, ssl=True, is_ssl=False)
KEY: Any = SimpleNamespace(host="h", port=1, ssl=True, is_ssl=True)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (aiohttp.ClientConnectorError(KEY, OSError(errno.ECONNREFUSED, "x")), "connection refused"),
        (aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "x")), "host name not found"),
        (aiohttp.ClientProxyConnectionError(KEY, OSError(1, "x")), "proxy not reachable"),
        (aiohttp.ClientConnectorSSLError(KEY, ssl.SSLError(1, "x")), "TLS handshake failed"),
        (aiohttp.ClientConnectorError(KEY, ConnectionResetError()), BROKEN_OFF),
        (aiohttp.ClientConnectorError(KEY, ConnectionResetError(104, "x")), BROKEN_OFF),
        (aiohttp.ClientConnectorError(KEY, ConnectionAbortedError()), BROKEN_OFF),
        (
            aiohttp.ClientConnectorError(PLAIN, ConnectionResetError(errno.ECONNRESET, "x")),
            "connection reset",
        ),
        (aiohttp.ClientOSError(errno.ECONNRESET, "x"), "connection reset"),
        (aiohttp.ClientOSError(errno.EPIPE, "x"), "connection reset"),
        (aiohttp.ClientOSError(errno.ENETUNREACH, "x"), "host not reachable"),
        (aiohttp.ClientOSError(errno.EHOSTUNREACH, "x"), "host not reachable"),
        (aiohttp.ClientConnectionResetError("x"), "connection reset"),
        (aiohttp.ServerDisconnectedError(), "connection closed without a reply"),
        (aiohttp.ClientPayloadError("x"), "body cut short or unreadable"),
        (ValueError("x"), "connection failed with ValueError"),
        (RecursionError("x"), "connection failed with RecursionError"),
    ],
)
def test_an_error_is_told_by_its_narrowest_class(error: Exception, text: str) -> None:
    """The message is ours, the class a failed connection."""
    made = fault_of(error).error(get_application("1"))
    assert type(made) is ConnectionFailedError
    assert made.message == f"get_application(1): {text}"
    assert made.retryable


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


def untrusted() -> Iterator[Exception]:
    """Give every way in which a certificate is refused."""
    refused = ssl.SSLCertVerificationError(1, "x")
    yield aiohttp.ClientConnectorCertificateError(KEY, refused)
    yield aiohttp.ServerFingerprintMismatch(b"a", b"b", "h", 1)


@pytest.mark.parametrize("error", list(untrusted()), ids=lambda error: type(error).__name__)
def test_a_certificate_is_not_tried_again(error: Exception) -> None:
    """A certificate that is refused now is refused in a second as well."""
    made = fault_of(error).error(get_application("1"))
    assert made.message == "get_application(1): TLS certificate not accepted"
    assert not made.retryable


@pytest.mark.parametrize(
    ("alert", "text", "retryable"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "requires a client certificate", False),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "may require a client certificate", True),
        *(
            (alert, "did not accept the client certificate", False)
            for alert in (
                "SSLV3_ALERT_BAD_CERTIFICATE",
                "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
                "SSLV3_ALERT_CERTIFICATE_REVOKED",
                "SSLV3_ALERT_CERTIFICATE_EXPIRED",
                "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
                "TLSV1_ALERT_UNKNOWN_CA",
                "TLSV1_ALERT_ACCESS_DENIED",
            )
        ),
        ("TLSV1_ALERT_INTERNAL_ERROR", "TLS handshake failed", True),
    ],
)
def test_what_the_other_side_says_of_our_certificate_is_told(
    alert: str, text: str, retryable: bool
) -> None:
    """A client certificate that it does not accept is as wrong the next time."""
    said = ssl.SSLError(1, f"[SSL: {alert}] some words (_ssl.c:1000)")
    made = fault_of(aiohttp.ClientConnectorSSLError(KEY, said)).error(get_application("1"))
    assert made.message.endswith(text)
    assert made.retryable is retryable
