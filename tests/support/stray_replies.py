"""A service that sends bytes which nobody asked for, as faulty proxies and load balancers do."""

import asyncio
import contextlib
import enum
import json
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, assert_never
from urllib.parse import parse_qs

import trustme
from attrs import define, field

from tests.support.payloads import APPLICATION, PAGE, row_of_list
from tests.support.scripted_server import ScriptedServer, Seen, reply, serving, token_reply

_TURNS: Final = 30


class When(enum.Enum):
    """The moment at which bytes come that nobody asked for."""

    IDLE = "idle"
    """While the connection is idle."""
    UNREAD = "unread"
    """Just before the next request, so that the event loop has not read them yet."""
    SAME = "same segment"
    """In one segment with the reply before."""
    TAIL = "last segment"
    """In the last segment of the reply before."""


async def turns() -> None:
    """Let both sides read what was sent to them."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


def application(application_id: str) -> bytes:
    """Return the reply about an application."""
    return reply(body=json.dumps(APPLICATION | {"application_id": application_id}).encode())


def page(*references: str) -> bytes:
    """Return the reply that lists applications with these references."""
    rows = [
        row_of_list(f"id-of-{reference}", application_reference_id=reference)
        for reference in references
    ]
    return reply(body=json.dumps(PAGE | {"applications": rows}).encode())


def answer_to(seen: Seen) -> bytes:
    """Return the right reply to a request."""
    if seen.path == "/token":
        return token_reply()
    if seen.path.endswith("/applications"):
        return page(*parse_qs(seen.query)["application_reference_id"])
    return application(seen.path.rpartition("/")[2])


@define
class StrayService:
    """A service whose first replies are followed by bytes that nobody asked for."""

    when: When
    """The moment at which they come."""
    strays: list[bytes]
    """What comes after the first reply, after the second, and so on."""
    server: ScriptedServer = field(init=False)
    """Where the requests come in."""
    over: list[int] = field(factory=list)
    """For each request, which connection it came over: 0, 1, ..."""
    _writers: list[asyncio.StreamWriter] = field(factory=list)
    _late: list[tuple[asyncio.StreamWriter, bytes]] = field(factory=list)

    async def pass_time(self) -> None:
        """Let pass what lies between two calls of a client."""
        await turns()
        while self._late:
            writer, stray = self._late.pop()
            writer.write(stray)
        if self.when is not When.UNREAD:
            await turns()

    async def reply(self, seen: Seen, writer: asyncio.StreamWriter, right: bytes) -> bytes:
        """Send the right reply, and perhaps more; return the rest of what is to be sent."""
        if writer not in self._writers:
            self._writers.append(writer)
        self.over.append(self._writers.index(writer))
        stray = self.strays.pop(0) if self.strays else b""
        match self.when if stray else When.SAME:
            case When.SAME:
                return right + stray
            case When.TAIL:
                writer.write(right[:-1])
                await turns()
                return right[-1:] + stray
            case When.IDLE | When.UNREAD:
                self._late.append((writer, stray))
                return right
            case _ as never:
                assert_never(never)


@contextlib.asynccontextmanager
async def straying(
    when: When,
    *strays: bytes,
    answer: Callable[[Seen], bytes] = answer_to,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[StrayService]:
    """Run a service that answers rightly, and sends strays after its first replies."""
    service = StrayService(when, list(strays))

    async def respond(seen: Seen, writer: asyncio.StreamWriter) -> bytes:
        return await service.reply(seen, writer, answer(seen))

    async with serving(respond, tls) as service.server:
        yield service


def tls_pair() -> tuple[ssl.SSLContext, dict[str, Any]]:
    """Return a server's TLS context, and the client's option that trusts it."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, {"ssl": client}
