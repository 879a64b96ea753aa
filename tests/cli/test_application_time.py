"""Where the days of documents lie on a line."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import ApplicationRecord
from income_client.cli.looking.days import TimeLine, spans_of
from income_client.cli.looking.reading import view_of
from tests.cli.application_records import CASES, RECORDS, suspicious


@given(RECORDS)
def test_every_day_lies_on_the_line(record: ApplicationRecord) -> None:
    """Whatever days the service names, the line has room for them and names a few."""
    documents = view_of(record).documents
    line = TimeLine.of(documents)
    if line is None:
        assert not any(spans_of(each) for each in documents)
        return
    for each in documents:
        for span in spans_of(each):
            assert line.first <= span.first <= span.last <= line.last
            stretch = line.stretch(span)
            assert 0 <= stretch.start <= stretch.start + stretch.length <= 1 + 1e-9
            assert stretch.length > 0
        if each.paid is not None:
            assert 0 <= line.place(each.paid) <= 1
    assert len(line.ticks) <= 7
    assert all(0 <= tick.at < 1 for tick in line.ticks)


@given(st.dates(), st.dates())
def test_ticks_are_in_order_and_few(one: date, other: date) -> None:
    """No span of time, from a day to all there is, has more ticks than can be told apart."""
    first, last = sorted((one, other))
    ticks = TimeLine(first=first.replace(day=1), last=last).ticks
    assert len(ticks) <= 7
    assert [tick.at for tick in ticks] == sorted({tick.at for tick in ticks})


@pytest.mark.parametrize(
    ("first", "last", "texts"),
    [
        (date(2026, 1, 1), date(2026, 3, 31), ["2026-01", "2026-02", "2026-03"]),
        (
            date(2025, 1, 1),
            date(2026, 3, 31),
            ["2025-01", "2025-04", "2025-07", "2025-10", "2026-01"],
        ),
        (date(2015, 2, 1), date(2026, 3, 31), ["2016", "2018", "2020", "2022", "2024", "2026"]),
    ],
)
def test_ticks_are_round(first: date, last: date, texts: list[str]) -> None:
    """Months, quarters or years are named, whichever fit."""
    assert [tick.text for tick in TimeLine(first=first, last=last).ticks] == texts


def test_the_line_has_whole_months() -> None:
    """It begins with a month's first day, and ends with a month's last."""
    line = TimeLine.of(view_of(suspicious()).documents)
    assert line == TimeLine(first=date(2025, 1, 1), last=date(2026, 3, 31))


def test_without_days_there_is_no_line() -> None:
    """No documents, no time."""
    assert TimeLine.of(view_of(CASES["without documents"]()).documents) is None
