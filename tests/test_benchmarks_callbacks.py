"""The figures of callbacks come out of a command line; what they are is not for a test to say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WAYS = (
    "Basic",
    "JWT, RS256",
    "JWT, ES256",
    "own tokens, HS256",
    r"Basic \+ networks, proxied",
)


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "benchmarks.callbacks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )


def test_a_quick_run_shows_what_receiving_callbacks_costs() -> None:
    """Every authentication in both frameworks, a flood and a waking stand in one table."""
    run = _run("--quick")
    assert run.returncode == 0, run.stderr
    assert re.findall(r"measuring (\S+)", run.stderr) == ["aiohttp", "uvicorn", "flood", "wake"]
    head, rule, *lines = run.stdout.splitlines()
    assert head.split() == ["what", "measured", "goal", "met"]
    assert rule == "-" * 100
    assert max(map(len, lines)) <= 100
    figures = "\n".join(lines)
    for framework in ("aiohttp", "FastAPI"):
        for way in WAYS:
            assert re.search(
                rf"^{framework}, {way}: CPU / bare {framework} +\d", figures, re.MULTILINE
            )
    assert len(re.findall(r"answered with 200 +([\d,]+) of \1 +all yes", figures)) == 3
    assert re.search(r"refusals: answered with 200 +0 of", figures)
    assert re.search(r"reasons for refusals +.*token_key_unknown$", figures, re.MULTILINE)
    assert sum(line.endswith((" yes", " NO")) for line in lines) == 5


@pytest.mark.parametrize("arguments", [("no-such-row",), ("--quick", "flood", "no-such-row")])
def test_an_unknown_row_is_refused(arguments: tuple[str, ...]) -> None:
    """What cannot be measured ends with the names of what can, before anything is measured."""
    run = _run(*arguments)
    assert run.returncode == 2
    assert "no-such-row" in run.stderr
    assert not run.stdout
