"""An aiohttp server for the routes of endpoints, which runs during a block.

Anybody who reaches its port can open connections, and send or read slowly. So the number of
connections and the time for each step are limited, and a refused request ends its connection.
"""

import asyncio
import logging
import ssl as tls
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from income_client.errors import ConfigurationError

from .adapters import QuietLog
from .aiohttp import end_after_chunks
from .exchange import LONGEST_TOKEN

_PATIENCE: Final = 20.0
"""Seconds for answers to open requests at the end of the block.

A receiver needs 18 at the most by default: 10 for the body, and 8 for ``on_callback``.
"""
_UNHEARD: Final = logging.getLogger("income_client.receivers.unheard")
"""aiohttp's logger, disabled: lines of requests that it cannot read may hold credentials."""
_UNHEARD.disabled = True
_LONGEST_FIELD: Final = LONGEST_TOKEN + 8 * 1024
"""Bytes of the longest header field: a token, or the certificate that a proxy passes on."""
_MOST_AT_ONCE: Final = 100
"""Connections that asyncio accepts in one turn.

If they come all at once, so many more than the most may be open until the next one comes.
"""


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
    """Serve endpoints within a block; open requests are still answered at its end.

    They have 20 seconds. Requests not answered by then are cancelled, and their connections
    closed without an answer.

    Args:
        routes: as `income_client.receivers.aiohttp.routes` returns them, several lists
            put together.
        host: a name or an address of this machine, without brackets.
        port: on which port, 0 for a free one.
        ssl: for TLS.
        on_unknown: called with the path of a request for which there is no route.
        idle_timeout: seconds until a connection is closed on which no request is being
            answered, however much of the next request's head has come; also the time for a
            TLS handshake, for what is left of a body that was refused, and for the client to
            take an answer.
        max_connections: most connections that are open at a time, and at most half as many as
            the process may have files open. Where more come, the oldest ones are closed for
            them, those on which no request is being answered first. A TLS handshake is not
            counted before its end: where strangers can reach a port with ``ssl``, a proxy or
            firewall has to limit connections, or they use up the files that the process may open.

    Yields:
        The base address, such as ``http://127.0.0.1:9000``.

    Raises:
        ConfigurationError: a limit is not positive.
        OSError: host and port cannot be had.
    """
    if idle_timeout <= 0 or max_connections < 1:
        raise ConfigurationError("idle_timeout and max_connections must be positive")

    most = min(max_connections, _descriptor_limit() // 2)
    limits = _Limits(seconds=idle_timeout, most=most)
    app = web.Application(middlewares=[limits.answer])
    app.add_routes([_pass_expectations(route) for route in (*routes, _catch_all_route(on_unknown))])
    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=_PATIENCE,
        # Compressed bodies are refused, so they need not be inflated first.
        auto_decompress=False,
        logger=_UNHEARD,
        # Counted from the connection's beginning too, so it bounds the time for a head.
        keepalive_timeout=idle_timeout,
        lingering_time=idle_timeout,
        # aiohttp alone refuses a long token before the receiver sees and counts it.
        max_field_size=_LONGEST_FIELD,
    )
    await runner.setup()
    server = runner.server
    assert server is not None  # noqa: S101 - made by setup
    tls_timeout = None if ssl is None else idle_timeout
    try:
        # aiohttp's own sites limit neither connections nor the time of a TLS handshake.
        listening = await asyncio.get_running_loop().create_server(
            partial(limits.accept, server),
            host,
            port,
            # Connections of two rounds of the loop may be open before the first excess is closed.
            backlog=min(_MOST_AT_ONCE, max(1, most // 4)),
            ssl=ssl,
            ssl_handshake_timeout=tls_timeout,
            ssl_shutdown_timeout=tls_timeout,
        )
        with closing(listening):
            url_host = f"[{host}]" if ":" in host else host
            bound = listening.sockets[0].getsockname()[1]
            yield f"{'http' if ssl is None else 'https'}://{url_host}:{bound}"
    finally:
        await runner.cleanup()


def _catch_all_route(tell: Callable[[str], None] | None) -> web.RouteDef:
    async def handle(request: web.Request) -> web.Response:
        if tell is not None:
            tell(request.path)
        return web.json_response({"error": "Not Found"}, status=404)

    return web.route("*", "/{path:.*}", handle)


def _pass_expectations(route: web.AbstractRouteDef) -> web.AbstractRouteDef:
    """Return a route that passes requests with an Expect header to the middleware.

    aiohttp itself refuses an unknown ``Expect``, before any middleware, so without limits.
    """
    if not isinstance(route, web.RouteDef):
        return route
    kwargs = {"expect_handler": _continue, **route.kwargs}
    return web.RouteDef(route.method, route.path, route.handler, kwargs)


async def _continue(request: web.Request) -> None:
    """Send 100 Continue to a client that waits for it before the body (RFC 9110, 10.1.1)."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # nothing of the answer itself is sent


class _Limits:
    """Limits of a server: open connections, and the time for sending an answer."""

    def __init__(self, *, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._most = most
        self._answering: set[web.RequestHandler] = set()
        """Connections on which a request is being answered."""
        self._log = QuietLog()

    def accept(self, server: web.Server) -> web.RequestHandler:
        """Return the protocol of a new connection; close old ones above the limit."""
        connections = server.connections
        excess = len(connections) + 1 - self._most
        if excess > 0:
            self._log.warn(
                "too many connections are open: the oldest are closed",
                reason="too_many_connections",
                peer=None,
                now=asyncio.get_running_loop().time(),
            )
            # aiohttp lists the oldest first, and sorting keeps that order.
            connections.sort(key=self._answering.__contains__)
            for connection in connections[:excess]:
                connection.force_close()
        return server()

    @web.middleware
    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, and send the answer."""
        self._answering.add(request.protocol)
        try:
            response = await handler(request)
            await self._send(request, response)
        except web.HTTPException as refusal:  # which aiohttp takes for the answer
            await self._send(request, refusal)
            raise
        finally:
            self._answering.discard(request.protocol)
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse) -> None:
        """Send an answer; a refusal ends the connection, and so does a client that does not read.

        Without the first, anybody could keep a connection by asking for a path that is not there.
        """
        transport = request.transport
        if transport is None:
            return
        if response.status >= HTTPStatus.BAD_REQUEST:
            response.force_close()
        end_after_chunks(request, response)
        # Otherwise what is left in the buffer would count as sent.
        transport.set_write_buffer_limits(high=0)
        try:
            async with asyncio.timeout(self._seconds):
                with suppress(ConnectionError):  # aiohttp meets it again, and ends the connection
                    await response.prepare(request)
                    await response.write_eof()
        except TimeoutError:
            transport.abort()


def _descriptor_limit() -> int:
    """Return the number of files that this process may have open."""
    try:
        import resource  # noqa: PLC0415 - not every system has it
    except ImportError:
        return 2048
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1_000_000
