"""What several machines export of one list of ids is one data set for DuckDB and polars."""

import pytest

pytest.importorskip("polars", reason="data frames need the extra 'full'")
pytest.importorskip("duckdb", reason="data frames need the extra 'full'")

import duckdb
import polars as pl

from income_client.testing import IncomeService
from tests.support.cli import Cli, cli, shell

__all__ = ["cli", "shell"]


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
