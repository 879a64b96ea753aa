"""Where in its window the rows of a full page probably lie, by the dates of the applications.

An application is updated some time after its date. How long after is learned from every
page, because its window bounds the update times of its rows. A full page is then a
sample of the rows in its window, with a place for each of them.
"""

import math
from bisect import bisect_left, bisect_right
from itertools import accumulate
from statistics import median
from typing import Final

from income_client.records.window import Window

from .windows import Rows, second_of

_LATER: Final = tuple(60 * 1.5**n for n in range(42))
_EDGES: Final = (*(-edge for edge in reversed(_LATER)), 0.0, *_LATER)
"""Bounds in seconds between which delays are counted, up to some thirty years."""
_RARE: Final = 0.02
"""How likely an update before the date is thought at first, beside one after it."""
_ROWS: Final = 20
"""Rows of a page that delays are learned from."""
_MEMORY: Final = 600
"""Rows after which a delay is half forgotten or so."""
_NOTHING: Final = 1e-9
"""What rounding may leave of nothing."""
_PLACES: Final = 3
"""Places that each row is spread over."""
_STEP: Final = 2
"""Rows, consecutive by date, of which one represents all."""
_UNLIKELY: Final = 0.001
"""Share of all delays below which a row's date does not help."""
_PLACED: Final = 0.3
"""Share of the rows whose date must help."""
_LAST: Final = 0.2
"""Part of a window at its end in which a sample must have rows."""


class Delays:
    """How long after its date an application is updated: a histogram."""

    def __init__(self) -> None:
        self.learned: int = 0
        """Rows that it was learned from."""
        masses = [_RARE if edge < 0 else 1.0 for edge in _EDGES[:-1]]
        self._set([2 * mass / sum(masses) for mass in masses])

    def _set(self, masses: list[float]) -> None:
        self._masses = masses
        self._sums = list(accumulate(masses, initial=0.0))
        self.total: float = self._sums[-1]

    def below(self, delay: float) -> float:
        """Return how much of the histogram lies below a delay."""
        if delay <= _EDGES[0]:
            return 0.0
        if delay >= _EDGES[-1]:
            return self.total
        at = bisect_right(_EDGES, delay) - 1
        share = (delay - _EDGES[at]) / (_EDGES[at + 1] - _EDGES[at])
        return self._sums[at] + self._masses[at] * share

    def _within(self, low: float, high: float) -> float:
        """Return how much of the histogram lies between two delays, in this order."""
        return self.below(high) - self.below(low) if low < high else 0.0

    def delay(self, below: float) -> float:
        """Return the delay below which so much of the histogram lies."""
        at = min(max(bisect_right(self._sums, below) - 1, 0), len(self._masses) - 1)
        share = (below - self._sums[at]) / self._masses[at] if self._masses[at] else 0.0
        return _EDGES[at] + share * (_EDGES[at + 1] - _EDGES[at])

    @property
    def spread(self) -> float:
        """Seconds between the shortest and the longest of the usual delays."""
        return self.delay(0.9 * self.total) - self.delay(0.1 * self.total)

    def learn(self, window: Window, rows: Rows) -> None:
        """Take rows of a page: each was updated at some second of the window.

        A row counts for every delay that is possible, each as much as it is likely by now.
        """
        some = list(rows.values())[:: max(1, len(rows) // _ROWS)]
        added = [0.0] * len(self._masses)
        for row in some:
            date = second_of(row.application_date)
            low, high = window.after - date, window.before - date
            first = max(0, bisect_right(_EDGES, low) - 1)
            last = min(len(added), bisect_left(_EDGES, high))
            if first >= last:
                continue
            likely = self._masses[first:last]
            likely[0] -= self._within(_EDGES[first], low)
            likely[-1] -= self._within(high, _EDGES[last])
            total = sum(likely)
            for at, mass in enumerate(likely, first):
                added[at] += mass / total if total > _NOTHING else 1 / len(likely)
        kept = 1 - min(0.5, len(some) / _MEMORY) if self.total > _MEMORY else 1.0
        self._set([mass * kept + more for mass, more in zip(self._masses, added, strict=True)])
        self.learned += len(some)


class Sample:
    """A full page: a sample of the rows in its window.

    Args:
        window: that came back full.
        rows: of the page.
        delays: what is known of them; asked again once much more is.
        scale: rows of the window for each of the page, as far as can be guessed.
        trust: rows of the page that must turn up before they say as much as the guess.
    """

    def __init__(
        self, window: Window, rows: Rows, delays: Delays, *, scale: float, trust: float
    ) -> None:
        self.window = window
        self.left: int = window.before - window.after
        """Seconds that no page is known of yet."""
        self.found: float = 0
        """Rows of the sample that turned up on other pages since."""
        self._seen: float = 0
        self._ids = frozenset(rows)
        self._dates = sorted(second_of(row.application_date) for row in rows.values())
        self._delays = delays
        self._scale = scale
        self._trust = trust
        self.place()

    def place(self) -> None:
        """Place the rows by what is known of the delays now."""
        start, end, delays = self.window.after, self.window.before, self._delays
        self._learned = delays.learned
        self._places: list[float] = []
        spreads: list[float] = []
        dates = self._dates[_STEP // 2 :: _STEP] if len(self._dates) > 20 * _STEP else self._dates
        # Where delays differ by more than the window is wide, dates say nothing.
        for date in dates if delays.spread < end - start or delays.learned < _MEMORY else ():
            low, high = delays.below(start - date), delays.below(end - date)
            if high - low < _UNLIKELY * delays.total:
                continue
            step = (high - low) / _PLACES
            places = [date + delays.delay(low + (n + 0.5) * step) for n in range(_PLACES)]
            self._places += places
            spreads.append(places[-1] - places[0])
        # A page that lists its oldest rows first has none at the end of its window.
        reaches_end = max(self._places, default=start) > end - _LAST * (end - start)
        if reaches_end and len(spreads) > _PLACED * len(dates):
            self._places.sort()
            self._weight = len(self._dates) / len(self._places)
            self.blur: float = median(spreads)
        else:
            self._places.clear()
            self._weight = 1.0
            self.blur = math.inf

    def refresh(self) -> None:
        """Place the rows again if much more is known of the delays."""
        if self._delays.learned >= 2 * self._learned + _ROWS:
            self.place()

    def learn(self, rows: Rows) -> None:
        """Take the rows of another page about some of its window."""
        self.found += self.common(rows)
        self._seen += len(rows)

    def learn_share(self, rows: float, common: int) -> None:
        """Take how many rows of a sample around lie in this window, and are on this page."""
        if self._places:
            self._seen += rows
            self.found += common

    def common(self, rows: Rows) -> int:
        """Return how many rows of another page are on this one."""
        return len(self._ids & rows.keys())

    @property
    def trusted(self) -> float:
        """How many rows the scale is known from."""
        return self._trust + self.found

    @property
    def scale(self) -> float:
        """Rows of the window for each of the sample."""
        return max(1.0, (self._scale * self._trust + self._seen) / self.trusted)

    def count(self, start: float, end: float) -> float:
        """Return how many rows of the sample probably lie between two seconds."""
        return (bisect_left(self._places, end) - bisect_left(self._places, start)) * self._weight

    def reach(self, start: float, count: float) -> float | None:
        """Return the second before which so many of the sample lie; None if beyond its window."""
        if not self._places:
            return None
        first = bisect_left(self._places, start)
        steps = count / self._weight
        at = first + int(steps)
        if at >= len(self._places):
            return None
        before = self._places[at - 1] if at > first else start
        return before + (self._places[at] - before) * (steps % 1)
