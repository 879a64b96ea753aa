"""A drawing as lines that any output takes; knows widths and encodings, and not what is drawn."""

import sys
from typing import Final

from rich.console import RenderableType

from .lines import write_text
from .screen import Screen

_WIDTH: Final = 100
"""Where the output is no terminal; a ticket takes that."""
_IN_ASCII: Final = str.maketrans({"→": "->", "…": "...", "±": "+-"})


def print_lines(drawing: RenderableType) -> None:
    """Print a drawing on standard output, with colour where that is a terminal.

    Lines end where their text does, and what standard output has no bytes for is ``?``.
    """
    screen = Screen(highlight=False)
    if not screen.is_terminal:
        screen.width = _WIDTH
    with screen.capture() as captured:
        screen.print(drawing)
    write_text(*map(_encodable, captured.get().splitlines()))


def _encodable(line: str) -> str:
    line, encoding = line.rstrip(), sys.stdout.encoding or "ascii"
    try:
        line.encode(encoding)
    except UnicodeEncodeError:
        return line.translate(_IN_ASCII).encode(encoding, "replace").decode(encoding)
    return line
