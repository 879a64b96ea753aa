"""Promise 7: hints change the number of requests, and never the rows of a walk."""

import gzip
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.records.window import Window
from income_client.walk.density import Density
from income_client.walk.windows import Rows
from tests.support.listing import BASE, DAY, Listing, Rules, rows_at
from tests.support.walks import CHANCES, LIMITS, WALKERS, DryWalk, dry_walk, walks

YEAR = 365 * DAY


DATES: dict[str, Callable[[Random, Listing, int], int]] = {
    "the beginning of time": lambda chance, listing, second: -62_135_596_800,
    "the end of time": lambda chance, listing, second: 253_402_300_799,
    "mirrored": lambda chance, listing, second: (
        min(listing.rows.values()) + max(listing.rows.values()) - second
    ),
    "the last second": lambda chance, listing, second: listing.now,
    "at random": lambda chance, listing, second: chance.randrange(-(10**10), 10**11),
    "around the updates": lambda chance, listing, second: (
        chance.choice(list(listing.rows.values())) + chance.randint(-1, 1)
    ),
}
"""Dates that mislead a walk that trusts them."""


# A service that cuts windows to seconds is not walked from 1970.
@given(
    walks(since=[0, 9, 3 * DAY], after=[-BASE, -400, 0], oldest=None, widest=None, future="accept"),
    st.sampled_from(list(DATES.values())),
)
def test_application_dates_are_only_a_hint(
    walked: DryWalk, date_of: Callable[[Random, Listing, int], int]
) -> None:
    listing, bounds = walked.listing, walked.planner.bounds
    expected = listing.truth(bounds.after, bounds.before or listing.now + 1)
    updates = listing.rows.items()
    walked.dates = {key: date_of(listing.chance, listing, second) for key, second in updates}
    assert sorted(walked.run().ids) == sorted(expected)
    assert walked.planner.saturated == []


# How many requests a walk takes

DENSITIES: dict[str, Callable[[Random, int], int]] = {
    "even": lambda chance, number: number * 70_000,
    "one burst": lambda chance, number: 20_000_000 + number // 5,
    "two bursts": lambda chance, number: (number % 2) * 30_000_000 + number // 8,
    "a burst at the end": lambda chance, number: 31_500_000 + number // 3,
    "growing": lambda chance, number: int(31_500_000 * chance.random() ** 0.1),
    "many small bursts": lambda chance, number: (number // 12) * 900_000 + number % 12,
    "self-similar": lambda chance, number: sum(
        (chance.random() < 0.2) * 31_500_000 // 2**level for level in range(1, 24)
    ),
}


@pytest.mark.parametrize("walkers", [1, 8])
@pytest.mark.parametrize("density", DENSITIES)
def test_the_number_of_requests_is_bounded_for_every_density(density: str, walkers: int) -> None:
    """However rows are spread over a year, a dozen requests per page are enough."""
    chance, limit = Random(5), 25
    times = [DENSITIES[density](chance, number) for number in range(400)]
    listing = Listing.of(times, YEAR + DAY, order="random")
    walked = dry_walk(listing, BASE - 1, BASE + YEAR, limit=limit, walkers=walkers).run()
    assert sorted(walked.ids) == sorted(listing.ids)
    assert walked.planner.requests <= 12 * len(times) / limit


@pytest.mark.parametrize("limit", [5, 25, 100, 1000])
def test_the_empty_time_before_the_first_application_takes_few_requests(limit: int) -> None:
    listing = Listing.of((300 * n for n in range(2 * limit)), 600 * limit)
    dates = {key: second - DAY for key, second in listing.rows.items()}
    walked = dry_walk(listing, 0, None, limit=limit, dates=dates).run()
    assert sorted(walked.ids) == sorted(listing.ids)
    assert walked.planner.requests <= 20


class HostileDensity(Density):
    """Estimates that do as much harm as they can, and counts of the full pages at each place."""

    def __init__(self, limit: int, wanted: Callable[[int, int], int]) -> None:
        super().__init__(limit)
        self.full_at: Counter[int] = Counter()
        self._wanted = wanted

    def width(self, start: int, end: int) -> int:
        """Return any number."""
        return self._wanted(start, end)

    def pages(self, start: int, end: int) -> float:
        """Return any number."""
        return float(self._wanted(start, end))

    def middle(self, start: int, end: int) -> int:
        """Return any number."""
        return start + self._wanted(start, end)

    def full(self, window: Window, rows: Rows) -> int | None:
        """Count a full page."""
        self.full_at[window.after] += 1
        super().full(window, rows)
        return None


HOSTILE_WIDTHS: dict[str, Callable[[Random], Callable[[int, int], int]]] = {
    "everything": lambda _: lambda start, end: end - start,
    "more than there is": lambda _: lambda start, end: 10**12,
    "all but a second": lambda _: lambda start, end: end - start - 1,
    "nothing": lambda _: lambda start, end: 0,
    "less than nothing": lambda _: lambda start, end: -(10**12),
    "anything": lambda chance: lambda start, end: chance.randint(-9, 2 * (end - start)),
}


@given(st.data(), LIMITS, WALKERS, st.sampled_from(sorted(HOSTILE_WIDTHS)))
def test_no_estimate_makes_a_walk_endless(
    data: st.DataObject, limit: int, walkers: int, widths: str
) -> None:
    """For any widths, few pages at one place are full, and the walk yields the same rows."""
    chance = data.draw(CHANCES)
    is_narrow = HOSTILE_WIDTHS[widths](Random(0))(0, 1000) < 999
    span = 200 if is_narrow else data.draw(st.sampled_from([200, 10**6]), label="span")
    rows = data.draw(st.integers(0, 60))
    listing = Listing.of((chance.randrange(span) for _ in range(rows)), span)
    listing.chance = chance
    walked = dry_walk(listing, BASE - 1, BASE + span, limit=limit, walkers=walkers)
    density = walked.planner.density = HostileDensity(limit, HOSTILE_WIDTHS[widths](Random(1)))
    walked.run()
    given = set(walked.ids) | set(walked.planner.withheld)
    assert walked.planner.saturated or given == listing.truth(BASE - 1, BASE + span)
    assert max(density.full_at.values(), default=0) <= 4 + (span + 2).bit_length()


# Real times

TIMES = Path(__file__).parents[2] / "benchmarks" / "data" / "aiohttp.txt.gz"


@pytest.mark.parametrize(
    ("dated", "listed", "walkers", "most"),
    [
        ("a day before", "random", 1, 84),
        ("a day before", "random", 8, 93),
        ("a day before", "oldest", 8, 120),
        ("a day before", "newest", 1, 121),
        ("at any time", "random", 1, 96),
    ],
)
def test_walks_over_real_times_ask_little(dated: str, listed: Any, walkers: int, most: int) -> None:
    """Some 40 full pages would hold each sixteenth of the commits of aiohttp; a mean is bounded."""
    seconds = list(accumulate(map(int, gzip.decompress(TIMES.read_bytes()).split())))
    requests = [
        _count_requests(seconds[part::16], dated, listed, walkers) for part in range(0, 16, 2)
    ]
    assert fmean(requests) <= most


def _count_requests(seconds: list[int], dated: str, listed: Any, walkers: int) -> int:
    listing = Listing(rows=rows_at(seconds), now=seconds[-1] + 30 * DAY, rules=Rules(order=listed))
    before = {key: listing.chance.randrange(2000 * DAY) for key in listing.rows}
    if dated == "a day before":
        before = dict.fromkeys(before, DAY)
    dates = {key: second - before[key] for key, second in listing.rows.items()}
    span = seconds[0] - 1, seconds[-1] + 1
    walked = dry_walk(listing, *span, limit=62, walkers=walkers, dates=dates).run()
    assert set(walked.ids) == listing.ids
    return walked.planner.requests
