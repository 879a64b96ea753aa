"""polars, pandas and DuckDB have the tables of records, with types that lose nothing."""

import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("polars", reason="data frames need the extra 'full'")
pytest.importorskip("pandas", reason="data frames need the extra 'full'")
pytest.importorskip("duckdb", reason="data frames need the extra 'full'")

import duckdb
import pandas as pd
import polars as pl

import income_client
from income_client._lazy import REMOVED
from income_client.exporting import to_arrow
from income_client.testing import IncomeService
from tests.support.cli import Cli, cli, shell
from tests.support.pages import GUIDE
from tests.support.payloads import known_record

__all__ = ["cli", "shell"]


RECORDS: Final = [known_record()]


def test_polars_keeps_the_types() -> None:
    """No amount becomes a float, no time loses its zone, and keys join the tables."""
    frames = {name: pl.DataFrame(table) for name, table in to_arrow(RECORDS).items()}
    income_sources, applicants = frames["income_sources"], frames["applicants"]
    assert income_sources.schema["calculated_income_amount"] == pl.Decimal(38, 18)
    assert frames["applications"]["last_updated_at"][0] == datetime(2024, 1, 31, 10, tzinfo=UTC)
    incomes = income_sources.join(applicants, on=["application_id", "applicant"])
    assert incomes["calculated_income_amount"].to_list() == [Decimal("51234.56")]
    assert incomes["current_state"].to_list() == ["ZZ"]


def test_pandas_keeps_the_types() -> None:
    """Amounts stay exact, days stay days, and what is absent is NA."""
    tables = to_arrow(RECORDS)
    income_sources = tables.income_sources.to_pandas(types_mapper=pd.ArrowDtype)
    documents = tables.documents.to_pandas(types_mapper=pd.ArrowDtype)
    amount: Any = income_sources.loc[0, "calculated_income_amount"]
    assert amount == Decimal("51234.56")
    assert isinstance(amount, Decimal)
    day: Any = documents.loc[0, "pay_date"]
    assert day == date(2024, 1, 19)
    assert documents["extracted_data"].isna().to_list() == [True, True, False]


@pytest.mark.parametrize(("name", "line"), REMOVED.items())
def test_the_line_that_replaces_a_removed_name_makes_a_data_frame(name: str, line: str) -> None:
    """The line is also on the page about exports."""
    assert name not in dir(income_client)
    assert f"`{line}`" in (GUIDE / "exports.md").read_text("utf-8")
    frame = eval(line, {"to_arrow": to_arrow, "records": RECORDS, "pandas": pd, "polars": pl})
    assert isinstance(frame, pd.DataFrame | pl.DataFrame)
    assert len(frame) == 3


def test_a_library_that_is_broken_says_so_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To install pyarrow once more would not help."""
    (tmp_path / "pyarrow.py").write_text("raise ImportError('cannot open libinvented.so')", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pyarrow")
    with pytest.raises(ImportError, match=r"libinvented\.so"):
        to_arrow([])


@pytest.mark.income_service(applications=40)
def test_exported_shares_are_read_as_one_data_set(
    shell: Cli, income_service: IncomeService
) -> None:
    """DuckDB and polars read the same table of every share at once, an empty share's included."""
    folder = shell.folder
    ids = shell("applications", "-q").lines
    for number, share in enumerate((ids[:15], [], ids[15:])):
        to = ("--to", f"records-{number}", "--format", "parquet")
        assert shell("export", "-", *to, stdin="\n".join(share)).status == 0
    names = {path.name for path in (folder / "records-0").glob("*.parquet")}
    assert len(names) == 5
    for name in names:
        files = str(folder / "records-*" / name)
        frame = pl.scan_parquet(files).collect()
        found = duckdb.read_parquet(files).shape[0]
        assert found == frame.height
        types = {str(pl.read_parquet_schema(path)) for path in folder.glob(f"records-*/{name}")}
        assert len(types) == 1
    read = pl.scan_parquet(folder / "records-*" / "applications.parquet").collect()
    assert sorted(read["application_id"]) == sorted(income_service.ids)
