"""Service seconds and their texts."""

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.emulator.times import http_date, moment_of, parse_bound, second_of, stamp

MOMENTS = st.datetimes().map(lambda moment: moment.replace(microsecond=0))


@given(MOMENTS)
def test_stamps_are_read_again(moment: datetime) -> None:
    """A stamp is the ISO text of its second, and is read as that second again."""
    second = second_of(moment)
    assert stamp(second) == moment.isoformat()
    assert parse_bound(stamp(second)) == second
    assert moment_of(second) == moment


@given(MOMENTS)
def test_http_dates(moment: datetime) -> None:
    """A Date header is written as the standard library writes it."""
    aware = moment.replace(tzinfo=UTC)
    assert http_date(second_of(moment)) == format_datetime(aware, usegmt=True)


def test_dates_mean_midnight() -> None:
    """A bound without a time of day is midnight."""
    assert parse_bound("1970-01-02") == 86_400


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-02-30",
        "2026-13-01",
        "0000-01-01",
        "2026-01-01T24:00:00",
        "2026-01-01T00:00",
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00+00:00",
        "2026-01-01T00:00:00.5",
        "2026-01-01 00:00:00",
        "20260101",
        "2026-W01-1",
        "\u0662\u0660\u0662\u0666-01-01",
        "2026-01-01\n",
    ],
)
def test_other_texts_are_no_bounds(text: str) -> None:
    """Anything but the two formats of the contract is no bound."""
    assert parse_bound(text) is None


def test_stamps_beyond_the_calendar() -> None:
    """A second beyond the years 1 to 9999 is written as the nearest that can be."""
    assert stamp(-(10**12)) == "0001-01-01T00:00:00"
    assert stamp(10**12) == "9999-12-31T23:59:59"
