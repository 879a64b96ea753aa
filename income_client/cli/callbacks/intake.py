"""What ``income-client listen`` does about a callback, and what it tells of those not taken."""

import logging
from collections.abc import Callable
from typing import Final

from income_client import Callback
from income_client.cli.output import OutputLines, UnwritableError, printable
from income_client.cli.progress import say_warnings

from .forwarding import Forwarding

_RECEIVERS: Final = "income_client.receivers"
_FAILED_HERE: Final = "handler_failed"
_MOST_PATHS: Final = 10
_LONGEST_SHOWN: Final = 100


class NotTakenError(Exception):
    """A callback was not handed on or not written, so that it has to be sent again."""


class Elsewhere:
    """Tells of requests to other paths than the one meant, the first few that differ.

    Args:
        say: prints a line for the operator.
        path: the one meant.
    """

    def __init__(self, say: Callable[[str], None], path: str) -> None:
        self._say = say
        self._path = path
        self._told: set[str] = set()

    def __call__(self, path: str) -> None:
        """Tell of one."""
        if path not in self._told and len(self._told) < _MOST_PATHS:
            self._told.add(path)
            shown = printable(path[:_LONGEST_SHOWN])
            self._say(f"nothing is taken at {shown}; callbacks are meant to go to {self._path}")


class CallbackIntake:
    """Hands callbacks on, and writes those that were taken to standard output.

    Args:
        say: prints a line for the operator.
        stop: called once standard output cannot be written any more.
        line_of: writes a callback as a line.
        forwarding: where callbacks are handed on to, if anywhere.

    Attributes:
        is_unread: whether nobody reads standard output any more.
        failure: why else it could not be written.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        stop: Callable[[], None],
        *,
        line_of: Callable[[Callback], bytes],
        forwarding: Forwarding | None,
    ) -> None:
        self.is_unread: bool = False
        self.failure: UnwritableError | None = None
        self._say = say
        self._stop = stop
        self._line_of = line_of
        self._forwarding = forwarding
        self._lines = OutputLines()

    async def take(self, callback: Callback) -> None:
        """Hand a callback on, then write it, so that a line stands for one that was taken.

        One that was handed on and could not be written is handed on again when it is resent.

        Raises:
            NotTakenError: one of both failed.
        """
        is_taken = self._can_write() and await self._hand_on(callback) and self._write(callback)
        del callback  # crash reporters send the locals of the frame that raises
        if not is_taken:
            raise NotTakenError

    def _can_write(self) -> bool:
        return not self.is_unread and self.failure is None

    def _write(self, callback: Callback) -> bool:
        if not self._can_write():  # another one found out in the meantime
            return False
        try:
            self._lines.write(self._line_of(callback))
        except UnwritableError as error:
            self.failure = error
        except BrokenPipeError:
            self.is_unread = True
        if not self._can_write():
            self._stop()
        return self._can_write()

    async def _hand_on(self, callback: Callback) -> bool:
        if self._forwarding is None:
            return True
        outcome = await self._forwarding.failure(callback)
        match outcome:
            case None:
                return True
            case int():
                said = f" was answered with {outcome}"
            case str():
                said = f": no answer ({outcome})"
        self._say(f"--forward-to{said}, and so the service is answered with 503")
        return False


class _Sayer(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        # What fails in here is said in here, in more words than an error's class.
        is_ours = getattr(record, "reason", None) == _FAILED_HERE
        if record.levelno == logging.WARNING and not is_ours:
            peer = getattr(record, "peer", None)
            self._say(f"{record.getMessage()}{f' (from {peer})' if peer else ''}")


def say_refusals(say: Callable[[str], None]) -> None:
    """Say from now on which requests are refused and why, of each kind one a minute.

    Args:
        say: prints a line for the operator.
    """
    say_warnings(say, _RECEIVERS)
    logging.getLogger(_RECEIVERS).addHandler(_Sayer(say))
