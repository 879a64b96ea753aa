"""Sends callbacks as fast as they are answered, over bare sockets; knows no HTTP client.

All bytes are made beforehand. A connection is kept until the server ends it.
"""

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Final

from attrs import define, field, frozen

PATH: Final = "/callbacks"

_END_OF_HEAD: Final = b"\r\n\r\n"
_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_CLOSES: Final = re.compile(rb"\r\nconnection: *close\r\n", re.IGNORECASE)


@frozen(kw_only=True)
class Answers:
    """How a load was answered."""

    statuses: Counter[int]
    """Answers of each status; 0 stands for a connection that ended without one."""
    seconds: float
    """From the first request to the last answer."""


def callback_bytes(number: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return a whole request, whose body no other number has.

    Args:
        number: of the callback.
        headers: further header fields.
    """
    body = (
        f'{{"event_type":"income_calculations","application_id":"app-{number:08}",'
        f'"application_reference_id":"loan-{number:08}"}}'
    )
    fields = (
        ("Host", "callbacks.invalid"),
        ("User-Agent", "benchmark"),
        ("Accept", "*/*"),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        *headers,
    )
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"POST {PATH} HTTP/1.1\r\n{lines}\r\n{body}".encode()


@define
class _Load:
    left: deque[bytes]
    statuses: Counter[int] = field(factory=Counter)


class _Connection(asyncio.Protocol):
    """Sends one request after the other, until there is none, or the server wants no more."""

    _transport: asyncio.Transport

    def __init__(self, load: _Load, ended: "asyncio.Future[None]") -> None:
        self.ended = ended
        self._load = load
        self._heard = b""
        self._waits = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._heard += data
        head, end, body = self._heard.partition(_END_OF_HEAD)
        if not end:
            return
        head += b"\r\n"
        status, length = _STATUS.match(head), _LENGTH.search(head)
        if status is None or length is None:
            raise RuntimeError("the server answers in a way that is not expected here")
        if len(body) < int(length[1]):
            return
        self._heard, self._waits = b"", False
        self._load.statuses[int(status[1])] += 1
        if _CLOSES.search(head):
            self._transport.close()
        else:
            self._send()

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._waits:
            self._load.statuses[0] += 1
        if not self.ended.done():
            self.ended.set_result(None)

    def _send(self) -> None:
        if not self._load.left:
            self._transport.close()
            return
        self._waits = True
        self._transport.write(self._load.left.popleft())


async def send(url: str, requests: Sequence[bytes], *, connections: int) -> Answers:
    """Send requests, so many at a time, and return how they were answered.

    Args:
        url: of the server, without a path.
        requests: each a whole one.
        connections: as many are kept open at a time.
    """
    host, _, port = url.removeprefix("http://").rpartition(":")
    load = _Load(deque(requests))
    began = time.perf_counter()
    async with asyncio.TaskGroup() as senders:
        for _ in range(connections):
            senders.create_task(_keep_sending(load, host, int(port)))
    return Answers(statuses=load.statuses, seconds=time.perf_counter() - began)


async def _keep_sending(load: _Load, host: str, port: int) -> None:
    while load.left:
        await _send_over_one(load, host, port)


async def _send_over_one(load: _Load, host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    connection = _Connection(load, loop.create_future())
    await loop.create_connection(lambda: connection, host, port)
    await connection.ended
