"""Ctrl-C and SIGTERM: asked to stop the first time, ended the second."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Final, TypeVar

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


T = TypeVar("T")


class Stoppable:
    """Waits for one thing at a time, until it is to stop.

    Attributes:
        is_stopped: whether it is.
    """

    def __init__(self) -> None:
        self.is_stopped: bool = False
        self._until: asyncio.Timeout | None = None

    def stop(self) -> None:
        """End what is waited for, and all that would be."""
        self.is_stopped = True
        if self._until is not None:
            self._until.reschedule(0)

    async def wait_for(self, awaitable: Awaitable[T]) -> T | None:
        """Return what comes of something, None if it is to stop before."""
        try:
            async with asyncio.timeout(0 if self.is_stopped else None) as self._until:
                return await awaitable
        except TimeoutError:
            # One from further in says nothing about stopping.
            if not self.is_stopped:
                raise
            return None
        finally:
            self._until = None
