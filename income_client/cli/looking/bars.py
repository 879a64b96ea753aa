"""Bars and days on a line of cells of a terminal; knows no records."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from attrs import frozen
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from .days import Tick, TimeLine, spans_of
from .terminal_styles import QUIET
from .view import DocumentView

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_PLAIN: Final = Style(color="cyan")


@frozen
class _Signs:
    """What a track is made of."""

    rest: str
    """Days that the document is not about."""
    hollow: str
    """Years that it supports."""
    full: str
    """Its pay period."""


_BLOCKS: Final = _Signs("·", "═", "█")
_ASCII: Final = _Signs(".", "=", "#")


class SpacedBar:
    """A horizontal bar in the room it is given, in eighths of a cell where there are such.

    Args:
        share: its length as a share of the width that there is, 0 to 1.
        style: how it looks, if not as usual.
    """

    def __init__(self, share: float, style: Style | None = None) -> None:
        self._share = share
        self._style = style or _PLAIN

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        eighths = round(self._share * width * 8)
        # Little is still not nothing.
        cells, rest = divmod(max(eighths, 1) if self._share else 0, 8)
        if options.ascii_only:
            text = "#" * (cells or bool(rest))
        else:
            text = _EIGHTHS[8] * cells + _EIGHTHS[rest]
        yield Segment(text[:width].ljust(width), self._style)


class Axis:
    """The days that are named above the tracks.

    Args:
        line: where they are.
    """

    def __init__(self, line: TimeLine) -> None:
        self._line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        ticks = self._line.ticks
        # Every one that fits, or every second, and so on.
        texts = (_axis(ticks[::step], width) for step in range(1, len(ticks) + 1))
        yield Segment(next((text for text in texts if text), "").ljust(width), QUIET)


class TrackKey:
    """What the signs on the tracks mean."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        signs = _signs(options)
        yield Text(f"{signs.full} pay period  {signs.hollow} year that it supports", style=QUIET)


class Track:
    """A document's days on the line: its pay period filled, the years it supports hollow.

    Args:
        document: has the days.
        line: where they are.
        style: how they look, if not as usual.
    """

    def __init__(self, document: DocumentView, line: TimeLine, style: Style | None = None) -> None:
        self._document = document
        self._line = line
        self._style = style or _PLAIN

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        signs = _signs(options)
        cells = [signs.rest] * width
        for span in spans_of(self._document):
            stretch = self._line.stretch(span)
            first = min(int(stretch.start * width), width - 1)
            last = max(min(round((stretch.start + stretch.length) * width), width), first + 1)
            filled = signs.hollow if self._document.period is None else signs.full
            cells[first:last] = [filled] * (last - first)
        for sign, run in groupby(cells):
            yield Segment("".join(run), QUIET if sign == signs.rest else self._style)


def _signs(options: ConsoleOptions) -> _Signs:
    return _ASCII if options.ascii_only else _BLOCKS


def _axis(ticks: Sequence[Tick], width: int) -> str:
    """Return a line that names these days; an empty one if they overlap."""
    text = ""
    for tick in ticks:
        at = int(tick.at * width)
        if text and at <= len(text):
            return ""
        if at + len(tick.text) <= width:
            text = text.ljust(at) + tick.text
    return text
