# pyright: strict
"""A lender's code about records; type checkers read it, nobody runs it."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, assert_type

from attrs import frozen

from income_client import (
    Address,
    AddressEntry,
    AmountPair,
    Applicant,
    Application,
    ApplicationDocuments,
    ApplicationSummary,
    DataSources,
    Document,
    DocumentEntry,
    DocumentSource,
    ImageFile,
    IncomeCalculation,
    IncomeSource,
    Paystub,
    PaystubAddress,
    PaystubApplicant,
    PaystubEntry,
    SuspectedFraudulent,
    YearlyIncome,
    register_document_type,
)


@frozen
class W2:
    """A document type of one's own."""

    employer_name: str
    """Employer."""
    wages: Decimal
    """Wages of the year."""


register_document_type("w2", W2)


def income_by_year(application: Application) -> dict[int, Decimal]:
    """Money is a Decimal all the way."""
    totals: dict[int, Decimal] = {}
    for slot, calculation in application.income_calculations.items():
        assert_type(slot, str)
        assert_type(calculation, IncomeCalculation)
        assert_type(calculation.suspected_fraudulent, SuspectedFraudulent)
        for income in calculation.incomes:
            assert_type(income, YearlyIncome)
            for source in income.income_sources:
                assert_type(source, IncomeSource)
                assert_type(source.document_ids, tuple[str, ...])
                before = totals.get(income.year, Decimal())
                totals[income.year] = before + source.calculated_income_amount
    return totals


def reads_an_application(application: Application) -> None:
    """Every part of an application has its type."""
    assert_type(application.last_updated_at, datetime)
    assert_type(application.application_date, datetime)
    assert_type(application.extra, Mapping[str, Any])
    assert_type(application.applicants, Mapping[str, Applicant])
    for applicant in application.applicants.values():
        assert_type(applicant.ssn, str)
        assert_type(applicant.date_of_birth, date)
        for entry in applicant.address_info:
            assert_type(entry, AddressEntry)
            assert_type(entry.address, Address)
            assert_type(entry.end_date, date | None)
    sources = application.data_sources
    assert_type(sources, DataSources)
    assert_type(sources.image_files, tuple[ImageFile, ...])
    assert_type(sources.image_files[0].file_id, str)


def reads_documents(documents: ApplicationDocuments) -> list[Decimal | None]:
    """A document's data are narrowed to their class."""
    net: list[Decimal | None] = []
    for entry in documents.all():
        assert_type(entry, DocumentEntry)
        document_type, document = entry
        assert_type(document_type, str)
        assert_type(document, Document)
        assert_type(document.source, DocumentSource | None)
        match document.extracted_data:
            case Paystub() as paystub:
                assert_type(paystub.net_pay, AmountPair)
                assert_type(paystub.hours_worked, Decimal)
                net.append(paystub.net_pay.current)
                for person in paystub.applicants.values():
                    assert_type(person, PaystubApplicant)
                    assert_type(person.address, PaystubAddress)
                    assert_type(person.middle_name, str | None)
            case W2() as form:
                net.append(form.wages)
            case _:
                continue
    return net


def pay_of(documents: ApplicationDocuments, application: Application) -> list[Decimal | None]:
    """Pay slips come with their data typed, and years add up."""
    pay: list[Decimal | None] = []
    for entry in documents.paystubs:
        assert_type(entry, PaystubEntry)
        assert_type(entry.document, Document)
        pay.append(entry.paystub.net_pay.current)
    pay.append(application.total_income(2025))
    return pay


def makes_records(day: date) -> ApplicationSummary:
    """Records can be made by hand, by keyword."""
    address = Address(street_address="1 Main St", city="Reno", state="NV", zip="89501")
    AddressEntry(address=address, is_current=True, start_date=day, end_date=None)
    AmountPair(current=Decimal("1.50"), ytd=None)
    DocumentSource("app-1", "paystub")
    return ApplicationSummary(
        application_id="app-1",
        application_reference_id="loan-17",
        application_date=datetime(2026, 1, 1),  # noqa: DTZ001 - the service gives it no zone
    )
