"""Exit statuses of the command, in a module that imports quickly."""

import os
import signal
from collections.abc import Callable
from enum import IntEnum
from types import FrameType
from typing import Final, Self

_FIRST_PROCESS: Final = 1


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


def ending_handler() -> Callable[[int, FrameType | None], None] | signal.Handlers:
    """Return the handler of a signal that ends this process at once.

    The default one does, but for the first process of a container, which the system ends by no
    signal without a handler.
    """
    return _end_process if os.getpid() == _FIRST_PROCESS else signal.SIG_DFL


def _end_process(number: int, _: FrameType | None) -> None:
    os._exit(ExitStatus.of_signal(signal.Signals(number)))
