"""Two clocks compared by times in whole seconds that one of them sends; reads neither."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from attrs import frozen

from income_client.cli.output import duration

_QUARTER: Final = 900
_LEAST_ZONE: Final = 600
"""Seconds below which two times differ by their clocks, and not by their zones."""


@frozen
class Reading:
    """A time in whole seconds, from a reply to a request."""

    time: datetime
    """As it was sent; its zone is not looked at."""
    sent_at: float
    """When the request was sent, in seconds since 1970 by this machine's clock."""
    received_at: float
    """When the reply was received, likewise."""

    @property
    def second(self) -> int:
        """It, in seconds since 1970."""
        return int(self.time.replace(tzinfo=UTC).timestamp())


@frozen
class Offset:
    """How far another clock is ahead of this machine's."""

    seconds: float
    error: float
    """How far to either side it may be."""

    def __str__(self) -> str:
        apart = abs(self.seconds)
        if apart <= self.error:
            return f"equal to this machine's, ± {self.error:.1f} s"
        side = "ahead of" if self.seconds > 0 else "behind"
        return f"{duration(apart)} {side} this machine's, ± {self.error:.1f} s"


def offset_of(readings: Iterable[Reading]) -> Offset | None:
    """Return the offset that all readings allow, None if there is none.

    Each allows from the time sent less the moment of the reply, to the end of
    that second less the moment of the request.
    """
    readings = tuple(readings)
    low = max((each.second - each.received_at for each in readings), default=0.0)
    high = min((each.second + 1 - each.sent_at for each in readings), default=-1.0)
    return None if low > high else Offset((low + high) / 2, (high - low) / 2)


def zone_shift(frame: Offset, utc: Offset) -> int:
    """Return how many seconds a clock's zone is ahead of UTC, in quarters of an hour."""
    apart = frame.seconds - utc.seconds
    return round(apart / _QUARTER) * _QUARTER if abs(apart) >= _LEAST_ZONE else 0


def zone_name(shift: int) -> str:
    """Return a shift in seconds as people write zones, such as ``UTC-05:00``."""
    hours, minutes = divmod(abs(shift) // 60, 60)
    return f"UTC{'-' if shift < 0 else '+'}{hours:02d}:{minutes:02d}" if shift else "UTC"
