"""Lines on standard output, each there or not; knows nothing of what they say.

All that goes there takes this way, so that a full disk is one line for whoever looks.
"""

import os
import stat
import sys
from typing import IO, Final

from income_client import IncomeClientError

from .saying import reason_of

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
