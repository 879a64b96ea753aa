"""What the properties of a walk are tried on: update times, and readings of the contract."""

from collections.abc import AsyncIterator, Callable, Sequence
from random import Random
from typing import Any, Final, TypeVar

from hypothesis import strategies as st

from income_client import ApplicationPaginator, ApplicationSummary, DecodeError, IncomeClient

from .listing import BASE, Listing, Rules, rows_at, text_of

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

DATE: Final = '"application_date":"2020-01-01T00:00:00"'
MALFORMED: Final[dict[str, Callable[[str], str]]] = {
    "no date": lambda key: f'{{"application_id":"{key}","application_reference_id":"ref-{key}"}}',
    "null": lambda key: f'{{"application_id":"{key}","application_reference_id":null,{DATE}}}',
    "half a character": lambda key: (
        f'{{"application_id":"{key}","application_reference_id":"ref-\\ud800-{key}",{DATE}}}'
    ),
    "no id": lambda key: f'{{"application_reference_id":"ref-{key}",{DATE}}}',
    "no object": lambda key: f'["ref-{key}",NaN]',
}
"""Rows that are not what the contract says, by what is wrong with them."""
WITHOUT_ID: Final = ("no id", "no object")
"""Those whose id cannot be read."""


@st.composite
def update_seconds(draw: st.DrawFn, limit: int, most: int | None = None) -> list[int]:
    """Draw update times from ``BASE`` on, always fewer than ``limit`` in a second.

    There are at most ``most``, by default as few as a walk over sockets can take.
    """
    length = draw(st.sampled_from([2, 20, 300, 5_000, 1_000_000]), label="length of the span")
    kinds = ["uniform", "burst", "edges", "adjacent", "one second", "growing", "falling"]
    kind = draw(st.sampled_from(kinds))
    sizes = st.sampled_from([60, 40, 20, 3 * limit, limit + 1, limit, limit - 1, 1, 0])
    size = draw(sizes if most is None else st.integers(0, most), label="rows")
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
    return times


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
    times = draw(update_seconds(limit, 10 * limit if make is Listing else None))
    now = max([*times, BASE + 5]) + draw(st.sampled_from(since), "since the last")
    rules = draw(readings(now - BASE, **fixed))
    return make(rows=rows_at(times), now=now, rules=rules, chance=draw(CHANCES))


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
    paginator: ApplicationPaginator, found: list[str], errors: list[DecodeError], most: int = 999
) -> None:
    """Walk to the end and iterate again behind each malformed row, of which there are so many."""
    while True:
        try:
            return await collect(paginator, found)
        except DecodeError as error:
            errors.append(error.with_traceback(None))
            assert len(errors) <= most


async def collect(rows: AsyncIterator[ApplicationSummary], into: list[str]) -> None:
    """Keep the ids of a walk, even if it ends in an error."""
    async for row in rows:
        into.append(row.application_id)  # noqa: PERF401 - a comprehension would lose them
