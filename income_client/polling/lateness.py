"""Lateness of updates in the list, as pollers of one name have observed it within a day."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from attrs import define, field

_HOUR: Final = 3_600
_HOURS: Final = 24
_STORED_QUANTILES: Final = (0.9, 0.99, 0.999, 1.0)
"""Quantiles of each hour that a checkpoint holds: a day of them takes less than one kilobyte."""


@define
class Lateness:
    """The lateness of updates, each rounded down to whole seconds, by the hour of its listing."""

    _hours: dict[int, Counter[int]] = field(factory=dict)
    """For each hour since 1970, the number of updates by the seconds by which they were late."""

    def note(self, seconds: int, now: int) -> None:
        """Note an update that was listed so many seconds late, at least; 0 if it was in time."""
        self._hours.setdefault(now // _HOUR, Counter())[seconds] += 1
        self.keep_day(now)

    def keep_day(self, now: int) -> None:
        """Forget hours that are a day before the present, or after it."""
        for hour in [hour for hour in self._hours if abs(now // _HOUR - hour) >= _HOURS]:
            del self._hours[hour]

    @property
    def updates(self) -> int:
        """The number of updates whose lateness is known."""
        return sum(counts.total() for counts in self._hours.values())

    @property
    def greatest(self) -> int:
        """The greatest lateness; 0 if no update was late."""
        return max((max(counts, default=0) for counts in self._copies()), default=0)

    def quantile(self, share: float) -> int:
        """Return the lateness that this share of all updates does not exceed."""
        return _quantile(sum(self._copies(), Counter()), share)

    def _copies(self) -> list[Counter[int]]:
        """Copy the hours, each in one step: another thread may read the status meanwhile."""
        return [Counter(dict(counts)) for counts in tuple(self._hours.values())]

    def summary(self) -> "Lateness":
        """Return a copy for a checkpoint, with each lateness rounded up to a quantile of its hour.

        The greatest lateness stays exact, and a later quantile is not understated.
        """
        return Lateness({hour: _summary(counts) for hour, counts in self._hours.items()})

    def as_rows(self, now: int) -> list[list[int]]:
        """Return each hour as its distance to the present one, and pairs of seconds and counts."""
        return [
            [hour - now // _HOUR, *(number for pair in sorted(counts.items()) for number in pair)]
            for hour, counts in self._hours.items()
        ]

    @classmethod
    def from_rows(cls, rows: object, now: int) -> "Lateness":
        """Return the lateness that `as_rows` has written; raise `ValueError` for other rows."""
        if isinstance(rows, list):
            return cls(dict(_read_hour(row, now) for row in rows))
        raise ValueError("the lateness must be a list of hours")


def _quantile(counts: Mapping[int, int], share: float) -> int:
    left = share * sum(counts.values())
    for seconds in sorted(counts):
        left -= counts[seconds]
        if left <= 0:
            return seconds
    return 0


def _summary(counts: Mapping[int, int]) -> Counter[int]:
    quantiles = [_quantile(counts, share) for share in _STORED_QUANTILES]
    rounded: Counter[int] = Counter()
    for seconds, count in counts.items():
        rounded[min(quantile for quantile in quantiles if seconds <= quantile)] += count
    return rounded


def _read_hour(row: object, now: int) -> tuple[int, Counter[int]]:
    if not isinstance(row, list) or not all(type(number) is int for number in row):
        raise ValueError("an hour must be a list of integers")
    distance, *numbers = row
    pairs: dict[int, int] = dict(zip(numbers[::2], numbers[1::2], strict=True))
    if not all(seconds >= 0 < count for seconds, count in pairs.items()):
        raise ValueError("seconds must not be negative, and counts must be positive")
    return now // _HOUR + distance, Counter(pairs)
