"""What several machines export part by part is one data set for DuckDB and polars."""

import pytest

pytest.importorskip("polars", reason="data frames need the extra 'full'")
pytest.importorskip("duckdb", reason="data frames need the extra 'full'")

import duckdb
import polars as pl

from income_client.testing import IncomeService
from tests.support.cli import Cli, cli, shell

__all__ = ["cli", "shell"]


@pytest.mark.income_service(applications=40)
def test_exported_parts_are_read_as_one_data_set(shell: Cli, income_service: IncomeService) -> None:
    """DuckDB and polars read the same table of every part at once, an empty part's included."""
    folder = shell.folder
    (folder / "parts.jsonl").write_text(shell("split", "--parts", "3").stdout, "utf-8")
    for number in (3, 1, 2, 4):
        part = f"parts.jsonl:{number}"
        assert shell("export", "--part", part, "--format", "parquet").status == 0
    names = {path.name for path in (folder / "part-1").glob("*.parquet")}
    assert len(names) == 5
    for name in names:
        files = str(folder / "part-*" / name)
        frame = pl.scan_parquet(files).collect()
        found = duckdb.read_parquet(files).shape[0]
        assert found == frame.height
        types = {str(pl.read_parquet_schema(path)) for path in folder.glob(f"part-*/{name}")}
        assert len(types) == 1
    ids = pl.scan_parquet(folder / "part-*" / "applications.parquet").collect()["application_id"]
    assert sorted(ids) == sorted(income_service.ids)
