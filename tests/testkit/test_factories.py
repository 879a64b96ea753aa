"""Factories make valid records, of which each field can be another."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any, get_type_hints

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    Application,
    ApplicationRecord,
    Document,
    Paystub,
    from_json,
    to_json,
)
from income_client.records import AmountPair, Applicant, DocumentSource
from income_client.testing import (
    factories,
    make_applicant,
    make_application,
    make_document,
    make_paystub,
    make_record,
)


@pytest.mark.parametrize(
    "make", [make_applicant, make_application, make_document, make_paystub, make_record]
)
def test_nothing_but_the_number_decides_what_is_invented(make: Callable[..., Any]) -> None:
    """No two applications of a test share an id."""
    assert make(number=7) == make(number=7)
    assert make(number=7) != make(number=8)
    made = [make_application() for _ in range(20)]
    assert len({one.application_id for one in made}) == 20
    assert len({one.application_reference_id for one in made}) == 20


def test_a_field_can_be_another() -> None:
    slip = make_paystub(
        gross_pay=AmountPair(current=Decimal(100), ytd=None), pay_date=date(2025, 1, 2)
    )
    document = make_document(extracted_data=slip, document_id="doc-mine")
    application = make_application(documents=[document], application_id="app-mine")
    assert application.application_id == "app-mine"
    (year,) = application.income_calculations["applicant1"].incomes
    assert year.year == 2025
    assert year.income_sources[0].document_ids == ("doc-mine",)
    assert b'"ytd":""' in to_json(slip)


@pytest.mark.parametrize("record", [Applicant, Application, Document, Paystub])
def test_every_field_is_an_argument_of_its_factory(record: Any) -> None:
    """Type checkers know the arguments from a class of names and types beside the factories."""
    named = {field.name for field in attrs.fields(record) if field.name != "source"}
    typed = get_type_hints(getattr(factories, f"{record.__name__}Fields"))
    if record is Application:
        named.remove("applicants")  # an argument of its own
    assert typed.keys() == named, "see income_client/testing/factories.py"


def test_a_document_supports_the_amounts_of_whom_it_names() -> None:
    slips = [make_document(slot=slot) for slot in ("applicant2", "applicant1")]
    application = make_application(applicants=2, documents=slips, suspected=slips[:1])
    calculation = application.income_calculations["applicant2"]
    assert calculation.incomes[0].income_sources[0].document_ids == (slips[0].document_id,)
    assert calculation.suspected_fraudulent.document_ids == (slips[0].document_id,)


@given(
    number=st.integers(0, 10**6),
    paystubs=st.integers(0, 60),
    applicants=st.integers(0, 3),
    data=st.data(),
)
def test_a_record_has_as_many_of_everything_as_it_is_asked_for(
    number: int, paystubs: int, applicants: int, data: st.DataObject
) -> None:
    suspected = data.draw(st.integers(0, paystubs * applicants))
    record = make_record(
        number=number, applicants=applicants, paystubs=paystubs, suspected=suspected
    )
    assert record.documents is not None
    assert from_json(ApplicationRecord, to_json(record)) == record
    documents = record.documents.documents.get("paystub", ())
    assert {document.source for document in documents} <= {
        DocumentSource(record.application_id, "paystub")
    }
    files = {image.file_id for image in record.application.data_sources.image_files}
    assert files == {file for document in documents for file in document.file_ids}
    assert len(record.application.applicants) == applicants
    assert len({document.document_id for document in documents}) == paystubs * applicants
    calculations = record.application.income_calculations
    doubts = [one.suspected_fraudulent.document_ids for one in calculations.values()]
    assert sum(map(len, doubts)) == suspected
    slips = [entry.paystub for entry in record.documents.paystubs]
    for slot, calculation in calculations.items():
        own = [slip for slip in slips if slot in slip.applicants]
        assert len(own) == paystubs
        assert all(one.pay_end_date < other.pay_begin_date for one, other in pairwise(own))
        for one in own:
            assert one.pay_begin_date.year == one.pay_end_date.year
            assert one.pay_begin_date < one.pay_end_date < one.pay_date <= date(2026, 6, 30)
        for one, other in pairwise(own):
            sums = [slip.gross_pay for slip in (one, other)]
            assert all(pair.current is not None and pair.ytd is not None for pair in sums)
            if one.pay_date.year == other.pay_date.year:
                assert sums[1].ytd == (sums[0].ytd or 0) + (sums[1].current or 0)
        latest = {slip.pay_date.year: slip.gross_pay.ytd for slip in own}
        for income in calculation.incomes if own else ():
            assert income.total == latest[income.year]
        assert len(calculation.incomes) == max(len(latest), 1)
