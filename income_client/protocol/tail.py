"""How a walk without an upper bound finds the present, and how it may end there.

An update moves an application to the present while the walk is under way, so
the walk ends only with a single complete page from the last bound to the
present, read after everything else. An exclusive upper bound hides the current
second; so that page is asked for with a bound in the future. Where the service
lowers such a bound, or refuses it, two complete pages stand in for it that were
served in different seconds with no call between them.

The present is what the service echoes when it is asked without an upper bound.
A service that cuts long windows short may echo less; it gives itself away when
it is asked from one second earlier, because its echo then goes back by one
second too, and the walk goes on from there.
"""

from typing import Final

from attrs import frozen

from income_client.records.window import Window

from .questions import Answer, Bounds, Pause
from .timestamps import LAST_SECOND

_YEAR: Final = 366 * 86_400
_CENTURY: Final = 100 * _YEAR
_SECOND: Final = Pause(1.0)
_BEHIND: Final = 1
"""Seconds by which the present is taken earlier than it is echoed: the service may round
up, and what is written in a second may become visible just after it."""
_PATIENCE: Final = 3
"""Pauses after which a service clock that stands still is taken as it is."""


@frozen(kw_only=True)
class TailStep:
    """What a page of the tail settles."""

    span: Window
    """The seconds that the page answers for; empty when it answers for none."""
    is_finished: bool = False
    """Whether the walk may end with this page."""


class Tail:
    """The end of an open walk: everything from ``reached`` to the present."""

    def __init__(self, start: int, *, reached: int) -> None:
        self.reached = reached
        """The walk's other parts answer for every second before this one."""
        self._start = start
        self._is_present_known = False
        self._asks_future = False
        self._future_works = True
        self._last: Window | None = None
        self._cut_span: int | None = None
        self._stands_still = 0
        self._pauses = False

    def next(self) -> Bounds | Pause:
        """Return the bounds to ask with, or the pause to make before asking again."""
        if self._pauses:
            self._pauses = False
            return _SECOND
        overlap = 1 if self._last is None else 2
        after = max(self._start, self.reached - overlap)
        future = min(self.reached + _YEAR, LAST_SECOND)
        return Bounds(after, future if self._asks_future else None)

    def interrupt(self) -> None:
        """Take note of a call in between: the last page no longer stands in for anything."""
        self._last = None

    def refuse(self, bounds: Bounds) -> bool:
        """Take note of a refusal; tell whether there is another way to ask."""
        if bounds.before is None:
            return False
        self._give_up_future()
        return True

    def receive(self, bounds: Bounds, answer: Answer) -> TailStep:
        """Take a page.

        Args:
            bounds: as asked.
            answer: the page, and the bounds that the service applied.
        """
        echo = answer.echo
        present = echo.before - _BEHIND
        if bounds.before is not None:
            if echo.after <= bounds.after and echo.before >= bounds.before:
                self._asks_future = False
                return TailStep(span=self._nothing, is_finished=not answer.is_full)
            self._give_up_future()
            if echo.after > bounds.after:
                return TailStep(span=self._nothing)
        elif answer.served_at is not None and echo.before - answer.served_at > _CENTURY:
            # No upper bound was applied that is worth the name.
            if not answer.is_full:
                return TailStep(span=self._nothing, is_finished=True)
            return self._move_on(answer.served_at - _BEHIND)
        if answer.is_full or self._future_works:
            return self._move_on(present)
        return self._stand_in(bounds, echo, present)

    def _move_on(self, present: int) -> TailStep:
        """Learn the present, and leave what lies before it to the rest of the walk."""
        if present > self.reached or not self._is_present_known:
            return self._advance(present)
        # The current second alone overfills the page. It will pass, and then be
        # a second like any other; where the clock stands still it is one already.
        self._stands_still += 1
        if self._stands_still > _PATIENCE:
            return self._advance(self.reached + 1)
        self._pauses = True
        return TailStep(span=self._nothing)

    def _stand_in(self, bounds: Bounds, echo: Window, present: int) -> TailStep:
        """Take a complete page that may not reach into the current second."""
        length = echo.before - bounds.after
        is_cut = echo.after > bounds.after or length == self._cut_span
        if not self._is_present_known or (is_cut and present > self.reached):
            return self._advance(present)
        last, self._last = self._last, Window(bounds.after, echo.before)
        if last is None:
            return TailStep(span=self._nothing)
        if echo.before == last.before:
            return self._wait(present)
        if bounds.after < last.after and length == last.before - last.after:
            self._cut_span = length
            return self._advance(present)
        return TailStep(span=self._nothing, is_finished=True)

    def _wait(self, present: int) -> TailStep:
        """Let the service's clock move on; where it stands still, go on or end without it."""
        self._stands_still += 1
        if self._stands_still <= _PATIENCE:
            self._pauses = True
            return TailStep(span=self._nothing)
        if present > self.reached:
            return self._advance(present)
        return TailStep(span=self._nothing, is_finished=True)

    def _advance(self, present: int) -> TailStep:
        span = Window(self.reached, max(self.reached, present))
        self.reached = span.before
        self._is_present_known = True
        self._asks_future = self._future_works
        self._last = None
        self._stands_still = 0
        return TailStep(span=span)

    def _give_up_future(self) -> None:
        self._asks_future = self._future_works = False

    @property
    def _nothing(self) -> Window:
        return Window(self.reached, self.reached)
