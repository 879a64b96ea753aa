"""A transport against a scripted server."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from income_client.errors import (
    IncomeClientError,
)
from income_client.http.endpoints import Request, Response, addresses, get_application
from income_client.http.faults import StaleConnectionError
from income_client.http.transport import SocketLimits, Transport
from income_client.settings import Timeouts
from tests.support.server import Answer, ScriptedServer

ASKED = get_application("a/1")
HEADERS = {"Authorization": "Bearer S3CRET"}
CHUNKED = b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextlib.asynccontextmanager
async def connected(
    answer: Answer,
    **options: Any,
) -> AsyncIterator[tuple[Transport, ScriptedServer]]:
    """Run a server and a transport to it."""
    async with ScriptedServer(answer) as server:
        transport = Transport(addresses(server.url), **options)
        try:
            yield transport, server
        finally:
            await transport.pool.aclose()


async def send(
    transport: Transport,
    request: Request = ASKED,
    read: float = 5.0,
) -> Response | IncomeClientError:
    """Send one request; an error is returned, as the session raises it."""
    try:
        limits = SocketLimits(Timeouts(read=read), transport.pool.connections)
        return await transport.send(request, HEADERS, limits, lambda response: response)
    except StaleConnectionError as stale:
        return stale.failure
    except IncomeClientError as error:
        return error.again()


async def one(answer: Answer, read: float = 5.0, **options: Any) -> Response | IncomeClientError:
    """Send one request to a server that answers like this."""
    async with connected(answer, **options) as (transport, _):
        return await send(transport, read=read)
