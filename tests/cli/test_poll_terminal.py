"""``income-client poll`` before a person: one line that tells how it is doing."""

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from rich.text import Text

from income_client.cli.output.durations import in_short
from income_client.cli.output.status_line import StatusLine, _fitting
from income_client.emulator import Emulator, Fault
from tests.cli.entry import Terminal
from tests.cli.polling import Command

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*(3[0-7]|38;|9[0-7])[0-9;]*m")
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
_CURSOR: Final = re.compile(r"\x1b\[\?25[lh]")
_POLLING: Final = ("--start", "beginning", "--interval", "0.2")


async def shown_of(
    service: Emulator,
    store: Path,
    *arguments: str,
    is_shared: bool = False,
    then: Callable[[Terminal], Any] = lambda _: None,
    **variables: str,
) -> str:
    """Run the command on a terminal until something was seen on it, and then SIGINT."""
    with Terminal() as terminal:
        streams = {
            "stdout": terminal.device if is_shared else subprocess.DEVNULL,
            "stderr": terminal.device,
        }
        with Command(service, store).started(*arguments, **streams, **variables) as process:
            terminal.attend()
            await asyncio.to_thread(then, terminal)
            process.send_signal(signal.SIGINT)
            await asyncio.to_thread(process.wait, 50)
            shown = await asyncio.to_thread(terminal.close)
    assert process.returncode == 130
    return shown


def plain(shown: str) -> list[str]:
    """Return what stood in the line, one drawing after the other, without style."""
    return [part.removesuffix("\x1b[K") for part in re.split(r"[\r\n]+", _STYLE.sub("", shown))]


async def test_the_line_tells_how_far_it_is(tmp_path: Path) -> None:
    """Polls, records, lag, service time and the next poll stand in one line, drawn over itself."""
    async with Emulator(30, time_flows=True) as service:
        shown = await shown_of(
            service,
            tmp_path / "polls",
            *("--start", "beginning", "--interval", "60"),
            then=lambda terminal: terminal.wait_for("next poll in"),
        )
    assert shown.count("\n") == 2
    assert not _CURSOR.search(shown)
    begins, *drawn, last, nothing = plain(shown)
    assert begins == "income-client: 'default' is new, and begins at beginning"
    assert nothing == ""
    assert all(len(line) < 80 for line in drawn)
    facts = r"1 poll  30 records  \d s behind  at 2026-06-30 (11:59:5|12:00:0)\d"
    assert re.fullmatch(rf"next poll in (5\d|60) s  {facts}", drawn[-1])
    assert re.fullmatch(facts, last)


async def test_failures_and_dead_letters_stand_above_it(tmp_path: Path) -> None:
    """What goes wrong is a line that stays, and is counted in the one that is drawn over."""
    async with Emulator(9) as service:
        one = service.world.ids[4]
        service.faults.add(Fault("status", status=500, times=3, path="*/applications"))
        service.faults.add(Fault("status", status=404, times=None, path=f"*/{one}"))
        shown = await shown_of(
            service,
            tmp_path / "polls",
            *_POLLING,
            then=lambda terminal: terminal.wait_for("1 dead letter"),
        )
    assert _COLOUR.search(shown)
    lines = plain(shown)
    assert any(line.startswith("next try in 1 s  1 failure (ServerError)  0 p") for line in lines)
    assert any("8 records  1 dead letter  " in line for line in lines)
    kept = [line for line in _STYLE.sub("", shown).split("\n") if "income-client: " in line]
    _, failed, dead = (line.rpartition("\x1b[K")[2].rstrip("\r") for line in kept)
    assert failed.startswith("income-client: poll failed (ServerError: ")
    assert dead.startswith(f"income-client: {one} could not be read in 2 attempts (NotFoundError: ")


async def test_no_color_and_dumb_terminals_are_respected(tmp_path: Path) -> None:
    """NO_COLOR takes the colours; a terminal that cannot erase has lines about failures only."""
    async with Emulator(9) as service:
        service.faults.add(Fault("status", status=500, times=6, path="*/applications"))
        plain_shown, dumb_shown = await asyncio.gather(
            shown_of(
                service,
                tmp_path / "plain",
                *_POLLING,
                then=lambda terminal: terminal.wait_for("9 records"),
                NO_COLOR="1",
            ),
            shown_of(
                service,
                tmp_path / "dumb",
                *_POLLING,
                then=lambda terminal: terminal.wait_for("poll failed"),
                TERM="dumb",
            ),
        )
    assert "9 records" in plain_shown
    assert not _COLOUR.search(plain_shown)
    assert "\x1b" not in dumb_shown
    lines = dumb_shown.splitlines()
    assert lines
    assert all(line.startswith("income-client: poll failed (") for line in lines)


async def test_records_on_the_same_terminal_stay_whole(tmp_path: Path) -> None:
    """Where both streams are one terminal, the line makes way for the records."""
    async with Emulator(4, time_flows=True) as service:

        def update(terminal: Terminal) -> None:
            terminal.wait_for("next poll")
            service.touch(service.world.ids[1])
            terminal.wait_for("5 records")

        shown = await shown_of(service, tmp_path / "polls", *_POLLING, is_shared=True, then=update)
    rows = [row.rstrip("\r").rpartition("\x1b[K")[2] for row in shown.split("\n")]
    records = [json.loads(row)["application_id"] for row in rows if row.startswith("{")]
    assert sorted(records) == sorted([*service.world.ids, service.world.ids[1]])


def test_what_is_said_cannot_act_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Characters that would move the cursor or ring the bell are replaced."""
    StatusLine().say("app-\x1b[2J\x07\x9b\u202e\n could not be read")
    assert capsys.readouterr().err == "income-client: app-?[2J???? could not be read\n"


def test_what_has_no_room_is_left_out_whole() -> None:
    """The first part is always there; of the others as many as fit."""
    parts = [Text("first"), Text("second"), Text("3rd")]
    fitting = {width: _fitting(parts, width).plain for width in (4, 12, 13, 17, 18)}
    assert fitting == {
        4: "first",
        12: "first",
        13: "first  second",
        17: "first  second",
        18: "first  second  3rd",
    }


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(seconds=-1), "0 s"),
        (timedelta(seconds=119.4), "119 s"),
        (timedelta(minutes=2), "2 min"),
        (timedelta(hours=5, minutes=40), "6 h"),
        (timedelta(days=1200), "1,200 d"),
    ],
)
def test_lags_are_told_in_a_unit_that_suits(span: timedelta, text: str) -> None:
    """A lag is one short figure, from seconds to years of history."""
    assert in_short(span.total_seconds()) == text


async def test_a_start_that_changes_nothing_is_said(tmp_path: Path) -> None:
    """Whoever looks at a terminal learns that the file knows the name."""
    async with Emulator(9, time_flows=True) as service:
        arguments = ("--start", "beginning", "--interval", "60")
        for said in ("is new", "--start is ignored"):
            shown = await shown_of(
                service,
                tmp_path / "polls",
                *arguments,
                then=lambda terminal: terminal.wait_for("next poll in"),
            )
            assert said in shown
