"""``income-client documents``, and --type, which ``download`` has too."""

import csv
from collections.abc import Iterator
from typing import Any

import pytest

from income_client.testing import IncomeService, make_record
from tests.support.cli import Cli
from tests.support.served import documents_of, parsed, served
from tests.support.streams import Terminal

pytestmark = pytest.mark.income_service(applications=8)


def rows_of(text: str) -> list[dict[str, Any]]:
    """Read CSV."""
    return list(csv.DictReader(text.splitlines()))


def test_a_line_is_a_whole_document(shell: Cli) -> None:
    one = shell.service.ids[0]
    ran = shell("documents", one)
    assert (ran.status, ran.stderr) == (0, "")
    assert parsed(ran.stdout) == [
        {"application_id": one, "document_type": kind, "document": {**document, "url": ""}}
        for kind, documents in served(shell.service, one, "/documents")["documents"].items()
        for document in documents
    ]


def test_pages_come_when_asked_for(shell: Cli) -> None:
    one = shell.service.ids[0]
    assert "pages" not in parsed(shell("documents", one).stdout)[0]["document"]
    ran = shell("documents", one, "--pages")
    assert all("pages" in line["document"] for line in parsed(ran.stdout))
    rows = rows_of(shell("documents", one, "--pages", "-o", "csv").stdout)
    assert all(int(row["pages"]) >= 1 for row in rows)


def test_csv_has_the_pay_period(shell: Cli) -> None:
    rows = rows_of(shell("documents", *shell.service.ids, "--output", "csv").stdout)
    assert {row["document_id"] for row in rows} == set(documents_of(shell.service))
    for row in rows:
        assert bool(row["pay_begin_date"]) is (row["document_type"] == "paystub")


def test_an_unreadable_application_keeps_no_other_back(shell: Cli) -> None:
    first, second = shell.service.ids[:2]
    ran = shell("documents", first, "nobody", second, "-q")
    assert ran.status == 1
    assert "get_documents(nobody): 404" in ran.stderr
    documents = documents_of(shell.service)
    assert set(ran.lines) == {one for one in documents if documents[one] in (first, second)}


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_table_is_as_wide_as_the_terminal(columns: int, shell: Cli) -> None:
    one = shell.service.ids[0]
    ids = [each for each, owner in documents_of(shell.service).items() if owner == one]
    shown = shell("documents", one, terminal=Terminal(columns=columns))
    assert shown.status == 0
    assert ("From" in shown.screen, "To" in shown.screen) == (columns > 40, columns > 40)
    assert "Type" in shown.screen
    assert "Action" not in shown.screen
    assert "…" not in shown.screen
    assert all(each in shown.screen for each in ids)


@pytest.mark.parametrize(
    ("columns", "headings"),
    [
        (60, [["Type", "Document", "From", "To", "Files"], ["Application", "Type", "Document"]]),
        (
            200,
            [["Application", "Type", "Document", "From", "To", "Files", "Updated", "Action"]] * 2,
        ),
    ],
)
def test_what_is_the_same_in_each_row_is_left_out_first(
    columns: int, headings: list[list[str]], shell: Cli
) -> None:
    """Of one application the type is worth more than its id; of several, both are needed."""
    one, two = shell.service.ids[:2]
    for named, expected in zip([(one,), (one, two)], headings, strict=True):
        terminal = Terminal(columns=columns)
        heading = terminal.standing(shell("documents", *named, terminal=terminal).screen)[0]
        assert heading.split() == expected


@pytest.fixture
def some(cli: Cli) -> Iterator[Cli]:
    """The command on two applications that have documents, and one that has none."""
    with IncomeService(2, records=[make_record(application_id="bare", paystubs=0)]) as service:
        yield cli.at(service)


@pytest.mark.parametrize("command", ["documents", "download --to files --allow-host 127.0.0.1"])
def test_a_type_that_no_document_has_is_reported(command: str, some: Cli) -> None:
    """It is status 1, as it may be misspelt, unless the contract has it: not all have paystubs."""
    ran = some(*command.split(), *some.service.ids, "--type", "paystubs")
    assert (ran.status, ran.stdout) == (1, "")
    assert "no document of type paystubs; there are " in ran.stderr
    assert "paystub" in ran.stderr.partition("there are ")[2]
    ran = some(*command.split(), "bare", "--type", "paystub")
    assert (ran.status, ran.stdout) == (0, "")
    assert "no document of type paystub; there are none" in ran.stderr


def test_nothing_is_known_of_a_type_where_nothing_was_updated(some: Cli) -> None:
    """A job that runs each minute does not fail in a minute without updates."""
    span = ("--updated-after", "2026-06-30T11:59:59", "--updated-before", "2026-06-30T11:59:59")
    assert some("download", "--to", "files", "--type", "w2", *span).status == 0
