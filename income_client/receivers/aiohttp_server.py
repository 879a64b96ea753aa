"""An aiohttp server for routes and nothing else, while a block runs; decides nothing."""

import logging
import ssl as tls
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from income_client.errors import ConfigurationError

from .listener import Listener

_PATIENCE: Final = 20.0
"""Seconds that requests have at the end to be answered; handing one on may take 15 of them."""


_UNHEARD: Final = logging.getLogger("income_client.receivers.unheard")
"""What aiohttp says to, since it shows lines of requests that it cannot read, credentials too."""
_UNHEARD.disabled = True


@asynccontextmanager
async def serving(
    routes: Iterable[web.AbstractRouteDef],
    *,
    host: str,
    port: int,
    ssl: tls.SSLContext | None = None,
    on_unknown: Callable[[str], None] | None = None,
    idle_timeout: float = 5.0,
    max_connections: int = 200,
) -> AsyncIterator[str]:
    """Serve routes inside; requests under way at the end are still answered.

    They have 20 seconds. What is not answered by then is cancelled, and its connection closed
    without an answer.

    Args:
        routes: as `income_client.receivers.aiohttp.routes` returns them, several lists
            put together.
        host: a name or an address of this machine, without brackets.
        port: on which port, 0 for a free one.
        ssl: for TLS.
        on_unknown: told the path of a request that none of the routes is for.
        idle_timeout: seconds until a connection is closed on which no request is being
            answered, however much of the next request's head has come; also the time for a
            TLS handshake, and for what is left of a body that was refused.
        max_connections: most connections that are open at a time, and at most half as many as
            the process may have files open; further ones wait.

    Yields:
        The base address, such as ``http://127.0.0.1:9000``.

    Raises:
        ConfigurationError: a limit is not positive.
        OSError: host and port cannot be had.
    """
    if idle_timeout <= 0 or max_connections < 1:
        raise ConfigurationError("idle_timeout and max_connections must be positive")

    app = web.Application()
    app.add_routes(routes)
    if on_unknown is not None:
        app.add_routes([_elsewhere(on_unknown)])
    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=_PATIENCE,
        # Compressed bodies are refused, so nobody need inflate them first.
        auto_decompress=False,
        logger=_UNHEARD,
        # Counted from the connection's beginning too, so it bounds the time for a head.
        keepalive_timeout=idle_timeout,
        lingering_time=idle_timeout,
    )
    await runner.setup()
    server = runner.server
    assert server is not None  # noqa: S101 - made by setup
    listener = Listener(server, ssl=ssl, most=max_connections, patience=idle_timeout)
    try:
        async with listener.listening(host, port) as bound:
            named = f"[{host}]" if ":" in host else host
            yield f"{'http' if ssl is None else 'https'}://{named}:{bound}"
    finally:
        await runner.cleanup()


def _elsewhere(tell: Callable[[str], None]) -> web.AbstractRouteDef:
    async def handle(request: web.Request) -> web.Response:
        tell(request.path)
        return web.json_response({"error": "Not Found"}, status=404)

    return web.route("*", "/{path:.*}", handle)
