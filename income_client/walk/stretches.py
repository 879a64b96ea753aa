"""The parts of a walk's span that are walked beside each other; knows no page and no present."""

from collections.abc import Iterable, Iterator
from typing import Final

from income_client.records.window import Window

from .density import Density
from .stretch import Stretch
from .windows import Question, Rows

_WORTH_SHARING: Final = 0.9
"""Pages that must lie ahead of a walker before another takes half of them."""


class Stretches:
    """Stretches that have no second in common, in the order in which they are begun.

    Args:
        windows: what is to be walked, a stretch each.
        limit: rows at which a page is full.
    """

    def __init__(self, windows: Iterable[Window], limit: int) -> None:
        self._limit = limit
        self._all = [self._fresh(window) for window in windows]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Stretch]:
        return iter(self._all)

    def unasked(self) -> Stretch | None:
        """Return one without a question in flight, cut from another if it must be."""
        return next((one for one in self._all if one.asked is None), None) or self._share()

    def release(self, question: Question) -> Stretch:
        """Return the one that a question was about; it has none in flight from now on."""
        stretch = next(one for one in self._all if one.asked is question)
        stretch.asked = None
        return stretch

    def replace(self, stretch: Stretch, left: Iterable[Window]) -> None:
        """Keep of one only what is left of it, empty windows aside."""
        at = self._all.index(stretch)
        self._all[at : at + 1] = [stretch.part(window) for window in left if window]

    def pass_second(self, stretch: Stretch) -> None:
        """Have one go on behind its first second, or end there."""
        stretch.pass_second()
        if stretch.start >= stretch.end:
            self._all.remove(stretch)

    def add(self, window: Window, rows: Rows) -> None:
        """Take a window more.

        Args:
            window: is walked once all others have begun.
            rows: those that a page full of them gave for it; none where there was no such page.
        """
        stretch = self._fresh(window)
        width = window.before - window.after
        if rows:
            stretch.density.overfull(window.after, width, rows.keys())
            stretch.overfull = width if width > 1 else None
        self._all.append(stretch)
        self.set_apart_quiet(stretch, rows)

    def set_apart_quiet(self, stretch: Stretch, rows: Rows) -> None:
        """Have one of their own for the seconds in which, by these rows, little happened."""
        quiet = stretch.set_apart_quiet(rows)
        if quiet is not None:
            self._all.insert(self._all.index(stretch), quiet)

    def _fresh(self, window: Window) -> Stretch:
        return Stretch(window.after, window.before, Density(self._limit))

    def _share(self) -> Stretch | None:
        """Cut the free part of the fullest in two, for a walker without work."""
        fullest = max(self._all, key=lambda one: one.pages_ahead, default=None)
        if fullest is None or fullest.pages_ahead < _WORTH_SHARING:
            return None
        half = fullest.split()
        if half is not None:
            self._all.insert(self._all.index(fullest) + 1, half)
        return half
