"""The benchmark runs from its command line; what the figures are is not for a test to say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MEASUREMENTS = (
    "walk-bursts",
    "walk-uniform",
    "stream",
    "stream-records",
    "in-flight",
    "first-calls",
    "records",
)


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "benchmarks.core", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_all_that_is_measured_stands_in_one_table() -> None:
    """A quick run measures everything, prints one table of 100 columns, and fails nowhere."""
    run = _run("--quick")
    assert run.returncode == 0, run.stderr
    assert re.findall(r"measuring (\S+)", run.stderr) == list(MEASUREMENTS)
    head, rule, *lines = run.stdout.splitlines()
    assert head.split() == ["what", "measured", "goal", "met"]
    assert rule == "-" * 100
    assert max(map(len, lines)) <= 100
    assert "no failure" not in run.stdout
    assert sum(line.endswith((" yes", " NO")) for line in lines) == 12
    figures = "\n".join(lines)
    assert re.search(r"bursts: walks exact +3 of 3 +all yes", figures)
    assert re.search(r"uniform: walks exact +3 of 3 +all yes", figures)
    assert re.search(r"agree with the service's +5,000 of 5,000 +all yes", figures)
    assert re.search(r"first calls: token requests +1 +1 yes", figures)


def test_one_row_can_be_measured_alone() -> None:
    """Names on the command line choose what is measured."""
    run = _run("--quick", "first-calls")
    assert run.returncode == 0, run.stderr
    assert re.findall(r"measuring (\S+)", run.stderr) == ["first-calls"]


@pytest.mark.parametrize("arguments", [("no-such-row",), ("--quick", "stream", "no-such-row")])
def test_an_unknown_row_is_refused(arguments: tuple[str, ...]) -> None:
    """What cannot be measured ends with the names of what can, before anything is measured."""
    run = _run(*arguments)
    assert run.returncode == 2
    assert "no-such-row" in run.stderr
    assert not run.stdout
