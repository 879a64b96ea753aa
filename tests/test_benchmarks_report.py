"""One command measures, writes and draws; what the figures are is not for a test to say."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.chart_plans import PLANS
from benchmarks.charts import charts
from benchmarks.drawing import Bar, Chart, Group, Kind, to_svg
from benchmarks.parts import PARTS, run_part
from benchmarks.report import (
    Machine,
    PartReport,
    Report,
    from_json,
    this_machine,
    to_json,
    to_markdown,
)
from benchmarks.table import Row, at_most

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
SVG = "{http://www.w3.org/2000/svg}"
MET = at_most("1,000 records with documents, 20 ms, 16 in flight: time", 1.05, 1.1, rounds=7)
MISSED = at_most("1,000 records with documents, 20 ms, 64 in flight: time", 1.2, 1.1, rounds=7)
WORDS = Row(what="  time | of the other", measured="1 s, 2 a second")
REPORT = Report(
    date="2026-01-31",
    machine=Machine(cores=2, system="Linux x86_64", python="CPython 3.11.7", libraries={"a": "1"}),
    is_quick=False,
    parts=[PartReport(name="core", about="much", seconds=2, rows=[MET, MISSED, WORDS])],
)


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_one_command_measures_writes_and_draws(tmp_path: Path) -> None:
    """A quick run of a part prints its table, and writes and draws the same where it is told to."""
    run = _run("--only", "decoding", "--quick", "--into", str(tmp_path / "out"))
    assert run.returncode == 0, run.stderr
    assert "no failure" not in run.stdout
    report = from_json((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert [part.name for part in report.parts] == ["decoding"]
    assert all(row.measured in run.stdout for row in report.rows())
    assert (tmp_path / "out" / "results.md").read_text("utf-8") == to_markdown(report)
    drawn = {path.stem for path in (tmp_path / "out" / "charts").iterdir()}
    assert drawn == {chart.name for chart in charts(report)} >= {"decoding", "parsing"}


@pytest.mark.parametrize("parts", ["no-such-part", "decoding,no-such-part"])
def test_an_unknown_part_is_refused(parts: str) -> None:
    """What cannot be measured ends with the names of what can, before anything is measured."""
    run = _run("--only", parts, "--quick")
    assert run.returncode == 2
    assert "no-such-part" in run.stderr
    assert not run.stdout


@pytest.mark.parametrize("name", PARTS)
def test_every_part_can_be_loaded_by_its_name(name: str) -> None:
    """It has measurements and the two scales."""
    module = __import__(f"benchmarks.{name}", fromlist=["MEASUREMENTS"])
    assert module.MEASUREMENTS
    assert type(module.FULL) is type(module.QUICK)


def test_a_part_that_cannot_be_loaded_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the libraries of an extra, the other parts are measured all the same."""
    monkeypatch.setitem(sys.modules, "benchmarks.decoding", None)
    (row,) = run_part("decoding", is_quick=True).rows
    assert (row.goal, row.is_met) == ("no failure", False)


def test_a_report_survives_its_json() -> None:
    """What is written can be read again, so that charts can be drawn without measuring."""
    assert from_json(to_json(REPORT)) == REPORT
    first, *_ = json.loads(to_json(REPORT))["parts"][0]["rows"]
    assert first == {
        "name": MET.what,
        "measured": "1.05",
        "value": 1.05,
        "goal": "<= 1.1",
        "most": 1.1,
        "met": True,
        "rounds": 7,
    }


def test_a_report_says_what_class_of_machine_measured() -> None:
    """Cores, Python and libraries, and nothing that tells one such machine from another."""
    machine = this_machine()
    assert machine.cores >= 1
    assert {"aiohttp", "httpx", "msgspec", "orjson", "pydantic"} <= set(machine.libraries)
    assert "2 cores, Linux x86_64, CPython 3.11.7" in to_markdown(REPORT)


def test_a_report_counts_its_goals() -> None:
    """A row without a goal counts for nothing."""
    assert REPORT.goals == (1, 2)
    text = to_markdown(REPORT)
    assert "1 of 2 goals met" in text
    assert "| 1.05 | ≤ 1.1 | yes | 7 |" in text
    assert "| 1.20 | ≤ 1.1 | **no** | 7 |" in text
    assert "time \\| of the other" in text


def test_a_chart_shows_values_and_goals() -> None:
    """Every figure stands at its bar, a goal says whether it is met, and lengths are in scale."""
    (chart,) = charts(REPORT)
    root = ET.fromstring(to_svg(chart))
    text = " ".join("".join(element.itertext()) for element in root.iter(f"{SVG}text"))
    assert "1.05goal ≤ 1.1" in text
    assert "1.20goal ≤ 1.1 missed" in text
    ours = [box for box in root.iter(f"{SVG}rect") if box.get("class") == "ours"]
    short, long = (float(box.get("width", "0")) for box in ours)
    assert short / long == pytest.approx(1.05 / 1.2, rel=1e-3)
    assert "16 requests in flight" in (root.findtext(f"{SVG}desc") or "")


def test_a_bar_that_is_far_too_long_is_cut() -> None:
    """It ends where the chart says, and still has its figure."""
    bars = [Bar(label=label, value=value, kind=Kind.PEER) for label, value in (("a", 2), ("b", 90))]
    groups = [Group(heading="", bars=bars)]
    chart = Chart(name="cut", title="Cut", subtitle="length", groups=groups, longest=4)
    root = ET.fromstring(to_svg(chart))
    peers = [box for box in root.iter(f"{SVG}rect") if box.get("class") == "peer"]
    short, long = (float(box.get("width", "0")) for box in peers)
    assert short / long == pytest.approx(0.5)
    assert "90.00" in [element.text for element in root.iter(f"{SVG}text")]


def test_the_charts_shown_are_those_of_the_results() -> None:
    """The results in the repository are of a whole run, and their charts and table agree."""
    report = from_json(RESULTS.read_text("utf-8"))
    assert not report.is_quick
    assert [part.name for part in report.parts] == list(PARTS)
    assert RESULTS.with_suffix(".md").read_text("utf-8") == to_markdown(report)
    drawn = {path.stem: path.read_text("utf-8") for path in RESULTS.parent.glob("charts/*.svg")}
    assert drawn == {chart.name: to_svg(chart) for chart in charts(report)}
    assert set(drawn) == {plan.name for plan in PLANS}
