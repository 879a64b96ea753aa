"""A set of whole seconds, kept as few disjoint intervals; knows nothing of what they are for."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import ClassVar

from income_client.records.window import Window


class Intervals:
    """Disjoint, merged, ascending windows."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, windows: Iterable[Window] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for window in windows:
            self.add(window)

    def __iter__(self) -> Iterator[Window]:
        return map(Window, self._starts, self._ends)

    def __len__(self) -> int:
        return len(self._starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals):
            return NotImplemented
        return self._starts == other._starts and self._ends == other._ends

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Intervals({', '.join(map(str, self))})"

    @property
    def seconds(self) -> int:
        """How many seconds are in the set."""
        return sum(self._ends) - sum(self._starts)

    def add(self, window: Window) -> None:
        """Put every second of the window into the set, merging what it touches."""
        if not window:
            return
        first = bisect_left(self._ends, window.after)
        last = bisect_right(self._starts, window.before)
        start, end = window.after, window.before
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def covers(self, window: Window) -> bool:
        """Tell whether every second of the window is in the set."""
        if not window:
            return True
        at = bisect_right(self._starts, window.after) - 1
        return at >= 0 and self._ends[at] >= window.before

    def gaps(self, within: Window) -> list[Window]:
        """Return the windows inside ``within`` that the set lacks, in ascending order."""
        gaps = []
        position = within.after
        for window in self:
            if window.before <= position:
                continue
            if window.after >= within.before:
                break
            if window.after > position:
                gaps.append(Window(position, window.after))
            position = window.before
        if position < within.before:
            gaps.append(Window(position, within.before))
        return gaps
