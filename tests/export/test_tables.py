"""Tables hold all that a record holds, exactly, with the same columns for any records."""

import json
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from typing import Any

import attrs
import pytest

pytest.importorskip("pyarrow", reason="tables need the extra 'parquet'")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    ApplicationRecord,
    ConfigurationError,
    Paystub,
    register_document_type,
    to_arrow,
)
from income_client.exporting import schema
from tests.support.export_records import (
    fitting_records,
    handmade,
    known_record,
    record_of,
    with_year,
)
from tests.support.leaks import held_by
from tests.support.payloads import APPLICATION, DOCUMENTS

NAMES = ["applications", "applicants", "income_sources", "documents", "paystub_amounts"]
JSON_COLUMNS = ("structured_data", "earnings", "deductions", "taxes", "extracted_data", "pages")


def rows(record: ApplicationRecord, table: str) -> list[dict[str, Any]]:
    """Return the rows that a record has in a table."""
    found: list[dict[str, Any]] = getattr(to_arrow([record]), table).to_pylist()
    return found


def with_amount(value: Any) -> ApplicationRecord:
    """Return a record whose first calculated amount is a number, as JSON has it."""
    application = json.loads(json.dumps(APPLICATION))
    year = application["income_calculations"]["applicant1"]["incomes"][0]
    year["income_sources"][0]["calculated_income_amount"] = value
    return record_of(application, DOCUMENTS)


@given(st.lists(fitting_records(), max_size=2))
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
    """Where somebody lives, and whether documents were read, which no rows could say."""
    (row,) = rows(known_record(), "applicants")
    assert row["current_state"] == "ZZ"
    assert [one["is_current"] for one in row["addresses"]] == [True]
    for record, read in ((record_of(APPLICATION, None), False), (known_record(), True)):
        assert rows(record, "applications")[0]["documents_read"] is read
    # A document that any applicant's calculation doubts is marked in its own row.
    application = json.loads(json.dumps(APPLICATION))
    document_id = DOCUMENTS["documents"]["paystub"][0]["document_id"]
    calculation = application["income_calculations"]["applicant1"]
    calculation["suspected_fraudulent"]["document_ids"] = [document_id]
    found = rows(record_of(application, DOCUMENTS), "documents")
    assert {row["document_id"] for row in found if row["is_suspected_fraudulent"]} == {document_id}


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


def test_no_unknown_field_is_dropped() -> None:
    application, documents = _with_unknown(APPLICATION), _with_unknown(DOCUMENTS)
    # By slot and by type there are objects of the service's keys, not of fields.
    del application["applicants"]["unknown"]
    del application["income_calculations"]["unknown"]
    del documents["documents"]["unknown"]
    for document in documents["documents"]["paystub"]:
        del document["extracted_data"]["applicants"]["unknown"]
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


AMOUNT = "a value of income_sources.calculated_income_amount does not fit decimal128(38, 18)"


@pytest.mark.parametrize("amount", [0, 0.1, 1000, 999999999999999, 1e-18, 0.30000000000000004])
def test_amounts_of_18_places_fit(amount: float) -> None:
    (row,) = rows(with_amount(amount), "income_sources")
    assert row["calculated_income_amount"] == Decimal(str(amount))


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        *((with_amount(amount), AMOUNT) for amount in (7.25e-19, 1.5e-18, 7.25e20)),
        (with_year(2**63), "a value of income_sources.year does not fit int64"),
    ],
)
def test_other_numbers_are_an_error_and_never_rounded(
    wrong: ApplicationRecord, problem: str
) -> None:
    """It names the application and the column; no message and no frame holds a value."""
    with pytest.raises(ConfigurationError) as caught:
        to_arrow([known_record()] * 5 + [wrong])
    assert caught.value.message == f"application app-1: {problem}"
    seen = held_by(caught.value)
    for value in ("Ada", "51234", "Invented", "7.25"):
        assert value not in seen
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_record_that_no_reply_can_be_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "AT_ONCE", 50)
    records = [*[known_record()] * 53, handmade("app-3"), known_record()]
    with pytest.raises(ConfigurationError, match="application app-3: it holds values") as caught:
        to_arrow(records)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_no_library_is_loaded_early() -> None:
    script = (
        "import sys\n"
        "from income_client import ParquetTables, RecordTables, to_arrow, to_pandas, to_polars\n"
        "print({'pyarrow', 'polars', 'pandas'} & set(sys.modules))\n"
    )
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "set()\n"
