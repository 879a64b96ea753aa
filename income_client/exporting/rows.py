"""Rows of plain values for each table, made from records without a table library.

The data of a typed document is exported by the types of its fields: pairs of amounts as rows of
their own, the persons that it names as a list, single values and arrays of any content as columns
of the documents, with the name of the field.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final, TypeAlias, get_args

import attrs

from income_client.records.applications import (
    Applicant,
    Application,
    IncomeCalculation,
    IncomeSource,
)
from income_client.records.document_types import is_typed, type_of
from income_client.records.documents import ApplicationRecord, Document
from income_client.records.fields import Amount, ServiceTime, UtcTime
from income_client.records.paystub import AmountPair, PaystubApplicant
from income_client.wire.codec import parse_exactly, render, to_json
from income_client.wire.shapes import optional_element

Row: TypeAlias = dict[str, Any]
"""Values by column; a missing column is None."""

_ADDRESS: Final = ("street_address", "city", "state", "zip")
_TIME_THERE: Final = ("is_current", "start_date", "end_date")
_NAME: Final = ("first_name", "middle_name", "last_name", "suffix", "ssn")
PERSONS: Final[Any] = Mapping[str, PaystubApplicant]
"""Type of a field with the persons named by a document, by applicant slot."""
_SINGLE: Final = frozenset({str, int, bool, date, Decimal, ServiceTime, UtcTime})
"""Types of fields whose values are columns unchanged."""


def application_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield the one row of an application."""
    application = record.application
    sources = application.data_sources
    yield {
        **_values_of(application, single_fields(Application)),
        "image_files": [
            _values_of(image, ("file_id", "file_reference_id")) for image in sources.image_files
        ],
        "structured_data": _to_json_text(sources.structured_data),
        "documents_read": record.documents is not None,
        "extra": _extra_json(application),
        "documents_extra": None if record.documents is None else _extra_json(record.documents),
    }


def applicant_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield a row for each applicant slot, also for those with an income calculation only."""
    application = record.application
    for slot in dict.fromkeys((*application.applicants, *application.income_calculations)):
        row: Row = {**_key_of(application), "applicant": slot}
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
    """Yield a row for each calculated amount."""
    application = record.application
    for slot, calculation in application.income_calculations.items():
        sources = (
            (income.year, source)
            for income in calculation.incomes
            for source in income.income_sources
        )
        for number, (year, source) in enumerate(sources, start=1):
            yield {
                **_key_of(application),
                "applicant": slot,
                "source_number": number,
                "year": year,
                **_values_of(source, (*single_fields(IncomeSource), "document_ids")),
                "extra": _extra_json(source),
            }


def document_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield a row for each document, with the data of a typed one in columns."""
    calculations = record.application.income_calculations.values()
    suspected = {
        document_id
        for each in calculations
        for document_id in each.suspected_fraudulent.document_ids
    }
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
        data = document.extracted_data
        if is_typed(data):
            row |= _typed_data_row(data)
        elif isinstance(data, Mapping):
            row["extracted_data"] = _to_json_text(data)
        else:
            # Only the rules of its class know how it is written.
            written = parse_exactly(to_json(document))
            row["extracted_data"] = _to_json_text(written["extracted_data"])
        yield row


def paystub_amount_rows(record: ApplicationRecord) -> Iterator[Row]:
    """Yield a row for each pair of amounts of each typed document, absent amounts included."""
    for key, document in _numbered_documents(record):
        data = document.extracted_data
        if is_typed(data):
            for name in _amount_pairs(type_of(data).data):
                pair: AmountPair = getattr(data, name)
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
"""Functions that make the rows of each table."""


def limited_values(record: ApplicationRecord) -> Iterator[tuple[str, str, Any]]:
    """Yield the numbers of a record's rows, each with its table and column.

    A JSON number is unlimited, and a column is not.
    """
    for calculation in record.application.income_calculations.values():
        for income in calculation.incomes:
            yield "income_sources", "year", income.year
            for source in income.income_sources:
                for name in _numbers_of(IncomeSource):
                    yield "income_sources", name, getattr(source, name)
    for _, document in _numbered_documents(record):
        data = document.extracted_data
        if is_typed(data):
            cls = type_of(data).data
            for name in _numbers_of(cls):
                yield "documents", name, getattr(data, name)
            for name in _amount_pairs(cls):
                pair: AmountPair = getattr(data, name)
                yield "paystub_amounts", "current_amount", pair.current
                yield "paystub_amounts", "ytd_amount", pair.ytd


@functools.cache
def _numbers_of(record: Any) -> tuple[str, ...]:
    return tuple(name for name, kind in columns_of(record).items() if kind in {Decimal, int})


def _key_of(application: Application) -> Row:
    """Return the columns by which the rows of an application are joined, and merged."""
    return _values_of(application, ("application_id", "last_updated_at"))


def _values_of(record: object, names: Iterable[str]) -> Row:
    return {name: getattr(record, name) for name in names}


def _person_row(applicant: Applicant) -> Row:
    row = {
        **_values_of(applicant, single_fields(Applicant)),
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
    """Yield each document with its unique number: ids may occur twice."""
    if record.documents is None:
        return
    for number, (document_type, document) in enumerate(record.documents.all(), start=1):
        key = {
            **_key_of(record.application),
            "document_number": number,
            "document_type": document_type,
            "document_id": document.document_id,
        }
        yield key, document


@functools.cache
def columns_of(data: Any) -> Mapping[str, Any]:
    """Return the columns of a record's fields, such as a typed document's data.

    Each has the type of its values; ``object`` stands for JSON.
    """
    columns = {}
    for field in attrs.fields(data):
        kind = Decimal if field.type == Amount else optional_element(field.type) or field.type
        if kind is not AmountPair and field.name != "extra":
            columns[field.name] = kind if kind in {*_SINGLE, PERSONS} else object
    return columns


@functools.cache
def single_fields(record: Any) -> Mapping[str, Any]:
    """Return the fields of a record that are columns unchanged, with their types."""
    return {name: kind for name, kind in columns_of(record).items() if kind in _SINGLE}


@functools.cache
def _amount_pairs(data: Any) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(data) if field.type is AmountPair)


def _typed_data_row(data: object) -> Row:
    cls = type_of(data).data
    row: Row = {"extracted_extra": _extra_json(data)}
    for name, kind in columns_of(cls).items():
        value = getattr(data, name)
        if kind == PERSONS:
            row["paystub_applicants"] = [_named_person(*person) for person in value.items()]
        elif kind is not object or value is None:
            row[name] = value
        elif name in _fields_with_records(cls):
            row[name] = _to_json_text(parse_exactly(to_json(data)).get(name, value))
        else:
            row[name] = _to_json_text(value)
    return row


def _named_person(slot: str, person: PaystubApplicant) -> Row:
    return {
        "applicant": slot,
        **_values_of(person, _NAME),
        **_values_of(person.address, (*_ADDRESS, "street_2")),
    }


def _to_json_text(value: object) -> str:
    return render(value).decode()


def _extra_json(record: object) -> str | None:
    """Return the unknown fields of a record and its inner records as JSON; None for none."""
    unknown = _unknown_fields(record)
    return _to_json_text(unknown) if unknown else None


def _unknown_fields(record: Any) -> Row:
    """Return unknown fields by name in objects, and by position from 0 in arrays."""
    unknown = dict(getattr(record, "extra", {}))
    kind: Any = type(record)
    for name in _fields_with_records(kind):
        inner = _unknown_within(getattr(record, name))
        if inner:
            unknown[name] = inner
    return unknown


def _unknown_within(value: Any) -> Row:
    match value:
        case Mapping():
            unknown = {key: _unknown_within(item) for key, item in value.items()}
        case tuple():
            unknown = {str(place): _unknown_within(item) for place, item in enumerate(value)}
        case _:
            return {} if value is None else _unknown_fields(value)
    return {key: inner for key, inner in unknown.items() if inner}


_WITH_COLUMN: Final = frozenset({Applicant, IncomeCalculation, IncomeSource, Document, AmountPair})
"""Records whose unknown fields have a column of their own."""


@functools.cache
def _fields_with_records(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(kind) if _holds_records(field.type))


def _holds_records(annotation: Any) -> bool:
    if attrs.has(annotation):
        return annotation not in _WITH_COLUMN
    return any(map(_holds_records, get_args(annotation)))
