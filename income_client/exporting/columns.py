"""The columns of the tables that records become, as data; knows no library that holds tables.

Download addresses are in none of them: they are as secret as the files, and
expire before anybody analyses anything.
"""

import enum
from collections.abc import Mapping
from typing import Final

from attrs import frozen

PRECISION: Final = 38
"""Digits of an amount."""
SCALE: Final = 18
"""Digits of an amount behind the point; the 20 before it leave room for sums."""


class Kind(enum.Enum):
    """What the values of a column are."""

    TEXT = "text"
    """Any text."""
    TEXTS = "list of text"
    """Texts in an order that matters."""
    INTEGER = "integer"
    """64 bits, signed."""
    INTEGERS = "list of integer"
    """Integers in an order that matters."""
    FLAG = "boolean"
    """True or false."""
    AMOUNT = "decimal(38, 18)"
    """Exact, never rounded."""
    DAY = "date"
    """A day of the calendar."""
    SERVICE_TIME = "timestamp"
    """Without zone, in the service's frame."""
    UTC_TIME = "timestamp with zone UTC"
    """A time that ends in Z on the wire."""
    JSON = "text (JSON)"
    """What has no shape in the contract."""


@frozen
class Column:
    """A column of a table, or a field of the structs in one."""

    name: str
    """What it is called."""
    kind: "Kind | tuple[Column, ...]"
    """What its values are; columns stand for a list of structs with these fields."""
    is_optional: bool = False
    """Whether a value may be absent."""


def _key(name: str) -> Column:
    return Column(name, Kind.TEXT)


def _optional(kind: "Kind | tuple[Column, ...]", *names: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind, is_optional=True) for name in names)


_POSTAL: Final = ("street_address", "city", "state", "zip")
_ADDRESS: Final = (
    *(Column(name, Kind.TEXT) for name in _POSTAL),
    Column("is_current", Kind.FLAG),
    Column("start_date", Kind.DAY),
    *_optional(Kind.DAY, "end_date"),
)
_NAMED: Final = (
    *(Column(name, Kind.TEXT) for name in ("applicant", "first_name")),
    *_optional(Kind.TEXT, "middle_name"),
    Column("last_name", Kind.TEXT),
    *_optional(Kind.TEXT, "suffix"),
    *(Column(name, Kind.TEXT) for name in ("ssn", "street_address")),
    *_optional(Kind.TEXT, "street_2"),
    *(Column(name, Kind.TEXT) for name in ("city", "state", "zip")),
)

TABLES: Final[Mapping[str, tuple[Column, ...]]] = {
    "applications": (
        _key("application_id"),
        Column("application_reference_id", Kind.TEXT),
        Column("application_date", Kind.SERVICE_TIME),
        Column("last_updated_at", Kind.UTC_TIME),
        Column(
            "image_files",
            (Column("file_id", Kind.TEXT), Column("file_reference_id", Kind.TEXT)),
        ),
        Column("structured_data", Kind.JSON),
        Column("documents_read", Kind.FLAG),
        *_optional(Kind.JSON, "extra", "documents_extra"),
    ),
    "applicants": (
        _key("application_id"),
        _key("applicant"),
        *_optional(Kind.TEXT, "first_name", "last_name", "email", "phone", "ssn"),
        *_optional(Kind.DAY, "date_of_birth"),
        *_optional(Kind.TEXT, *(f"current_{name}" for name in _POSTAL)),
        *_optional(_ADDRESS, "addresses"),
        *_optional(Kind.INTEGERS, "income_years"),
        *_optional(Kind.TEXTS, "suspected_fraudulent_document_ids"),
        *_optional(Kind.JSON, "extra", "calculation_extra"),
    ),
    "income_sources": (
        _key("application_id"),
        _key("applicant"),
        Column("source_number", Kind.INTEGER),
        Column("year", Kind.INTEGER),
        Column("source_type", Kind.TEXT),
        Column("calculated_income_amount", Kind.AMOUNT),
        Column("document_ids", Kind.TEXTS),
        *_optional(Kind.JSON, "extra"),
    ),
    "documents": (
        _key("application_id"),
        Column("document_number", Kind.INTEGER),
        Column("document_type", Kind.TEXT),
        Column("document_id", Kind.TEXT),
        Column("application_reference_id", Kind.TEXT),
        Column("file_ids", Kind.TEXTS),
        Column("file_reference_ids", Kind.TEXTS),
        Column("updated_at", Kind.UTC_TIME),
        Column("data_action", Kind.TEXT),
        Column("is_suspected_fraudulent", Kind.FLAG),
        *_optional(Kind.TEXT, "employer_name", "pay_period_frequency"),
        *_optional(Kind.DAY, "pay_begin_date", "pay_end_date", "pay_date"),
        *_optional(Kind.AMOUNT, "hours_worked"),
        *_optional(_NAMED, "paystub_applicants"),
        *_optional(Kind.JSON, "earnings", "deductions", "taxes"),
        *_optional(Kind.JSON, "extracted_data", "pages", "extra", "extracted_extra"),
    ),
    "paystub_amounts": (
        _key("application_id"),
        Column("document_number", Kind.INTEGER),
        Column("document_type", Kind.TEXT),
        Column("document_id", Kind.TEXT),
        Column("name", Kind.TEXT),
        *_optional(Kind.AMOUNT, "current_amount", "ytd_amount"),
        *_optional(Kind.JSON, "extra"),
    ),
}
"""The tables in order, and the columns of each."""
