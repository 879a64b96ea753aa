"""Ctrl-C and SIGTERM: asked to stop the first time, ended the second; knows not what it stops."""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from types import FrameType
from typing import Final

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Takes the first of these signals from now on, and leaves the second to the system.

    Args:
        stop: called in the running loop once the first has come.

    Attributes:
        received: the one that has come, if any.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self.received: signal.Signals | None = None
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        for number in _NUMBERS:
            # Has the signal itself wake up the loop, also when it comes just before the loop
            # waits. Windows has no such handlers.
            with contextlib.suppress(NotImplementedError):
                self._loop.add_signal_handler(number, _do_nothing)
            # In place of the loop's handler: this one runs even while a write blocks the loop.
            signal.signal(number, self._receive)

    def _receive(self, number: int, _: FrameType | None) -> None:
        for each in _NUMBERS:
            signal.signal(each, signal.SIG_DFL)
        self.received = signal.Signals(number)
        with contextlib.suppress(RuntimeError):  # the loop is closed: all is over anyway
            self._loop.call_soon_threadsafe(self._stop)


def _do_nothing() -> None:
    """Stand in for a handler of the loop, which only has to wake up."""
