"""What of a record its columns cannot hold exactly; names the place and never the value."""

from collections.abc import Iterator
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Final

from attrs import fields

from income_client.records.applications import Application
from income_client.records.documents import ApplicationRecord, Document
from income_client.records.money import AmountPair
from income_client.records.paystub import Paystub

from .columns import PRECISION, SCALE

_EXACT: Final = Context(prec=PRECISION, traps=[Inexact, InvalidOperation])
_LAST_DIGIT: Final = Decimal(1).scaleb(-SCALE)
_INTEGERS: Final = range(-(2**63), 2**63)

AMOUNT_NAMES: Final = tuple(one.name for one in fields(Paystub) if one.type is AmountPair)
"""Pairs of amounts that a paystub has, by their names in the contract."""


def misfit(record: ApplicationRecord) -> str | None:
    """Return which value of a record fits into no column, in words; None if all do."""
    found = next(_misfits(record), None)
    if found is None:
        return None
    return (
        f"application {record.application_id}: {found} has more digits than columns have: "
        f"{PRECISION - SCALE} before the point, {SCALE} behind it"
    )


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
                yield "a year of income"
            for source in income.income_sources:
                if not fits(source.calculated_income_amount):
                    yield "a calculated_income_amount"


def _of_document(document: Document) -> Iterator[str]:
    paystub = document.extracted_data
    if not isinstance(paystub, Paystub):
        return
    if not fits(paystub.hours_worked):
        yield f"hours_worked of document {document.document_id}"
    for name, pair in amount_pairs(paystub):
        if not (fits(pair.current) and fits(pair.ytd)):
            yield f"{name} of document {document.document_id}"


def amount_pairs(paystub: Paystub) -> Iterator[tuple[str, AmountPair]]:
    """Yield each pair of amounts of a paystub, with its name in the contract."""
    for name in AMOUNT_NAMES:
        yield name, getattr(paystub, name)
