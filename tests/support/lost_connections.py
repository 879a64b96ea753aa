"""A service that stays up while its connections die, as after a suspend of the client's machine."""

import asyncio
import contextlib
import enum
from collections.abc import AsyncIterator
from typing import Any, assert_never

import aiohttp
from attrs import define, evolve, field

from income_client import BasicAuth, IncomeClient
from income_client.events import Event
from income_client.testing import JumpingClock
from tests.support.proxies import tunnelling
from tests.support.server import HUNG_UP, RESET, SILENT, Reply, Request, ScriptedServer
from tests.support.stray_replies import answer_to, tls_pair


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
