"""Parquet files are whole at their place or not there, however many records come."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="Parquet needs the extra 'full'")

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import evolve

from income_client import (
    ApplicationRecord,
    ConfigurationError,
    ParquetTables,
    to_arrow,
)
from income_client.exporting import parquet_tables
from income_client.exporting.columns import TABLES
from tests.support.export_records import known_record


def many(count: int) -> Iterator[ApplicationRecord]:
    """Yield records of different applications."""
    record = known_record()
    for number in range(count):
        application = evolve(record.application, application_id=f"app-{number}")
        yield evolve(record, application=application)


def written(folder: Path, count: int, rows_per_group: int = 65_536) -> ParquetTables:
    """Write records."""
    with ParquetTables(folder, rows_per_group) as tables:
        for record in many(count):
            tables.write(record)
    return tables


def test_files_hold_what_arrow_tables_hold(tmp_path: Path) -> None:
    """Rows and schema are those of `to_arrow`, whatever the row groups."""
    tables = written(tmp_path / "all", 2500, rows_per_group=1000)
    for name, table in to_arrow(many(2500)).items():
        file = pq.ParquetFile(tmp_path / "all" / f"{name}.parquet")
        assert file.read() == table
        assert file.schema_arrow == table.schema
        assert file.metadata.num_row_groups > 2
        assert tables.rows[name] == table.num_rows


def test_no_records_are_five_empty_tables(tmp_path: Path) -> None:
    """A span in which nothing happened is read like any other."""
    written(tmp_path / "none", 0)
    assert sorted(path.name for path in (tmp_path / "none").iterdir()) == sorted(
        f"{name}.parquet" for name in TABLES
    )
    for name, table in to_arrow([]).items():
        assert pq.read_schema(tmp_path / "none" / f"{name}.parquet") == table.schema


def test_nobody_else_may_read_them(tmp_path: Path) -> None:
    """They hold borrowers' data."""
    written(tmp_path / "all", 1)
    assert (tmp_path / "all").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "all").iterdir()} == {0o600}


def test_nothing_is_replaced(tmp_path: Path) -> None:
    """Neither what is there before, nor what comes meanwhile."""
    (tmp_path / "all").mkdir()
    with pytest.raises(ConfigurationError, match="at the folder's place"):
        ParquetTables(tmp_path / "all")
    with (
        pytest.raises(ConfigurationError, match="at the folder's place"),
        ParquetTables(tmp_path / "other"),
    ):
        (tmp_path / "other").write_text("mine", "utf-8")
    assert (tmp_path / "other").read_text("utf-8") == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all", "other"]


def test_closing_twice_does_nothing(tmp_path: Path) -> None:
    """The second time everything is there, and takes nothing more."""
    with ParquetTables(str(tmp_path / "all")) as tables:
        tables.close()
        assert (tmp_path / "all").is_dir()
        tables.close()
        with pytest.raises(ConfigurationError, match="are finished"):
            tables.write(known_record())
    with pytest.raises(ConfigurationError, match="one with block only"), tables:
        pass


def test_memory_does_not_grow_with_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row groups are written as records come: of five times as many, no more is held."""
    monkeypatch.setattr(parquet_tables, "AT_A_TIME", 50)
    peaks = []
    for count in (200, 1000):
        before = pa.total_allocated_bytes()
        held = []
        with ParquetTables(tmp_path / str(count), rows_per_group=150) as tables:
            for record in many(count):
                tables.write(record)
                held.append(pa.total_allocated_bytes() - before)
        peaks.append(max(held))
    assert peaks[1] < 1.5 * peaks[0]


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install, and nothing is begun."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'income-client\[parquet\]'"):
        ParquetTables(tmp_path / "all")
    assert list(tmp_path.iterdir()) == []
