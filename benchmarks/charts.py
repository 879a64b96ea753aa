"""Draws rows as bars in SVG that needs no text around it, no font and no library.

A row is on a chart if its group says so. Values are at the ends of their bars, so there are no
axes and no legend. A chart brings its own background, light or dark as the reader likes it.
"""

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Final

from attrs import frozen

from .report import OURS, Report, Row

_WIDTH: Final = 760
_MARGIN: Final = 24
_LABEL: Final = 220
"""Where bars begin."""
_LONGEST: Final = 430
_BAR: Final = 16
_STEP: Final = 23
_HEADING: Final = 32
_TOP: Final = 72
_FOOT: Final = 22
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
_OPENING: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
    ' height="{height}" role="img" aria-labelledby="title about" font-family="{font}">'
)
_COLOURS: Final = {
    # class: its light colour, its dark one
    "card": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#59636e", "#9198a1"),
    "ours": ("#0969da", "#4493f8"),
    "other": ("#afb8c1", "#545d68"),
}


@frozen
class _Chart:
    title: str
    subtitle: str
    """What a bar's length means, and which end is good."""
    reference: str = ""
    """What the figures are ratios to, as the last bar of each heading; none by default."""


@frozen
class _Bar:
    label: str
    value: float


_CHARTS: Final[Mapping[str, _Chart]] = {
    "requests": _Chart(
        "List requests of a walk over 1,000,000 applications",
        "requests / the fewest that can carry them; shorter is better",
    ),
    "calls": _Chart(
        "One call, from request to record",
        "CPU time / that of httpx with pydantic; shorter is better",
        "httpx with pydantic",
    ),
    "decoding": _Chart(
        "From bytes to records",
        "CPU time / that of pydantic's strict models; shorter is better",
        "pydantic, strict",
    ),
}
"""Every chart by its name, which is that of its file and how the group of its rows begins."""


def draw(report: Report, directory: Path) -> None:
    """Draw the charts that a report has rows for into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, svg in charts(report):
        (directory / f"{name}.svg").write_text(svg, "utf-8")


def charts(report: Report) -> Iterator[tuple[str, str]]:
    """Return name and SVG of each chart that a report has rows for."""
    for name, chart in _CHARTS.items():
        groups: dict[str, list[_Bar]] = {}
        for row in report.rows():
            of, _, heading = row.group.partition(": ")
            if of == name:
                groups.setdefault(heading, []).append(_bar(row))
        if chart.reference:
            for bars in groups.values():
                bars.append(_Bar(chart.reference, 1.0))
        if groups:
            yield name, _svg(chart, groups)


def _bar(row: Row) -> _Bar:
    if row.value is None:
        raise ValueError(f"a bar needs a number: {row.label}")
    return _Bar(row.bar, row.value)


def _svg(chart: _Chart, groups: Mapping[str, list[_Bar]]) -> str:
    bars = [bar for some in groups.values() for bar in some]
    height = _TOP + _HEADING * len(groups) + _STEP * len(bars) + _FOOT
    pixels = _LONGEST / max(bar.value for bar in bars)
    lines = [
        _text("ink", (_MARGIN, 36), chart.title, size=19, weight=600),
        _text("faint", (_MARGIN, 58), chart.subtitle),
    ]
    y = _TOP
    for heading, some in groups.items():
        lines.append(_text("ink", (_MARGIN, y + 22), heading, size=14, weight=600))
        y += _HEADING
        for bar in some:
            lines += _drawn(bar, y, max(2.0, bar.value * pixels))
            y += _STEP
    # The light colours are in the elements, for viewers that read no style.
    dark = "".join(f".{name}{{fill:{colour}}}" for name, (_, colour) in _COLOURS.items())
    return "\n".join(
        [
            _OPENING.format(width=_WIDTH, height=height, font=_FONT),
            f'<title id="title">{escape(chart.title)}</title>',
            f'<desc id="about">{escape(_in_words(chart, groups))}</desc>',
            f"<style>@media (prefers-color-scheme:dark){{{dark}}}</style>",
            _box("card", (0, 0, _WIDTH, height), radius=8),
            *lines,
            "</svg>\n",
        ]
    )


def _in_words(chart: _Chart, groups: Mapping[str, list[_Bar]]) -> str:
    figures = "; ".join(
        f"{heading}: " + ", ".join(f"{bar.label} {bar.value:.2f}" for bar in bars)
        for heading, bars in groups.items()
    )
    return f"{chart.subtitle}. {figures}."


def _drawn(bar: _Bar, y: int, length: float) -> tuple[str, str, str]:
    line, is_ours = y + _BAR - 3, bar.label == OURS
    weight = 600 if is_ours else 400
    colour = "ink" if is_ours else "faint"
    return (
        _text(colour, (_LABEL - 10, line), bar.label, weight=weight, anchor="end"),
        _box("ours" if is_ours else "other", (_LABEL, y, length, _BAR), radius=2),
        _text("ink", (_LABEL + length + 7, line), f"{bar.value:.2f}", weight=weight),
    )


def _box(name: str, place: tuple[float, float, float, float], *, radius: int) -> str:
    x, y, width, height = place
    return (
        f'<rect class="{name}" fill="{_COLOURS[name][0]}" x="{x}" y="{y}"'
        f' width="{width:.5g}" height="{height}" rx="{radius}"/>'
    )


def _text(
    name: str,
    place: tuple[float, float],
    text: str,
    *,
    size: int = 13,
    weight: int = 400,
    anchor: str = "start",
) -> str:
    return (
        f'<text class="{name}" fill="{_COLOURS[name][0]}" x="{place[0]:.5g}" y="{place[1]}"'
        f' font-size="{size}" font-weight="{weight}" text-anchor="{anchor}">{escape(text)}</text>'
    )
