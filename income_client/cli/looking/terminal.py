"""An application on a terminal, 80 columns and wider; knows layout, and nothing of records."""

from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.style import Style
from rich.table import Table
from rich.text import Text

from income_client.cli.output.lines import write_text
from income_client.cli.output.screen import Screen

from .amounts import amount_text, share
from .bars import SpacedBar
from .terminal_papers import papers
from .terminal_styles import ALARM, GAP, QUIET
from .view import ApplicantView, RecordView, SourceView, Support, YearView
from .words import footnotes, hidden_note, suspicions, title_facts

_STRONG: Final = Style(bold=True)
_YEAR: Final = 4
_LONGEST_NAME: Final = 18
_LONGEST_SUPPORT: Final = 30
_LEAST_TEXT: Final = 8
_LEAST_BAR: Final = 6
_MOST_BAR: Final = 40


def show_record(view: RecordView, screen: Screen | None = None) -> None:
    """Print an application.

    Args:
        view: what may be seen of it.
        screen: where to; standard output unless given.
    """
    screen = screen or Screen(highlight=False)
    with screen.capture() as captured:
        screen.print(Group(*_parts(view, screen.width)))
    text = captured.get().encode(screen.encoding, "replace").decode(screen.encoding)
    lines = [line.rstrip() for line in text.splitlines()]
    write_text(*(["", *lines, ""] if screen.is_terminal else lines), to=screen.file)


def _parts(view: RecordView, width: int) -> Iterator[RenderableType]:
    yield Text(f"Application {view.application_id}", style=_STRONG)
    yield Text("  ".join(title_facts(view)))
    if view.is_masked:
        yield Text(hidden_note(), style=QUIET)
    for sentence in suspicions(view):
        yield ""
        yield Text(f"! Suspected fraudulent: {sentence}", style=ALARM)
    columns = _Columns(view, width)
    for person in view.applicants:
        yield ""
        yield from _applicant(person, view, columns)
    if len(view.applicants) > 1:
        yield ""
        yield Text("All applicants together", style=_STRONG)
        yield ""
        yield _together(view, columns)
    yield ""
    yield Text("Documents", style=_STRONG)
    yield ""
    yield from papers(view.documents, width)
    yield ""
    yield from (Text(each, style=QUIET) for each in footnotes(view))


class _Columns:
    """Widths in cells that the tables of all applicants share, so that bars can be compared.

    Args:
        view: what is to be shown.
        width: how much room there is.
    """

    def __init__(self, view: RecordView, width: int) -> None:
        years = [year for person in view.applicants for year in person.years]
        sources = [source for year in years for source in year.sources]
        names = ["total", *(source.name for source in sources)]
        amounts = [year.total for year in (*years, *view.together)]
        amounts += [source.amount for source in sources]
        lines = [_line(each) for source in sources for each in source.support]
        self.amount = max((len(amount_text(each)) for each in amounts), default=0)
        room = width - _YEAR - self.amount - 4 * GAP - _LEAST_BAR
        name = min(max(map(cell_len, names)), _LONGEST_NAME)
        support = min(max(map(cell_len, ["no document", *lines])), _LONGEST_SUPPORT)
        # An amount is never cut: first the documents give way, then the names.
        self.support = max(min(support, room - name), _LEAST_TEXT)
        self.name = max(min(name, room - self.support), _LEAST_TEXT)
        self.bar = min(max(room - self.name - self.support, 0) + _LEAST_BAR, _MOST_BAR)

    def table(self) -> Table:
        """Return an empty table of these widths."""
        table = Table.grid(padding=(0, GAP, 0, 0))
        table.add_column(no_wrap=True, style=_STRONG, width=_YEAR)
        table.add_column(overflow="fold", width=self.name)
        table.add_column(width=self.bar)
        table.add_column(justify="right", no_wrap=True, width=self.amount)
        table.add_column(overflow="fold", width=self.support)
        return table


def _applicant(
    person: ApplicantView, view: RecordView, columns: _Columns
) -> Iterator[RenderableType]:
    yield _Dots(Text.assemble((person.heading, _STRONG), "  ", person.name))
    if person.facts:
        facts = Table.grid(padding=(0, GAP))
        facts.add_column(style=QUIET, no_wrap=True)
        facts.add_column(overflow="fold")
        for fact in person.facts:
            facts.add_row(fact.name, Text(fact.value))
        yield facts
    yield ""
    if not person.years:
        yield Text("No income was calculated.", style=QUIET)
        return
    table = columns.table()
    for place, year in enumerate(person.years):
        if place:
            table.add_row()
        _add_year(table, year, view)
    yield table


def _add_year(table: Table, year: YearView, view: RecordView) -> None:
    for place, source in enumerate(year.sources):
        style = ALARM if source.is_suspected else ""
        table.add_row(
            f"{year.year}" if place == 0 else "",
            Text(source.name, style=style),
            _bar(source, view),
            Text(amount_text(source.amount), style=style),
            _support(source.support),
        )
    if len(year.sources) != 1:
        named = "" if year.sources else f"{year.year}"
        total = Text(amount_text(year.total), style=_STRONG)
        table.add_row(named, Text("total", style=_STRONG), "", total, "")


def _bar(source: SourceView, view: RecordView) -> SpacedBar:
    return SpacedBar(share(source.amount, view.highest), ALARM if source.is_suspected else None)


def _line(support: Support) -> str:
    text = f"{support.mark} {support.label}".strip()
    return f"! {text}, suspected" if support.is_suspected else text


def _support(support: tuple[Support, ...]) -> Text:
    if not support:
        return Text("no document", style=QUIET)
    return Text("\n").join(
        Text(_line(each), style=ALARM if each.is_suspected else "") for each in support
    )


def _together(view: RecordView, columns: _Columns) -> Table:
    table = columns.table()
    for year in view.together:
        table.add_row(f"{year.year}", "total", "", Text(amount_text(year.total), style=_STRONG), "")
    return table


class _Dots:
    """Text whose dots become stars where the output has ASCII only.

    Args:
        text: may have dots that stand for something hidden.
    """

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.ascii_only:
            self._text.plain = self._text.plain.replace("\u2022", "*")
        yield self._text
