"""How the rows of a walk are spread over its seconds, as far as its pages tell.

`planner` asks how wide the next window should be, and how many pages lie ahead. All
answers are hints: they change how many requests a walk makes, never what it yields.
"""

import math
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Set as AbstractSet
from typing import Final

from attrs import Factory, define

from income_client.records.window import Window

from .windows import Rows, second_of

FILL: Final = 0.85
"""How full a page is aimed to be."""
_GROWTH: Final = 4
"""How much wider than the last a window may be."""
_GROWTH_AFTER_EMPTY: Final = 16
_EMPTY: Final = 0.0005
"""Share of a page that an empty window counts as; a density of 0 has no logarithm."""
_MEMORY: Final = 0.1
"""Share of a page after which a density just seen counts as much as what was known before."""
_HIDDEN: Final = 2.0
"""How many times the rows seen a full page is taken to hold, where the density is known."""
_HIDDEN_BLIND: Final = 3.3
"""The same where nothing is known yet."""
_SAMPLE: Final = 8
"""Ids of a full page that must be found before their share is believed."""
_TELLING: Final = 0.06
"""Share of a page that must be expected before half of it means that a burst is over."""
_USUAL: Final = 24
"""Windows from which the usual density is taken."""
_EVEN: Final = 6
"""Windows left in a gap from which on it is divided evenly."""


class Density:
    """What is known of a walk's rows: one for the whole walk, asked by position.

    Args:
        limit: rows at which a page counts as full.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._regions: list[_Region] = []

    def width(self, start: int, end: int) -> int:
        """Return the width in seconds, 1 to ``end - start``, of the window to ask for."""
        return self._around(start, end).width(start, end)

    def pages(self, start: int, end: int) -> float:
        """Return how many pages probably lie in ``[start, end)``."""
        return self._around(start, end).pages(start, end) if start < end else 0.0

    def complete(self, window: Window, rows: Rows) -> None:
        """Learn from a page that was not full: these are all rows of the window."""
        self._around(window.after, window.before).completed(window, rows.keys())

    def full(self, window: Window, rows: Rows) -> int | None:
        """Learn from a full page; return where the window is best cut in two parts, if at all.

        Nothing is updated before it was made, so where nothing else is known, one question
        probably does for all that lies before the oldest of the rows.
        """
        region = self._around(window.after, window.before)
        region.overfull(window, rows.keys())
        if region.rate is not None or not rows:
            return None
        oldest = second_of(min(row.application_date for row in rows.values()))
        if not window.after < oldest < window.before - 1:
            return None
        insort(self._regions, _Region(oldest, region.end, self._limit, region.full_pages))
        region.end, region.full_pages = oldest, []
        return oldest

    def divide(self, start: int, cut: int, end: int) -> None:
        """Estimate ``[start, cut)`` and ``[cut, end)`` separately from now on."""
        insort(self._regions, self._around(start, end).fork(start, cut))

    def _around(self, start: int, end: int) -> "_Region":
        at = bisect_right(self._regions, start, key=lambda region: region.start)
        if at and start < self._regions[at - 1].end:
            return self._regions[at - 1]
        region = _Region(start, end, self._limit)
        self._regions.insert(at, region)
        return region


@define(kw_only=True)
class FullPage:
    """A full page, remembered until the windows inside it are done.

    It says two things: how many rows its span holds at least, and which rows they are. As
    the narrower windows inside it come back, the share of its ids in them gives the rest.
    """

    end: int
    """Where its window ended."""
    rows: float
    """Rows that must still be ahead, at the least."""
    ids: AbstractSet[str]
    """Those of its rows that may still turn up ahead."""
    found: int = 0
    """How many of them have."""
    seen: int = 0
    """All rows that turned up since."""

    def learn(self, ids: AbstractSet[str]) -> None:
        """Take the rows of a window inside it."""
        before = len(self.ids)
        self.ids = self.ids - ids
        self.found += before - len(self.ids)
        self.seen += len(ids)
        self.rows -= len(ids)

    def cut(self, position: int, at: int) -> "FullPage":
        """End here, and return the rest, without the ids: they may lie in either part."""
        rows = self.rows * (self.end - at) / (self.end - position)
        behind = FullPage(end=self.end, rows=rows, ids=frozenset())
        self.end, self.rows, self.ids = at, self.rows - rows, frozenset()
        self.found = self.seen = 0
        return behind

    @property
    def is_useful(self) -> bool:
        """Whether it still says anything about the rows ahead."""
        return self.rows > 0 or self.found >= _SAMPLE

    def estimate(self, *, blind: bool) -> float:
        """Return how many rows are probably ahead."""
        at_least = max(1.0, self.rows * (_HIDDEN_BLIND if blind else _HIDDEN))
        if self.found < _SAMPLE:
            return at_least
        by_share = self.seen / self.found * len(self.ids)
        # Where every row was on the page it lists the oldest first: its share says nothing.
        return max(by_share, at_least if self.found >= self.seen else 1.0)


@define
class _Seen:
    """A window that was completed."""

    rate: float
    width: int
    rows: int


@define(eq=False, order=False)
class _Region:
    """Seconds whose rows are taken to be spread as those just seen there.

    A page is aimed to be 0.85 full. After a burst of rows, the next window is as wide as
    usual again.
    """

    start: int
    end: int
    limit: int
    full_pages: list[FullPage] = Factory(list)
    """Full pages around the position, the narrowest last."""
    rate: float | None = None
    """Rows a second, None while no window was completed."""
    is_usual: bool = False
    """Whether the rate is the usual one, taken up again after a burst."""
    seen: deque[_Seen] = Factory(lambda: deque(maxlen=_USUAL))
    """The windows completed last."""

    def __lt__(self, other: "_Region") -> bool:
        return self.start < other.start

    def width(self, position: int, end: int) -> int:
        gap = end - position
        wanted = min(self._wanted(position, gap), gap)
        if wanted * _EVEN > gap:
            wanted = math.ceil(gap / max(1, math.ceil(gap / max(wanted, 1) - 0.12)))
        return max(1, int(wanted))

    def _wanted(self, position: int, gap: int) -> float:
        target = FILL * (self.limit - 1)
        wanted: float = gap
        if self.rate is not None:
            wanted = target / self.rate
            if not self.is_usual:
                growth = _GROWTH if self.seen[-1].rows else _GROWTH_AFTER_EMPTY
                wanted = min(wanted, self.seen[-1].width * growth)
        if self.full_pages:
            ahead = self.full_pages[-1].end - position
            if wanted > ahead / 2 > 0:
                rows = self.full_pages[-1].estimate(blind=self.rate is None)
                wanted = min(wanted, target / rows * ahead)
        return wanted

    def pages(self, position: int, end: int) -> float:
        rows = (self.rate or 0.0) * (end - position)
        for page in self.full_pages:
            if page.end > position:
                share = (min(page.end, end) - position) / (page.end - position)
                rows = max(rows, page.estimate(blind=self.rate is None) * share)
        return rows / (FILL * self.limit)

    def completed(self, window: Window, ids: AbstractSet[str]) -> None:
        width = window.before - window.after
        seen = _Seen(max(len(ids), _EMPTY * self.limit) / width, width, len(ids))
        self.is_usual = False
        if self.rate is None:
            self.rate = seen.rate
        else:
            expected = self.rate * width
            weight = max(seen.rows, expected) / (max(seen.rows, expected) + _MEMORY * self.limit)
            self.rate = _pooled(self.rate, seen.rate, weight)
            if expected > _TELLING * self.limit and seen.rows < expected / 2:
                self._expect_the_usual()
        self.seen.append(seen)
        for page in self.full_pages:
            page.learn(ids)
        self.full_pages = [
            page for page in self.full_pages if page.end > window.before and page.is_useful
        ]

    def _expect_the_usual(self) -> None:
        """Go back to the median of the densities seen, each weighted with its seconds."""
        half = sum(seen.width for seen in self.seen) / 2
        for seen in sorted(self.seen, key=lambda seen: seen.rate):
            half -= seen.width
            if half <= 0:
                self.is_usual = seen.rate < (self.rate or 0.0)
                self.rate = min(seen.rate, self.rate or seen.rate)
                return

    def overfull(self, window: Window, ids: AbstractSet[str]) -> None:
        self.full_pages.append(FullPage(end=window.before, rows=len(ids), ids=frozenset(ids)))

    def fork(self, position: int, cut: int) -> "_Region":
        """End here, and return what is known of ``cut`` and beyond."""
        pages = [page.cut(position, cut) for page in self.full_pages if page.end > cut]
        beyond = _Region(
            cut, self.end, self.limit, pages, self.rate, self.is_usual, self.seen.copy()
        )
        self.end = cut
        return beyond


def _pooled(known: float, seen: float, weight: float) -> float:
    """Return the mean of two densities on a logarithmic scale."""
    return math.exp(weight * math.log(seen) + (1 - weight) * math.log(known))
