"""Service seconds and the texts that stand for them; knows no clock and no zone."""

import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the service's times carry no zone
START: Final = datetime(2026, 6, 30, 12)  # noqa: DTZ001 - as above
DAY: Final = 86_400

_MINUTE: Final = 60
_EARLIEST: Final = -62_135_596_800
_LATEST: Final = 253_402_300_799
_MINUTES: Final = tuple(f"{m // 60:02d}:{m % 60:02d}" for m in range(DAY // _MINUTE))
_SECONDS: Final = tuple(f":{s:02d}" for s in range(_MINUTE))
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)
_BOUND: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2})?\Z")


def second_of(moment: datetime) -> int:
    """Return the service second of a time without zone."""
    return (moment - EPOCH) // timedelta(seconds=1)


def moment_of(second: int) -> datetime:
    """Return the time without zone of a service second, held within what a datetime can say."""
    return EPOCH + timedelta(seconds=min(max(second, _EARLIEST), _LATEST))


@lru_cache(maxsize=4096)
def _day_prefix(day: int) -> str:
    return (EPOCH + timedelta(days=day)).strftime("%Y-%m-%dT").rjust(11, "0")


def stamp(second: int) -> str:
    """Write a service second as ``YYYY-MM-DDTHH:MM:SS`` (contract section 2)."""
    day, rest = divmod(min(max(second, _EARLIEST), _LATEST), DAY)
    return _day_prefix(day) + _MINUTES[rest // _MINUTE] + _SECONDS[rest % _MINUTE]


def parse_bound(text: str) -> int | None:
    """Read a bound of the list, a date or a time without zone; None for anything else.

    Args:
        text: the decoded value of the query parameter (contract section 4.1).
    """
    if not _BOUND.match(text):
        return None
    try:
        return second_of(datetime.fromisoformat(text))
    except ValueError:
        return None


@lru_cache(maxsize=64)
def http_date(second: int) -> str:
    """Write a service second as an HTTP Date header."""
    moment = moment_of(second)
    weekday, month = _WEEKDAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{weekday}, {moment.day:02d} {month} {moment.year:04d} {moment:%H:%M:%S} GMT"
