"""``income-client applications`` and ``find``: rows of the list, each application once."""

import csv
import json
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import parse_qs

import pytest

from income_client import IncomeClient
from income_client.testing import IncomeService, LoopRunner
from tests.support.cli import Cli, Terminal
from tests.support.served import ids_in

FULL: Final = int(datetime(2026, 6, 1, 8, 30, tzinfo=UTC).timestamp())
PRESENT: Final = datetime(2026, 6, 30, 12)  # noqa: DTZ001 - the service's times carry no zone
several_pages: Final = pytest.mark.income_service(applications=1500)
few: Final = pytest.mark.income_service(applications=3)


@several_pages
def test_each_application_comes_once(service_cli: Cli, income_service: IncomeService) -> None:
    """Every application is listed once, as the service's own JSON."""
    ran = service_cli("applications")
    assert (ran.status, ran.stderr) == (0, "")
    assert sorted(ids_in(ran.stdout)) == sorted(income_service.ids)
    assert set(json.loads(ran.lines[0])) == {
        "application_id", "application_reference_id", "application_date",
    }  # fmt: skip


@pytest.mark.income_service(applications=200)
def test_a_span_is_measured_by_the_service_clock(
    service_cli: Cli, income_client: IncomeClient, income_run: LoopRunner
) -> None:
    """Seven days back are the rows that a client finds in the same span of service time."""
    bounds = (PRESENT - timedelta(days=7), PRESENT - timedelta(days=1))
    expected = {row.application_id for row in income_run(income_client.list_applications(*bounds))}
    span = ("--updated-after", "7d", "--updated-before", "1d")
    ran = service_cli("applications", "-q", *span)
    assert (ran.status, ran.stderr) == (0, "")
    assert set(ran.lines) == expected
    assert 0 < len(expected) < 200


@few
@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("beginning", "1970-01-01T00:00:00"),
        ("99999999w", "1970-01-01T00:00:00"),
        ("90s", "2026-06-30T11:58:30"),
        ("5m", "2026-06-30T11:55:00"),
        ("5min", "2026-06-30T11:55:00"),
        ("12h", "2026-06-30T00:00:00"),
        ("7d", "2026-06-23T12:00:00"),
        ("2w", "2026-06-16T12:00:00"),
        ("2026-01-31", "2026-01-31T00:00:00"),
        ("2026-01-31T12:00:05Z", "2026-01-31T12:00:05"),
        ("2026-01-31T12:00:05+02:00", "2026-01-31T10:00:05"),
        ("2026-01-31T12:00:05.75", "2026-01-31T12:00:05"),
    ],
)
def test_times_are_words_spans_and_iso_8601(
    text: str, bound: str, service_cli: Cli, income_service: IncomeService
) -> None:
    """Spans go back from the service's present; zones are converted; sub-seconds widen the span."""
    assert service_cli("applications", "--updated-after", text).status == 0
    queries = [parse_qs(each.query) for each in income_service.requests.of("list_applications")]
    assert [bound] in [query.get("updated_after") for query in queries]


@few
@pytest.mark.parametrize("text", ["", "7", "d", "-7d", "7 d", "7y", "1.5h", "yesterday", "\u0667d"])
def test_other_times_are_refused_with_examples(text: str, service_cli: Cli) -> None:
    """The message names times that would be understood."""
    ran = service_cli("applications", f"--updated-after={text}")
    assert (ran.status, ran.stdout) == (2, "")
    assert all(word in ran.words.replace("│", "") for word in ("7d", "12h", "now", "beginning"))


@few
@pytest.mark.parametrize("end", ["beginning", "99999999w"])
def test_a_span_may_end_where_time_begins(end: str, service_cli: Cli) -> None:
    """An early end is an end: nothing was updated before it."""
    ran = service_cli("applications", "-q", "--updated-before", end)
    assert (ran.status, ran.stdout) == (0, "")


@several_pages
def test_no_more_than_the_limit(service_cli: Cli) -> None:
    """A limit ends the list early, whatever its form."""
    assert len(service_cli("applications", "-q", "--limit", "7").lines) == 7
    rows = service_cli("applications", "-o", "csv", "--limit", "7").lines
    assert len(list(csv.DictReader(rows))) == 7
    ran = service_cli("applications", "--output", "json", "--limit", "2000")
    assert len(json.loads(ran.stdout)) == 1500


@pytest.mark.income_service(applications=[*[FULL] * 1100, *range(FULL - 50, FULL)])
def test_a_saturated_second_is_reported(service_cli: Cli) -> None:
    """Its rows are listed as far as the service tells them, it is named, and the status is 1."""
    ran = service_cli("applications", "-q")
    assert ran.status == 1
    assert "2026-06-01T08:30:00" in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert len(set(ran.lines)) == 1050


@several_pages
def test_a_terminal_shows_a_table_and_progress(service_cli: Cli) -> None:
    """Rows are printed above a line of progress, which is erased in the end."""
    shown = service_cli("applications", "--updated-after", "9d", terminal=Terminal())
    assert shown.status == 0
    assert "\x1b[2K\x1b[1mApplication" in shown.screen
    assert "100% of the period" in shown.screen
    assert "requests" in shown.screen
    assert shown.screen.replace("\r\n", "\n").splitlines()[-1].endswith("\x1b[2K")


@few
def test_an_empty_span_is_reported(service_cli: Cli) -> None:
    """A person and a script are informed, unless ids alone were asked for."""
    empty = ("applications", "--updated-after", "2026-06-30T11:59:59")
    assert "no application" in service_cli(*empty, terminal=Terminal()).screen
    ran = service_cli(*empty)
    assert (ran.status, ran.stdout) == (0, "")
    assert "no application" in ran.stderr
    ran = service_cli(*empty, "-q")
    assert (ran.status, ran.stdout, ran.stderr) == (0, "", "")


@few
def test_find_gives_the_one_with_a_reference(service_cli: Cli) -> None:
    """The application is found by the partner's reference, as a row or as an id alone."""
    row = json.loads(service_cli("applications", "--limit", "1").stdout)
    ran = service_cli("find", row["application_reference_id"])
    assert (ran.status, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == row
    quiet = service_cli("find", "-q", row["application_reference_id"])
    assert quiet.stdout == f"{row['application_id']}\n"


@few
def test_find_reports_that_there_is_none(service_cli: Cli) -> None:
    """The status is 1, and the reference is repeated."""
    ran = service_cli("find", "LOAN-none")
    assert (ran.status, ran.stdout) == (1, "")
    assert "LOAN-none" in ran.stderr


@few
@pytest.mark.parametrize("arguments", [("find", ""), ("find", "a\x1bb"), ("application", "")])
def test_an_impossible_id_is_misuse(
    arguments: tuple[str, ...], service_cli: Cli, income_service: IncomeService
) -> None:
    """Nothing is sent: one line, and status 2."""
    ran = service_cli(*arguments)
    assert (ran.status, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    assert len(income_service.requests) == 0
