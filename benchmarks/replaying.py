"""A service in another process that replays an emulator's replies; knows no HTTP but the paths.

All bytes are made beforehand, so that it slows no client down, and what it waits for is
exact to a fraction of a millisecond.
"""

import asyncio
import re
import selectors
from collections.abc import Mapping
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any, Final, Self

import aiohttp

from income_client.emulator import Emulator

from .processes import ServiceProcess, Started

_ROOT: Final = "/v1/income/applications"
_END_OF_HEAD: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_HEAD: Final = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
_AT_A_TIME: Final = 16


class ReplayProcess(ServiceProcess):
    """A service of the replies that an emulator gave, until the block is left.

    Args:
        applications: how many it has.
        latency: seconds from a request to its reply; the token comes at once.

    Attributes:
        ids: those of its applications.
    """

    ids: list[str]

    def __init__(self, applications: int, latency: float) -> None:
        super().__init__(_serve, applications, latency)

    def __enter__(self) -> Self:
        super().__enter__()
        self.ids = self._received()
        return self


def _serve(connection: "Connection[Any, Any]", applications: int, latency: float) -> None:
    # Of all selectors this one alone waits for less than a millisecond.
    with asyncio.Runner(
        loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())
    ) as runner:
        runner.run(_served(connection, applications, latency))


async def _served(connection: "Connection[Any, Any]", applications: int, latency: float) -> None:
    async with Emulator(applications=applications) as emulator:
        replies, ids = await _recorded(emulator), list(emulator.world.ids)
        secret = emulator.oauth2.client_secret.reveal()
        started = (emulator.oauth2.client_id, secret)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(replies, latency), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connection.send(Started(f"http://127.0.0.1:{port}", started))
        connection.send(ids)
        try:
            await asyncio.to_thread(connection.recv)
        except EOFError:
            return


async def _recorded(emulator: Emulator) -> Mapping[bytes, bytes]:
    """Return whole replies by their paths."""
    replies: dict[bytes, bytes] = {}
    authorization = {"Authorization": emulator.basic.authorization().reveal()}
    paths = (f"{_ROOT}/{name}{part}" for name in emulator.world.ids for part in ("", "/documents"))
    async with aiohttp.ClientSession() as session:

        async def record(path: str) -> None:
            async with session.get(emulator.url + path, headers=authorization) as reply:
                reply.raise_for_status()
                replies[path.encode()] = _reply(await reply.read())

        while some := list(islice(paths, _AT_A_TIME)):
            await asyncio.gather(*map(record, some))
        async with session.post(
            f"{emulator.url}/token",
            data={"grant_type": "client_credentials"},
            headers={"Authorization": emulator.oauth2.authorization().reveal()},
        ) as token:
            replies[b"/token"] = _reply(await token.read())
    return replies


def _reply(body: bytes) -> bytes:
    return _HEAD.format(len(body)).encode() + body


class _Connection(asyncio.Protocol):
    """Answers each request when its time has come; there is one at a time."""

    _transport: asyncio.Transport

    def __init__(self, replies: Mapping[bytes, bytes], latency: float) -> None:
        self._replies = replies
        self._latency = latency
        self._loop = asyncio.get_running_loop()
        self._heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._heard += data
        head, end, body = self._heard.partition(_END_OF_HEAD)
        length = _LENGTH.search(head + b"\r\n")
        if not end or len(body) < (int(length[1]) if length else 0):
            return
        self._heard = b""
        path = head.split(b" ", 2)[1].partition(b"?")[0]
        if self._latency and path != b"/token":
            self._loop.call_later(self._latency, self._transport.write, self._replies[path])
        else:
            self._transport.write(self._replies[path])
