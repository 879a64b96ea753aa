"""``income-client documents``, and --type, which ``download`` has too."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from income_client.testing import IncomeService, make_record
from tests.support.cli import Cli, Ran, Terminal
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
    for columns in (40, 60, 80):
        shown = service_cli("documents", one, terminal=Terminal(columns=columns))
        assert shown.status == 0
        assert ("From" in shown.screen, "To" in shown.screen) == (columns > 40, columns > 40)
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


Run = Callable[..., Ran]

COMMANDS: Final[dict[str, Callable[[Path], tuple[str, ...]]]] = {
    "documents": lambda _: (),
    "download": lambda folder: ("--to", str(folder / "files"), "--allow-host", "127.0.0.1"),
}  # fmt: skip


@pytest.fixture
def service() -> Iterator[IncomeService]:
    """A service with two applications that have documents, and one that has none."""
    with IncomeService(2, records=[make_record(application_id="bare", paystubs=0)]) as made:
        yield made


@pytest.fixture(params=COMMANDS)
def command(
    request: pytest.FixtureRequest,
    service: IncomeService,
    tmp_path: Path,
    cli: Cli,
) -> Run:
    """A command that takes ``--type``, ready to be called with ids and types."""
    name, _, _ = request.param.partition("-")

    def run(*arguments: str) -> Ran:
        return cli.at(service)(name, *COMMANDS[request.param](tmp_path), *arguments)

    return run


def test_a_type_that_no_document_has_is_status_1(command: Run, service: IncomeService) -> None:
    """It is said with the types that there are, since it may be misspelt."""
    ended = command(*service.ids, "--type", "paystubs")
    assert (ended.status, ended.stdout) == (1, "")
    assert "no document of type paystubs; there are " in ended.stderr
    assert "paystub" in ended.stderr.partition("there are ")[2]


def test_a_type_of_the_contract_may_be_missing(command: Run) -> None:
    """An application need not have a paystub, and the type is not misspelt."""
    ended = command("bare", "--type", "paystub")
    assert (ended.status, ended.stdout) == (0, "")
    assert "no document of type paystub; there are none" in ended.stderr


def test_nothing_is_known_of_a_type_where_nothing_was_updated(
    service: IncomeService, tmp_path: Path, cli: Cli
) -> None:
    """A job that runs each minute does not fail in a minute without updates."""
    span = ("--updated-after", "2026-06-30T11:59:59", "--updated-before", "2026-06-30T11:59:59")
    to = ("--to", str(tmp_path / "files"))
    ended = cli.at(service)("download", *to, "--type", "w2", *span)
    assert ended.status == 0
