"""A list service on loopback that reads the contract in whichever way a test wants.

It serves the list call only, decides each reply when the request arrives, and
keeps every question. It shares nothing with the emulator, so that the walk is
held against a second reading of the contract.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timedelta
from email.utils import formatdate
from random import Random
from typing import Any, Final, Literal, Self
from urllib.parse import parse_qsl

from attrs import define, field, frozen

from income_client import BasicAuth, IncomeClient
from income_client.testing import JumpingClock

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the service's times carry no zone
_QUIET_TURNS: Final = 60
"""Turns of the loop without a request after which none is on its way."""

Order = Literal["oldest", "newest", "id", "id reversed", "random"]


@frozen(kw_only=True)
class Rules:
    """One way to read the contract where it is silent; times are in seconds."""

    lower_closed: bool = False
    """Whether rows of the very second ``updated_after`` are returned."""
    upper_closed: bool = False
    """Whether rows of the very second ``updated_before`` are returned."""
    order: Order = "oldest"
    """Order of the rows, which decides the rows that a full page hides."""
    widest: int | None = None
    """Widest window that is served; a wider one is cut, and echoed so."""
    cut: Literal["start", "end"] = "start"
    """The end of a window that is cut off when it is too wide."""
    oldest: int | None = None
    """First second that is kept; an earlier lower bound is raised to it."""
    future: Literal["accept", "lower", "refuse"] = "accept"
    """What becomes of a bound after the present."""
    rounds_up: bool = False
    """Whether the present, as it is echoed, is the second after the one under way."""
    date_ahead: int | None = 0
    """Seconds that the Date header runs ahead of the service's time; None for no header."""
    slowness: int = 0
    """Most turns of the loop that a reply may wait, so that replies overtake each other."""
    clock_stands: bool = False
    """Whether the service's clock stands still while the client pauses."""


@frozen(kw_only=True)
class Query:
    """One question as it arrived."""

    after: int | None
    """``updated_after`` in seconds."""
    before: int | None
    """``updated_before`` in seconds."""
    limit: int
    """``limit``; the contract's default where it was left out."""
    sent: Mapping[str, str]
    """The parameters as they were sent."""


@frozen(kw_only=True)
class Page:
    """One page, before it is written."""

    after: Any
    """Lower bound that is echoed: seconds, JSON to be written in its place, or None for nothing."""
    before: Any
    """Upper bound, likewise."""
    ids: tuple[str, ...]
    """The rows, at most ``limit``."""


Reply = Page | bytes | int
"""A page, a body of any bytes, or the status of a refusal."""


def text_of(second: int) -> str:
    """Write a second as the contract does."""
    return (EPOCH + timedelta(seconds=second)).isoformat()


def _second_of(text: str | None) -> int | None:
    if text is None:
        return None
    return int((datetime.fromisoformat(text) - EPOCH).total_seconds())


def rows_at(seconds: list[int]) -> dict[str, int]:
    """Name an application for each second; ids do not sort as their seconds do."""
    return {f"app-{number * 7919 % 10007:05d}": second for number, second in enumerate(seconds)}


class ServiceClock(JumpingClock):
    """A clock that jumps, and the service's own: a pause of the client passes there too."""

    def __init__(self) -> None:
        super().__init__()
        self._taken = self.monotonic()

    def take_passed(self) -> int:
        """Return the whole seconds that have passed since this was last called."""
        passed = int(self.monotonic() - self._taken)
        self._taken += passed
        return passed


@define(kw_only=True, eq=False)
class ListService:
    """The service: its applications, its clock, and what it was asked.

    Its clock moves by the client's pauses and by ``now``, and stands still otherwise.
    """

    rows: dict[str, int]
    """The second of the last update of each application."""
    now: int
    """The present second."""
    rules: Rules = field(factory=Rules)
    """How it reads the contract."""
    dates: Callable[[str], str] = lambda key: "2020-01-01T00:00:00"
    """Gives the application date of a row, as text."""
    malformed: dict[str, str] = field(factory=dict)
    """JSON that is written in place of the rows of some applications."""
    chance: Random = field(factory=lambda: Random(0))
    """Decides on random order and on slowness."""
    before_answer: Callable[[], None] = lambda: None
    """What happens at the service before each answer."""
    twist: Callable[[Query, Page], Reply] = lambda query, page: page
    """Changes a page, or refuses it by the status that it returns."""
    most_requests: int = 2_000
    """Requests after which the walk is taken to be endless, and refused."""
    clock: ServiceClock = field(factory=ServiceClock)
    """What the client pauses by."""
    queries: list[Query] = field(factory=list, init=False)
    """Every question, in order of arrival."""
    pages: list[tuple[Query, Page]] = field(factory=list, init=False)
    """Every page that was given, with its question."""
    holds: Callable[[Query], bool] | None = field(default=None, init=False)
    """Says of which questions the reply is held back; None for none."""
    held: list[Query] = field(factory=list, init=False)
    """Questions whose reply is held back."""
    failure: Exception | None = field(default=None, init=False)
    """What a hook raised while a request was answered."""
    url: str = field(default="", init=False)
    """Its address, while it listens."""
    transports: set[asyncio.Transport] = field(factory=set, init=False)
    """The connections to it."""
    _waiting: list[tuple[bytes, asyncio.Transport]] = field(factory=list, init=False)
    _server: asyncio.Server | None = field(default=None, init=False)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        for transport in list(self.transports):
            transport.abort()
        await self._server.wait_closed()

    @property
    def ids(self) -> set[str]:
        """All applications."""
        return set(self.rows)

    @property
    def overran(self) -> bool:
        """Whether more was asked than a walk over these applications may."""
        return len(self.queries) > self.most_requests

    def touch(self, key: str) -> None:
        """Update an application now."""
        self.rows[key] = self.now

    def truth(self, after: int, before: int) -> set[str]:
        """Return the ids that one unlimited question with these bounds returns now."""
        if self.rules.oldest is not None:
            after = max(after, self.rules.oldest)
        return set(self._within(after, before))

    def release(self) -> None:
        """Give all replies that are held back, and hold none from now on."""
        self.holds = None
        self.held.clear()
        while self._waiting:
            self._write(*self._waiting.pop(0))

    async def quiet(self) -> int:
        """Let the loop turn until nothing more is asked; return how much was asked."""
        seen, turns = len(self.queries), 0
        while turns < _QUIET_TURNS:
            await asyncio.sleep(0)
            turns += 1
            if len(self.queries) > seen:
                seen, turns = len(self.queries), 0
        return seen

    def page(self, query: Query) -> Reply:
        """Answer a question by the rules alone."""
        rules, after, before = self.rules, query.after or 0, query.before
        present = self.now + rules.rounds_up
        if rules.future == "refuse" and max(after, before or 0) > present:
            return 400
        before = present if before is None else before
        if rules.future == "lower":
            after, before = min(after, present), min(before, present)
        if rules.oldest is not None:
            after = max(after, rules.oldest)
        if rules.widest is not None and before - after > rules.widest:
            if rules.cut == "start":
                after = before - rules.widest
            else:
                before = after + rules.widest
        ids = self._ordered(self._within(after, before))
        return Page(after=after, before=before, ids=tuple(ids[: query.limit]))

    def _within(self, after: int, before: int) -> list[str]:
        first = after if self.rules.lower_closed else after + 1
        last = before if self.rules.upper_closed else before - 1
        return [key for key, second in self.rows.items() if first <= second <= last]

    def _ordered(self, ids: list[str]) -> list[str]:
        match self.rules.order:
            case "oldest":
                return sorted(ids, key=lambda key: (self.rows[key], key))
            case "newest":
                return sorted(ids, key=lambda key: (-self.rows[key], key))
            case "id":
                return sorted(ids)
            case "id reversed":
                return sorted(ids, reverse=True)
            case "random":
                return self.chance.sample(ids, len(ids))

    def receive(self, target: str, transport: asyncio.Transport) -> None:
        """Take a request for a path with its parameters."""
        path, _, parameters = target.partition("?")
        assert path == "/v1/income/applications", path
        sent = dict(parse_qsl(parameters))
        query = Query(
            after=_second_of(sent.get("updated_after")),
            before=_second_of(sent.get("updated_before")),
            limit=int(sent.get("limit", "25")),
            sent=sent,
        )
        self.queries.append(query)
        self.now += self.clock.take_passed() * (not self.rules.clock_stands)
        try:
            content = self._content(query)
        except Exception as error:  # noqa: BLE001 - raised again to the test
            self.failure = error
            content = self._http(403, b"{}")
        if self.holds is not None and self.holds(query):
            self.held.append(query)
            self._waiting.append((content, transport))
        else:
            self._write(content, transport, self.chance.randint(0, self.rules.slowness))

    def _content(self, query: Query) -> bytes:
        if self.overran:
            return self._http(403, b"{}")
        self.before_answer()
        reply = self.page(query)
        if isinstance(reply, Page):
            reply = self.twist(query, reply)
        match reply:
            case Page():
                self.pages.append((query, reply))
                return self._http(200, self._body(reply))
            case int():
                return self._http(reply, b"{}")
            case bytes():
                return self._http(200, reply)

    def _body(self, page: Page) -> bytes:
        rows = ",".join(
            self.malformed.get(key)
            or f'{{"application_id":"{key}","application_reference_id":"ref-{key}",'
            f'"application_date":"{self.dates(key)}"}}'
            for key in page.ids
        )
        members = [f'"applications":[{rows}]']
        for name, bound in (("updated_after", page.after), ("updated_before", page.before)):
            if bound is not None:
                text = f'"{text_of(bound)}"' if isinstance(bound, int) else bound
                members.append(f'"{name}":{text}')
        return f"{{{','.join(members)}}}".encode()

    def _http(self, status: int, body: bytes) -> bytes:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n"
        if self.rules.date_ahead is not None:
            head += f"Date: {formatdate(self.now + self.rules.date_ahead, usegmt=True)}\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def _write(self, content: bytes, transport: asyncio.Transport, turns: int = 0) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._write, content, transport, turns - 1)
        elif not transport.is_closing():
            transport.write(content)


class _Connection(asyncio.Protocol):
    """One connection to the service."""

    def __init__(self, service: ListService) -> None:
        self._service = service
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._service.transports.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._service.transports.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while b"\r\n\r\n" in self._unread:
            head, _, self._unread = self._unread.partition(b"\r\n\r\n")
            self._service.receive(head.split(b" ", 2)[1].decode(), self._transport)


@contextlib.asynccontextmanager
async def serving(service: ListService) -> AsyncIterator[IncomeClient]:
    """Run the service and a client of it; afterwards no task of the client is left."""
    before = asyncio.all_tasks()
    auth = BasicAuth("partner", "invented")
    async with service, IncomeClient(service.url, auth=auth, clock=service.clock) as client:
        yield client
        # A connection that the service is still accepting is a task of its own server.
        left = {task for task in asyncio.all_tasks() - before if "_accept" not in repr(task)}
        assert not left, "tasks are left"
    if service.failure is not None:
        raise service.failure
