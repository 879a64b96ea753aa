"""``applications`` and ``documents``: what is listed, how, and ids that are read."""

import csv
import json
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from income_client import IncomeClient
from income_client.testing import IncomeService, LoopRunner, make_record
from tests.support.cli import Cli, Running
from tests.support.emulated import documents_of, ids_in, parsed, served
from tests.support.payloads import row_of_list
from tests.support.processes import Terminal, beside, until
from tests.support.proxies import changing, malformed_rows

FULL: Final = int(datetime(2026, 6, 1, 8, 30, tzinfo=UTC).timestamp())
PRESENT: Final = datetime(2026, 6, 30, 12)  # noqa: DTZ001 - the service's times carry no zone
several_pages: Final = pytest.mark.income_service(applications=1500)
pytestmark = pytest.mark.income_service(applications=3)


@several_pages
def test_each_application_comes_once(shell: Cli) -> None:
    ran = shell("applications")
    assert (ran.status, ran.stderr) == (0, "")
    assert sorted(ids_in(ran.stdout)) == sorted(shell.service.ids)
    assert json.loads(ran.lines[0]).keys() == row_of_list().keys()
    assert len(shell("applications", "-q", "--limit", "7").lines) == 7
    rows = shell("applications", "-o", "csv", "--limit", "7").lines
    assert len(list(csv.DictReader(rows))) == 7
    assert len(json.loads(shell("applications", "-o", "json", "--limit", "2000").stdout)) == 1500


@pytest.mark.income_service(applications=[*[FULL] * 1100, *range(FULL - 50, FULL)])
def test_a_saturated_second_is_reported(shell: Cli) -> None:
    """All rows that the service returns are listed, the second is named, and the status is 1."""
    ran = shell("applications", "-q")
    assert ran.status == 1
    assert "2026-06-01T08:30:00" in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert len(set(ran.lines)) == 1050


@pytest.mark.parametrize(
    "command",
    [
        "applications -q",
        "applications -q --limit 3",
        "download --updated-after beginning --to files --allow-host 127.0.0.1",
    ],
)
def test_malformed_rows_are_reported_and_hide_no_other(command: str, shell: Cli) -> None:
    *two, other = shell.service.ids
    with malformed_rows(shell.service, *two) as row:
        ran = shell(*command.split(), env=row.env)
    assert ran.status == 1
    assert all(ran.stderr.count(f"application {one}: ") == 1 for one in two)
    assert ran.lines
    assert all(other in line for line in ran.lines)


def test_a_malformed_page_ends_it(shell: Cli) -> None:
    """A fault of the whole page comes again with each attempt: it is reported after one request."""

    def rename(piece: bytes) -> bytes:
        return piece.replace(b'"updated_before"', b'"updated_behind"')

    with beside(changing(shell.service.url, replies=rename)) as port:
        ran = shell("applications", "-q", env={"INCOME_BASE_URL": f"http://127.0.0.1:{port}"})
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "$.updated_before" in ran.stderr


# Spans of updates


@pytest.mark.income_service(applications=200)
def test_a_span_is_measured_by_the_service_clock(
    shell: Cli, income_client: IncomeClient, income_run: LoopRunner
) -> None:
    bounds = (PRESENT - timedelta(days=7), PRESENT - timedelta(days=1))
    expected = {row.application_id for row in income_run(income_client.list_applications(*bounds))}
    ran = shell("applications", "-q", "--updated-after", "7d", "--updated-before", "1d")
    assert (ran.status, ran.stderr) == (0, "")
    assert set(ran.lines) == expected
    assert 0 < len(expected) < 200


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("applications --updated-after 1d --updated-before 2026-06-01", "later than --updated-b"),
        ("download --to files --updated-after 2100-01-01", "is in the future"),
        ("export --to all --updated-after 2948w", "2948w reaches before 1970"),
        ("export --to all --updated-after 1d --updated-before 7d", "and ends before, at"),
        ("export --to all --updated-after 2026-06-30T12:00:01", ""),
        ("poll --store polls.db --once --start 2948w", "begins: write beginning for"),
        ("poll --store polls.db --once --start 2100-01-01", "T00:00:00 is in the future"),
    ],
)
def test_a_span_without_time_in_it_is_status_2(line: str, said: str, shell: Cli) -> None:
    ran = shell(*line.split())
    assert (ran.status, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert {path.name for path in shell.folder.iterdir()} <= {"home", "polls.db"}


def test_an_empty_span_is_reported(shell: Cli) -> None:
    empty = ("applications", "--updated-after", "2026-06-30T11:59:59")
    ran, quiet = shell(*empty), shell(*empty, "-q")
    assert (ran.status, ran.stdout) == (0, "")
    assert "no application" in ran.stderr
    assert (quiet.status, quiet.stdout, quiet.stderr) == (0, "", "")


# A limit


@pytest.mark.income_service(applications=2000)
def test_a_few_applications_are_one_page(shell: Cli) -> None:
    for limit, span in ((1, ()), (1000, ("--updated-after", "60d", "--updated-before", "1d"))):
        before = shell.service.requests.count("list_applications")
        ran = shell("applications", "-q", "--limit", str(limit), *span)
        assert len({*ran.lines} & {*shell.service.ids}) == len(ran.lines) == limit
        assert shell.service.requests.count("list_applications") - before <= 1 + bool(span)


@pytest.mark.income_service(applications=500, max_span=86_400)
def test_a_limited_list_keeps_to_the_span_where_windows_are_narrowed(shell: Cli) -> None:
    span = ("--updated-after", "2026-06-01", "--updated-before", "2026-06-20")
    every = shell("applications", "-q", *span)
    some = shell("applications", "-q", "--limit", "50", *span)
    assert len(some.lines) == 50
    assert set(some.lines) < set(every.lines)


# --reference


def test_a_reference_lists_the_one_application_that_has_it(shell: Cli) -> None:
    row = json.loads(shell("applications", "--limit", "1").stdout)
    ran = shell("applications", "--reference", row["application_reference_id"])
    assert (ran.status, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == row
    quiet = shell("applications", "-q", "--reference", row["application_reference_id"])
    assert quiet.stdout == f"{row['application_id']}\n"
    none = shell("applications", "--reference", "LOAN-none ")
    assert (none.status, none.stdout) == (1, "")
    assert none.stderr.endswith('has the reference "LOAN-none "\n')
    # A reference in place of an id has a hint.
    ran = shell("application", "it is")
    assert (ran.status, ran.stdout) == (1, "")
    assert "404 Not Found" in ran.stderr
    assert "income-client applications --reference 'it is'" in ran.stderr


# documents, --type, and ids from standard input, which others read too


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
    """Columns with the same value in each row are dropped first, and no id is cut."""
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
    """The status is 1, since the type may be misspelt; for a type of the contract, it is 0."""
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
    """Each is asked for once, however often it comes."""
    first, second, *_ = shell.service.ids

    def write(running: Running) -> None:
        running.write(f"{first}\n")
        until(lambda: shell.service.requests.count("get_documents"))
        running.write(f"{first}\n{second}\n{second}\n")

    assert shell(*shlex.split(command), during=write).status == 0
    assert shell.service.requests.count("get_documents") == 2


@every
def test_a_terminal_says_that_it_is_read(command: str, shell: Cli) -> None:

    def type_one(running: Running) -> None:
        running.stdout.wait_for("ids are read from this terminal; Ctrl-D ends them")
        running.write(f"{shell.service.ids[0]}\n\x04")

    assert shell(*shlex.split(command), terminal=Terminal(), during=type_one).status == 0
