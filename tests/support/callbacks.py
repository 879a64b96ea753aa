"""Callbacks for tests: requests, endpoints and servers; certificates, tokens and who signs them."""

import asyncio
import base64
import contextlib
import socket
import ssl as tls
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import uvicorn
from aiohttp import web
from attrs import field, frozen

from income_client.receivers import CallbackBasicAuth
from income_client.receivers.adapters import Body, Endpoint, read_body
from income_client.receivers.aiohttp import routes
from income_client.receivers.asgi import Receiver
from income_client.receivers.exchange import Answer, Refusal, RefusedError, RequestHead, make_answer
from tests.support.clocks import pass_time
from tests.support.server import Reply, turns

PATH: Final = "/callbacks"
PASSWORD: Final = "invented-password-of-the-service"
BASIC: Final = CallbackBasicAuth("service", PASSWORD)
AUTHORIZATION: Final = "Basic " + base64.b64encode(f"service:{PASSWORD}".encode()).decode()


def refusal_of(check: Callable[..., Any], *arguments: Any, **named: Any) -> Refusal | None:
    """Return why a check refuses its arguments, None if it does not."""
    try:
        check(*arguments, **named)
    except RefusedError as error:
        return error.refusal
    return None


@frozen
class Recording:
    """An endpoint that keeps what comes (None: a cut body), and answers 200, or 413 unread."""

    refuses: bool = False
    heads: list[RequestHead] = field(factory=list)
    bodies: list[bytes | None] = field(factory=list)

    async def answer(self, head: RequestHead, body: Body) -> Answer:
        self.heads.append(head)
        if self.refuses:
            return make_answer(413, Connection="close")
        try:
            read = await read_body(body, max_bytes=10**9, seconds=50.0)
        except RefusedError as error:
            self.bodies.append(None)
            return make_answer(error.refusal.status, Connection="close")
        self.bodies.append(read)
        return make_answer(200, {"method": head.method, "peer": head.peer, "bytes": len(read)})


@contextlib.asynccontextmanager
async def served_by_aiohttp(
    endpoint: Endpoint | Mapping[str, Endpoint] | Any,
    ssl: tls.SSLContext | None = None,
    *,
    uds: Path | None = None,
    middlewares: tuple[Any, ...] = (),
) -> AsyncIterator[str]:
    """Serve an endpoint, or several by path, with aiohttp; yields the base address."""
    app = web.Application(middlewares=middlewares)
    endpoints = endpoint if isinstance(endpoint, Mapping) else {PATH: endpoint}
    for path, each in endpoints.items():
        app.add_routes(routes(each, path))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        if uds is not None:
            await web.UnixSite(runner, uds, ssl_context=ssl).start()
            yield "http://localhost"
            return
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl).start()
        yield f"{'https' if ssl else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def served_by_uvicorn(
    app: Any,
    ssl: tls.SSLContext | None = None,
    *,
    http: Any = "h11",
    uds: Path | None = None,
    **options: Any,
) -> AsyncIterator[str]:
    """Serve an ASGI application, or endpoints by path, in this loop; yields the base address."""
    if ssl is not None:
        options["ssl_context_factory"] = lambda *_: ssl
    config = uvicorn.Config(
        _by_path(app) if isinstance(app, Mapping) else app,
        http=http,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
        **options,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # Its `serve` would take the signals of the process, which are the test's.
    with _listening(uds) as listener:
        await server.startup(sockets=[listener])
        try:
            scheme = "https" if ssl else "http"
            yield f"{scheme}://127.0.0.1:{listener.getsockname()[1]}" if uds is None else "http://x"
        finally:
            ending = asyncio.ensure_future(server.shutdown(sockets=[listener]))
            await turns()
            pass_time(0.1)  # It waits for so long before it looks whether all have left.
            await ending


def _by_path(endpoints: Mapping[str, Any]) -> Any:
    apps = {path: Receiver(endpoint) for path, endpoint in endpoints.items()}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await apps[scope["path"]](scope, receive, send)

    return app


def _listening(uds: Path | None) -> socket.socket:
    if uds is None:
        # Named, since it is how asyncio knows to switch Nagle's algorithm off.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    else:
        listener = socket.socket(socket.AF_UNIX)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0) if uds is None else str(uds))
    return listener


def request_bytes(
    body: bytes = b"{}",
    *,
    method: str = "POST",
    path: str = PATH,
    headers: tuple[tuple[str, str], ...] = (),
    length: int | None = None,
) -> bytes:
    """Return a whole request; its headers in order, doubled ones included."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"Content-Length: {len(body) if length is None else length}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


@contextlib.asynccontextmanager
async def connected(
    url: str,
    *,
    ssl: tls.SSLContext | None = None,
    uds: Path | None = None,
    source: str | None = None,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a connection to a base address or a socket file, from an address such as 127.0.0.2."""
    if uds is not None:
        reader, writer = await asyncio.open_unix_connection(uds)
    else:
        host, _, port = url.partition("://")[2].partition(":")
        name = "localhost" if ssl else None
        here = None if source is None else (source, 0)
        reader, writer = await asyncio.open_connection(
            host, int(port), ssl=ssl, server_hostname=name, local_addr=here
        )
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    """Read one reply that has a Content-Length."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    body = await reader.readexactly(int(fields.get("content-length", "0")))
    return Reply(status=int(first.split(" ")[1]), headers=fields, body=body)


async def ring(
    url: str,
    body: bytes = b"{}",
    *,
    ssl: tls.SSLContext | None = None,
    uds: Path | None = None,
    source: str | None = None,
    **request: Any,
) -> Reply:
    """Send one request and return the reply; arguments are those of `request_bytes`."""
    async with connected(url, ssl=ssl, uds=uds, source=source) as (reader, writer):
        writer.write(request_bytes(body, **request))
        return await read_reply(reader)
