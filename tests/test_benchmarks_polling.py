"""The figures of polling come out of a command line; what they are is not for a test to say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _run(module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", f"benchmarks.{module}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_a_quick_run_shows_what_polling_costs() -> None:
    """Everyday polls and first polls stand in one table of 100 columns, one list call a poll."""
    run = _run("polling", "--quick")
    assert run.returncode == 0, run.stderr
    assert re.findall(r"measuring (\S+)", run.stderr) == ["steady", "first"]
    head, rule, *lines = run.stdout.splitlines()
    assert head.split() == ["what", "measured", "goal", "met"]
    assert rule == "-" * 100
    assert max(map(len, lines)) <= 100
    figures = "\n".join(lines)
    assert re.search(r"4 polls: list +1\.00 +<= 1 yes", figures)
    assert re.search(r"versions delivered, of those made +(\d+) of \1 +all yes", figures)
    assert re.search(r"delivered again +0 +<= 0 yes", figures)
    assert len(re.findall(r"records a second: poll, fetch_records +[\d,]+, [\d,]+", figures)) == 2


def test_a_few_kills_end_in_the_table_of_a_chaos_run() -> None:
    """The long form is the short one with other figures: it says what it found, and 0 if good."""
    run = _run("chaos", "--kills", "1", "--seed", "4", "--applications", "30")
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"kills by SIGKILL, each followed by a restart +1\b", run.stdout)
    assert " NO" not in run.stdout


@pytest.mark.parametrize("arguments", [("no-such-row",), ("--quick", "steady", "no-such-row")])
def test_an_unknown_row_is_refused(arguments: tuple[str, ...]) -> None:
    """What cannot be measured ends with the names of what can, before anything is measured."""
    run = _run("polling", *arguments)
    assert run.returncode == 2
    assert "no-such-row" in run.stderr
    assert not run.stdout
