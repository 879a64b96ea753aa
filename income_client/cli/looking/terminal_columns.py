"""The tables of all applicants on a terminal, in the same columns; knows amounts, and nobody."""

from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .amounts import amount_text, share
from .bars import SpacedBar
from .terminal_styles import ALARM, GAP, QUIET, STRONG
from .view import RecordView, SourceView, Support, YearView

_YEAR: Final = 4
_STACKED_YEAR: Final = 6
"""Room for ``so far`` below a year."""
_LONGEST_NAME: Final = 18
_LONGEST_SUPPORT: Final = 30
_LEAST_TEXT: Final = 8
_LEAST_BESIDE: Final = 24
"""With less room for a name and documents, words would be broken."""
_LEAST_BAR: Final = 6
_GOOD_BAR: Final = 12
_MOST_BAR: Final = 40


class Columns:
    """Widths in cells that the tables of all applicants share, so that bars can be compared.

    A year and an amount are never cut. Where there is too little room, the documents
    give way first and the names next; then there are no bars, and at last documents
    stand below names.

    Args:
        view: what is to be shown.
        width: how much room there is.
    """

    def __init__(self, view: RecordView, width: int) -> None:
        years = [year for person in view.applicants for year in person.years]
        together = view.together
        sources = [source for year in years for source in year.sources]
        amounts = [year.total for year in (*years, *together)]
        amounts += [source.amount for source in sources]
        lines = [_line(each) for source in sources for each in source.support]
        self._largest = view.largest
        self._amount = max((len(amount_text(each)) for each in amounts), default=0)
        name = min(_widest("total", *(each.name for each in sources)), _LONGEST_NAME)
        support = min(_widest("no document", *lines), _LONGEST_SUPPORT)
        self._year = max([_YEAR, *(len(year.text) for year in together)])
        room = width - self._amount - 3 * GAP
        if self._year > _YEAR and room - self._year - name - support - GAP < _GOOD_BAR:
            self._year = _STACKED_YEAR
        room -= self._year
        self._has_bars = room - GAP - _LEAST_BAR >= 2 * _LEAST_TEXT
        self._is_stacked = room < _LEAST_BESIDE
        self._rest = max(width - self._year - GAP, _LEAST_TEXT)
        if self._has_bars:
            room -= GAP + _LEAST_BAR
        self._support = max(min(support, room - max(name, _LEAST_TEXT)), _LEAST_TEXT)
        self._name = max(min(name, room - self._support), _LEAST_TEXT)
        self._bar = min(max(room - self._name - self._support, 0) + _LEAST_BAR, _MOST_BAR)

    def table(self) -> Table:
        """Return an empty table of these widths."""
        table = Table.grid(padding=(0, GAP, 0, 0))
        table.add_column(no_wrap=True, style=STRONG, width=self._year)
        if self._is_stacked:
            table.add_column(overflow="fold", width=self._rest)
            return table
        table.add_column(overflow="fold", width=self._name)
        if self._has_bars:
            table.add_column(width=self._bar)
        table.add_column(justify="right", no_wrap=True, width=self._amount)
        table.add_column(overflow="fold", width=self._support)
        return table

    def year_lines(self, year: YearView, *, rows: int) -> list[str]:
        """Return what stands in the column of years.

        Args:
            year: which one.
            rows: of the table, over which it may go; each has one text.
        """
        if len(year.text) <= self._year:
            return [year.text, *[""] * (rows - 1)]
        number, _, more = year.text.partition(" ")
        return [f"{number}\n{more}"] if rows == 1 else [number, more, *[""] * (rows - 2)]

    def add_source(self, table: Table, year: str, source: SourceView) -> None:
        """Add the row of a source, whose year is named or not."""
        style = ALARM if source.is_suspected else None
        bar = SpacedBar(share(source.amount, self._largest), style)
        amount = Text(amount_text(source.amount), style=style or "")
        self._add(
            table, year, Text(source.name, style=style or ""), bar, amount, _support(source.support)
        )

    def add_total(
        self, table: Table, year: str, shown: YearView, *, says_doubt: bool = False
    ) -> None:
        """Add the row of a sum.

        Args:
            table: to this one.
            year: what stands in the column of years.
            shown: has the sum.
            says_doubt: whether no row of the table tells what it rests on.
        """
        is_alarming = says_doubt and shown.is_suspected
        amount = Text(amount_text(shown.total), style=ALARM if is_alarming else STRONG)
        doubt = Text("! suspected document" if is_alarming else "", style=ALARM)
        self._add(table, year, Text("total", style=STRONG), "", amount, doubt)

    def _add(
        self,
        table: Table,
        year: str,
        name: Text,
        bar: RenderableType,
        amount: Text,
        support: Text,
    ) -> None:
        if self._is_stacked:
            below = [Padding(support, (0, 0, 0, GAP))] if support else []
            table.add_row(year, Group(*self._stacked(name, amount), *below))
        elif self._has_bars:
            table.add_row(year, name, bar, amount, support)
        else:
            table.add_row(year, name, amount, support)

    def _stacked(self, name: Text, amount: Text) -> Iterator[Text]:
        between = self._rest - name.cell_len - amount.cell_len
        if between >= GAP:
            yield Text.assemble(name, " " * between, amount)
        else:
            yield from (name, amount)


def _widest(*texts: str) -> int:
    return max(map(cell_len, texts))


def _line(support: Support) -> str:
    text = f"{support.mark} {support.label}".strip()
    return f"! {text}, suspected" if support.is_suspected else text


def _support(support: tuple[Support, ...]) -> Text:
    if not support:
        return Text("no document", style=QUIET)
    return Text("\n").join(
        Text(_line(each), style=ALARM if each.is_suspected else "") for each in support
    )
