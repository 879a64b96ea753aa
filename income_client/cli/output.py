"""What commands print: rows and lines of data on standard output, messages on standard error."""

import csv
import io
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import date, datetime
from functools import cache
from itertools import pairwise, repeat
from shutil import get_terminal_size
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

import msgspec
from attrs import evolve, frozen
from cyclopts import Parameter
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from income_client import IncomeClientError

if TYPE_CHECKING:
    from income_client import ApplicationRecord


# Messages


def say(message: str) -> None:
    """Print a line on standard error, above progress that is drawn there."""
    error_screen().print(Text(f"income-client: {printable(message)}"), soft_wrap=True)


def reason_of(error: OSError, otherwise: str = "it cannot be used") -> str:
    """Return why a call of the system failed, in its own words and without the name of a file."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return (error.strerror or otherwise).lower()


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 row`` or ``1,200 rows``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def duration(seconds: float) -> str:
    """Return a span of time in the two units that matter, such as ``59 min 3 s`` or ``0.3 s``."""
    if 0 < seconds < 1:
        return f"{seconds:.1f} s"
    left = max(0, int(seconds))
    for (unit, name), (below, name_below) in pairwise(_UNITS):
        if left >= unit:
            rest = left % unit // below
            return f"{left // unit:,} {name}" + (f" {rest} {name_below}" if rest else "")
    return f"{left} s"


# Lines on standard output


class UnwritableError(IncomeClientError):
    """Standard output takes no more, although somebody may still read it."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to standard output: {reason_of(error, 'it is closed')}")


@contextmanager
def _writing() -> Iterator[None]:
    """Turn what a write fails with into an `UnwritableError`, except if its reader has gone."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnwritableError(error) from None


def write_text(*lines: str) -> None:
    """Write lines of text, and have them there before anything else happens."""
    with _writing():
        print(*lines, sep="\n", flush=True)


def discard_rest() -> None:
    """Drop what could not be written: it would fail once more when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class OutputLines:
    """Writes lines past every buffer: what is left in one fails again at the end."""

    def __init__(self) -> None:
        self._to = sys.stdout.fileno()
        self._is_file = stat.S_ISREG(os.fstat(self._to).st_mode)
        self._before = b"\n" if self._is_file and _ends_in_mid_line(self._to) else b""

    def write(self, line: bytes) -> None:
        """Write a line, given without its end."""
        rest = memoryview(self._before + line + b"\n")
        with _writing():
            while rest:
                rest = rest[os.write(self._to, rest) :]
        self._before = b""

    def keep(self) -> None:
        """Have what was written survive a loss of power, if it goes to a file."""
        if self._is_file:
            with _writing():
                os.fsync(self._to)


def _ends_in_mid_line(descriptor: int) -> bool:
    """Say whether the last line of a file was cut off, by a full disk or a kill."""
    try:
        # Opened anew, since what a shell opens for appending cannot be read.
        with open(f"/dev/fd/{descriptor}", "rb") as file:  # noqa: PTH123 - no path of anything
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"
    except OSError:  # among them that of an empty file
        return False


# Values as text


def printable(text: str) -> str:
    """Return a text with ``?`` for each character that would move a cursor or ring a bell."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else "?" for one in text)


def cell_text(value: object) -> str:
    """Return a value as a table shows it: times in ISO 8601, nothing for None."""
    return printable(_text(value, " "))


def _text(value: object, between: str) -> str:
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
            return ", ".join(_text(each, between) for each in value)
        case _:
            return str(value)


# Where a text begins that a spreadsheet would calculate; some take wide forms for the same.
# Some split at semicolons, and quotes keep them from it in the first column only.
_FORMULA: Final = re.compile(r'(?:^|;["\s]*)(?=[=+@\uff1d\uff0b\uff0d\uff20-])')


def csv_line(values: Iterable[object]) -> bytes:
    """Return a line of CSV, without its end, that no spreadsheet takes for a formula."""
    line = io.StringIO()
    csv.writer(line, lineterminator="", quoting=csv.QUOTE_ALL).writerow(map(_csv_cell, values))
    return line.getvalue().encode()


def _csv_cell(value: object) -> str:
    text = _text(value, "T")
    return _FORMULA.sub(r"\g<0>'", printable(text)) if isinstance(value, str) else text


def inert(text: bytes) -> bytes:
    """Return the same JSON with escapes for characters that could act on a terminal."""
    line = text.decode()
    if line.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in line
    ).encode()


def without_addresses(record: "ApplicationRecord") -> "ApplicationRecord":
    """Return a record without the signed addresses of files, with which anybody can read them."""
    if record.documents is None:
        return record
    bare = {
        kind: tuple(evolve(document, url="") for document in documents)
        for kind, documents in record.documents.documents.items()
    }
    return evolve(record, documents=evolve(record.documents, documents=bare))


# Terminals


class Screen(Console):
    """A console that leaves it to the caller what a closed pipe or a full disk means."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as `Console.print` does; standard output that takes no more is an error."""
        with nullcontext() if self.stderr else _writing():
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Let the error through."""
        raise  # noqa: PLE0704 - called while it is being handled

    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002 - as in Rich
        """Leave it visible: a process that is killed could not bring it back."""
        return False

    @property
    def is_for_progress(self) -> bool:
        """Whether progress is drawn here: on a terminal whose lines no other process writes.

        The reader of a pipe may write to the same terminal, so nothing is drawn beside one.
        """
        mode = os.fstat(sys.stdout.fileno()).st_mode
        is_alone = stat.S_ISREG(mode) or stat.S_ISCHR(mode)
        return self.file.isatty() and not self.is_dumb_terminal and is_alone


@cache
def error_screen() -> Screen:
    """Return the one console of standard error, on which messages and progress meet."""
    return Screen(stderr=True, highlight=False)


_WIDTH: Final = 100
"""Where the output is not a terminal; a ticket takes that."""
_IN_ASCII: Final = str.maketrans("•·═▏▎▍▌▋▊▉█", "*.=########") | str.maketrans(
    {"→": "->", "…": "...", "±": "+-"}
)


def print_lines(drawing: RenderableType) -> None:
    """Print a drawing on standard output, with colour on a terminal and in its encoding."""
    is_terminal = sys.stdout.isatty()
    write_text(*map(_encodable, _drawn(drawing, None if is_terminal else _WIDTH)))


def _drawn(drawing: RenderableType, width: int | None) -> list[str]:
    """Return the lines of a drawing, with colour where standard output is a terminal."""
    screen = Console(
        file=io.StringIO(), force_terminal=sys.stdout.isatty(), highlight=False, width=width
    )
    with screen.capture() as captured:
        screen.print(drawing)
    return [line.rstrip() for line in captured.get().splitlines()]


def _encodable(line: str) -> str:
    encoding = sys.stdout.encoding or "ascii"
    try:
        line.encode(encoding)
    except UnicodeEncodeError:
        return line.translate(_IN_ASCII).encode(encoding, "replace").decode(encoding)
    return line


# Rows

Output = Literal["table", "jsonl", "csv", "json"]
"""How rows are written; by default a table on a terminal, and JSON lines elsewhere."""
OutputOption = Annotated[
    Output | None, Parameter(name=("--output", "-o"), show_default=False, metavar="FORMAT")
]
QuietOption = Annotated[bool, Parameter(name=("--quiet", "-q"), negative=(), show_default=False)]


@frozen
class Column:
    """A column of a table, with the value ``key`` of each row, or what ``shown`` makes of the row.

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
    """Writes rows as they come: a table on a terminal and JSON lines elsewhere, unless told.

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
            self._put(csv_line(column.key for column in self._columns))
        elif self._form == "json":
            self._put(b"[")
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc, BrokenPipeError | UnwritableError):
            return
        self._put(*self._table.rest())
        if self._form == "json":
            self._end_element(b"" if exc is None else b",")
            if exc is None:
                self._put(b"]")

    def write(self, row: Mapping[str, object], whole: bytes | None = None) -> None:
        """Write a row; ``whole``, the service's own JSON, takes its place in JSON."""
        self.rows += 1
        match self._form:
            case "quiet":
                self._put(cell_text(row.get(self._quiet or "")).encode("utf-8", "replace"))
            case "table":
                self._put(*self._table.add(row))
            case "csv":
                self._put(csv_line(row.get(column.key) for column in self._columns))
            case "jsonl":
                self._put(inert(whole or msgspec.json.encode(row)))
            case _:
                self._end_element(b",")
                self._element = inert(whole or msgspec.json.encode(row))
                if self._is_terminal:
                    indented = msgspec.json.format(self._element, indent=2)
                    self._element = b"  " + indented.replace(b"\n", b"\n  ")

    def _end_element(self, end: bytes) -> None:
        """Write the last element of the array, which waits for what comes behind it."""
        if self._element:
            self._put(self._element + end)

    def _put(self, *lines: bytes) -> None:
        for line in lines:
            self._before()
            self._lines.write(line)


_GAP: Final = 2
_NARROWEST: Final = 6
_FIRST_ROWS: Final = 20


class _Table:
    """Lines of a table; its first rows, a screenful or so, decide how wide the columns are.

    A cell without room is continued below on a terminal; in a file, columns grow.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._is_terminal = sys.stdout.isatty()
        self._first = get_terminal_size().lines - 2 if self._is_terminal else _FIRST_ROWS
        self._waiting: list[list[str]] = []
        self._widths: list[int] = []

    def add(self, row: Mapping[str, object]) -> list[bytes]:
        """Take a row, and return the lines that are ready."""
        self._waiting.append(
            [
                cell_text(column.shown(row) if column.shown else row.get(column.key))
                for column in self._columns
            ]
        )
        return self.rest() if self._widths or len(self._waiting) >= self._first else []

    def rest(self) -> list[bytes]:
        """Return the lines of the rows that wait, the first ones below the headings."""
        if not self._waiting:
            return []
        is_first = not self._widths
        texts = [[column.heading for column in self._columns], *self._waiting]
        if not self._is_terminal:
            self._widths = [*map(max, self._widths or repeat(0), _natural(texts))]
        elif is_first:
            self._widths = _fitting(texts, self._columns, get_terminal_size().columns)
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=is_first)
        shown = [number for number, width in enumerate(self._widths) if width]
        for number in shown:
            column, width = self._columns[number], self._widths[number]
            table.add_column(
                Text(column.heading, "bold"),
                width=width,
                justify=column.justify,
                style=column.style,
                overflow="fold",
            )
        for cells in self._waiting:
            table.add_row(*(Text(cells[number]) for number in shown))
        self._waiting = []
        lines = _drawn(table, sum(self._widths) + _GAP * len(self._widths))
        return [line.encode(sys.stdout.encoding, "replace") for line in lines]


def _natural(texts: list[list[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*texts, strict=True)]


def _fitting(texts: list[list[str]], columns: Sequence[Column], room: int) -> list[int]:
    """Return widths of columns that fit together, 0 for one that is left out."""
    widths = [min(room, width) for width in _natural(texts)]

    def is_too_wide() -> bool:
        return sum(width + _GAP for width in widths if width) - _GAP > room

    for rank in range(max(column.dropped for column in columns), 0, -1):
        if is_too_wide():
            widths = [
                0 if column.dropped == rank else width
                for column, width in zip(columns, widths, strict=True)
            ]
    # Texts are broken between words for as long as that is enough: an id is one.
    words = _natural(
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
    """Lays out lines for a person as they come; columns grow with what is in them."""

    def __init__(self) -> None:
        self._widths: dict[int, int] = {}

    def line(self, *cells: object, optional: int) -> bytes:
        """Return a line of cells, without the optional one where there is no room for it."""
        padded = []
        for number, cell in enumerate(map(cell_text, cells)):
            self._widths[number] = max(self._widths.get(number, 0), cell_len(cell))
            padded.append(cell + " " * (self._widths[number] - cell_len(cell)))
        text = (" " * _GAP).join(padded).rstrip()
        if cell_len(text) > get_terminal_size().columns:
            del padded[optional]
            text = (" " * _GAP).join(padded).rstrip()
        return text.encode(sys.stdout.encoding, "replace")
