"""``income-client demo`` on pipes, on a terminal, interrupted and in disagreement."""

import os
import re
import signal
import subprocess
from typing import Final

import pytest
from attrs import evolve

from income_client import IncomeClient
from income_client.cli.demo import conclude, read_service
from income_client.cli.output.screen import Stages
from income_client.emulator import Emulator, ServiceRules
from income_client.emulator.seconds import DAY
from tests.cli.entry import Terminal, run, run_on_terminal, start

_SMALL: Final = ("demo", "--applications", "300")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*(3[0-7]|38;|9[0-7])[0-9;]*m")
_ESCAPE: Final = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")


def test_pipes_get_plain_text_and_no_progress() -> None:
    """Standard output in a pipe is plain text, standard error is silent, and the counts agree."""
    ended = run(*_SMALL)
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert lines[0] == "Income demo: an emulated service, all data invented"
    assert "Applications found  300  of 300 existing" in lines
    assert any(re.fullmatch(r"List requests +\d+  1 at the least", line) for line in lines)
    assert any(re.fullmatch(r"Tokens requested +1  for \d+ requests", line) for line in lines)
    assert lines[-1] == "The counts agree: nothing lost, nothing twice."
    assert "\x1b" not in ended.stdout
    assert all(line == line.rstrip() and len(line) <= 80 for line in lines)


def test_amounts_stand_right_aligned_beside_their_bars() -> None:
    """The chart has a line a year, its longest bar for the largest amount."""
    lines = run(*_SMALL).stdout.splitlines()
    chart = [line for line in lines if re.match(r"20\d\d", line)]
    assert len(chart) >= 2
    assert len({len(line) for line in chart}) == 1
    amounts = [float(line.split()[-1].replace(",", "")) for line in chart]
    bars = [line.count("█") for line in chart]
    assert bars[amounts.index(max(amounts))] == max(bars) == 32
    assert "so far" in chart[-1]


def test_a_terminal_sees_a_bar_for_each_stage() -> None:
    """On a terminal both stages have a bar, and no line is wider than it."""
    shown = run_on_terminal(*_SMALL)
    assert shown.status == 0
    assert _COLOUR.search(shown.screen)
    text = _ESCAPE.sub("", shown.screen)
    assert re.search(r"Walking the list +━+ 100% 300 applications", text)
    assert re.search(r"Reading records +━+ 100% \d+ records, \d+ documents", text)
    assert "The counts agree" in text
    assert max(map(len, re.split(r"[\r\n]+", text))) <= 80
    assert shown.screen.count("\x1b[?25l") == shown.screen.count("\x1b[?25h") == 1


def test_progress_stays_out_of_a_piped_summary() -> None:
    """The summary is plain in a pipe, beside which no bars are drawn."""
    shown = run_on_terminal(*_SMALL, pipe_stdout=True)
    assert (shown.status, shown.screen) == (0, "")
    assert "The counts agree" in shown.piped
    assert "\x1b" not in shown.piped


def test_no_color_is_respected() -> None:
    """NO_COLOR takes the colours from a terminal."""
    assert not _COLOUR.search(run_on_terminal(*_SMALL, NO_COLOR="1").screen)


def test_a_dumb_terminal_is_left_alone() -> None:
    """A terminal that cannot move its cursor gets the summary only."""
    shown = run_on_terminal(*_SMALL, TERM="dumb")
    assert "\x1b" not in shown.screen
    assert "Walking" not in shown.screen
    assert "The counts agree" in shown.screen


def test_ascii_output_has_ascii_bars() -> None:
    """Where the output's encoding knows no blocks, the bars are made of number signs."""
    ended = run(*_SMALL, PYTHONIOENCODING="ascii")
    assert ended.returncode == 0
    assert ended.stdout.isascii()
    assert "#" * 32 in ended.stdout


def test_a_closed_pipe_ends_it_quietly() -> None:
    """A reader that goes away is no error message, and the status says what happened."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = start("demo", "--applications", "30", stdout=write_end)
    os.close(write_end)
    _, errors = process.communicate(timeout=50)
    assert (process.returncode, errors) == (141, "")


def test_ctrl_c_leaves_130_and_no_traceback() -> None:
    """Interrupting it gives back the cursor and says nothing more."""
    terminal = Terminal()
    process = start(
        "demo", "--applications", "60000", stdout=subprocess.DEVNULL, stderr=terminal.device
    )
    terminal.attend()
    terminal.wait_for("Reading records")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=50) == 130
    shown = terminal.close()
    assert "Traceback" not in shown
    assert "Error" not in shown
    assert shown.rstrip().endswith("\x1b[?25h")


async def test_counts_that_disagree_fail(capsys: pytest.CaptureFixture[str]) -> None:
    """Applications that the service has and does not list are counted, said, and exit with 1."""
    async with Emulator(100) as service:
        service.rules = ServiceRules(oldest=service.now - 30 * DAY)
        findings = await read_service(service, Stages())
    missing = 100 - len(findings.found)
    assert missing > 20
    assert conclude(findings) == 1
    assert capsys.readouterr().out.endswith(f"The counts disagree: {missing} missing.\n")


async def test_every_disagreement_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """What does not exist, what came twice and what was not read disagree as well."""
    async with Emulator(50) as service:
        findings = await read_service(service, Stages())
    wrong = evolve(
        findings,
        found=(*findings.found, "app-nobody", findings.found[0]),
        recent=(*findings.recent, "app-nobody"),
    )
    assert conclude(findings) == 0
    assert conclude(wrong) == 1
    said = capsys.readouterr().out
    assert "disagree: 1 unknown to the service, 1 twice, 1 recent and not read." in said


async def test_a_service_without_recent_updates_has_no_chart() -> None:
    """With nothing to read, the summary is shorter and agrees."""
    async with Emulator([1_700_000_000]) as service:
        service.rules = ServiceRules(oldest=0)
        findings = await read_service(service, Stages())
    assert findings.harvest.borrower is None
    assert conclude(evolve(findings, found=tuple(findings.existing))) == 0


async def test_the_summary_names_nobody() -> None:
    """No name, number, address or employer of an applicant stands in the output."""
    printed = run(*_SMALL).stdout
    async with Emulator(300) as service, IncomeClient(service.url, auth=service.oauth2) as client:
        async for record in client.fetch_records(service.world.ids):
            for person in record.application.applicants.values():
                private = (person.first_name, person.last_name, person.email, person.ssn)
                assert not any(re.search(rf"\b{re.escape(text)}\b", printed) for text in private)


def test_a_narrow_terminal_shortens_bars_and_no_figure() -> None:
    """Where there is little room, the amounts stay whole."""
    text = _ESCAPE.sub("", run_on_terminal(*_SMALL, pipe_stdout=True, COLUMNS="40").piped)
    assert max(map(len, text.splitlines())) <= 40
    amounts = [line.split()[-1] for line in text.splitlines() if line.startswith("20")]
    assert amounts
    assert all(re.fullmatch(r"[\d,]+\.\d\d", amount) for amount in amounts)
