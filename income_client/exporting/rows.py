"""What a record becomes in each table: rows as plain values; knows no library that holds them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from income_client.records.applications import AddressEntry, Applicant, IncomeCalculation
from income_client.records.documents import ApplicationRecord, Document, DocumentEntry
from income_client.records.paystub import Paystub, PaystubApplicant
from income_client.wire.codec import parse_exactly, render, to_json

from .misfits import AMOUNT_NAMES, amount_pairs
from .unknown_fields import unknown_fields

Row: TypeAlias = dict[str, Any]
"""A value for each column that has one."""

_NUMBERED_FROM: Final = 1
_ROWS_OF_THEIR_OWN: Final = frozenset(
    {"applicants", "income_calculations", "income_sources", "documents", "extracted_data"}
)
_PAIRS: Final = frozenset(AMOUNT_NAMES)


def application_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield the one row of an application."""
    application = record.application
    sources = application.data_sources
    yield {
        "application_id": application.application_id,
        "application_reference_id": application.application_reference_id,
        "application_date": application.application_date,
        "last_updated_at": application.last_updated_at,
        "image_files": [
            {"file_id": one.file_id, "file_reference_id": one.file_reference_id}
            for one in sources.image_files
        ],
        "structured_data": _json(sources.structured_data),
        "documents_read": record.documents is not None,
        "extra": _unknown(application),
        "documents_extra": None if record.documents is None else _unknown(record.documents),
    }


def applicant_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield a row for each applicant, those known from income calculations alone included."""
    application = record.application
    for slot in dict.fromkeys((*application.applicants, *application.income_calculations)):
        row: Row = {"application_id": application.application_id, "applicant": slot}
        applicant = application.applicants.get(slot)
        if applicant is not None:
            row |= _person(applicant)
        calculation = application.income_calculations.get(slot)
        if calculation is not None:
            row |= _calculation(calculation)
        yield row


def income_source_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield a row for each amount that was calculated."""
    application = record.application
    for slot, calculation in application.income_calculations.items():
        sources = [
            (one.year, source) for one in calculation.incomes for source in one.income_sources
        ]
        for number, (year, source) in enumerate(sources, _NUMBERED_FROM):
            yield {
                "application_id": application.application_id,
                "applicant": slot,
                "source_number": number,
                "year": year,
                "source_type": source.source_type,
                "calculated_income_amount": source.calculated_income_amount,
                "document_ids": list(source.document_ids),
                "extra": _unknown(source),
            }


def document_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield a row for each document, with what a paystub says of its period."""
    calculations = record.application.income_calculations.values()
    suspected = {one for each in calculations for one in each.suspected_fraudulent.document_ids}
    for number, (document_type, document) in _documents(record):
        row = {
            **_document_key(record, number, document_type, document),
            "application_reference_id": _reference(record),
            "file_ids": list(document.file_ids),
            "file_reference_ids": list(document.file_reference_ids),
            "updated_at": document.updated_at,
            "data_action": document.data_action,
            "is_suspected_fraudulent": document.document_id in suspected,
            "pages": None if document.pages is None else _json(document.pages),
            "extra": _unknown(document),
        }
        match document.extracted_data:
            case Paystub() as paystub:
                row |= _paystub(paystub)
            case Mapping() as data:
                row["extracted_data"] = _json(data)
            case _:
                # Only the rules of its class know how it is written.
                written = parse_exactly(to_json(document))
                row["extracted_data"] = _json(written["extracted_data"])
        yield row


def paystub_amount_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield a row for each pair of amounts of each paystub, absent amounts included."""
    for number, (document_type, document) in _documents(record):
        if isinstance(document.extracted_data, Paystub):
            key = _document_key(record, number, document_type, document)
            for name, pair in amount_pairs(document.extracted_data):
                yield {
                    **key,
                    "name": name,
                    "current_amount": pair.current,
                    "ytd_amount": pair.ytd,
                    "extra": _unknown(pair),
                }


ROWS: Final[Mapping[str, Callable[[ApplicationRecord], Iterator[Row]]]] = {
    "applications": application_rows,
    "applicants": applicant_rows,
    "income_sources": income_source_rows,
    "documents": document_rows,
    "paystub_amounts": paystub_amount_rows,
}
"""What makes the rows of each table."""


def _person(applicant: Applicant) -> Row:
    current = next((one.address for one in applicant.address_info if one.is_current), None)
    return {
        "first_name": applicant.first_name,
        "last_name": applicant.last_name,
        "email": applicant.email,
        "phone": applicant.phone,
        "ssn": applicant.ssn,
        "date_of_birth": applicant.date_of_birth,
        "current_street_address": current and current.street_address,
        "current_city": current and current.city,
        "current_state": current and current.state,
        "current_zip": current and current.zip,
        "addresses": [_address(entry) for entry in applicant.address_info],
        "extra": _unknown(applicant),
    }


def _address(entry: AddressEntry) -> Row:
    return {
        "street_address": entry.address.street_address,
        "city": entry.address.city,
        "state": entry.address.state,
        "zip": entry.address.zip,
        "is_current": entry.is_current,
        "start_date": entry.start_date,
        "end_date": entry.end_date,
    }


def _calculation(calculation: IncomeCalculation) -> Row:
    return {
        "income_years": [income.year for income in calculation.incomes],
        "suspected_fraudulent_document_ids": list(calculation.suspected_fraudulent.document_ids),
        "calculation_extra": _unknown(calculation),
    }


def _documents(record: ApplicationRecord) -> Iterator[tuple[int, DocumentEntry]]:
    if record.documents is not None:
        yield from enumerate(record.documents.all(), _NUMBERED_FROM)


def _document_key(
    record: ApplicationRecord, number: int, document_type: str, document: Document
) -> Row:
    return {
        "application_id": record.application_id,
        "document_number": number,
        "document_type": document_type,
        "document_id": document.document_id,
    }


def _reference(record: ApplicationRecord) -> str | None:
    return None if record.documents is None else record.documents.application_reference_id


def _paystub(paystub: Paystub) -> Row:
    return {
        "employer_name": paystub.employer_name,
        "pay_period_frequency": paystub.pay_period_frequency,
        "pay_begin_date": paystub.pay_begin_date,
        "pay_end_date": paystub.pay_end_date,
        "pay_date": paystub.pay_date,
        "hours_worked": paystub.hours_worked,
        "paystub_applicants": [_named(*item) for item in paystub.applicants.items()],
        "earnings": _json(paystub.earnings),
        "deductions": _json(paystub.deductions),
        "taxes": _json(paystub.taxes),
        "extracted_extra": _text(unknown_fields(paystub, _PAIRS)),
    }


def _named(slot: str, person: PaystubApplicant) -> Row:
    return {
        "applicant": slot,
        "first_name": person.first_name,
        "middle_name": person.middle_name,
        "last_name": person.last_name,
        "suffix": person.suffix,
        "ssn": person.ssn,
        "street_address": person.address.street_address,
        "street_2": person.address.street_2,
        "city": person.address.city,
        "state": person.address.state,
        "zip": person.address.zip,
    }


def _unknown(record: object) -> str | None:
    return _text(unknown_fields(record, _ROWS_OF_THEIR_OWN))


def _text(found: dict[str, Any]) -> str | None:
    return _json(found) if found else None


def _json(value: object) -> str:
    return render(value).decode()
