"""Rows in pyarrow's form, and its schema of each table; loaded only where tables are wanted."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from income_client.errors import ConfigurationError
from income_client.records.documents import ApplicationRecord

from .columns import PRECISION, SCALE, TABLES, Column, Kind
from .rows import ROWS

Batches = dict[str, pa.RecordBatch]
"""By table; what some records become."""

_TYPES: Final[dict[Kind, pa.DataType]] = {
    Kind.TEXT: pa.string(),
    Kind.TEXTS: pa.list_(pa.field("item", pa.string(), nullable=False)),
    Kind.INTEGER: pa.int64(),
    Kind.INTEGERS: pa.list_(pa.field("item", pa.int64(), nullable=False)),
    Kind.FLAG: pa.bool_(),
    Kind.AMOUNT: pa.decimal128(PRECISION, SCALE),
    Kind.DAY: pa.date32(),
    Kind.SERVICE_TIME: pa.timestamp("us"),
    Kind.UTC_TIME: pa.timestamp("us", tz="UTC"),
    Kind.JSON: pa.string(),
}


def _type(kind: Kind | tuple[Column, ...]) -> pa.DataType:
    if isinstance(kind, Kind):
        return _TYPES[kind]
    return pa.list_(pa.field("item", pa.struct([_field(one) for one in kind]), nullable=False))


def _field(column: Column) -> "pa.Field[pa.DataType]":
    return pa.field(column.name, _type(column.kind), nullable=column.is_optional)


SCHEMAS: Final = {
    table: pa.schema([_field(column) for column in columns]) for table, columns in TABLES.items()
}
"""The schema of each table; it hangs on no record."""


def batches_of(records: Sequence[ApplicationRecord]) -> Batches:
    """Return what some records become in each table, whole.

    Args:
        records: few enough to be held more than once; `check_record` found no fault in them.

    Raises:
        ConfigurationError: a record, made by hand, holds what its class has no place for.
    """
    batches = _batches(records)
    if batches is None:
        raise ConfigurationError(f"{_culprit(records)}: holds what the tables have no place for")
    return batches


def table_of(name: str, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Return the table of a name that batches of it make together, none included."""
    return pa.Table.from_batches(batches, schema=SCHEMAS[name])


def _batches(records: Iterable[ApplicationRecord]) -> Batches | None:
    # Errors of the library quote the values that they are about.
    with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        return {
            table: pa.RecordBatch.from_pylist(
                [row for record in records for row in rows(record)], schema=SCHEMAS[table]
            )
            for table, rows in ROWS.items()
        }
    return None


def _culprit(records: Iterable[ApplicationRecord]) -> str:
    ids = (record.application_id for record in records if _batches((record,)) is None)
    return next((f"application {one}" for one in ids), "some records together")
