"""Ctrl-C and SIGTERM: the first signal stops a command, the second one ends it at once."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Final, TypeVar

from .exit_status import ending_handler

T = TypeVar("T")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Catches the first of these signals, and leaves the second one to the system.

    Args:
        stop: called in the running loop once the first has come.

    Attributes:
        received: the one that has come, if any.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self.received: signal.Signals | None = None
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            # The loop's own handler, which Windows lacks, wakes up the loop even if the signal
            # comes just before it waits. The other one runs even while a write blocks the loop.
            with contextlib.suppress(NotImplementedError):
                self._loop.add_signal_handler(number, lambda: None)
            signal.signal(number, self._receive_signal)

    def _receive_signal(self, number: int, _: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, ending_handler())
        self.received = signal.Signals(number)
        with contextlib.suppress(RuntimeError):  # the loop is closed: all is over anyway
            self._loop.call_soon_threadsafe(self._stop)


class Stoppable:
    """Waits for one awaitable at a time, until it is stopped.

    Attributes:
        is_stopped: whether it was.
    """

    def __init__(self) -> None:
        self.is_stopped: bool = False
        self._until: asyncio.Timeout | None = None

    def stop(self) -> None:
        """Cancel the current wait, and all later ones."""
        self.is_stopped = True
        if self._until is not None:
            self._until.reschedule(0)

    async def wait_for(self, awaitable: Awaitable[T]) -> T | None:
        """Return the result of an awaitable; None after a stop."""
        try:
            async with asyncio.timeout(0 if self.is_stopped else None) as self._until:
                return await awaitable
        except TimeoutError:
            if not self.is_stopped:  # it comes from further in
                raise
            return None
        finally:
            self._until = None
