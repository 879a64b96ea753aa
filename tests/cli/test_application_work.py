"""Looking at an application takes no more than its size: twice as much is twice the work."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from income_client import ApplicationRecord
from income_client.cli.looking.page import page
from income_client.cli.looking.reading import view_of
from tests.cli.application_records import calculation, printed, record, source


class _Word(str):
    """A text whose comparisons are calls, and so are counted."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)


def many_kinds(count: int) -> ApplicationRecord:
    """Return a record with as many kinds of source in one year."""
    kinds = [source(f"kind_{number}", number + 1) for number in range(count)]
    made = record({"applicant1": calculation({2026: kinds})})
    (whole,) = made.application.income_calculations.values()
    (income,) = whole.incomes
    worded = tuple(
        evolve(each, source_type=_Word(each.source_type)) for each in income.income_sources
    )
    changed = evolve(whole, incomes=(evolve(income, income_sources=worded),))
    return _calculated(made, {"applicant1": changed})


def many_applicants(count: int) -> ApplicationRecord:
    """Return a record with as many applicants, each with income in a year of its own."""
    made = record(
        {
            f"anybody {number}": calculation({number: [source("employment", number + 1)]})
            for number in range(count)
        }
    )
    calculations = made.application.income_calculations
    return _calculated(made, {_Word(slot): each for slot, each in calculations.items()})


def many_years(count: int) -> ApplicationRecord:
    """Return a record of one applicant with as many years."""
    years = {year: [source("employment", year + 1)] for year in range(count)}
    return record({"applicant1": calculation(years)})


def _calculated(made: ApplicationRecord, calculations: dict[str, Any]) -> ApplicationRecord:
    people = dict.fromkeys(
        calculations, made.application.applicants[next(iter(made.application.applicants))]
    )
    application = evolve(made.application, applicants=people, income_calculations=calculations)
    return evolve(made, application=application)


def calls_of(work: Callable[[], object]) -> int:
    """Return how many calls of functions, ours and others, some work takes."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def all_of(made: ApplicationRecord) -> None:
    """Do everything that is done with a record."""
    view = view_of(made)
    page(view)
    printed(view)


@pytest.mark.parametrize("many", [many_kinds, many_applicants, many_years])
def test_twice_as_much_is_twice_the_work(many: Callable[[int], ApplicationRecord]) -> None:
    """Nothing is gone through again for each kind, applicant or year."""
    all_of(many(10))
    once, twice = many(150), many(300)
    assert calls_of(lambda: all_of(twice)) < 2.3 * calls_of(lambda: all_of(once))
