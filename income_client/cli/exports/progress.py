"""How far an export has come, as a line of a terminal with the time left; reads no record."""

from collections import deque
from math import ceil
from time import monotonic
from typing import Final

from attrs import frozen
from rich.text import Text

from income_client.cli.output.counts import counted
from income_client.cli.output.status_line import StatusLine

_RECENT: Final = 30.0
"""Seconds that the estimate looks back: applications are dense in some times and rare in others."""
_LEAST: Final = 3.0
_BETWEEN_DRAWINGS: Final = 0.1
_MINUTE: Final = 60
_HOUR: Final = 3600
_STEP: Final = 5


@frozen
class _Sample:
    at: float
    fraction: float
    count: int


class Estimate:
    """When something will be done, from how it went lately."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def note(self, at: float, fraction: float, count: int) -> None:
        """Take how far it is.

        Args:
            at: seconds of a clock that only goes forward.
            fraction: share that is done, 0 to 1.
            count: how many are done.
        """
        self._samples.append(_Sample(at, fraction, count))
        while len(self._samples) > 2 and at - self._samples[1].at >= _RECENT:  # noqa: PLR2004 - both ends
            self._samples.popleft()

    @property
    def left(self) -> float | None:
        """Seconds until all is done; None while nobody can tell."""
        seconds = self._seconds
        if seconds is None:
            return None
        gained = self._samples[-1].fraction - self._samples[0].fraction
        return (1 - self._samples[-1].fraction) * seconds / gained if gained > 0 else None

    @property
    def rate(self) -> float | None:
        """How many are done in a second; None while nobody can tell."""
        seconds = self._seconds
        if seconds is None:
            return None
        return (self._samples[-1].count - self._samples[0].count) / seconds

    @property
    def _seconds(self) -> float | None:
        if not self._samples:
            return None
        seconds = self._samples[-1].at - self._samples[0].at
        return seconds if seconds >= _LEAST else None


class ExportProgress:
    """The line that shows it.

    Args:
        line: where it is drawn.
    """

    def __init__(self, line: StatusLine) -> None:
        self._line = line
        self._estimate = Estimate()
        self._drawn_at = -_BETWEEN_DRAWINGS

    def show(self, what: str, fraction: float, count: int, missing: int = 0) -> None:
        """Draw it, unless that was done just now.

        Args:
            what: that is being done.
            fraction: share that is done, 0 to 1.
            count: applications that are done.
            missing: applications that could not be read.
        """
        now = monotonic()
        if not self._line.is_shown or now - self._drawn_at < _BETWEEN_DRAWINGS:
            return
        self._drawn_at = now
        self._estimate.note(now, fraction, count)
        parts = [f"{what} {fraction:4.0%}", counted(count, "application")]
        if missing:
            parts.append(f"{missing:,} not read")
        if self._estimate.left is not None:
            parts.append(f"{told(self._estimate.left)} left")
        if self._estimate.rate is not None:
            parts.append(f"{self._estimate.rate:,.0f} a second")
        self._line.draw([Text(part) for part in parts])


def told(seconds: float) -> str:
    """Return a span of time that is still to come, in as few words as it is known to."""
    if seconds < _MINUTE:
        return f"about {max(1, ceil(seconds / _STEP)) * _STEP} s"
    if seconds < _HOUR:
        return f"about {seconds / _MINUTE:.0f} min"
    return f"about {seconds / _HOUR:.1f} h"
