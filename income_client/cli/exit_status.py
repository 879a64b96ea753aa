"""What the command exits with; imported before anything that takes long to load."""

import signal
from enum import IntEnum
from typing import Self


class ExitStatus(IntEnum):
    """The exit statuses, the same for every command."""

    DONE = 0
    """Success."""
    FAILED = 1
    """Something failed, is missing or was not found."""
    MISUSED = 2
    """Invalid arguments or configuration."""
    REPLACED = 3
    """Another process took over the name of a poller."""
    REFUSED = 4
    """The service refused the credentials."""
    INTERRUPTED = 128 + signal.SIGINT
    """Ctrl-C."""
    PIPE_CLOSED = 128 + getattr(signal, "SIGPIPE", 13)  # Windows has no such signal
    """The reader of the output has gone."""
    TERMINATED = 128 + signal.SIGTERM
    """SIGTERM."""

    @classmethod
    def of_signal(cls, received: signal.Signals) -> Self:
        """Return the status of what a signal has ended, as in a shell."""
        return cls(128 + received)
