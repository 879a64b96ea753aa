"""``income-client download`` before a person: bars while files are on their way, then a line."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.support.application_payloads import application_of, paystub
from tests.support.cli import Cli, Running, Terminal
from tests.support.downloading import FILES, Download
from tests.support.served import documents_of, served

STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
HALF_WAY: Final = "/300.0 kB"
large: Final = pytest.mark.income_service(applications=2, file_bytes=300_000)


@pytest.fixture
def download(service_cli: Cli, income_service: IncomeService, tmp_path: Path) -> Download:
    """Downloads into a folder of its own."""
    return Download(service_cli, income_service, tmp_path / "files")


@pytest.fixture
def nowhere() -> Iterator[int]:
    """Where standard output goes, so that the terminal is left to bars."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def stalled(income_service: IncomeService) -> None:
    """Have every file stop half-way."""
    income_service.faults.add(Fault("stall", times=None, keep=150_000, path=FILES))


def interrupting(*texts: str) -> Callable[[Running], None]:
    """Return what interrupts the command once these were on its terminal."""

    def stop(running: Running) -> None:
        for text in texts:
            running.stderr.wait_for(text)
        running.interrupt()

    return stop


@large
@pytest.mark.usefixtures("stalled")
def test_each_file_has_a_bar_and_all_together_one(
    download: Download, nowhere: int, income_service: IncomeService
) -> None:
    """A file on its way shows its bytes; in the end only the summary remains."""
    terminal = Terminal(columns=200)
    shown = download(terminal=terminal, stdout=nowhere, during=interrupting(HALF_WAY))
    assert shown.status == 130
    text = STYLE.sub("", shown.screen)
    assert re.search(r"[01] of 2 applications\b", text)
    row = re.search(r"(doc-\S+) .* \d+\.\d/300\.0 kB", text)
    assert row
    assert row[1] in documents_of(income_service)
    (summary,) = terminal.standing(shown.screen)
    assert "0 new, 0 there already, 0 failed" in summary


@large
@pytest.mark.usefixtures("stalled")
def test_a_failure_remains_above_the_bars(
    download: Download, nowhere: int, income_service: IncomeService
) -> None:
    """It is a line of its own."""
    lost, *_ = documents_of(income_service)
    income_service.faults.clear()
    income_service.faults.add(
        Fault("status", status=404, times=None, path=f"*/{lost}*"),
        Fault("stall", times=None, keep=150_000, path=FILES),
    )
    terminal = Terminal(columns=200)
    shown = download(terminal=terminal, stdout=nowhere, during=interrupting(HALF_WAY, lost))
    failed, summary = terminal.standing(shown.screen)
    assert lost in failed
    assert "1 failed" in summary


@pytest.mark.income_service(applications=20, file_bytes=300_000)
@pytest.mark.usefixtures("stalled")
@pytest.mark.parametrize("rows", [3, 4, 8, 24])
def test_bars_never_fill_the_terminal(
    rows: int, download: Download, nowhere: int, income_service: IncomeService
) -> None:
    """However many files are on their way, nothing scrolls, and dots stand for those left out."""
    assert len(documents_of(income_service)) > 40
    terminal = Terminal(rows=rows)
    command = ("--concurrency", "40")
    stop = interrupting("of 20 applications", "...")
    shown = download(*command, terminal=terminal, stdout=nowhere, during=stop)
    assert len(terminal.standing(shown.screen)) <= 2


@large
@pytest.mark.usefixtures("stalled")
@pytest.mark.parametrize("columns", [10, 20, 40])
def test_bars_fit_a_narrow_terminal(columns: int, download: Download, nowhere: int) -> None:
    """No bar is so long that the terminal would break it, and none remains."""
    terminal = Terminal(columns=columns)
    shown = download(terminal=terminal, stdout=nowhere, during=interrupting("doc-"))
    remaining = " ".join(terminal.standing(shown.screen))
    assert "doc-" not in remaining
    assert "0 new" in remaining.replace(" ", "").replace("0new", "0 new")


@pytest.mark.income_service(applications=5)
def test_paths_on_the_same_terminal_stay_whole(download: Download) -> None:
    """Where both streams are one terminal, the bars make way for the paths."""
    terminal = Terminal(columns=300)
    *paths, summary = terminal.standing(download(terminal=terminal).screen)
    assert paths == [str(download.folder / entry["path"]) for entry in download.listed]
    assert summary.startswith("income-client: ")


@large
def test_dumb_terminals_and_quiet_are_respected(download: Download, nowhere: int) -> None:
    """A terminal that cannot erase gets the summary alone; with --quiet there is nothing."""
    shown = download(terminal=Terminal(columns=200), stdout=nowhere, env={"TERM": "dumb"})
    assert (shown.status, shown.screen.count("\n")) == (0, 1)
    assert "\x1b" not in shown.screen
    assert download("--quiet", terminal=Terminal(), stdout=nowhere).screen == ""


@pytest.mark.income_service(applications=1, file_bytes=300_000)
@pytest.mark.usefixtures("stalled")
@pytest.mark.parametrize(
    "name", ["doc\x1b[2J\x07\u202e\n", "[red]doc[/red] {task}", "doc" + "d" * 300], ids=ascii
)
def test_a_name_cannot_act_on_the_terminal(
    name: str, download: Download, nowhere: int, income_service: IncomeService
) -> None:
    """A document's id is shown as it is spelt but for control characters, and is cut."""
    one = income_service.ids[0]
    address = next(iter(served(income_service, one, "/documents")["documents"].values()))[0]["url"]
    stub = {**paystub(1), "document_id": name, "url": address}
    body = application_of({}, stubs=(stub,)).bodies[1]
    body = body.replace(b'"app-1"', json.dumps(one).encode())
    income_service.faults.add(Fault("body", path="*/documents", body=body, times=None))
    shown = download(terminal=Terminal(), stdout=nowhere, during=interrupting(HALF_WAY))
    text = STYLE.sub("", shown.screen)
    assert name[:3] in text
    assert "[red]doc" in text or not name.startswith("[red]")
    assert "d" * 60 not in text
    assert not any(each in text for each in ("\x1b[2J", "\x07", "\u202e"))
