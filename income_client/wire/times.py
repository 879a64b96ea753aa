"""Wire times and dates, and the whole seconds that windows are made of; reads no clock.

A text is accepted only in the contract's own form, a fraction of a second apart, so that
2024-02-30, 24:00, week dates, other zones and full-width digits are refused.
Readers return None for such a text: an exception would carry it along.
"""

import enum
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Final, TypeVar

from income_client.errors import InvalidArgumentError
from income_client.records.window import EPOCH
from income_client.settings import invalid, wrong
from income_client.system.texts import parse_iso_time, standard_datetime

T = TypeVar("T")

_SECOND: Final = timedelta(seconds=1)
_NO_SHIFT: Final = timedelta(0)
FIRST_SECOND: Final = (datetime.min - EPOCH) // _SECOND  # noqa: DTZ901 - the service's frame
LAST_SECOND: Final = (datetime.max - EPOCH) // _SECOND  # noqa: DTZ901 - the service's frame
_BEYOND_ALL: Final = timedelta(days=366 * 10_000)
_DAY_LONG: Final = timedelta(days=1)
"""Longest time by which clocks of a zone were ever set."""
_QUARTER: Final = timedelta(days=91)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC) + 2 * _DAY_LONG
_LATEST: Final = datetime.max.replace(tzinfo=UTC) - 2 * _DAY_LONG
_A_ZONE: Final = 'a tzinfo such as zoneinfo.ZoneInfo("America/New_York")'

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


def check_zone(name: str, zone: object) -> tzinfo:
    """Return a zone; raise `ConfigurationError` unless it knows its offset at an instant."""
    if isinstance(zone, tzinfo):
        try:
            _offset(datetime(2026, 1, 1, tzinfo=UTC), zone)
        except Exception:  # noqa: BLE001 - zones are classes of any library
            raise wrong(name, "must be a tzinfo that knows its offsets") from None
        return zone
    raise invalid(name, _A_ZONE, zone)


def aware_time(second: int, zone: tzinfo, near: datetime | None) -> datetime:
    """Return a second since 1970 of the service's frame as an aware time of its zone.

    In the hour that the end of summer time repeats, it is of the pass that is closer to
    ``near``, an aware time; of the first one if that is unknown.
    """
    moment = EPOCH + timedelta(seconds=second)
    try:
        passes = _instants(moment.replace(tzinfo=UTC), zone)
        nearest = min(passes, key=lambda instant: abs(instant - (near or passes[0])))
        return nearest.astimezone(zone)
    except OverflowError:
        return moment.replace(tzinfo=zone)


def _instants(wall_time: datetime, zone: tzinfo) -> list[datetime]:
    """Return the instants at which the clocks of a zone show a time, the first one first.

    Two if clocks went back over it. If they skipped it, the instant that it would be without
    the change. ``wall_time`` is marked as UTC. Zones are asked for the offset of an instant
    only: those of pytz have no right answer for a local time.
    """
    before, after = _offsets_around(wall_time, zone)
    matching = [
        wall_time - offset
        for offset in dict.fromkeys((before, after))
        if _offset(wall_time - offset, zone) == offset
    ]
    return sorted(matching) or [wall_time - before]


def _offsets_around(instant: datetime, zone: tzinfo) -> tuple[timedelta, timedelta]:
    """Return a zone's offsets a day before and a day after an instant."""
    clamped = min(max(instant, _EARLIEST), _LATEST)
    return _offset(clamped - _DAY_LONG, zone), _offset(clamped + _DAY_LONG, zone)


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    """Return a zone's offset at an instant; that of a day nearby at the ends of the calendar."""
    instant = min(max(instant, _EARLIEST), _LATEST)
    local = standard_datetime(instant.astimezone(zone))
    return local.replace(tzinfo=UTC) - instant


def earlier_second(second: int, seconds: int, zone: tzinfo) -> int:
    """Return the second of the service's frame that was ``seconds`` before another one.

    An hour that the beginning of summer time skips does not count, since it did not pass: five
    seconds before 03:00:02 it was 01:59:57. In the hour that its end repeats, the result is of the
    same pass, or earlier.
    """
    try:
        wall_time = (EPOCH + timedelta(seconds=second)).replace(tzinfo=UTC)
        instant = _instants(wall_time, zone)[0]
        before = _offset(instant - timedelta(seconds=seconds), zone)
        skipped = max(_offset(instant, zone) - before, _NO_SHIFT) // _SECOND
    except OverflowError:
        skipped = 0
    return max(second - seconds - skipped, FIRST_SECOND)


def service_second(value: When, zone: tzinfo, *, rounding: Rounding, name: str = "the time") -> int:
    """Return a bound of a query as a whole second since 1970 in the service's frame.

    A time with a zone is converted; a time without zone is in the service's frame already; a day
    means its midnight. Fractions of a second widen the span. The hour that the end of summer time
    repeats widens it too: both passes have the same texts, and a bound in one pass must not cut
    off updates of the other. Raises `ConfigurationError` for a value that is not a time of the
    years 1 to 9999 (contract section 4.1 has four digits).
    """
    moment = _read_bound(value)
    if moment is None:
        allowed = "a datetime, a date, or the ISO 8601 text of either"
        raise invalid(name, allowed, value, may_show=isinstance(value, str))
    if moment.tzinfo is None:
        since = moment - EPOCH
    else:
        since = _since_in_zone(moment, zone, rounding, name)
    if rounding is Rounding.UP and getattr(value, "nanosecond", None):  # of pandas
        since += timedelta(microseconds=1)
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
    """Return a bound as a datetime of the standard library, without a zone that has no offset."""
    try:
        match value:
            case datetime():
                moment = standard_datetime(value)
            case date():
                moment = datetime(value.year, value.month, value.day)  # noqa: DTZ001
            case str() if _BOUND.fullmatch(value):
                moment = parse_iso_time(value)
            case _:
                return None
        return moment.replace(tzinfo=None) if moment.utcoffset() is None else moment
    except Exception:  # noqa: BLE001 - times and zones are classes of any library
        return None


def _since_in_zone(moment: datetime, zone: tzinfo, rounding: Rounding, name: str) -> timedelta:
    try:
        instant = moment.astimezone(UTC)
    except OverflowError:
        return -_BEYOND_ALL if moment.year == 1 else _BEYOND_ALL
    _check_offset(moment, instant, name)
    offset = _offset(instant, zone)
    since = instant.replace(tzinfo=None) - EPOCH + offset
    for other in _offsets_around(instant, zone):
        # The same local time comes again after a shift forward, or came before one backward.
        shift = offset - other
        is_widened = shift > _NO_SHIFT if rounding is Rounding.DOWN else shift < _NO_SHIFT
        if is_widened and _offset(instant + shift, zone) == other:
            return since - shift
    return since


def _check_offset(moment: datetime, instant: datetime, name: str) -> None:
    """Refuse a time with an offset that its own zone does not have within a year of it.

    ``datetime(..., tzinfo=pytz.timezone(...))`` has the local mean time of the 19th century, by
    which a bound would be wrong by up to an hour, in silence.
    """
    zone = moment.tzinfo
    if zone is None or isinstance(zone, timezone):
        return
    nearby = (instant + quarter * _QUARTER for quarter in range(-4, 5))
    if moment.utcoffset() not in {_offset(each, zone) for each in nearby}:
        raise wrong(
            name,
            "has an offset that its zone does not have then: use zoneinfo.ZoneInfo, or for pytz "
            "zone.localize(datetime(...))",
        )
