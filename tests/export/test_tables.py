"""Tables hold all that a record holds, exactly; Parquet files are whole, or not there at all."""

import errno
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("pyarrow", reason="tables need the extra 'parquet'")

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client import ApplicationRecord, ConfigurationError, Paystub, register_document_type
from income_client.exporting import ParquetTables, schema, to_arrow
from tests.support.canaries import held_by
from tests.support.pages import GUIDE
from tests.support.payloads import (
    APPLICATION,
    DOCUMENTS,
    Payload,
    changed,
    known_record,
    leaves,
    record_of,
)
from tests.support.strategies import applications, documents_replies

NAMES = ["applications", "applicants", "income_sources", "documents", "paystub_amounts"]
LARGE = 10**12
REPEATED = (DOCUMENTS, ("application_id",))
"""Facts of the application that a reply about documents repeats."""
JSON_COLUMNS = ("structured_data", "earnings", "deductions", "taxes", "extracted_data", "pages")


def rows(record: ApplicationRecord, table: str) -> list[dict[str, Any]]:
    """Return the rows that a record has in a table."""
    found: list[dict[str, Any]] = getattr(to_arrow([record]), table).to_pylist()
    return found


YEAR = ("income_calculations", "applicant1", "incomes", 0, "year")
AMOUNT = (*YEAR[:-1], "income_sources", 0, "calculated_income_amount")


def with_value(path: tuple[str | int, ...], value: Any) -> ApplicationRecord:
    """Return a record with another value, which may fit no column, in one place."""
    return record_of(changed(APPLICATION, path, value), DOCUMENTS)


def fitting(value: Any) -> Any:
    """Replace the amounts that columns cannot hold."""
    match value:
        case Decimal() if abs(value) < LARGE:
            return Decimal(f"{value:.6f}")
        case Decimal():
            return Decimal("1.5")
        case int() if abs(value) >= LARGE:
            return 15
        case dict():
            return {key: fitting(one) for key, one in value.items()}
        case list():
            return [fitting(one) for one in value]
        case _:
            return value


RECORDS = st.builds(
    record_of, applications().map(fitting), st.none() | documents_replies().map(fitting)
)


@given(st.lists(RECORDS, max_size=2))
def test_any_records_are_in_the_same_columns_one_row_for_each_thing(
    records: list[ApplicationRecord],
) -> None:
    """The schema is that of no records at all; required columns have a value everywhere."""
    empty = to_arrow([])
    for name, table in to_arrow(records).items():
        assert table.schema == getattr(empty, name).schema
        table.validate(full=True)
        required = [field.name for field in table.schema if not field.nullable]
        assert all(table[column].null_count == 0 for column in required)
    for record in records:
        found = {name: table.to_pylist() for name, table in to_arrow([record]).items()}
        check_incomes(record, found)
        check_documents(record, found)


Found = dict[str, list[dict[str, Any]]]


def check_incomes(record: ApplicationRecord, tables: Found) -> None:
    """Check that sums are right, and that those known from a calculation alone are there."""
    application = record.application
    held = [
        (slot, income.year, source.source_type, source.calculated_income_amount)
        for slot, calculation in application.income_calculations.items()
        for income in calculation.incomes
        for source in income.income_sources
    ]
    columns = ("applicant", "year", "source_type", "calculated_income_amount")
    assert [tuple(row[c] for c in columns) for row in tables["income_sources"]] == held
    found = {row["applicant"]: row for row in tables["applicants"]}
    assert len(found) == len(tables["applicants"])
    assert set(found) == {*application.applicants, *application.income_calculations}
    for slot, calculation in application.income_calculations.items():
        assert found[slot]["income_years"] == [income.year for income in calculation.incomes]
    for slot, applicant in application.applicants.items():
        assert len(found[slot]["addresses"]) == len(applicant.address_info)


def check_documents(record: ApplicationRecord, tables: Found) -> None:
    """Check that equal ids stay apart by numbers, and that a paystub has eleven pairs."""
    entries = [] if record.documents is None else list(record.documents.all())
    found = tables["documents"]
    assert [row["document_number"] for row in found] == list(range(1, len(entries) + 1))
    assert [(row["document_type"], row["document_id"]) for row in found] == [
        (entry.document_type, entry.document.document_id) for entry in entries
    ]
    paystubs = [
        entry.document.extracted_data
        for entry in entries
        if isinstance(entry.document.extracted_data, Paystub)
    ]
    pairs = [
        pair
        for paystub in paystubs
        for pair in attrs.asdict(paystub, recurse=False).values()
        if type(pair).__name__ == "AmountPair"
    ]
    amounts = tables["paystub_amounts"]
    assert len(amounts) == len(pairs) == 11 * len(paystubs)
    assert Counter((row["current_amount"], row["ytd_amount"]) for row in amounts) == Counter(
        (pair.current, pair.ytd) for pair in pairs
    )


def test_the_types_are_exact() -> None:
    """Amounts are decimals, times in Z are in UTC and others without zone, days are days."""
    tables = to_arrow([])
    assert [name for name, _ in tables.items()] == NAMES
    assert all(len(set(table.column_names)) == table.num_columns for _, table in tables.items())
    amounts = tables.paystub_amounts.schema
    assert amounts.field("current_amount").type == pa.decimal128(38, 18)
    assert tables.applications.schema.field("last_updated_at").type == pa.timestamp("us", "UTC")
    assert tables.applications.schema.field("application_date").type == pa.timestamp("us")
    assert tables.documents.schema.field("pay_date").type == pa.date32()


def test_what_people_group_by_has_columns() -> None:
    """Columns tell where a borrower lives, and whether documents were read, even without rows."""
    (row,) = rows(known_record(), "applicants")
    assert row["current_state"] == "ZZ"
    assert [one["is_current"] for one in row["addresses"]] == [True]
    for record, read in ((record_of(APPLICATION, None), False), (known_record(), True)):
        assert rows(record, "applications")[0]["documents_read"] is read
    # A document that any applicant's calculation doubts is marked in its own row.
    doubted = ("income_calculations", "applicant1", "suspected_fraudulent", "document_ids")
    found = rows(with_value(doubted, ["doc-1"]), "documents")
    assert {row["document_id"] for row in found if row["is_suspected_fraudulent"]} == {"doc-1"}


def _another(value: Any) -> Any:
    """Return another value of the same kind; an empty one, which says no kind, as it is."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str() if re.match(r"\d{4}-\d\d-\d\d", value):
            return "2000" + value[4:]
        case str() if value:
            return value + "x"
        case _:
            return value


def _with_another_value() -> Iterator[tuple[str, ApplicationRecord]]:
    """Yield the known record with another value in each place, and the name of the field.

    Addresses of files have no column; the id of the application is there once.
    """
    for payload in (APPLICATION, DOCUMENTS):
        for path, value in leaves(payload):
            other = _another(value)
            if other == value or path[-1] == "url" or (payload, path) == REPEATED:
                continue
            new = changed(payload, path, other)
            replies = (new, DOCUMENTS) if payload is APPLICATION else (APPLICATION, new)
            yield str(path[-1]), record_of(*replies)


def _differing_columns(record: ApplicationRecord) -> set[tuple[str, str]]:
    """Return the columns, with their tables, in which a record differs from the known one."""
    return {
        (table, name)
        for (table, found), (_, usual) in zip(
            to_arrow([record]).items(), to_arrow([known_record()]).items(), strict=True
        )
        for name in found.column_names
        if found.column(name) != usual.column(name)
    }


def test_every_value_of_a_reply_has_a_column() -> None:
    place = "see income_client/exporting/rows.py and income_client/exporting/schema.py"
    for name, record in _with_another_value():
        assert _differing_columns(record), f"{name} has no column: {place}"


def test_columns_are_marked_that_have_what_no_repr_shows() -> None:
    """Whoever grants access to a table, or drops its personal data, can go by the marks."""
    records = [record for _, record in _with_another_value()]
    records.append(record_of(*_replies_with_unknown_fields()))
    deductions = ("documents", "paystub", 0, "extracted_data", "deductions")
    records.append(record_of(APPLICATION, changed(DOCUMENTS, deductions, [{"name": "savings"}])))
    masked = [record for record in records if repr(record) == repr(known_record())]
    assert _marked_columns() == set().union(*map(_differing_columns, masked))


def _marked_columns() -> set[tuple[str, str]]:
    return {
        (table, column.name)
        for table, found in to_arrow([]).items()
        for column in found.schema
        if column.metadata == {b"pii": b"true"}
    }


def test_the_guide_names_the_marked_columns() -> None:
    section = (GUIDE / "exports.md").read_text("utf-8").partition("## Personal data")[2]
    lines = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
    named = {(table, name) for table, cell in lines for name in re.findall(r"`(\w+)`", cell)}
    assert named == _marked_columns()


def test_download_addresses_are_in_no_table() -> None:
    record = known_record()
    assert record.documents is not None
    held = repr([rows(record, table) for table in NAMES])
    assert not any(entry.document.url in held for entry in record.documents.all())
    assert record.documents.paystubs


def test_data_of_a_registered_type_is_json() -> None:

    @attrs.frozen
    class Statement:
        balance: Decimal

    register_document_type("statement_of_this_test", Statement)
    documents = json.loads(json.dumps(DOCUMENTS))
    document = {**documents["documents"]["paystub"][0], "extracted_data": {"balance": 1.5, "n": 2}}
    documents["documents"] = {"statement_of_this_test": [document]}
    (row,) = rows(record_of(APPLICATION, documents), "documents")
    assert json.loads(row["extracted_data"]) == {"balance": 1.5, "n": 2}


def _replies_with_unknown_fields() -> tuple[Payload, Payload]:
    application, documents = _with_unknown(APPLICATION), _with_unknown(DOCUMENTS)
    # By slot and by type there are objects of the service's keys, not of fields.
    del application["applicants"]["unknown"]
    del application["income_calculations"]["unknown"]
    del documents["documents"]["unknown"]
    for document in documents["documents"]["paystub"]:
        del document["extracted_data"]["applicants"]["unknown"]
    return application, documents


def test_no_unknown_field_is_dropped() -> None:
    application, documents = _replies_with_unknown_fields()
    record = record_of(application, documents)
    kept = sum(
        _unknown_in(json.loads(value))
        for table in NAMES
        for row in rows(record, table)
        for column, value in row.items()
        if value and (column.endswith("extra") or column in JSON_COLUMNS)
    )
    assert kept == _unknown_in(application) + _unknown_in(documents)
    extras = {
        value
        for table in NAMES
        for row in rows(known_record(), table)
        for column, value in row.items()
        if column.endswith("extra")
    }
    assert extras == {None}


def _with_unknown(value: Any) -> Any:
    match value:
        case dict():
            return {**{key: _with_unknown(one) for key, one in value.items()}, "unknown": "here"}
        case list():
            return [_with_unknown(one) for one in value]
        case _:
            return value


def _unknown_in(value: Any) -> int:
    match value:
        case dict():
            return ("unknown" in value) + sum(map(_unknown_in, value.values()))
        case list():
            return sum(map(_unknown_in, value))
        case _:
            return 0


DOES_NOT_FIT = "a value of income_sources.calculated_income_amount does not fit decimal128(38, 18)"


@pytest.mark.parametrize("amount", [0, 0.1, 1000, 999999999999999, 1e-18, 0.30000000000000004])
def test_amounts_of_18_places_fit(amount: float) -> None:
    (row,) = rows(with_value(AMOUNT, amount), "income_sources")
    assert row["calculated_income_amount"] == Decimal(str(amount))


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        *((with_value(AMOUNT, amount), DOES_NOT_FIT) for amount in (7.25e-19, 1.5e-18, 7.25e20)),
        (with_value(YEAR, 2**63), "a value of income_sources.year does not fit int64"),
    ],
)
def test_other_numbers_are_an_error_and_never_rounded(
    wrong: ApplicationRecord, problem: str
) -> None:
    """The error names the application and the column; no message and no frame holds a value."""
    with pytest.raises(ConfigurationError) as caught:
        to_arrow([known_record()] * 5 + [wrong])
    assert caught.value.message == f"application app-1: {problem}"
    seen = held_by(caught.value)
    for value in ("Ada", "51234", "Invented", "7.25"):
        assert value not in seen
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_record_that_no_reply_can_be_is_named() -> None:
    wrong: Any = 7  # of another type than the field
    application = evolve(known_record().application, application_reference_id=wrong)
    handmade = evolve(known_record(), application=evolve(application, application_id="app-3"))
    records = [*[known_record()] * 53, handmade, known_record()]
    with pytest.raises(ConfigurationError, match="application app-3: it holds values") as caught:
        to_arrow(records)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_pyarrow_is_loaded_when_tables_are_made() -> None:
    script = (
        "import sys\n"
        "from income_client.exporting import ParquetTables, RecordTables, to_arrow\n"
        "print('pyarrow' in sys.modules)\n"
    )
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


# Parquet files: whole at their place or not there, whatever goes wrong meanwhile


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


def write_past_errors(tables: ParquetTables) -> None:
    """Write records as a program does that continues after any error."""
    for record in many(60):
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
                    tables.write(with_value(YEAR, 2**63))
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
    disk = Mock(side_effect=OSError(errno.ENOSPC, "no space left on device"))
    monkeypatch.setattr(*failing, disk)
    tables = ParquetTables(tmp_path / "all", rows_per_group=10)
    message = "no space left|given up after OSError"
    with pytest.raises((OSError, ConfigurationError), match=message), tables:
        write_past_errors(tables)
    refuses(tables, "given up after OSError")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for use in (lambda: ParquetTables(tmp_path / "all"), lambda: to_arrow([])):
        with pytest.raises(ConfigurationError) as caught:
            use()
        assert caught.value.message == "this needs pyarrow: pip install 'income-client[parquet]'"
    assert list(tmp_path.iterdir()) == []
