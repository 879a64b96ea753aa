"""Draws bars as SVG that needs no text around it, no font and no library; knows no benchmark.

Values stand at the ends of their bars and goals are marked on them, so there are no axes
and no legend. A chart brings its own background, light or dark as the reader likes it.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final
from xml.etree import ElementTree as ET

from attrs import frozen

_WIDTH: Final = 760
_MARGIN: Final = 24
_LABEL: Final = 254
"""Where bars begin."""
_LONGEST: Final = 290
_BAR: Final = 16
_STEP: Final = 23
_HEADING: Final = 30
_TOP: Final = 76
_FOOT: Final = 20
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
_SVG: Final = "http://www.w3.org/2000/svg"


class Kind(Enum):
    """Whose figure a bar shows."""

    OURS = "ours"
    PEER = "peer"
    LIMIT = "limit"
    """Of what does less of the job: not to be beaten."""


@frozen(kw_only=True)
class Bar:
    """One figure."""

    label: str
    """Whose it is."""
    value: float
    """It."""
    kind: Kind
    """Whose it is, as a colour."""
    shown: str = ""
    """It as text, with its unit; two decimals by default."""
    goal: str = ""
    """The goal as text, empty where there is none."""
    is_met: bool = True
    """Whether it is."""
    mark: float | None = None
    """Where the goal stands, if it is a number."""


@frozen(kw_only=True)
class Group:
    """Bars to be compared with each other."""

    heading: str
    """What they are about; empty where the chart's title says it."""
    bars: Sequence[Bar]
    """From top to bottom."""


@frozen(kw_only=True)
class Chart:
    """Groups of bars of one scale."""

    name: str
    """Of its file, without the suffix."""
    title: str
    """What is seen."""
    subtitle: str
    """What a bar's length means, and which end is good."""
    groups: Sequence[Group]
    """From top to bottom."""
    longest: float | None = None
    """Bars beyond are cut, and say so; none by default."""


_COLOURS: Final = {
    # class: its light colour, its dark one
    "card": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#59636e", "#9198a1"),
    "ours": ("#0969da", "#4493f8"),
    "peer": ("#afb8c1", "#545d68"),
    "limit": ("#d8dee4", "#3d444d"),
    "goal": ("#1a7f37", "#3fb950"),
    "missed": ("#bc4c00", "#f0883e"),
}


def to_svg(chart: Chart) -> str:
    """Return a chart as the text of an SVG file."""
    height = _TOP + _FOOT + sum(map(_height, chart.groups))
    root = ET.Element(
        "svg",
        {
            "xmlns": _SVG,
            "viewBox": f"0 0 {_WIDTH} {height}",
            "width": f"{_WIDTH}",
            "height": f"{height}",
            "role": "img",
            "aria-labelledby": "title about",
            "font-family": _FONT,
        },
    )
    ET.SubElement(root, "title", {"id": "title"}).text = chart.title
    ET.SubElement(root, "desc", {"id": "about"}).text = _in_words(chart)
    # The light colours stand in the elements, for viewers that read no style.
    dark = "".join(f".{name}{{fill:{colour}}}" for name, (_, colour) in _COLOURS.items())
    ET.SubElement(root, "style").text = f"@media (prefers-color-scheme:dark){{{dark}}}"
    _box(root, "card", 0, 0, _WIDTH, height, radius=8)
    _text(root, "ink", _MARGIN, 36, chart.title, size=19, weight=600)
    _text(root, "faint", _MARGIN, 58, chart.subtitle, size=13)
    pixels = _LONGEST / (_scale(chart) or 1.0)
    y = _TOP
    for group in chart.groups:
        _draw_group(root, group, y, pixels)
        y += _height(group)
    ET.indent(root, " ")
    return ET.tostring(root, encoding="unicode") + "\n"


def _height(group: Group) -> int:
    return (_HEADING if group.heading else 8) + _STEP * len(group.bars)


def _scale(chart: Chart) -> float:
    bars = [bar for group in chart.groups for bar in group.bars]
    longest = max((max(bar.value, bar.mark or 0.0) for bar in bars), default=1.0)
    return longest if chart.longest is None else min(longest, chart.longest)


def _in_words(chart: Chart) -> str:
    figures = "; ".join(
        f"{group.heading} {bar.label} {_figure(bar)}".strip()
        for group in chart.groups
        for bar in group.bars
    )
    return f"{chart.subtitle}: {figures}"


def _draw_group(root: ET.Element, group: Group, top: int, pixels: float) -> None:
    y = top
    if group.heading:
        _text(root, "ink", _MARGIN, y + 20, group.heading, size=14, weight=600)
    y += _HEADING if group.heading else 8
    for bar in group.bars:
        _draw_bar(root, bar, y, pixels)
        y += _STEP


def _draw_bar(root: ET.Element, bar: Bar, y: int, pixels: float) -> None:
    line = y + _BAR - 3
    is_ours = bar.kind is Kind.OURS
    weight = 600 if is_ours else 400
    label = "ink" if is_ours else "faint"
    _text(root, label, _LABEL - 10, line, bar.label, size=13, weight=weight, anchor="end")
    length = min(bar.value * pixels, _LONGEST)
    _box(root, bar.kind.value, _LABEL, y, max(length, 2.0), _BAR, radius=2)
    if bar.value * pixels > _LONGEST + 0.5:
        _box(root, "card", _LABEL + _LONGEST - 22, y, 4, _BAR, radius=0)
        _box(root, "card", _LABEL + _LONGEST - 14, y, 4, _BAR, radius=0)
    end = _LABEL + length
    colour = "goal" if bar.is_met else "missed"
    if bar.mark is not None:
        at = _LABEL + min(bar.mark * pixels, _LONGEST)
        _box(root, colour, at - 1.5, y - 3, 3, _BAR + 6, radius=1)
        end = max(end, at + 1.5)
    element = _text(root, "ink", end + 7, line, _value(bar), size=13, weight=weight)
    if bar.goal:
        note = ET.SubElement(element, "tspan", _ink(colour))
        note.attrib |= {"dx": "6", "font-weight": "400"}
        note.text = _goal(bar)


def _figure(bar: Bar) -> str:
    return f"{_value(bar)} ({_goal(bar)})" if bar.goal else _value(bar)


def _value(bar: Bar) -> str:
    return bar.shown or f"{bar.value:.2f}"


def _goal(bar: Bar) -> str:
    return f"goal {bar.goal}" if bar.is_met else f"goal {bar.goal} missed"


def _ink(name: str) -> dict[str, str]:
    return {"class": name, "fill": _COLOURS[name][0]}


def _box(
    root: ET.Element, name: str, x: float, y: float, width: float, height: float, *, radius: int
) -> None:
    box = ET.SubElement(root, "rect", _ink(name))
    box.attrib |= {
        "x": f"{x:g}",
        "y": f"{y:g}",
        "width": f"{width:.5g}",
        "height": f"{height:g}",
        "rx": f"{radius}",
    }


def _text(
    root: ET.Element,
    name: str,
    x: float,
    y: float,
    text: str,
    *,
    size: int,
    weight: int = 400,
    anchor: str = "start",
) -> ET.Element:
    element = ET.SubElement(root, "text", _ink(name))
    element.attrib |= {
        "x": f"{x:g}",
        "y": f"{y:g}",
        "font-size": f"{size}",
        "font-weight": f"{weight}",
        "text-anchor": anchor,
    }
    element.text = text
    return element
