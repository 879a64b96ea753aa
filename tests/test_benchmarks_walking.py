"""The figures of walks come out of a command line; what they are is not for a test to say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.walking_data import HARD, MILD, SimulatedList, seconds_of
from benchmarks.walking_peers import PEERS
from income_client.records.window import Window

ROOT = Path(__file__).parents[1]
PATTERNS = (*MILD, *HARD)


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "benchmarks.walking", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_a_quick_run_shows_every_pattern_beside_every_peer() -> None:
    """Requests and times of each way to walk stand in one table."""
    run = _run("--quick")
    assert run.returncode == 0, run.stderr
    assert re.findall(r"measuring (\S+)", run.stderr) == ["requests", "in-flight"]
    head, rule, *lines = run.stdout.splitlines()
    assert head.split() == ["what", "measured", "goal", "met"]
    assert rule == "-" * 100
    assert max(map(len, lines)) <= 100
    for pattern in PATTERNS:
        rows = [line for line in lines if re.match(rf" *{pattern}, 3,000", line)]
        assert len(rows) == 2 * (1 + len(PEERS))
    assert sum(line.endswith((" yes", " NO")) for line in lines) == 2 * len(PATTERNS) + 1


@pytest.mark.parametrize("arguments", [("no-such-row",), ("--quick", "in-flight", "no-such-row")])
def test_an_unknown_row_is_refused(arguments: tuple[str, ...]) -> None:
    """What cannot be measured ends with the names of what can, before anything is measured."""
    run = _run(*arguments)
    assert run.returncode == 2
    assert "no-such-row" in run.stderr
    assert not run.stdout


@pytest.mark.parametrize("in_flight", [1, 8])
@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_covers_the_span_once(peer: str, in_flight: int) -> None:
    """What came back not full adds up to the span, whoever walks it and in whichever order."""
    service = SimulatedList(seconds_of("bursts", 5_000, seed=3), seed=3)
    span = Window(service.seconds[0], service.seconds[-1] + 1)
    walk = PEERS[peer](span, service.is_full, in_flight)
    covered: list[Window] = []
    asked: list[Window] = []
    while True:
        while len(asked) < in_flight and (window := walk.next()) is not None:
            asked.append(window)
        if not asked:
            break
        window = asked.pop()
        if not service.is_full(window):
            covered.append(window)
        walk.receive(window)
    covered.sort()
    assert (covered[0].after, covered[-1].before) == (span.after, span.before)
    ends = [window.before for window in covered[:-1]]
    assert ends == [window.after for window in covered[1:]]
