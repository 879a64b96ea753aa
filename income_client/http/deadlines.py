"""Limit the time of many calls with one timer of the event loop.

Does for a block what `asyncio.timeout` does, for calls that all have the same limit: they end in
the order in which they began, so that one timer, set for the oldest, is enough. A call that ends in
time costs an entry in a dict.
"""

import asyncio
import math
from types import TracebackType
from typing import Self


class Deadlines:
    """Limits blocks to the same number of seconds of real time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._running: dict[Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, *, is_running: bool = True) -> "Deadline":
        """Return a context manager whose block is cancelled when its time is up.

        Unless it is running, its time begins when it is renewed.
        """
        return Deadline(self, is_running)

    def enter(self, deadline: "Deadline", loop: asyncio.AbstractEventLoop) -> None:
        """Start the time of a deadline of a task of this loop."""
        if loop is not self._loop:
            self._loop, self._timer = loop, None
            self._running.clear()
        deadline.ends_at = loop.time() + self.seconds
        self._running[deadline] = None
        if self._timer is None:
            self._timer = loop.call_at(deadline.ends_at, self._sweep, loop)

    def renew(self, deadline: "Deadline") -> None:
        """Start the time of a deadline again."""
        self._running.pop(deadline, None)
        self.enter(deadline, asyncio.get_running_loop())

    def leave(self, deadline: "Deadline") -> None:
        """Stop the time of a deadline."""
        self._running.pop(deadline, None)
        deadline.ends_at = math.inf

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for deadline in list(self._running):
            if deadline.ends_at > now:
                self._timer = loop.call_at(deadline.ends_at, self._sweep, loop)
                return
            del self._running[deadline]
            # Where the loop was held up, what came in the meantime is taken in first.
            loop.call_soon(_expire, deadline, now)


def _expire(deadline: "Deadline", now: float) -> None:
    if deadline.ends_at <= now:
        deadline.expire()


class Deadline:
    """The time limit of one block.

    Attributes:
        ends_at: the loop's time at which it ends.
        has_passed: whether the block was ended by it.
    """

    __slots__ = (
        "_cancelling",
        "_deadlines",
        "_is_expiring",
        "_is_running",
        "_task",
        "ends_at",
        "has_passed",
    )

    def __init__(self, deadlines: Deadlines, is_running: bool) -> None:
        self._deadlines = deadlines
        self._is_running = is_running
        self._is_expiring = False
        self.ends_at: float = 0.0
        self.has_passed: bool = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline is for the block of a task")
        self._task = task
        self._cancelling = task.cancelling()
        if self._is_running:
            self._deadlines.enter(self, task.get_loop())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._deadlines.leave(self)
        # A cancellation from outside continues, also one that came at the same time.
        if self._is_expiring and self._task.uncancel() <= self._cancelling:
            self.has_passed = kind is asyncio.CancelledError
        return self.has_passed

    def renew(self) -> None:
        """Start its time again."""
        self._deadlines.renew(self)

    def expire(self) -> None:
        """End the block."""
        self._is_expiring = True
        self._task.cancel()
