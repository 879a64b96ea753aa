"""A service in another process that answers fixed bytes, to slow no client down; knows no client.

What it answers is told by the path alone; only the id that was asked for is put in.
Below ``/small`` an application has no applicants, and a page has one row.
"""

import asyncio
import enum
from multiprocessing.connection import Connection
from typing import Any, Final, assert_never

import orjson

from . import decoding_payloads
from .processes import ServiceProcess, Started

SMALL: Final = "/small"
"""Added to the address, for the shortest replies that the contract allows."""

_ROWS: Final = 1000
_FORM: Final = b"grant_type=client_credentials"
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    b"Date: Tue, 30 Jun 2026 12:00:00 GMT\r\nContent-Length: %d\r\n\r\n%b"
)
_TOKEN: Final = b'{"access_token":"invented","token_type":"Bearer","expires_in":3600}'


class _Ask(enum.Enum):
    TOKENS = "tokens"


class FixedService(ServiceProcess):
    """The service in another process, until the block is left."""

    def __init__(self) -> None:
        super().__init__(_serve)

    def tokens(self) -> int:
        """Return how many tokens were sold so far."""
        tokens: int = self.ask(_Ask.TOKENS)
        return tokens


class _Replies:
    def __init__(self) -> None:
        self.tokens = 0
        application = decoding_payloads.application()
        small = orjson.loads(application)
        small |= {"applicants": {}, "income_calculations": {}}
        small["data_sources"] = {"image_files": [], "structured_data": []}
        # What stands before and behind the id.
        self._application = _around_id(application)
        self._small = _around_id(orjson.dumps(small))
        self._documents = _around_id(decoding_payloads.documents())
        self._page = decoding_payloads.page(_ROWS)
        self._small_page = decoding_payloads.page(1)

    def to(self, path: bytes) -> bytes:
        """Return the body that a path asks for."""
        if path == b"/token":
            self.tokens += 1
            return _TOKEN
        is_small = path.startswith(SMALL.encode())
        if b"?" in path:
            return self._small_page if is_small else self._page
        start, _, name = path.rpartition(b"/")
        if name == b"documents":
            return start.rpartition(b"/")[2].join(self._documents)
        return name.join(self._small if is_small else self._application)


def _around_id(body: bytes) -> list[bytes]:
    return body.split(orjson.loads(body)["application_id"].encode(), 1)


class _Protocol(asyncio.Protocol):
    def __init__(self, replies: _Replies) -> None:
        self._replies = replies
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        # A form may come with its header or behind it.
        self._received = (self._received + data).removeprefix(_FORM)
        while b"\r\n\r\n" in self._received:
            head, _, rest = self._received.partition(b"\r\n\r\n")
            self._received = rest.removeprefix(_FORM)
            body = self._replies.to(head.split(b" ", 2)[1])
            self._transport.write(_HEAD % (len(body), body))


def _serve(connection: "Connection[Any, Any]") -> None:
    asyncio.run(_served(connection))


async def _served(connection: "Connection[Any, Any]") -> None:
    replies = _Replies()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Protocol(replies), "127.0.0.1", 0, backlog=1000)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connection.send(Started(f"http://127.0.0.1:{port}", ("nobody", "none")))
        while True:
            try:
                question: _Ask = await asyncio.to_thread(connection.recv)
            except EOFError:
                return
            match question:
                case _Ask.TOKENS:
                    connection.send(replies.tokens)
                case _:
                    assert_never(question)
