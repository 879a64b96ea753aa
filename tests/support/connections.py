"""Services that answer rightly over connections with faults: bytes nobody asked for, and deaths."""

import asyncio
import contextlib
import enum
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any, assert_never

import aiohttp
import trustme
from attrs import define, evolve, field

from income_client import BasicAuth, IncomeClient
from income_client.events import Event
from income_client.testing import JumpingClock
from tests.support.payloads import APPLICATION, PAGE, row_of_list
from tests.support.proxies import tunnelling
from tests.support.server import (
    HUNG_UP,
    RESET,
    SILENT,
    Reply,
    Request,
    ScriptedServer,
    json_reply,
    token_reply,
    turns,
)


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


def tls_pair() -> tuple[ssl.SSLContext, dict[str, Any]]:
    """Return a server's TLS context, and the client's option that trusts it."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, {"ssl": client}


# Bytes that nobody asked for


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


# Connections that die, as after a suspend of the client's machine


class Death(enum.Enum):
    """What happens on a dead connection when a request comes."""

    RESET = "reset"
    CLOSED = "closed"
    SILENT = "silent"
    """Nothing, for ever."""
    CUT = "cut"
    """Half a reply, and the end."""


class Way(enum.Enum):
    """How a client reaches the service."""

    HTTP = "http"
    HTTPS = "https"
    HTTP_PROXY = "http-proxy"
    HTTPS_PROXY = "https-proxy"
    BORROWED = "borrowed"


@define
class MortalService:
    """A service whose connections die when a test says so."""

    death: Death
    server: ScriptedServer = field(init=False)
    held: dict[str, asyncio.Event] = field(factory=dict)
    """Keeps back the replies about these applications."""
    is_always_deadly: bool = False
    """Whether connections die also that are new."""
    _dead: set[int] = field(factory=set)
    _together: asyncio.Barrier | None = None

    @property
    def over(self) -> list[int]:
        """For each request, which connection it came over: 0, 1, ..."""
        return [request.connection for request in self.server.requests]

    @property
    def open_connections(self) -> set[int]:
        """The connections that neither side has closed."""
        return set(self.server.connections)

    async def fill(self, client: IncomeClient, number: int) -> None:
        """Make so many calls at once, each over a new connection, which stays in the pool."""
        self._together = asyncio.Barrier(number)
        await asyncio.gather(*[client.get_application(f"first-{n}") for n in range(number)])
        self._together = None

    def die(self, *, but: int | None = None) -> None:
        """Let all connections die that there are, but perhaps one."""
        self._dead = set(self.over) - {but}

    async def answer(self, request: Request) -> Reply:
        """Reply, or do what is done on a dead connection."""
        if request.connection in self._dead or self.is_always_deadly:
            return self._last_words(request)
        if self._together is not None:
            await self._together.wait()
        if request.name in self.held:
            await self.held[request.name].wait()
        return answer_to(request)

    def _last_words(self, request: Request) -> Reply:
        match self.death:
            case Death.RESET:
                return RESET
            case Death.CLOSED:
                return HUNG_UP
            case Death.SILENT:
                return SILENT
            case Death.CUT:
                return evolve(answer_to(request), cut=-20)
            case _ as never:
                assert_never(never)


@contextlib.asynccontextmanager
async def mortal(
    death: Death, way: Way = Way.HTTP, **options: Any
) -> AsyncIterator[tuple[MortalService, IncomeClient, list[Event]]]:
    """Run a service and a client of it, whose pauses take no time; give its events too."""
    service, events = MortalService(death), list[Event]()
    is_tls = way in {Way.HTTPS, Way.HTTPS_PROXY}
    tls, trust = tls_pair() if is_tls else (None, {})
    async with contextlib.AsyncExitStack() as stack:
        service.server = await stack.enter_async_context(ScriptedServer(service.answer, tls))
        usual: dict[str, Any] = {
            "auth": BasicAuth("user", "invented"),
            "clock": JumpingClock(),
            "on_event": events.append,
            "base_url": service.server.url,
        }
        if way is Way.HTTP_PROXY:
            # It takes whole addresses as well, so it is a proxy.
            usual |= {"base_url": "http://localhost:9", "proxy": service.server.url}
        elif way is Way.HTTPS_PROXY:
            proxy, _ = await stack.enter_async_context(tunnelling(service.server.port))
            usual |= {"proxy": f"http://{proxy}"}
        elif way is Way.BORROWED:
            session = await stack.enter_async_context(aiohttp.ClientSession())
            usual |= {"session": session}
        client = IncomeClient(**usual | trust | options)
        await stack.enter_async_context(client)
        yield service, client, events
