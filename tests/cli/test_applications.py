"""``income-client applications`` and ``find``: rows of the list, each application once."""

import asyncio
import csv
import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.text import Text

from income_client import IncomeClient, PageCovered, Window
from income_client.cli.applications import _Progress
from income_client.cli.output.status_line import StatusLine
from income_client.emulator import Emulator, Fault
from tests.cli.entry import Shown, run, run_on_terminal, start
from tests.cli.polling import ended, ids_of, variables


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """A service whose list takes more than one page."""
    async with Emulator(1500) as emulator:
        yield emulator


async def listed(service: Emulator, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end while the service goes on."""
    return await asyncio.to_thread(run, *arguments, **variables(service))


async def looked_at(service: Emulator, *arguments: str) -> Shown:
    """Run it on a terminal."""
    together: dict[str, Any] = dict(variables(service))
    return await asyncio.to_thread(run_on_terminal, "applications", *arguments, **together)


async def test_each_application_comes_once(service: Emulator) -> None:
    """All of them, as the service's own JSON."""
    ran = await listed(service, "applications")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert sorted(ids_of(ran.stdout)) == sorted(service.world.ids)
    assert set(json.loads(ran.stdout.splitlines()[0])) == {
        "application_id",
        "application_reference_id",
        "application_date",
    }


async def test_a_span_is_measured_by_the_services_clock(service: Emulator) -> None:
    """Seven days back from its present are the same rows as by a client that was told so."""
    async with IncomeClient(service.url, auth=service.basic) as client:
        now = (await client.get_application_page(limit=1)).updated_before
        bounds = (now - timedelta(days=7), now - timedelta(days=1))
        expected = {row.application_id async for row in client.list_applications(*bounds)}
    span = ("--updated-after", "7d", "--updated-before", "1d")
    ran = await listed(service, "applications", "-q", *span)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert set(ran.stdout.split()) == expected
    assert 0 < len(expected) < 1500


async def test_no_more_than_were_asked_for(service: Emulator) -> None:
    """A limit ends it early, whatever the form."""
    assert len((await listed(service, "applications", "-q", "--limit", "7")).stdout.split()) == 7
    rows = (await listed(service, "applications", "-o", "csv", "--limit", "7")).stdout
    assert len(list(csv.DictReader(rows.splitlines()))) == 7
    ran = await listed(service, "applications", "--output", "json", "--limit", "2000")
    assert len(json.loads(ran.stdout)) == 1500


async def test_a_second_that_is_too_full_is_told() -> None:
    """Its rows are listed as far as there are any, the second is named, and the status is 1."""
    second = int(datetime(2026, 6, 1, 8, 30, tzinfo=UTC).timestamp())
    async with Emulator([*[second] * 1100, *range(second - 50, second)]) as service:
        ran = await listed(service, "applications", "-q")
    assert ran.returncode == 1
    assert ran.stderr == (
        "income-client: the second 2026-06-01T08:30:00 holds more than can be listed\n"
    )
    assert len(set(ran.stdout.split())) == 1050


async def test_a_failure_is_one_line(service: Emulator) -> None:
    """The request that failed is named, and no array is closed."""
    service.faults.add(Fault("status", path="/v1/income/applications", status=403, times=None))
    ran = await listed(service, "applications", "-o", "json")
    assert ran.returncode != 0
    assert ran.stderr.startswith("income-client: ")
    assert ran.stderr.count("\n") == 1
    assert ran.stdout == "[\n"


async def test_a_closed_pipe_ends_it_quietly(service: Emulator) -> None:
    """Whoever has seen enough goes away, and nothing is said."""
    together: dict[str, Any] = dict(variables(service))
    process = start("applications", **together)
    assert process.stdout is not None
    await asyncio.to_thread(process.stdout.readline)
    process.stdout.close()
    process.stdout = None
    _, errors = await ended(process)
    assert (process.returncode, errors) == (141, "")


async def test_on_a_terminal_it_is_a_table_with_progress(service: Emulator) -> None:
    """Rows stand above a line that tells how far it is, and that line does not stay."""
    shown = await looked_at(service, "--updated-after", "9d")
    assert shown.status == 0
    lines = shown.screen.replace("\r\n", "\n").splitlines()
    assert "\x1b[K\x1b[1mApplication" in shown.screen
    assert "% of the span" in shown.screen
    assert lines[-1].endswith("\x1b[K")
    assert "requests" in shown.screen


class NotedLine(StatusLine):
    """A line that keeps what it would draw."""

    def draw(self, parts: Sequence[Text]) -> None:
        """Keep it."""
        self.words = [part.plain for part in parts]


@pytest.mark.parametrize(
    ("count", "fraction", "words"),
    [
        (1, 1.0, ["1 application", "100% of the span", "1 request"]),
        (1200, 0.9999, ["1,200 applications", "99% of the span", "1,200 requests"]),
    ],
)
def test_progress_is_told_to_its_end(count: int, fraction: float, words: list[str]) -> None:
    """One is one, and all of the span is all of it, though nothing less is."""
    line = NotedLine()
    progress = _Progress(line, has_beginning=True)
    covered = PageCovered(
        window=Window(0, 1), rows=count, covered_fraction=fraction, requests=count
    )
    progress.take(covered)
    assert line.words == words


async def test_before_another_command_it_draws_nothing(service: Emulator) -> None:
    """That one has the terminal to itself."""
    together: dict[str, Any] = dict(variables(service))
    shown = await asyncio.to_thread(
        run_on_terminal, "applications", "-q", pipe_stdout=True, **together
    )
    assert (shown.status, shown.screen) == (0, "")
    assert sorted(shown.piped.split()) == sorted(service.world.ids)


async def test_an_empty_span_is_said_to_be_empty(service: Emulator) -> None:
    """Whoever looks is told so, and so is a script, unless it wants ids alone."""
    shown = await looked_at(service, "--updated-after", "2100-01-01")
    assert "no application was updated in that span" in shown.screen
    empty = ("applications", "--updated-after", "2100-01-01")
    ran = await listed(service, *empty)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr == "income-client: no application was updated in that span\n"
    ran = await listed(service, *empty, "-q")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


async def test_find_gives_the_one_with_a_reference(service: Emulator) -> None:
    """By the partner's own reference, as a row or as an id alone."""
    some = json.loads((await listed(service, "applications", "--limit", "1")).stdout)
    ran = await listed(service, "find", some["application_reference_id"])
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == some
    quiet = await listed(service, "find", "-q", some["application_reference_id"])
    assert quiet.stdout == f"{some['application_id']}\n"


async def test_find_tells_that_there_is_none(service: Emulator) -> None:
    """The status is 1, and the reference is repeated."""
    ran = await listed(service, "find", "LOAN-none")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "income-client: no application has the reference LOAN-none\n"


@pytest.mark.parametrize("bounds", [("2026-02-01", "2026-01-01"), ("1d", "7d")])
async def test_a_span_that_ends_before_it_begins_is_misuse(
    service: Emulator, bounds: tuple[str, str]
) -> None:
    """That is plain before anybody is asked: status 2."""
    after, before = bounds
    ran = await listed(
        service, "applications", "--updated-after", after, "--updated-before", before
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "income-client: --updated-after is later than --updated-before\n"
    assert service.requests == []


@pytest.mark.parametrize("arguments", [("find", ""), ("find", "a\x1bb"), ("application", "")])
async def test_what_can_be_no_name_of_an_application_is_misuse(
    service: Emulator, arguments: tuple[str, ...]
) -> None:
    """Nobody is asked about it: one line, and status 2."""
    ran = await listed(service, *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    assert service.requests == []
