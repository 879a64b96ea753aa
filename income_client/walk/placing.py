"""Estimate the positions of a full page's rows in their window, by the dates of the applications.

An application is updated some time after its date. How long after is learned from every
page, because its window bounds the update times of its rows. A full page is then a
sample of the rows in its window, with a place for each of them. `density` has the whole model.
"""

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Final

from income_client.records.window import Window

from .windows import Rows, second_of

_LATER: Final = tuple(60 * 1.5**n for n in range(42))
_EDGES: Final = (*(-edge for edge in reversed(_LATER)), 0.0, *_LATER)
"""Bounds in seconds between which delays are counted: a minute to some thirty years, as the
contract's dates may differ, each by half longer, so that a delay is known to about a fifth."""
_ROWS: Final = 20
"""Rows of a page that delays are learned from. Measured: 100, 5 % fewer requests on uneven sets,
and half as much processor time again."""
_ENOUGH: Final = 600
"""Rows, of 30 pages, from which on the spread of the delays is believed."""
_USUAL: Final = 0.8
"""Share of delays that is usual: all but the tenth at either end. Measured: all, in requests /
least of real times, 1.53 and 1.86."""
_ROUNDING: Final = 1e-9
"""Rows that rounding may leave where no delay is likely."""
_LAST: Final = 0.2
"""Part of a window at its end in which a sample must have rows.

That 1,000 even rows all miss it by chance has a probability of 0.8 ** 1000. Measured: without,
equal dates 2.00 and 2.18.
"""


class Delays:
    """Histogram of the delays between the date of an application and its update, in rows."""

    def __init__(self) -> None:
        self.learned: int = 0
        """Number of rows that the histogram contains."""
        # Before any page, delays count for two rows: an update before the date is unlikely.
        counts = [0.02 if edge < 0 else 1.0 for edge in _EDGES[:-1]]
        self._set_counts([2 * count / sum(counts) for count in counts])

    def _set_counts(self, counts: list[float]) -> None:
        self._counts = counts
        self._sums = list(accumulate(counts, initial=0.0))
        self.total: float = self._sums[-1]

    def count_below(self, delay: float) -> float:
        """Return the number of rows of the histogram with a shorter delay."""
        if delay <= _EDGES[0]:
            return 0.0
        if delay >= _EDGES[-1]:
            return self.total
        at = bisect_right(_EDGES, delay) - 1
        share = (delay - _EDGES[at]) / (_EDGES[at + 1] - _EDGES[at])
        return self._sums[at] + self._counts[at] * share

    def quantile(self, count: float) -> float:
        """Return the delay below which a number of the histogram's rows lie."""
        at = min(max(bisect_right(self._sums, count) - 1, 0), len(self._counts) - 1)
        share = (count - self._sums[at]) / self._counts[at] if self._counts[at] else 0.0
        return _EDGES[at] + share * (_EDGES[at + 1] - _EDGES[at])

    @property
    def spread(self) -> float:
        """Seconds between the shortest and the longest of the usual delays."""
        rare = (1 - _USUAL) / 2 * self.total
        return self.quantile(self.total - rare) - self.quantile(rare)

    def learn(self, window: Window, rows: Rows) -> None:
        """Learn from rows of a page, each of which was updated at some second of the window.

        A row counts for every delay that is possible, each as much as it is likely by now.
        """
        some = list(rows.values())[:: max(1, len(rows) // _ROWS)]
        added = [0.0] * len(self._counts)
        for row in some:
            date = second_of(row.application_date)
            shortest, longest = window.after - date, window.before - date
            first = max(0, bisect_right(_EDGES, shortest) - 1)
            last = min(len(added), bisect_left(_EDGES, longest))
            if first >= last:
                continue
            likely = self._counts[first:last]
            likely[0] -= self.count_below(shortest) - self._sums[first]
            likely[-1] -= self._sums[last] - self.count_below(longest)
            total = sum(likely)
            for at, count in enumerate(likely, first):
                added[at] += count / total if total > _ROUNDING else 1 / len(likely)
        self._set_counts([count + more for count, more in zip(self._counts, added, strict=True)])
        self.learned += len(some)


class Sample:
    """A full page: a sample of the rows in its window.

    Args:
        window: that came back full.
        rows: of the page.
        delays: what is known of them; asked again once much more is.
        scale: rows of the window for each of the page, as far as can be guessed.
        weight: rows of the page that must be found again before they say as much as the guess.
    """

    def __init__(
        self, window: Window, rows: Rows, delays: Delays, *, scale: float, weight: float
    ) -> None:
        self.window = window
        self.uncovered: int = window.before - window.after
        """Seconds of the window that no later page has covered yet."""
        self._common: float = 0
        self._seen: float = 0
        self._ids = frozenset(rows)
        self._dates = sorted(second_of(row.application_date) for row in rows.values())
        self._delays = delays
        self._guessed_scale = scale
        self._weight = weight
        self._place_rows()

    def _place_rows(self) -> None:
        """Place each row at the median of its possible update times, by the delays known now."""
        start, end, delays = self.window.after, self.window.before, self._delays
        self._learned = delays.learned
        self._places: list[float] = []
        # Where delays differ by more than the window is wide, dates say nothing.
        if delays.spread < end - start or delays.learned < _ENOUGH:
            for date in self._dates:
                shortest, longest = delays.count_below(start - date), delays.count_below(end - date)
                if shortest < longest:
                    self._places.append(date + delays.quantile((shortest + longest) / 2))
            self._places.sort()
        # A page that lists its oldest rows first has none at the end of its window.
        if self._places and self._places[-1] <= end - _LAST * (end - start):
            self._places.clear()
        self._rows_per_place = len(self._dates) / max(1, len(self._places))

    @property
    def is_placed(self) -> bool:
        """Whether dates show the positions of the rows in the window."""
        return bool(self._places)

    def refresh(self) -> None:
        """Place the rows again if much more is known of the delays."""
        if self._delays.learned >= 2 * self._learned + _ROWS:
            self._place_rows()

    def learn(self, rows: Rows) -> None:
        """Learn from the rows of another page that covers part of the window."""
        self._common += self.count_common(rows)
        self._seen += len(rows)

    def learn_share(self, rows: float, common: int) -> None:
        """Learn from a full page around: its rows in this window, and its rows on this page."""
        if self._places:
            self._seen += rows
            self._common += common

    def count_common(self, rows: Rows) -> int:
        """Return how many rows of another page are on this one."""
        return len(self._ids & rows.keys())

    @property
    def evidence(self) -> float:
        """Number of rows that the scale is based on, plus the weight of the initial guess."""
        return self._weight + self._common

    @property
    def scale(self) -> float:
        """Rows of the window for each row of the sample."""
        return max(1.0, (self._guessed_scale * self._weight + self._seen) / self.evidence)

    def count(self, start: float, end: float) -> float:
        """Return how many rows of the sample probably lie between two seconds."""
        between = bisect_left(self._places, end) - bisect_left(self._places, start)
        return between * self._rows_per_place

    def end_of(self, start: float, count: float) -> float | None:
        """Return the second that ends ``count`` rows from ``start``; None at the sample's end."""
        first = bisect_left(self._places, start)
        steps = count / self._rows_per_place
        at = first + int(steps)
        if at >= len(self._places):
            return None
        before = self._places[at - 1] if at > first else start
        return before + (self._places[at] - before) * (steps % 1)
