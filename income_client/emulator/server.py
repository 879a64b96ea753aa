"""The sockets of an emulator: requests as values come in, and replies go out.

What a reply says is decided elsewhere; a handler may also write or withhold a reply by hand.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Final, TypeAlias

from aiohttp import web

from .exchange import HttpReply, HttpRequest, error_reply

Handle: TypeAlias = Callable[[HttpRequest, asyncio.Transport | None], Awaitable[HttpReply | None]]
"""Returns the reply to a request on a connection; None if it sent or withheld the reply itself."""

_MAX_HEAD: Final = 32 * 1024
"""Bytes of header fields, as in nginx; aiohttp limits their number and each one."""
_SHUTDOWN_TIMEOUT: Final = 0.05


class _HeadTooLargeError(Exception):
    """A request has too many bytes of header fields."""


class _Played(web.StreamResponse):
    """A reply that a fault has already sent or withheld."""

    def __init__(self) -> None:
        super().__init__()
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Write nothing."""


@asynccontextmanager
async def serve_requests(handle: Handle, host: str, port: int) -> AsyncIterator[int]:
    """Serve requests in the block, and yield the port; requests open at its end get no reply."""

    async def handled(request: web.BaseRequest) -> web.StreamResponse:
        reply: HttpReply | None
        try:
            read = await _read_request(request)
        except web.HTTPRequestEntityTooLarge:
            reply = error_reply(413, "too_large", "a body may have 1 MiB")
        except _HeadTooLargeError:
            reply = error_reply(431, "headers_too_large", "header fields may have 32 KiB")
        else:
            reply = await handle(read, request.transport)
        if reply is None:
            return _Played()
        return web.Response(status=reply.status, headers=reply.headers, body=reply.body)

    server = web.Server(handled, handler_cancellation=True, access_log=None, logger=_logger)
    runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_TIMEOUT)
    await runner.setup()
    try:
        async with _accept_connections(server, host, port) as bound:
            yield bound
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _accept_connections(server: web.Server, host: str, port: int) -> AsyncIterator[int]:
    """Accept connections within the block, and yield the port."""
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(server, host, port)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        # What asyncio accepts just before it closes would be lost, unclosed: it begins first.
        with suppress(NotImplementedError):  # of a loop that has no readers
            for each in listening.sockets:
                loop.remove_reader(each)
        try:
            await asyncio.sleep(0)
        finally:
            listening.close()


async def _read_request(request: web.BaseRequest) -> HttpRequest:
    path, _, query = request.raw_path.partition("?")
    if sum(len(name) + len(text) for name, text in request.raw_headers) > _MAX_HEAD:
        raise _HeadTooLargeError
    headers: dict[str, str] = {}
    for name, text in request.headers.items():
        low = name.lower()
        headers[low] = f"{headers[low]}, {text}" if low in headers else text
    body = await request.read() if request.body_exists else b""
    return HttpRequest(
        method=request.method,
        path=path,
        query=query,
        headers=headers,
        body=body,
        peer=request.remote or "",
    )


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Return whether a log record is about more than a bad request or a lost client."""
    error = record.exc_info[1] if record.exc_info else None
    # Of a connection that timed out there is a record at DEBUG, which has the cause.
    if isinstance(error, ConnectionError) or (error is None and record.levelno >= logging.ERROR):
        return False
    is_not_http = getattr(error, "code", None) == HTTPStatus.BAD_REQUEST
    return not is_not_http and not isinstance(error, web.RequestPayloadError)


_logger: Final = logging.getLogger("income_client.emulator.server")
_logger.addFilter(_is_worth_logging)
