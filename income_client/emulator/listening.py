"""The emulator's HTTP servers: bytes to values and back, on one port each; decides nothing.

The only module here that sees an HTTP server.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, TypeAlias

from aiohttp import web

from .exchange import HttpReply, HttpRequest
from .recording import joined_fields

_PATIENCE: Final = 0.05


def _is_ours(record: logging.LogRecord) -> bool:
    """Say whether a record is about more than a request that is not HTTP, answered with 400."""
    error = record.exc_info[1] if record.exc_info else None
    is_not_http = getattr(error, "code", None) == HTTPStatus.BAD_REQUEST
    return not is_not_http and not isinstance(error, web.RequestPayloadError)


_logger: Final = logging.getLogger("income_client.emulator.server")
_logger.addFilter(_is_ours)

Handle: TypeAlias = Callable[[HttpRequest, asyncio.Transport | None], Awaitable[HttpReply | None]]
"""Given a request and its connection: returns the reply, None if it wrote or withheld it itself."""


class _Played(web.StreamResponse):
    """Stands for a reply that was written, or withheld, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Write nothing."""


@asynccontextmanager
async def listening(handle: Handle, host: str, port: int) -> AsyncIterator[int]:
    """Serve requests inside; those still open at the end go without a reply.

    Args:
        handle: replies to them.
        host: where to listen.
        port: on which port, 0 for a free one.

    Yields:
        The port.

    Raises:
        OSError: it cannot be had.
    """

    async def handled(request: web.BaseRequest) -> web.StreamResponse:
        reply = await handle(await _read(request), request.transport)
        return _Played() if reply is None else _response(reply)

    server = web.Server(handled, handler_cancellation=True, access_log=None, logger=_logger)
    runner = web.ServerRunner(server, shutdown_timeout=_PATIENCE)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _read(request: web.BaseRequest) -> HttpRequest:
    path, _, query = request.raw_path.partition("?")
    headers = joined_fields(request.headers.items())
    body = await request.read() if request.body_exists else b""
    return HttpRequest(method=request.method, path=path, query=query, headers=headers, body=body)


def _response(reply: HttpReply) -> web.Response:
    return web.Response(status=reply.status, headers=reply.headers, body=reply.body)
