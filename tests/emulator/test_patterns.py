"""Invented update times."""

from collections import Counter
from random import Random

import pytest

from income_client.emulator.times import DAY
from income_client.emulator.update_times import Spread, spread_times

PATTERNS = ("uniform", "bursts", "growth", "diurnal", "pareto", "bmodel", "seconds")


def _spread(pattern: str, count: int, seed: int = 1) -> list[int]:
    first = 1000 * DAY
    task = Spread(rng=Random(seed), count=count, first=first, last=first + 20 * DAY - 1)
    return spread_times(pattern, task)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_times_lie_in_the_span(pattern: str) -> None:
    """As many as asked, in ascending order, and the same ones for the same seed."""
    for count in (0, 1, 2, 17, 5_000):
        times = _spread(pattern, count)
        assert len(times) == count
        assert times == sorted(times) == _spread(pattern, count)
        assert all(1000 * DAY <= each < 1020 * DAY for each in times)
    assert times != _spread(pattern, 5_000, seed=2)


@pytest.mark.parametrize("pattern", PATTERNS[:-1])
def test_no_second_is_saturated(pattern: str) -> None:
    """No pattern but seconds holds more than 400 rows in a second, however dense it is."""
    first = 1000 * DAY
    task = Spread(rng=Random(3), count=30_000, first=first, last=first + 60)
    counts = Counter(spread_times(pattern, task))
    assert max(counts.values()) <= 400
    assert counts.total() == 30_000


def test_seconds_hold_full_pages() -> None:
    """The pattern of few seconds holds some that one page cannot."""
    assert max(Counter(_spread("seconds", 50_000)).values()) >= 1000
