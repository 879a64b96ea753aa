"""The charts of a report: which rows stand on which; ``python -m benchmarks.charts`` redraws them.

Knows rows by what they say they are. A row that is not there, or without a
number, is no bar, and a chart without bars is not drawn.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

from .chart_plans import PLANS, Bars
from .drawing import Bar, Chart, Group, to_svg
from .report import Report, from_json
from .table import Row


@frozen
class _Found:
    row: Row
    match: "re.Match[str]"
    value: float


def charts(report: Report) -> Iterator[Chart]:
    """Return the charts that a report has the rows for."""
    rows = {part.name: {row.what.strip(): row for row in part.rows} for part in report.parts}
    for plan in PLANS:
        groups = [
            Group(heading=bars.heading, bars=found)
            for bars in plan.groups
            if (found := list(_bars(bars, rows.get(bars.part, {}))))
        ]
        if groups:
            yield Chart(
                name=plan.name,
                title=plan.title,
                subtitle=plan.subtitle,
                groups=groups,
                longest=plan.longest,
            )


def draw(report: Report, directory: Path) -> None:
    """Draw the charts of a report into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for chart in charts(report):
        (directory / f"{chart.name}.svg").write_text(to_svg(chart), "utf-8")


def _bars(bars: Bars, rows: Mapping[str, Row]) -> Iterator[Bar]:
    for pick in bars.picks:
        found = _found(pick.row, rows)
        if found is None:
            continue
        label = found.match.expand(pick.label)
        value, row = found.value, found.row
        if pick.over is not None:
            other = _found(pick.over, rows)
            if other is not None:
                yield Bar(label=label, value=value / other.value, kind=pick.kind)
            continue
        yield Bar(
            label=label,
            value=value,
            kind=pick.kind,
            shown=f"{value:.1f}{bars.unit}" if bars.unit else "",
            goal=row.goal.replace("<=", "≤"),
            is_met=row.is_met is not False,
            mark=row.most,
        )


def _found(pattern: str, rows: Mapping[str, Row]) -> _Found | None:
    last = None
    for what, row in rows.items():
        match = re.match(pattern, what)
        if match and row.value is not None:
            last = _Found(row, match, row.value)
    return last


def main() -> None:
    """Draw the charts of the results that stand beside this file."""
    here = Path(__file__).parent
    draw(from_json((here / "results.json").read_text("utf-8")), here / "charts")


if __name__ == "__main__":
    main()
