"""A service that stays up while its connections die, as after a suspend of the client's machine."""

import asyncio
import contextlib
import enum
from collections.abc import AsyncIterator
from typing import Any, assert_never

import aiohttp
from attrs import define, field

from income_client import BasicAuth, IncomeClient
from income_client.events import Event
from income_client.testing import JumpingClock
from tests.support.fronts import tunnelling
from tests.support.scripted_server import ScriptedServer, Seen, forever, reset, serving
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
    over: list[int] = field(factory=list)
    """For each request, which connection it came over: 0, 1, ..."""
    held: dict[str, asyncio.Event] = field(factory=dict)
    """Keeps back the replies about these applications."""
    is_always_deadly: bool = False
    """Whether connections die also that are new."""
    _writers: list[asyncio.StreamWriter] = field(factory=list)
    _dead: set[int] = field(factory=set)
    _together: asyncio.Barrier | None = None

    @property
    def open_connections(self) -> set[int]:
        """The connections that neither side has closed."""
        return {self._writers.index(writer) for writer in self.server.connections}

    async def fill(self, client: IncomeClient, number: int) -> None:
        """Make so many calls at once, each over a new connection, which stays in the pool."""
        self._together = asyncio.Barrier(number)
        await asyncio.gather(*[client.get_application(f"first-{n}") for n in range(number)])
        self._together = None

    def die(self, *, but: int | None = None) -> None:
        """Let all connections die that there are, but perhaps one."""
        self._dead = set(range(len(self._writers))) - {but}

    async def answer(self, seen: Seen, writer: asyncio.StreamWriter) -> bytes | None:
        """Reply, or do what is done on a dead connection."""
        if writer not in self._writers:
            self._writers.append(writer)
        number = self._writers.index(writer)
        self.over.append(number)
        if number in self._dead or self.is_always_deadly:
            await self._die(seen, writer)
            return None
        if self._together is not None:
            await self._together.wait()
        name = seen.path.rpartition("/")[2]
        if name in self.held:
            await self.held[name].wait()
        return answer_to(seen)

    async def _die(self, seen: Seen, writer: asyncio.StreamWriter) -> None:
        match self.death:
            case Death.RESET:
                reset(writer)
            case Death.CLOSED:
                pass
            case Death.SILENT:
                await forever()
            case Death.CUT:
                writer.write(answer_to(seen)[:-20])
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
        service.server = await stack.enter_async_context(serving(service.answer, tls))
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
