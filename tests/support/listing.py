"""The list call read a second time: a pure rule from times and bounds to a page, and its service.

`Listing` knows neither sockets nor JSON, so that the planner is tried on it without
either, and the emulator's own rule is held against it. `ListService` answers by it over
a scripted server. Both share nothing with the emulator.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from email.utils import formatdate
from random import Random
from typing import Any, Final, Literal, Self, assert_never

from attrs import define, field, frozen

from income_client import BasicAuth, IncomeClient
from income_client.testing import JumpingClock
from tests.support.payloads import APPLICATION, row_of_list
from tests.support.server import Reply, Request, ScriptedServer, json_reply, reply, turns

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the service's times carry no zone
BASE: Final = 1_700_000_000
"""The second at which the data of these tests begins."""
DAY: Final = 86_400
_LIST_PATH: Final = "/v1/income/applications"
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
    """Treatment of a bound after the present."""
    default_span: int | None = None
    """Seconds before the upper bound at which an absent lower bound lies; None for no limit."""
    rounds_up: bool = False
    """Whether the present, as it is echoed, is the second after the one under way."""
    date_ahead: int | None = 0
    """Seconds that the Date header runs ahead of the service's time; None for no header."""
    cap: int | None = None
    """Most rows of a page, whatever its limit; None for as many as the limit says."""
    slowness: int = 0
    """Most turns of the loop that a reply may wait, so that replies overtake each other."""
    clock_stands: bool = False
    """Whether the service's clock stands still while the client pauses."""


@frozen(kw_only=True)
class Query:
    """One question as it arrived: its bounds in seconds, its limit or the contract's default."""

    after: int | None
    before: int | None
    limit: int
    sent: Mapping[str, str] = field(factory=dict)
    """The parameters as they were sent."""


@frozen(kw_only=True)
class Page:
    """One page, before it is written.

    The bounds that it echoes are seconds, JSON to be written in their place, or None for nothing.
    """

    after: Any
    before: Any
    ids: tuple[str, ...]


Outcome = Page | int
"""A page, or the status of a refusal."""


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


def list_rules(
    rules: Rules, rows: Mapping[str, int], now: int, query: Query, chance: Random
) -> Outcome:
    """Answer a question about rows, each with the second of its last update."""
    present = now + rules.rounds_up
    after = query.after
    if after is None:
        after = 0 if rules.default_span is None else present - rules.default_span
    before = present if query.before is None else query.before
    if rules.future == "refuse" and max(query.after or 0, before) > present:
        return 400
    if rules.future == "lower":
        after, before = min(after, present), min(before, present)
    if rules.oldest is not None:
        after = max(after, rules.oldest)
    if rules.widest is not None and before - after > rules.widest:
        if rules.cut == "start":
            after = before - rules.widest
        else:
            before = after + rules.widest
    ids = _ordered(_within(rules, rows, after, before), rules.order, rows, chance)
    return Page(
        after=after, before=before, ids=tuple(ids[: min(query.limit, rules.cap or query.limit)])
    )


def _within(rules: Rules, rows: Mapping[str, int], after: int, before: int) -> list[str]:
    first = after if rules.lower_closed else after + 1
    last = before if rules.upper_closed else before - 1
    return [key for key, second in rows.items() if first <= second <= last]


def _ordered(ids: list[str], order: Order, rows: Mapping[str, int], chance: Random) -> list[str]:
    match order:
        case "oldest":
            return sorted(ids, key=lambda key: (rows[key], key))
        case "newest":
            return sorted(ids, key=lambda key: (-rows[key], key))
        case "id":
            return sorted(ids)
        case "id reversed":
            return sorted(ids, reverse=True)
        case "random":
            return chance.sample(ids, len(ids))
        case _ as never:
            assert_never(never)


@define(kw_only=True, eq=False)
class Listing:
    """Applications, a clock and a reading of the contract."""

    rows: dict[str, int]
    """The second of the last update of each application."""
    now: int
    rules: Rules = field(factory=Rules)
    chance: Random = field(factory=lambda: Random(0))
    """Decides on random order, and on slowness."""
    before_answer: Callable[[], None] = lambda: None
    """Called before each answer, to change the service."""
    twist: Callable[[Query, Page], Outcome] = lambda query, page: page
    """Changes a page, or refuses it by the status that it returns."""
    most_requests: int = 20_000
    """Requests after which the walk is taken to be endless, and refused."""
    queries: list[Query] = field(factory=list, init=False)
    """Every question, in order of arrival."""
    pages: list[tuple[Query, Page]] = field(factory=list, init=False)
    """Every page that was given, with its question."""

    @classmethod
    def of(cls, seconds: Iterable[int], now: int = 10 * DAY, **rules: Any) -> Self:
        """Make one of updates, and with a present, so many seconds after ``BASE``."""
        rows = rows_at([BASE + second for second in seconds])
        return cls(rows=rows, now=BASE + now, rules=Rules(**rules))

    @property
    def overran(self) -> bool:
        """Whether more was asked than a walk over these applications may."""
        return len(self.queries) > self.most_requests

    @property
    def ids(self) -> set[str]:
        """All applications."""
        return set(self.rows)

    def touch(self, key: str) -> None:
        """Update an application now."""
        self.rows[key] = self.now

    def truth(self, after: int, before: int) -> set[str]:
        """Return the ids that one unlimited question with these bounds returns now."""
        if self.rules.oldest is not None:
            after = max(after, self.rules.oldest)
        return set(_within(self.rules, self.rows, after, before))

    def page(self, query: Query) -> Outcome:
        """Answer a question by the rules alone."""
        return list_rules(self.rules, self.rows, self.now, query, self.chance)

    def ask(self, query: Query) -> Outcome:
        """Answer a question, and remember both."""
        self.queries.append(query)
        if self.overran:
            return 403
        self.before_answer()
        outcome = self.page(query)
        if isinstance(outcome, Page):
            outcome = self.twist(query, outcome)
        if isinstance(outcome, Page):
            self.pages.append((query, outcome))
        return outcome


@define(kw_only=True, eq=False)
class ListService(Listing):
    """The service of a listing, and what it was asked.

    Its clock moves by the client's pauses and by ``now``, and stands still otherwise.
    """

    dates: Callable[[str], str] = lambda key: "2020-01-01T00:00:00"
    """Gives the application date of a row, as text."""
    malformed: dict[str, str] = field(factory=dict)
    """JSON that is written in place of the rows of some applications."""
    moving: dict[str, int] = field(factory=dict)
    """Applications that are there, and not listed for now, by the second of the last update."""
    most_requests: int = 2_000
    clock: JumpingClock = field(factory=JumpingClock)
    """Clock of the client; the client's pauses pass at the service, too."""
    holds: Callable[[Query], bool] | None = field(default=None, init=False)
    """Says of which questions the reply is held back; None for none."""
    held: list[Query] = field(factory=list, init=False)
    """Questions whose reply is held back."""
    _released: asyncio.Event = field(factory=asyncio.Event, init=False)
    _passed_until: float = field(init=False)
    """The moment of the clock up to which its pauses have passed at the service."""

    @_passed_until.default
    def _now_on_the_clock(self) -> float:
        return self.clock.monotonic()

    def release(self) -> None:
        """Give all replies that are held back, and hold none from now on."""
        self.holds = None
        self.held.clear()
        self._released.set()

    async def quiet(self) -> int:
        """Let the loop turn until nothing more is asked; return how much was asked."""
        seen = -1
        while seen != len(self.queries):
            seen = len(self.queries)
            await turns(_QUIET_TURNS)
        return seen

    async def answer(self, request: Request) -> Reply:
        """Answer a request by what is there when it arrives, though perhaps later."""
        if request.path.startswith(f"{_LIST_PATH}/"):
            return self._application(request.path.removeprefix(f"{_LIST_PATH}/"))
        assert request.path == _LIST_PATH, request.path
        sent = request.parameters
        query = Query(
            after=_second_of(sent.get("updated_after")),
            before=_second_of(sent.get("updated_before")),
            limit=int(sent.get("limit", "25")),
            sent=sent,
        )
        self._pass_time()
        outcome = self.ask(query)
        dated = self.rules.date_ahead
        date = None if dated is None else formatdate(self.now + dated, usegmt=True)
        if isinstance(outcome, Page):
            given = reply(body=self._body(outcome), Date=date)
        else:
            given = reply(outcome, Date=date)
        if self.holds is not None and self.holds(query):
            self.held.append(query)
            await self._released.wait()
        else:
            await turns(self.chance.randint(0, self.rules.slowness))
        return given

    def _pass_time(self) -> None:
        passed = int(self.clock.monotonic() - self._passed_until)
        self._passed_until += passed
        if not self.rules.clock_stands:
            self.now += passed

    def _application(self, key: str) -> Reply:
        """Return one application; those that are between two places of the list are there too."""
        second = self.rows.get(key, self.moving.get(key))
        if second is None:
            return reply(404)
        application = APPLICATION | {
            "application_id": key,
            "application_reference_id": f"ref-{key}",
            "application_date": self.dates(key),
            "last_updated_at": f"{text_of(second)}Z",
            "applicants": {},
            "income_calculations": {},
        }
        return json_reply(application)

    def _body(self, page: Page) -> bytes:
        rows = ",".join(self.malformed.get(key) or self._row(key) for key in page.ids)
        members = [f'"applications":[{rows}]']
        for name, bound in (("updated_after", page.after), ("updated_before", page.before)):
            if bound is not None:
                text = f'"{text_of(bound)}"' if isinstance(bound, int) else bound
                members.append(f'"{name}":{text}')
        return f"{{{','.join(members)}}}".encode()

    def _row(self, key: str) -> str:
        row = row_of_list(
            key, application_reference_id=f"ref-{key}", application_date=self.dates(key)
        )
        return json.dumps(row)


@contextlib.asynccontextmanager
async def serving(service: ListService, **options: Any) -> AsyncIterator[IncomeClient]:
    """Run the service and a client of it; afterwards no task of the client is left."""
    before = asyncio.all_tasks()
    auth = BasicAuth("partner", "invented")
    async with (
        ScriptedServer(service.answer) as server,
        IncomeClient(server.url, auth=auth, clock=service.clock, **options) as client,
    ):
        yield client
        # Connections are tasks of the server.
        left = {task for task in asyncio.all_tasks() - before if "accept" not in repr(task)}
        assert not left, "tasks are left"
