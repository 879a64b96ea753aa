"""What records add up and pick out for their readers."""

from decimal import Decimal, localcontext

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    Application,
    ApplicationDocuments,
    IncomeCalculation,
    IncomeSource,
    Paystub,
    SuspectedFraudulent,
    YearlyIncome,
    from_json,
    to_json,
)
from income_client.testing import make_application, make_document, make_record

AMOUNTS = st.decimals(-(10**20), 10**20, places=2)


def income(year: int, *amounts: Decimal) -> YearlyIncome:
    """Return the income of a year with one source for each amount."""
    sources = tuple(
        IncomeSource(source_type="wages", calculated_income_amount=amount, document_ids=())
        for amount in amounts
    )
    return YearlyIncome(year=year, income_sources=sources)


def application(*applicants: tuple[YearlyIncome, ...]) -> Application:
    """Return an application with these incomes, a tuple for each applicant."""
    calculations = {
        f"applicant{number}": IncomeCalculation(
            incomes=incomes, suspected_fraudulent=SuspectedFraudulent(document_ids=())
        )
        for number, incomes in enumerate(applicants, 1)
    }
    return evolve(make_application(), income_calculations=calculations)


def test_a_year_without_sources_adds_up_to_nothing() -> None:
    """It was calculated, and is 0."""
    assert income(2025).total == 0


@given(st.lists(AMOUNTS, max_size=9))
def test_the_total_of_a_year_is_exact(amounts: list[Decimal]) -> None:
    """To the cent, whatever the program's own decimal context is."""
    cents = sum(int(amount.scaleb(2)) for amount in amounts)
    with localcontext(prec=3):
        total = income(2025, *amounts).total
    assert total.scaleb(2) == cents


def test_no_digit_of_the_largest_and_the_smallest_amount_is_lost() -> None:
    """Numbers of the service have up to 40 digits, and exponents up to 40."""
    large, small = Decimal("9" * 40 + "E+40"), Decimal("1E-40")
    assert str(income(2025, large, small).total) == f"{'9' * 40}{'0' * 40}.{'0' * 39}1"


def test_the_income_of_a_year_is_that_of_all_applicants() -> None:
    """Other years stay out, and a year that is listed twice counts twice."""
    both = application(
        (income(2024, Decimal("10.50")), income(2025, Decimal(1), Decimal("2.25"))),
        (income(2025, Decimal(4)), income(2025, Decimal("0.25"))),
    )
    assert both.total_income(2025) == Decimal("7.50")
    assert both.total_income(2024) == Decimal("10.50")


def test_a_year_that_was_not_calculated_has_no_total() -> None:
    """None, not 0: nothing is known of it."""
    assert application((income(2024, Decimal(1)),), ()).total_income(2025) is None
    assert application().total_income(2025) is None


def test_totals_are_no_part_of_the_json() -> None:
    """A record goes back as the service sent it."""
    record = make_application()
    assert from_json(Application, to_json(record)) == record


def test_pay_slips_come_with_their_data() -> None:
    """In the service's order, and each with its document; other types stay out."""
    documents = make_record().documents
    assert documents is not None
    others = (make_document(document_type="unknown_form", extracted_data={"wages": 1}),)
    mixed = evolve(documents, documents={"unknown_form": others, **documents.documents})
    assert mixed.paystubs
    for document, paystub in mixed.paystubs:
        assert isinstance(paystub, Paystub)
        assert paystub is document.extracted_data
    slips = documents.documents["paystub"]
    assert tuple(entry.document for entry in mixed.paystubs) == slips


@pytest.mark.parametrize("documents", [{}, {"paystub": ()}])
def test_without_pay_slips_there_are_none(documents: dict[str, tuple[()]]) -> None:
    """An application may have none yet."""
    empty = ApplicationDocuments(
        application_id="a", application_reference_id="r", documents=documents
    )
    assert empty.paystubs == ()
