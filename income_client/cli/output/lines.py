"""Lines on standard output, each there or not; knows nothing of what they say."""

import os
import stat
import sys
from typing import Final

_NEWLINE: Final = b"\n"


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
