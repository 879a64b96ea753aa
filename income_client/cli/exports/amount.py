"""How many applications an export has in all, as far as its walk can tell; waits for nothing."""

from math import ceil
from typing import Final

_TELLING: Final = 10_000
"""Applications from which on the span they lie in says something of the rest of it."""


class Amount:
    """What is read or found to be read, and what is to be expected beyond.

    Args:
        before: applications that earlier runs have read.
        expected: how many these expected in all; None where they could not tell.
    """

    def __init__(self, before: int = 0, expected: int | None = None) -> None:
        self._seen = before
        self._expected = expected
        self._has_ended = False

    def find(self, count: int, covered: float = 0.0) -> None:
        """Count applications that are to be read.

        Args:
            count: how many more these are.
            covered: share of the span that is walked, 0 to 1; 0 says nothing.
        """
        self._seen += count
        if covered and self._seen >= _TELLING:
            self._expected = ceil(self._seen / covered)

    def end(self) -> None:
        """Take note that all are found."""
        self._has_ended = True

    @property
    def total(self) -> int | None:
        """How many there are in all; None while nobody can tell."""
        if self._has_ended:
            return self._seen
        return None if self._expected is None else max(self._expected, self._seen)
