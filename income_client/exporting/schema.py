"""Columns of the tables, and conversion of rows to pyarrow batches.

Addresses of files are in none of them: they are as secret as the files, and expire.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

import attrs
import pyarrow as pa

from income_client.errors import ConfigurationError
from income_client.records.applications import Applicant, Application, IncomeSource
from income_client.records.document_types import DOCUMENT_TYPES
from income_client.records.documents import ApplicationRecord
from income_client.records.fields import ServiceTime, UtcTime
from income_client.wire.shapes import optional_element

from .rows import PERSONS, ROWS, Row, columns_of, limited_values, single_fields

AT_ONCE: Final = 1000
"""Largest number of records that wait for conversion; rows take more room than columns."""


def _required_fields(kind: pa.DataType, *names: str) -> "list[pa.Field[Any]]":
    return [pa.field(name, kind, nullable=False) for name in names]


def _optional_fields(kind: pa.DataType, *names: str) -> "list[pa.Field[Any]]":
    return [pa.field(name, kind) for name in names]


def _list_of(kind: pa.DataType) -> pa.DataType:
    return pa.list_(*_required_fields(kind, "item"))


_TEXT: Final = pa.string()
_TEXTS: Final = _list_of(_TEXT)
_JSON: Final = pa.string()
_INTEGER: Final = pa.int64()
_INTEGERS: Final = _list_of(_INTEGER)
_FLAG: Final = pa.bool_()
_DAY: Final = pa.date32()
_AMOUNT: Final = pa.decimal128(38, 18)
_SERVICE_TIME: Final = pa.timestamp("us")
_UTC_TIME: Final = pa.timestamp("us", tz="UTC")

_IMAGE_FILE: Final = pa.struct(_required_fields(_TEXT, "file_id", "file_reference_id"))
_ADDRESS: Final = pa.struct(
    [
        *_required_fields(_TEXT, "street_address", "city", "state", "zip"),
        *_required_fields(_FLAG, "is_current"),
        *_required_fields(_DAY, "start_date"),
        *_optional_fields(_DAY, "end_date"),
    ]
)
_PAYSTUB_APPLICANT: Final = pa.struct(
    [
        *_required_fields(_TEXT, "applicant", "first_name"),
        *_optional_fields(_TEXT, "middle_name"),
        *_required_fields(_TEXT, "last_name"),
        *_optional_fields(_TEXT, "suffix"),
        *_required_fields(_TEXT, "ssn", "street_address"),
        *_optional_fields(_TEXT, "street_2"),
        *_required_fields(_TEXT, "city", "state", "zip"),
    ]
)

_TYPED: Final[Mapping[Any, pa.DataType]] = {
    str: _TEXT,
    date: _DAY,
    ServiceTime: _SERVICE_TIME,
    UtcTime: _UTC_TIME,
    Decimal: _AMOUNT,
    int: _INTEGER,
    bool: _FLAG,
    PERSONS: _list_of(_PAYSTUB_APPLICANT),
    object: _JSON,
}
"""Columns for values of each type, in the order of the table."""


def _single_fields(record: Any) -> "list[pa.Field[Any]]":
    """Return the columns for the fields of a record that hold single values."""
    fields, kinds = attrs.fields_dict(record), single_fields(record)
    return [
        pa.field(name, column, nullable=optional_element(fields[name].type) is not None)
        for kind, column in _TYPED.items()
        for name in kinds
        if kinds[name] == kind
    ]


def _typed_fields() -> "list[pa.Field[Any]]":
    """Return the columns of all typed documents."""
    kinds: dict[str, Any] = {}
    for document_type in DOCUMENT_TYPES.values():
        for name, kind in columns_of(document_type.data).items():
            if kinds.setdefault("paystub_applicants" if kind == PERSONS else name, kind) != kind:
                raise TypeError(f"two document types have another kind of {name}")
    return [
        field
        for kind, column in _TYPED.items()
        for field in _optional_fields(column, *(name for name in kinds if kinds[name] == kind))
    ]


_KEY: Final = [
    *_required_fields(_TEXT, "application_id"),
    *_required_fields(_UTC_TIME, "last_updated_at"),
]
"""Columns by which the rows of an application are joined, and merged."""

_COLUMNS: Final = {
    "applications": [
        *_single_fields(Application),
        *_required_fields(_list_of(_IMAGE_FILE), "image_files"),
        *_required_fields(_JSON, "structured_data"),
        *_required_fields(_FLAG, "documents_read"),
        *_optional_fields(_JSON, "extra", "documents_extra"),
    ],
    "applicants": [
        *_KEY,
        *_required_fields(_TEXT, "applicant"),
        # Of whom only an income calculation is known, there are none.
        *(field.with_nullable(nullable=True) for field in _single_fields(Applicant)),
        *_optional_fields(_TEXT, "current_street_address", "current_city"),
        *_optional_fields(_TEXT, "current_state", "current_zip"),
        *_optional_fields(_list_of(_ADDRESS), "addresses"),
        *_optional_fields(_INTEGERS, "income_years"),
        *_optional_fields(_TEXTS, "suspected_fraudulent_document_ids"),
        *_optional_fields(_JSON, "extra", "calculation_extra"),
    ],
    "income_sources": [
        *_KEY,
        *_required_fields(_TEXT, "applicant"),
        *_required_fields(_INTEGER, "source_number", "year"),
        *_single_fields(IncomeSource),
        *_required_fields(_TEXTS, "document_ids"),
        *_optional_fields(_JSON, "extra"),
    ],
    "documents": [
        *_KEY,
        *_required_fields(_INTEGER, "document_number"),
        *_required_fields(_TEXT, "document_type", "document_id", "application_reference_id"),
        *_required_fields(_TEXTS, "file_ids", "file_reference_ids"),
        *_required_fields(_UTC_TIME, "updated_at"),
        *_required_fields(_TEXT, "data_action"),
        *_required_fields(_FLAG, "is_suspected_fraudulent"),
        *_typed_fields(),
        *_optional_fields(_JSON, "extracted_data", "pages", "extra", "extracted_extra"),
    ],
    "paystub_amounts": [
        *_KEY,
        *_required_fields(_INTEGER, "document_number"),
        *_required_fields(_TEXT, "document_type", "document_id", "name"),
        *_optional_fields(_AMOUNT, "current_amount", "ytd_amount"),
        *_optional_fields(_JSON, "extra"),
    ],
}

PERSONAL: Final[Mapping[str, frozenset[str]]] = {
    "applications": frozenset({"image_files", "structured_data", "extra", "documents_extra"}),
    "applicants": frozenset(
        {
            *("first_name", "last_name", "email", "phone", "ssn", "date_of_birth"),
            *("current_street_address", "current_city", "current_state", "current_zip"),
            *("addresses", "extra", "calculation_extra"),
        }
    ),
    "income_sources": frozenset({"calculated_income_amount", "extra"}),
    "documents": frozenset(
        {
            *("file_reference_ids", "employer_name", "pay_period_frequency"),
            *("pay_begin_date", "pay_end_date", "pay_date", "hours_worked"),
            *("paystub_applicants", "earnings", "deductions", "taxes"),
            *("extracted_data", "pages", "extra", "extracted_extra"),
        }
    ),
    "paystub_amounts": frozenset({"current_amount", "ytd_amount", "extra"}),
}
"""Columns with borrowers' personal data by table: what no repr of a record shows."""
_PERSONAL_METADATA: Final[dict[str | bytes, str | bytes]] = {"pii": "true"}


def _marked_schema(table: str) -> pa.Schema:
    """Return the schema of a table, in which the columns with personal data are marked."""
    return pa.schema(
        column.with_metadata(_PERSONAL_METADATA) if column.name in PERSONAL[table] else column
        for column in _COLUMNS[table]
    )


SCHEMAS: Final = {table: _marked_schema(table) for table in _COLUMNS}
"""The schema of each table; the same for any records."""

_REFUSED: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)

Batches = dict[str, pa.RecordBatch]
"""Batches of rows by table."""


class RowBuffer:
    """Rows of records that wait for conversion; no repr shows them."""

    def __init__(self) -> None:
        self._clear_rows()

    @property
    def is_full(self) -> bool:
        """Whether the rows should be converted now."""
        return self._records >= AT_ONCE

    def add(self, record: object) -> None:
        """Add the rows of a record, or none of them if a value is refused."""
        if not isinstance(record, ApplicationRecord):
            raise ConfigurationError(
                f"tables are made of ApplicationRecord, not of {type(record).__name__}"
            )
        problem = misfit_of(record)
        if problem is not None:
            raise ConfigurationError(f"application {record.application_id}: {problem}")
        for table, rows_of in ROWS.items():
            self._rows[table] += rows_of(record)
        self._records += 1

    def take_batches(self) -> Batches:
        """Return all rows as a batch for each table, and empty the buffer."""
        batches = self._make_batches()
        if batches is None:
            raise ConfigurationError(
                f"application {self._first_misfit()}: it holds values that do not fit the tables"
            )
        self._clear_rows()
        return batches

    def _make_batches(self) -> Batches | None:
        """Return rows as batches; None for an unfit value, which pyarrow's error would quote."""
        try:
            return {table: _make_batch(table, rows) for table, rows in self._rows.items()}
        except _REFUSED:
            return None

    def _clear_rows(self) -> None:
        self._records = 0
        self._rows: dict[str, list[Row]] = {table: [] for table in ROWS}

    def _first_misfit(self) -> str:
        """Return the first application that cannot be converted, such as one made by hand."""
        for table, rows in self._rows.items():
            for row in rows:
                try:
                    _make_batch(table, [row])
                except _REFUSED:
                    return str(row["application_id"])
        raise AssertionError("each row fits alone")


def batches_of(records: Iterable[object]) -> Iterator[Batches]:
    """Yield the rows of records as batches by table, some records at a time."""
    buffer = RowBuffer()
    for record in records:
        buffer.add(record)
        if buffer.is_full:
            yield buffer.take_batches()
    yield buffer.take_batches()


def misfit_of(record: ApplicationRecord) -> str | None:
    """Return the column that cannot hold a record's value; pyarrow's error would quote it."""
    for table, column, value in limited_values(record):
        if not _surely_fits(value):
            kind = SCHEMAS[table].field(column).type
            try:
                pa.array([value], kind)
            except _REFUSED:
                return f"a value of {table}.{column} does not fit {kind}"
    return None


def _surely_fits(value: object) -> bool:
    """Return whether a number fits its column; False if pyarrow must judge, which takes longer."""
    match value:
        case None:
            return True
        case Decimal() if value.is_finite():
            _, digits, exponent = value.as_tuple()
            is_narrow = len(digits) + int(exponent) <= _AMOUNT.precision - _AMOUNT.scale
            return is_narrow and -_AMOUNT.scale <= int(exponent) <= 0
        case int():
            return abs(value) < 2**63
        case _:
            return False


def _make_batch(table: str, rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMAS[table])
