"""What the command exits with; knows not why."""

import signal
from enum import IntEnum
from typing import Self


class ExitStatus(IntEnum):
    """The exit statuses, the same for every sub-command."""

    DONE = 0
    """All that was asked for."""
    FAILED = 1
    """Something failed, is missing or is not there."""
    MISUSED = 2
    """Arguments or settings that cannot be meant."""
    REPLACED = 3
    """Another process took over the name of a poller."""
    REFUSED = 4
    """The service refused the credentials."""
    INTERRUPTED = 128 + signal.SIGINT
    """Ctrl-C."""
    PIPE_CLOSED = 128 + getattr(signal, "SIGPIPE", 13)  # Windows has no such signal
    """Nobody reads the output any more."""
    TERMINATED = 128 + signal.SIGTERM
    """SIGTERM."""

    @classmethod
    def of_signal(cls, received: signal.Signals) -> Self:
        """Return the status of what a signal has ended, as shells tell it."""
        return cls(128 + received)
