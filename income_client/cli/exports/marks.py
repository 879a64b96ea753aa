"""How far an export has come in its walk, so that no more is noted than is there.

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
    checkpoint: str
    """Of the walk: what it covers was begun before."""


class Marks:
    """The marks that still matter, for records that come in the order in which they were begun."""

    def __init__(self) -> None:
        self._begun = 0
        self._ended = 0
        self._marks: deque[Mark] = deque()

    @property
    def checkpoint(self) -> str | None:
        """The latest of which everything is there; None before the first."""
        while len(self._marks) > 1 and self._marks[1].begun <= self._ended:
            self._marks.popleft()
        is_reached = bool(self._marks) and self._marks[0].begun <= self._ended
        return self._marks[0].checkpoint if is_reached else None

    def turn(self, checkpoint: str) -> None:
        """Take the checkpoint of the walk before its next page, or at its end."""
        self._marks.append(Mark(begun=self._begun, checkpoint=checkpoint))

    def begin(self) -> None:
        """Count an application that is asked for."""
        self._begun += 1

    def end(self) -> None:
        """Count one that is there, or is known to be missing."""
        self._ended += 1
