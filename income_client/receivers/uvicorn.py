"""uvicorn's protocols, which give the application the client's certificate and true address.

uvicorn itself passes on no certificate, and replaces its peer's address by a forwarded one
unless an option forbids it. These add both to the scope::

    uvicorn app:app --http income_client.receivers.uvicorn:H11Protocol ...

``HttpToolsProtocol`` needs httptools.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol as _H11Protocol

from income_client.errors import ConfigurationError

from .adapters import PEER_EXTENSION, certificate_of, peer_of

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _HttpToolsProtocol
except ImportError:  # httptools is an extra of uvicorn's
    _HttpToolsProtocol = None  # type: ignore[assignment,misc]

_Application = Callable[[Any, Any, Any], Awaitable[None]]

_VERSIONS: Final = {"TLSv1.2": 0x0303, "TLSv1.3": 0x0304}


def _with_connection_facts(app: Any, transport: asyncio.BaseTransport) -> _Application:
    """Return the application with facts of the connection added to its scopes."""
    facts: dict[str, Any] = {PEER_EXTENSION: {"peer": peer_of(transport)}}
    layer = transport.get_extra_info("ssl_object")
    if layer is not None:
        facts["tls"] = _tls_extension(certificate_of(transport), layer.version())

    async def extended(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        scope["extensions"] = {**scope.get("extensions", {}), **facts}
        await app(scope, receive, send)

    return extended


def _tls_extension(certificate: bytes | None, version: str | None) -> dict[str, Any]:
    """Return what the TLS extension of ASGI holds; names and ciphers are left out."""
    return {
        "server_cert": None,
        "client_cert_chain": [] if certificate is None else [ssl.DER_cert_to_PEM_cert(certificate)],
        "client_cert_name": None,
        "client_cert_error": None,
        "tls_version": _VERSIONS.get(version or ""),
        "cipher_suite": None,
    }


class H11Protocol(_H11Protocol):
    """uvicorn's own, on h11, that adds the client's certificate and true address."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; the facts are the connection's, so they are found once."""
        super().connection_made(transport)
        self.app: _Application = _with_connection_facts(self.app, transport)


if _HttpToolsProtocol is not None:

    class HttpToolsProtocol(_HttpToolsProtocol):
        """uvicorn's own, on httptools, that adds the client's certificate and true address."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Begin; the facts are the connection's, so they are found once."""
            super().connection_made(transport)
            self.app: _Application = _with_connection_facts(self.app, transport)
            self._is_head_read = False

        def on_message_begin(self) -> None:
            """Begin a request."""
            super().on_message_begin()
            self._is_head_read = False

        def on_header(self, name: bytes, value: bytes) -> None:
            """Take a header field; a trailer, which httptools gives likewise, is not one."""
            if not self._is_head_read:
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            """End the head."""
            self._is_head_read = True
            super().on_headers_complete()

else:

    class _NotInstalledError(ConfigurationError, ImportError):
        """Something is not installed; ``except ImportError`` catches it as well."""

    def __getattr__(name: str) -> Any:
        """Say what to install when the protocol on httptools is asked for."""
        if name == "HttpToolsProtocol":
            raise _NotInstalledError(
                "HttpToolsProtocol needs httptools: pip install httptools, or take H11Protocol"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
