"""Standard output and error that wait for a reader, whatever mode their parent has put them in.

A pipe, and its mode, belongs to all processes that have it: a parent such as node makes it
non-blocking, and a write that the reader is too slow for fails.
"""

import io
import select
import sys
from typing import Any


class WaitingFile(io.FileIO):
    """A file of which a write waits until all can be written."""

    def write(self, data: Any, /) -> int:
        """Write, and return how many bytes were written."""
        while (count := super().write(data)) is None:
            select.select([], [self], [])
        return count


def wait_for_readers() -> None:
    """Replace standard output and error, unless they are closed, by streams that wait."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            continue
        raw = WaitingFile(stream.fileno(), "wb", closefd=False)
        waiting = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, waiting)
