"""Rows on standard output, as a table or for other programs; knows nothing of what they say."""

import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from types import TracebackType
from typing import Annotated, Final, Literal, Self, assert_never

from attrs import frozen
from cyclopts import Parameter
from rich.style import Style
from rich.text import Text

from .column_widths import GAP, folded, padded, widths
from .lines import OutputLines, UnwritableError
from .row_text import cell_text, csv_line, inert, json_line
from .screen import Screen

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
