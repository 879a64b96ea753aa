"""Lateness of updates in the list, as a poller has observed it within a day."""

from collections import Counter
from typing import Final

_HOUR: Final = 3_600
_HOURS: Final = 24


class Lateness:
    """The lateness of updates, each rounded down to whole seconds, by the hour of its listing."""

    def __init__(self) -> None:
        self._hours: dict[int, Counter[int]] = {}

    def note(self, seconds: int, now: int) -> None:
        """Note an update that was listed so many seconds late, at least; 0 if it was in time."""
        hour = now // _HOUR
        self._hours.setdefault(hour, Counter())[seconds] += 1
        for old in [one for one in self._hours if abs(hour - one) >= _HOURS]:
            del self._hours[old]

    @property
    def greatest(self) -> int:
        """The greatest lateness; 0 if no update was late."""
        return max((seconds for counts in self._hours.values() for seconds in counts), default=0)

    def quantile(self, share: float) -> int:
        """Return the lateness that this share of all updates does not exceed."""
        total: Counter[int] = sum(self._hours.values(), Counter())
        left = share * total.total()
        for seconds in sorted(total):
            left -= total[seconds]
            if left <= 0:
                return seconds
        return 0
