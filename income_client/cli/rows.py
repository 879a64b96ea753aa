"""Rows as tables, CSV, JSON and aligned lines, written one by one as they arrive."""

import csv
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import repeat
from shutil import get_terminal_size
from types import TracebackType
from typing import Annotated, Final, Literal, Self

import msgspec
from attrs import frozen
from cyclopts import Parameter
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from income_client.system.texts import printable

from .id_lines import guarded, id_line, without_controls
from .output import OutputLines, UnwritableError, drawn, inert

Output = Literal["table", "jsonl", "csv", "json"]
"""Format of rows; by default a table on a terminal, and JSON lines elsewhere."""
OutputOption = Annotated[
    Output | None, Parameter(name=("--output", "-o"), show_default=False, metavar="FORMAT")
]
QuietOption = Annotated[bool, Parameter(name=("--quiet", "-q"), negative=(), show_default=False)]


@frozen
class Column:
    """A table column for a row's ``key``, or for the result of ``shown``.

    If a terminal has no room, columns are left out, those with the highest ``dropped`` first;
    those of the same number go together, and those of 0 never.
    """

    key: str
    heading: str
    justify: Literal["left", "right"] = "left"
    style: str = ""
    dropped: int = 0
    shown: Callable[[Mapping[str, object]], object] | None = None


class RowWriter:
    """Writes rows as they arrive: a table on a terminal, JSON lines elsewhere, or another format.

    With ``quiet``, only the value of that key is written. ``before`` is called before each line.
    An array of JSON stays open if the block inside fails: half a list must not look whole.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        output: Output | None = None,
        *,
        quiet: str | None = None,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        self.rows: int = 0
        self._columns = columns
        self._quiet = quiet
        self._before = before
        self._lines = OutputLines()
        self._is_terminal = sys.stdout.isatty()
        self._form = "quiet" if quiet else output or ("table" if self._is_terminal else "jsonl")
        self._table = _Table(columns)
        self._element = b""

    def __enter__(self) -> Self:
        if self._form == "csv":
            self._write_lines(csv_line(column.key for column in self._columns))
        elif self._form == "json":
            self._write_lines(b"[")
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc, BrokenPipeError | UnwritableError):
            return
        self._write_lines(*self._table.rest())
        if self._form == "json":
            self._end_element(b"" if exc is None else b",")
            if exc is None:
                self._write_lines(b"]")

    def write(self, row: Mapping[str, object], whole: bytes | None = None) -> None:
        """Write a row; in JSON, write ``whole`` instead, the JSON of the service."""
        self.rows += 1
        match self._form:
            case "quiet":
                text = _value_text(row.get(self._quiet or ""), " ")
                text = printable(text) if self._is_terminal else id_line(text)
                self._write_lines(text.encode("utf-8", "replace"))
            case "table":
                self._write_lines(*self._table.add(row))
            case "csv":
                values = (row.get(column.key) for column in self._columns)
                self._write_lines(csv_line(values, is_terminal=self._is_terminal))
            case "jsonl":
                self._write_lines(inert(whole or msgspec.json.encode(row)))
            case _:
                self._end_element(b",")
                self._element = inert(whole or msgspec.json.encode(row))
                if self._is_terminal:
                    indented = msgspec.json.format(self._element, indent=2)
                    self._element = b"  " + indented.replace(b"\n", b"\n  ")

    def _end_element(self, end: bytes) -> None:
        """Write the last element of the JSON array, which waits for the next one."""
        if self._element:
            self._write_lines(self._element + end)

    def _write_lines(self, *lines: bytes) -> None:
        for line in lines:
            self._before()
            self._lines.write(line)


_GAP: Final = 2
_NARROWEST: Final = 6
_FIRST_ROWS: Final = 20


class _Table:
    """Lines of a table, whose widths fit its first rows, about a screenful.

    A cell without room is continued below on a terminal; in a file, columns grow.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._is_terminal = sys.stdout.isatty()
        self._first = get_terminal_size().lines - 2 if self._is_terminal else _FIRST_ROWS
        self._waiting: list[list[str]] = []
        self._widths: list[int] = []

    def add(self, row: Mapping[str, object]) -> list[bytes]:
        """Add a row, and return the lines that are complete."""
        self._waiting.append(
            [
                cell_text(column.shown(row) if column.shown else row.get(column.key))
                for column in self._columns
            ]
        )
        return self.rest() if self._widths or len(self._waiting) >= self._first else []

    def rest(self) -> list[bytes]:
        """Return the lines of the waiting rows, with the headings above the first ones."""
        if not self._waiting:
            return []
        is_first = not self._widths
        texts = [[column.heading for column in self._columns], *self._waiting]
        if not self._is_terminal:
            self._widths = [*map(max, self._widths or repeat(0), _natural_widths(texts))]
        elif is_first:
            self._widths = _fit_widths(texts, self._columns, get_terminal_size().columns)
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=is_first)
        visible = [number for number, width in enumerate(self._widths) if width]
        for number in visible:
            column, width = self._columns[number], self._widths[number]
            table.add_column(
                Text(column.heading, "bold"),
                width=width,
                justify=column.justify,
                style=column.style,
                overflow="fold",
            )
        for cells in self._waiting:
            table.add_row(*(Text(cells[number]) for number in visible))
        self._waiting = []
        lines = drawn(table, sum(self._widths) + _GAP * len(self._widths))
        return [line.encode(sys.stdout.encoding, "replace") for line in lines]


def _natural_widths(texts: list[list[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*texts, strict=True)]


def _fit_widths(texts: list[list[str]], columns: Sequence[Column], room: int) -> list[int]:
    """Return widths of columns that fit together, 0 for one that is left out."""
    widths = [min(room, width) for width in _natural_widths(texts)]

    def is_too_wide() -> bool:
        return sum(width + _GAP for width in widths if width) - _GAP > room

    for rank in range(max(column.dropped for column in columns), 0, -1):
        if is_too_wide():
            widths = [
                0 if column.dropped == rank else width
                for column, width in zip(columns, widths, strict=True)
            ]
    # Texts are broken between words for as long as that is enough: an id is one.
    words = _natural_widths(
        [[max(cell.split(), key=cell_len, default="") for cell in row] for row in texts]
    )
    for least in (words, [_NARROWEST] * len(columns)):
        while is_too_wide():
            wide = [number for number, width in enumerate(widths) if width > least[number]]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


class AlignedLines:
    """Aligns cells of lines as they arrive; columns grow with their content."""

    def __init__(self) -> None:
        self._widths: dict[int, int] = {}

    def line(self, *cells: object, optional: int) -> bytes:
        """Return a line of cells, without the optional cell if there is no room."""
        padded = []
        for number, cell in enumerate(map(cell_text, cells)):
            self._widths[number] = max(self._widths.get(number, 0), cell_len(cell))
            padded.append(cell + " " * (self._widths[number] - cell_len(cell)))
        text = (" " * _GAP).join(padded).rstrip()
        if cell_len(text) > get_terminal_size().columns:
            del padded[optional]
            text = (" " * _GAP).join(padded).rstrip()
        return text.encode(sys.stdout.encoding, "replace")


def cell_text(value: object) -> str:
    """Return a value as text for a table: times in ISO 8601, an empty text for None."""
    return printable(_value_text(value, " "))


def _value_text(value: object, between: str) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return value.isoformat(between).replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case list() | tuple():
            return ", ".join(_value_text(each, between) for each in value)
        case _:
            return str(value)


def csv_line(values: Iterable[object], *, is_terminal: bool = False) -> bytes:
    """Return a line of CSV, without its end, that no spreadsheet takes for a formula."""
    cells = (_csv_cell(value, printable if is_terminal else without_controls) for value in values)
    line = io.StringIO()
    csv.writer(line, lineterminator="", quoting=csv.QUOTE_ALL).writerow(cells)
    return line.getvalue().encode("utf-8", "replace")


def _csv_cell(value: object, clean: Callable[[str], str]) -> str:
    text = _value_text(value, "T")
    is_text = isinstance(value, str | list | tuple)
    return guarded(clean(text)) if is_text else text
