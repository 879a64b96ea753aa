"""A server of raw sockets whose every byte a test decides, and a session that talks to it."""

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NoReturn

from attrs import field, frozen

from tests.support.stopping import stop


@frozen(kw_only=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def authorization(self) -> str:
        """The Authorization header."""
        return self.headers.get("authorization", "")


Answer = Callable[[Seen, asyncio.StreamWriter], Awaitable[bytes | None]]


def reply(
    status: int = 200,
    body: bytes = b"{}",
    content_type: str = "application/json",
    **fields: str,
) -> bytes:
    """Return a whole HTTP reply; underscores in field names stand for dashes."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {content_type}"]
    lines.append(f"Content-Length: {len(body)}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def token_reply(token: str = "token-1", lifetime: int = 3600, **fields: Any) -> bytes:
    """Return the reply that brings an access token."""
    payload = {"access_token": token, "token_type": "Bearer", "expires_in": lifetime} | fields
    return reply(body=json.dumps(payload).encode())


async def forever() -> NoReturn:
    """Wait for what never comes."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with RST."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@frozen
class ScriptedServer:
    """What a running server has seen."""

    port: int
    scheme: str = "http"
    seen: list[Seen] = field(factory=list)
    connections: set[asyncio.StreamWriter] = field(factory=set)

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def count(self, path: str) -> int:
        """Return how many requests came for a path."""
        return sum(seen.path == path for seen in self.seen)

    @property
    def token_requests(self) -> int:
        """How many of them were for a token."""
        return self.count("/token")

    @property
    def api_requests(self) -> int:
        """How many of them were not."""
        return len(self.seen) - self.token_requests


async def _read_request(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    path, _, query = target.partition("?")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method=method, path=path, query=query, headers=headers, body=body)


@contextlib.asynccontextmanager
async def serving(
    answer: Answer, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedServer]:
    """Run a server: each request gets the bytes that ``answer`` returns, None closes."""
    tasks: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        script.connections.add(writer)
        try:
            while True:
                seen = await _read_request(reader)
                script.seen.append(seen)
                out = await answer(seen, writer)
                if out is None:
                    break
                writer.write(out)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            script.connections.discard(writer)
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0, backlog=1000, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    script = ScriptedServer(port, "http" if tls is None else "https")
    try:
        yield script
    finally:
        await stop(server)
        pending = list(tasks)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await server.wait_closed()


def with_tokens(answer: Answer, lifetime: int = 3600) -> Answer:
    """Answer token requests with token-1, token-2 and so on, all others by ``answer``."""
    count = 0

    async def answer_both(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        nonlocal count
        if seen.path != "/token":
            return await answer(seen, writer)
        count += 1
        return token_reply(f"token-{count}", lifetime)

    return answer_both


def always(*replies: bytes | None) -> Answer:
    """Answer with one reply after the other; the last one stays."""
    left = list(replies)

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        return left.pop(0) if len(left) > 1 else left[0]

    return answer
