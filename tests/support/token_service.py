"""A token endpoint and a list call over raw sockets, whose every reply a test decides."""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qs

from attrs import define, field, frozen

from income_client import IncomeClient, IncomeClientError, OAuth2ClientCredentials
from income_client.testing import JumpingClock
from tests.support.stopping import stop

CREDENTIALS = OAuth2ClientCredentials("partner", "invented")
CUT = b""
"""A reply that is cut off before its first byte."""


@frozen(kw_only=True)
class Asked:
    """One request as it arrived."""

    is_token: bool
    """Whether it was for a token."""
    name: str
    """The reference that the list call asked for; empty for a token request."""
    token: str
    """The access token it carried; empty for a token request."""
    at: float
    """Seconds of the clock since the service was started."""
    is_first: bool
    """Whether it was the first one on its connection."""


class Clock(Protocol):
    """What measures and sleeps."""

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


Answer = Callable[[Asked], Awaitable[bytes]]
"""What is replied to a request: whole bytes, or `CUT`."""


@define
class TokenService:
    """What a running service has seen, and what it accepts.

    Only the newest token is accepted, and only for ``uses`` calls.
    """

    port: int
    asked: list[Asked] = field(factory=list)
    uses: float = float("inf")
    _uses_left: float = 0
    _conversations: set["asyncio.Task[Any]"] = field(factory=set)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def token_requests(self) -> int:
        """How many requests were for a token."""
        return sum(asked.is_token for asked in self.asked)

    @property
    def calls(self) -> list[Asked]:
        """The list calls."""
        return [asked for asked in self.asked if not asked.is_token]

    @property
    def names(self) -> list[str]:
        """What the list calls asked for, in the order of their arrival."""
        return [asked.name for asked in self.calls]

    async def issue(self, asked: Asked) -> bytes:
        """Reply to a token request with the next of token-1, token-2 and so on."""
        self._uses_left = self.uses
        return token(f"token-{self.token_requests}")

    async def admit(self, asked: Asked) -> bytes:
        """Reply to a list call: with a page if its token is the newest and not used up."""
        if asked.token != f"token-{self.token_requests}" or self._uses_left == 0:
            return unauthorized()
        self._uses_left -= 1
        return page()


def reply(status: int, body: bytes = b"{}", **headers: str) -> bytes:
    """Return a whole HTTP reply; underscores in the names of headers stand for dashes."""
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json"]
    lines.append(f"Content-Length: {len(body)}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def page() -> bytes:
    """Return the reply to a list call that finds nothing."""
    bounds = dict.fromkeys(("updated_after", "updated_before"), "2026-01-01T00:00:00")
    return reply(200, json.dumps(bounds | {"applications": []}).encode())


def token(name: str, lifetime: int = 3600) -> bytes:
    """Return the reply that brings a token."""
    payload = {"access_token": name, "token_type": "Bearer", "expires_in": lifetime}
    return reply(200, json.dumps(payload).encode())


def unauthorized() -> bytes:
    """Return the reply to a call whose token is not accepted."""
    return reply(401, WWW_Authenticate='Bearer error="invalid_token"')


def in_turn(*replies: bytes) -> Answer:
    """Answer with one reply after the other, and with the last one from then on."""
    left = list(replies)

    async def answer(asked: Asked) -> bytes:
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


@contextlib.asynccontextmanager
async def running(
    call: Answer | None = None,
    token_request: Answer | None = None,
    *,
    clock: Clock | None = None,
    uses: float = float("inf"),
    **options: Any,
) -> AsyncIterator[tuple[TokenService, IncomeClient]]:
    """Run a service and a client of it; afterwards no task is left.

    Args:
        call: answers list calls, in place of accepting the newest token.
        token_request: answers token requests, in place of issuing tokens.
        clock: the client's, which the service tells the time by; one that jumps by default.
        uses: for how many calls a token that the service issues is accepted.
        options: of the client.
    """
    before = asyncio.all_tasks()
    clock = JumpingClock() if clock is None else clock
    began = clock.monotonic()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        service._conversations.add(task)
        with contextlib.suppress(
            asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError
        ):
            is_first = True
            while True:
                asked = await _read(reader, lambda: clock.monotonic() - began, is_first)
                is_first = False
                service.asked.append(asked)
                answer = token_request or service.issue if asked.is_token else call or service.admit
                out = await answer(asked)
                if out == CUT:
                    _reset(writer)
                    break
                writer.write(out)
                await writer.drain()
        service._conversations.discard(task)
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0, backlog=1000)
    service = TokenService(server.sockets[0].getsockname()[1], uses=uses)
    usual: dict[str, Any] = {"auth": CREDENTIALS, "clock": clock}
    try:
        async with IncomeClient(service.url, **usual | options) as client:
            yield service, client
    finally:
        await stop(server)
        for conversation in service._conversations:
            conversation.cancel()
        await until(lambda: asyncio.all_tasks() == before)


async def _read(reader: asyncio.StreamReader, now: Callable[[], float], is_first: bool) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    path, _, query = first.split(" ")[1].partition("?")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    await reader.readexactly(int(headers.get("content-length", "0")))
    is_token = path == "/token"
    return Asked(
        is_token=is_token,
        name=parse_qs(query).get("application_reference_id", [""])[0],
        token="" if is_token else headers.get("authorization", "").removeprefix("Bearer "),
        at=now(),
        is_first=is_first,
    )


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def ask(client: IncomeClient, name: str = "a") -> None:
    """Make a list call that can be told from others by its name."""
    await client.get_application_page(application_reference_id=name)


async def outcomes(client: IncomeClient, names: Sequence[str]) -> list[str]:
    """Make calls at a time; return the class of each one's error, or ``done``."""

    async def outcome(name: str) -> str:
        try:
            await ask(client, name)
        except IncomeClientError as error:
            return type(error).__name__
        return "done"

    return await asyncio.gather(*map(outcome, names))


async def turns(number: int = 50) -> None:
    """Let the loop turn so many times."""
    for _ in range(number):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)
