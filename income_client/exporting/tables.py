"""Tables of records in memory, made by pyarrow."""

from collections.abc import AsyncIterable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from attrs import fields, frozen

from income_client.errors import ConfigurationError, InvalidArgumentError
from income_client.records.documents import ApplicationRecord

if TYPE_CHECKING:
    from pyarrow import Table
else:
    # A stand-in for those who resolve type hints at run time: pyarrow is an extra.
    Table = Any

T = TypeVar("T")


@frozen(kw_only=True)
class RecordTables(Generic[T]):
    """The tables of records, which ``application_id`` joins."""

    applications: T
    """A row for each application."""
    applicants: T
    """A row for each applicant, with ``applicant`` as the slot."""
    income_sources: T
    """A row for each calculated amount; joined to applicants by ``applicant`` too."""
    documents: T
    """A row for each document, numbered within its application by ``document_number``."""
    paystub_amounts: T
    """A row for each pair of amounts of a paystub, by ``document_number`` too."""

    def items(self) -> Iterator[tuple[str, T]]:
        """Iterate over the tables with their names."""
        for field in fields(RecordTables):
            yield field.name, getattr(self, field.name)


def to_arrow(records: Iterable[ApplicationRecord]) -> "RecordTables[Table]":
    """Make pyarrow tables of records (contract sections 2.2 and 2.3).

    Their columns are the same for any records and for none. Amounts are
    ``decimal128(38, 18)``, exact or an error; times that end in Z are in UTC, the
    others have no zone. What has no shape in the contract is JSON text, and
    fields that it does not name are in ``extra`` as JSON, by their places. Only
    download addresses are left out: they are secret, and expire.

    Args:
        records: as fetching and polling deliver them, gathered, or `from_json` reads them.

    Returns:
        Five tables.

    Raises:
        ConfigurationError: pyarrow is not installed, these are not records, or one
            holds what a column cannot hold exactly.
    """
    require_pyarrow()
    import pyarrow as pa  # noqa: PLC0415 - an extra

    from .schema import SCHEMAS, batches_of  # noqa: PLC0415 - loads pyarrow

    parts = list(batches_of(_iterate_records(records)))
    return RecordTables(
        **{
            name: pa.Table.from_batches([part[name] for part in parts], schema)
            for name, schema in SCHEMAS.items()
        }
    )


def require_pyarrow() -> None:
    """Import pyarrow; raise a `ConfigurationError` that says how to install it."""
    try:
        import_module("pyarrow")
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        message = "this needs pyarrow: pip install 'income-client[parquet]'"
        raise ConfigurationError(message) from None


def _iterate_records(records: object) -> Iterator[Any]:
    if isinstance(records, Iterable):
        return iter(records)
    if isinstance(records, AsyncIterable):
        raise ConfigurationError(
            "gather records that are awaited first: [record async for record in ...]"
        )
    raise InvalidArgumentError(
        f"records must be an iterable, such as a list, not {type(records).__name__}",
        argument="records",
    )
