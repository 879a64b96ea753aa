"""Wire times: what is accepted, what it means, and how a bound widens."""

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import ConfigurationError
from income_client.records.window import EPOCH
from income_client.wire.codec import render
from income_client.wire.times import (
    Rounding,
    earlier_second,
    parse_date,
    parse_service_time,
    parse_utc_time,
    service_second,
    wire_time,
)

ZONES = [
    "UTC", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia",
    "Asia/Manila", "Africa/Casablanca", "Europe/Dublin",
]  # fmt: skip

naive_times = st.datetimes()
zones = st.sampled_from(ZONES).map(ZoneInfo) | st.integers(-1439, 1439).map(
    lambda minutes: timezone(timedelta(minutes=minutes))
)
instants = (
    st.datetimes(datetime(1840, 1, 1), datetime(2100, 1, 1))  # noqa: DTZ001
    | st.datetimes(datetime(2024, 11, 3, 4), datetime(2024, 11, 3, 8))  # noqa: DTZ001
).map(lambda moment: moment.replace(tzinfo=UTC))


@given(naive_times)
def test_times_and_dates_read_back_as_they_were_written(moment: datetime) -> None:
    assert parse_service_time(_written(moment)) == moment
    assert parse_date(_written(moment.date())) == moment.date()
    aware = moment.replace(tzinfo=UTC)
    parsed = parse_utc_time(_written(aware))
    assert parsed == aware
    assert parsed is not None
    assert parsed.tzinfo is UTC


def _written(value: date) -> str:
    text: str = json.loads(render(value))
    return text


NO_TIMES = (
    "", "2024-01-31", "2024-01-31T10:00", "2024-01-31 10:00:00", "2024-01-31t10:00:00",
    "2024-02-30T10:00:00", "2024-01-31T24:00:00", "2024-01-31T10:00:60", "2024-01-31T10:00:00Z",
    "2024-01-31T10:00:00+00:00", "2024-01-31T10:00:00+25:00", "2024-01-31T10:00:00.",
    "2024-01-31T10:00:00.5.5", "2024-01-31T10:00:00.\uff15", "2024-01-31T24:00:00.5",
    "2024-01-31T10:00:00,123456", "2024-W05-3T10:00:00", "20240131T100000.123",
    "0000-01-31T10:00:00", "\uff12\uff10\uff12\uff14-01-31T10:00:00", "2024-01-31T10:00:00\n",
    "+2024-01-31T10:00:00",
)  # fmt: skip
NO_DATES = (
    "", "2024-02-30", "2023-02-29", "20240131", "2024-W05-3", "2024-1-31", "2024-01-31T00:00:00",
    "2024-01-31T", "+2024-01-31T",
)  # fmt: skip


NO_UTC_TIMES = (
    *(text + "Z" for text in NO_TIMES if not text.endswith("Z")),
    *("2024-01-31T10:00:00", "2024-01-31T10:00:00z", ""),
)


@pytest.mark.parametrize(
    ("parse", "texts"),
    [(parse_service_time, NO_TIMES), (parse_utc_time, NO_UTC_TIMES), (parse_date, NO_DATES)],
)
def test_a_text_in_any_other_form_is_none(
    parse: Callable[[str], object], texts: tuple[str, ...]
) -> None:
    """Only that of a real moment or day is, in digits of ASCII, times perhaps with a fraction."""
    assert [text for text in texts if parse(text) is not None] == []


def test_a_fraction_is_read_to_the_microsecond() -> None:
    for digits, figures in product(range(1, 10), ("123456789", "000000000")):
        fraction = figures[:digits]
        text = f"2024-01-31T10:00:00.{fraction}"
        expected = datetime(2024, 1, 31, 10, microsecond=int(fraction[:6].ljust(6, "0")))  # noqa: DTZ001
        assert parse_service_time(text) == expected
        assert parse_utc_time(text + "Z") == expected.replace(tzinfo=UTC)


SECOND = 1706695200  # 2024-01-31T10:00:00


@pytest.mark.parametrize(
    ("value", "down", "up"),
    [
        (datetime(2024, 1, 31, 10), SECOND, SECOND),  # noqa: DTZ001
        (datetime(2024, 1, 31, 10, 0, 0, 1), SECOND, SECOND + 1),  # noqa: DTZ001
        (datetime(2024, 1, 31, 11, tzinfo=timezone(timedelta(hours=1))), SECOND, SECOND),
        (date(2024, 1, 31), SECOND - 36000, SECOND - 36000),
        ("2024-01-31", SECOND - 36000, SECOND - 36000),
        ("2024-01-31T10:00:00", SECOND, SECOND),
        ("2024-01-31 10:00", SECOND, SECOND),
        ("2024-01-31T10:00:00.25", SECOND, SECOND + 1),
        ("2024-01-31T10:00:00Z", SECOND, SECOND),
        ("2024-01-31T05:00:00-05:00", SECOND, SECOND),
        (datetime.min, -62135596800, -62135596800),  # noqa: DTZ901
        ("9999-12-31T23:59:59", 253402300799, 253402300799),
    ],
)
def test_a_bound_becomes_a_whole_second(value: datetime | date | str, down: int, up: int) -> None:
    """Times, days and texts become seconds; a part of a second widens the span."""
    assert service_second(value, UTC, rounding=Rounding.DOWN) == down
    assert service_second(value, UTC, rounding=Rounding.UP) == up


NO_BOUNDS = (
    "yesterday", "", "2024-02-30", "2024-W05-3", "20240131", "2024-01-31T24:00",
    "2024-01-31T10:00:00.1234567", "2024-01-31T10:00:00+25:00", "\uff12\uff10\uff12\uff14-01-31",
    True, 1706695200, None, b"2024-01-31", "9999-12-31T23:59:59.5", "9999-12-31T23:59:59-06:00",
    datetime(1, 1, 1, tzinfo=UTC),
)  # fmt: skip
FIVE_HOURS_BEHIND = timezone(timedelta(hours=-5))


@pytest.mark.parametrize("value", NO_BOUNDS)
def test_what_is_no_bound_is_refused(value: object) -> None:
    """Nor is one that the zone, here that of the service, cannot express."""
    with pytest.raises(ConfigurationError):
        service_second(value, FIVE_HOURS_BEHIND, rounding=Rounding.UP)  # type: ignore[arg-type]


def test_the_hour_that_comes_twice_widens_a_bound() -> None:
    """A lower bound in its first pass goes down, an upper one in its second pass up."""
    zone = ZoneInfo("America/New_York")
    first = datetime(2024, 11, 3, 1, 30, tzinfo=zone)
    second = first.replace(fold=1)
    naive = (datetime(2024, 11, 3, 1, 30) - EPOCH) // timedelta(seconds=1)  # noqa: DTZ001
    assert service_second(first, zone, rounding=Rounding.DOWN) == naive - 3600
    assert service_second(second, zone, rounding=Rounding.DOWN) == naive
    assert service_second(first, zone, rounding=Rounding.UP) == naive
    assert service_second(second, zone, rounding=Rounding.UP) == naive + 3600


@pytest.mark.parametrize(
    ("text", "seconds", "earlier"),
    [
        ("2024-03-10T03:00:02", 5, "2024-03-10T01:59:57"),
        ("2024-03-10T03:00:02", 7_200, "2024-03-10T00:00:02"),
        ("2024-03-10T03:00:07", 5, "2024-03-10T03:00:02"),
        ("2024-11-03T02:00:02", 5, "2024-11-03T01:59:57"),
        ("2024-11-03T01:00:02", 5, "2024-11-03T00:59:57"),
        ("0001-01-01T00:00:02", 5, "0001-01-01T00:00:00"),
    ],
)
def test_an_hour_that_summer_time_skips_is_no_time_that_passed(
    text: str, seconds: int, earlier: str
) -> None:
    zone = ZoneInfo("America/New_York")
    expected = service_second(earlier, zone, rounding=Rounding.DOWN)
    second = service_second(text, zone, rounding=Rounding.DOWN)
    assert earlier_second(second, seconds, zone) == expected


@given(zone=zones, moment=instants, apart=st.timedeltas(timedelta(0), timedelta(hours=3)))
def test_no_zone_makes_a_bound_cut_off_what_it_should_hold(
    zone: ZoneInfo, moment: datetime, apart: timedelta
) -> None:
    """An update at or after a lower bound, or before an upper one, lies within the bound."""
    later = moment + apart
    seconds = [
        (instant.astimezone(zone).replace(tzinfo=None) - EPOCH) // timedelta(seconds=1)
        for instant in (moment, later)
    ]
    assert service_second(moment, zone, rounding=Rounding.DOWN) <= seconds[1]
    if apart:
        upper = service_second(later, zone, rounding=Rounding.UP)
        assert upper > seconds[0]


@given(st.integers(-62135596800, 253402300799))
def test_a_second_reads_back_as_it_was_written(second: int) -> None:
    assert service_second(wire_time(second), UTC, rounding=Rounding.DOWN) == second
    assert wire_time(SECOND) == "2024-01-31T10:00:00"


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kathmandu"])
def _local_zone(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        getattr(time, "tzset", int)()  # Windows has none and needs none
        yield
    getattr(time, "tzset", int)()


@pytest.mark.usefixtures("_local_zone")
def test_the_zone_of_the_machine_has_no_influence() -> None:
    """Naive values mean the same whatever TZ says."""
    assert os.environ["TZ"]
    assert service_second("2024-01-31T10:00:00", UTC, rounding=Rounding.DOWN) == SECOND
    assert service_second(datetime(2024, 1, 31, 10), UTC, rounding=Rounding.UP) == SECOND  # noqa: DTZ001
    assert parse_utc_time("2024-01-31T10:00:00Z") == datetime(2024, 1, 31, 10, tzinfo=UTC)
    assert _written(datetime(2024, 1, 31, 10, tzinfo=UTC)) == "2024-01-31T10:00:00Z"
    assert wire_time(SECOND) == "2024-01-31T10:00:00"
