"""How wide the next window should be; hints only, which change the number of requests.

The rule is the plain one: the density just seen, aimed at a page that is 0.85
full. A full page says two more things for free, and both are kept: its span
holds at least so many rows, and which rows they are. As the narrower windows
inside it come back, the share of its ids found in them tells how much is left.
After a burst of rows, the next window is as wide as usual again.
"""

import math
from collections import deque
from collections.abc import Set as AbstractSet
from typing import Final

from attrs import Factory, define

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


@define(kw_only=True)
class Crowd:
    """A full page, remembered until the windows inside it are done."""

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
        """Take the rows of a window inside."""
        before = len(self.ids)
        self.ids = self.ids - ids
        self.found += before - len(self.ids)
        self.seen += len(ids)
        self.rows -= len(ids)

    def cut(self, position: int, at: int) -> "Crowd":
        """End here, and return the part behind; which ids lie in which part nobody knows."""
        rows = self.rows * (self.end - at) / (self.end - position)
        behind = Crowd(end=self.end, rows=rows, ids=frozenset())
        self.end, self.rows, self.ids = at, self.rows - rows, frozenset()
        self.found = self.seen = 0
        return behind

    @property
    def is_useful(self) -> bool:
        """Tell whether it still says anything about the rows ahead."""
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


@define
class Density:
    """What a walker knows of the rows ahead of it."""

    limit: int
    """Rows at which a page counts as full."""
    rate: float | None = None
    """Rows a second, None while no window was completed."""
    is_usual: bool = False
    """Whether the rate is the usual one, taken up again after a burst."""
    seen: deque[_Seen] = Factory(lambda: deque(maxlen=_USUAL))
    """The windows completed last."""
    crowds: list[Crowd] = Factory(list)
    """Full pages around the position, the narrowest last."""

    def width(self, position: int, end: int) -> int:
        """Return the width in seconds, 1 to ``end - position``, of the window to ask for."""
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
        if self.crowds:
            ahead = self.crowds[-1].end - position
            if wanted > ahead / 2:
                rows = self.crowds[-1].estimate(blind=self.rate is None)
                wanted = min(wanted, target / rows * ahead)
        return wanted

    def pages(self, position: int, end: int) -> float:
        """Return how many pages probably lie in ``[position, end)``."""
        rows = (self.rate or 0.0) * (end - position)
        for crowd in self.crowds:
            if crowd.end > position:
                share = (min(crowd.end, end) - position) / (crowd.end - position)
                rows = max(rows, crowd.estimate(blind=self.rate is None) * share)
        return rows / (FILL * self.limit)

    def completed(self, position: int, width: int, ids: AbstractSet[str]) -> None:
        """Learn from a page that was not full."""
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
        for crowd in self.crowds:
            crowd.learn(ids)
        end = position + width
        self.crowds = [crowd for crowd in self.crowds if crowd.end > end and crowd.is_useful]

    def _expect_the_usual(self) -> None:
        """Go back to the median of the densities seen, each weighted with its seconds."""
        half = sum(seen.width for seen in self.seen) / 2
        for seen in sorted(self.seen, key=lambda seen: seen.rate):
            half -= seen.width
            if half <= 0:
                self.is_usual = seen.rate < (self.rate or 0.0)
                self.rate = min(seen.rate, self.rate or seen.rate)
                return

    def overfull(self, position: int, width: int, ids: AbstractSet[str]) -> None:
        """Learn from a full page: its window holds these rows at the least."""
        self.crowds.append(Crowd(end=position + width, rows=len(ids), ids=ids))

    def fork(self, position: int, cut: int) -> "Density":
        """Return what is known of ``cut`` and beyond, and forget it here."""
        beyond = self.without_crowds()
        for crowd in self.crowds:
            if crowd.end > cut:
                beyond.crowds.append(crowd.cut(position, cut))
        return beyond

    def without_crowds(self) -> "Density":
        """Return the density alone, for another part of the same stretch."""
        return Density(self.limit, self.rate, self.is_usual, self.seen.copy())


def _pooled(known: float, seen: float, weight: float) -> float:
    """Return the mean of two densities on a logarithmic scale."""
    return math.exp(weight * math.log(seen) + (1 - weight) * math.log(known))
