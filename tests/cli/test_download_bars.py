"""``income-client download`` before a person: bars while files are under way, then a line."""

import asyncio
import io
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from income_client import DownloadProgress
from income_client.cli.downloads.bars import Bars
from income_client.cli.downloads.manifest import FileKey
from income_client.emulator import Emulator, Fault
from tests.cli.downloading import FILES, Command, documents_of
from tests.cli.entry import Terminal

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*(3[0-7]|38;|9[0-7])[0-9;]*m")
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
_CURSOR: Final = re.compile(r"\x1b\[\?25[lh]")
_UP: Final = re.compile(r"\x1b\[(\d+)A")


class Tty(io.StringIO):
    """Standard error that says it is a terminal, and keeps what it gets."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def looked_at(monkeypatch: pytest.MonkeyPatch, *, lines: int = 8, columns: int = 90) -> Tty:
    """Be a terminal from now on."""
    size = {"LINES": str(lines), "COLUMNS": str(columns)}
    for name, value in {"TERM": "xterm", "NO_COLOR": "1", **size}.items():
        monkeypatch.setenv(name, value)
    tty = Tty()
    monkeypatch.setattr(sys, "stderr", tty)
    return tty


def progress(document_id: str, received: int, total: int | None = 300_000) -> DownloadProgress:
    """Return how far a file has come."""
    return DownloadProgress(
        document_id=document_id,
        application_id="app-1",
        document_type="paystub",
        file=0,
        received=received,
        total=total,
    )


def key(document_id: str) -> FileKey:
    """Return which file a document's is."""
    return FileKey(application_id="app-1", document_type="paystub", document_id=document_id, file=0)


async def shown_of(
    command: Command,
    *arguments: str,
    is_shared: bool = False,
    until: tuple[str, ...] = (),
    **variables: str,
) -> str:
    """Run the command on a terminal to its end, or to SIGINT once something was seen there."""
    with Terminal() as terminal:
        streams = {
            "stdout": terminal.device if is_shared else subprocess.DEVNULL,
            "stderr": terminal.device,
        }
        with command.started(*arguments, **streams, **variables) as process:
            terminal.attend()
            for text in until:
                await asyncio.to_thread(terminal.wait_for, text)
            if until:
                process.send_signal(signal.SIGINT)
            await asyncio.to_thread(process.wait, 50)
            shown = await asyncio.to_thread(terminal.close)
    assert process.returncode == (130 if until else 0)
    return shown


def standing(shown: str) -> list[str]:
    """Return the lines that stand at the end, for who begins at the top of a tall terminal."""
    lines, row, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[\d*[A-Za-z]|[\r\n]|[^\x1b\r\n]+", _STYLE.sub("", shown)):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif piece == "\x1b[K":
            lines[row] = lines[row][:column]
        elif piece == "\x1b[J":
            lines[row:] = [lines[row][:column]]
        elif up := _UP.fullmatch(piece):
            row -= int(up[1])
        else:
            lines[row] = (
                lines[row][:column].ljust(column) + piece + lines[row][column + len(piece) :]
            )
            column += len(piece)
    return lines


async def test_a_bar_for_each_file_and_one_for_the_whole(tmp_path: Path) -> None:
    """What is under way has a bar with its bytes; at the end only the summary stands there."""
    async with Emulator(2, file_bytes=300_000) as service:
        service.faults.add(Fault("stall", times=None, keep=150_000, path=FILES))
        shown = await shown_of(Command(service, tmp_path), until=("/300.0 kB",))
        documents = documents_of(service)
    assert _COLOUR.search(shown)
    assert not _CURSOR.search(shown)
    text = _STYLE.sub("", shown)
    assert re.search(r"[01] of 2 applications +━+ 0 files, 0 bytes +0:00:\d\d", text)
    row = re.search(r"(doc-\S+) +━+[╸╺]?━* +\d+\.\d/300\.0 kB ", text)
    assert row
    assert row[1] in documents
    summary, rest = standing(shown)
    assert summary.startswith("income-client: 0 files, 0 new, 0 there already, 0 failed, ")
    assert rest == ""


async def test_what_fails_stands_above_the_bars(tmp_path: Path) -> None:
    """A failure is a line that stays."""
    async with Emulator(2, file_bytes=300_000) as service:
        lost, *_ = documents_of(service)
        service.faults.add(Fault("status", status=404, times=None, path=f"*/{lost}*"))
        service.faults.add(Fault("stall", times=None, keep=150_000, path=FILES))
        shown = await shown_of(Command(service, tmp_path), until=("/300.0 kB", lost))
    failed, summary, _ = standing(shown)
    assert lost in failed
    assert "1 failed" in summary


async def test_bars_leave_room_on_the_terminal(tmp_path: Path) -> None:
    """However many files are under way, their bars never are higher than the terminal."""
    async with Emulator(20, file_bytes=300_000) as service:
        assert len(documents_of(service)) > 40
        service.faults.add(Fault("stall", times=None, keep=150_000, path=FILES))
        command = Command(service, tmp_path)
        shown = await shown_of(command, "--concurrency", "40", until=("more",))
    assert max(int(up) for up in _UP.findall(shown)) == 22
    assert len(standing(shown)) == 2


async def test_paths_on_the_same_terminal_stay_whole(tmp_path: Path) -> None:
    """Where both streams are one terminal, the bars make way for the paths."""
    async with Emulator(9) as service:
        command = Command(service, tmp_path)
        *paths, summary, rest = standing(await shown_of(command, is_shared=True))
    assert paths == [str(tmp_path / entry["path"]) for entry in command.listed]
    assert summary.startswith("income-client: ")
    assert rest == ""


async def test_no_color_dumb_terminals_and_quiet_are_respected(tmp_path: Path) -> None:
    """NO_COLOR takes the colours; a terminal that cannot erase has the summary; --quiet nothing."""
    async with Emulator(2) as service:
        plain, dumb, quiet = await asyncio.gather(
            shown_of(Command(service, tmp_path / "plain"), NO_COLOR="1"),
            shown_of(Command(service, tmp_path / "dumb"), TERM="dumb"),
            shown_of(Command(service, tmp_path / "quiet"), "--quiet"),
        )
    assert "of 2 applications" in plain
    assert not _COLOUR.search(plain)
    assert "\x1b" not in dumb
    assert dumb.startswith("income-client: ")
    assert len(dumb.splitlines()) == 1
    assert quiet == ""


def test_a_bar_tells_bytes_and_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar has the bytes that are there and those that came in a second, not before it began."""
    screen = looked_at(monkeypatch)
    now = 0.0
    bars = Bars(1, get_time=lambda: now)
    for moment, received in ((0.0, 100_000), (1.0, 150_000), (2.0, 200_000)):
        now = moment
        bars.move(progress("doc-1", received))
    bars.draw()
    whole = standing(screen.getvalue())
    assert re.fullmatch(r"doc-1 +━+[╸╺]? +200\.0/300\.0 kB 50\.0 kB/s", whole[0].rstrip())
    assert re.fullmatch(r"0 of 1 application +0 files, 0 bytes 0:00:02", whole[1].rstrip())
    bars.move(progress("doc-1", 0))
    bars.move(progress("doc-2", 500, None))
    bars.draw()
    first, second, _ = standing(screen.getvalue())
    assert " 0.0/300.0 kB " in first
    assert " 500/? bytes " in second


def test_a_bar_goes_away_with_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has ended has no bar, and the whole moves on with it; nothing is left in the end."""
    screen = looked_at(monkeypatch)
    bars = Bars(2)
    for document_id in ("doc-1", "doc-2", "doc-3"):
        bars.move(progress(document_id, 100_000))
    bars.draw()
    for _ in range(3):
        bars.reach(1 / 3)
    bars.end(key("doc-2"))
    bars.end(key("doc-none"))
    bars.count(1, 20_000)
    bars.draw()
    first, second, whole = standing(screen.getvalue())
    assert (first.split()[0], second.split()[0]) == ("doc-1", "doc-3")
    assert whole.startswith("1 of 2 applications ")
    assert "1 file, 20.0 kB" in whole
    bars.clear()
    bars.clear()
    assert standing(screen.getvalue()) == [""]


@pytest.mark.parametrize("lines", [1, 2, 3, 4, 8, 40])
def test_there_are_no_more_bars_than_lines(monkeypatch: pytest.MonkeyPatch, lines: int) -> None:
    """A line of the terminal stays free, the whole has one, and those left out are counted."""
    screen = looked_at(monkeypatch, lines=lines)
    bars = Bars(1)
    for number in range(20):
        bars.move(progress(f"doc-{number}", 100_000))
    bars.draw()
    shown = standing(screen.getvalue())
    assert len(shown) == max(1, min(21, lines - 1))
    assert shown[-1].startswith("0 of 1 ")
    if 3 <= lines <= 8:
        assert shown[-2] == f"and {20 - (lines - 3)} more"


@pytest.mark.parametrize("columns", [1, 2, 10, 20, 40])
def test_a_narrow_terminal_has_a_line_for_each_bar(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """No line is so long that the terminal would break it."""
    screen = looked_at(monkeypatch, columns=columns)
    bars = Bars(1)
    for number in range(3):
        bars.move(progress(f"doc-{number}", 100_000))
    bars.draw()
    shown = standing(screen.getvalue())
    assert len(shown) == 4
    assert all(len(line) < max(2, columns) for line in shown)


def test_a_label_cannot_act_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document's id is shown as it is spelt but for control characters, and is cut."""
    screen = looked_at(monkeypatch)
    bars = Bars(1)
    for document_id in ("doc\x1b[2J\x07\u202e\n", "[red]doc[/red] {task}", "d" * 300):
        bars.move(progress(document_id, 1))
    bars.draw()
    text = _STYLE.sub("", screen.getvalue())
    assert "doc?[2J???" in text
    assert "[red]doc[/red] {task}" in text
    assert "d" * 20 in text
    assert "d" * 30 not in text
    assert "\x1b[2J" not in text


def test_nothing_is_drawn_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal there are no bars, and what is said is said."""
    bars = Bars(1)
    bars.move(progress("doc-1", 1))
    bars.draw()
    bars.say("something\x1b")
    assert capsys.readouterr().err == "income-client: something?\n"
