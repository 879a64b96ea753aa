"""A service that sends bytes which nobody asked for, as faulty proxies and load balancers do."""

import contextlib
import enum
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any, assert_never

import trustme
from attrs import define, field

from tests.support.payloads import APPLICATION, PAGE, row_of_list
from tests.support.server import Reply, Request, ScriptedServer, json_reply, token_reply, turns


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


def application(application_id: str) -> Reply:
    """Return the reply about an application."""
    return json_reply(APPLICATION | {"application_id": application_id})


def page(*references: str) -> Reply:
    """Return the reply that lists applications with these references."""
    rows = [
        row_of_list(f"id-of-{reference}", application_reference_id=reference)
        for reference in references
    ]
    return json_reply(PAGE | {"applications": rows})


def answer_to(request: Request) -> Reply:
    """Return the right reply to a request."""
    if request.path == "/token":
        return token_reply()
    if request.path.endswith("/applications"):
        return page(request.reference)
    return application(request.name)


@define
class StrayService:
    """A service whose first replies are followed by bytes that nobody asked for."""

    when: When
    """The moment at which they come."""
    strays: list[bytes]
    """What comes after the first reply, after the second, and so on."""
    server: ScriptedServer = field(init=False)
    """Where the requests come in."""
    answer: Callable[[Request], Reply] = answer_to
    """Gives the right replies."""
    _late: list[tuple[int, bytes]] = field(factory=list)

    @property
    def over(self) -> list[int]:
        """For each request, which connection it came over: 0, 1, ..."""
        return [request.connection for request in self.server.requests]

    async def pass_time(self) -> None:
        """Let pass what lies between two calls of a client."""
        await turns()
        while self._late:
            connection, stray = self._late.pop()
            if connection in self.server.connections:
                self.server.connections[connection].write(stray)
        if self.when is not When.UNREAD:
            await turns()

    def reply_to(self, request: Request) -> Reply:
        """Return the right reply, and perhaps more behind it."""
        right = self.answer(request)
        stray = self.strays.pop(0) if self.strays else b""
        whole = bytes(right)

        async def last() -> AsyncIterator[bytes]:
            await turns()
            yield whole[-1:] + stray

        match self.when if stray else When.IDLE:
            case When.SAME:
                return Reply(raw=whole + stray)
            case When.TAIL:
                return Reply(raw=whole[:-1], slow=last)
            case When.IDLE | When.UNREAD:
                self._late.append((request.connection, stray))
                return right
            case _ as never:
                assert_never(never)


@contextlib.asynccontextmanager
async def straying(
    when: When,
    *strays: bytes,
    answer: Callable[[Request], Reply] = answer_to,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[StrayService]:
    """Run a service that answers rightly, and sends strays after its first replies."""
    service = StrayService(when, list(strays), answer)
    async with ScriptedServer(service.reply_to, tls) as service.server:
        yield service


def tls_pair() -> tuple[ssl.SSLContext, dict[str, Any]]:
    """Return a server's TLS context, and the client's option that trusts it."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, {"ssl": client}
