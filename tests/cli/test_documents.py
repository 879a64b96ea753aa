"""``income-client documents``, --type, and ids from standard input, which others read too."""

import csv
import shlex
from collections.abc import Iterator
from typing import Final

import pytest

from income_client.testing import IncomeService, make_record
from tests.support.beside import until
from tests.support.cli import Cli, Running
from tests.support.served import documents_of, parsed, served
from tests.support.streams import Terminal

pytestmark = pytest.mark.income_service(applications=8)


def test_a_line_is_a_whole_document(shell: Cli) -> None:
    """With its pages, where they are asked for."""
    one = shell.service.ids[0]
    ran = shell("documents", one)
    assert (ran.status, ran.stderr) == (0, "")
    assert parsed(ran.stdout) == [
        {"application_id": one, "document_type": kind, "document": {**document, "url": ""}}
        for kind, documents in served(shell.service, one, "/documents")["documents"].items()
        for document in documents
    ]
    assert "pages" not in parsed(ran.stdout)[0]["document"]
    whole = parsed(shell("documents", one, "--pages").stdout)
    assert all("pages" in line["document"] for line in whole)
    ran = shell("documents", *shell.service.ids, "--pages", "-o", "csv")
    rows = [*csv.DictReader(ran.lines)]
    assert {row["document_id"] for row in rows} == set(documents_of(shell.service))
    for row in rows:
        assert int(row["pages"]) >= 1
        assert bool(row["pay_begin_date"]) is (row["document_type"] == "paystub")


def test_an_unreadable_application_keeps_no_other_back(shell: Cli) -> None:
    first, second = shell.service.ids[:2]
    ran = shell("documents", first, "nobody", second, "-q")
    assert ran.status == 1
    assert "get_documents(nobody): 404" in ran.stderr
    documents = documents_of(shell.service)
    assert set(ran.lines) == {one for one in documents if documents[one] in (first, second)}


@pytest.mark.parametrize(
    ("columns", "count", "headings"),
    [
        (40, 1, "Type Document"),
        (60, 2, "Application Type Document"),
        (200, 2, "Application Type Document From To Files Updated Action"),
    ],
)
def test_a_table_is_as_wide_as_the_terminal(
    columns: int, count: int, headings: str, shell: Cli
) -> None:
    """What is the same in each row is left out first, and no id loses its end."""
    named, terminal = shell.service.ids[:count], Terminal(columns=columns)
    shown = shell("documents", *named, terminal=terminal)
    assert shown.status == 0
    assert terminal.standing(shown.screen)[0].split() == headings.split()
    assert "…" not in shown.screen
    documents = documents_of(shell.service).items()
    assert all(each in shown.screen for each, owner in documents if owner in named)


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


# Ids that are read

COMMANDS: Final = (
    "documents -",
    "download - --to files --allow-host 127.0.0.1",
    "export - --to all",
)
every = pytest.mark.parametrize("command", COMMANDS, ids=lambda line: line.split()[0])


@every
def test_no_ids_are_nothing_to_do_and_a_line_without_one_is_an_error(
    command: str, shell: Cli
) -> None:
    """A job that lists what was updated lately does not fail where nothing was."""
    ran = shell(*shlex.split(command), stdin="app-1,CANARY")
    assert (ran.status, ran.stdout, (shell.folder / "all").exists()) == (1, "", False)
    assert "line 1 of standard input" in ran.stderr
    assert "CANARY" not in ran.stderr
    assert shell(*shlex.split(command), stdin="").status == 0
    assert len(shell.service.requests) == 0


@every
def test_reading_begins_before_the_ids_end(command: str, shell: Cli) -> None:
    first, second, *_ = shell.service.ids

    def write(running: Running) -> None:
        running.write(f"{first}\n")
        until(lambda: shell.service.requests.count("get_documents"))
        running.write(f"{second}\n")

    assert shell(*shlex.split(command), during=write).status == 0
    assert shell.service.requests.count("get_documents") == 2


@every
def test_a_terminal_says_that_it_is_read(command: str, shell: Cli) -> None:

    def type_one(running: Running) -> None:
        running.stdout.wait_for("ids are read from this terminal; Ctrl-D ends them")
        running.write(f"{shell.service.ids[0]}\n\x04")

    assert shell(*shlex.split(command), terminal=Terminal(), during=type_one).status == 0
