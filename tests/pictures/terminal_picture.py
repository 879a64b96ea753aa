"""What a terminal shows at last, as text and as an SVG picture; runs nothing.

The picture holds its own text for those who do not see it, and asks nothing of any host.
"""

import io
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final
from xml.sax.saxutils import escape

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

_HEIGHT: Final = 400
_SGR: Final = re.compile(r"\x1b\[([0-9;]*)m")
_COLOURS: Final = {"brown": "yellow", "brightbrown": "bright_yellow"}
_FORMAT: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<desc>@DESCRIPTION@</desc>
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def screen_of(shown: str, width: int) -> Text:
    """Return what a terminal shows after everything that it got.

    Args:
        shown: all of it, with what moves the cursor.
        width: of the terminal, in columns.
    """
    screen: Any = pyte.Screen(width, _HEIGHT)
    # What pyte knows nothing of, faint letters, takes the place of what nobody uses.
    pyte.Stream(screen).feed(_SGR.sub(_faint_as_blinking, shown))
    lines = [Text.assemble(*_runs(screen, line)) for line in range(_HEIGHT)]
    for line in lines:
        line.rstrip()
    while lines and not lines[-1].plain:
        lines.pop()
    return Text("\n").join(lines)


def picture_of(text: Text, width: int, *, name: str, title: str) -> str:
    """Return an SVG picture of a terminal.

    Args:
        text: what it shows.
        width: in columns.
        name: prefix of the ids in the picture.
        title: of its window.
    """
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(text, no_wrap=True, overflow="crop", highlight=False)
    svg = console.export_svg(title=title, code_format=_FORMAT, unique_id=f"picture-{name}")
    lines = (line.rstrip() for line in svg.splitlines())
    return "\n".join(lines).replace("@DESCRIPTION@", escape(text.plain)) + "\n"


def _faint_as_blinking(found: re.Match[str]) -> str:
    codes = found[1].split(";")
    # 38;2;r;g;b and 48;5;n are colours, and their numbers no codes of their own.
    is_plain = not {"38", "48"} & set(codes)
    if is_plain or codes[0] == "2":
        codes = ["5" if code == "2" and (is_plain or at == 0) else code
                 for at, code in enumerate(codes)]  # fmt: skip
    return f"\x1b[{';'.join(codes)}m"


def _runs(screen: Any, line: int) -> Iterator[tuple[str, Style]]:
    """Yield the text of a line, as few pieces of one style each."""
    row = screen.buffer[line]
    chars = (row[column] for column in range(screen.columns))
    for style, run in groupby(chars, key=_style):
        text = "".join(char.data for char in run)
        # Some viewers leave out the blanks at the ends of a text, and widen the rest.
        for piece in re.split(r"(^ +| +$)", text):
            yield piece, style


def _style(char: Any) -> Style:
    return Style(
        color=_colour(char.fg),
        bgcolor=_colour(char.bg),
        bold=char.bold,
        italic=char.italics,
        dim=char.blink,
        reverse=char.reverse,
        underline=char.underscore,
    )


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return f"#{name}"
    return _COLOURS.get(name, name.replace("bright", "bright_"))
