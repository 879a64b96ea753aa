"""Times on a command line: what is understood, and from which present they go back."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import IncomeClient
from income_client.cli.arguments.moments import (
    NOW,
    Moment,
    ends_before_it_begins,
    read_moment,
    span_between,
)
from income_client.cli.arguments.service_times import BEGINNING
from income_client.emulator import Emulator

PRESENT = datetime(2026, 6, 30)  # noqa: DTZ001 - the service's times carry no zone


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("beginning", Moment()),
        ("now", NOW),
        ("90s", Moment(back=timedelta(seconds=90))),
        ("5m", Moment(back=timedelta(minutes=5))),
        ("5min", Moment(back=timedelta(minutes=5))),
        ("12h", Moment(back=timedelta(hours=12))),
        ("7d", Moment(back=timedelta(days=7))),
        ("2w", Moment(back=timedelta(weeks=2))),
        ("2026-01-31", Moment(at=datetime(2026, 1, 31))),  # noqa: DTZ001 - as above
        ("2026-01-31T12:00:05Z", Moment(at=datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC))),
    ],
)
def test_what_is_understood(text: str, moment: Moment) -> None:
    """ISO 8601, spans back from the present, and two words."""
    assert read_moment(text) == moment


@pytest.mark.parametrize("text", ["", "7", "d", "-7d", "7 d", "7y", "1.5h", "yesterday", "\u0667d"])
def test_what_is_not(text: str) -> None:
    """The error says what would be."""
    with pytest.raises(ValueError, match="7d, 12h, now and beginning are"):
        read_moment(text)


@given(st.integers(0, 99_999_999), st.sampled_from(["s", "m", "h", "d", "w"]))
def test_no_span_is_too_long(count: int, unit: str) -> None:
    """One that goes back further than there was time means its beginning."""
    seen = read_moment(f"{count}{unit}").seen_from(PRESENT)
    assert BEGINNING <= seen <= PRESENT


@pytest.mark.parametrize("text", ["beginning", "now", "90s", "90m", "12h", "5d", "2w"])
def test_a_moment_is_told_as_it_was_typed(text: str) -> None:
    """In the longest unit that does, and as a time where it is one."""
    assert read_moment(text).text == text
    assert read_moment("2026-01-31").text == "2026-01-31T00:00:00"


async def test_spans_go_back_from_the_services_present() -> None:
    """The local clock is not looked at; without a span, nobody is asked."""
    async with (
        Emulator(3) as service,
        IncomeClient(service.url, auth=service.basic) as client,
    ):
        present = datetime.fromtimestamp(service.now, UTC).replace(tzinfo=None)
        span = await span_between(client, read_moment("7d"), read_moment("now"))
        assert span.before == present
        assert span.after == present - timedelta(days=7)
        asked = len(service.requests)
        span = await span_between(client, read_moment("2026-01-31"), None)
        assert (span.after, span.before) == (datetime(2026, 1, 31), None)  # noqa: DTZ001 - as above
        span = await span_between(client, Moment(), Moment())
        assert (span.after, span.before) == (BEGINNING, BEGINNING)
        span = await span_between(client, None, None)
        assert (span.after, span.before) == (None, None)
        assert len(service.requests) == asked


@pytest.mark.parametrize("end", ["beginning", "99999999w"])
async def test_an_end_is_an_end_however_early(end: str) -> None:
    """Only where none is given does the present end a span."""
    async with (
        Emulator(3) as service,
        IncomeClient(service.url, auth=service.basic) as client,
    ):
        span = await span_between(client, None, read_moment(end))
        assert span.before == BEGINNING
        assert [row async for row in client.list_applications(span.after, span.before)] == []


@pytest.mark.parametrize(
    ("after", "before", "says_so"),
    [
        ("2026-06-02", "2026-06-01", True),
        ("2026-06-01", "2026-06-01", False),
        ("2026-06-02T00:00:00Z", "2026-06-02T00:00:00+02:00", True),
        ("2026-06-02T00:00:00Z", "2026-06-01", False),  # the service's zone is not known here
        ("1d", "7d", True),
        ("7d", "1d", False),
        ("now", "2020-01-01", False),  # what now is the service tells
        ("beginning", "beginning", False),
    ],
)
def test_bounds_that_contradict_each_other(after: str, before: str, says_so: bool) -> None:
    """It is said where the two alone show it."""
    assert ends_before_it_begins(read_moment(after), read_moment(before)) is says_so
    assert not ends_before_it_begins(read_moment(after), None)
