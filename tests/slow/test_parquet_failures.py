"""What goes wrong while Parquet files are written is told, and never leaves half of them."""

import errno
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="Parquet needs the extra 'full'")

import pyarrow.parquet as pq
from attrs import evolve

from income_client import ApplicationRecord, ConfigurationError, ParquetTables
from income_client.exporting import parquet_tables
from income_client.exporting.parquet_file import ParquetFile
from tests.support.export_records import known_record, record_of
from tests.support.payloads import APPLICATION


def misfitting() -> ApplicationRecord:
    """Return a record with a year that no column holds."""
    application = json.loads(json.dumps(APPLICATION))
    application["income_calculations"]["applicant1"]["incomes"][0]["year"] = 2**63
    return record_of(application, None)


def handmade() -> ApplicationRecord:
    """Return a record of other types than its class has."""
    wrong: Any = 7
    record = known_record()
    return evolve(record, application=evolve(record.application, application_reference_id=wrong))


def fail(*_: object) -> None:
    """Be a disk that is full."""
    raise OSError(errno.ENOSPC, "no space left on device")


def refuses(tables: ParquetTables, why: str) -> None:
    """Make sure that they take no record, and do not end as if all were well."""
    with pytest.raises(ConfigurationError, match=why):
        tables.write(known_record())
    with pytest.raises(ConfigurationError, match=why):
        tables.close()


def passed_over(tables: ParquetTables, records: list[ApplicationRecord]) -> None:
    """Write records as a program does that goes on after any error."""
    for record in records:
        with suppress(ConfigurationError, OSError):
            tables.write(record)


@pytest.mark.parametrize("at", [0, 1, 2, 3, 6])
def test_a_record_that_is_refused_takes_no_other_with_it(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever leaves it out and goes on has all the others."""
    monkeypatch.setattr(parquet_tables, "AT_A_TIME", 3)
    with ParquetTables(tmp_path / "all") as tables:
        for number in range(7):
            if number == at:
                with pytest.raises(ConfigurationError, match="a year of income"):
                    tables.write(misfitting())
            tables.write(known_record())
    assert pq.read_metadata(tmp_path / "all" / "applications.parquet").num_rows == 7
    assert tables.rows["applications"] == 7


def test_what_is_no_record_is_refused_alone(tmp_path: Path) -> None:
    """As a failure that was yielded between the records."""
    wrong: Any = known_record().application
    with ParquetTables(tmp_path / "all") as tables:
        with pytest.raises(ConfigurationError, match=r"not of Application$"):
            tables.write(wrong)
        tables.write(known_record())
    assert tables.rows["applications"] == 1


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    """Neither a folder nor what was to become one."""
    tables = ParquetTables(tmp_path / "all")
    with suppress(RuntimeError), tables:
        tables.write(known_record())
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    refuses(tables, "given up after RuntimeError")


@pytest.mark.parametrize("failing", ["disk", "record"])
def test_a_failed_write_that_is_passed_over_publishes_nothing(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that came before it may be lost: the end says so."""
    monkeypatch.setattr(parquet_tables, "AT_A_TIME", 3)
    third = [handmade()] if failing == "record" else [known_record()]
    if failing == "disk":
        monkeypatch.setattr(ParquetFile, "take", fail)
    with (
        pytest.raises(ConfigurationError, match="given up after"),
        ParquetTables(tmp_path / "all") as tables,
    ):
        passed_over(tables, [known_record(), *third, known_record(), known_record()])
    assert list(tmp_path.iterdir()) == []


def test_an_end_that_fails_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a second one claim that all is well."""
    monkeypatch.setattr(ParquetFile, "finish", fail)
    tables = ParquetTables(tmp_path / "all")
    with pytest.raises(OSError, match="no space"), tables:
        tables.write(known_record())
    with pytest.raises(ConfigurationError, match="given up after OSError"):
        tables.close()
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_made_before_the_block(tmp_path: Path) -> None:
    """One that is never entered leaves nothing, and takes nothing."""
    tables = ParquetTables(tmp_path / "all")
    assert list(tmp_path.iterdir()) == []
    assert set(tables.rows.values()) == {0}
    refuses(tables, "within a with block")


def test_a_block_that_cannot_begin_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder was made, and its files could not be."""
    monkeypatch.setattr(ParquetFile, "__init__", fail)
    with pytest.raises(OSError, match="no space"), ParquetTables(tmp_path / "all"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", [None, 7, b"all"])
def test_a_folder_is_a_path(folder: Any) -> None:
    """An argument that cannot be meant is told as one."""
    with pytest.raises(ConfigurationError, match="folder is a path"):
        ParquetTables(folder)
