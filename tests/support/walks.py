"""Walks and what they are tried on: update times, and readings of the contract.

A walk is dry, where the planner asks and the pure rule of the list call answers, or over sockets.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

from attrs import define, evolve, field
from hypothesis import strategies as st

from income_client import (
    ApplicationSummary,
    DecodeError,
    IncomeClient,
    SaturatedWindowError,
    from_json,
)
from income_client.records.applications import ApplicationPage
from income_client.records.window import EPOCH
from income_client.walk import ApplicationPaginator
from income_client.walk.checkpoint import read_checkpoint, write_checkpoint
from income_client.walk.planner import Question, WalkPlanner
from income_client.walk.windows import Answer, Bounds, Delivery

from .listing import BASE, DAY, Listing, Page, Query, Rules, rows_at, text_of
from .payloads import row_of_list

L = TypeVar("L", bound=Listing)

LIMITS: Final = st.sampled_from([2, 3, 5, 10])
WALKERS: Final = st.sampled_from([1, 2, 4, 8])
CHANCES: Final = st.builds(Random, st.integers(0, 2**32))
"""Evenly spread, other than ``st.randoms``, which also draws what no generator would."""
MEANINGS: Final[dict[str, dict[str, Any]]] = {
    "both exclusive": {"lower_closed": False, "upper_closed": False},
    "lower inclusive": {"lower_closed": True, "upper_closed": False},
    "upper inclusive": {"lower_closed": False, "upper_closed": True},
    "both inclusive": {"lower_closed": True, "upper_closed": True},
}
"""The four meanings of the bounds."""
_MOST_CUTS: Final = 30
"""Windows into which a service may cut the span, so that an example stays short."""


def _without(name: str, key: str) -> str:
    """Return a row of the list in which a field is missing."""
    row = row_of_list(key, application_reference_id=f"ref-{key}")
    return json.dumps({other: value for other, value in row.items() if other != name})


MALFORMED: Final[dict[str, Callable[[str], str]]] = {
    "no date": partial(_without, "application_date"),
    "null": lambda key: json.dumps(row_of_list(key, application_reference_id=None)),
    "half a character": lambda key: json.dumps(
        row_of_list(key, application_reference_id=f"ref-\ud800-{key}")
    ),
    "no id": partial(_without, "application_id"),
    "no object": lambda key: f'["ref-{key}",NaN]',
}
"""Rows that are not what the contract says, by what is wrong with them."""
WITHOUT_ID: Final = ("no id", "no object")
"""Kinds of malformed rows without a readable id."""


@st.composite
def readings(draw: st.DrawFn, /, span: int, **fixed: Any) -> Rules:
    """Draw one way to read the contract for a walk over so many seconds.

    Some fields are fixed, to a value or to what a strategy draws.
    """
    # Windows of a few seconds end as fast as an open walk can follow them.
    widths = [width for width in (12, 40, 3_600) if span / width < _MOST_CUTS]
    drawn: dict[str, Any] = {
        "lower_closed": st.booleans(),
        "upper_closed": st.booleans(),
        "order": st.sampled_from(["random", "oldest", "newest", "id", "id reversed"]),
        "widest": st.sampled_from([None, None, *widths]),
        "cut": st.sampled_from(["start", "end"]),
        "oldest": st.sampled_from([None, None, None, BASE + 1, BASE + 5]),
        "future": st.sampled_from(["accept", "lower", "refuse"]),
        "rounds_up": st.sampled_from([False, False, True]),
        "date_ahead": st.sampled_from([0, 0, None, 3, -3, 6 * 3_600, -6 * 3_600]),
        "slowness": st.sampled_from([0, 3, 12]),
    }
    for name, value in fixed.items():
        drawn[name] = value if isinstance(value, st.SearchStrategy) else st.just(value)
    return Rules(**{name: draw(values, name) for name, values in drawn.items()})


@st.composite
def listings(
    draw: st.DrawFn,
    /,
    make: Callable[..., L],
    limit: int,
    since: Sequence[int] = (5,),
    **fixed: Any,
) -> L:
    """Draw a listing: applications, a reading of the contract, and a present.

    Args:
        draw: given by Hypothesis.
        make: `Listing`, or `ListService` for fewer applications.
        limit: rows at which a page is full; every second has fewer.
        since: seconds between the last update and the present.
        fixed: as for `readings`.
    """
    length = draw(st.sampled_from([2, 20, 300, 5_000, 1_000_000]), label="length of the span")
    kinds = ["uniform", "burst", "edges", "adjacent", "one second", "growing", "falling"]
    kind = draw(st.sampled_from(kinds))
    few = st.sampled_from([60, 40, 20, 3 * limit, limit + 1, limit, limit - 1, 1, 0])
    size = draw(st.integers(0, 10 * limit) if make is Listing else few, label="rows")
    chance = Random(draw(st.integers(0, 2**32)))
    pick: dict[str, Callable[[int], int]] = {
        "uniform": lambda number: chance.randrange(length + 1),
        "burst": lambda number: min(length, length // 3 + chance.randrange(4)),
        "edges": lambda number: chance.choice([0, 1, length // 2, length - 1, length]),
        "adjacent": lambda number: min(length, number // (limit - 1)),
        "one second": lambda number: length // 2,
        "growing": lambda number: int(length * chance.random() ** 0.2),
        "falling": lambda number: int(length * chance.random() ** 5),
    }
    times: list[int] = []
    for number in range(size):
        second = BASE + pick[kind](number)
        if times.count(second) < limit - 1:
            times.append(second)
    now = max([*times, BASE + 5]) + draw(st.sampled_from(since), "since the last")
    rules = draw(readings(now - BASE, **fixed))
    return make(rows=rows_at(times), now=now, rules=rules, chance=draw(CHANCES))


# Dry walks

_ROW: Final = from_json(ApplicationSummary, json.dumps(row_of_list()))


def rows_of(dates: Mapping[str, int]) -> tuple[ApplicationSummary, ...]:
    """Return rows of the list with these ids, each with the second of its date."""
    return tuple(
        evolve(_ROW, application_id=key, application_date=EPOCH + timedelta(seconds=second))
        for key, second in dates.items()
    )


def page_of(after: int, before: int, dates: Mapping[str, int]) -> ApplicationPage:
    """Return a page of such rows that echoes these bounds."""
    return ApplicationPage(
        updated_after=EPOCH + timedelta(seconds=after),
        updated_before=EPOCH + timedelta(seconds=before),
        applications=rows_of(dates),
    )


@define(kw_only=True)
class DryWalk:
    """A walk over a listing, one step at a time; its chance decides which answer comes next."""

    listing: Listing
    planner: WalkPlanner
    limit: int
    dates: Mapping[str, int]
    """The second of each application's date."""
    delivered: list[Delivery] = field(factory=list)
    in_flight: list[tuple[Question, Answer | None]] = field(factory=list)
    """Questions and their answers, None for one that is refused."""
    options: Mapping[str, Any]
    """Options of the planner."""

    @property
    def ids(self) -> list[str]:
        """The ids delivered, in order."""
        return [row.application_id for one in self.delivered for row in one.page.applications]

    def run(self) -> "DryWalk":
        """Walk to the end."""
        while self.step():
            pass
        return self

    def resumed(self) -> "DryWalk":
        """Walk to the end from where this walk is."""
        bounds = self.planner.bounds
        _, covered = read_checkpoint(write_checkpoint(bounds, self.planner.covered))
        options = {**self.options, "covered": covered}
        return dry_walk(
            self.listing, bounds.after, bounds.before, limit=self.limit, dates=self.dates, **options
        ).run()

    def step(self) -> bool:
        """Ask all that can be asked, take one answer; tell whether there was one."""
        while (question := self.planner.next()) is not None:
            self.in_flight.append((question, self._ask(question)))
        if not self.in_flight:
            assert self.planner.is_finished
            return False
        which = self.listing.chance.randrange(len(self.in_flight))
        question, answer = self.in_flight.pop(which)
        if answer is None:
            assert self.planner.refuse(question), f"{question} was refused"
        else:
            self.planner.receive(question, answer)
        while self.planner.ready:
            delivery = self.planner.ready.popleft()
            self.delivered.append(delivery)
            self.planner.acknowledge(delivery)
        return True

    def _ask(self, question: Question) -> Answer | None:
        listing, bounds = self.listing, question.bounds
        if not listing.rules.clock_stands:
            listing.now += round(question.delay)
        reply = listing.ask(Query(after=bounds.after, before=bounds.before, limit=self.limit))
        assert not listing.overran, "the walk does not end"
        if not isinstance(reply, Page):
            return None
        ahead = listing.rules.date_ahead
        served_at = None if ahead is None else listing.now + ahead
        page = page_of(reply.after, reply.before, {key: self.dates[key] for key in reply.ids})
        return Answer.of(page, self.limit, served_at)


def dry_walk(
    listing: Listing,
    after: int,
    before: int | None,
    *,
    limit: int,
    dates: Mapping[str, int] | None = None,
    **options: Any,
) -> DryWalk:
    """Prepare a walk; without ``dates`` they lie up to three days before the first update."""
    if dates is None:
        rows = enumerate(listing.rows.items())
        dates = {key: second - number * 7919 % (3 * DAY) for number, (key, second) in rows}
    planner = WalkPlanner(Bounds(after, before), limit=limit, **{"walkers": 1, **options})
    return DryWalk(listing=listing, planner=planner, limit=limit, dates=dates, options=options)


@st.composite
def walks(
    draw: st.DrawFn,
    /,
    since: Sequence[int] = (5,),
    after: Sequence[int] = (-1,),
    is_open: Sequence[bool] = (False, True),
    limits: st.SearchStrategy[int] = LIMITS,
    walkers: st.SearchStrategy[int] = WALKERS,
    **fixed: Any,
) -> DryWalk:
    """Draw a walk up to the present of a listing, which is its upper bound unless it is open.

    Args:
        draw: given by Hypothesis.
        since: as for `listings`.
        after: seconds from ``BASE`` to the lower bound.
        is_open: whether there is no upper bound.
        limits: of its pages.
        walkers: how many questions are in flight at once.
        fixed: as for `readings`.
    """
    limit = draw(limits, "limit")
    listing = draw(listings(Listing, limit, since, **fixed))
    lower = BASE + draw(st.sampled_from(after), "after")
    before = None if draw(st.sampled_from(is_open), "is open") else listing.now
    return dry_walk(listing, lower, before, limit=limit, walkers=draw(walkers, "walkers"))


# Walks over sockets


def walk(
    client: IncomeClient, after: int | None, before: int | None, **options: Any
) -> ApplicationPaginator:
    """Begin a walk between two seconds."""
    return client.list_applications(
        None if after is None else text_of(after),
        None if before is None else text_of(before),
        **options,
    )


async def ids_of(rows: AsyncIterator[ApplicationSummary]) -> list[str]:
    """Walk to the end and return the ids in the order in which they came."""
    return [row.application_id async for row in rows]


async def read_on(
    paginator: ApplicationPaginator, most: int = 999
) -> tuple[list[str], list[DecodeError]]:
    """Walk to the end, also behind malformed rows, of which there are so many, and saturation."""
    found: list[str] = []
    errors: list[DecodeError] = []
    while len(errors) <= most:
        try:
            await collect(paginator, found)
        except DecodeError as error:
            errors.append(error.with_traceback(None))
        except SaturatedWindowError as error:
            found += [row.application_id for row in error.applications]
        else:
            return found, errors
    raise AssertionError("the walk does not end")


async def collect(rows: AsyncIterator[ApplicationSummary], into: list[str]) -> None:
    """Keep the ids of a walk, even if it ends in an error."""
    async for row in rows:
        into.append(row.application_id)  # noqa: PERF401 - a comprehension would lose them
