"""polars, pandas and DuckDB have the tables of records, with types that lose nothing."""

import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("polars", reason="data frames need the extra 'full'")
pytest.importorskip("pandas", reason="data frames need the extra 'full'")
pytest.importorskip("duckdb", reason="data frames need the extra 'full'")

import duckdb
import polars as pl

from income_client import ConfigurationError, to_arrow, to_pandas, to_polars
from income_client.testing import IncomeService
from tests.client.test_secrecy import READ, with_bug
from tests.support.canaries import private_in
from tests.support.cli import Cli, cli, shell
from tests.support.leaks import held_by
from tests.support.payloads import known_record

__all__ = ["cli", "shell"]


def test_polars_keeps_the_types() -> None:
    """No amount becomes a float, no time loses its zone, and keys join the tables."""
    frames = to_polars([known_record()])
    assert frames.income_sources.schema["calculated_income_amount"] == pl.Decimal(38, 18)
    assert frames.applications["last_updated_at"][0] == datetime(2024, 1, 31, 10, tzinfo=UTC)
    incomes = frames.income_sources.join(frames.applicants, on=["application_id", "applicant"])
    assert incomes["calculated_income_amount"].to_list() == [Decimal("51234.56")]
    assert incomes["current_state"].to_list() == ["ZZ"]


def test_pandas_keeps_the_types() -> None:
    """Amounts stay exact, days stay days, and what is absent is NA."""
    frames = to_pandas([known_record()])
    amount: Any = frames.income_sources.loc[0, "calculated_income_amount"]
    assert amount == Decimal("51234.56")
    assert isinstance(amount, Decimal)
    day: Any = frames.documents.loc[0, "pay_date"]
    assert day == date(2024, 1, 19)
    assert frames.documents["extracted_data"].isna().to_list() == [True, True, False]


@pytest.mark.parametrize(
    ("function", "library", "install"),
    [
        (to_arrow, "pyarrow", "'income-client[parquet]'"),
        (to_polars, "polars", "'income-client[parquet]' polars"),
        (to_pandas, "pandas", "'income-client[parquet]' pandas"),
    ],
)
def test_a_missing_library_is_named(
    function: Any, library: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigurationError) as caught:
        function([])
    assert caught.value.message == f"this needs {library}: pip install {install}"


def test_a_library_that_is_broken_says_so_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To install it once more would not help."""
    (tmp_path / "polars.py").write_text("raise ImportError('cannot open libinvented.so')", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "polars")
    with pytest.raises(ImportError, match=r"libinvented\.so"):
        to_polars([])


@pytest.mark.parametrize(
    ("name", "convert"), [("polars.DataFrame", to_polars), ("pandas.ArrowDtype", to_pandas)]
)
async def test_a_bug_of_the_library_shows_no_values(name: str, convert: Any) -> None:
    """The frames below the test's own are gone, with the tables that they held."""
    with pytest.raises(ZeroDivisionError) as caught:
        await with_bug(name, lambda: convert([READ]))
    assert private_in(held_by(caught.value)) is None


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
