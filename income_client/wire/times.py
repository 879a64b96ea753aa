"""Wire times and dates, and the whole seconds that windows are made of; reads no clock.

A text is accepted only in the contract's own form, a fraction of a second apart, so that
2024-02-30, 24:00, week dates, other zones and full-width digits are refused.
Readers return None for such a text: an exception would carry it along.
"""

import enum
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final, TypeVar

from income_client.errors import InvalidArgumentError
from income_client.records.window import EPOCH
from income_client.settings import invalid

T = TypeVar("T")

_SECOND: Final = timedelta(seconds=1)
_NO_SHIFT: Final = timedelta(0)
FIRST_SECOND: Final = (datetime.min - EPOCH) // _SECOND  # noqa: DTZ901 - the service's frame
LAST_SECOND: Final = (datetime.max - EPOCH) // _SECOND  # noqa: DTZ901 - the service's frame
_BEYOND_ALL: Final = timedelta(days=366 * 10_000)

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT(?!24)\d\d:\d\d:\d\d(?:\.\d+)?", re.ASCII)
_BOUND: Final = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?:[T ](?:[01]\d|2[0-3]):\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)?",
    re.ASCII,
)

When = datetime | date | str
"""A time: aware, or naive and then in the service's zone; a day; or the ISO text of either."""


class Rounding(enum.Enum):
    """The direction in which a bound is rounded to a whole second: always outwards."""

    DOWN = "down"
    """Round a lower bound to the previous whole second."""
    UP = "up"
    """Round an upper bound to the next whole second."""


def has_hour_24() -> bool:
    """Return whether this version of the language reads 24:00, as the contract does not."""
    try:
        datetime.fromisoformat("2024-01-31T24:00:00")
    except ValueError:
        return False
    return True


def parse_service_time(text: str) -> datetime | None:
    """Return the naive time that a text such as ``2024-01-31T10:00:00`` means, or None."""
    # Services print one to nine digits of a fraction; the parser keeps six.
    return _parse_or_none(datetime.fromisoformat, text) if _TIME.fullmatch(text) else None


def parse_utc_time(text: str) -> datetime | None:
    """Return the aware time that a text such as ``2024-01-31T10:00:00Z`` means, or None."""
    value = parse_service_time(text[:-1]) if text.endswith("Z") else None
    return None if value is None else value.replace(tzinfo=UTC)


def parse_date(text: str) -> date | None:
    """Return the day that a text such as ``2024-01-31`` means, or None."""
    return _parse_or_none(date.fromisoformat, text) if _DAY.fullmatch(text) else None


def _parse_or_none(parse: Callable[[str], T], text: str) -> T | None:
    try:
        return parse(text)
    except ValueError:
        return None


def wire_time(second: int) -> str:
    """Return a second since 1970 as the query parameters have it (contract section 4.1)."""
    return (EPOCH + timedelta(seconds=second)).isoformat()


def aware_time(second: int, zone: tzinfo, near: datetime | None) -> datetime:
    """Return a second since 1970 of the service's frame as an aware time of its zone.

    In the hour that the end of summer time repeats, it is of the pass that is closer to
    ``near``, an aware time; of the first one if that is unknown.
    """
    moment = (EPOCH + timedelta(seconds=second)).replace(tzinfo=zone)
    if near is None:
        return moment
    near_utc = near.astimezone(UTC)
    passes = (moment.replace(fold=fold) for fold in (0, 1))
    return min(passes, key=lambda one: abs(one.astimezone(UTC) - near_utc))


def service_second(value: When, zone: tzinfo, *, rounding: Rounding, name: str = "the time") -> int:
    """Return a bound of a query as a whole second since 1970 in the service's frame.

    A time with a zone is converted, one without is in the service's frame already; a day means
    its midnight. Sub-seconds widen the span. So does the hour that the end of summer time
    repeats: its two passes carry the same texts, and a bound in one of them must not cut off
    what the other holds. Raises `ConfigurationError` for what is not a time of the years 1 to
    9999 (contract section 4.1 has four digits).
    """
    moment = _read_bound(value)
    if moment is None:
        allowed = "a datetime, a date, or the ISO 8601 text of either"
        raise invalid(name, allowed, value, may_show=isinstance(value, str))
    if moment.utcoffset() is None:
        since = moment.replace(tzinfo=None) - EPOCH
    else:
        since = _since_in_zone(moment, zone, rounding)
    second = since // _SECOND if rounding is Rounding.DOWN else -(-since // _SECOND)
    if not FIRST_SECOND <= second <= LAST_SECOND:
        raise InvalidArgumentError(f"{name} must be within the years 1 to 9999", argument=name)
    return second


def wire_bounds(
    after: When | None, before: When | None, zone: tzinfo
) -> tuple[str | None, str | None]:
    """Return both bounds of a query as the query parameters have them; None stays None."""
    lower, upper = service_bounds(after, before, zone)
    return (
        None if lower is None else wire_time(lower),
        None if upper is None else wire_time(upper),
    )


def service_bounds(
    after: When | None, before: When | None, zone: tzinfo
) -> tuple[int | None, int | None]:
    """Return both bounds of a query as seconds of the service's frame; None stays None."""
    lower = upper = None
    if after is not None:
        lower = service_second(after, zone, rounding=Rounding.DOWN, name="updated_after")
    if before is not None:
        upper = service_second(before, zone, rounding=Rounding.UP, name="updated_before")
    if lower is not None and upper is not None and lower > upper:
        raise InvalidArgumentError(
            "updated_after must not be later than updated_before", argument="updated_after"
        )
    return lower, upper


def _read_bound(value: object) -> datetime | None:
    match value:
        case datetime():
            return value
        case date():
            return datetime.combine(value, time.min)
        case str() if _BOUND.fullmatch(value):
            return _parse_or_none(datetime.fromisoformat, value)
        case _:
            return None


def _since_in_zone(moment: datetime, zone: tzinfo, rounding: Rounding) -> timedelta:
    try:
        local = moment.astimezone(zone)
    except OverflowError:
        return -_BEYOND_ALL if moment.year == 1 else _BEYOND_ALL
    since = local.replace(tzinfo=None) - EPOCH
    first, second = (local.replace(fold=fold).utcoffset() or _NO_SHIFT for fold in (0, 1))
    repeated = max(first - second, _NO_SHIFT)
    if rounding is Rounding.DOWN and local.fold == 0:
        return since - repeated
    if rounding is Rounding.UP and local.fold == 1:
        return since + repeated
    return since
