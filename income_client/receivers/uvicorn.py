"""uvicorn's h11 protocol, with the address of the connection's peer for the application.

uvicorn replaces the peer's address by a forwarded one unless an option forbids it. This protocol
adds the true one to the scope::

    uvicorn app:app --http income_client.receivers.uvicorn:H11Protocol ...
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol as _H11Protocol

from .adapters import PEER_EXTENSION, peer_of

_Application = Callable[[Any, Any, Any], Awaitable[None]]


class H11Protocol(_H11Protocol):
    """uvicorn's protocol on h11, with the true address of the peer in each scope."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wrap the application; the peer stays the same for the whole connection."""
        super().connection_made(transport)
        self.app: _Application = _with_peer(self.app, peer_of(transport))


def _with_peer(app: Any, peer: str | None) -> _Application:
    """Return the application with the peer's address added to its scopes."""
    extension: Final = {PEER_EXTENSION: {"peer": peer}}

    async def extended(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        scope["extensions"] = {**scope.get("extensions", {}), **extension}
        await app(scope, receive, send)

    return extended
