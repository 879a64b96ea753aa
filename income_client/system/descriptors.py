"""Find out whether a failure means that no file descriptor is left.

Libraries report it as a name that does not exist, or a file that cannot be opened: who is on call
would look at the network or the disk.
"""

import errno
import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

SHORTAGES: Final[Mapping[int, str]] = {
    errno.EMFILE: "this process has no file descriptor left (ulimit -n)",
    errno.ENFILE: "this machine has no file descriptor left",
}
"""Texts for messages, by number of the system's error."""
_NEEDED: Final = 3
"""Descriptors that a save needs at a time: SQLite's file, its journal and their folder."""


def shortage_in(error: BaseException) -> str | None:
    """Return the text for an error that a missing file descriptor has caused; else None."""
    number = error.errno if isinstance(error, OSError) else None
    return None if number is None else SHORTAGES.get(number)


def find_shortage() -> str | None:
    """Return the text for missing file descriptors if a few cannot be opened now; else None."""
    with ExitStack() as opened:
        try:
            for _ in range(_NEEDED):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            return shortage_in(error)
    return None
