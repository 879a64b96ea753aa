"""What a terminal shows while an export runs, from where it is and in one direction."""

import asyncio
import re
import signal
from pathlib import Path
from typing import Any

from income_client.emulator import Emulator
from tests.cli.entry import run_on_terminal
from tests.cli.exporting import Command
from tests.cli.running import variables


async def shown_by(command: Command) -> str:
    """Run it to its end on a terminal, and return all that was drawn."""
    found: dict[str, Any] = dict(variables(command.service))
    shown = await asyncio.to_thread(lambda: run_on_terminal(*command.line(), **found))
    assert shown.status == 0
    return shown.screen


async def test_the_share_only_grows(tmp_path: Path) -> None:
    """It is of the records, all of which are found early, and never 100 % with work left."""
    async with Emulator(2500, latency=0.01) as service:
        drawn = await shown_by(Command(service, tmp_path / "all"))
    shares = [int(one) for one in re.findall(r"Exporting +(\d+)%", drawn)]
    assert shares == sorted(shares)
    assert max(shares) <= 99
    counts = re.findall(r"Exporting +(\d+)%.*?([\d,]+) of ([\d,]+) applications", drawn)
    for share, done, total in counts:
        assert total == "2,500"
        assert int(share) == min(99, int(done.replace(",", "")) * 100 // 2500)
    assert counts


async def test_a_later_run_begins_where_the_first_was(tmp_path: Path) -> None:
    """It says how much there is, and counts it in."""
    async with Emulator(300, latency=0.01) as service:
        command = Command(service, tmp_path / "all")
        await command.stopped(by=signal.SIGTERM)
        kept = (command.part / "records.jsonl").read_bytes().count(b"\n")
        drawn = await shown_by(command)
    assert f"going on with {kept} applications of an earlier run" in drawn
    counts = re.findall(r"Exporting +(\d+)%.*?([\d,]+) of ([\d,]+) applications", drawn)
    assert {total for *_, total in counts} == {"300"}
    assert all(int(done) >= kept for _, done, _ in counts)
    assert all(int(share) >= kept * 100 // 300 for share, *_ in counts)
