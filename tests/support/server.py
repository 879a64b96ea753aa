"""The one server of these tests: real sockets on loopback, and a function that decides each byte.

A test writes an answer, a plain function or a coroutine function from a `Request` to a `Reply`::

    def answer(request: Request) -> Reply:
        return reply(404) if request.path == "/a" else reply(body=b"whole", cut=-2, reset=True)

    async with ScriptedServer(answer) as server:
        ...  # server.url, server.requests

- A `Reply` is a value: what is sent (`status`, `headers`, `body`, or `raw` bytes in their place,
  and `slow` pieces behind them) and how it ends (`cut`, `held`, `reset`, `closed`).
- Rules are functions that make an answer: `in_turn` and `token_rules` here, the list call in
  `listing`, files in `storage`, what stands before another server in `proxies`.
- What an answer raises is raised again when the server ends; no task of it is left then.
- What reads no requests at all, such as a tunnel or a greeting, is run by `accepting`.
"""

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, Self
from urllib.parse import parse_qsl

from attrs import define, field, frozen

from income_client.system.clock import Clock
from tests.support.payloads import APPLICATION, PAGE, row_of_list

END_OF_HEAD: Final = b"\r\n\r\n"


@frozen(kw_only=True)
class Request:
    """A request as it arrived."""

    head: bytes = field(repr=False)
    """Request line and header fields."""
    body: bytes = field(default=b"", repr=False)
    connection: int = 0
    """Number of the connection, from 0."""
    is_first: bool = True
    """Whether it was the first one on its connection."""
    at: float = 0
    """Seconds of the server's clock since it was started."""

    @property
    def method(self) -> str:
        return self.head.split(b" ", 1)[0].decode()

    @property
    def target(self) -> str:
        return self.head.split(b" ", 2)[1].decode()

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def parameters(self) -> dict[str, str]:
        return dict(parse_qsl(self.query))

    @property
    def headers(self) -> dict[str, str]:
        """The header fields, names in lower case."""
        lines = self.head.decode("latin-1").strip().split("\r\n")[1:]
        return {name.lower(): text.strip() for name, _, text in (x.partition(":") for x in lines)}

    @property
    def authorization(self) -> str:
        return self.headers.get("authorization", "")

    @property
    def token(self) -> str:
        return self.authorization.removeprefix("Bearer ")

    @property
    def reference(self) -> str:
        """The reference that a list call asks for."""
        return self.parameters.get("application_reference_id", "")

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@frozen(kw_only=True)
class Reply:
    """A reply: the bytes to send, and the end of the connection."""

    status: int = 200
    headers: Mapping[str, str | None] = field(factory=dict)
    """Fields. Content-Length is told if it is not named here; None leaves a field out."""
    body: bytes = field(default=b"", repr=False)
    """The body, framed already if it is chunked."""
    raw: bytes | None = field(default=None, repr=False)
    """Bytes in place of status, headers and body."""
    cut: int | None = None
    """End of the bytes sent, like the end of a slice; then the connection ends."""
    slow: Callable[[], AsyncIterator[bytes]] | None = None
    """Gives what is sent behind that, piece by piece, each when the one before has been taken."""
    held: bool = False
    """Whether it stands still there, until the client leaves or the server releases it."""
    reset: bool = False
    """Whether the connection ends by RST then."""
    closed: bool = False
    """Whether the connection ends, though nothing was cut."""

    def __bytes__(self) -> bytes:
        if self.raw is not None:
            return self.raw
        told: dict[str, str | None] = {"Content-Length": str(len(self.body)), **self.headers}
        lines = [f"{name}: {text}" for name, text in told.items() if text is not None]
        head = "\r\n".join([f"HTTP/1.1 {self.status} X", *lines])
        return head.encode("latin-1") + END_OF_HEAD + self.body

    @property
    def body_at(self) -> int:
        """Number of bytes before the body."""
        return len(bytes(self)) - len(self.body)

    @property
    def is_last(self) -> bool:
        """Whether the connection ends behind it."""
        is_told = self.headers.get("Connection") == "close"
        return self.closed or self.reset or self.cut is not None or is_told


HUNG_UP: Final = Reply(cut=0)
"""The connection is closed in place of a reply."""
RESET: Final = Reply(cut=0, reset=True)
"""The connection is reset in place of a reply."""
SILENT: Final = Reply(cut=0, held=True)
"""No reply comes."""

Answer = Callable[[Request], Reply | Awaitable[Reply]]


_ENDINGS: Final = frozenset({"cut", "slow", "held", "reset", "closed"})


def reply(
    status: int = 200, body: bytes = b"{}", content_type: str = "application/json", **more: Any
) -> Reply:
    """Return a reply with a body, and with an ending as in `Reply`.

    All else are header fields; underscores in their names stand for dashes.
    """
    endings = {name: more.pop(name) for name in _ENDINGS & more.keys()}
    fields = {name.replace("_", "-"): text for name, text in more.items()}
    return Reply(
        status=status, headers={"Content-Type": content_type, **fields}, body=body, **endings
    )


def json_reply(payload: object, **options: Any) -> Reply:
    """Return a reply with a payload."""
    return reply(body=json.dumps(payload).encode(), **options)


def token_reply(token: str = "token-1", lifetime: int = 3600, **fields: Any) -> Reply:
    """Return the reply that brings an access token, perhaps with other fields."""
    return json_reply(
        {"access_token": token, "token_type": "Bearer", "expires_in": lifetime, **fields}
    )


EMPTY_PAGE: Final = json_reply(
    {
        "updated_after": "2026-01-01T00:00:00",
        "updated_before": "2026-01-01T00:00:00",
        "applications": [],
    }
)
"""The reply to a list call that finds nothing."""
UNAUTHORIZED: Final = reply(401, WWW_Authenticate='Bearer error="invalid_token"')
"""The reply to a call whose token is not accepted."""


def application(application_id: str) -> Reply:
    """Return the reply about an application."""
    return json_reply(APPLICATION | {"application_id": application_id})


def page(*references: str) -> Reply:
    """Return the reply that lists applications with these references."""
    rows = [row_of_list(f"id-of-{one}", application_reference_id=one) for one in references]
    return json_reply(PAGE | {"applications": rows})


def answer_to(request: Request) -> Reply:
    """Return the right reply to any request."""
    if request.path == "/token":
        return token_reply()
    if request.path.endswith("/applications"):
        return page(request.reference)
    return application(request.name)


def in_turn(*steps: Reply | Answer) -> Answer:
    """Answer by one step after the other, and by the last one from then on."""
    left = list(steps)

    def answer(request: Request) -> Reply | Awaitable[Reply]:
        step = left.pop(0) if len(left) > 1 else left[0]
        return step if isinstance(step, Reply) else step(request)

    return answer


def token_rules(
    call: Answer | None = None,
    token_request: Answer | None = None,
    *,
    lifetime: int = 3600,
    uses: float = float("inf"),
) -> Answer:
    """Give tokens, and answer calls.

    Args:
        call: answers calls; by default with an empty page if their token is the newest.
        token_request: answers token requests; by default with token-1, token-2 and so on.
        lifetime: of these tokens, in seconds.
        uses: for how many calls the newest token is accepted.
    """
    given, left = 0, 0.0

    def answer(request: Request) -> Reply | Awaitable[Reply]:
        nonlocal given, left
        if request.path == "/token":
            given, left = given + 1, uses
            issued = token_reply(f"token-{given}", lifetime)
            return issued if token_request is None else token_request(request)
        if call is not None:
            return call(request)
        if request.token != f"token-{given}" or left == 0:
            return UNAUTHORIZED
        left -= 1
        return EMPTY_PAGE

    return answer


@define(eq=False)
class ScriptedServer:
    """A server while it runs: what came, and over which connections."""

    answer: Answer
    """Decides each reply; may be replaced at any time."""
    tls: ssl.SSLContext | None = None
    clock: Clock | None = field(default=None, kw_only=True)
    """Clock of the requests' times."""
    port: int = field(default=0, init=False)
    requests: list[Request] = field(factory=list, init=False)
    connections: dict[int, asyncio.StreamWriter] = field(factory=dict, init=False)
    """Open connections, by number."""
    failure: Exception | None = field(default=None, init=False)
    _accepted: int = field(default=0, init=False)
    _began: float = field(default=0, init=False)
    _released: asyncio.Event = field(factory=asyncio.Event, init=False)
    _running: contextlib.AsyncExitStack = field(factory=contextlib.AsyncExitStack, init=False)

    async def __aenter__(self) -> Self:
        self._began = self._now()
        self.port = await self._running.enter_async_context(accepting(self._converse, self.tls))
        return self

    async def __aexit__(self, failure: type[BaseException] | None, *_: object) -> None:
        await self._running.aclose()
        if failure is None and self.failure is not None:
            raise self.failure

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def calls(self) -> list[Request]:
        """The requests that were not for a token."""
        return [request for request in self.requests if request.path != "/token"]

    @property
    def references(self) -> list[str]:
        """The references that these asked for."""
        return [request.reference for request in self.calls]

    @property
    def token_requests(self) -> int:
        return self.count("/token")

    def count(self, path: str) -> int:
        return sum(request.path == path for request in self.requests)

    def release(self) -> None:
        """End all replies that are held, and hold none from now on."""
        self._released.set()

    def _now(self) -> float:
        return 0 if self.clock is None else self.clock.monotonic()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, is_first = self._accepted, True
        self._accepted += 1
        self.connections[number] = writer
        try:
            while True:
                head = await reader.readuntil(END_OF_HEAD)
                request = Request(
                    head=head,
                    body=await reader.readexactly(_body_length(head)),
                    connection=number,
                    is_first=is_first,
                    at=self._now() - self._began,
                )
                is_first = False
                self.requests.append(request)
                found = self.answer(request)
                out = found if isinstance(found, Reply) else await found
                await self._send(out, reader, writer)
                if out.is_last:
                    break
        except (EOFError, OSError):
            pass  # the client has left
        except Exception as error:  # noqa: BLE001 - raised again to the test
            self.failure = error
        finally:
            del self.connections[number]

    async def _send(
        self, out: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(bytes(out)[: out.cut])
        await writer.drain()
        if out.slow is not None:
            async for piece in out.slow():
                writer.write(piece)
                await writer.drain()
        if out.held:
            ends = [asyncio.ensure_future(end) for end in (reader.read(), self._released.wait())]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for end in ends:
                    end.cancel()
        if out.reset:
            reset(writer)


def _body_length(head: bytes) -> int:
    return int(Request(head=head).headers.get("content-length", "0"))


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with RST."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[object]]


@contextlib.asynccontextmanager
async def accepting(
    converse: Conversation, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Converse over each connection to a port, and close it; afterwards none is left."""
    open_ones: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_ones[task] = writer
        try:
            await converse(reader, writer)
        except (EOFError, OSError, asyncio.CancelledError):
            pass  # the other side has left, or the server ends
        finally:
            del open_ones[task]
            writer.close()

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, backlog=1000, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        # asyncio loses, unclosed, what a server accepts in the turn in which it is closed.
        for listener in server.sockets:
            asyncio.get_running_loop().remove_reader(listener)
        await turns(3)
        server.close()
        pending = dict(open_ones)
        for task, writer in pending.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await server.wait_closed()


async def turns(number: int = 50) -> None:
    """Let the loop turn so many times."""
    for _ in range(number):
        await asyncio.sleep(0)
