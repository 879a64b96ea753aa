"""Estimate how the rows of a walk are spread over its seconds, from its pages.

`planner` asks how wide the next window should be, and how many pages lie ahead. All
answers are hints: they change how many requests a walk makes, never what it yields.

**Assumed.** (1) Updates come at a rate that changes slowly but for bursts: what was seen just
before a second holds behind it too. (2) The delay from an application's date to its update has
the same distribution in the whole walk. (3) A full page is a random sample of its window.
(4) A prediction is out by a factor whose logarithm is normal with mean 0.

None of these needs to hold. A page that is sorted breaks (3), equal dates break (2); then the
errors grow, the dates are left alone, and the rate remains.

**Estimated.**

* The rate of a region (`_Region`), in rows a second: the geometric mean of the rates seen,
  a window weighted with its rows.
* The delays (`placing.Delays`): a histogram. Every row counts for each delay that its window
  allows, each as much as it is likely by now (one step of expectation maximization for a page).
* The place of each row of a full page (`placing.Sample`): its date and the median of the delays
  that its window allows.
* The rows of a full window for each that its page lists, the scale: capture and recapture. What
  was found of the page's ids since gives it, together with a first guess: a log-normal
  prediction that turned out to be more than a page.
* The variance of either prediction, by the rate and by the dates of a full page: the
  exponentially weighted mean of the squared errors of its logarithm. That of the dates is without
  the noise of counting: n rows counted have a variance of 1 / n in the logarithm.

**Rules** for the next window, in this order.

1. Where nothing is known, ask about all.
2. Where full pages lie around a second and their rows have places, predict by these; else by the
   rate, and by the rows that the full pages around must still hold at least.
3. Weight the widths by dates and by rate with their precision, on the logarithmic scale. At the
   start of a window that just came back full, use the dates alone: they are newer.
4. Aim at a page that is the less full the less certain the prediction is.
5. Where a window of eight pages, and the closer sample that it gives, save more requests than the
   one that they cost, ask for it.
6. Where the variance by dates is too large, forget all full pages' places.

**Bounds**, in requests / least for pages of 1,000 rows. Who knows every time exactly needs 1.00 to
1.03, who knows the density exactly 1.09 (chance alone), and who knows it within a factor of
exp(0.2) 1.43. Who samples by full pages alone needs about 1.38: 1 / 8 request for each page of
the windows of eight, and pages filled to the error of 1000 / 8 rows. Walks over real times need
1.5 to 1.65, uniform ones 1.18, since their rate is known too.

**Constants** say where they are from. "Measured" is in requests / least, first as it is: U, four
uneven sets of 100,000 rows; R1 and R8, commit times of up to six projects with 1 and 8 questions in
flight; seeds 7, 11 and 23. Differences below 0.06 (U) and 0.02 (R1, R8) are chance. Some were
measured while the model had more constants, so that the first figure is not always the same;
where one figure stands alone, it is beside U 2.05, R1 1.52 and R8 1.69. A value in the code without
a name keeps numbers finite, or is a first guess that pages soon replace.
"""

import math
from bisect import bisect_right, insort
from collections.abc import Set as AbstractSet
from typing import Final

from attrs import Factory, define, frozen

from income_client.records.window import Window

from .placing import Delays, Sample
from .windows import Rows, second_of

FILL: Final = 0.85
"""Share of a page that a window by the rate is meant to fill. Measured: 0.75, U 2.13."""
_CERTAIN: Final = 0.97
"""Share of a page that a window by certain dates is meant to fill."""
_CAUTION: Final = 1.3
"""Reduction of that share for a standard deviation of 1.

Simulated for log-normal errors: 0.88, 0.84, 0.80 and 0.79 are best for deviations of 0.05, 0.1,
0.15 and 0.2. Measured: 0.93 and 0.9 in place of `_CERTAIN` and `_CAUTION`, U 2.18 and 2.09.
"""
_LEAST: Final = 0.75
"""Lower bound of that share. Measured: 0.8, U 2.15; 0.85, U 2.14 and R8 1.76."""
_WIDE: Final = 8
"""Pages in a window that is requested for the closer sample that it returns.

Derived: k pages cost 1 / k a page and give a sample whose error costs more the larger k is; the
sum is least, and flat, between 8 and 12.
"""
_COST: Final = 2.0
"""Requests for each page that a standard deviation of 1 adds. Simulated: 1.5 to 2, from 1.09 at 0
to 1.24, 1.43 and 1.58 at 0.1, 0.2 and 0.3."""
_SHRUNK: Final = 0.9
"""Largest width of the next window, as a share of one that came back full. Measured: 1, where
pages list the newest rows first, aiohttp 3.1 and 3.5, numpy 2.4 and 3.3."""

_GROWTH: Final = 8
"""Largest width of a window, as a multiple of the last; none for the first behind a burst.
Measured, 1,000,000 rows: never, most rows in few hours 2.26 and 2.35; behind bursts too, bulk
imports 1.88 and 1.94."""
_HIDDEN: Final = 2.0
"""Rows of a full window for each row of its page, while no share of its ids is measured.
Measured: 2.5, U 2.09; 3, U 2.16 and R8 1.76."""
_HIDDEN_BLIND: Final = 3.3
"""The same before a window was completed there. Measured, 4,000 commit times of aiohttp on pages of
62: 2, oldest rows first 115 and 129 requests, newest first 118 and 111."""
_LARGE: Final = 0.5
"""Share of the rest of a full window above which the page's rows bound the width too.

Measured: never, U 2.04 and 3.25; always, 1,000,000 rows, bulk imports 1.83 and 1.92.
"""
_SAMPLE: Final = 8
"""Ids of a full page that must be seen again before the measured share is used.

Derived: the share of n ids is out by 1 / sqrt(n), so by a third. Measured: never, U 2.05 and 2.21.
"""

_LEARNING: Final = 0.12
"""Weight of the last error in a variance: eight errors are remembered.

Measured: 0.001, R1 1.55 and 1.60, R8 1.76 and 1.81; 0.4, R8 1.76 and 1.93, U 2.05 and 2.22.
"""
_MISLEADING: Final = 0.4
"""Variance from which on dates are not used: pages may be sorted, and no samples at all.

Measured, 1,000,000 rows: never, bulk imports 1.80 and 2.12.
"""


@frozen
class _Prediction:
    """The predicted number of rows of a window, and the variance of the prediction."""

    rows: float
    variance: float
    """Variance of the logarithm of the predicted rows."""


class Density:
    """The estimated density of a walk's rows, by position.

    Args:
        limit: rows at which a page counts as full.
    """

    def __init__(self, limit: int) -> None:
        self.limit: Final = limit
        self._regions: list[_Region] = []
        self._delays = Delays()
        self._samples: list[Sample] = []
        # First guesses: a rate is out by a factor of two, dates by a quarter.
        self._rate_variance = 0.5
        self._dates_variance = 0.05

    def width(self, start: int, end: int) -> int:
        """Return the width in seconds, 1 to ``end - start``, of the window to ask for."""
        region = self._region_at(start, end)
        width = self._width_by_dates(region, start, end)
        if width is None:
            width = region.width(start, end)
        return max(1, min(end - start, int(width)))

    def pages(self, start: int, end: int) -> float:
        """Return how many pages probably lie in ``[start, end)``."""
        if start >= end:
            return 0.0
        samples = self._samples_around(start)
        if _are_placed(samples):
            rows, reached = _count_rows(samples, start, end)
            if reached >= end:
                return rows / (FILL * self.limit)
        return self._region_at(start, end).pages(start, end)

    def middle(self, start: int, end: int) -> int:
        """Return the second that best divides ``[start, end)``, two seconds at least, in halves."""
        middle = (start + end + 1) // 2
        samples = self._samples_around(start)
        if _are_placed(samples):
            rows, reached = _count_rows(samples, start, end)
            by_dates = start + int(_width_of_rows(samples, start, end, rows / 2))
            if reached >= end and start < by_dates < end:
                return by_dates
        return middle

    def complete(self, window: Window, rows: Rows) -> None:
        """Learn from a page that was not full and so contained all rows of the window."""
        self._learn_errors(window, len(rows))
        self._region_at(window.after, window.before).learn_window(window, rows.keys())
        self._delays.learn(window, rows)
        for sample in self._samples_around(window.after):
            sample.learn(rows)
        for sample in self._samples:
            within = sample.window
            sample.uncovered -= max(
                0, min(window.before, within.before) - max(window.after, within.after)
            )
        self._samples = [sample for sample in self._samples if sample.uncovered > 0]

    def full(self, window: Window, rows: Rows) -> int | None:
        """Learn from a full page.

        Return the second at which to cut its window, None to leave it whole.

        Nothing is updated before it was made, so where nothing else is known, one question
        probably does for all that lies before the oldest of the rows.
        """
        expected = self._predict(window)
        self._learn_errors(window, None)
        region = self._region_at(window.after, window.before)
        region.learn_full_page(window, rows.keys())
        self._delays.learn(window, rows)
        if self._dates_variance <= _MISLEADING:
            self._add_sample(window, rows, expected)
        if region.rate is not None or not rows:
            return None
        oldest = second_of(min(row.application_date for row in rows.values()))
        if not window.after < oldest < window.before - 1:
            return None
        insort(self._regions, _Region(oldest, region.end, self.limit, region.full_pages))
        region.end, region.full_pages = oldest, []
        return oldest

    def divide(self, start: int, cut: int, end: int) -> None:
        """Estimate ``[start, cut)`` and ``[cut, end)`` separately from now on."""
        insort(self._regions, self._region_at(start, end).divide(start, cut))

    def _region_at(self, start: int, end: int) -> "_Region":
        at = bisect_right(self._regions, start, key=lambda region: region.start)
        if at and start < self._regions[at - 1].end:
            return self._regions[at - 1]
        region = _Region(start, end, self.limit)
        self._regions.insert(at, region)
        return region

    def _add_sample(self, window: Window, rows: Rows, expected: _Prediction) -> None:
        pages = max(expected.rows, 1.0) / self.limit
        # Chance alone makes the rows of a page differ by its root.
        scale, weight = _guess_scale(pages, max(expected.variance, 1 / self.limit))
        sample = Sample(window, rows, self._delays, scale=scale, weight=weight)
        around = self._samples_around(window.after)
        for outer in around:
            outer.learn(rows)
        if around:
            there = around[0].count(window.after, window.before)
            if there and (common := around[0].count_common(rows)):
                sample.learn_share(there, common)
        self._samples.append(sample)

    def _samples_around(self, start: int) -> list[Sample]:
        """Return the full pages around a second, the narrowest first; none where they mislead."""
        if self._dates_variance > _MISLEADING:
            self._samples.clear()
        around = [sample for sample in reversed(self._samples) if sample.window.contains(start)]
        for sample in around:
            sample.refresh()
        return around

    def _width_by_dates(self, region: "_Region", start: int, end: int) -> float | None:
        """Return the best width by the full pages around; None where they do not show it."""
        samples = self._samples_around(start)
        if not _are_placed(samples):
            return None
        sample = samples[0]
        page, gap = max(1, self.limit - 1), end - start
        by_dates = self._variance_by_dates(sample)
        # The page that came back full says more than the rate that led to it.
        is_first = sample.window.after == start
        by_rate = math.inf if region.rate is None or is_first else self._rate_variance
        variance = _pool_variances(by_rate, by_dates)
        if not is_first:
            closer = _pool_variances(by_rate, self._dates_variance + _WIDE / page)
            saved = _COST * (math.sqrt(variance) - math.sqrt(closer))
            ahead = sample.count(start, min(sample.window.before, end)) * sample.scale
            # A sample is worth it for two windows at least.
            if saved * _WIDE > 1 and ahead > 2 * _WIDE * page:
                return _width_of_rows(samples, start, end, _WIDE * page)
        target = page * max(_LEAST, _CERTAIN - _CAUTION * math.sqrt(variance))
        width = _width_of_rows(samples, start, end, target)
        if region.rate is not None and not is_first:
            width_by_rate = region.width_of_rows(target)
            width = _pool(width_by_rate, width, by_rate / (by_rate + by_dates))
        most = _SHRUNK * (sample.window.before - start) if is_first else gap
        return min(width, most)

    def _variance_by_dates(self, sample: Sample) -> float:
        """Return the variance of the rows of a page: by dates, and by a sample's size and scale."""
        return self._dates_variance + sample.scale / self.limit + 1 / sample.evidence

    def _predict(self, window: Window) -> _Prediction:
        """Return how many rows are expected in a window."""
        start, end = window.after, window.before
        region = self._region_at(start, end)
        samples = self._samples_around(start)
        if _are_placed(samples):
            rows, reached = _count_rows(samples, start, end)
            if reached >= end:
                is_first = samples[0].window.after == start
                by_rate = math.inf if region.rate is None or is_first else self._rate_variance
                by_dates = self._variance_by_dates(samples[0])
                return _Prediction(rows, _pool_variances(by_rate, by_dates))
        if region.rate is None:
            return _Prediction(self.limit * _HIDDEN, self._rate_variance)
        return _Prediction(region.rate * (end - start), self._rate_variance)

    def _learn_errors(self, window: Window, actual: int | None) -> None:
        """Learn the errors of the predictions from the rows that came, None for a full page."""
        start, end = window.after, window.before
        region = self._region_at(start, end)
        samples = self._samples_around(start)
        if samples and samples[0].window.after == start:
            return
        if region.rate is not None:
            error = self._error(region.rate * (end - start), actual)
            if error is not None:
                self._rate_variance += _LEARNING * (error - self._rate_variance)
        if not _are_placed(samples):
            return
        rows, reached = _count_rows(samples, start, end)
        noise = (samples[0].scale + 1) / max(rows, 1.0) + 1 / samples[0].evidence
        error = self._error(rows, actual)
        if reached >= end and error is not None:
            error = min(1.0, max(0.0, error - noise))
            self._dates_variance += _LEARNING * (error - self._dates_variance)

    def _error(self, expected: float, actual: int | None) -> float | None:
        """Return the squared error of a prediction; None where a page cannot show it."""
        if actual is None:
            actual = self.limit
            if expected >= actual:
                return None
        return math.log(max(actual, 1) / max(expected, 1)) ** 2


def _are_placed(samples: list[Sample]) -> bool:
    """Return whether dates place the rows of the narrowest full page around a second."""
    return bool(samples) and samples[0].is_placed


def _count_rows(samples: list[Sample], start: int, end: int) -> tuple[float, int]:
    """Return the rows in ``[start, end)`` by these samples, and the end of the samples."""
    rows = 0.0
    for sample in samples:
        if sample.window.before > start and start < end and sample.is_placed:
            reached = min(sample.window.before, end)
            rows += sample.count(start, reached) * sample.scale
            start = reached
    return rows, start


def _width_of_rows(samples: list[Sample], start: int, end: int, rows: float) -> float:
    """Return the width from ``start`` on that holds ``rows`` rows by these samples."""
    at = start
    for sample in samples:
        if sample.window.before > at and at < end and sample.is_placed:
            reached = sample.end_of(at, rows / sample.scale)
            if reached is not None:
                return max(1.0, reached - start)
            rows -= sample.count(at, sample.window.before) * sample.scale
            at = sample.window.before
    return float(max(1, at - start))


def _pool(first: float, second: float, weight_of_second: float) -> float:
    """Return the weighted mean of two estimates on a logarithmic scale."""
    first_part = (1 - weight_of_second) * math.log(first)
    return math.exp(first_part + weight_of_second * math.log(second))


def _pool_variances(variance: float, other: float) -> float:
    """Return the variance of two estimates that are weighted with their precision."""
    return 1 / (1 / variance + 1 / other)


def _guess_scale(expected: float, variance: float) -> tuple[float, float]:
    """Estimate the pages that a full window holds, from the number that was expected.

    And how many rows of a sample say as much as that guess. The pages are the mean of a
    log-normal distribution above 1; what is above 1 varies about as much as it is.
    """
    variance = min(variance, 100.0)  # a factor of exp(10); larger ones overflow
    deviation = math.sqrt(variance)
    distance = -math.log(expected) / deviation
    tail = math.erfc(distance / math.sqrt(2))
    above = math.erfc((distance - deviation) / math.sqrt(2))
    mean = expected * math.exp(variance / 2) * above / tail if tail else 1.0
    # A guess is bounded so that what is found of the page can refute it.
    scale = min(max(1.05, mean), 300.0)
    return scale, (scale / (scale - 1)) ** 2


@define(kw_only=True)
class FullPage:
    """A full page, kept until the narrower windows inside its window are complete.

    The page gives a lower bound of the rows in its window, and some of their ids. The share
    of these ids among the rows of the narrower windows estimates the rows that are ahead.
    """

    end: int
    """End of the full page's window."""
    rows: float
    """Lower bound of the rows that are still ahead."""
    ids: AbstractSet[str]
    """Ids of the page's rows that have not been seen again yet."""
    seen_again: int = 0
    """Number of the page's ids that have been seen again."""
    seen: int = 0
    """Number of all rows that came since in the page's window."""

    def learn(self, ids: AbstractSet[str]) -> None:
        """Learn from the rows of a window inside the full page's."""
        before = len(self.ids)
        self.ids = self.ids - ids
        self.seen_again += before - len(self.ids)
        self.seen += len(ids)
        self.rows -= len(ids)

    def divide(self, position: int, at: int) -> "FullPage":
        """Cut the window at ``at``, and return the rest, without ids: they may be in either."""
        rows = self.rows * (self.end - at) / (self.end - position)
        behind = FullPage(end=self.end, rows=rows, ids=frozenset())
        self.end, self.rows, self.ids = at, self.rows - rows, frozenset()
        self.seen_again = self.seen = 0
        return behind

    @property
    def is_useful(self) -> bool:
        """Whether the page still predicts rows ahead of the position."""
        return self.rows > 0 or self.seen_again >= _SAMPLE

    def estimate_rows(self, *, is_rate_known: bool) -> float:
        """Return how many rows are probably ahead."""
        at_least = max(1.0, self.rows * (_HIDDEN if is_rate_known else _HIDDEN_BLIND))
        if self.seen_again < _SAMPLE:
            return at_least
        by_share = self.seen / self.seen_again * len(self.ids)
        # Where every row was on the page it lists the oldest first: its share says nothing.
        return max(by_share, at_least if self.seen_again >= self.seen else 1.0)


@define(eq=False, order=False)
class _Region:
    """Seconds whose rows are assumed to be as dense as those seen last."""

    start: int
    end: int
    limit: int
    full_pages: list[FullPage] = Factory(list)
    """Full pages around the position, the narrowest last."""
    rate: float | None = None
    """Rows a second, None while no window was completed."""
    most_width: float = math.inf
    """Seconds of the widest window that may come next."""

    def __lt__(self, other: "_Region") -> bool:
        return self.start < other.start

    def width(self, position: int, end: int) -> float:
        """Return the width of the window to ask for next, by the rate and the full pages."""
        target = FILL * (self.limit - 1)
        width = min(end - position, self.width_of_rows(target))
        if self.full_pages:
            ahead = self.full_pages[-1].end - position
            if width > _LARGE * ahead > 0:
                rows = self.full_pages[-1].estimate_rows(is_rate_known=self.rate is not None)
                width = min(width, target / rows * ahead)
        return width

    def width_of_rows(self, rows: float) -> float:
        """Return the width that holds a number of rows at the region's rate."""
        if self.rate is None:
            return math.inf
        return min(rows / self.rate, self.most_width)

    def pages(self, position: int, end: int) -> float:
        rows = (self.rate or 0.0) * (end - position)
        for page in self.full_pages:
            if page.end > position:
                share = (min(page.end, end) - position) / (page.end - position)
                rows = max(rows, page.estimate_rows(is_rate_known=self.rate is not None) * share)
        return rows / (FILL * self.limit)

    def learn_window(self, window: Window, ids: AbstractSet[str]) -> None:
        """Learn from a window that was completed."""
        width = window.before - window.after
        # An empty window counts as a small part of a row: zero has no logarithm.
        rate = max(len(ids), self.limit / 2000) / width
        expected = rate if self.rate is None else self.rate
        most = max(len(ids), expected * width)
        self.rate = _pool(expected, rate, most / (most + self.limit / 10))
        # With less than half of the rows expected, a burst is over.
        self.most_width = math.inf if len(ids) < expected * width / 2 else _GROWTH * width
        for page in self.full_pages:
            page.learn(ids)
        self.full_pages = [
            page for page in self.full_pages if page.end > window.before and page.is_useful
        ]

    def learn_full_page(self, window: Window, ids: AbstractSet[str]) -> None:
        """Learn from a window that came back full."""
        self.full_pages.append(FullPage(end=window.before, rows=len(ids), ids=frozenset(ids)))

    def divide(self, position: int, cut: int) -> "_Region":
        """Shorten the region to end at ``cut``, and return the region from ``cut`` on."""
        pages = [page.divide(position, cut) for page in self.full_pages if page.end > cut]
        beyond = _Region(cut, self.end, self.limit, pages, self.rate, self.most_width)
        self.end = cut
        return beyond
