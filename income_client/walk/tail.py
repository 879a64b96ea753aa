"""The end of a walk: how the planner finds the present, and how a walk may end there.

An update moves an application to the present while the walk is in progress. So
what lies before the present is left to the walkers, and the walk ends only with
a single complete page from there on, read after everything else. An exclusive
upper bound hides the current second; so that page is asked for with a bound in
the future, the walk's own if it has one. Where the service cuts long windows, the
bound is brought near, and the present asked for right after the page must still lie
before it. Where the service lowers such a bound to the present, or refuses it, two
complete pages replace it that were served in different seconds with no call
between them.

The present is the bound that the service echoes when it is asked without an upper one.
A service that cuts long windows short may echo less; this shows when it is asked from one
second earlier, because its echo then moves back by one second too, and the walk continues
from there. A walk whose upper bound has passed needs none of this; it asks for its whole
span first, since most are small.

A walk that another walk will follow need not chase the present: it ends at the first one
that is echoed, if that fits the service's own `Date`. Otherwise the end may have been cut
off, and the walk continues like any other.
"""

from typing import Final

from attrs import evolve, frozen

from income_client.records.window import Window
from income_client.wire.times import LAST_SECOND

from .windows import Answer, Bounds, Pause

_DAY: Final = 86_400
_YEAR: Final = 366 * _DAY
_CENTURY: Final = 100 * _YEAR
END_OF_TIME: Final = 3_786_912_000
"""The beginning of 2090: an echo beyond it means no bound, and gives no time."""
_SECOND: Final = Pause(1.0)
_BEHIND: Final = 1
"""Seconds by which the present is taken earlier than it is echoed: the service may round
up, and what is written in a second may become visible just after it."""
_SKEW: Final = 5
"""Seconds that an echoed present may lie behind the `Date` of the same reply."""
_PATIENCE: Final = 3
"""Pauses after which a service clock that does not move is taken as it is."""


@frozen(kw_only=True)
class TailStep:
    """What a page of the tail settles."""

    span: Window
    """The seconds that it is about; empty when it answers for none."""
    is_walked: bool = False
    """Whether the walkers must go through the span, the page being no answer to it."""
    is_finished: bool = False
    """Whether nothing is left to ask once the walkers are done."""


class Tail:
    """The end of a walk: everything from ``reached`` on.

    Args:
        start: the walk's lower bound.
        reached: the walk's other parts answer for every second before this one.
        until: the walk's upper bound; None for the present.
        lead: seconds by which the service's `Date` is known to run ahead of the
            present that it echoes, or behind it if negative, for a walk that ends
            at the first present that is echoed; None for one that continues until
            nothing is newer.
    """

    def __init__(
        self,
        start: int,
        *,
        reached: int,
        until: int | None = None,
        lead: int | None = None,
    ) -> None:
        self.reached: int = reached
        self._start = start
        self._until = until
        self._lead = lead
        self._asks_for_last = until is not None
        self._is_present_known = False
        self._future_works = True
        self._widest: int | None = None
        self._page_ahead: int | None = None
        self._last: Window | None = None
        self._cut_span: int | None = None
        self._unmoved = 0
        self._must_wait = False

    def next(self) -> Bounds | Pause:
        """Return the bounds to ask with, or the pause to make before asking again."""
        if self._must_wait:
            self._must_wait = False
            return _SECOND
        overlap = 1 if self._last is None else 2
        after = max(self._start, self.reached - overlap)
        if not self._asks_for_last:
            return Bounds(after, None)
        far = self._far
        return Bounds(after, far if self._widest is None else min(far, after + self._widest))

    @property
    def _far(self) -> int:
        """The bound of the last page where the service cuts no windows."""
        return min(self.reached + _YEAR, LAST_SECOND) if self._until is None else self._until

    def interrupt(self) -> None:
        """Record a call in between: the last page no longer counts as one of two."""
        self._last = None

    def refuse(self, bounds: Bounds) -> bool:
        """Record a refusal; return whether there is another way to ask."""
        if bounds.before is None or self._until is not None:
            return False
        self._give_up_future()
        return True

    def receive(self, bounds: Bounds, answer: Answer) -> TailStep:
        """Take the page for these bounds; return what it settles."""
        if bounds.before is None:
            return self._receive_probe(bounds, answer)
        echo = answer.echo
        is_whole = echo.after <= bounds.after and echo.before >= bounds.before
        is_complete = is_whole and not answer.is_full
        is_far = bounds.before >= self._far
        if self._has_passed(answer):
            return self._rest(is_walked=not (is_complete and is_far))
        if is_complete and is_far:
            return TailStep(span=self._nothing, is_finished=True)
        if is_whole or not self._is_present_known:
            self._asks_for_last = False
            self._page_ahead = bounds.before if is_complete else None
            return TailStep(span=self._nothing)
        # A future bound that was lowered need not be the present: a long window may have
        # been cut short, and then ends in the future. Only an unset bound gives the present.
        is_cut = echo.after > bounds.after or echo.before > self.reached + _SKEW
        if is_cut and self._widest is None:
            self._widest = echo.before - echo.after
        else:
            self._give_up_future()
        return TailStep(span=self._nothing)

    def _receive_probe(self, bounds: Bounds, answer: Answer) -> TailStep:
        echo, served_at = answer.echo, answer.served_at
        present = echo.before - _BEHIND
        if self._is_ended_by_page_ahead(bounds, answer):
            return evolve(self._advance(present), is_finished=True)
        is_open = self._until is None and not answer.is_full and echo.after <= bounds.after
        # An echo far beyond the service's own clock applied no upper bound worth the name.
        if served_at is None:
            is_endless = present > END_OF_TIME
        else:
            is_endless = echo.before - served_at > _CENTURY
            present = served_at - _BEHIND if is_endless else present
        if is_endless and is_open and self._lead is None:
            return TailStep(span=self._nothing, is_finished=True)
        if served_at is not None and is_open and self.reached - _DAY > served_at:
            # The walk is ahead of the service's own clock: there is nothing more to come.
            return TailStep(span=self._nothing, is_finished=True)
        if self._until is not None and present > self._until:
            return self._rest(is_walked=True)
        if self._is_enough(present, served_at):
            return evolve(self._advance(present, is_walked=answer.is_full), is_finished=True)
        return self._receive_present(bounds, answer, present)

    def _is_ended_by_page_ahead(self, bounds: Bounds, answer: Answer) -> bool:
        """Return whether the present still lies before the end of the last, near bound."""
        ahead, self._page_ahead = self._page_ahead, None
        if ahead is None or self._widest is None:
            return False
        # An echo as wide as the service's widest window may have been cut, and gives no time.
        is_present = answer.echo.after <= bounds.after and answer.echo.before < min(
            ahead, bounds.after + self._widest
        )
        if not is_present:
            self._give_up_future()
        return is_present and not answer.is_full

    def _is_enough(self, present: int, served_at: int | None) -> bool:
        if self._lead is None or served_at is None or self._is_present_known:
            return False
        return abs(served_at - self._lead - present) <= _SKEW

    def _receive_present(self, bounds: Bounds, answer: Answer, present: int) -> TailStep:
        # Rows may lie behind the upper bound of the walk: the page only gives the time.
        is_beyond = self._until is not None and answer.echo.before > self._until
        if not (answer.is_full or is_beyond or self._future_works):
            return self._stand_in(bounds, answer.echo, present)
        if present > self.reached or not self._is_present_known:
            return self._advance(present, is_walked=answer.is_full or is_beyond)
        # The current second alone overfills the page. It will pass, and then be
        # a second like any other; where the clock does not move it is one already.
        self._unmoved += 1
        if self._unmoved > _PATIENCE:
            return self._advance(self.reached + 1, is_walked=True)
        self._must_wait = True
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
        return evolve(self._advance(present), is_finished=True)

    def _wait(self, present: int) -> TailStep:
        """Wait for the service's clock to move; where it does not, continue or end without it."""
        self._unmoved += 1
        if self._unmoved <= _PATIENCE:
            self._must_wait = True
            return TailStep(span=self._nothing)
        if present > self.reached:
            return self._advance(present)
        return TailStep(span=self._nothing, is_finished=True)

    def _advance(self, present: int, *, is_walked: bool = False) -> TailStep:
        span = Window(self.reached, max(self.reached, present))
        self.reached = span.before
        self._is_present_known = True
        self._asks_for_last = self._future_works
        self._last = None
        self._unmoved = 0
        is_finished = self._until is not None and self.reached > self._until
        return TailStep(span=span, is_walked=is_walked, is_finished=is_finished)

    def _rest(self, *, is_walked: bool) -> TailStep:
        """End with the seconds up to an upper bound that has passed."""
        end = self.reached if self._until is None else self._until + 1
        span = Window(self.reached, max(self.reached, end))
        return TailStep(span=span, is_walked=is_walked, is_finished=True)

    def _has_passed(self, answer: Answer) -> bool:
        """Return whether the upper bound lies so far back that no clock could be that wrong."""
        if self._until is None or answer.served_at is None:
            return False
        return answer.served_at - _DAY > self._until

    def _give_up_future(self) -> None:
        self._asks_for_last = self._future_works = False

    @property
    def _nothing(self) -> Window:
        return Window(self.reached, self.reached)
