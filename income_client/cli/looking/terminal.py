"""An application on a terminal, 40 columns and wider; knows layout, and nothing of records."""

from collections.abc import Iterator
from itertools import zip_longest

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from income_client.cli.output import Screen, write_text

from .terminal_columns import Columns
from .terminal_papers import papers
from .terminal_styles import ALARM, GAP, QUIET, STRONG
from .view import ApplicantView, RecordView, SourceView, YearView
from .words import footnotes, hidden_note, suspicions, title_facts


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
    yield Text(f"Application {view.application_id}", style=STRONG)
    yield Text("  ".join(title_facts(view)))
    if view.is_masked:
        yield Text(hidden_note(), style=QUIET)
    for sentence in suspicions(view):
        yield ""
        yield Text(f"! Suspected fraudulent: {sentence}", style=ALARM)
    columns = Columns(view, width)
    for person in view.applicants:
        yield ""
        yield from _applicant(person, columns)
    if len(view.applicants) > 1:
        yield ""
        yield Text("All applicants together", style=STRONG)
        yield ""
        yield _together(view, columns)
    yield ""
    yield Text("Documents", style=STRONG)
    yield ""
    yield from papers(view.documents, width)
    yield ""
    yield from (Text(each, style=QUIET) for each in footnotes(view))


def _applicant(person: ApplicantView, columns: Columns) -> Iterator[RenderableType]:
    yield _Dots(Text.assemble((person.heading, STRONG), "  ", person.name))
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
        _add_year(columns, table, year)
    yield table


def _add_year(columns: Columns, table: Table, year: YearView) -> None:
    names = columns.year_lines(year, rows=len(year.sources) + (len(year.sources) != 1))
    for source, name in zip_longest(year.sources, names, fillvalue=""):
        if isinstance(source, SourceView):
            columns.add_source(table, name, source)
        else:
            columns.add_total(table, name, year)


def _together(view: RecordView, columns: Columns) -> Table:
    table = columns.table()
    for year in view.together:
        (name,) = columns.year_lines(year, rows=1)
        columns.add_total(table, name, year, says_doubt=True)
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
