"""Tables hold what rows say, with the same columns for any records and for none."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyarrow", reason="tables need the extra 'full'")
pytest.importorskip("polars", reason="tables need the extra 'full'")
pytest.importorskip("pandas", reason="tables need the extra 'full'")

import polars as pl
import pyarrow as pa
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    ApplicationRecord,
    ConfigurationError,
    RecordTables,
    to_arrow,
    to_pandas,
    to_polars,
)
from income_client.exporting.columns import TABLES
from income_client.exporting.rows import ROWS
from income_client.exporting.tables import AT_A_TIME
from tests.support.export_records import fitting_records, known_record, record_of
from tests.support.leaks import package_frames
from tests.support.payloads import APPLICATION, DOCUMENTS


@given(st.lists(fitting_records(), max_size=3))
def test_tables_hold_every_row(records: list[ApplicationRecord]) -> None:
    """Each value is the row's own, absent ones are null, and the schema hangs on no record."""
    tables, empty = to_arrow(records), to_arrow([])
    for name, table in tables.items():
        columns = [column.name for column in TABLES[name]]
        rows = [
            {column: row.get(column) for column in columns}
            for record in records
            for row in ROWS[name](record)
        ]
        assert table.to_pylist() == rows
        assert table.schema == getattr(empty, name).schema


def test_the_types_are_exact() -> None:
    """Amounts are decimals, times in Z are in UTC and others without zone, days are days."""
    tables = to_arrow([])
    amounts = tables.paystub_amounts.schema
    assert amounts.field("current_amount").type == pa.decimal128(38, 18)
    assert tables.applications.schema.field("last_updated_at").type == pa.timestamp("us", "UTC")
    assert tables.applications.schema.field("application_date").type == pa.timestamp("us")
    assert tables.documents.schema.field("pay_date").type == pa.date32()
    assert not tables.income_sources.schema.field("application_id").nullable
    assert [name for name, _ in tables.items()] == list(TABLES)


def test_more_records_than_are_held_at_a_time_are_one_table() -> None:
    """However many portions they are converted in."""
    record = known_record()
    tables = to_arrow(record for _ in range(AT_A_TIME + 1))
    assert tables.applications.num_rows == AT_A_TIME + 1


def test_keys_join_the_tables() -> None:
    """A pair of amounts finds its one document, an income its one applicant."""
    frames = to_polars([known_record()])
    joined = frames.paystub_amounts.join(frames.documents, on=["application_id", "document_number"])
    assert joined.height == frames.paystub_amounts.height == 22
    incomes = frames.income_sources.join(frames.applicants, on=["application_id", "applicant"])
    assert incomes["calculated_income_amount"].to_list() == [Decimal("51234.56")]
    assert incomes["current_state"].to_list() == ["ZZ"]


def test_polars_keeps_the_types() -> None:
    """No amount becomes a float."""
    frames = to_polars([known_record()])
    assert frames.income_sources.schema["calculated_income_amount"] == pl.Decimal(38, 18)
    assert frames.applications["last_updated_at"][0] == datetime(2024, 1, 31, 10, tzinfo=UTC)


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


def test_no_library_is_loaded_early() -> None:
    """The names are there where none of them is installed."""
    script = (
        "import sys\n"
        "from income_client import ParquetTables, RecordTables, to_arrow, to_pandas, to_polars\n"
        "print({'pyarrow', 'polars', 'pandas'} & set(sys.modules))\n"
    )
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "set()\n"


def test_tables_can_be_of_anything() -> None:
    """They are five values by name."""
    assert dict(RecordTables(**{name: len(name) for name in TABLES}).items()) == {
        name: len(name) for name in TABLES
    }


def test_the_error_names_the_place_and_not_the_amount() -> None:
    """Which document it is about is told, what it says is not."""
    documents = json.loads(json.dumps(DOCUMENTS))
    documents["documents"]["paystub"][0]["extracted_data"]["net_pay"]["ytd"] = 7.25e-19
    record = record_of(APPLICATION, documents)
    with pytest.raises(
        ConfigurationError, match=r"app-1: net_pay of document \S+ has more"
    ) as caught:
        to_arrow([record])
    assert "7.25" not in str(caught.value)


def test_whoever_is_shown_the_frames_sees_nothing() -> None:
    """Crash reporters send the variables of every frame; none of ours holds a value."""
    documents = json.loads(json.dumps(DOCUMENTS))
    documents["documents"]["paystub"][0]["extracted_data"]["net_pay"]["ytd"] = 7.25e-19
    records = [known_record()] * AT_A_TIME + [record_of(APPLICATION, documents)]
    with pytest.raises(ConfigurationError) as caught:
        to_arrow(records)
    seen = repr([frame.locals for frame in package_frames(caught.value)])
    assert "records" in seen
    for value in ("Ada", "51234", "Invented", "7.25"):
        assert value not in seen


async def _awaited() -> AsyncIterator[ApplicationRecord]:
    yield known_record()


@pytest.mark.parametrize("function", [to_arrow, to_polars, to_pandas])
@pytest.mark.parametrize(
    ("records", "message"),
    [
        (_awaited(), "gathered first"),
        (known_record(), "not ApplicationRecord"),
        (None, "not NoneType"),
        ([known_record(), known_record().application], "not of Application$"),
    ],
)
def test_what_is_no_records_is_refused(function: Any, records: Any, message: str) -> None:
    """The error says what to give instead."""
    with pytest.raises(ConfigurationError, match=message):
        function(records)


def test_a_record_that_no_reply_can_be_is_named() -> None:
    """One that was made by hand from other types is found among many."""
    wrong: Any = 7
    records = [
        evolve(
            known_record(),
            application=evolve(known_record().application, application_id=f"app-{n}"),
        )
        for n in range(5)
    ]
    application = evolve(records[3].application, application_reference_id=wrong)
    records[3] = evolve(records[3], application=application)
    with pytest.raises(ConfigurationError, match="application app-3: holds what"):
        to_arrow(records)


def test_a_fault_of_the_program_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the library says of values becomes an error about a record."""

    def broken(_: ApplicationRecord) -> Iterator[Any]:
        raise LookupError

    monkeypatch.setitem(cast("dict[str, Any]", ROWS), "documents", broken)
    with pytest.raises(LookupError):
        to_arrow([known_record()])
