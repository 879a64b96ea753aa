"""The end of a walk: how the planner finds the present, and how a walk may end there.

An update moves an application to the present while the walk is in progress. So
what lies before the present is left to the walkers, and the walk ends only with
a single complete page from there on, read after everything else. An exclusive
upper bound hides the current second; so that page is asked for with a bound in
the future, the walk's own if it has one. Where the service cuts long windows, the
bound is brought near, and the present asked for right after the page must still lie
before it. Where the service lowers such a bound to the present, or refuses it, two
complete pages replace it that were served in different seconds with no other page
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

from income_client.errors import UnexpectedResponseError
from income_client.records.window import Window
from income_client.wire.times import LAST_SECOND

from .windows import Answer, Bounds

_MINUTE: Final = 60
_DAY: Final = 86_400
_YEAR: Final = 366 * _DAY
_CENTURY: Final = 100 * _YEAR
END_OF_TIME: Final = 3_786_912_000
"""The beginning of 2090: an echo beyond it means no bound, and gives no time."""
_BEHIND: Final = 1
"""Seconds by which the present is taken earlier than it is echoed: the service may round
up, and what is written in a second may become visible just after it."""
_SKEW: Final = 5
"""Seconds by which two times of the service may differ and be the same present."""
_NARROWEST: Final = 3
"""Seconds of the narrowest window that says anything, whatever its bounds mean."""
_PATIENCE: Final = 3
"""Pauses after which a service clock that does not move is taken as it is."""


class Tail:
    """The end of a walk: everything from ``reached`` on, for which its other parts do not answer.

    ``start`` and ``until`` are the walk's bounds, ``until=None`` the present. ``date_ahead`` is for
    a walk that another will follow: the seconds by which the service's `Date` is known to run
    ahead of the present that it echoes, or behind it if negative.
    """

    def __init__(
        self, start: int, *, reached: int, until: int | None, date_ahead: int | None = None
    ) -> None:
        self.reached: int = reached
        self.is_finished: bool = until is not None and reached > until
        """Whether nothing is left to ask once the other parts are done."""
        self.must_wait: bool = False
        """Whether the service's clock must move before the next question is asked."""
        self._start = start
        self._until = until
        self._date_ahead = date_ahead
        self._asks_for_last = until is not None
        self._is_present_known = False
        self._is_narrow = True
        """Whether no echo so far was as asked, or wide enough to prove anything."""
        self._future_works = True
        self._widest: int | None = None
        self._ahead: int | None = None
        """The end of a complete page before a bound that was brought near."""
        self._last: Window | None = None
        """The first of two pages that replace one with a bound in the future."""
        self._unmoved = 0

    def next(self) -> Bounds:
        """Return the bounds to ask with."""
        after = max(self._start, self.reached - (1 if self._last is None else 2))
        if not self._asks_for_last:
            return Bounds(after, None)
        far = self._far
        return Bounds(after, far if self._widest is None else min(far, after + self._widest))

    @property
    def _far(self) -> int:
        """The bound of the last page where the service cuts no windows."""
        return min(self.reached + _YEAR, LAST_SECOND) if self._until is None else self._until

    def refuse(self, bounds: Bounds) -> bool:
        """Record a refusal; return whether there is another way to ask."""
        if bounds.before is None or self._until is not None:
            return False
        self._give_up_future()
        return True

    def receive(self, bounds: Bounds, answer: Answer) -> bool:
        """Take the page for these bounds, and move on if it shows how far the present has come.

        Return whether the page answers for the seconds that are passed by this.

        Raises:
            UnexpectedResponseError: the service cuts every window down to a second or two, so
                that its pages prove nothing.
        """
        echo, width = answer.echo, answer.echo.before - answer.echo.after
        is_as_asked = (echo.after, echo.before) == (bounds.after, bounds.before)
        self._is_narrow &= 0 < width < _NARROWEST and not is_as_asked
        is_answer = self._receive(bounds, answer)
        if self._is_narrow and self.is_finished and self._is_early(answer.served_at):
            self.is_finished = False
            raise UnexpectedResponseError(f"the service cuts windows down to {width} s: too narrow")
        return is_answer

    def _is_early(self, served_at: int | None) -> bool:
        """Return whether the walk ended before its bound, although that has passed by `Date`."""
        if self._until is None or served_at is None:
            return False
        return self.reached <= self._until < served_at - _MINUTE

    def _receive(self, bounds: Bounds, answer: Answer) -> bool:
        self.must_wait = False
        if bounds.before is None:
            return self._receive_present(bounds, answer)
        echo = answer.echo
        is_whole = echo.after <= bounds.after and echo.before >= bounds.before
        is_complete = is_whole and not answer.is_full
        is_last = is_complete and bounds.before >= self._far
        if self._has_passed(answer):
            self._end()
            return is_last
        if is_last:
            self.is_finished = True
        elif is_whole or not self._is_present_known:
            self._asks_for_last = False
            self._ahead = bounds.before if is_complete else None
        # A future bound that was lowered need not be the present: a long window may have
        # been cut short, and then ends in the future. Only an unset bound gives the present.
        elif self._widest is None and (
            echo.after > bounds.after or echo.before > self.reached + _SKEW
        ):
            self._widest = echo.before - echo.after
        else:
            self._give_up_future()
        return not answer.is_full

    def _receive_present(self, bounds: Bounds, answer: Answer) -> bool:
        """Take a page without an upper bound."""
        echo, served_at = answer.echo, answer.served_at
        present = echo.before - _BEHIND
        is_open = self._until is None and not answer.is_full and echo.after <= bounds.after
        # An echo far beyond the service's own clock applied no upper bound worth the name.
        if served_at is None:
            is_endless = present > END_OF_TIME
        elif is_endless := echo.before - served_at > _CENTURY:
            present = served_at - _BEHIND
        # Where the walk is ahead of the service's own clock there is nothing more to come. By a
        # year: `Date` may be of a clock that is days behind.
        is_ahead = served_at is not None and self.reached - _YEAR > served_at
        if self._is_before_page_ahead(bounds, echo) and not answer.is_full:
            self._advance(present)
            self.is_finished = True
        elif is_open and (is_ahead or (is_endless and self._date_ahead is None)):
            self.is_finished = True
        elif self._until is not None and present > self._until:
            self._end()
            return False
        elif self._is_enough(present, served_at):
            self._advance(present)
            self.is_finished = True
        else:
            return self._continue(bounds, answer, present)
        return not answer.is_full

    def _is_before_page_ahead(self, bounds: Bounds, echo: Window) -> bool:
        """Return whether the present still lies before the end of the last, near bound."""
        ahead, self._ahead = self._ahead, None
        if ahead is None or self._widest is None:
            return False
        # An echo as wide as the service's widest window may have been cut, and gives no time.
        end = min(ahead, bounds.after + self._widest)
        if echo.after <= bounds.after and echo.before < end:
            return True
        self._give_up_future()
        return False

    def _is_enough(self, present: int, served_at: int | None) -> bool:
        """Return whether a walk that is followed may end at this present."""
        if self._date_ahead is None or served_at is None or self._is_present_known:
            return False
        return abs(served_at - self._date_ahead - present) <= _SKEW

    def _continue(self, bounds: Bounds, answer: Answer, present: int) -> bool:
        """Leave what lies before the present to the walkers, unless this page is all of it."""
        # Rows may lie behind the upper bound of the walk: the page only gives the time.
        is_beyond = self._until is not None and answer.echo.before > self._until
        is_answer = not (answer.is_full or is_beyond)
        if is_answer and not self._future_works:
            self._stand_in(bounds, answer.echo, present)
        elif present > self.reached or not self._is_present_known:
            self._advance(present)
        elif not self._wait():
            # The current second alone overfills the page, and does not pass.
            self._advance(self.reached + 1)
            return False
        return is_answer

    def _stand_in(self, bounds: Bounds, echo: Window, present: int) -> None:
        """Take a complete page that may not reach into the current second."""
        width = echo.before - bounds.after
        is_cut = echo.after > bounds.after or width == self._widest
        if not self._is_present_known or (is_cut and present > self.reached):
            self._advance(present)
            return
        last, self._last = self._last, Window(bounds.after, echo.before)
        if last is None:
            return
        if echo.before == last.before:
            if self._wait():
                return
            if present <= self.reached:
                self.is_finished = True
                return
        elif bounds.after < last.after and width == last.before - last.after:
            self._widest = width
        else:
            self.is_finished = True
        self._advance(present)

    def _wait(self) -> bool:
        """Wait for the service's clock to move; return False where it does not."""
        self._unmoved += 1
        self.must_wait = self._unmoved <= _PATIENCE
        return self.must_wait

    def _advance(self, present: int) -> None:
        self.reached = max(self.reached, present)
        self._is_present_known = True
        self._asks_for_last = self._future_works
        self._last = None
        self._unmoved = 0
        self.is_finished |= self._until is not None and self.reached > self._until

    def _has_passed(self, answer: Answer) -> bool:
        """Return whether the upper bound lies so far back that no clock could be that wrong."""
        if self._until is None or answer.served_at is None:
            return False
        return answer.served_at - _DAY > self._until

    def _end(self) -> None:
        """End with the seconds up to an upper bound that has passed."""
        if self._until is not None:
            self.reached = max(self.reached, self._until + 1)
        self.is_finished = True

    def _give_up_future(self) -> None:
        self._asks_for_last = self._future_works = False
