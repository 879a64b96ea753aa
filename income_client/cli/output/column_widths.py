"""How wide the columns of a table are, and where texts are broken; knows no terminal."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len, chop_cells

GAP: Final = 2
"""Cells between two columns."""
_LEAST: Final = 6
_LEAST_PROSE: Final = 16


def widths(
    cells: Sequence[Sequence[str]],
    most: int | None,
    *,
    optional: Sequence[bool],
    prose: Sequence[bool],
) -> tuple[int, ...]:
    """Return the widths of columns, 0 for one that is left out.

    Args:
        cells: rows of texts, the headings among them.
        most: width of all together; None for as wide as they are.
        optional: for each column whether it may be left out; the last goes first.
        prose: for each column whether it is made narrow before others are.
    """
    wanted = [max(map(cell_len, column), default=0) for column in zip(*cells, strict=True)]
    if most is None:
        return tuple(wanted)
    wanted = [min(width, most) for width in wanted]
    for number in reversed(range(len(wanted))):
        if optional[number] and _whole(wanted) > most:
            wanted[number] = 0
    proses = [number for number, is_prose in enumerate(prose) if is_prose]
    everything = range(len(wanted))
    _narrow(proses, wanted, most, [_LEAST_PROSE] * len(wanted))
    # Texts are broken between words for as long as that is enough: an id is one.
    _narrow(everything, wanted, most, [_longest_word(one) for one in zip(*cells, strict=True)])
    _narrow(everything, wanted, most, [_LEAST] * len(wanted))
    return tuple(wanted)


def _longest_word(column: Iterable[str]) -> int:
    return max((cell_len(word) for cell in column for word in cell.split()), default=0)


def _narrow(numbers: Iterable[int], wanted: list[int], most: int, least: Sequence[int]) -> None:
    """Make columns narrower until all fit; the widest first, so that short ones stay whole."""
    found = [number for number in numbers if wanted[number] > least[number]]
    while found and _whole(wanted) > most:
        widest = max(found, key=wanted.__getitem__)
        wanted[widest] -= 1
        if wanted[widest] <= least[widest]:
            found.remove(widest)


def _whole(found: Sequence[int]) -> int:
    shown = [width for width in found if width]
    return sum(shown) + GAP * (len(shown) - 1)


def folded(text: str, width: int) -> list[str]:
    """Return a text as lines of at most so many cells; nothing of it is left out but spaces.

    Args:
        text: printable characters.
        width: cells, 2 at the least.
    """
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".lstrip()
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines[len(lines) - (not lines[-1]) :] = chop_cells(word, width)
    return lines


def padded(text: str, width: int, *, right: bool) -> str:
    """Return a text in at least so many cells.

    Args:
        text: printable characters.
        width: cells.
        right: whether it stands at the right.
    """
    padding = " " * (width - cell_len(text))
    return padding + text if right else text + padding
