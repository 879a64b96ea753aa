"""The document types whose data is typed: an entry for each, with all that is asked of its data.

How such data is decoded, exported and made up follows from the fields of its class; what no field
says by itself is here. The data of any other type is a mapping, or of a class of the caller's.
"""

from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from typing import Any, Final, TypeAlias

from attrs import frozen

from .paystub import Paystub

Days: TypeAlias = tuple[date, date]
"""The first day and the last."""


def _nothing(_: object) -> None:
    return None


def _none(_: object) -> tuple[()]:
    return ()


@frozen(kw_only=True)
class DocumentType:
    """What is known of the data of a document type."""

    data: Any
    """The class of the data."""
    period: Callable[[Any], Days | None] = _nothing
    """The days that it is about."""
    paid_on: Callable[[Any], date | None] = _nothing
    """The day of a payment, which decides the year that it belongs to."""
    year_to_date: Callable[[Any], Decimal | None] = _nothing
    """The income of that year, up to that day."""
    applicants: Callable[[Any], Iterable[str]] = _none
    """The slots of the persons that it names."""
    shown: tuple[str, ...] = ()
    """Names of the fields that people are shown; masked texts only where personal data is."""


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
"""By the service's key of the type."""

_UNTYPED: Final[DocumentType] = DocumentType(data=object)


def type_of(data: object) -> DocumentType:
    """Return what is known of the type of this data: nothing, if it is of no type here."""
    for kind in DOCUMENT_TYPES.values():
        if isinstance(data, kind.data):
            return kind
    return _UNTYPED


def is_typed(data: object) -> bool:
    """Return whether this is the data of one of these types."""
    return type_of(data) is not _UNTYPED
