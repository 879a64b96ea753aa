"""``income-client demo``: what it prints in pipes and on terminals, and when it fails."""

import re
import threading
import webbrowser
from typing import Any, Final
from unittest import mock
from urllib.request import urlopen

import pytest

from income_client.emulator import Emulator, ServiceRules
from income_client.testing import IncomeService
from tests.support.cli import Cli, Running, when_shown
from tests.support.emulated import served
from tests.support.processes import Ran, Terminal

SMALL: Final = ("demo", "--applications", "300")
ESCAPE: Final = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Output of one run into pipes."""
    return Cli(tmp_path_factory.mktemp("demo"))(*SMALL)


def test_a_pipe_gets_the_summary_alone(printed: Ran) -> None:
    assert (printed.status, printed.stderr) == (0, "")
    lines = printed.lines
    assert any(re.fullmatch(r"Applications found +300  of 300 existing", line) for line in lines)
    assert any(re.fullmatch(r"List requests +\d+  1 at the least", line) for line in lines)
    assert any(re.fullmatch(r"Tokens requested +1  for \d+ requests", line) for line in lines)
    assert "The counts agree" in lines[-1]
    assert "\x1b" not in printed.stdout
    assert all(line == line.rstrip() and len(line) <= 80 for line in lines)
    # Amounts are aligned beside their bars.
    chart = [line for line in lines if re.match(r"20\d\d", line)]
    assert len(chart) >= 2
    assert len({len(line) for line in chart}) == 1
    longest = max(chart, key=lambda line: float(line.split()[-1].replace(",", "")))
    assert longest.count("█") == max(line.count("█") for line in chart) == 32
    assert "so far" in chart[-1]


def test_the_summary_names_nobody(printed: Ran) -> None:
    with IncomeService(300) as service:
        for one in service.ids[:40]:
            for person in served(service, one)["applicants"].values():
                for field in ("first_name", "last_name", "email", "ssn"):
                    assert not re.search(rf"\b{re.escape(person[field])}\b", printed.stdout)


def test_a_terminal_shows_a_bar_for_each_stage(cli: Cli) -> None:
    """Little room shortens bars and no figure."""
    terminal = Terminal(columns=60)
    shown = cli(*SMALL, terminal=terminal)
    assert shown.status == 0
    text = ESCAPE.sub("", shown.screen)
    assert re.search(r"Walking the list .* 100% 300 applications", text)
    assert re.search(r"Reading records .* 100% \d+ records, \d+ documents", text)
    assert max(map(len, re.split(r"[\r\n]+", text))) <= 60
    assert shown.screen.count("\x1b[?25l") == shown.screen.count("\x1b[?25h")
    chart = [line for line in terminal.standing(shown.screen) if line.startswith("20")]
    assert chart
    assert all(re.fullmatch(r"20.* [█▏▎▍▌▋▊▉]+ +[\d,]+\.\d\d", line) for line in chart)


def test_without_a_recent_update_there_is_no_chart(cli: Cli) -> None:
    """The update of a single application is older than what is read."""
    ran = cli("demo", "--applications", "1")
    assert ran.status == 0
    assert "Income by year" not in ran.stdout
    assert "The counts agree" in ran.lines[-1]


def test_ctrl_c_leaves_the_cursor_visible(cli: Cli) -> None:
    stop = when_shown("Reading records")
    shown = cli("demo", "--applications", "5000", terminal=Terminal(), during=stop)
    assert shown.status == 130
    assert "Error" not in shown.screen
    assert "\x1b[?25l" not in shown.screen


def test_counts_that_disagree_are_1(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Applications that the service has and does not list are counted as missing."""
    start = Emulator.start

    async def start_forgetful(self: Emulator, *arguments: Any) -> Any:
        self.rules = ServiceRules(oldest=self.now - 30 * 86_400)
        return await start(self, *arguments)

    monkeypatch.setattr(Emulator, "start", start_forgetful)
    ran = cli(*SMALL)
    assert ran.status == 1
    missing = re.search(r"(\d+) missing", ran.lines[-1])
    assert missing
    assert int(missing[1]) > 100


def test_the_page_is_opened_and_served_until_ctrl_c(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The browser is led to it, and reads each request there; without one the demo ends."""
    shown: list[str] = []
    has_read = threading.Event()

    def open_page(url: str) -> bool:
        with urlopen(url) as page:
            assert b"Income emulator" in page.read()
        while "get_documents" not in "".join(shown):
            with urlopen(f"{url}/emulator/requests") as requests:
                shown.append(requests.read().decode())
        has_read.set()
        return True

    def stop(running: Running) -> None:
        running.stderr.wait_for("Ctrl-C ends it")
        assert has_read.wait(50)
        running.interrupt()

    monkeypatch.setattr("webbrowser.get", lambda: None)
    monkeypatch.setattr("webbrowser.open", open_page)
    for name in ("_SHOWN_LATENCY", "_LOOK_SECONDS"):
        monkeypatch.setattr(f"income_client.cli.demo.{name}", 0.01)
    ran = cli("demo", "--applications", "40", "--open", during=stop)
    assert (ran.status, "The counts agree" in ran.lines[-1]) == (0, True)
    assert "list_applications" in "".join(shown)
    assert re.match(r"income-client: the browser opens http://127.0.0.1:\d+\n", ran.stderr)

    monkeypatch.setattr("webbrowser.get", mock.Mock(side_effect=webbrowser.Error))
    ran = cli("demo", "--applications", "40", "--open")
    assert ran.status == 0
    assert re.fullmatch(
        r"income-client: no browser was found; the page is at http://127.0.0.1:\d+\n", ran.stderr
    )
