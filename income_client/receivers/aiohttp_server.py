"""An aiohttp server for routes and nothing else, while a block runs.

asyncio's own servers accept until no descriptor is left, and then log a hundred
tracebacks a second; clients that send nothing make them deaf. This one accepts no more
connections than it can have open.
"""

import asyncio
import errno
import logging
import socket
import ssl as tls
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from typing import Final

from aiohttp import web

from income_client.errors import ConfigurationError

from .adapters import QuietLog
from .aiohttp import end_after_chunks

_PATIENCE: Final = 20.0
"""Seconds that requests have at the end to be answered; handing one on may take 15 of them."""
_UNHEARD: Final = logging.getLogger("income_client.receivers.unheard")
"""What aiohttp says to, since it shows lines of requests that it cannot read, credentials too."""
_UNHEARD.disabled = True
_PAUSE: Final = 0.1
"""Seconds until the next try where no connection can be accepted."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_NO_SUCH_ADDRESS: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
_BACKLOG: Final = 128
"""Connections that the system keeps until they are accepted."""


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

    They have 20 seconds. Requests not answered by then are cancelled, and its connection closed
    without an answer.

    Args:
        routes: as `income_client.receivers.aiohttp.routes` returns them, several lists
            put together.
        host: a name or an address of this machine, without brackets.
        port: on which port, 0 for a free one.
        ssl: for TLS.
        on_unknown: called with the path of a request for which there is no route.
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
    app.on_response_prepare.append(end_after_chunks)
    if on_unknown is not None:
        app.add_routes([_catch_all_route(on_unknown)])
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
    )
    await runner.setup()
    server = runner.server
    assert server is not None  # noqa: S101 - made by setup
    listener = _Listener(server, ssl=ssl, most=max_connections, patience=idle_timeout)
    try:
        async with listener.listening(host, port) as bound:
            named = f"[{host}]" if ":" in host else host
            yield f"{'http' if ssl is None else 'https'}://{named}:{bound}"
    finally:
        await runner.cleanup()


def _catch_all_route(tell: Callable[[str], None]) -> web.AbstractRouteDef:
    async def handle(request: web.Request) -> web.Response:
        tell(request.path)
        return web.json_response({"error": "Not Found"}, status=404)

    return web.route("*", "/{path:.*}", handle)


class _Listener:
    """Accepts connections, of which only so many may be open at a time."""

    def __init__(
        self,
        make_protocol: Callable[[], asyncio.Protocol],
        *,
        ssl: tls.SSLContext | None,
        most: int,
        patience: float,
    ) -> None:
        self._make_protocol = make_protocol
        self._ssl = ssl
        self._patience = None if ssl is None else patience
        self._room = asyncio.Semaphore(min(most, _descriptor_limit() // 2))
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = QuietLog()

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Accept connections while the block inside runs; yields the port."""
        with ExitStack() as sockets:
            bound = await _bind_sockets(host, port, sockets)
            tasks = [asyncio.create_task(self._accept_connections(each)) for each in bound]
            try:
                yield bound[0].getsockname()[1]
            finally:
                ending = {task for task in (*tasks, *self._tasks) if task.cancel()}
                if ending:
                    await asyncio.wait(ending)

    async def _accept_connections(self, listening: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._warn_of_shortage(
                        "no connection can be accepted: the system has no resources left"
                    )
                await asyncio.sleep(_PAUSE)
                continue
            if self._room.locked():
                self._warn_of_shortage(
                    "too many connections are open: others wait until some are closed"
                )
            try:
                await self._room.acquire()
            except asyncio.CancelledError:
                connection.close()
                raise
            task = asyncio.create_task(self._serve_connection(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(0)  # accepting alone would let nothing else happen

    async def _serve_connection(self, connection: socket.socket) -> None:
        """Make a connection of a socket, whose place is given back once it is closed."""
        protocol = _Connection(self._make_protocol(), self._room.release)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=self._ssl,
                ssl_handshake_timeout=self._patience,
                ssl_shutdown_timeout=self._patience,
            )
        except OSError:  # it is closed already, or does not speak TLS
            protocol.end()
        except BaseException:
            protocol.end()
            raise

    def _warn_of_shortage(self, text: str) -> None:
        now = asyncio.get_running_loop().time()
        self._log.warn(text, reason="too_many_connections", peer=None, now=now)


class _Connection(asyncio.Protocol):
    """Passes everything on to another protocol, and says once when the connection is over."""

    def __init__(self, inner: asyncio.Protocol, on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_end: Callable[[], None] | None = on_end

    def end(self) -> None:
        """Say that it is over."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        try:
            self._inner.connection_lost(exc)
        finally:
            self.end()


async def _bind_sockets(host: str, port: int, sockets: ExitStack) -> list[socket.socket]:
    """Return a socket for each address of a host; the stack closes them."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    bound: list[socket.socket] = []
    missing: OSError | None = None
    for family, address in dict.fromkeys((each[0], each[4]) for each in found):
        try:
            server = socket.create_server(address, family=family, backlog=_BACKLOG)
        except OSError as error:
            # A name may have an address of IPv6 where the machine has none.
            if error.errno not in _NO_SUCH_ADDRESS:
                raise
            missing = error
        else:
            server.setblocking(False)  # noqa: FBT003 - as the standard library has it
            bound.append(sockets.enter_context(server))
    if not bound and missing is not None:
        raise missing
    return bound


def _descriptor_limit() -> int:
    """Return how many files this process may have open."""
    try:
        import resource  # noqa: PLC0415 - not every system has it
    except ImportError:
        return 2048
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1_000_000
