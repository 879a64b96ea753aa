"""The benchmarks run, and what they compare is comparable; no test says what the figures are."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import attrs
import pytest

pytest.importorskip("pydantic", reason="the benchmarks need the extra 'full'")
pytest.importorskip("msgspec", reason="the benchmarks need the extra 'full'")

import msgspec
import orjson

from benchmarks import decoding_payloads
from benchmarks.chart_plans import PLANS
from benchmarks.charts import charts
from benchmarks.decoding_peers import ApplicationModel, DocumentsModel, Model, PageModel, struct_of
from benchmarks.drawing import to_svg
from benchmarks.parts import PARTS
from benchmarks.report import from_json, to_markdown
from benchmarks.walking_data import SimulatedList, seconds_of
from benchmarks.walking_peers import PEERS
from income_client import from_json as record_from_json
from income_client import to_json
from income_client.errors import DecodeError
from income_client.records import Application, ApplicationDocuments, ApplicationPage
from income_client.records.window import Window

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "benchmarks" / "results.json"
REPLIES: Final[list[tuple[type, type[Model], bytes]]] = [
    (ApplicationPage, PageModel, decoding_payloads.page(3)),
    (Application, ApplicationModel, decoding_payloads.application()),
    (ApplicationDocuments, DocumentsModel, decoding_payloads.documents()),
]


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(300)
def test_a_quick_run_measures_every_part_and_fails_nowhere(tmp_path: Path) -> None:
    """It prints, writes and draws all parts, and whatever must be exact is."""
    run = _run("--quick", "--into", str(tmp_path))
    assert run.returncode == 0, run.stderr
    report = from_json((tmp_path / "results.json").read_text("utf-8"))
    assert [part.name for part in report.parts] == list(PARTS)
    for row in report.rows():
        assert row.goal != "no failure", row.what
        assert row.goal != "all" or row.is_met, row.what
        assert row.measured in run.stdout
    assert (tmp_path / "results.md").read_text("utf-8") == to_markdown(report)
    assert {path.stem for path in (tmp_path / "charts").iterdir()} == {plan.name for plan in PLANS}


def test_an_unknown_part_is_refused() -> None:
    """The names of those that exist are shown, before anything is measured."""
    run = _run("--quick", "--only", "decoding,no-such-part")
    assert run.returncode == 2
    assert "no-such-part" in run.stderr
    assert not run.stdout


def test_the_results_and_charts_in_the_repository_are_of_one_whole_run() -> None:
    """Table and charts are drawn from the stored figures."""
    report = from_json(RESULTS.read_text("utf-8"))
    assert not report.is_quick
    assert [part.name for part in report.parts] == list(PARTS)
    assert RESULTS.with_suffix(".md").read_text("utf-8") == to_markdown(report)
    drawn = {path.stem: path.read_text("utf-8") for path in RESULTS.parent.glob("charts/*.svg")}
    assert drawn == {chart.name: to_svg(chart) for chart in charts(report)}


@pytest.mark.parametrize(("record", "model", "body"), REPLIES)
def test_each_decoder_reads_the_same(record: type, model: type[Model], body: bytes) -> None:
    """The record goes back as it came, and a peer has the same fields with unknown ones kept."""
    assert orjson.loads(to_json(record_from_json(record, body))) == orjson.loads(body)
    more = orjson.dumps({**orjson.loads(body), "new_field": 1})
    assert model.model_validate_json(more).model_extra == {"new_field": 1}
    names = [name for name in attrs.fields_dict(record) if name != "extra"]
    assert list(model.model_fields) == names
    assert list(struct_of(model).__struct_fields__) == names


@pytest.mark.parametrize(("record", "model", "body"), REPLIES)
def test_each_decoder_is_strict(record: type, model: type[Model], body: bytes) -> None:
    """A number where a text belongs is refused by all of them."""
    name = next(iter(attrs.fields_dict(record)))
    wrong = orjson.dumps({**orjson.loads(body), name: 7})
    with pytest.raises(DecodeError):
        record_from_json(record, wrong)
    with pytest.raises(ValueError, match=name):
        model.model_validate_json(wrong)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(wrong, type=struct_of(model))


@pytest.mark.parametrize("in_flight", [1, 8])
@pytest.mark.parametrize("peer", PEERS)
def test_another_way_to_walk_covers_the_span_once(peer: str, in_flight: int) -> None:
    """What did not come back full adds up to the span, in whichever order it is asked."""
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
    assert [window.before for window in covered[:-1]] == [window.after for window in covered[1:]]
