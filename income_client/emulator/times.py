"""Service seconds and their text forms."""

import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import lru_cache
from typing import Final

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the service's times carry no zone
START: Final = datetime(2026, 6, 30, 12)  # noqa: DTZ001 - as above
DAY: Final = 86_400

_EARLIEST: Final = -62_135_596_800
_LATEST: Final = 253_402_300_799
# A page of the list has a thousand of these: putting tables together is the fastest way.
_MINUTES: Final = tuple(f"{m // 60:02d}:{m % 60:02d}" for m in range(DAY // 60))
_SECONDS: Final = tuple(f":{s:02d}" for s in range(60))
_BOUND: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2})?\Z")


def second_of(moment: datetime) -> int:
    """Return the service second of a time without zone."""
    return (moment - EPOCH) // timedelta(seconds=1)


def moment_of(second: int) -> datetime:
    """Return the time without zone of a service second, within the years 1 to 9999."""
    return EPOCH + timedelta(seconds=min(max(second, _EARLIEST), _LATEST))


@lru_cache(maxsize=4096)
def _day_prefix(day: int) -> str:
    return f"{(EPOCH + timedelta(days=day)).date().isoformat()}T"


def stamp(second: int) -> str:
    """Write a service second as ``YYYY-MM-DDTHH:MM:SS`` (contract section 2)."""
    day, rest = divmod(min(max(second, _EARLIEST), _LATEST), DAY)
    return _day_prefix(day) + _MINUTES[rest // 60] + _SECONDS[rest % 60]


def parse_bound(text: str) -> int | None:
    """Read a bound of the list, a date or a time without zone; None for anything else."""
    if not _BOUND.match(text):
        return None
    try:
        return second_of(datetime.fromisoformat(text))
    except ValueError:
        return None


@lru_cache(maxsize=64)
def http_date(second: int) -> str:
    """Write a service second as an HTTP Date header."""
    return format_datetime(moment_of(second).replace(tzinfo=UTC), usegmt=True)
