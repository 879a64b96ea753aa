"""``income-client application``: one application as a tree, by default without personal data.

The masks of the records say what is personal, with one exception: amounts and pay days are masked
too, and are what this command shows. Where personal data is hidden, not even its length is shown.
Kinds, types and slots that are not written like the contract's own words may be names and are
hidden as well. The partner's reference of the application stays: people find the application in
their own system by it. Names of files often hold a person's name, and are hidden.
"""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import aclosing
from datetime import date
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final

import attrs
from attrs import frozen
from rich.bar import Bar
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from income_client import NotFoundError, to_json
from income_client.records.document_types import type_of
from income_client.records.fields import masked
from income_client.system.texts import printable

from .connection import Connection, connect
from .exit_status import ExitStatus
from .options import Switch, TableOrJson
from .output import OutputLines, counted, inert, print_lines, without_addresses

if TYPE_CHECKING:
    from income_client import ApplicationRecord, Document
    from income_client.records import DocumentEntry, IncomeSource

_ALARM: Final = "bold red"
_GAP: Final = 2
_MOST_NAME: Final = 18
_LEAST_BAR: Final = 6
_MOST_BAR: Final = 40
_EIGHTHS: Final = 8
"""Parts of a character cell that a bar can fill."""
_EXACT: Final = Context(prec=200)
"""Context with room for every digit of an amount, at most 40 on either side of the point."""
_LONGEST_AMOUNT: Final = 28
"""Characters of the longest amount that fits beside the branches of 40 columns."""
_SLOT: Final = re.compile(r"applicant[0-9]{1,3}", re.ASCII)
_PLAIN_KEY: Final = re.compile(r"(?=.{1,40}\Z)[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)
"""Pattern of the contract's own words; names of persons do not match it."""
_UNKNOWN: Final = frozenset({"extra", "extracted_extra"})


async def application(
    application_id: str,
    /,
    *,
    show_personal_data: Switch = False,
    output: TableOrJson = "table",
    addresses: Switch = False,
    connection: Connection | None = None,
) -> int:
    """Show an application: its income by year, and the documents behind each amount.

    Bars show the income of each year and source, on one scale for all applicants.
    Each amount has its documents below it. Amounts that rest on a document suspected
    to be fraudulent are red, and the document has an exclamation mark. Personal data
    is hidden unless --show-personal-data is given.

    JSON is the service's own, personal data included; signed addresses of files are
    left out unless --addresses is given.

    Example: income-client application app-000001

    Args:
        application_id: Id of the application.
        show_personal_data: Show names, numbers, addresses and employers.
        output: Format of the output.
        addresses: Include the signed addresses of files in JSON, with which anyone can read them.
        connection: The service.
    """
    async with (
        connect(connection) as client,
        aclosing(client.fetch_records([application_id])) as records,
    ):
        try:
            record = await anext(records)
        except NotFoundError as error:
            reference = shlex.quote(application_id)
            finder = f"income-client applications --reference {reference}"
            error.add_note(f"(a reference has its id from {finder})")
            raise
    if output == "json":
        OutputLines().write(inert(to_json(record if addresses else without_addresses(record))))
    else:
        print_lines(draw_record(record, shows_all=show_personal_data))
    return ExitStatus.DONE


def draw_record(record: "ApplicationRecord", *, shows_all: bool = False) -> Tree:
    """Return the tree of an application, with or without personal data."""
    return _Drawing(record, shows_all=shows_all).draw()


class _Drawing:
    """Draws one record; the only place that decides which of its data are visible."""

    def __init__(self, record: "ApplicationRecord", *, shows_all: bool) -> None:
        self._record = record
        self._shows_all = shows_all
        calculations = record.application.income_calculations
        self._entries = tuple(record.documents.all()) if record.documents else ()
        self._suspected = {
            document_id
            for calculation in calculations.values()
            for document_id in calculation.suspected_fraudulent.document_ids
        }
        self._labels: dict[str, str] = {}
        """Mark and type of each document, such as ``D1 paystub``, by its id."""
        for place, entry in enumerate(self._entries, 1):
            self._labels.setdefault(entry.document.document_id, self._label_of(place, entry))
        self._years: dict[str, set[int]] = {}
        """The years whose income each document supports, by its id."""
        sources: list[IncomeSource] = []
        for calculation in calculations.values():
            for income in calculation.incomes:
                sources += income.income_sources
                for source in income.income_sources:
                    for document_id in source.document_ids:
                        self._years.setdefault(document_id, set()).add(income.year)
        self._columns = _Columns(
            name=max((cell_len(self._words_of(each.source_type)) for each in sources), default=0),
            amount=max((len(_amount_text(_amount_of(each))) for each in sources), default=0),
            largest=max(map(_amount_of, sources), default=Decimal(0)),
        )

    def draw(self) -> Tree:
        """Return the tree of the record."""
        application = self._record.application
        updated = application.last_updated_at
        title = f"Application {printable(application.application_id)}"
        tree = Tree(Text(title, "bold"), guide_style="dim")
        facts = (
            f"reference {printable(application.application_reference_id)}, "
            f"applied {application.application_date.date()}, "
            f"updated {updated.date()} {updated:%H:%M} UTC"
        )
        tree.add(Text(facts))
        if not self._shows_all:
            tree.add(Text("Personal data is hidden; --show-personal-data shows it.", "dim"))
        for document_id in sorted(self._suspected):
            name = f"{self._labels.get(document_id, '')} {printable(document_id)}".strip()
            where = ", which is not among the documents" * (document_id not in self._labels)
            tree.add(Text(f"! suspected fraudulent: {name}{where}", _ALARM))
        slots = dict.fromkeys([*application.applicants, *application.income_calculations])
        for place, slot in enumerate(slots, 1):
            is_plain = self._shows_all or _SLOT.fullmatch(slot)
            heading = printable(slot) if is_plain else f"applicant {place}"
            self._draw_applicant(tree.add(Text(heading, "bold")), slot)
        if len(slots) > 1:
            self._draw_totals(tree.add(Text("all applicants", "bold")))
        documents = tree.add(Text("documents" if self._entries else "no documents", "bold"))
        for place, entry in enumerate(self._entries, 1):
            documents.add(self._draw_document(self._label_of(place, entry), entry.document))
        for note in self._notes():
            tree.add(Text(note, "dim"))
        return tree

    def _draw_applicant(self, branch: Tree, slot: str) -> None:
        application = self._record.application
        person = application.applicants.get(slot)
        if self._shows_all and person is not None:
            branch.add(Text(", ".join(_facts_of(person))))
            for address in person.address_info:
                branch.add(Text(", ".join(_facts_of(address))))
        calculation = application.income_calculations.get(slot)
        if calculation is None or not calculation.incomes:
            branch.add(Text("No income was calculated.", "dim"))
            return
        for income in sorted(calculation.incomes, key=lambda each: each.year, reverse=True):
            # By the service's own time: elsewhere the year may be over already.
            so_far = " so far" * (income.year == application.last_updated_at.year)
            heading = Text(f"{income.year}{so_far}  {_amount_text(income.total)}", "bold")
            year = branch.add(heading)
            for source in income.income_sources:
                year.add(self._draw_source(source))

    def _draw_source(self, source: "IncomeSource") -> Group:
        ids = dict.fromkeys(source.document_ids)
        line = _AmountLine(
            columns=self._columns,
            name=self._words_of(source.source_type),
            amount=_amount_of(source),
            is_suspected=not self._suspected.isdisjoint(ids),
        )
        support = Text(", ").join(map(self._draw_support, ids))
        return Group(line, support if ids else Text("no document", "dim"))

    def _draw_support(self, document_id: str) -> Text:
        is_suspected = document_id in self._suspected
        label = self._labels.get(document_id)
        if label is None:
            label = printable(document_id) + " (missing)" * (self._record.documents is not None)
        return Text(f"! {label} (suspected)", _ALARM) if is_suspected else Text(label)

    def _draw_totals(self, branch: Tree) -> None:
        """Add the sums of all applicants by year, and whether they rest on a suspected document."""
        totals: dict[int, Decimal] = {}
        for calculation in self._record.application.income_calculations.values():
            for income in calculation.incomes:
                total = totals.get(income.year, Decimal(0))
                totals[income.year] = _EXACT.add(total, income.total)
        doubtful = {year for each in self._suspected for year in self._years.get(each, ())}
        for year, total in sorted(totals.items(), reverse=True):
            text = f"{year}  {_amount_text(total)}"
            if year in doubtful:
                branch.add(Text(f"{text}  ! suspected document", _ALARM))
            else:
                branch.add(Text(text))

    def _draw_document(self, label: str, document: "Document") -> Text:
        data = document.extracted_data
        kind = type_of(data)
        period = kind.period(data)
        if period is None:
            years = sorted(self._years.get(document.document_id, ()))
            facts = [f"supports {', '.join(map(str, years)) or 'no amount'}"]
        else:
            facts = ["{} to {}".format(*sorted(period))]
        if kind.shown:
            facts += _facts_of(data, kind.shown, hides_texts=not self._shows_all)
        elif isinstance(data, Mapping):
            facts.append(f"{counted(len(data), 'field')} read")
        if len(document.file_ids) != 1:
            facts.append(counted(len(document.file_ids), "file"))
        if self._shows_all:
            facts += map(printable, document.file_reference_ids)
        heading = f"{label} {printable(document.document_id)}"
        if document.document_id not in self._suspected:
            return Text(f"{heading}: {', '.join(facts)}")
        return Text.assemble((f"! {heading}: suspected fraudulent", _ALARM), ", ", ", ".join(facts))

    def _label_of(self, place: int, entry: "DocumentEntry") -> str:
        return f"D{place} {self._words_of(entry.document_type)}"

    def _notes(self) -> Iterator[str]:
        sources = self._record.application.data_sources
        files = counted(len(sources.image_files), "file")
        yield f"Calculated from {files} and {counted(len(sources.structured_data), 'other input')}."
        if unknown := _count_unknown(self._record):
            yield f"{counted(unknown, 'further field')}, see --output json."

    def _words_of(self, key: str) -> str:
        """Return a kind or type in words; masked unless it cannot be a person's name."""
        if self._shows_all or _PLAIN_KEY.fullmatch(key):
            return printable(key.replace("_", " ")).strip() or "unnamed"
        return "other"


@frozen(kw_only=True)
class _Columns:
    """Widths and scale of the lines of all sources, so that their bars can be compared."""

    name: int
    amount: int
    largest: Decimal


@frozen(kw_only=True)
class _AmountLine:
    """Name, bar and amount of a source; without a bar if there is no room for it."""

    columns: _Columns
    name: str
    amount: Decimal
    is_suspected: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        style = _ALARM if self.is_suspected else ""
        name, amount = Text(self.name, style), Text(_amount_text(self.amount), style)
        columns = self.columns
        widest = min(columns.name, _MOST_NAME)
        width = min(options.max_width - widest - columns.amount - 2 * _GAP, _MOST_BAR)
        if width < _LEAST_BAR:
            yield Text.assemble(name, " " * _GAP, amount)
            return
        grid = Table.grid(padding=(0, _GAP, 0, 0))
        grid.add_column(overflow="fold", width=widest)
        grid.add_column(width=width)
        grid.add_column(justify="right", no_wrap=True, width=columns.amount)
        grid.add_row(name, self._draw_bar(width), amount)
        yield grid

    def _draw_bar(self, width: int) -> Bar:
        eighths = 0
        if self.amount > 0:
            # A small amount has a bar too: without one, it would look like none.
            eighths = max(round(self.amount / self.columns.largest * width * _EIGHTHS), 1)
        colour = "red" if self.is_suspected else "cyan"
        return Bar(width * _EIGHTHS, 0, eighths, width=width, color=colour)


def _amount_of(source: "IncomeSource") -> Decimal:
    return source.calculated_income_amount


def _amount_text(amount: Decimal) -> str:
    """Return an amount with grouped thousands, at least two decimals and all its digits.

    An amount too long for any column is rounded, and says so.
    """
    if not amount:
        return "0.00"
    exact = amount.normalize(_EXACT)
    decimals = max(2, -int(exact.as_tuple().exponent))
    text = f"{exact:,.{decimals}f}"
    return text if len(text) <= _LONGEST_AMOUNT else f"about {exact:.6e}"


def _facts_of(
    record: Any, names: Collection[str] | None = None, *, hides_texts: bool = False
) -> Iterator[str]:
    """Yield the fields of a record and of the records in it as lines of text.

    Args:
        record: what is described.
        names: the fields; all by default.
        hides_texts: whether masked texts are left out, which may name a person or an employer.
    """
    for field in attrs.fields(type(record)):
        value = getattr(record, field.name)
        is_hidden = hides_texts and field.repr is masked and isinstance(value, str)
        if is_hidden or (names is not None and field.name not in names):
            continue
        words = field.name.replace("_", " ")
        match value:
            case Decimal():
                yield f"{words} {_amount_text(value)}"
            case bool():
                yield f"{words} {'yes' if value else 'no'}"
            case str() | date():
                yield f"{words} {printable(str(value))}"
            case _ if attrs.has(type(value)):
                yield f"{words}: {', '.join(_facts_of(value, hides_texts=hides_texts))}"


def _count_unknown(value: Any) -> int:
    """Count the unknown fields of a record and of its inner records."""
    if attrs.has(type(value)):
        names = {field.name for field in attrs.fields(type(value))}
        own = sum(len(getattr(value, name)) for name in names & _UNKNOWN)
        return own + sum(_count_unknown(getattr(value, name)) for name in names - _UNKNOWN)
    if isinstance(value, Mapping):
        return sum(_count_unknown(each) for each in value.values() if not isinstance(each, Mapping))
    return sum(map(_count_unknown, value)) if isinstance(value, tuple) else 0
