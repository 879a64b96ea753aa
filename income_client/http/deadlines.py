"""Limit blocks of tasks in time: many blocks with one timer, or one block with its own."""

import asyncio
import math
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Deadlines:
    """Limits blocks of tasks to the same number of seconds of real time.

    Does what `asyncio.timeout` does, for blocks that all have the same limit: they end in the
    order in which they began, so that one timer, set for the oldest, is enough. A block that ends
    in time costs an entry in a dict.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.running: dict[Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def limit(self, error: Callable[[], Exception], *, starts: bool = True) -> "Deadline":
        """Return a block whose time starts when it is entered, or with its ``start`` only.

        What ``error`` returns is raised from the block once its time is up.
        """
        return Deadline(self, error, starts=starts)

    def start(self, deadline: "Deadline") -> None:
        """Start the time of a block, or start it again."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._timer = loop, None
            self.running.clear()
        self.running.pop(deadline, None)
        self.running[deadline] = None
        deadline.ends_at = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_at(deadline.ends_at, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for deadline in list(self.running):
            if deadline.ends_at > now:
                self._timer = loop.call_at(deadline.ends_at, self._sweep, loop)
                return
            del self.running[deadline]
            # Where the loop was held up, what came in the meantime is taken in first.
            loop.call_soon(deadline.expire, now)


class Deadline:
    """A block of a task that is cancelled once its time is up, and then raises an error."""

    __slots__ = (
        "_cancelling",
        "_deadlines",
        "_error",
        "_is_expiring",
        "_starts",
        "_task",
        "ends_at",
    )

    def __init__(
        self, deadlines: Deadlines, error: Callable[[], Exception], *, starts: bool
    ) -> None:
        self._deadlines = deadlines
        self._error = error
        self._starts = starts
        self._is_expiring = False
        self.ends_at: float = math.inf

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline is for the block of a task")
        self._task = task
        self._cancelling = task.cancelling()
        if self._starts:
            self._deadlines.start(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._deadlines.running.pop(self, None)
        self.ends_at = math.inf
        overdue = self._error
        del self._error  # which may refer to what refers to this block
        if not self._is_expiring:
            return
        # A cancellation from outside continues, also one that came at the same time.
        is_ours = self._task.uncancel() <= self._cancelling
        if is_ours and kind is asyncio.CancelledError:
            raise overdue() from None

    def expire(self, now: float) -> None:
        """End the block, unless its time was started again."""
        if self.ends_at <= now:
            self._is_expiring = True
            self._task.cancel()
