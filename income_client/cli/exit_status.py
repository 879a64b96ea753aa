"""Exit statuses of the command, in a module that imports quickly."""

import signal
from enum import IntEnum
from typing import Self


class ExitStatus(IntEnum):
    """The exit statuses, the same for every command; the help of the command explains them."""

    DONE = 0
    FAILED = 1
    MISUSED = 2
    REPLACED = 3
    REFUSED = 4
    INTERRUPTED = 128 + signal.SIGINT
    PIPE_CLOSED = 128 + getattr(signal, "SIGPIPE", 13)  # Windows has no such signal
    TERMINATED = 128 + signal.SIGTERM

    @classmethod
    def of_signal(cls, received: signal.Signals) -> Self:
        """Return the status of a process that a signal has ended, as in a shell."""
        return cls(128 + received)
