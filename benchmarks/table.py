"""The table of results: what was measured, against which goal; measures nothing itself."""

from collections.abc import Iterable
from textwrap import wrap
from typing import Final

from attrs import frozen

_WIDTH: Final = 100
_MEASURED: Final = 25
_GOAL: Final = 10
_MET: Final = 3
_WHAT: Final = _WIDTH - _MEASURED - _GOAL - _MET - 3


@frozen(kw_only=True)
class Row:
    """One line of the table."""

    what: str
    """What was measured."""
    measured: str
    """The figure, with its unit."""
    goal: str = ""
    """The figure to reach, empty where the row is there for comparison."""
    is_met: bool | None = None
    """Whether it was reached, None where there is no goal."""
    value: float | None = None
    """The figure as a number, where it is one; what a chart draws."""
    most: float | None = None
    """The largest number that is good, where there is one."""
    rounds: int | None = None
    """Rounds that the figure is the median of, or runs that it is the worst of; None for one."""


def at_most(
    what: str, value: float, goal: float, *, shown: str | None = None, rounds: int | None = None
) -> Row:
    """Return the row of a figure that should be small.

    Args:
        what: what was measured.
        value: the figure.
        goal: the largest figure that is good.
        shown: the text for the figure, with its unit or more about it.
        rounds: how many the figure comes from.
    """
    return Row(
        what=what,
        measured=shown or f"{value:.2f}",
        goal=f"<= {goal:g}",
        is_met=value <= goal,
        value=value,
        most=goal,
        rounds=rounds,
    )


def render(rows: Iterable[Row]) -> str:
    """Return the rows as text, 100 columns wide."""
    head = _line("what", "measured", "goal", "met")
    lines = [head, "-" * _WIDTH]
    for row in rows:
        met = {True: "yes", False: "NO", None: ""}[row.is_met]
        first, *others = wrap(row.what, _WHAT, subsequent_indent="  ") or [""]
        lines.append(_line(first, row.measured, row.goal, met))
        lines += others
    return "\n".join(lines)


def _line(what: str, measured: str, goal: str, met: str) -> str:
    text = f"{what:<{_WHAT}} {measured:>{_MEASURED}} {goal:>{_GOAL}} {met:>{_MET}}"
    return text.rstrip()
