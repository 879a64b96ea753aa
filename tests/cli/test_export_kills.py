"""``income-client export`` killed before each operation on files: nothing lost, and none twice."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from income_client.emulator import Emulator
from tests.cli.entry import ROOT, environment
from tests.cli.running import variables


@pytest.mark.timeout(300)  # each operation costs two runs
@pytest.mark.parametrize("format_", ["jsonl", "parquet"])
async def test_the_next_run_makes_it_whole(tmp_path: Path, format_: str) -> None:
    """Wherever it was killed, the next run ends with 0 and everything is there once.

    The one exception is the very last step, when nothing is left that could say
    what the file is: it is there, and is not overwritten.
    """
    async with Emulator(3) as service:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.cli.export_kills", str(tmp_path / "all")),
            *("--format", format_),
            stdout=subprocess.PIPE,
            env=environment(**variables(service)),
            cwd=ROOT,
        )
        output, _ = await process.communicate()
        expected = sorted(service.world.ids)
    steps = [json.loads(line) for line in output.splitlines()]
    assert process.returncode == 0
    assert [step["killed"] for step in steps] == [99] * (len(steps) - 1) + [0]
    assert len(steps) > 25
    for step in steps:
        assert (step["ids"], step["is_once"], step["left"]) == (expected, True, []), step
        is_last = step["operation"].startswith("rmdir") and step["operation"].endswith("all.part")
        assert step["again"] == (1 if is_last else 0), step
