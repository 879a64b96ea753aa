"""The figures of downloads come out of a command line; what they are is not for a test to say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "benchmarks.downloads", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_a_quick_run_shows_what_downloads_cost() -> None:
    """Large, small and cut files stand in one table, and what was cut is whole."""
    run = _run("--quick")
    assert run.returncode == 0, run.stderr
    assert re.findall(r"measuring (\S+)", run.stderr) == ["large", "memory", "small", "cut"]
    head, rule, *lines = run.stdout.splitlines()
    assert head.split() == ["what", "measured", "goal", "met"]
    assert rule == "-" * 100
    assert max(map(len, lines)) <= 100
    figures = "\n".join(lines)
    assert sum(line.endswith((" yes", " NO")) for line in lines) == 4
    assert re.search(r"its content is what was sent +yes +yes yes", figures)
    assert len(re.findall(r"hashes and syncs too +\d+\.\d\d \(\S+ s, \S+ s\)", figures)) == 2


@pytest.mark.parametrize("arguments", [("no-such-row",), ("--quick", "large", "no-such-row")])
def test_an_unknown_row_is_refused(arguments: tuple[str, ...]) -> None:
    """What cannot be measured ends with the names of what can, before anything is measured."""
    run = _run(*arguments)
    assert run.returncode == 2
    assert "no-such-row" in run.stderr
    assert not run.stdout
