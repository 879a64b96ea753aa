"""A failed comparison of records names the fields that differ, and shows no personal value."""

from decimal import Decimal

from attrs import evolve, frozen

from income_client import ApplicationRecord
from income_client.records.fields import FrozenDict, UntypedDict
from income_client.testing import (
    make_applicant,
    make_application,
    make_document,
    make_paystub,
    make_record,
)
from income_client.testing.plugin import pytest_assertrepr_compare


def explain(left: object, right: object, op: str = "==") -> list[str]:
    """Return the lines below the first one that a failed test shows."""
    lines = pytest_assertrepr_compare(op, left, right)
    return [] if lines is None else lines[1:]


def private_texts(record: ApplicationRecord) -> set[str]:
    """Return texts of a record that no report may show."""
    texts = set[str]()
    for applicant in record.application.applicants.values():
        texts |= {applicant.first_name, applicant.last_name, applicant.email, applicant.phone}
        texts |= {applicant.ssn, str(applicant.date_of_birth), repr(applicant.date_of_birth)}
        texts |= {entry.address.street_address for entry in applicant.address_info}
    for calculation in record.application.income_calculations.values():
        texts |= {str(income.total) for income in calculation.incomes}
    assert record.documents is not None
    for document, paystub in record.documents.paystubs:
        texts |= {document.url, paystub.employer_name, str(paystub.net_pay.current)}
    return texts


def test_a_report_of_two_records_has_no_personal_text() -> None:
    left, right = (make_record(number=number, applicants=2, suspected=1) for number in (1, 2))
    lines = explain(left, right)
    assert ".application.applicants[applicant1].ssn: differs" in lines
    assert ".documents.documents[paystub][0].extracted_data.net_pay.ytd: differs" in lines
    shown = "\n".join(lines)
    for text in private_texts(left) | private_texts(right):
        assert text not in shown


def test_fields_that_are_not_personal_are_shown() -> None:
    application = make_application(application_id="app-1")
    changed = evolve(application, application_id="app-2")
    assert explain(application, changed) == [".application_id: 'app-1' != 'app-2'"]
    assert explain(application, changed, "!=") == []
    assert explain(application, make_record()) == []


def test_entries_that_are_missing_are_named() -> None:
    one = make_application(number=1, applicants={"applicant1": make_applicant(number=1)})
    applicants = FrozenDict({"borrower@invented.example": make_applicant(number=1)})
    assert explain(one, evolve(one, applicants=applicants)) == [
        ".applicants[applicant1]: only on the left",
        ".applicants[*]: only on the right",
    ]
    document = make_document(number=1)
    assert explain(document, evolve(document, file_ids=())) == [".file_ids: 1 entries != 0 entries"]


def test_fields_outside_of_the_contract_are_not_shown() -> None:
    """Nor the data of documents that have no class, or a class of the user."""

    @frozen
    class OwnData:
        name: str

    document = make_document("own_type", number=1, extracted_data=OwnData("invented"))
    other = evolve(document, extracted_data=OwnData("another"), extra=UntypedDict({"name": "a"}))
    assert explain(document, other) == [".extracted_data: differs", ".extra: differs"]
    paystub = make_paystub(number=1)
    pair = evolve(paystub.net_pay, current=Decimal("1.00"))
    assert explain(paystub, evolve(paystub, net_pay=pair)) == [".net_pay.current: differs"]
