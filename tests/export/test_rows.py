"""What a record becomes in each table: all of it, once."""

import json
from collections import Counter
from decimal import Decimal
from typing import Any

import attrs
from hypothesis import given

from income_client import ApplicationRecord, Paystub, register_document_type
from income_client.exporting.columns import TABLES
from income_client.exporting.rows import ROWS
from tests.support.export_records import known_record, record_of, records
from tests.support.payloads import APPLICATION, DOCUMENTS


def rows(record: ApplicationRecord, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    return list(ROWS[table](record))


@given(records())
def test_every_income_is_in_one_row(record: ApplicationRecord) -> None:
    """The amounts of the table are those of the record, each once, and so is their sum."""
    held = [
        (slot, income.year, source.source_type, source.calculated_income_amount)
        for slot, calculation in record.application.income_calculations.items()
        for income in calculation.incomes
        for source in income.income_sources
    ]
    columns = ("applicant", "year", "source_type", "calculated_income_amount")
    found = [tuple(row[column] for column in columns) for row in rows(record, "income_sources")]
    assert found == held


@given(records())
def test_every_document_is_in_one_row(record: ApplicationRecord) -> None:
    """Documents are numbered within their application, so that equal ids stay apart."""
    entries = [] if record.documents is None else list(record.documents.all())
    found = rows(record, "documents")
    assert [row["document_number"] for row in found] == list(range(1, len(entries) + 1))
    assert [(row["document_type"], row["document_id"]) for row in found] == [
        (entry.document_type, entry.document.document_id) for entry in entries
    ]


@given(records())
def test_every_amount_of_a_paystub_is_in_one_row(record: ApplicationRecord) -> None:
    """Eleven pairs for each paystub, absent amounts as absent."""
    entries = [] if record.documents is None else list(record.documents.all())
    held: Counter[Decimal | None] = Counter()
    paystubs = 0
    for entry in entries:
        match entry.document.extracted_data:
            case Paystub() as paystub:
                paystubs += 1
                pairs = [
                    value
                    for value in attrs.asdict(paystub, recurse=False).values()
                    if type(value).__name__ == "AmountPair"
                ]
                held.update(amount for pair in pairs for amount in (pair.current, pair.ytd))
    found = rows(record, "paystub_amounts")
    assert len(found) == 11 * paystubs
    assert held == Counter(row[name] for row in found for name in ("current_amount", "ytd_amount"))


@given(records())
def test_every_applicant_is_in_one_row(record: ApplicationRecord) -> None:
    """Slots of applicants and of calculations, each once, and the years of each calculation."""
    application = record.application
    found = {row["applicant"]: row for row in rows(record, "applicants")}
    assert len(found) == len(rows(record, "applicants"))
    assert set(found) == set(application.applicants) | set(application.income_calculations)
    for slot, calculation in application.income_calculations.items():
        assert found[slot]["income_years"] == [income.year for income in calculation.incomes]
    for slot, applicant in application.applicants.items():
        assert len(found[slot]["addresses"]) == len(applicant.address_info)


@given(records())
def test_rows_have_no_value_without_a_column(record: ApplicationRecord) -> None:
    """Every value has its column, every column that is not optional its value."""
    for table, columns in TABLES.items():
        names = {column.name for column in columns}
        needed = {column.name for column in columns if not column.is_optional}
        for row in rows(record, table):
            assert set(row) <= names
            assert all(row.get(name) is not None for name in needed)


def test_the_current_address_stands_in_columns_of_its_own() -> None:
    """Where somebody lives is what people group by; past addresses are in the list."""
    (row,) = rows(known_record(), "applicants")
    assert row["current_state"] == "ZZ"
    assert [one["is_current"] for one in row["addresses"]] == [True]


def test_suspected_documents_are_marked() -> None:
    """A document that any applicant's calculation doubts is marked in its own row."""
    application = json.loads(json.dumps(APPLICATION))
    document_id = DOCUMENTS["documents"]["paystub"][0]["document_id"]
    calculation = application["income_calculations"]["applicant1"]
    calculation["suspected_fraudulent"]["document_ids"] = [document_id]
    found = rows(record_of(application, DOCUMENTS), "documents")
    assert {row["document_id"] for row in found if row["is_suspected_fraudulent"]} == {document_id}


def test_download_addresses_are_in_no_table() -> None:
    """They are as secret as the files, and nobody analyses them."""
    record = known_record()
    assert record.documents is not None
    secrets = [entry.document.url for entry in record.documents.all()]
    assert secrets
    told = repr([rows(record, table) for table in TABLES])
    assert not any(secret in told for secret in secrets)


def test_unread_documents_are_told_from_none() -> None:
    """Whether documents were asked for is a column, as no rows could mean either."""
    (row,) = rows(record_of(APPLICATION, None), "applications")
    assert row["documents_read"] is False
    (row,) = rows(known_record(), "applications")
    assert row["documents_read"] is True


def test_data_of_a_registered_type_is_json() -> None:
    """It is written by the rules of its class, fields without a place included."""

    @attrs.frozen
    class Statement:
        balance: Decimal

    register_document_type("statement_of_this_test", Statement)
    documents = json.loads(json.dumps(DOCUMENTS))
    document = {**documents["documents"]["paystub"][0], "extracted_data": {"balance": 1.5, "n": 2}}
    documents["documents"] = {"statement_of_this_test": [document]}
    (row,) = rows(record_of(APPLICATION, documents), "documents")
    assert json.loads(row["extracted_data"]) == {"balance": 1.5, "n": 2}
