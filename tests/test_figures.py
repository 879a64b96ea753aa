"""The figures that pages quote are those of the last whole run of the benchmarks."""

from pathlib import Path
from typing import Final

import pytest
from attrs import evolve

from benchmarks.report import (
    PartReport,
    Report,
    Row,
    cells_of,
    figures_written_in,
    from_json,
    to_json,
    to_markdown,
)
from tests.support.pages import PAGES

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results.json"


def _unknown_labels(text: str, report: Report) -> list[str]:
    """Return the first cells of tables with figures that are no row's label."""
    labels = {row.label for row in report.rows()}
    unknown: list[str] = []
    has_figures: bool | None = None
    for line in text.splitlines():
        cells = cells_of(line)
        if not cells:
            has_figures = None
        elif has_figures is None:
            has_figures = "measured" in cells
        elif has_figures and set(cells[0]) - set(":-") and cells[0] not in labels:
            unknown.append(cells[0])
    return unknown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_quoted_figure_is_measured(page: Path) -> None:
    """Each label in a table with figures is in the report, with the figure that is quoted."""
    text, report = page.read_text("utf-8"), from_json(RESULTS.read_text("utf-8"))
    assert _unknown_labels(text, report) == []
    assert figures_written_in(text, report) == text


def test_the_stored_results_are_of_one_whole_run() -> None:
    """The table beside them has the same figures."""
    report = from_json(RESULTS.read_text("utf-8"))
    assert not report.is_quick
    assert RESULTS.with_suffix(".md").read_text("utf-8") == to_markdown(report)


REPORT: Final = Report(
    date="2026-06-30",
    machine="2 cores",
    libraries={},
    is_quick=False,
    parts=[
        PartReport(
            name="calls",
            about="calls",
            seconds=1,
            rows=[
                Row(label="one call", measured="0.33 (1 us, 3 us)", value=0.33),
                Row(label="a walk", measured="1.41", goal="<= 1.3", is_met=False, rounds=3),
            ],
        )
    ],
)
PAGE: Final = """
| what | measured | meaning |
|---|---:|---|
| one call | ? | less is better |
| a walk | 9.99 | - |
| a run | ? | - |

| what | measured once |
|---|---|
| one call | ? |
"""


def test_figures_are_written_into_tables_with_a_column_for_them() -> None:
    """A goal that was missed is bold; other tables and unknown labels stay as they are."""
    written = figures_written_in(PAGE, REPORT)
    assert written == PAGE.replace("call | ? | less", "call | 0.33 (1 us, 3 us) | less").replace(
        "9.99", "**1.41**"
    )
    assert _unknown_labels(PAGE, REPORT) == ["a run"]


def test_bars_are_written_into_texts_that_begin_with_a_label() -> None:
    """Rows whose labels go on after a colon are compared with it."""
    rows = [
        Row(label="a walk", measured="2.00", value=2.0),
        Row(label="a walk: by days", measured="4.00", value=4.0),
        Row(label="a walker", measured="9.00", value=9.0),
    ]
    report = evolve(REPORT, parts=[evolve(REPORT.parts[0], rows=rows)])
    page = "```text\na walk\n\n```\n"
    bars = f"income_client  {'█' * 20} 2.00\nby days        {'█' * 40} 4.00\n"
    assert figures_written_in(page, report) == f"```text\na walk\n\n{bars}```\n"


def test_a_report_survives_its_json() -> None:
    assert from_json(to_json(REPORT)) == REPORT
