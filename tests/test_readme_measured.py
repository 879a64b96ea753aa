"""The figures that the README quotes are those of the last whole run of the benchmarks."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from tests.support.readme import README

from tests.support.processes import ROOT

SECTION: Final = README.partition("\n## Measured\n")[2].partition("\n## ")[0]
REPORT: Final = json.loads((ROOT / "benchmarks" / "results.json").read_text("utf-8"))
ROWS: Final[tuple[Mapping[str, Any], ...]] = tuple(
    row for part in REPORT["parts"] for row in part["rows"]
)
QUOTED: Final = {
    "list requests of a walk": ("uniform, 1,000,000 rows, 1 in flight: requests / least",),
    "the same, mean of": ("1,000,000 rows, 1 in flight: requests, mean",),
    "the same over commit times": (
        "git, 80,000 real times, dated six hours before, 1 in flight",
        "git, 80,000 real times, dated six hours before, 8 in flight",
        "aiohttp, 39,432 real times, dated six hours before, 1 in flight",
        "aiohttp, 39,432 real times, dated six hours before, 8 in flight",
    ),
    "time of a walk": ("uniform, 100,000 rows, 8 in flight: time / least",),
    "CPU of a call": (
        "application of 3.5 KB, 1 in flight: CPU / httpx",
        "documents of 24 KB, 1 in flight: CPU / httpx",
        "page of 1,000, 1 in flight: CPU / httpx",
    ),
    "CPU of a small call": (
        "small application, 16 in flight: CPU / bare",
        "small page with a query: CPU / bare",
    ),
    "the same beside parsing alone": (
        "small application, 1 in flight: CPU / aiohttp and orjson",
        "small application, 16 in flight: CPU / aiohttp and orjson",
    ),
    "decoding an application": ("an application / pydantic, str", "documents / pydantic, str"),
    "decoding a page": ("a page / orjson",),
    "records with documents": (
        "1,000 records with documents, 20 ms, 16 in flight",
        "1,000 records with documents, 20 ms, 64 in flight",
    ),
    "10,000 calls at once": (
        "10,000 calls at once without a token: token requests",
        "10,000 calls at once without a token: slowest",
    ),
    "memory growth": ("1,000,000 summaries streamed", "50,000 records with documents fetched"),
    "memory of a summary": ("100,000 summaries held: memory each",),
    "`import income_client`": (
        "import income_client / import aiohttp, fresh processes: wall",
        "import and construction of a client / import aiohttp, fresh processes: wall",
    ),
    "a commit to SQLite": ("a commit to SQLite",),
    "digest of a polled record": ("digest of a documents reply",),
    "retries armed": ("retries armed but idle",),
}
"""How a line of the table begins, and the rows of the report that it quotes, likewise."""

WITHIN: Final = {"MB": 0.051, "us": 0.51}
"""How far a figure with a unit may be rounded."""


def _lines() -> Iterator[tuple[str, str]]:
    """Yield each line of the first table: what is measured, and the figures."""
    for line in SECTION.partition("\n\n| polling |")[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if line.startswith("| ") and cells[1] != "what":
            yield cells[1], cells[3]


LINES: Final = tuple(_lines())


def _row(beginning: str) -> Mapping[str, Any]:
    (found,) = [row for row in ROWS if row["name"].strip().startswith(beginning)]
    return found


def test_every_line_quotes_the_report() -> None:
    """No line of the table stands there unchecked."""
    assert len(LINES) == len(QUOTED)


@pytest.mark.parametrize(("what", "figures"), LINES, ids=[what for what, _ in LINES])
def test_a_figure_is_the_report_s(what: str, figures: str) -> None:
    """It is the rounded one, and in bold where the goal was missed."""
    start = max((start for start in QUOTED if what.startswith(start)), key=len)
    for figure, beginning in zip(re.split("[;,] ", figures), QUOTED[start], strict=True):
        row = _row(beginning)
        number = float(figure.strip("*").partition(" ")[0])
        within = next((size for unit, size in WITHIN.items() if unit in figure), 0.0051)
        assert number == pytest.approx(row["value"], abs=within)
        assert figure.startswith("**") == (row.get("met") is False)


def test_the_run_is_named() -> None:
    """Its date, its machine and how many goals it met stand in the text."""
    machine, goals = REPORT["machine"], [row["met"] for row in ROWS if row.get("goal")]
    text = " ".join(SECTION.split())
    assert REPORT["date"] in text
    assert f"{machine['cores']} cores with {machine['python']}" in text
    assert f"{sum(goals)} of {len(goals)} goals met" in text


def test_every_chart_is_shown() -> None:
    """Each that the run drew, and no other."""
    drawn = sorted(path.name for path in (ROOT / "benchmarks" / "charts").iterdir())
    assert sorted(re.findall(r"\(benchmarks/charts/(\w+\.svg)\)", SECTION)) == drawn
