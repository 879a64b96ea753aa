"""Data on standard output, messages on standard error: rows, lines, cells and escapes."""

import csv
import io
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from itertools import zip_longest
from math import ceil
from types import TracebackType
from typing import IO, Annotated, Any, Final, Literal, Self, assert_never

from attrs import evolve, frozen
from cyclopts import Parameter
from rich.cells import cell_len, chop_cells
from rich.console import Console, RenderableType
from rich.style import Style
from rich.text import Text

from income_client import ApplicationDocuments, ApplicationRecord, IncomeClientError


def printable(text: str) -> str:
    """Return a text with ``?`` for each character that would move a cursor or ring a bell."""
    return "".join(one if one.isprintable() else "?" for one in text)


def say(message: str) -> None:
    """Print a line on standard error.

    Args:
        message: what to say; characters that would act on a terminal are replaced.
    """
    sys.stderr.write(f"income-client: {printable(message)}\n")
    sys.stderr.flush()


def reason_of(error: OSError, otherwise: str = "it cannot be used") -> str:
    """Return why something of the system failed, in its own words and no name of a file.

    Args:
        error: says why.
        otherwise: what to say where it does not.
    """
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return (error.strerror or otherwise).lower()


_NEWLINE: Final = b"\n"


class UnwritableError(IncomeClientError):
    """Standard output takes no more, and somebody may read it still.

    Args:
        error: says why.
    """

    def __init__(self, error: OSError) -> None:
        reason = reason_of(error, "it is closed")
        super().__init__(f"cannot write to standard output: {reason}")


def write_text(*lines: str, to: IO[str] | None = None) -> None:
    """Write lines of text, and have them there before anything else happens.

    Args:
        *lines: without their ends.
        to: where they go; standard output unless given.

    Raises:
        BrokenPipeError: nobody reads any more.
        UnwritableError: standard output takes no more.
    """
    failure = None
    try:
        print(*lines, sep="\n", file=to, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        failure = UnwritableError(error)
    if failure is not None:
        raise failure


def discard_rest() -> None:
    """Have what no write could get rid of go nowhere: it would fail once more at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class OutputLines:
    """Writes lines past every buffer: what would be left in one fails again at the end."""

    def __init__(self) -> None:
        self._to = sys.stdout.fileno()
        self._is_file = stat.S_ISREG(os.fstat(self._to).st_mode)
        self._before = _NEWLINE if _ends_in_mid_line(self._to) else b""

    def write(self, text: bytes) -> OSError | None:
        """Write a line, or return why it cannot be written.

        Args:
            text: the line, without its end.

        Raises:
            BrokenPipeError: nobody reads any more.
        """
        rest = memoryview(self._before + text + _NEWLINE)
        try:
            while rest:
                rest = rest[os.write(self._to, rest) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            return error
        self._before = b""
        return None

    def keep(self) -> OSError | None:
        """Have what was written survive a loss of power, or return why it cannot be."""
        try:
            if self._is_file:
                os.fsync(self._to)
        except OSError as error:
            return error
        return None


def _ends_in_mid_line(descriptor: int) -> bool:
    """Say whether this goes to a file whose last line was cut off, by a full disk or a kill."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return False
        # Opened anew, since what a shell opens for appending cannot be read.
        with open(f"/dev/fd/{descriptor}", "rb") as file:  # noqa: PTH123 - no path of anything
            file.seek(-1, os.SEEK_END)
            return file.read() != _NEWLINE
    except OSError:
        return False


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 row`` or ``1,200 rows``."""
    return f"{count:,} {plural(noun, is_one=count == 1)}"


def plural(noun: str, *, is_one: bool = False) -> str:
    """Return a noun as it stands behind its number."""
    return noun if is_one else f"{noun}s"


@frozen
class _Unit:
    """A unit of time."""

    seconds: int
    """How long it is."""
    word: str
    """What it is called."""
    sign: str
    """What it is called in short."""


_DAY: Final = _Unit(86_400, "day", "d")
_HOUR: Final = _Unit(3600, "hour", "h")
_MINUTE: Final = _Unit(60, "minute", "min")
_SECOND: Final = _Unit(1, "second", "s")
_LONG: Final = (_DAY, _HOUR, _MINUTE)
_STEP: Final = 5
"""Seconds to which an estimate of less than a minute is rounded."""


def in_words(seconds: float) -> str:
    """Return a span of time as people say it, such as ``1.5 hours`` or ``0.3 s``."""
    for unit in _LONG:
        if seconds >= unit.seconds:
            number = f"{seconds / unit.seconds:.1f}".removesuffix(".0")
            return f"{number} {plural(unit.word, is_one=number == '1')}"
    return f"{seconds:.1f} s"


def in_short(seconds: float) -> str:
    """Return a span of time in one unit, of which there are two at least: ``90 s``, ``3 h``."""
    for unit in _LONG:
        if seconds >= 2 * unit.seconds:
            return f"{seconds / unit.seconds:,.0f} {unit.sign}"
    return f"{max(0.0, seconds):.0f} s"


def counted_down(seconds: float) -> str:
    """Return whole seconds that are left in the two units that matter: ``59 min 3 s``."""
    left = max(0, int(seconds))
    for unit, below in ((_DAY, _HOUR), (_HOUR, _MINUTE), (_MINUTE, _SECOND)):
        if left >= unit.seconds:
            count, rest = divmod(left, unit.seconds)
            return f"{count:,} {unit.sign} {rest // below.seconds} {below.sign}"
    return f"{left} s"


def estimated(seconds: float) -> str:
    """Return a span of time that is still to come, in as few words as it is known to."""
    if seconds < _MINUTE.seconds:
        return f"about {max(1, ceil(seconds / _STEP)) * _STEP} s"
    if seconds < _HOUR.seconds:
        return f"about {seconds / _MINUTE.seconds:.0f} min"
    return f"about {seconds / _HOUR.seconds:.1f} h"


_FORMULA: Final = re.compile(r'(?:^|;["\s]*)(?=[=+@\uff1d\uff0b\uff0d\uff20-])')
"""Where a text begins that a spreadsheet would work out; some take wide forms for the same.

Some split at semicolons, and quotes keep them from it in the first column only.
"""
_NOT_ASCII: Final = re.compile(r"[^ -~]")


def cell_text(value: object) -> str:
    """Return a value as it stands in a table: times in ISO 8601, nothing for None."""
    text = _text(value, " ")
    return text if text.isprintable() else printable(text)


def csv_line(values: Iterable[object]) -> bytes:
    """Return a line of CSV, without its end, that no spreadsheet takes for a formula.

    Each value is quoted, and what follows a semicolon is made harmless, too: some
    spreadsheets split there.

    Args:
        values: texts are made harmless; numbers stay what they are.
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="", quoting=csv.QUOTE_ALL).writerow(
        [_cell(value) for value in values]
    )
    return line.getvalue().encode()


def json_line(row: Mapping[str, object]) -> bytes:
    """Return a row as JSON: times in ISO 8601, amounts as text, which is exact."""
    text = json.dumps(row, default=_jsonable, ensure_ascii=False, separators=(",", ":"))
    return inert(text.encode("utf-8", "surrogatepass"))


def inert(text: bytes) -> bytes:
    """Return the same JSON with escapes for characters that could act on a terminal.

    Args:
        text: a line of JSON; what stands between its values is left alone.
    """
    line = text.decode("utf-8", "surrogatepass")
    if line.isprintable():
        return text
    return _NOT_ASCII.sub(_escaped, line).encode()


def _escaped(found: re.Match[str]) -> str:
    letter = found[0]
    if letter.isprintable() or letter == "\n":
        return letter
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    text = _text(value, "T")
    if not isinstance(value, str):
        return text
    text = text if text.isprintable() else printable(text)
    return _FORMULA.sub(r"\g<0>'", text)


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


def _jsonable(value: object) -> object:
    match value:
        case date() | Decimal():
            return _text(value, "T")
        case _:
            raise TypeError(f"no JSON is made of {type(value).__name__}")


class Screen(Console):
    """A console that leaves it to the caller what a closed pipe or a full disk means."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as `Console.print` does.

        Raises:
            UnwritableError: standard output takes no more.
        """
        with self._writing():
            super().print(*objects, **options)

    def end_capture(self) -> str:
        """Return what was captured; Rich writes after it, if only nothing.

        Raises:
            UnwritableError: standard output takes no more.
        """
        with self._writing():
            return super().end_capture()

    def on_broken_pipe(self) -> None:
        """Let the error through."""
        raise  # noqa: PLE0704 - called while it is being handled

    @property
    def is_for_progress(self) -> bool:
        """Whether progress is drawn here: on a terminal whose lines no other process writes.

        The reader of a pipe may write to the same terminal, so nothing is drawn beside one.
        """
        is_terminal = self.file.isatty() and not self.is_dumb_terminal
        return is_terminal and _stdout_goes_to_a_file()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            if self.stderr:
                raise
            raise UnwritableError(error) from None


def _stdout_goes_to_a_file() -> bool:
    """Say whether standard output is a terminal, a regular file or the like, and no pipe."""
    mode = os.fstat(sys.stdout.fileno()).st_mode
    return stat.S_ISREG(mode) or stat.S_ISCHR(mode)


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


Output = Literal["table", "jsonl", "csv", "json"]
"""How rows are written; by default a table on a terminal, and JSON lines elsewhere."""
OutputOption = Annotated[Output | None, Parameter(name=("--output", "-o"), show_default=False)]
QuietOption = Annotated[bool, Parameter(name=("--quiet", "-q"), negative=(), show_default=False)]
_FEWEST_ROWS: Final = 20
_NO_STYLE: Final = Style()
_HEADING: Final = Style(bold=True)


@frozen
class Column:
    """A column of a table."""

    key: str
    """Which value of a row; its name in CSV."""
    heading: str
    """What stands above it in a table."""
    justify: Literal["left", "right"] = "left"
    """On which side its values stand."""
    style: str | None = None
    """How they look, in Rich's words."""
    is_optional: bool = False
    """Whether a table leaves it out where a terminal has no room."""
    is_prose: bool = False
    """Whether it is made narrow there before other columns are."""
    told: Callable[[Mapping[str, object]], object] | None = None
    """Makes of a row what a table says in place of the value."""


class RowWriter:
    """Writes rows as they come; a context manager.

    A table is laid out once a screenful of rows has come, or all of them; what has no
    room in its column goes on below, so that nothing of an id is lost. JSON is
    one array, which stays open where the block inside fails: half a list is then no
    list. Lines are never buffered.

    Args:
        columns: of a table or CSV.
        output: how; None for a table on a terminal and JSON lines elsewhere.
        quiet: the key of the value that alone is written, one a line.
        before: called before a line is written, such as `StatusLine.make_way`.

    Attributes:
        rows: how many were given.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        output: Output | None = None,
        *,
        quiet: str | None = None,
        before: Callable[[], object] | None = None,
    ) -> None:
        self.rows: int = 0
        self._columns = columns
        self._output: Output = output or ("table" if sys.stdout.isatty() else "jsonl")
        self._quiet = quiet
        self._before = before
        self._lines = OutputLines()
        self._held: bytes | None = None
        self._table: _Table | None = None
        if quiet is None and self._output == "table":
            self._table = _Table(columns)

    def __enter__(self) -> Self:
        if self._quiet is None and self._output == "csv":
            self._put(csv_line(column.key for column in self._columns))
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc, BrokenPipeError | UnwritableError):
            return
        if self._table is not None:
            for line in self._table.rest():
                self._put(line)
        if self._quiet is None and self._output == "json":
            self._end_array(is_whole=exc is None)

    def write(self, row: Mapping[str, object], whole: bytes | None = None) -> None:
        """Write a row.

        Args:
            row: values by key.
            whole: the service's own JSON, which JSON and JSON lines write in its place.

        Raises:
            BrokenPipeError: nobody reads any more.
            UnwritableError: standard output takes no more.
        """
        self.rows += 1
        if self._quiet is not None:
            self._put(cell_text(row.get(self._quiet)).encode("utf-8", "replace"))
            return
        match self._output:
            case "table":
                assert self._table is not None  # noqa: S101 - made together
                for line in self._table.add(row):
                    self._put(line)
            case "csv":
                self._put(csv_line(row.get(column.key) for column in self._columns))
            case "jsonl":
                self._put(json_line(row) if whole is None else inert(whole))
            case "json":
                self._put_element(json_line(row) if whole is None else inert(whole))
            case _:
                assert_never(self._output)

    def _put_element(self, text: bytes) -> None:
        self._put(b"[" if self._held is None else self._held + b",")
        self._held = text

    def _end_array(self, *, is_whole: bool) -> None:
        if self._held is None:
            self._put(b"[]" if is_whole else b"[")
            return
        self._put(self._held if is_whole else self._held + b",")
        if is_whole:
            self._put(b"]")

    def _put(self, line: bytes) -> None:
        if self._before is not None:
            self._before()
        failure = self._lines.write(line)
        if failure is not None:
            raise UnwritableError(failure)


class _Nowhere(io.StringIO):
    """Takes what Rich writes even while its output is captured, and is what stdout is."""

    def isatty(self) -> bool:
        return sys.stdout.isatty()


class _Table:
    """Lines of a table; the first rows decide how wide its columns are."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._screen = Screen(file=_Nowhere(), highlight=False)
        is_terminal = self._screen.is_terminal
        self._most = self._screen.width if is_terminal else None
        self._screenful = self._screen.height - 2 if is_terminal else _FEWEST_ROWS
        self._encoding = sys.stdout.encoding
        self._styles = [Style.parse(one.style) if one.style else _NO_STYLE for one in columns]
        self._waiting: list[list[str]] = []
        self._widths: tuple[int, ...] | None = None

    def add(self, row: Mapping[str, object]) -> Iterator[bytes]:
        """Take a row, and yield what is ready."""
        cells = [
            cell_text(column.told(row) if column.told else row.get(column.key))
            for column in self._columns
        ]
        if self._widths is not None:
            yield from self._row(cells, self._styles, self._widths)
            return
        self._waiting.append(cells)
        if len(self._waiting) >= self._screenful:
            yield from self.rest()

    def rest(self) -> Iterator[bytes]:
        """Yield what waits, below the headings."""
        if not self._waiting:
            return
        headings = [column.heading for column in self._columns]
        self._widths = found = widths(
            [headings, *self._waiting],
            self._most,
            optional=[column.is_optional for column in self._columns],
            prose=[column.is_prose for column in self._columns],
        )
        yield from self._row(headings, [_HEADING] * len(headings), found)
        waiting, self._waiting = self._waiting, []
        for cells in waiting:
            yield from self._row(cells, self._styles, found)

    def _row(
        self, cells: Sequence[str], styles: Sequence[Style], found: Sequence[int]
    ) -> Iterator[bytes]:
        # Elsewhere than on a terminal nothing is broken: later rows may be longer.
        if self._most is None:
            yield self._line(cells, styles, found)
            return
        columns = (
            folded(cell, width) if width else [] for cell, width in zip(cells, found, strict=True)
        )
        for line in zip_longest(*columns, fillvalue=""):
            yield self._line(line, styles, found)

    def _line(self, cells: Sequence[str], styles: Sequence[Style], found: Sequence[int]) -> bytes:
        line = Text(no_wrap=True, overflow="crop", end="")
        for cell, column, style, width in zip(cells, self._columns, styles, found, strict=True):
            if not width:
                continue
            if line:
                line.append(" " * GAP)
            line.append(padded(cell, width, right=column.justify == "right"), style)
        line.rstrip()
        with self._screen.capture() as captured:
            self._screen.print(line, soft_wrap=True, end="")
        return captured.get().encode(self._encoding, "replace")


_WIDTH: Final = 100
"""Where the output is no terminal; a ticket takes that."""
_IN_ASCII: Final = str.maketrans({"→": "->", "…": "...", "±": "+-"})


def print_lines(drawing: RenderableType) -> None:
    """Print a drawing on standard output, with colour where that is a terminal.

    Lines end where their text does, and what standard output has no bytes for is ``?``.
    """
    screen = Screen(highlight=False)
    if not screen.is_terminal:
        screen.width = _WIDTH
    with screen.capture() as captured:
        screen.print(drawing)
    write_text(*map(_encodable, captured.get().splitlines()))


def _encodable(line: str) -> str:
    line, encoding = line.rstrip(), sys.stdout.encoding or "ascii"
    try:
        line.encode(encoding)
    except UnicodeEncodeError:
        return line.translate(_IN_ASCII).encode(encoding, "replace").decode(encoding)
    return line


def without_addresses(record: ApplicationRecord) -> ApplicationRecord:
    """Return a record that may be kept for longer than an address is valid."""
    if record.documents is None:
        return record
    bare = {
        kind: tuple(evolve(document, url="") for document in documents)
        for kind, documents in record.documents.documents.items()
    }
    documents: ApplicationDocuments = evolve(record.documents, documents=bare)
    return evolve(record, documents=documents)
