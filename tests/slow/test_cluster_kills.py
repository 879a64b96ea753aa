"""A cluster whose pollers, workers and broker are killed, and whose leader is paused.

Every last version is handled, and no checkpoint goes back; ``-rP`` shows what it came to.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from attrs import evolve

from benchmarks.cluster import MEASUREMENTS, QUICK, kill_everything

ROOT: Final = Path(__file__).parents[2]


@pytest.mark.timeout(180)
async def test_a_cluster_that_is_killed_everywhere_loses_nothing() -> None:
    """The last version of each application is in the workers' database at the end."""
    rows = await kill_everything(evolve(QUICK, updates=1_500, updated=750, rate=60))
    assert [row.is_met for row in rows if row.goal] == [True, True, True]
    print(*rows, sep="\n")  # noqa: T201


@pytest.mark.timeout(180)
def test_the_measurements_of_a_cluster_run() -> None:
    """Each prints its rows; no test says what the figures are."""
    rows = [name for name in MEASUREMENTS if name != "cluster"]
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "benchmarks.cluster", "--quick", *rows],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for words in ("SIGKILL", "clean stop", "SIGSTOP", "bare publish", "share one", "4 processes"):
        assert words in run.stdout
