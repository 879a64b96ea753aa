"""What is said of a foreign error in place of its own text; imports no HTTP library.

The texts of such errors show addresses, headers and what was received, so only
the class counts, and for errors of the operating system the number.
"""

import errno
import traceback
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from .errors import ConnectionFailedError, DeadlineExceededError, DownloadError, TransportError
from .protocol.messages import Request
from .protocol.replies import label


@frozen
class ConnectionFault:
    """One way in which no reply comes."""

    text: str
    """For the message."""
    cls: type[TransportError] = ConnectionFailedError
    """The error that stands for it."""
    retryable: bool = True
    """Whether it may be gone the next time."""

    def error(self, request: Request) -> TransportError:
        """Return the error for this request."""
        return self.cls(f"{label(request)}: {self.text}", retryable=self.retryable)

    def download_error(self) -> DownloadError:
        """Return the error for a file, of whose requests nobody but the download knows."""
        return DownloadError(self.text, retryable=self.retryable)


class LostError(Exception):
    """A connection that broke, under a name at which aiohttp does not send again by itself."""

    def __init__(self, fault: ConnectionFault) -> None:
        super().__init__()
        self.fault = fault


_UNTRUSTED: Final = ConnectionFault("TLS certificate not accepted", retryable=False)
_UNREACHABLE: Final = ConnectionFault("host not reachable")
_SILENT: Final = ConnectionFault("nothing came for too long", DeadlineExceededError)
_RESET: Final = ConnectionFault("connection reset")
_NOT_HTTP: Final = ConnectionFault("what came is not HTTP")

BY_CLASS: Final[Mapping[str, ConnectionFault]] = {
    "ClientConnectorCertificateError": _UNTRUSTED,
    "ServerFingerprintMismatch": _UNTRUSTED,
    "ClientSSLError": ConnectionFault("TLS handshake failed"),
    "ClientConnectorDNSError": ConnectionFault("host name not found"),
    "ClientProxyConnectionError": ConnectionFault("proxy not reachable"),
    "ClientHttpProxyError": ConnectionFault("proxy refused the connection"),
    "ConnectionTimeoutError": ConnectionFault("no connection in time", DeadlineExceededError),
    "TimeoutError": _SILENT,
    "ServerDisconnectedError": ConnectionFault("connection closed without a reply"),
    "ClientPayloadError": ConnectionFault("body cut short or unreadable"),
    "ClientResponseError": _NOT_HTTP,
    "HttpProcessingError": _NOT_HTTP,
    "ConnectionResetError": _RESET,
}
"""By the name of a class of aiohttp or of Python; the narrowest one of an error decides."""

_BY_NUMBER: Final[Mapping[int | None, ConnectionFault]] = {
    errno.ECONNREFUSED: ConnectionFault("connection refused"),
    errno.ECONNRESET: _RESET,
    errno.EPIPE: _RESET,
    errno.ETIMEDOUT: _SILENT,
    errno.EHOSTUNREACH: _UNREACHABLE,
    errno.ENETUNREACH: _UNREACHABLE,
}


def fault_of(error: BaseException) -> ConnectionFault:
    """Return what is said of an error."""
    for cls in type(error).__mro__:
        fault = BY_CLASS.get(cls.__name__)
        if fault is not None:
            return fault
    number = error.errno if isinstance(error, OSError) else None
    unnamed = ConnectionFault(f"connection failed with {type(error).__name__}")
    return _BY_NUMBER.get(number, unnamed)


def cleaned(bug: Exception) -> Exception:
    """Return a bug with its stack as a note in place of frames and contexts: these hold headers."""
    bug.add_note("raised in:\n" + "".join(traceback.format_tb(bug.__traceback__)))
    bug.__cause__ = bug.__context__ = None
    return bug.with_traceback(None)
