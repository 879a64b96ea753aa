"""Web servers in other processes: receivers, and handlers that do the least there is to do.

A bare handler reads the body, parses it and answers with constant JSON; it checks nothing.
"""

import asyncio
import contextlib
import enum
import logging
import resource
import socket
from collections.abc import AsyncIterator
from multiprocessing.connection import Connection
from typing import Any, Final, assert_never

import orjson

from income_client.receivers import CallbackReceiver

from .callback_load import PATH
from .callback_ways import Arranged
from .processes import ServiceProcess, Started

_ANSWER: Final = b'{"status":"OK"}'
_NOT_USED: Final = ("client", "invented")
_BACKLOG: Final = 1024


class Web(enum.Enum):
    """What answers the requests."""

    AIOHTTP = "aiohttp"
    FASTAPI = "FastAPI"
    ASGI = "ASGI"
    """Nothing between uvicorn and the handler."""


class _Ask(enum.Enum):
    CPU = "cpu"
    REFUSED = "refused"


class CallbackServer(ServiceProcess):
    """A web server in another process, until the block is left.

    Args:
        web: what answers the requests.
        arranged: what its receiver checks; a bare handler takes its place if this is None.
    """

    def __init__(self, web: Web, arranged: Arranged | None = None) -> None:
        super().__init__(_serve, web, arranged)

    def cpu_seconds(self) -> float:
        """Return how much CPU time its process has used so far."""
        seconds: float = self.ask(_Ask.CPU)
        return seconds

    def refused(self) -> dict[str, int]:
        """Return how many requests its receiver has refused, by reason."""
        refused: dict[str, int] = self.ask(_Ask.REFUSED)
        return refused


def _serve(connection: "Connection[Any, Any]", web: Web, arranged: Arranged | None) -> None:
    # What a receiver refuses is counted here, and not for the terminal.
    logging.getLogger().addHandler(logging.NullHandler())
    asyncio.run(_served(connection, web, arranged))


async def _served(connection: "Connection[Any, Any]", web: Web, arranged: Arranged | None) -> None:
    receiver = None
    if arranged is not None:
        # It does nothing with a callback, so that only the receiver's own work is seen.
        receiver = CallbackReceiver(
            lambda _callback: None, auth=arranged.auth, trusted_proxies=arranged.proxies
        )
    with listening() as listener:
        site = aiohttp_site if web is Web.AIOHTTP else uvicorn_site
        async with site(listener, web, receiver):
            connection.send(Started(f"http://127.0.0.1:{listener.getsockname()[1]}", _NOT_USED))
            while True:
                try:
                    question: _Ask = await asyncio.to_thread(connection.recv)
                except EOFError:
                    return
                connection.send(_answer(question, receiver))


def _answer(question: _Ask, receiver: CallbackReceiver | None) -> Any:
    match question:
        case _Ask.CPU:
            used = resource.getrusage(resource.RUSAGE_SELF)
            return used.ru_utime + used.ru_stime
        case _Ask.REFUSED:
            return {} if receiver is None else dict(receiver.status.refused)
        case _:
            assert_never(question)


def listening() -> socket.socket:
    """Return a socket of loopback that takes connections."""
    # asyncio sends small writes at once on sockets of this protocol only; a reply in two of
    # them would wait 40 ms for the client's acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(_BACKLOG)
    return listener


@contextlib.asynccontextmanager
async def aiohttp_site(
    listener: socket.socket, _web: Web, receiver: CallbackReceiver | None
) -> AsyncIterator[None]:
    """Serve with aiohttp, until the block is left."""
    from aiohttp import web  # noqa: PLC0415 - a process has the framework that it serves with

    from income_client.receivers.aiohttp import routes  # noqa: PLC0415 - as above

    async def bare(request: web.Request) -> web.Response:
        orjson.loads(await request.read())
        return web.Response(body=_ANSWER, content_type="application/json")

    app = web.Application()
    app.add_routes([web.post(PATH, bare)] if receiver is None else routes(receiver, PATH))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def uvicorn_site(
    listener: socket.socket, web: Web, receiver: CallbackReceiver | None
) -> AsyncIterator[None]:
    """Serve with uvicorn on httptools and asyncio's loop, until the block is left."""
    import uvicorn  # noqa: PLC0415 - a process has the framework that it serves with

    config = uvicorn.Config(
        _bare_asgi if web is Web.ASGI else _fastapi(receiver),
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve(sockets=[listener]))
        yield
        server.should_exit = True


def _fastapi(receiver: CallbackReceiver | None) -> Any:
    from fastapi import FastAPI, Request, Response  # noqa: PLC0415 - as above
    from starlette.routing import Route  # noqa: PLC0415 - as above

    from income_client.receivers.asgi import Receiver  # noqa: PLC0415 - as above

    async def bare(request: Request) -> Response:
        orjson.loads(await request.body())
        return Response(_ANSWER, media_type="application/json")

    app = FastAPI(openapi_url=None)
    if receiver is None:
        app.post(PATH)(bare)
    else:
        # Started without uvicorn's proxy headers, so that its word about the peer is true.
        app.routes.append(Route(PATH, Receiver(receiver, is_peer_true=True)))
    return app


async def _bare_asgi(_scope: Any, receive: Any, send: Any) -> None:
    body, is_more = b"", True
    while is_more:
        message = await receive()
        body += message["body"]
        is_more = message["more_body"]
    orjson.loads(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_ANSWER))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": _ANSWER})
