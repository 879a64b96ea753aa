"""How wide the columns of a table are, and what of a text fits; knows no terminal."""

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

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
        prose: for each column whether it is cut before others are.
    """
    wanted = [max(map(cell_len, column), default=0) for column in zip(*cells, strict=True)]
    if most is None:
        return tuple(wanted)
    wanted = [min(width, most) for width in wanted]
    for number in reversed(range(len(wanted))):
        if optional[number] and _whole(wanted) > most:
            wanted[number] = 0
    _cut([number for number, is_prose in enumerate(prose) if is_prose], wanted, most, _LEAST_PROSE)
    _cut(range(len(wanted)), wanted, most, _LEAST)
    return tuple(wanted)


def _cut(numbers: Sequence[int], wanted: list[int], most: int, least: int) -> None:
    """Make columns narrower until all fit; the widest first, so that short ones stay whole."""
    while numbers and _whole(wanted) > most:
        widest = max(numbers, key=wanted.__getitem__)
        if wanted[widest] <= least:
            return
        wanted[widest] -= 1


def _whole(found: Sequence[int]) -> int:
    shown = [width for width in found if width]
    return sum(shown) + GAP * (len(shown) - 1)


def fitted(text: str, width: int, *, right: bool, ellipsis: str) -> str:
    """Return a text in exactly so many cells, with an ellipsis where some of it is left out.

    Args:
        text: printable characters.
        width: cells.
        right: whether it stands at the right.
        ellipsis: one cell that says that more is meant.
    """
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, max(0, width - 1)) + ellipsis
    padding = " " * (width - length)
    return padding + text if right else text + padding
