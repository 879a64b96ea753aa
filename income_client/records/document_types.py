"""The document types with typed data, and the questions that each type answers about its data.

Decoding, exporting and inventing such data follows from the fields of its class. A `DocumentType`
adds the facts that no field states by itself. The data of any other type is a mapping, or an
instance of a class that the caller registered.
"""

from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from typing import Any, Final, TypeAlias

from attrs import frozen

from .paystub import Paystub

Days: TypeAlias = tuple[date, date]
"""The first and the last day of a period."""


def _nothing(_: object) -> None:
    return None


def _none(_: object) -> tuple[()]:
    return ()


@frozen(kw_only=True)
class DocumentType:
    """A document type and functions that answer questions about its data."""

    data: Any
    """Class of the data."""
    period: Callable[[Any], Days | None] = _nothing
    """Return the period that the data is about."""
    paid_on: Callable[[Any], date | None] = _nothing
    """Return the day of payment, which decides the year that the income belongs to."""
    year_to_date: Callable[[Any], Decimal | None] = _nothing
    """Return the year's income up to the day of payment."""
    applicants: Callable[[Any], Iterable[str]] = _none
    """Return the applicant slots of the persons that the data names."""
    shown: tuple[str, ...] = ()
    """Names of the fields that are shown to people; fields with personal data show a mask."""


DOCUMENT_TYPES: Final[dict[str, DocumentType]] = {
    "paystub": DocumentType(
        data=Paystub,
        period=lambda stub: (stub.pay_begin_date, stub.pay_end_date),
        paid_on=lambda stub: stub.pay_date,
        year_to_date=lambda stub: stub.gross_pay.ytd,
        applicants=lambda stub: stub.applicants,
        shown=("employer_name", "pay_date", "pay_period_frequency", "gross_pay", "net_pay"),
    ),
}
"""Document types with typed data, by the service's key of the type."""

_UNTYPED: Final[DocumentType] = DocumentType(data=object)


def type_of(data: object) -> DocumentType:
    """Return the document type of data; an untyped one, which answers nothing, for other data."""
    for kind in DOCUMENT_TYPES.values():
        if isinstance(data, kind.data):
            return kind
    return _UNTYPED


def is_typed(data: object) -> bool:
    """Return whether data is an instance of a document type's class."""
    return type_of(data) is not _UNTYPED
