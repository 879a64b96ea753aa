"""The benchmarks run, and what they compare is comparable; no test says what the figures are."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import orjson
import pytest

pytest.importorskip("pydantic", reason="the benchmarks need the extra 'full'")

from benchmarks.__main__ import PARTS
from benchmarks.decoding import Reply, replies
from benchmarks.report import from_json, to_markdown
from benchmarks.walking import WAYS, SimulatedList, seconds_of
from income_client import from_json as record_from_json
from income_client import to_json
from income_client.errors import DecodeError
from income_client.records.window import Window

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = """
import multiprocessing
from benchmarks import __main__, services

services._SPAWN = multiprocessing.get_context("forkserver")
services._SPAWN.set_forkserver_preload([f"benchmarks.{name}" for name in __main__.PARTS])
__main__.main()
"""
"""The command, whose measurements need not import everything each; that is for their figures."""


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.timeout(300)
def test_a_quick_run_measures_a_part_and_fails_nowhere(part: str, tmp_path: Path) -> None:
    """Figures that must be exact are exact, and all files are written."""
    run = _run("--quick", "--only", part, "--into", str(tmp_path))
    assert run.returncode == 0, run.stderr
    report = from_json((tmp_path / "results.json").read_text("utf-8"))
    assert [one.name for one in report.parts] == [part]
    rows = list(report.rows())
    assert rows
    assert len({row.label for row in rows}) == len(rows)
    assert [row.label for row in rows if row.goal == "no failure"] == []
    assert [row.label for row in rows if row.goal == "all" and not row.is_met] == []
    assert (tmp_path / "results.md").read_text("utf-8") == to_markdown(report)


def test_the_last_whole_run_has_every_part_and_labels_of_their_own() -> None:
    """Pages quote its rows by their labels."""
    report = from_json((ROOT / "benchmarks" / "results.json").read_text("utf-8"))
    assert [part.name for part in report.parts] == list(PARTS)
    assert [
        label for label, count in Counter(row.label for row in report.rows()).items() if count > 1
    ] == []


def test_an_unknown_part_is_refused() -> None:
    """The command names it, before anything is measured."""
    run = _run("--quick", "--only", "decoding,no-such-part")
    assert run.returncode == 2
    assert "no-such-part" in run.stderr
    assert not run.stdout


@pytest.mark.parametrize("reply", replies(), ids=lambda reply: reply.name)
def test_both_decoders_read_the_same(reply: Reply) -> None:
    """Records and models keep every field, unknown ones among them, and refuse a wrong type."""
    name = next(iter(orjson.loads(reply.body)))
    more = orjson.dumps({**orjson.loads(reply.body), "new_field": 1})
    wrong = orjson.dumps({**orjson.loads(reply.body), name: 7})
    assert orjson.loads(to_json(record_from_json(reply.record, more))) == orjson.loads(more)
    assert reply.model.model_validate_json(more).model_extra == {"new_field": 1}
    with pytest.raises(DecodeError):
        record_from_json(reply.record, wrong)
    with pytest.raises(ValueError, match=name):
        reply.model.model_validate_json(wrong)


@pytest.mark.parametrize("name", WAYS)
def test_another_way_to_walk_covers_the_span_once(name: str) -> None:
    """The windows that did not come back full add up to the span."""
    service = SimulatedList(seconds_of("bursts", 5_000, seed=3), seed=3)
    span = Window(service.seconds[0], service.seconds[-1] + 1)
    walk = WAYS[name](span, service.is_full)
    covered: list[Window] = []
    while (window := walk.next()) is not None:
        if not service.is_full(window):
            covered.append(window)
        walk.receive(window)
    assert (covered[0].after, covered[-1].before) == (span.after, span.before)
    assert [window.before for window in covered[:-1]] == [window.after for window in covered[1:]]
