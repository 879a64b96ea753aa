"""Wire times and dates, and the whole seconds that windows are made of; reads no clock.

A text is accepted only in the contract's own form, a fraction of a second apart, so that
2024-02-30, 24:00, week dates, other zones and full-width digits are refused.
Readers return None for such a text: an exception would carry it along.
"""

import enum
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final, assert_never

from income_client.errors import ConfigurationError
from income_client.records.window import EPOCH

_SECOND: Final = timedelta(seconds=1)
_NO_SHIFT: Final = timedelta(0)
FIRST_SECOND: Final = (datetime.min - EPOCH) // _SECOND  # noqa: DTZ901 - the service's frame
LAST_SECOND: Final = (datetime.max - EPOCH) // _SECOND  # noqa: DTZ901 - the service's frame
_BEYOND_ALL: Final = timedelta(days=366 * 10_000)

PLAIN_LENGTH: Final = len("YYYY-MM-DDTHH:MM:SS")
DAY_LENGTH: Final = len("YYYY-MM-DD")

_WITH_FRACTION: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+", re.ASCII)
_BOUND: Final = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?:[T ](?:[01]\d|2[0-3]):\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)?",
    re.ASCII,
)

When = datetime | date | str
"""A time: aware, or naive and then in the service's zone; a day; or the ISO text of either."""

_BACKWARDS: Final = "updated_after is later than updated_before"


class Rounding(enum.Enum):
    """Where a bound goes that the wire cannot carry exactly: always outwards."""

    DOWN = "down"
    """For a lower bound."""
    UP = "up"
    """For an upper bound."""


def has_hour_24() -> bool:
    """Return whether this version of the language reads 24:00, as the contract does not."""
    try:
        datetime.fromisoformat("2024-01-31T24:00:00")
    except ValueError:
        return False
    return True


def parse_service_time(text: str) -> datetime | None:
    """Return the naive time that a text such as ``2024-01-31T10:00:00`` means, or None."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        return None
    # Nothing else of this length has these separators; the parser refuses other digits.
    if len(text) == PLAIN_LENGTH and text[4::3] == "--T::" and text[11:13] != "24":
        return value
    # Services print one to nine digits of a fraction; the parser keeps six.
    return value if _WITH_FRACTION.fullmatch(text) and text[11:13] != "24" else None


def render_service_time(value: datetime) -> str:
    """Return the text of a naive time."""
    return value.isoformat()


def parse_utc_time(text: str) -> datetime | None:
    """Return the aware time that a text such as ``2024-01-31T10:00:00Z`` means, or None."""
    if text[-1:] != "Z":
        return None
    if len(text) == PLAIN_LENGTH + 1 and text[4::3] == "--T::Z" and text[11:13] != "24":
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            return None
    value = parse_service_time(text[:-1])
    return None if value is None else value.replace(tzinfo=UTC)


def render_utc_time(value: datetime) -> str:
    """Return the text of an aware time, converted to UTC."""
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def parse_date(text: str) -> date | None:
    """Return the day that a text such as ``2024-01-31`` means, or None."""
    try:
        value = date.fromisoformat(text)
    except ValueError:
        return None
    # No other form of that length has both its hyphens there.
    return value if len(text) == DAY_LENGTH and text[4::3] == "--" else None


def render_date(value: date) -> str:
    """Return the text of a day."""
    return value.isoformat()


def wire_time(second: int) -> str:
    """Return a second since 1970 as the query parameters have it (contract section 4.1)."""
    return (EPOCH + timedelta(seconds=second)).isoformat()


def wire_bound(value: datetime | date | str, zone: tzinfo, *, rounding: Rounding) -> str:
    """Return a bound of a query as the query parameters have it; arguments are `service_second`'s.

    Such texts are in the order of the times that they mean.
    """
    if isinstance(value, str) and _is_as_sent(value):
        return value
    return wire_time(service_second(value, zone, rounding=rounding))


def _is_as_sent(text: str) -> bool:
    return len(text) == PLAIN_LENGTH and parse_service_time(text) is not None


def service_second(value: datetime | date | str, zone: tzinfo, *, rounding: Rounding) -> int:
    """Turn a bound of a query into a whole second of the service's frame.

    Sub-seconds widen the span. So does the hour that the end of summer time
    repeats: its two passes carry the same texts, and a bound in one of them
    must not cut off what the other holds.

    Args:
        value: a time, a day (its midnight), or the ISO 8601 text of either. A time
            with a zone is converted, one without is in the service's frame already.
        zone: the service's zone.
        rounding: down for a lower bound, up for an upper one.

    Returns:
        Seconds since 1970 in the service's frame.

    Raises:
        ConfigurationError: the value is of another type, no such time, or beyond
            the years 1 to 9999 (contract section 4.1 has four digits).
    """
    second = _second(value, zone, rounding)
    if second is None:
        raise ConfigurationError("a bound is a datetime, a date, or the ISO 8601 text of either")
    if not FIRST_SECOND <= second <= LAST_SECOND:
        raise ConfigurationError("a bound lies within the years 1 to 9999")
    return second


def wire_bounds(
    after: When | None, before: When | None, zone: tzinfo
) -> tuple[str | None, str | None]:
    """Return both bounds of a query as the query parameters have them; None stays None."""
    lower = None if after is None else wire_bound(after, zone, rounding=Rounding.DOWN)
    upper = None if before is None else wire_bound(before, zone, rounding=Rounding.UP)
    if lower is not None and upper is not None and lower > upper:
        raise ConfigurationError(_BACKWARDS)
    return lower, upper


def service_bounds(
    after: When | None, before: When | None, zone: tzinfo
) -> tuple[int | None, int | None]:
    """Return both bounds of a query as seconds of the service's frame; None stays None."""
    lower = None if after is None else service_second(after, zone, rounding=Rounding.DOWN)
    upper = None if before is None else service_second(before, zone, rounding=Rounding.UP)
    if lower is not None and upper is not None and lower > upper:
        raise ConfigurationError(_BACKWARDS)
    return lower, upper


def _second(value: object, zone: tzinfo, rounding: Rounding) -> int | None:
    moment = _moment(value)
    if moment is None:
        return None
    if moment.utcoffset() is not None:
        since = _since_in_zone(moment, zone, rounding)
    else:
        naive = moment if moment.tzinfo is None else moment.replace(tzinfo=None)
        since = naive - EPOCH
    match rounding:
        case Rounding.DOWN:
            return since // _SECOND
        case Rounding.UP:
            return -(-since // _SECOND)
        case _:
            assert_never(rounding)


def _moment(value: object) -> datetime | None:
    match value:
        case datetime():
            return value
        case date():
            return datetime.combine(value, time.min)
        case str() if _BOUND.fullmatch(value):
            try:
                return datetime.fromisoformat(value)
            except ValueError:
                return None
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
