"""Classify connection failures, which aiohttp and the system report, and make errors of them.

Their own text may show addresses, headers and what was received.
"""

import errno
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import aiohttp
from attrs import evolve, field, frozen

from income_client.errors import (
    ConnectionFailedError,
    DeadlineExceededError,
    DownloadError,
    TransportError,
)
from income_client.system.descriptors import SHORTAGES, find_shortage
from income_client.system.texts import printable

from .endpoints import Request, Response
from .replies import ReplyFacts, call_of, facts_of


@frozen
class ConnectionFault:
    """A kind of connection failure, after which there is no reply."""

    text: str
    """Text of the error's message."""
    cls: type[TransportError] = ConnectionFailedError
    """Class of the error that is raised."""
    retryable: bool = True
    """Whether another attempt may succeed."""
    is_foreign: bool = False
    """Whether the bytes received were not HTTP."""
    facts: ReplyFacts = field(factory=ReplyFacts)
    """Facts of a proxy's reply, for the error."""

    def error(self, request: Request) -> TransportError:
        """Return the error for this request."""
        return self.cls(
            self.text,
            retryable=self.retryable,
            is_foreign=self.is_foreign,
            **call_of(request),
            **self.facts,
        )

    def download_error(self) -> DownloadError:
        """Return the error for a file, whose requests only its download knows."""
        return DownloadError(self.text, retryable=self.retryable, **self.facts)


class UsedConnectionError(Exception):
    """A pooled connection cannot be used again; nothing was sent over it."""


class LostError(Exception):
    """A connection that broke; unlike aiohttp's own errors, it makes aiohttp send nothing again.

    ``was_used`` says that it had served before, and that nothing came in reply to this request.
    """

    def __init__(self, fault: ConnectionFault, *, was_used: bool = False) -> None:
        super().__init__()
        self.fault = fault
        self.was_used = was_used


class StaleConnectionError(Exception):
    """A request went out on a used connection that was dead; the next one goes out on a new one."""

    def __init__(self, failure: TransportError) -> None:
        super().__init__()
        self.failure = failure


FAILURES: Final[tuple[type[Exception], ...]] = (
    aiohttp.ClientError,
    aiohttp.http_exceptions.HttpProcessingError,
    OSError,
    LostError,
    # Of what aiohttp cannot encode: the error holds the whole text, and may hold a secret.
    UnicodeError,
)
"""Exceptions raised when there is no reply; any other exception is a bug."""

UNASKED: Final = ConnectionFault("bytes came before anything was asked")
_UNTRUSTED: Final = ConnectionFault("TLS certificate not accepted", retryable=False)
_UNREACHABLE: Final = ConnectionFault("host not reachable")
SILENT: Final = ConnectionFault("nothing came for too long", DeadlineExceededError)
_RESET: Final = ConnectionFault("connection reset")
_CUT_SHORT: Final = ConnectionFault("body cut short or unreadable")
_REFUSED_BY_PROXY: Final = ConnectionFault("proxy refused the connection")
_NO_NAME: Final = ConnectionFault("host name not found")
_NOT_HTTP: Final = ConnectionFault("what came is not HTTP", is_foreign=True)
_LONG_HEAD: Final = ConnectionFault("the head of the reply is too long")
_ENCODED: Final = ConnectionFault("the reply has a Content-Encoding that was not asked for")
_UNDECODABLE: Final = ConnectionFault("the body could not be decompressed")
_HANDSHAKE: Final = ConnectionFault("TLS handshake failed")
_HANDSHAKE_BROKEN_OFF: Final = ConnectionFault(
    "connected, but the other side broke off the TLS handshake; "
    "it may serve no TLS there, or require a client certificate"
)
_REFUSED_HANDSHAKE: Final = ConnectionFault(
    "TLS handshake refused by the other side, which may require a client certificate"
)
_NO_CLIENT_CERTIFICATE: Final = ConnectionFault(
    "the other side requires a client certificate", retryable=False
)
_CLIENT_CERTIFICATE: Final = ConnectionFault(
    "the other side did not accept the client certificate", retryable=False
)

_UNSENDABLE: Final = ConnectionFault(
    "the request holds characters that cannot be sent", retryable=False
)

_BY_CLASS: Final[Mapping[type[BaseException], ConnectionFault]] = {
    aiohttp.ClientConnectorCertificateError: _UNTRUSTED,
    aiohttp.ServerFingerprintMismatch: _UNTRUSTED,
    aiohttp.ClientSSLError: _HANDSHAKE,
    aiohttp.ClientConnectorDNSError: _NO_NAME,
    aiohttp.ClientProxyConnectionError: ConnectionFault("proxy not reachable"),
    aiohttp.ClientHttpProxyError: _REFUSED_BY_PROXY,
    aiohttp.ConnectionTimeoutError: ConnectionFault("no connection in time", DeadlineExceededError),
    TimeoutError: SILENT,
    aiohttp.ServerDisconnectedError: ConnectionFault("connection closed without a reply"),
    aiohttp.ClientPayloadError: _CUT_SHORT,
    aiohttp.ClientResponseError: _NOT_HTTP,
    aiohttp.http_exceptions.HttpProcessingError: _NOT_HTTP,
    ConnectionResetError: _RESET,
    UnicodeError: _UNSENDABLE,
}
"""Connection faults by class of exception; the narrowest class of an error counts."""

_TLS_REASON: Final = re.compile(r"\[SSL: (?P<reason>[A-Z0-9_]+)\]")
_BY_TLS_REASON: Final[Mapping[str, ConnectionFault]] = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _NO_CLIENT_CERTIFICATE,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": _REFUSED_HANDSHAKE,
    "SSLV3_ALERT_BAD_CERTIFICATE": _CLIENT_CERTIFICATE,
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": _CLIENT_CERTIFICATE,
    "SSLV3_ALERT_CERTIFICATE_REVOKED": _CLIENT_CERTIFICATE,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _CLIENT_CERTIFICATE,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _CLIENT_CERTIFICATE,
    "TLSV1_ALERT_UNKNOWN_CA": _CLIENT_CERTIFICATE,
    "TLSV1_ALERT_ACCESS_DENIED": _CLIENT_CERTIFICATE,
}
"""Connection faults by OpenSSL's name of an alert from the server."""

_UNDECODED: Final = "Can not decode content-encoding"
"""Beginning of aiohttp's message about a body that it cannot decompress."""

_OF_LONG_HEADS: Final = ("Got more than ", "Too many headers received")
"""Beginnings of aiohttp's messages about a long header field, and about too many of them."""

_BROKEN_OFF: Final = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
"""Exceptions of a broken connection; asyncio's have no errno if the server closed it in order."""

_WORTH_ANOTHER_TRY: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})

_BY_NUMBER: Final[Mapping[int | None, ConnectionFault]] = {
    errno.ECONNREFUSED: ConnectionFault("connection refused"),
    errno.ECONNRESET: _RESET,
    errno.EPIPE: _RESET,
    errno.ETIMEDOUT: SILENT,
    errno.EHOSTUNREACH: _UNREACHABLE,
    errno.ENETUNREACH: _UNREACHABLE,
    **{number: ConnectionFault(text) for number, text in SHORTAGES.items()},
}


def fault_of(error: BaseException) -> ConnectionFault:
    """Return the kind of connection failure behind an exception of aiohttp or of the system."""
    if isinstance(error, LostError):
        return error.fault
    tls = _TLS_REASON.search(str(error)) if isinstance(error, OSError) else None
    if tls is not None and tls["reason"] in _BY_TLS_REASON:
        return _BY_TLS_REASON[tls["reason"]]
    if _is_handshake_broken_off(error):
        return _HANDSHAKE_BROKEN_OFF
    for cls in type(error).__mro__:
        fault = _BY_CLASS.get(cls)
        if fault is not None:
            return _refine_fault(fault, error)
    number = error.errno if isinstance(error, OSError) else None
    unnamed = ConnectionFault(f"connection failed with {type(error).__name__}")
    return _BY_NUMBER.get(number, unnamed)


def _is_handshake_broken_off(error: BaseException) -> bool:
    """Return whether a connection ended within the TLS handshake: before, it would be refused."""
    if not isinstance(error, aiohttp.ClientConnectorError):
        return False
    return error.args[0].is_ssl and isinstance(error.os_error, _BROKEN_OFF)


def _refine_fault(fault: ConnectionFault, error: Any) -> ConnectionFault:
    """Return a connection failure with the details of its exception."""
    if fault is _REFUSED_BY_PROXY:
        status = error.status
        return evolve(
            fault,
            text=f"proxy refused the connection with status {status}",
            retryable=status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _WORTH_ANOTHER_TRY,
            facts=facts_of(Response(status=status, headers=error.headers or {}, body=b"")),
        )
    if fault is _NO_NAME:
        # Without a descriptor, the system's resolver finds no name either.
        text = find_shortage() or f"{fault.text}: {printable(error.host)}"
        return evolve(fault, text=text)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        # OpenSSL's own words, which hold the name of the host at the most.
        reason = getattr(error.certificate_error, "verify_message", None)
        return evolve(fault, text=f"{fault.text}: {printable(reason)}") if reason else fault
    if fault is _NOT_HTTP and error.message.startswith(_OF_LONG_HEADS):
        return _LONG_HEAD
    if _UNDECODED in str(error):
        return _UNDECODABLE if fault is _CUT_SHORT else _ENCODED
    return fault
