"""A walk as a picture: where the rows lay, what was asked, and how often a page was full.

Time runs from left to right. Above are the rows, below each list request as the window that it
covered, or that was divided since its page was full, in the order in which they were done.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from enum import Enum
from typing import Final

from attrs import frozen

from income_client import Event, PageCovered, Window, WindowSplit

from .output import counted

_WIDTH: Final = 960
_MARGIN: Final = 24
_ROWS_TOP: Final = 96
_ROWS_HEIGHT: Final = 120
_BARS: Final = 152
_AXIS: Final = 34
_MOST_PIXELS: Final = 2400
_STEP: Final = 9.0
_THINNEST: Final = 1.5
_TICKS: Final = 4
_FEW_DAYS: Final = 5 * 86_400
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"


class Outcome(Enum):
    """What a page said of its window."""

    COVERED = "covered"
    EMPTY = "empty"
    FULL = "full"
    SATURATED = "saturated"


_COLOURS: Final = {
    # what it fills: its light colour, its dark one
    "card": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#59636e", "#9198a1"),
    "line": ("#d1d9e0", "#3d444d"),
    "covered": ("#0969da", "#4493f8"),
    "empty": ("#c8d1da", "#3d444d"),
    "full": ("#d9730d", "#f0883e"),
    "saturated": ("#cf222e", "#ff7b72"),
}
_KEY: Final = {
    Outcome.COVERED: "its page holds all of it",
    Outcome.EMPTY: "no rows",
    Outcome.FULL: "page full, so it is divided",
    Outcome.SATURATED: "one second with more rows than can be listed",
}


@frozen
class Asked:
    """A window of a walk, and what came of it."""

    window: Window
    rows: int
    outcome: Outcome


class WalkPicture:
    """Collects the events of a walk, and draws them as SVG that needs nothing else."""

    def __init__(self) -> None:
        self._asked: list[Asked] = []
        self._requests = 0

    def add_event(self, event: Event) -> None:
        """Take up what an event of the client tells about the walk."""
        match event:
            case WindowSplit(window=window, rows=rows):
                self._asked.append(Asked(window, rows, Outcome.FULL))
            case PageCovered(window=window, rows=rows, requests=requests):
                outcome = Outcome.COVERED if rows else Outcome.EMPTY
                self._asked.append(Asked(window, rows, outcome))
                self._requests = requests

    def draw(self, saturated: Iterable[Window] = ()) -> bytes:
        """Return the picture of the walk so far.

        Args:
            saturated: the seconds that hold more rows than can be listed.
        """
        asked = [*self._asked, *(Asked(window, 0, Outcome.SATURATED) for window in saturated)]
        found = [one for one in asked if one.outcome in {Outcome.COVERED, Outcome.SATURATED}]
        shown = _where_rows_lie([one.window for one in found or asked])
        rows = sum(one.rows for one in found)
        full = sum(one.outcome is Outcome.FULL for one in asked)
        title = (
            f"{counted(rows, 'row')}, {counted(self._requests, 'list request')}, "
            f"{counted(full, 'full page')}"
        )
        if shown is None:
            return _page(_Canvas(Window(0, 1)), title, "no window was covered", 0)
        canvas = _Canvas(shown)
        canvas.draw_key(asked)
        canvas.draw_rows(found)
        height = canvas.draw_requests(asked)
        subtitle = (
            "Above: the rows (root scale), each page's rows spread evenly over its window. "
            "Below: the window of each list request, in order."
        )
        return _page(canvas, title, subtitle, height)


def _where_rows_lie(windows: Sequence[Window]) -> Window | None:
    """Return the span to show: without an outer window that is longer than all others together.

    The first window of a walk from the beginning of time is half a century.
    """
    if not windows:
        return None
    ordered = sorted(windows)
    while len(ordered) > 1:
        first, last = ordered[0], ordered[-1]
        if _seconds(first) > ordered[-1].before - ordered[1].after:
            ordered = ordered[1:]
        elif _seconds(last) > ordered[-2].before - first.after:
            ordered = ordered[:-1]
        else:
            break
    after, before = ordered[0].after, max(window.before for window in ordered)
    room = (before - after) // 40 if len(ordered) < len(windows) else 0
    return Window(after - room, before + room)


def _seconds(window: Window) -> int:
    return window.before - window.after


class _Canvas:
    """Elements of a picture whose width is a span of time."""

    def __init__(self, shown: Window) -> None:
        self._shown = shown
        self._pixels = (_WIDTH - 2 * _MARGIN) / max(1, _seconds(shown))
        self.elements: list[str] = []

    def draw_rows(self, found: Sequence[Asked]) -> None:
        """Draw how many rows lay where; within a window they count as evenly spread."""
        bars = [0.0] * _BARS
        begins, width = self._shown.after, max(1, _seconds(self._shown)) / _BARS
        for one in found:
            first = max(0, int((one.window.after - begins) / width))
            last = min(_BARS - 1, int((one.window.before - 1 - begins) / width))
            for bar in range(first, last + 1):
                left, right = begins + bar * width, begins + (bar + 1) * width
                shared = min(right, one.window.before) - max(left, one.window.after)
                bars[bar] += one.rows * max(0.0, shared) / max(1, _seconds(one.window))
        highest = max(bars) or 1.0
        step = (_WIDTH - 2 * _MARGIN) / _BARS
        for bar, rows in enumerate(bars):
            if rows > 0:
                # By the root: beside a bulk import the usual days would not be seen.
                height = max(1.0, (rows / highest) ** 0.5 * _ROWS_HEIGHT)
                place = (_MARGIN + bar * step, _ROWS_TOP + _ROWS_HEIGHT - height)
                self._box("faint", place, (step - 1, height), f"about {rows:,.0f} rows")
        self._draw_axis()

    def draw_requests(self, asked: Sequence[Asked]) -> float:
        """Draw each request as its window, one below the other; return the height that it took."""
        step = min(_STEP, _MOST_PIXELS / max(1, len(asked)))
        thick = step * 0.8
        y: float = _ROWS_TOP + _ROWS_HEIGHT + _AXIS
        for one in asked:
            # What lies outside is a mark at the edge.
            left = min(max(self._x(one.window.after), _MARGIN), _WIDTH - _MARGIN - _THINNEST)
            right = min(max(self._x(one.window.before), left + _THINNEST), _WIDTH - _MARGIN)
            about = f"{one.window}: {counted(one.rows, 'row')}, {_KEY[one.outcome]}"
            self._box(one.outcome.value, (left, y), (right - left, thick), about)
            y += step
        return y - _ROWS_TOP - _ROWS_HEIGHT - _AXIS

    def draw_key(self, asked: Sequence[Asked]) -> None:
        """Draw what the colours mean that are there."""
        x: float = _MARGIN
        used = {one.outcome for one in asked}
        for outcome, meaning in _KEY.items():
            if outcome not in used:
                continue
            self._box(outcome.value, (x, 70), (11, 11))
            self.write("faint", (x + 16, 80), meaning, size=12)
            x += 40 + 5.8 * len(meaning)

    def write(
        self,
        colour: str,
        place: tuple[float, float],
        text: str,
        *,
        size: int,
        weight: int = 400,
        anchor: str = "start",
    ) -> None:
        """Write a line whose start, middle or end is at a place."""
        self.elements.append(
            f'<text class="{colour}" fill="{_COLOURS[colour][0]}" x="{place[0]:.5g}"'
            f' y="{place[1]:.5g}" font-size="{size}" font-weight="{weight}"'
            f' text-anchor="{anchor}">{text}</text>'
        )

    def _draw_axis(self) -> None:
        y = _ROWS_TOP + _ROWS_HEIGHT
        self._box("line", (_MARGIN, y), (_WIDTH - 2 * _MARGIN, 1))
        shown = self._shown
        is_short = _seconds(shown) < _FEW_DAYS
        for tick in range(_TICKS + 1):
            time = shown.starts_at + timedelta(seconds=_seconds(shown) * tick // _TICKS)
            text = f"{time:%Y-%m-%d %H:%M:%S}" if is_short else f"{time:%Y-%m-%d}"
            x = _MARGIN + (_WIDTH - 2 * _MARGIN) * tick / _TICKS
            self._box("line", (min(x, _WIDTH - _MARGIN - 1), y), (1, 6))
            anchor = {0: "start", _TICKS: "end"}.get(tick, "middle")
            self.write("faint", (x, y + 20), text, size=12, anchor=anchor)

    def _x(self, second: int) -> float:
        return _MARGIN + (second - self._shown.after) * self._pixels

    def _box(
        self, colour: str, place: tuple[float, float], size: tuple[float, float], about: str = ""
    ) -> None:
        title = f"><title>{about}</title></rect>" if about else "/>"
        self.elements.append(
            f'<rect class="{colour}" fill="{_COLOURS[colour][0]}" x="{place[0]:.5g}"'
            f' y="{place[1]:.6g}" width="{size[0]:.5g}" height="{size[1]:.5g}"{title}'
        )


def _page(canvas: _Canvas, title: str, subtitle: str, height: float) -> bytes:
    canvas.write("ink", (_MARGIN, 36), title, size=19, weight=600)
    canvas.write("faint", (_MARGIN, 57), subtitle, size=13)
    high = round(_ROWS_TOP + _ROWS_HEIGHT + _AXIS + height + _MARGIN)
    # The light colours are in the elements, for viewers that read no style.
    dark = "".join(f".{name}{{fill:{colour}}}" for name, (_, colour) in _COLOURS.items())
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {high}" width="{_WIDTH}"'
        f' height="{high}" role="img" aria-labelledby="title about" font-family="{_FONT}">'
    )
    lines = [
        opening,
        f'<title id="title">{title}</title>',
        f'<desc id="about">{subtitle}</desc>',
        f"<style>@media (prefers-color-scheme:dark){{{dark}}}</style>",
        f'<rect class="card" fill="{_COLOURS["card"][0]}" width="{_WIDTH}" height="{high}"/>',
        *canvas.elements,
        "</svg>\n",
    ]
    return "\n".join(lines).encode()
