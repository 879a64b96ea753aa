"""The figures of calls come out of a command line; what they are is not for a test to say."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "benchmarks.calling", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_a_quick_run_shows_what_calls_cost() -> None:
    """Small calls, calls of usual size, a crowd and the import stand in one table."""
    run = _run("--quick")
    assert run.returncode == 0, run.stderr
    assert re.findall(r"measuring (\S+)", run.stderr) == [
        "small",
        "usual",
        "first-calls",
        "imports",
    ]
    head, rule, *lines = run.stdout.splitlines()
    assert head.split() == ["what", "measured", "goal", "met"]
    assert rule == "-" * 100
    assert max(map(len, lines)) <= 100
    figures = "\n".join(lines)
    assert sum(line.endswith((" yes", " NO")) for line in lines) == 10
    assert re.search(r"without a token: token requests +1 +<= 1 yes", figures)
    assert len(re.findall(r"CPU / bare aiohttp +\d+\.\d\d \(\d+ us, \d+ us\)", figures)) == 8


def test_an_unknown_row_is_refused() -> None:
    """What cannot be measured ends with the names of what can, before anything is measured."""
    run = _run("--quick", "no-such-row")
    assert run.returncode == 2
    assert "no-such-row" in run.stderr
    assert not run.stdout
