"""``income-client documents``: a document a line, or a table of what there is."""

import csv
from typing import Any

import pytest

from income_client.testing import IncomeService
from tests.support.cli import Cli, Terminal
from tests.support.served import documents_of, parsed, served

pytestmark = pytest.mark.income_service(applications=8)


def rows_of(text: str) -> list[dict[str, Any]]:
    """Read CSV."""
    return list(csv.DictReader(text.splitlines()))


def test_a_line_is_a_whole_document(service_cli: Cli, income_service: IncomeService) -> None:
    """It is the service's own JSON without the file's address, beside its application and type."""
    one = income_service.ids[0]
    ran = service_cli("documents", one)
    assert (ran.status, ran.stderr) == (0, "")
    assert parsed(ran.stdout) == [
        {"application_id": one, "document_type": kind, "document": {**document, "url": ""}}
        for kind, documents in served(income_service, one, "/documents")["documents"].items()
        for document in documents
    ]


def test_addresses_come_when_asked_for(service_cli: Cli, income_service: IncomeService) -> None:
    """They are as secret as the files, and so are left out otherwise."""
    one = income_service.ids[0]
    assert "Signature" not in service_cli("documents", one).stdout
    ran = service_cli("documents", one, "--addresses")
    assert all("Signature" in line["document"]["url"] for line in parsed(ran.stdout))


def test_only_the_types_that_are_asked_for(service_cli: Cli, income_service: IncomeService) -> None:
    """Other types are left out, and a type that no document has is reported."""
    paystubs = documents_of(income_service, "paystub")
    ran = service_cli("documents", *income_service.ids, "--type", "paystub", "-q")
    assert sorted(ran.lines) == sorted(paystubs)
    ran = service_cli("documents", *income_service.ids, "--type", "payslip", "--type", "paystub")
    assert len(ran.lines) == len(paystubs)
    assert "payslip" in ran.stderr
    assert "paystub" in ran.stderr.partition("payslip")[2]


def test_pages_come_when_asked_for(service_cli: Cli, income_service: IncomeService) -> None:
    """JSON has the block of pages, and a row their number."""
    one = income_service.ids[0]
    assert "pages" not in parsed(service_cli("documents", one).stdout)[0]["document"]
    ran = service_cli("documents", one, "--pages")
    assert all("pages" in line["document"] for line in parsed(ran.stdout))
    rows = rows_of(service_cli("documents", one, "--pages", "-o", "csv").stdout)
    assert all(int(row["pages"]) >= 1 for row in rows)


def test_csv_has_the_pay_period(service_cli: Cli, income_service: IncomeService) -> None:
    """A paystub's days are in columns; other types have none."""
    rows = rows_of(service_cli("documents", *income_service.ids, "--output", "csv").stdout)
    assert {row["document_id"] for row in rows} == set(documents_of(income_service))
    for row in rows:
        assert bool(row["pay_begin_date"]) is (row["document_type"] == "paystub")


def test_an_unreadable_application_keeps_no_other_back(
    service_cli: Cli, income_service: IncomeService
) -> None:
    """It is named on standard error, the others are listed, and the status is 1."""
    first, second = income_service.ids[:2]
    ran = service_cli("documents", first, "nobody", second, "-q")
    assert ran.status == 1
    assert "get_documents(nobody): 404" in ran.stderr
    documents = documents_of(income_service)
    assert set(ran.lines) == {one for one in documents if documents[one] in (first, second)}


def test_a_table_is_as_wide_as_the_terminal(
    service_cli: Cli, income_service: IncomeService
) -> None:
    """Columns that have no room are left out, and no id loses its end."""
    one = income_service.ids[0]
    ids = [one, *(each for each, owner in documents_of(income_service).items() if owner == one)]
    for columns in (40, 80):
        shown = service_cli("documents", one, terminal=Terminal(columns=columns))
        assert shown.status == 0
        assert "Application" in shown.screen
        assert "Action" not in shown.screen
        assert "…" not in shown.screen
        assert all(each in shown.screen for each in ids)


@pytest.mark.parametrize("arguments", [(), ("--typo",), ("app-1", "--typo"), ("app-1", "-x")])
def test_misuse(arguments: tuple[str, ...], service_cli: Cli) -> None:
    """Missing ids and unknown options are misuse, although a hyphen alone is an id."""
    ran = service_cli("documents", *arguments)
    assert (ran.status, ran.stdout) == (2, "")
    assert (arguments[-1] if arguments else "APPLICATION_ID") in ran.stderr
