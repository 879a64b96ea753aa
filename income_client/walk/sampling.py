"""Where the rows of a span are, by a few narrow windows: estimates, never a result.

A span is kept as segments: windows whose rows were counted, and gaps between them, which are
taken to be as dense as the counted windows nearby. The gap that may hold most is asked about
next. Nearby means several windows on each side: one alone would have each estimate that is
too high looked at again, and each that is too low left as it is.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from attrs import define

from income_client.records.window import Window

_NEARBY: Final = 3
"""Counted windows on each side of a gap by which its density is estimated."""
_FILL: Final = 0.6
"""How full a page is aimed to be."""
_WHOLE: Final = 0.85
"""Share of a page that a gap may be expected to hold for all of it to be asked about."""
_SHRINK: Final = 8
"""How much narrower a window is asked for within one that came back full."""
_SHRINK_KNOWN: Final = 2
"""The same where the windows nearby show how dense it may be."""
_HIDDEN: Final = 2.0
"""How many times the rows seen a window that came back full is taken to hold."""
_FAINT: Final = 0.3
"""Share of the mean density that a gap may have although the windows nearby are empty."""
_FINE: Final = 12
"""Windows that each part is made of at least, where all of its rows are counted."""
_GOLDEN: Final = 0.6180339887498949
"""Step from place to place: windows must not fall in step with days and weeks."""


class SpanSampler:
    """Asks about narrow windows of a span, and estimates where its rows are.

    Args:
        span: what is estimated; not empty.
        limit: rows at which a page is full.
        parts: into how many it will be cut.
        questions: how many may be asked.
    """

    def __init__(self, span: Window, *, limit: int, parts: int, questions: int) -> None:
        self._limit = limit
        self._parts = parts
        self._left = questions
        self._turn = 0.5
        self._segments = [_Segment(span.after, span.before)]
        self._gap: _Segment | None = None
        self._point = 0
        """The second around which windows of the gap are asked for."""
        self._asked = span

    def next(self) -> Window | None:
        """Return the window to ask about; None where no question is left, or of use."""
        gap = self._gap or self._choice()
        if gap is None or not self._left:
            return None
        self._left -= 1
        self._gap = gap
        width = self._width(gap)
        start = min(max(gap.start, self._point - width // 2), gap.end - width)
        self._asked = Window(start, start + width)
        return self._asked

    def receive(self, applied: Window, rows: int, *, is_full: bool) -> None:
        """Take how many rows a page held, and the window that the service applied."""
        gap, asked, self._gap = self._gap, self._asked, None
        if gap is None:
            return
        found = _Segment(
            max(applied.after, asked.after), min(applied.before, asked.before), rows=rows
        )
        if found.start >= found.end:
            # The service has nothing there: it may keep nothing that is so old.
            found = _Segment(asked.after, asked.before)
            is_full = False
        found.is_counted = not is_full or found.width == 1
        found.is_full = is_full
        sides = _Segment(gap.start, found.start), _Segment(found.end, gap.end)
        for side in sides:
            side.is_counted = gap.is_counted
            side.rows = (
                max(0.0, gap.rows - found.rows) * side.width / (gap.width - found.width or 1)
            )
        at = self._segments.index(gap)
        kept = [one for one in (sides[0], found, sides[1]) if one.width]
        self._segments[at : at + 1] = kept
        if not found.is_counted:
            # Narrower around the same second: elsewhere in it, the sparse places would win.
            self._gap = found

    def rows(self, after: int, before: int) -> float:
        """Return how many rows probably lie in ``[after, before)``."""
        return sum(
            rows * max(0, min(before, one.end) - max(after, one.start)) / one.width
            for one, rows in zip(self._segments, self._estimates(), strict=True)
        )

    def cuts(self, parts: int) -> list[int]:
        """Return where to cut the span into parts of about as many rows each, ascending."""
        sums = [0.0, *accumulate(self._estimates())]
        return [self._second_of(number / parts, sums) for number in range(1, parts)]

    def _second_of(self, share: float, sums: list[float]) -> int:
        """Return the second before which a share of the rows lies."""
        wanted = sums[-1] * share
        place = min(bisect_right(sums, wanted), len(self._segments)) - 1
        segment, rows = self._segments[place], sums[place + 1] - sums[place]
        rest = (wanted - sums[place]) / rows if rows else share
        return segment.start + int(segment.width * rest)

    def _choice(self) -> "_Segment | None":
        """Return the gap that may hold most, and choose a place around its middle.

        Where all is counted, windows that are a good share of a part become gaps again.
        """
        estimates = self._estimates(least=_FAINT)
        gaps = [pair for pair in enumerate(estimates) if not self._segments[pair[0]].is_counted]
        place, rows = max(gaps or enumerate(estimates), key=lambda pair: pair[1])
        gap = self._segments[place]
        if not gaps and (gap.width == 1 or rows * _FINE * self._parts <= sum(estimates)):
            return None
        if gap.is_counted:
            self._point = gap.start
            return gap
        self._turn = (self._turn + _GOLDEN) % 1
        self._point = gap.start + int(gap.width * (0.3 + 0.4 * self._turn))
        return gap

    def _width(self, gap: "_Segment") -> int:
        """Return how wide a window to ask for in a gap."""
        if gap.is_counted:
            return gap.width // 2
        density = self._densities(least=_FAINT)[self._segments.index(gap)]
        width = gap.width
        if density is not None and density * gap.width > _WHOLE * self._limit:
            width = int(_FILL * self._limit / density)
        if gap.is_full:
            width = min(width, gap.width // (_SHRINK if density is None else _SHRINK_KNOWN))
        return max(1, width)

    def _estimates(self, least: float = 0.0) -> list[float]:
        """Return the rows of each segment, counted or estimated."""
        return [
            segment.rows if segment.is_counted else segment.estimate(density or 0.0)
            for segment, density in zip(self._segments, self._densities(least), strict=True)
        ]

    def _densities(self, least: float) -> list[float | None]:
        """Return the rows a second around each segment; None before any were counted.

        ``least`` is a share of the mean of all that was counted, as the lowest of them.
        """
        counted = [segment for segment in self._segments if segment.is_counted]
        if not any(segment.rows for segment in counted):
            return [None] * len(self._segments)
        mean = sum(one.rows for one in counted) / sum(one.width for one in counted)
        sides = zip(
            _densities_before(self._segments),
            reversed(_densities_before(reversed(self._segments))),
            strict=True,
        )
        beside = [[one for one in pair if one is not None] for pair in sides]
        return [max(least * mean, sum(pair) / len(pair)) for pair in beside]


def _densities_before(segments: "Iterable[_Segment]") -> list[float | None]:
    """Return the mean density of the last few counted windows up to each segment."""
    last: deque[float] = deque(maxlen=_NEARBY)
    densities = []
    for segment in segments:
        if segment.is_counted:
            last.append(segment.rows / segment.width)
        densities.append(sum(last) / len(last) if last else None)
    return densities


@define(eq=False)
class _Segment:
    """Some seconds of the span."""

    start: int
    end: int
    rows: float = 0.0
    """Its rows; of a gap, those that must be there at least."""
    is_counted: bool = False
    """Whether these are all of its rows, so that it is not a gap."""
    is_full: bool = False
    """Whether a page for exactly these seconds came back full."""

    @property
    def width(self) -> int:
        """Its seconds."""
        return self.end - self.start

    def estimate(self, density: float) -> float:
        """Return the rows that a gap probably holds where there are so many a second nearby."""
        least = self.rows * (_HIDDEN if self.is_full else 1.0)
        return max(least, density * self.width)
