"""Estimate how the rows of a walk are spread over its seconds, from its pages.

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

from .placing import Delays, Sample
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

_UNKNOWN_RATE: Final = 0.5
"""Variance of the logarithm of rows that a rate predicts, before any was seen."""
_UNKNOWN_SHAPE: Final = 0.05
"""The same for dates, in addition to the variance from the size of the sample."""
_MISLEADING: Final = 0.4
"""Variance from which on dates are left alone: pages may be sorted, and no samples at all."""
_MORE: Final = 1.05
"""Rows for each of a sample from which on some rows must be missing in it."""
_LEARNING: Final = 0.12
"""Weight of the last error in a variance."""
_FEW: Final = 20
"""Rows below which their exact number makes no difference."""
_NOISY: Final = 0.1
"""Variance by the size of a sample above which its errors say nothing about dates."""
_OVERFULL: Final = 1.3
"""Pages that a window which was not expected to be full is taken to hold, to judge that."""
_IMPOSSIBLE: Final = 0.0001
"""Chance below which the rows received show that the expectation was wrong."""
_WIDE: Final = 8
"""Pages of a window that is asked for on purpose, to get a closer sample."""
_COST: Final = 2.4
"""Requests for each page that a standard deviation of 1 adds, about."""
_CERTAIN: Final = 0.97
_CAUTION: Final = 1.3
"""How much less a page is filled for each standard deviation."""
_LEAST: Final = 0.75
_FULLEST: Final = 0.95
_SHRUNK: Final = 0.9
"""How wide, beside a window that came back full, the next may be."""


class Density:
    """What is known of a walk's rows: one for the whole walk, asked by position.

    Rows are taken to be spread as those just seen nearby. Inside a window that came back
    full the dates of its rows say more, where they tell the places of its rows closely
    enough. The two are weighed by how far they were out until now; where both are poor,
    a window of several pages is asked for on purpose, to get a closer sample.

    Args:
        limit: rows at which a page counts as full.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._regions: list[_Region] = []
        self._delays = Delays()
        self._samples: list[Sample] = []
        self._rate_variance = _UNKNOWN_RATE
        self._shape_variance = _UNKNOWN_SHAPE

    def width(self, start: int, end: int) -> int:
        """Return the width in seconds, 1 to ``end - start``, of the window to ask for."""
        region, gap = self._around(start, end), end - start
        by_shape = self._width_by_shape(region, start, end)
        if by_shape is None:
            return region.width(start, end)
        return max(1, min(gap, int(by_shape)))

    def pages(self, start: int, end: int) -> float:
        """Return how many pages probably lie in ``[start, end)``."""
        if start >= end:
            return 0.0
        samples = self._samples_around(start)
        if samples and samples[0].blur < end - start:
            rows, reached = _rows(samples, start, end)
            if reached >= end:
                return rows / (FILL * self._limit)
        return self._around(start, end).pages(start, end)

    def middle(self, start: int, end: int) -> int:
        """Return the second that best divides ``[start, end)``, two seconds at least, in halves."""
        middle = (start + end + 1) // 2
        samples = self._samples_around(start)
        if samples and samples[0].blur < (end - start) / 2:
            rows, reached = _rows(samples, start, end)
            by_shape = start + int(_width(samples, start, end, rows / 2))
            if reached >= end and start < by_shape < end:
                return by_shape
        return middle

    def complete(self, window: Window, rows: Rows) -> None:
        """Learn from a page that was not full: these are all rows of the window."""
        self._expected(window, len(rows))
        self._around(window.after, window.before).completed(window, rows.keys())
        self._delays.learn(window, rows)
        for sample in self._samples_around(window.after):
            is_first = sample.window.after == window.after and sample.scale > _MORE
            if is_first and len(rows) > self._limit / 4 and sample.common(rows) == len(rows):
                # By chance some would be missing: the page listed its oldest rows first.
                self._shape_variance += _MISLEADING
            sample.learn(rows)
        for sample in self._samples:
            within = sample.window
            sample.left -= max(
                0, min(window.before, within.before) - max(window.after, within.after)
            )
        self._samples = [sample for sample in self._samples if sample.left > 0]

    def full(self, window: Window, rows: Rows) -> int | None:
        """Learn from a full page; return where the window is best cut in two parts, if at all.

        Nothing is updated before it was made, so where nothing else is known, one question
        probably does for all that lies before the oldest of the rows.
        """
        expected, variance = self._expected(window, None)
        region = self._around(window.after, window.before)
        region.overfull(window, rows.keys())
        self._delays.learn(window, rows)
        if self._shape_variance <= _MISLEADING:
            self._add_sample(window, rows, expected, variance)
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

    def _add_sample(self, window: Window, rows: Rows, expected: float, variance: float) -> None:
        scale, trust = _hidden(expected / self._limit, variance)
        sample = Sample(window, rows, self._delays, scale=scale, trust=trust)
        around = self._samples_around(window.after)
        for outer in around:
            outer.learn(rows)
        if around:
            there = around[0].count(window.after, window.before)
            if there and (common := around[0].common(rows)):
                sample.learn_share(there, common)
        self._samples.append(sample)

    def _samples_around(self, start: int) -> list[Sample]:
        """Return the full pages around a second, the narrowest first; none where they mislead."""
        if self._shape_variance > _MISLEADING:
            self._samples.clear()
        around = [
            one for one in reversed(self._samples) if one.window.after <= start < one.window.before
        ]
        for sample in around:
            sample.refresh()
        return around

    def _width_by_shape(self, region: "_Region", start: int, end: int) -> float | None:
        """Return the best width by the full pages around; None where they do not show it."""
        samples = self._samples_around(start)
        page, gap = max(1, self._limit - 1), end - start
        if not samples:
            return None
        sample = samples[0]
        if _width(samples, start, end, FILL * page) < sample.blur:
            return None
        by_shape = self._shape_variance_of(sample)
        # The page that came back full says more than the rate that led to it.
        is_first = sample.window.after == start
        by_rate = math.inf if region.rate is None or is_first else self._rate_variance
        variance = _joint(by_rate, by_shape)
        if not is_first:
            closer = _joint(by_rate, self._shape_variance + _WIDE / page)
            saved = _COST * (math.sqrt(variance) - math.sqrt(closer))
            ahead = sample.count(start, min(sample.window.before, end)) * sample.scale
            if saved * _WIDE > 1 and ahead > 2 * _WIDE * page:
                return _width(samples, start, end, _WIDE * page)
        target = page * min(_FULLEST, max(_LEAST, _CERTAIN - _CAUTION * math.sqrt(variance)))
        wanted = _width(samples, start, end, target)
        if region.rate is not None and not is_first:
            growth = _GROWTH if region.seen[-1].rows else _GROWTH_AFTER_EMPTY
            other = min(target / region.rate, region.seen[-1].width * growth)
            wanted = _pooled(other, wanted, by_rate / (by_rate + by_shape))
        most = _SHRUNK * (sample.window.before - start) if is_first else gap
        wanted = max(1.0, min(wanted, most))
        if wanted * _EVEN > gap:
            wanted = min(most, math.ceil(gap / max(1, math.ceil(gap / wanted - 0.12))))
        return wanted

    def _shape_variance_of(self, sample: Sample) -> float:
        return self._shape_variance + sample.scale / self._limit + 1 / sample.trusted

    def _expected(self, window: Window, found: int | None) -> tuple[float, float]:
        """Return how many rows were expected in a window, and the variance of its logarithm.

        What came, None for a full page, shows how far the expectations were out.
        """
        start, end = window.after, window.before
        region = self._around(start, end)
        samples = self._samples_around(start)
        is_first = bool(samples) and samples[0].window.after == start
        by_rate = math.inf
        if region.rate is not None and not is_first:
            by_rate = self._rate_variance
            error = self._error(region.rate * (end - start), found)
            if error is not None:
                self._rate_variance += _LEARNING * (error - self._rate_variance)
        if samples and samples[0].blur < end - start:
            sample = samples[0]
            rows, reached = _rows(samples, start, end)
            variance = _joint(by_rate, self._shape_variance_of(sample))
            if reached >= end:
                noise = 2 * sample.scale / max(rows, _FEW) + 1 / sample.trusted
                error = self._error(rows, found)
                if error is not None and not is_first and noise < _NOISY:
                    error = min(1.0, max(0.0, error - noise))
                    self._shape_variance += _LEARNING * (error - self._shape_variance)
                return rows, variance
        if region.rate is None:
            return self._limit * _HIDDEN_BLIND, _UNKNOWN_RATE
        return region.rate * (end - start), self._rate_variance

    def _error(self, expected: float, found: int | None) -> float | None:
        """Return the squared error of an expectation; None where a page cannot show it."""
        if found is None:
            found = int(_OVERFULL * self._limit)
            if expected >= found:
                return None
        return math.log(max(found, _FEW) / max(expected, _FEW)) ** 2


def _rows(samples: list[Sample], start: int, end: int) -> tuple[float, int]:
    """Return the rows in ``[start, end)`` by these samples, and how far they reach."""
    rows = 0.0
    for sample in samples:
        if sample.window.before > start and start < end and sample.blur < math.inf:
            reached = min(sample.window.before, end)
            rows += sample.count(start, reached) * sample.scale
            start = reached
    return rows, start


def _width(samples: list[Sample], start: int, end: int, rows: float) -> float:
    """Return the width from a second on that holds so many rows by these samples."""
    at = start
    for sample in samples:
        if sample.window.before > at and at < end and sample.blur < math.inf:
            reached = sample.reach(at, rows / sample.scale)
            if reached is not None:
                return max(1.0, reached - start)
            rows -= sample.count(at, sample.window.before) * sample.scale
            at = sample.window.before
    return float(max(1, at - start))


def _joint(variance: float, other: float) -> float:
    """Return the variance of two estimates together."""
    return 1 / (1 / variance + 1 / other)


def _hidden(pages: float, variance: float) -> tuple[float, float]:
    """Return the pages that a full window holds which was expected to hold so many.

    And how many rows of a sample say as much: the logarithm was expected to be normal.
    """
    pages, deviation = max(pages, 0.05), math.sqrt(variance) + 0.001
    distance = -math.log(pages) / deviation
    tail = math.erfc(distance / math.sqrt(2)) / 2
    if tail < _IMPOSSIBLE:
        return 1.1 + variance, float(_FEW)
    above = math.erfc((distance - deviation) / math.sqrt(2)) / 2
    mean = pages * math.exp(variance / 4) * above / tail
    scale = min(max(1.02, mean), 300.0)
    trust = min(400.0, (scale / (scale - 1)) ** 2)
    return scale, max(2.0, trust if pages < _OVERFULL else min(trust, 1 / variance))


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
