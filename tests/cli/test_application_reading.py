"""What is shown of an application is what its record says: every amount, document and doubt."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import msgspec
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client import ApplicationRecord, IncomeSource
from income_client.cli.looking.reading import view_of
from income_client.cli.looking.view import RecordView, SourceView
from tests.cli.application_records import (
    RECORDS,
    calculation,
    four_applicants,
    paystub,
    record,
    record_of,
    source,
    suspicious,
    w2,
    without_documents,
)
from tests.support.payloads import APPLICATION, DOCUMENTS


def sources_in(record: ApplicationRecord) -> Iterator[IncomeSource]:
    """Yield every source of every applicant and year."""
    for each in record.application.income_calculations.values():
        for income in each.incomes:
            yield from income.income_sources


def sources_shown(view: RecordView) -> Iterator[SourceView]:
    """Yield every source that is shown."""
    for person in view.applicants:
        for year in person.years:
            yield from year.sources


def exactly(amounts: Iterator[Decimal]) -> Fraction:
    """Return a sum that nothing was rounded in."""
    return sum((Fraction(amount) for amount in amounts), Fraction(0))


@given(RECORDS, st.booleans())
def test_amounts_sum_up(record: ApplicationRecord, shows_all: bool) -> None:
    """Sources, years, applicants and all of them together come to the record's own amounts."""
    view = view_of(record, show_personal_data=shows_all)
    whole = exactly(each.calculated_income_amount for each in sources_in(record))
    assert exactly(each.amount for each in sources_shown(view)) == whole
    assert exactly(year.total for one in view.applicants for year in one.years) == whole
    assert exactly(year.total for year in view.together) == whole
    assert all(year.height <= view.highest for one in view.applicants for year in one.years)


@given(RECORDS)
def test_every_document_is_shown_once(record: ApplicationRecord) -> None:
    """Documents keep the service's order, and those that are doubted are said to be."""
    assert record.documents is not None
    view = view_of(record)
    assert [each.mark for each in view.documents] == [
        f"D{place}" for place, _ in enumerate(record.documents.all(), 1)
    ]
    doubted = {
        one
        for each in record.application.income_calculations.values()
        for one in each.suspected_fraudulent.document_ids
    }
    entries = list(record.documents.all())
    assert [each.is_suspected for each in view.documents] == [
        entry.document.document_id in doubted for entry in entries
    ]
    elsewhere = doubted - {entry.document.document_id for entry in entries}
    assert len(view.suspected_elsewhere) == len(elsewhere)


@given(RECORDS)
def test_every_support_is_shown(record: ApplicationRecord) -> None:
    """An amount has all the documents beside it that the service names, each once."""
    named = sorted(len(set(each.document_ids)) for each in sources_in(record))
    assert sorted(len(each.support) for each in sources_shown(view_of(record))) == named


def test_a_support_is_called_like_its_document() -> None:
    """Marks lead from an amount to the list of documents, types say what it is."""
    view = view_of(suspicious())
    (person,) = view.applicants
    assert [(each.mark, each.label) for each in person.years[0].sources[0].support] == [
        ("D1", "paystub"),
        ("D2", "paystub"),
    ]
    assert [each.label for each in view.documents] == ["D1 paystub", "D2 paystub", "D3 w2"]


def test_what_is_not_among_the_documents_is_said_to_be_missing() -> None:
    """A supporting document that the service does not list is called by its id."""
    (person,) = view_of(suspicious()).applicants
    (support,) = person.years[0].sources[1].support
    assert (support.mark, support.label) == ("", "doc-nowhere (missing)")


def test_nothing_is_missing_where_documents_were_not_asked_for() -> None:
    """Without the documents, ids stand for them."""
    view = view_of(evolve(suspicious(), documents=None))
    assert view.documents == ()
    assert view.applicants[0].years[0].sources[0].support[0].label == "doc-1"
    assert view.suspected_elsewhere == ("doc-2",)


def test_a_doubt_reaches_every_amount_behind_it() -> None:
    """The amounts of a suspected document are marked, and no other."""
    view = view_of(suspicious())
    assert [(each.name, each.is_suspected) for each in sources_shown(view)] == [
        ("employment", True),
        ("self employment", False),
        ("pension", False),
        ("employment", False),
        ("pension", False),
    ]
    (doubted,) = view.suspected
    assert doubted.supports == ("41,234.50 from employment in 2026 (Applicant 1)",)


def test_a_doubt_of_one_applicant_holds_for_all() -> None:
    """A document is suspected wherever it is named, whoever's calculation says so."""
    years = {2026: [source("employment", 1, "doc-1")]}
    calculations = {"applicant1": calculation(years), "applicant2": calculation({}, "doc-1")}
    view = view_of(record(calculations, stubs=(paystub(1),)))
    assert [each.is_suspected for each in sources_shown(view)] == [True]


def test_years_are_told_once_and_the_latest_first() -> None:
    """A year that the service gives twice is one year."""
    made = record(
        {
            "applicant1": {
                "incomes": [
                    {"year": 2024, "income_sources": [source("a", 1)]},
                    {"year": 2026, "income_sources": [source("a", 2)]},
                    {"year": 2024, "income_sources": [source("b", 3)]},
                ],
                "suspected_fraudulent": {"document_ids": []},
            }
        }
    )
    (person,) = view_of(made).applicants
    assert {each.year: each.total for each in person.years} == {2026: Decimal(2), 2024: Decimal(4)}
    assert [each.year for each in person.years] == [2026, 2024]


def test_applicants_without_a_calculation_are_shown() -> None:
    """All slots are there, with income or without."""
    view = view_of(four_applicants())
    assert [each.heading for each in view.applicants] == [f"Applicant {n}" for n in range(1, 5)]
    assert view.applicants[3].years == ()
    assert view_of(without_documents()).applicants[0].years[0].sources[0].support == ()


def test_pay_periods_that_are_upside_down_are_turned() -> None:
    """A period always begins before it ends."""
    stub = paystub(1, pay_begin_date="2026-02-20", pay_end_date="2026-02-01")
    (shown,) = view_of(record({}, stubs=(stub,))).documents
    assert shown.period is not None
    assert (shown.period.first.day, shown.period.last.day) == (1, 20)


def test_documents_without_a_period_have_the_years_that_they_support() -> None:
    """What the contract gives no dates for stands where its amounts do."""
    years = {2024: [source("a", 1, "doc-1")], 2025: [source("a", 1, "doc-1")]}
    (shown,) = view_of(record({"applicant1": calculation(years)}, w2s=(w2(1),))).documents
    assert (shown.period, shown.paid, shown.years) == (None, None, (2024, 2025))


def test_unknown_fields_are_counted_at_every_depth() -> None:
    """One in the application, one in an applicant, one in a document and one in its paystub."""
    application = msgspec.json.decode(msgspec.json.encode(APPLICATION))
    documents = msgspec.json.decode(msgspec.json.encode(DOCUMENTS))
    before = view_of(record_of(application, documents)).further_fields
    application["new"] = application["applicants"]["applicant1"]["new"] = {"a": 1, "b": 2}
    stub = documents["documents"]["paystub"][0]
    stub["new"] = stub["extracted_data"]["new"] = 1
    assert view_of(record_of(application, documents)).further_fields == before + 4


def test_data_of_unknown_shape_is_not_read() -> None:
    """Of a document without a known shape only the number of its fields is told."""
    (shown,) = view_of(record({}, w2s=(w2(1),)), show_personal_data=True).documents
    assert [(each.name, each.value) for each in shown.facts] == [("fields read", "2")]
