"""Parquet files are whole at their place or not there, whatever goes wrong meanwhile."""

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import evolve

from income_client import ApplicationRecord, ConfigurationError, ParquetTables, to_arrow
from income_client.exporting import schema
from tests.support.export_records import known_record, with_year


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convert the rows of 50 records at once, in place of a thousand."""
    monkeypatch.setattr(schema, "AT_ONCE", 50)


def many(count: int) -> Iterator[ApplicationRecord]:
    """Yield records of different applications."""
    record = known_record()
    for number in range(count):
        application = evolve(record.application, application_id=f"app-{number}")
        yield evolve(record, application=application)


def full_disk(*_: object, **__: object) -> None:
    """Fail like a disk that is full."""
    raise OSError(errno.ENOSPC, "no space left on device")


def write_past_errors(tables: ParquetTables, records: Iterable[ApplicationRecord]) -> None:
    """Write records as a program does that continues after any error."""
    for record in records:
        with suppress(ConfigurationError, OSError):
            tables.write(record)


def refuses(tables: ParquetTables, why: str) -> None:
    """Check that they take no record, and do not end as if all were well."""
    with pytest.raises(ConfigurationError, match=why):
        tables.write(known_record())
    with pytest.raises(ConfigurationError, match=why):
        tables.close()


@pytest.mark.parametrize("count", [0, 60])
def test_files_hold_what_arrow_tables_hold(count: int, tmp_path: Path) -> None:
    """Rows and schema are those of `to_arrow`, whatever the row groups; the owner alone reads."""
    folder = tmp_path / "all"
    with ParquetTables(folder, rows_per_group=20) as tables:
        for record in many(count):
            tables.write(record)
    expected = dict(to_arrow(many(count)).items())
    assert {path.name for path in folder.iterdir()} == {f"{name}.parquet" for name in expected}
    for name, table in expected.items():
        path = folder / f"{name}.parquet"
        file = pq.ParquetFile(path)
        assert file.read() == table
        assert file.schema_arrow == table.schema
        assert file.metadata.num_row_groups > 2 or not count
        assert tables.rows[name] == table.num_rows >= count
        assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_nothing_is_replaced(tmp_path: Path) -> None:
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


def test_tables_are_open_within_their_block_only(tmp_path: Path) -> None:
    """Before it there is nothing, closing twice does nothing, and no second block begins."""
    tables = ParquetTables(str(tmp_path / "all"))
    assert list(tmp_path.iterdir()) == []
    assert set(tables.rows.values()) == {0}
    refuses(tables, "within a with block")
    with tables:
        tables.close()
        assert (tmp_path / "all").is_dir()
        tables.close()
        with pytest.raises(ConfigurationError, match="are finished"):
            tables.write(known_record())
    with pytest.raises(ConfigurationError, match="one with block only"), tables:
        pass


def test_memory_does_not_grow_with_the_records(tmp_path: Path) -> None:
    """Row groups are written as records come: of four times as many, no more is held."""
    peaks = []
    for count in (60, 240):
        before = pa.total_allocated_bytes()
        held = []
        with ParquetTables(tmp_path / str(count), rows_per_group=50) as tables:
            for record in many(count):
                tables.write(record)
                held.append(pa.total_allocated_bytes() - before)
        peaks.append(max(held))
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize("at", [0, 2, 6])
def test_a_record_that_is_refused_takes_no_other_with_it(at: int, tmp_path: Path) -> None:
    wrong: Any = known_record().application
    with ParquetTables(tmp_path / "all") as tables:
        for number in range(7):
            if number == at:
                with pytest.raises(ConfigurationError, match="application app-1: a value of"):
                    tables.write(with_year(2**63))
                with pytest.raises(ConfigurationError, match=r"not of Application$"):
                    tables.write(wrong)
            tables.write(known_record())
    assert pq.read_metadata(tmp_path / "all" / "applications.parquet").num_rows == 7
    assert tables.rows["applications"] == 7


def test_an_error_in_the_block_leaves_nothing(tmp_path: Path) -> None:
    tables = ParquetTables(tmp_path / "all")
    with suppress(RuntimeError), tables:
        tables.write(known_record())
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    refuses(tables, "given up after RuntimeError")


@pytest.mark.parametrize(
    "failing", [(pq.ParquetWriter, "__init__"), (pq.ParquetWriter, "write_table"), (os, "fsync")]
)
def test_a_disk_that_is_full_leaves_nothing(
    failing: tuple[Any, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a program that passes errors over end as if all were well."""
    monkeypatch.setattr(*failing, full_disk)
    tables = ParquetTables(tmp_path / "all", rows_per_group=10)
    message = "no space left|given up after OSError"
    with pytest.raises((OSError, ConfigurationError), match=message), tables:
        write_past_errors(tables, many(60))
    refuses(tables, "given up after OSError")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'income-client\[parquet\]'"):
        ParquetTables(tmp_path / "all")
    assert list(tmp_path.iterdir()) == []
