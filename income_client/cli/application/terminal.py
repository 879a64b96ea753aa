"""An application on a terminal of 40 columns or more."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise, zip_longest
from typing import Final

from attrs import frozen
from rich.bar import Bar
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from income_client.cli.output import print_lines

from .view import (
    ApplicantView,
    DocumentView,
    RecordView,
    SourceView,
    TimeLine,
    YearView,
    amount_text,
)

_ALARM: Final = "bold red"
_GAP: Final = 2
_MOST_NAME: Final = 18
_LEAST_SUPPORT: Final = 12
_MOST_SUPPORT: Final = 30
_LEAST_BAR: Final = 6
_MOST_BAR: Final = 40
_EIGHTHS: Final = 8
_MOST_LABEL: Final = 24
_DAYS: Final = 24
"""Room for a pay period in words."""
_LEAST_TRACK: Final = 10
_MOST_TRACK: Final = 72

_Row = tuple[RenderableType, ...]


def show(view: RecordView) -> None:
    """Print an application on standard output."""
    print_lines(Drawing(view))


@frozen
class Drawing:
    """An application in the width that there is."""

    view: RecordView

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        view = self.view
        yield Text(f"Application {view.application_id}", style="bold")
        yield Text("  ".join(f"{name} {value}" for name, value in view.facts))
        if view.is_masked:
            yield Text("Personal data is hidden; --show-personal-data shows it.", style="dim")
        for sentence in view.suspicions:
            yield ""
            yield Text(f"! Suspected fraudulent: {sentence}", style=_ALARM)
        columns = _Columns(view, options.max_width)
        for person in view.applicants:
            yield ""
            yield from _draw_applicant(person, columns)
        if len(view.applicants) > 1:
            yield ""
            yield Text("All applicants together", style="bold")
            yield ""
            yield columns.totals(view.together)
        yield ""
        yield Text("Documents", style="bold")
        yield ""
        yield from _draw_documents(view.documents, options.max_width)
        yield ""
        yield from (Text(note, style="dim") for note in view.notes)


def _draw_applicant(person: ApplicantView, columns: "_Columns") -> Iterator[RenderableType]:
    yield Text.assemble((person.heading, "bold"), "  ", person.name)
    if person.facts:
        facts = Table.grid(padding=(0, _GAP))
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column(overflow="fold")
        for name, value in person.facts:
            facts.add_row(name, Text(value))
        yield facts
    yield ""
    if person.years:
        yield columns.income(person.years)
    else:
        yield Text("No income was calculated.", style="dim")


class _Columns:
    """The columns of income, the same for all applicants, so that their bars can be compared.

    A year and an amount are never broken. Without room for bars there are none, and
    documents are listed below the source that they support.
    """

    def __init__(self, view: RecordView, width: int) -> None:
        years = [year for person in view.applicants for year in person.years]
        sources = [source for year in years for source in year.sources]
        totals = [year.total for year in (*years, *view.together)]
        amounts = [*totals, *(source.amount for source in sources)]
        supports = [line for source in sources for line in _support_text(source).plain.split("\n")]
        self._largest = max((source.amount for source in sources), default=Decimal(0))
        self._year = _widest_of(*(word for year in years for word in _year_words(year)))
        self._amount = _widest_of(*map(amount_text, amounts))
        self._rest = width - self._year - _GAP
        self._name = min(_widest_of("total", *(source.name for source in sources)), _MOST_NAME)
        support = min(_widest_of(*supports), _MOST_SUPPORT)
        room = self._rest - self._name - self._amount - 3 * _GAP
        self._has_bars = room >= _LEAST_BAR + min(support, _LEAST_SUPPORT)
        self._bar = min(max(room - support, _LEAST_BAR), _MOST_BAR)
        self._support_text = min(room - self._bar, support)

    def income(self, years: Sequence[YearView]) -> Table:
        """Return a table of the sources of each year, and their sum."""
        table = self._empty_table()
        for place, year in enumerate(years):
            if place:
                table.add_row()
            rows = [self._source_row(source) for source in year.sources]
            if len(rows) != 1:
                rows.append(self._total_row(year))
            self._add_year(table, year, rows)
        return table

    def totals(self, years: Sequence[YearView]) -> Table:
        """Return a table of the sums of years, each of which says if it is in doubt."""
        table = self._empty_table()
        for year in years:
            self._add_year(table, year, [self._total_row(year, says_doubt=True)])
        return table

    def _empty_table(self) -> Table:
        table = Table.grid(padding=(0, _GAP, 0, 0))
        table.add_column(no_wrap=True, style="bold", width=self._year)
        if self._has_bars:
            table.add_column(overflow="fold", width=self._name)
            table.add_column(width=self._bar)
            table.add_column(justify="right", no_wrap=True, width=self._amount)
            table.add_column(overflow="fold", width=self._support_text)
        else:
            table.add_column(overflow="fold", width=self._rest)
        return table

    def _add_year(self, table: Table, year: YearView, rows: Sequence[_Row]) -> None:
        words = _year_words(year) if len(rows) > 1 else ["\n".join(_year_words(year))]
        for word, row in zip_longest(words, rows, fillvalue=""):
            table.add_row(word, *row)

    def _source_row(self, source: SourceView) -> _Row:
        style = _ALARM if source.is_suspected else ""
        name, amount = Text(source.name, style), Text(amount_text(source.amount), style)
        if not self._has_bars:
            return self._stacked_row(name, amount, _support_text(source))
        eighths = 0
        if source.amount > 0:
            # A little is drawn as a little, and not as nothing.
            eighths = max(round(source.amount / self._largest * self._bar * _EIGHTHS), 1)
        colour = "red" if source.is_suspected else "cyan"
        bar = Bar(self._bar * _EIGHTHS, 0, eighths, color=colour)
        return name, bar, amount, _support_text(source)

    def _total_row(self, year: YearView, *, says_doubt: bool = False) -> _Row:
        is_alarming = says_doubt and year.is_suspected
        name = Text("total", "bold")
        amount = Text(amount_text(year.total), _ALARM if is_alarming else "bold")
        doubt = Text("! suspected document" if is_alarming else "", _ALARM)
        if not self._has_bars:
            return self._stacked_row(name, amount, doubt)
        return name, "", amount, doubt

    def _stacked_row(self, name: Text, amount: Text, support: Text) -> _Row:
        between = self._rest - name.cell_len - amount.cell_len
        gap = " " * between if between >= _GAP else "\n"
        first = Text.assemble(name, gap, amount)
        return (Group(first, Padding(support, (0, 0, 0, _GAP))) if support else first,)


def _year_words(year: YearView) -> list[str]:
    return year.text.split(" ", 1)


def _support_text(source: SourceView) -> Text:
    if not source.support:
        return Text("no document", "dim")
    return Text("\n").join(
        Text(f"! {each.text}, suspected", _ALARM) if each.is_suspected else Text(each.text)
        for each in source.support
    )


def _widest_of(*texts: str) -> int:
    return max(map(cell_len, texts), default=0)


def _draw_documents(documents: Sequence[DocumentView], width: int) -> Iterator[RenderableType]:
    """Yield the axis, and each document with its days and what else is known of it."""
    if not documents:
        yield Text("There are none.", "dim")
        return
    line = TimeLine.of(documents)
    name = min(_widest_of(*(_label_of(each) for each in documents)), _MOST_LABEL)
    track = min(width - name - _DAYS - 2 * _GAP, _MOST_TRACK)
    widths = [name, track, _DAYS]
    if line is None or track < _LEAST_TRACK:
        widths, track = [width], width
    if line is not None:
        yield Text("█ pay period  ═ year that it supports", "dim")
        yield _make_grid(widths, "", Text(_draw_axis(line, track), "dim"), "")
    for each in documents:
        label = Text(_label_of(each), _ALARM if each.is_suspected else "")
        yield _make_grid(widths, label, _draw_track(each, line, track) if line else "", each.days)
        yield Padding(_facts_about(each), (0, 0, 0, _GAP))


def _make_grid(widths: Sequence[int], *cells: Text | str) -> Table:
    """Return cells beside each other, or below where there is one width only."""
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    for width in widths:
        grid.add_column(overflow="fold", width=width)
    if len(widths) == len(cells):
        grid.add_row(*cells)
    else:
        for cell in cells:
            if cell:
                grid.add_row(cell)
    return grid


def _label_of(document: DocumentView) -> str:
    return f"! {document.label}" if document.is_suspected else document.label


def _draw_axis(line: TimeLine, width: int) -> str:
    """Return the names of days at their places: of all, every second or so on, as there is room."""
    ticks = [(int(place * width), name) for place, name in line.ticks]
    shown = next(
        ticks[::step]
        for step in range(1, len(ticks) + 2)
        if all(after - at > len(name) for (at, name), (after, _) in pairwise(ticks[::step]))
    )
    text = ""
    for at, name in shown:
        if at + len(name) <= width:
            text = text.ljust(at) + name
    return text


def _draw_track(document: DocumentView, line: TimeLine, width: int) -> Text:
    sign = "█" if document.has_period else "═"
    cells = "·" * width
    for span in document.spans:
        start, length = line.part(span)
        first = min(int(start * width), width - 1)
        last = max(round((start + length) * width), first + 1)
        cells = cells[:first] + sign * (last - first) + cells[last:]
    track = Text(cells, "dim")
    track.highlight_regex(f"{sign}+", "not dim red" if document.is_suspected else "not dim cyan")
    return track


def _facts_about(document: DocumentView) -> Text:
    facts = [f"{name} {value}".strip() for name, value in document.facts]
    text = Text(", ".join([document.document_id, *facts]), "dim")
    if document.is_suspected:
        return Text.assemble(("suspected fraudulent", _ALARM), ", ", text)
    return text
