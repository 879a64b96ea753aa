"""Two clocks compared by what one tells in whole seconds to the other; reads neither."""

from collections.abc import Iterable
from typing import Final

from attrs import frozen

from income_client.cli.output import in_words

_QUARTER: Final = 900
_LEAST_ZONE: Final = 600
"""Seconds below which two times differ by their clocks, and not by their zones."""


@frozen(kw_only=True)
class Reading:
    """A time told in whole seconds, some time between two moments of this machine."""

    second: int
    """What was told, in seconds since 1970 of its frame."""
    sent_at: float
    """When it was asked for, in seconds since 1970."""
    received_at: float
    """When the answer was here."""


@frozen(kw_only=True)
class Offset:
    """How far another clock is ahead of this machine's."""

    seconds: float
    """The middle of what is possible."""
    error: float
    """How far to either side it may be."""

    def __str__(self) -> str:
        apart = abs(self.seconds)
        if apart <= self.error:
            return f"the same, to {self.error:.1f} s"
        side = "ahead" if self.seconds > 0 else "behind"
        return f"{in_words(apart)} {side}, ± {self.error:.1f} s"


def offset_of(readings: Iterable[Reading]) -> Offset | None:
    """Return what all readings allow, None if there is none or they contradict each other.

    Each allows from the told second less the moment of the answer, to the end of
    that second less the moment of the question.
    """
    readings = tuple(readings)
    low = max((each.second - each.received_at for each in readings), default=0.0)
    high = min((each.second + 1 - each.sent_at for each in readings), default=-1.0)
    if low > high:
        return None
    return Offset(seconds=(low + high) / 2, error=(high - low) / 2)


def zone_shift(frame: Offset, utc: Offset) -> int:
    """Return how far a zone is ahead of UTC, in quarters of an hour turned into seconds.

    Args:
        frame: of a clock that tells the zone's time.
        utc: of one that tells UTC.
    """
    apart = frame.seconds - utc.seconds
    return round(apart / _QUARTER) * _QUARTER if abs(apart) >= _LEAST_ZONE else 0


def zone_name(shift: int) -> str:
    """Return a shift in seconds as people write zones, such as ``UTC-05:00``."""
    hours, minutes = divmod(abs(shift) // 60, 60)
    return f"UTC{'-' if shift < 0 else '+'}{hours:02d}:{minutes:02d}" if shift else "UTC"
