"""Turn records into rows of plain values for each table, without any table library."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, get_args

import attrs

from income_client.records.applications import Applicant, IncomeCalculation, IncomeSource
from income_client.records.documents import ApplicationRecord, Document
from income_client.records.paystub import AmountPair, Paystub
from income_client.wire.codec import parse_exactly, render, to_json

Row: TypeAlias = dict[str, Any]
"""A value for each column that has one."""

_ADDRESS: Final = ("street_address", "city", "state", "zip")
_TIME_THERE: Final = ("is_current", "start_date", "end_date")
_NAME: Final = ("first_name", "middle_name", "last_name", "suffix", "ssn")
_AMOUNT_PAIRS: Final = tuple(one.name for one in attrs.fields(Paystub) if one.type is AmountPair)


def application_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield the one row of an application."""
    application = record.application
    sources = application.data_sources
    yield {
        **_values_of(
            application,
            ("application_id", "application_reference_id", "application_date", "last_updated_at"),
        ),
        "image_files": [
            _values_of(image, ("file_id", "file_reference_id")) for image in sources.image_files
        ],
        "structured_data": _to_json_text(sources.structured_data),
        "documents_read": record.documents is not None,
        "extra": _extra_json(application),
        "documents_extra": None if record.documents is None else _extra_json(record.documents),
    }


def applicant_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield a row for each applicant, those known from income calculations alone included."""
    application = record.application
    for slot in dict.fromkeys((*application.applicants, *application.income_calculations)):
        row: Row = {"application_id": application.application_id, "applicant": slot}
        applicant = application.applicants.get(slot)
        if applicant is not None:
            row |= _person_row(applicant)
        calculation = application.income_calculations.get(slot)
        if calculation is not None:
            row |= {
                "income_years": [income.year for income in calculation.incomes],
                "suspected_fraudulent_document_ids": calculation.suspected_fraudulent.document_ids,
                "calculation_extra": _extra_json(calculation),
            }
        yield row


def income_source_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield a row for each amount that was calculated."""
    application = record.application
    for slot, calculation in application.income_calculations.items():
        sources = (
            (income.year, source)
            for income in calculation.incomes
            for source in income.income_sources
        )
        for number, (year, source) in enumerate(sources, start=1):
            yield {
                "application_id": application.application_id,
                "applicant": slot,
                "source_number": number,
                "year": year,
                **_values_of(source, ("source_type", "calculated_income_amount", "document_ids")),
                "extra": _extra_json(source),
            }


def document_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield a row for each document, with what a paystub says of its period."""
    calculations = record.application.income_calculations.values()
    suspected = {one for each in calculations for one in each.suspected_fraudulent.document_ids}
    for key, document in _numbered_documents(record):
        row = {
            **key,
            **_values_of(document, ("file_ids", "file_reference_ids", "updated_at", "data_action")),
            "application_reference_id": record.documents
            and record.documents.application_reference_id,
            "is_suspected_fraudulent": document.document_id in suspected,
            "pages": None if document.pages is None else _to_json_text(document.pages),
            "extra": _extra_json(document),
        }
        match document.extracted_data:
            case Paystub() as paystub:
                row |= _paystub_row(paystub)
            case Mapping() as data:
                row["extracted_data"] = _to_json_text(data)
            case _:
                # Only the rules of its class know how it is written.
                written = parse_exactly(to_json(document))
                row["extracted_data"] = _to_json_text(written["extracted_data"])
        yield row


def paystub_amount_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield a row for each pair of amounts of each paystub, absent amounts included."""
    for key, document in _numbered_documents(record):
        if isinstance(document.extracted_data, Paystub):
            for name in _AMOUNT_PAIRS:
                pair: AmountPair = getattr(document.extracted_data, name)
                yield {
                    **key,
                    "name": name,
                    "current_amount": pair.current,
                    "ytd_amount": pair.ytd,
                    "extra": _to_json_text(pair.extra) if pair.extra else None,
                }


ROWS: Final[Mapping[str, Callable[[ApplicationRecord], Iterator[Row]]]] = {
    "applications": application_rows,
    "applicants": applicant_rows,
    "income_sources": income_source_rows,
    "documents": document_rows,
    "paystub_amounts": paystub_amount_rows,
}
"""What makes the rows of each table."""


def _values_of(record: object, names: Iterable[str]) -> Row:
    return {name: getattr(record, name) for name in names}


def _person_row(applicant: Applicant) -> Row:
    row = {
        **_values_of(
            applicant, ("first_name", "last_name", "email", "phone", "ssn", "date_of_birth")
        ),
        "addresses": [
            _values_of(entry.address, _ADDRESS) | _values_of(entry, _TIME_THERE)
            for entry in applicant.address_info
        ],
        "extra": _extra_json(applicant),
    }
    for entry in applicant.address_info:
        if entry.is_current:
            current = _values_of(entry.address, _ADDRESS)
            return row | {f"current_{name}": value for name, value in current.items()}
    return row


def _numbered_documents(record: ApplicationRecord) -> Iterator[tuple[Row, Document]]:
    """Yield each document with what names it: ids may be there twice, numbers are not."""
    if record.documents is None:
        return
    for number, (document_type, document) in enumerate(record.documents.all(), start=1):
        key = {
            "application_id": record.application_id,
            "document_number": number,
            "document_type": document_type,
            "document_id": document.document_id,
        }
        yield key, document


def _paystub_row(paystub: Paystub) -> Row:
    return {
        **_values_of(
            paystub,
            (
                *("employer_name", "pay_period_frequency", "hours_worked"),
                *("pay_begin_date", "pay_end_date", "pay_date"),
            ),
        ),
        "paystub_applicants": [
            {
                "applicant": slot,
                **_values_of(person, _NAME),
                **_values_of(person.address, (*_ADDRESS, "street_2")),
            }
            for slot, person in paystub.applicants.items()
        ],
        "earnings": _to_json_text(paystub.earnings),
        "deductions": _to_json_text(paystub.deductions),
        "taxes": _to_json_text(paystub.taxes),
        "extracted_extra": _extra_json(paystub),
    }


def _to_json_text(value: object) -> str:
    return render(value).decode()


def _extra_json(record: object) -> str | None:
    """Return the unknown fields of a record and of those within it as JSON, None for none."""
    found = _unknown_fields(record)
    return _to_json_text(found) if found else None


def _unknown_fields(record: Any) -> Row:
    """Return them at their places: by name in objects, by position, from 0, in arrays."""
    found = dict(getattr(record, "extra", {}))
    kind: Any = type(record)
    for name in _fields_with_records(kind):
        inner = _unknown_within(getattr(record, name))
        if inner:
            found[name] = inner
    return found


def _unknown_within(value: Any) -> Row:
    match value:
        case Mapping():
            found = {key: _unknown_within(one) for key, one in value.items()}
        case tuple():
            found = {str(place): _unknown_within(one) for place, one in enumerate(value)}
        case _:
            return {} if value is None else _unknown_fields(value)
    return {key: inner for key, inner in found.items() if inner}


_WITH_COLUMN: Final = frozenset({Applicant, IncomeCalculation, IncomeSource, Document, AmountPair})
"""Records whose unknown fields have a column of their own."""


@functools.cache
def _fields_with_records(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in attrs.fields(kind) if _holds_records(one.type))


def _holds_records(annotation: Any) -> bool:
    if attrs.has(annotation):
        return annotation not in _WITH_COLUMN
    return any(map(_holds_records, get_args(annotation)))
