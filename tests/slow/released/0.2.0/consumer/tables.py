# pyright: strict
"""A lender's data engineer, who wants tables; type checkers read it, nobody runs it."""

from pathlib import Path
from typing import assert_type

import pandas as pd
import polars as pl
import pyarrow as pa

from income_client import (
    ApplicationRecord,
    ParquetTables,
    RecordTables,
    from_json,
    to_arrow,
    to_json,
    to_pandas,
    to_polars,
)


def reads_lines(path: Path) -> list[ApplicationRecord]:
    """A line of an export becomes a record again."""
    lines = path.read_bytes().splitlines()
    records = [from_json(ApplicationRecord, line) for line in lines]
    assert_type(records, list[ApplicationRecord])
    assert_type(to_json(records[0]), bytes)
    return records


def counts(records: list[ApplicationRecord], folder: Path) -> dict[str, int]:
    """Tables are those of the library that was asked for."""
    arrow = to_arrow(records)
    assert_type(arrow, RecordTables[pa.Table])
    assert_type([name for name, _ in arrow.items()], list[str])
    assert_type(to_polars(records).applications, pl.DataFrame)
    assert_type(to_pandas(records).documents, pd.DataFrame)
    with ParquetTables(folder, rows_per_group=1000) as parquet:
        for record in records:
            parquet.write(record)
        assert_type(parquet.rows, dict[str, int])
    return parquet.rows
