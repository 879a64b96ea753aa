"""What of a record its columns cannot hold exactly; names the place and never the value."""

from collections.abc import Iterator
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Final

from attrs import fields

from income_client.errors import ConfigurationError
from income_client.records.applications import Application
from income_client.records.documents import ApplicationRecord, Document
from income_client.records.paystub import AmountPair, Paystub

from .columns import PRECISION, SCALE

_EXACT: Final = Context(prec=PRECISION, traps=[Inexact, InvalidOperation])
_LAST_DIGIT: Final = Decimal(1).scaleb(-SCALE)
_INTEGERS: Final = range(-(2**63), 2**63)
_TOO_LONG: Final = (
    f"has more digits than columns have: {PRECISION - SCALE} before the point, {SCALE} behind it"
)

AMOUNT_NAMES: Final = tuple(one.name for one in fields(Paystub) if one.type is AmountPair)
"""Pairs of amounts that a paystub has, by their names in the contract."""


def check_record(record: object) -> None:
    """Make sure that the tables have a place for this.

    Args:
        record: what is to become rows.

    Raises:
        ConfigurationError: it is no record, or holds what a column cannot hold exactly.
    """
    if isinstance(record, ApplicationRecord):
        fault = misfit(record)
    else:
        fault = f"tables are made of ApplicationRecord, not of {type(record).__name__}"
    del record
    if fault is not None:
        raise ConfigurationError(fault)


def misfit(record: ApplicationRecord) -> str | None:
    """Return which value of a record fits into no column, in words; None if all do."""
    found = next(_misfits(record), None)
    return None if found is None else f"application {record.application_id}: {found}"


def fits(amount: Decimal | None) -> bool:
    """Say whether a column of amounts holds this one, exactly."""
    if amount is None:
        return True
    try:
        _EXACT.quantize(amount, _LAST_DIGIT)
    except DecimalException:
        return False
    return amount.is_finite()


def _misfits(record: ApplicationRecord) -> Iterator[str]:
    yield from _of_application(record.application)
    if record.documents is not None:
        for entry in record.documents.all():
            yield from _of_document(entry.document)


def _of_application(application: Application) -> Iterator[str]:
    for calculation in application.income_calculations.values():
        for income in calculation.incomes:
            if income.year not in _INTEGERS:
                yield "a year of income is no integer of 64 bits"
            for source in income.income_sources:
                if not fits(source.calculated_income_amount):
                    yield f"a calculated_income_amount {_TOO_LONG}"


def _of_document(document: Document) -> Iterator[str]:
    paystub = document.extracted_data
    if not isinstance(paystub, Paystub):
        return
    if not fits(paystub.hours_worked):
        yield f"hours_worked of document {document.document_id} {_TOO_LONG}"
    for name, pair in amount_pairs(paystub):
        if not (fits(pair.current) and fits(pair.ytd)):
            yield f"{name} of document {document.document_id} {_TOO_LONG}"


def amount_pairs(paystub: Paystub) -> Iterator[tuple[str, AmountPair]]:
    """Yield each pair of amounts of a paystub, with its name in the contract."""
    for name in AMOUNT_NAMES:
        yield name, getattr(paystub, name)
