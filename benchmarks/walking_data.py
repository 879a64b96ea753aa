"""The lists that the planners of walks are compared on: a year of update seconds each.

Each is a sorted list of seconds, made by the emulator's patterns; nothing else
is needed to say how many rows a window holds. Rows stand in for summaries.
"""

import gzip
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Final, cast

from income_client.emulator.update_times import Spread, spread_times
from income_client.http.endpoints import LARGEST_LIMIT
from income_client.records.applications import ApplicationPage
from income_client.records.window import EPOCH, Window
from income_client.walk.windows import Bounds

_DAY: Final = 86_400
_FIRST: Final = 1_700_006_400
YEAR: Final = Window(_FIRST, _FIRST + 365 * _DAY)
"""The span that is walked; it begins at midnight."""
MILD: Final = ("uniform", "growth")
"""The patterns whose density changes slowly."""
HARD: Final = ("diurnal", "bursts", "pareto", "bmodel")
"""The patterns whose density changes within a page."""

REAL: Final = ("git", "aiohttp")
"""Lists of times that nobody invented; README.md in the folder says where they are from."""
DATED: Final = ("six hours", "a day", "any time")
"""How long applications of those are dated before their update: in the median, exactly, or so
that dates tell nothing."""
_DATA: Final = Path(__file__).parent / "data"


class Row:
    """What a planner reads of a summary; its date is made only when it is read."""

    __slots__ = ("_applied", "application_id")

    def __init__(self, number: int, applied: int) -> None:
        self.application_id = str(number)
        self._applied = applied

    @property
    def application_date(self) -> datetime:
        """Date of the application."""
        return EPOCH + timedelta(seconds=self._applied)


class SimulatedList:
    """The list call over update seconds, both bounds inclusive, rows in any order.

    Args:
        seconds: of the last updates, in ascending order.
        seed: what the choice of a full page's rows hangs on.
        dates: second of each application's date; up to three days before its last update
            if not given.
    """

    def __init__(
        self, seconds: Sequence[int], *, seed: int, dates: Sequence[int] | None = None
    ) -> None:
        self.seconds = seconds
        self.now = max(YEAR.before, seconds[-1]) + 30 * _DAY
        self._dates = dates
        self._chance = Random(seed)

    def is_full(self, window: Window) -> bool:
        """Tell whether a page for exactly this window is full."""
        first = bisect_left(self.seconds, window.after)
        return bisect_left(self.seconds, window.before, first) - first >= LARGEST_LIMIT

    def page(self, bounds: Bounds) -> ApplicationPage:
        """Answer a question of the client's planner."""
        before = self.now if bounds.before is None else bounds.before
        first = bisect_left(self.seconds, bounds.after)
        numbers = range(first, bisect_right(self.seconds, before, first))
        if len(numbers) > LARGEST_LIMIT:
            chosen: Sequence[int] = self._chance.sample(numbers, LARGEST_LIMIT)
        else:
            chosen = numbers
        rows = tuple(Row(number, self._date(number)) for number in chosen)
        return ApplicationPage(
            updated_after=EPOCH + timedelta(seconds=bounds.after),
            updated_before=EPOCH + timedelta(seconds=before),
            applications=cast("Any", rows),
        )

    def _date(self, number: int) -> int:
        if self._dates is None:
            return self.seconds[number] - number * 7919 % (3 * _DAY)
        return self._dates[number]


def real_seconds(name: str) -> list[int]:
    """Return times at which something really happened, in ascending order.

    Args:
        name: one of `REAL`.
    """
    steps = gzip.decompress((_DATA / f"{name}.txt.gz").read_bytes()).split()
    return list(accumulate(map(int, steps)))


def real_list(seconds: Sequence[int], *, dates: str, seed: int) -> SimulatedList:
    """Return a list whose applications are dated in a way before each of these updates.

    Args:
        seconds: of the last updates.
        dates: one of `DATED`.
        seed: what chance hangs on.
    """
    chance = Random(seed)
    before: Callable[[int], int] = {
        "six hours": lambda _: int(chance.lognormvariate(math.log(6 * 3600), 1.5)),
        "a day": lambda _: _DAY,
        "any time": lambda second: chance.randrange(second - seconds[0] + 900 * _DAY),
    }[dates]
    return SimulatedList(seconds, seed=seed, dates=[second - before(second) for second in seconds])


def seconds_of(pattern: str, count: int, *, seed: int) -> list[int]:
    """Invent the update seconds of a year.

    Args:
        pattern: as the emulator knows it.
        count: how many.
        seed: what chance hangs on.
    """
    task = Spread(rng=Random(seed), count=count, first=YEAR.after, last=YEAR.before - 1)
    return spread_times(pattern, task)
