"""How far an export has come in its walk: what may be noted, and what share is done.

The walk is ahead of the records that come: an application counts once its
record, or its failure, is there. Waits for nothing.
"""

from collections import deque

from attrs import frozen


@frozen(kw_only=True)
class Mark:
    """A page of the walk as it begins, or the end of the walk."""

    begun: int
    """Applications that were begun before it."""
    rows: int
    """Applications of it that are begun with it."""
    checkpoint: str
    """Of the walk: what it covers was begun before."""
    fraction: float
    """Share of the span that was covered before, 0 to 1."""
    share: float
    """Share of the span that it covers itself."""


class Marks:
    """The marks that still matter, for records that come in the order in which they were begun."""

    def __init__(self) -> None:
        self._begun = 0
        self._ended = 0
        self._marks: deque[Mark] = deque()
        self._farthest = 0.0

    @property
    def checkpoint(self) -> str | None:
        """The latest of which everything is there; None before the first."""
        mark = self._current()
        return None if mark is None else mark.checkpoint

    @property
    def fraction(self) -> float:
        """Share of the span that is done, 0 to 1; within a page, as if its rows were even."""
        mark = self._current()
        if mark is not None:
            within = (self._ended - mark.begun) / mark.rows if mark.rows else 0.0
            reached = mark.fraction + mark.share * min(within, 1.0)
            self._farthest = max(self._farthest, min(reached, 1.0))
        return self._farthest

    def turn(self, *, checkpoint: str, fraction: float, share: float = 0.0, rows: int = 0) -> None:
        """Take the next page of the walk, or its end.

        Args:
            checkpoint: of the walk, before this page.
            fraction: share of the span that is covered before this page.
            share: share of the span that this page covers.
            rows: applications of it that will be begun.
        """
        mark = Mark(
            begun=self._begun, rows=rows, checkpoint=checkpoint, fraction=fraction, share=share
        )
        self._marks.append(mark)

    def begin(self) -> None:
        """Count an application that is asked for."""
        self._begun += 1

    def end(self) -> None:
        """Count one that is there, or is known to be missing."""
        self._ended += 1

    def _current(self) -> Mark | None:
        while len(self._marks) > 1 and self._marks[1].begun <= self._ended:
            self._marks.popleft()
        return self._marks[0] if self._marks and self._marks[0].begun <= self._ended else None
