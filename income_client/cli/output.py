"""Output of commands: results on standard output, messages on standard error."""

import io
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve
from rich.console import Console, RenderableType
from rich.text import Text

from income_client import ConfigurationError, IncomeClientError
from income_client.system.texts import printable, reason_of

from .streams import WaitingFile

if TYPE_CHECKING:
    from income_client import ApplicationRecord


# Messages


def say(message: str) -> None:
    """Print a line on standard error, above any progress drawn there."""
    error_screen().print(Text(f"income-client: {printable(message)}"), soft_wrap=True)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 row`` or ``1,200 rows``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def duration(seconds: float) -> str:
    """Return a duration in its two largest units, such as ``59 min 3 s`` or ``0.3 s``."""
    if 0 < seconds < 1:
        return f"{seconds:.1f} s"
    whole_seconds = max(0, int(seconds))
    for (unit, name), (below, name_below) in pairwise(_UNITS):
        if whole_seconds >= unit:
            rest = whole_seconds % unit // below
            return f"{whole_seconds // unit:,} {name}" + (f" {rest} {name_below}" if rest else "")
    return f"{whole_seconds} s"


# Lines on standard output


class UnwritableError(IncomeClientError):
    """Standard output cannot be written, although its reader may still exist."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to standard output: {reason_of(error, 'it is closed')}")


@contextmanager
def _raise_unwritable() -> Iterator[None]:
    """Raise `UnwritableError` for a failed write, unless the reader has gone."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnwritableError(error) from None


def write_text(*lines: str) -> None:
    """Write lines of text in the encoding of the output, and flush them."""
    with _raise_unwritable():
        print(*map(_replace_unencodable, lines), sep="\n", flush=True)


_BOX_DRAWING: Final = range(0x2500, 0x2580)
_IN_ASCII: Final = (
    dict.fromkeys(_BOX_DRAWING, "+")
    | str.maketrans("•─━│┃▏▎▍▌▋▊▉█", "*--||########")
    | str.maketrans({"→": "->", "…": "...", "±": "+-"})
)
"""ASCII replacements for lines, blocks and arrows that an encoding cannot write."""


def _replace_unencodable(line: str) -> str:
    encoding = sys.stdout.encoding or "ascii"
    try:
        line.encode(encoding)
    except UnicodeEncodeError:
        return line.translate(_IN_ASCII).encode(encoding, "replace").decode(encoding)
    return line


def discard_rest() -> None:
    """Drop text that could not be written, since the interpreter would fail at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class OutputLines:
    """Writes lines without a buffer, whose rest would fail again at the end."""

    def __init__(self) -> None:
        self._to = sys.stdout.fileno()
        self._file = WaitingFile(self._to, "wb", closefd=False)
        self._is_file = stat.S_ISREG(os.fstat(self._to).st_mode)
        self._before = b"\n" if self._is_file and _ends_in_mid_line(self._to) else b""

    def write(self, line: bytes) -> None:
        """Write a line without its end."""
        rest = memoryview(self._before + line + b"\n")
        with _raise_unwritable():
            while rest:
                rest = rest[self._file.write(rest) :]
        self._before = b""

    def keep(self) -> None:
        """Flush written lines to the disk, if the output is a file."""
        if self._is_file:
            with _raise_unwritable():
                os.fsync(self._to)


def _ends_in_mid_line(descriptor: int) -> bool:
    """Return whether a file's last line was cut off, by a full disk or a kill."""
    try:
        # Opened anew, since what a shell opens for appending cannot be read.
        with open(f"/dev/fd/{descriptor}", "rb") as file:  # noqa: PTH123 - no path of anything
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"
    except OSError:  # among them that of an empty file
        return False


def check_is_no_output(file: Path, option: str) -> None:
    """Refuse a file to which the shell redirects standard output or standard error."""
    if _is_on(1, file):
        stream = "standard output"
    elif _is_on(2, file):
        stream = "standard error"
    else:
        return
    if _is_on(2, file):
        # The message itself must not be written there.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
    raise ConfigurationError(f"{option}: {stream} is written to this very file")


def _is_on(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except OSError:  # it is not there, or the stream is closed
        return False


# Values as text


def inert(text: bytes) -> bytes:
    """Return JSON with escapes for characters that could control a terminal."""
    line = text.decode()
    if line.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else json.dumps(character)[1:-1]
        for character in line
    ).encode()


def without_addresses(record: "ApplicationRecord") -> "ApplicationRecord":
    """Return a record without signed URLs, with which anybody can read the files."""
    if record.documents is None:
        return record
    bare = {
        kind: tuple(evolve(document, url="") for document in documents)
        for kind, documents in record.documents.documents.items()
    }
    return evolve(record, documents=evolve(record.documents, documents=bare))


# Terminals


class Screen(Console):
    """A console whose caller handles a closed pipe or a full disk."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as `Console.print` does; raise an error if standard output cannot be written."""
        with nullcontext() if self.stderr else _raise_unwritable():
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Raise the error to the caller."""
        raise  # noqa: PLE0704 - called while it is being handled

    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002 - as in Rich
        """Keep the cursor visible: a killed process could not restore it."""
        return False

    @property
    def is_for_progress(self) -> bool:
        """Whether progress is drawn: on a terminal without another writer.

        The reader of a pipe may write to the same terminal, so nothing is drawn beside one.
        """
        mode = os.fstat(sys.stdout.fileno()).st_mode
        is_alone = stat.S_ISREG(mode) or stat.S_ISCHR(mode)
        return self.file.isatty() and not self.is_dumb_terminal and is_alone


@cache
def error_screen() -> Screen:
    """Return the console of standard error, shared by messages and progress."""
    return Screen(stderr=True, highlight=False)


_WIDTH: Final = 100
"""Width in columns where the output is not a terminal; enough for a ticket."""


def print_lines(drawing: RenderableType) -> None:
    """Print a drawing on standard output, with colour on a terminal."""
    is_terminal = sys.stdout.isatty()
    write_text(*drawn(drawing, None if is_terminal else _WIDTH))


def drawn(drawing: RenderableType, width: int | None) -> list[str]:
    """Return the lines of a drawing, coloured if standard output is a terminal."""
    screen = Console(
        file=io.StringIO(), force_terminal=sys.stdout.isatty(), highlight=False, width=width
    )
    with screen.capture() as captured:
        screen.print(drawing, crop=False)
    return [line.rstrip() for line in captured.get().splitlines()]
