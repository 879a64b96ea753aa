"""The tables of some records, as pyarrow, polars or pandas have them; loads none of these early."""

from collections.abc import AsyncIterable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from attrs import frozen

from income_client.errors import ConfigurationError
from income_client.records.documents import ApplicationRecord

from .columns import TABLES
from .libraries import check_installed
from .misfits import check_record

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

T = TypeVar("T")

AT_A_TIME: Final = 1000
"""Records that are held as rows at a time: these take more room than any library's columns."""


@frozen(kw_only=True)
class RecordTables(Generic[T]):
    """What records become as tables, to be joined by ``application_id``."""

    applications: T
    """A row for each application."""
    applicants: T
    """A row for each applicant, with ``applicant`` as the slot."""
    income_sources: T
    """A row for each amount that was calculated; joined to applicants by ``applicant`` too."""
    documents: T
    """A row for each document, numbered within its application by ``document_number``."""
    paystub_amounts: T
    """A row for each pair of amounts of a paystub, by ``document_number`` too."""

    def items(self) -> Iterator[tuple[str, T]]:
        """Iterate over the tables with their names."""
        for name in TABLES:
            yield name, getattr(self, name)


def to_arrow(records: Iterable[ApplicationRecord]) -> "RecordTables[pa.Table]":
    """Make pyarrow tables of records (contract sections 2.2 and 2.3).

    Their columns are the same for any records and for none. Amounts are
    ``decimal128(38, 18)``, exact or an error; times that end in Z are in UTC, the
    others have no zone. What has no shape in the contract is JSON text, and
    fields that it does not name are so in ``extra``, at the places where they
    stood. Only download addresses are left out: they are secret, and expire.

    Args:
        records: as fetching and polling deliver them, gathered, or `from_json` reads them.

    Returns:
        Five tables.

    Raises:
        ConfigurationError: pyarrow is not installed, these are no records, or one
            holds what a column cannot hold exactly.
    """
    check_installed("pyarrow")
    gathered = _Gathered()
    rest = _iterated(records)
    while some := list(islice(rest, AT_A_TIME)):
        gathered.take(some)
    return gathered.tables()


def to_polars(records: Iterable[ApplicationRecord]) -> "RecordTables[pl.DataFrame]":
    """Make polars data frames of records, with the columns of `to_arrow`.

    Args:
        records: as for `to_arrow`.

    Returns:
        Five data frames.

    Raises:
        ConfigurationError: pyarrow or polars is not installed, these are no
            records, or one holds what a column cannot hold exactly.
    """
    check_installed("polars")
    import polars as pl  # noqa: PLC0415 - comes with no extra of ours

    tables = to_arrow(records)
    return RecordTables(**{name: pl.DataFrame(table) for name, table in tables.items()})


def to_pandas(records: Iterable[ApplicationRecord]) -> "RecordTables[pd.DataFrame]":
    """Make pandas data frames of records, with the columns of `to_arrow`.

    Their types are ``pandas.ArrowDtype``, so that amounts stay exact, days stay
    days, and what is absent is ``pandas.NA``.

    Args:
        records: as for `to_arrow`.

    Returns:
        Five data frames.

    Raises:
        ConfigurationError: pyarrow or pandas is not installed, these are no
            records, or one holds what a column cannot hold exactly.
    """
    check_installed("pandas")
    import pandas as pd  # noqa: PLC0415 - comes with no extra of ours

    tables = to_arrow(records)
    return RecordTables(
        **{name: table.to_pandas(types_mapper=pd.ArrowDtype) for name, table in tables.items()}
    )


def _iterated(records: object) -> Iterator[Any]:
    fault = None
    if isinstance(records, AsyncIterable):
        fault = "records that are awaited are gathered first: [record async for record in ...]"
    elif not isinstance(records, Iterable):
        fault = f"records are several, such as a list of them, not {type(records).__name__}"
    else:
        return iter(records)
    del records
    raise ConfigurationError(fault)


class _Gathered:
    """Batches by table; whoever is shown the variables of a failed call sees none of them."""

    def __init__(self) -> None:
        self._batches: dict[str, list[Any]] = {table: [] for table in TABLES}

    def take(self, records: list[ApplicationRecord]) -> None:
        from .arrow_batches import batches_of  # noqa: PLC0415 - loads pyarrow

        for record in records:
            check_record(record)
        self._add(batches_of(records))

    def tables(self) -> "RecordTables[pa.Table]":
        from .arrow_batches import table_of  # noqa: PLC0415 - loads pyarrow

        return RecordTables(
            **{name: table_of(name, parts) for name, parts in self._batches.items()}
        )

    def _add(self, batches: dict[str, Any]) -> None:
        for name, batch in batches.items():
            self._batches[name].append(batch)
