"""Another document type is typed by a class of records and an entry in one table."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="tables need the extra 'parquet'")


def test_a_second_type_is_known_everywhere(tmp_path: Path) -> None:
    """A factory makes one; it is decoded, exported, and shown with its period and its facts."""
    program = [sys.executable, "-m", "tests.support.bank_statements"]
    here = Path(__file__).parents[2]
    environment = {"PYTHONPATH": str(here), "HOME": str(tmp_path), "COLUMNS": "120"}
    ended = subprocess.run(
        program, cwd=here, env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stderr == ""
    shown, exported, *rest = ended.stdout.splitlines()
    listed, page = list(csv.DictReader(rest[:2])), rest[2:]
    row = json.loads(exported)
    assert shown.startswith("BankStatement(bank_name=***, opened_on=datetime.date(")
    assert row["document_type"] == "bank_statement"
    assert row["bank_name"] == "bank_name 7"
    assert float(row["balance"]) > 0
    assert json.loads(row["bookings"]) == []
    assert (row["extracted_data"], row["pay_date"]) == (None, None)
    period = (row["opened_on"], row["closed_on"])
    assert [(one["pay_begin_date"], one["pay_end_date"]) for one in listed] == [period]
    (bar,) = [line for line in page if line.startswith("D1 bank statement")]
    assert "█" in bar
    assert bar.endswith(f"{period[0]} to {period[1]}")
    facts = page[page.index(bar) + 1]
    assert f"balance {float(row['balance']):,.2f}" in facts
    assert row["bank_name"] not in facts
