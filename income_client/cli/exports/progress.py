"""How far an export has come, as a line of a terminal with the time left; reads no record."""

from collections import deque
from time import monotonic
from typing import Final

from attrs import frozen
from rich.text import Text

from income_client.cli.output import counted, estimated
from income_client.cli.progress import StatusLine

_RECENT: Final = 30.0
"""Seconds that the estimate looks back: what was long ago says little of what comes."""
_LEAST: Final = 3.0
_BETWEEN_DRAWINGS: Final = 0.1
_NEARLY: Final = 99
"""The most that is shown: at 100 % there is no line any more."""


@frozen
class _Sample:
    at: float
    count: int


class Estimate:
    """When something will be done, from how it went lately."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def note(self, at: float, count: int) -> None:
        """Take how far it is.

        Args:
            at: seconds of a clock that only goes forward.
            count: how many are done.
        """
        self._samples.append(_Sample(at, count))
        while len(self._samples) > 2 and at - self._samples[1].at >= _RECENT:  # noqa: PLR2004 - both ends
            self._samples.popleft()

    def left(self, total: int) -> float | None:
        """Return the seconds until so many are done in all; None while nobody can tell."""
        rate = self.rate
        return (total - self._samples[-1].count) / rate if rate else None

    @property
    def rate(self) -> float | None:
        """How many are done in a second; None while nobody can tell."""
        if not self._samples:
            return None
        first, last = self._samples[0], self._samples[-1]
        seconds = last.at - first.at
        return (last.count - first.count) / seconds if seconds >= _LEAST else None


class Share:
    """The share that is done, which never goes back, whatever is found meanwhile."""

    def __init__(self) -> None:
        self._farthest = 0

    def percent(self, done: int, total: int) -> int:
        """Return it in whole per cent, rounded down, 0 to 99.

        Args:
            done: how many are done.
            total: how many there are in all, as far as is known by now.
        """
        reached = 100 * done // total if total else 0
        self._farthest = max(self._farthest, min(reached, _NEARLY))
        return self._farthest


class ExportProgress:
    """The line that shows it.

    Args:
        line: where it is drawn.
        what: that is being done.
    """

    def __init__(self, line: StatusLine, what: str) -> None:
        self._line = line
        self._what = what
        self._estimate = Estimate()
        self._share = Share()
        self._drawn_at = -_BETWEEN_DRAWINGS

    def show(self, done: int, total: int | None, missing: int = 0) -> None:
        """Draw it, unless that was done just now.

        Args:
            done: applications that are read or written.
            total: how many there are in all; None while nobody can tell.
            missing: applications that could not be read.
        """
        now = monotonic()
        if not self._line.is_shown or now - self._drawn_at < _BETWEEN_DRAWINGS:
            return
        self._drawn_at = now
        over = done + missing
        self._estimate.note(now, over)
        parts = [self._what, counted(done, "application")]
        if total is not None:
            parts[0] = f"{self._what} {self._share.percent(over, total):2d}%"
            parts[1] = f"{done:,} of {counted(total, 'application')}"
        if missing:
            parts.append(f"{missing:,} not read")
        left = None if total is None else self._estimate.left(total)
        if left is not None:
            parts.append(f"{estimated(left)} left")
        if self._estimate.rate is not None:
            parts.append(f"{self._estimate.rate:,.0f} a second")
        self._line.draw([Text(part) for part in parts])
