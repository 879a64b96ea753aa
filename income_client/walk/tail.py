"""The end of a walk: how the planner finds the present, and how a walk may end there.

An update moves an application to the present while the walk is in progress. So what lies
before the present is left to the walkers, and the walk ends only with a single complete page
from there on, read after everything else. What is asked next depends on what is known:

=================  ======================  =======================================================
state              asks                    then
=================  ======================  =======================================================
AskingAll          up to the walk's bound  complete, or the bound passed long ago: the walk ends;
                                           otherwise FindingPresent
FindingPresent     no upper bound          AskingFuture; a walk that another follows ends; full,
                                           without any time: SeekingPresent
SeekingPresent     no upper bound          a second that has passed, close to the present:
                                           FindingPresent
AskingFuture       a bound in the future   complete: the walk ends; full, or complete up to a near
                                           bound: FollowingPresent; cut short: a nearer bound;
                                           lowered to the present, or refused: StandingIn
FollowingPresent   no upper bound          still before the near bound: the walk ends; behind it:
                                           StandingIn; the present moved: AskingFuture, with a
                                           near bound; it did not: again, a second later
StandingIn         no upper bound          a second complete page of another second: the walk ends
=================  ======================  =======================================================

The present is the bound that the service echoes when it is asked without an upper one. Wherever
that lies behind the walk's own bound, or the page has no upper bound at all, the walk ends too.
"""

from typing import Final

from attrs import evolve, frozen

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
    """The end of a walk: everything from ``reached`` on, for which its gaps do not answer.

    ``start`` and ``upper_bound`` are the walk's bounds, ``upper_bound=None`` the present.
    ``date_ahead`` is for a walk that another will follow: the seconds by which the service's
    `Date` is known to run ahead of the present that it echoes, or behind it if negative.
    """

    def __init__(
        self, start: int, *, reached: int, upper_bound: int | None, date_ahead: int | None = None
    ) -> None:
        self.start = start
        self.upper_bound = upper_bound
        self.date_ahead = date_ahead
        self.reached: int = reached
        self.is_finished: bool = upper_bound is not None and reached > upper_bound
        """Whether nothing is left to ask once the gaps are closed."""
        self.pauses: int = 0
        """Questions asked after a pause since the present last moved."""
        self.widest: int | None = None
        """Width of the widest window that the service applies; None while it cut none."""
        self._state: _State = FindingPresent() if upper_bound is None else AskingAll()
        self._is_narrow = True
        """Whether no echo so far was as asked, or wide enough to prove anything."""

    @property
    def must_wait(self) -> bool:
        """Whether the service's clock must move before the next question is asked."""
        return self.pauses > 0

    def next(self) -> Bounds:
        """Return the bounds to ask with."""
        return self._state.next(self)

    def refuse(self, bounds: Bounds) -> bool:
        """Record a refusal; return whether there is another way to ask."""
        if isinstance(self._state, SeekingPresent) and self._state.is_wide:
            self._state = evolve(self._state, high=bounds.after)
            return True
        if bounds.before is None or self.upper_bound is not None:
            return False
        self._state = StandingIn()
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
        step = self._state.receive(self, bounds, answer)
        if self._is_narrow and step.is_finished and self._is_early(step.reached, answer):
            raise UnexpectedResponseError(f"the service cuts windows down to {width} s: too narrow")
        self._state, self.pauses = step.state, step.pauses
        self.reached, self.is_finished = step.reached, step.is_finished
        return step.is_answer

    def _is_early(self, reached: int, answer: Answer) -> bool:
        """Return whether the walk ends before its bound, although that has passed by `Date`."""
        if self.upper_bound is None or answer.served_at is None:
            return False
        return reached <= self.upper_bound < answer.served_at - _MINUTE


@frozen(kw_only=True)
class _Step:
    """What follows from a page."""

    state: "_State"
    reached: int
    is_answer: bool
    """Whether the page answers for the seconds up to there."""
    is_finished: bool = False
    pauses: int = 0


@frozen
class AskingAll:
    """Nothing is known of a span that has an upper bound: ask for all of it, most are small."""

    def next(self, tail: Tail) -> Bounds:
        """Ask up to the bound of the walk."""
        return Bounds(_just_before(tail), tail.upper_bound)

    def receive(self, tail: Tail, bounds: Bounds, answer: Answer) -> _Step:
        """End with a complete page."""
        is_last = _is_whole(bounds, answer) and not answer.is_full
        if _has_passed(tail, answer):
            return _end_at_bound(tail, is_answer=is_last)
        if is_last:
            return _end_step(tail, tail.reached)
        return _stay_step(tail, FindingPresent(), is_answer=not answer.is_full)


@frozen
class FindingPresent:
    """The present is not known: ask without an upper bound, and take what is echoed.

    A service that cuts long windows short may echo less; this shows when it is asked from one
    second earlier, because its echo then moves back by one second too, and the walk continues
    from there. A walk that another walk will follow need not chase the present: it ends at the
    first one that is echoed, if that fits the service's own `Date`. Otherwise the end may have
    been cut off, and the walk continues like any other.
    """

    def next(self, tail: Tail) -> Bounds:
        """Ask without an upper bound."""
        return Bounds(_just_before(tail), None)

    def receive(self, tail: Tail, bounds: Bounds, answer: Answer) -> _Step:
        """Leave what lies before the present to the walkers, unless this page is all of it."""
        if end := _end_by_present(tail, bounds, answer):
            return end
        if _is_timeless(tail, answer):
            return _seek_step(tail)
        present, served_at = _present_of(answer), answer.served_at
        if tail.date_ahead is not None and served_at is not None:
            date = served_at - tail.date_ahead
            if abs(date - present) <= _SKEW:
                return _end_step(tail, present, is_answer=not answer.is_full)
        return _move_step(tail, present, AskingFuture(), is_answer=_is_answer(tail, answer))


@frozen
class SeekingPresent:
    """Nothing tells the present: seek by halves a second that has passed, close to the last update.

    A row shows that the second has passed from which its page was asked.
    """

    low: int
    """The latest second that is known to have passed."""
    high: int = END_OF_TIME
    """The earliest that is not."""

    @property
    def is_wide(self) -> bool:
        """Whether a second between the two is left to ask from."""
        return self.high - self.low > 1

    def next(self, _tail: Tail) -> Bounds:
        """Ask from the middle on."""
        return Bounds((self.low + self.high) // 2, None)

    def receive(self, tail: Tail, bounds: Bounds, answer: Answer) -> _Step:
        """Leave what lies before the second that was found to the walkers."""
        second, echo = bounds.after, answer.echo
        is_complete = not answer.is_full and echo.after == second
        if echo.after < second or (is_complete and not answer.rows):
            found = evolve(self, high=second)
        else:
            # The earliest that the service keeps has passed as well.
            found = evolve(self, low=second)
        if found.is_wide and not (is_complete and answer.rows):
            return _stay_step(tail, found, is_answer=False)
        if found.low >= END_OF_TIME - 1:
            raise UnexpectedResponseError("the service sends no time", call="list_applications")
        if found.low > tail.reached:
            return _move_step(tail, found.low, FindingPresent(), is_answer=False)
        return _wait_step(tail, FindingPresent(), is_answer=False)


@frozen
class AskingFuture:
    """The present is known: ask for the last page, with a bound in the future.

    An exclusive upper bound hides the current second; so the bound lies behind it, the walk's
    own if it has one. Where the service cuts long windows, the bound is brought near. So it is
    after a full page, which rows ahead of a clock that was set back may have filled.
    """

    ahead: int = _YEAR
    """Seconds from the present to the bound, at most."""

    def next(self, tail: Tail) -> Bounds:
        """Ask as far as the service allows."""
        after = _just_before(tail)
        before = min(self._far_bound(tail), tail.reached + self.ahead)
        return Bounds(after, before if tail.widest is None else min(before, after + tail.widest))

    def receive(self, tail: Tail, bounds: Bounds, answer: Answer) -> _Step:
        """End with a complete page up to a far bound."""
        echo, far = answer.echo, self._far_bound(tail)
        before = far if bounds.before is None else bounds.before
        is_whole = _is_whole(bounds, answer)
        is_complete = is_whole and not answer.is_full
        if _has_passed(tail, answer):
            return _end_at_bound(tail, is_answer=is_complete and before >= far)
        if is_complete and before >= far:
            return _end_step(tail, tail.reached)
        state: _State = StandingIn()
        if is_whole:
            state = FollowingPresent(before if is_complete else None)
        # A future bound that was lowered need not be the present: a long window may have
        # been cut short, and then ends in the future. Only an unset bound gives the present.
        elif tail.widest is None and (
            echo.after > bounds.after or echo.before > tail.reached + _SKEW
        ):
            tail.widest = echo.before - echo.after
            state = self
        return _stay_step(tail, state, is_answer=not answer.is_full)

    @staticmethod
    def _far_bound(tail: Tail) -> int:
        """Return the bound of the last page where the service cuts no windows."""
        return (
            min(tail.reached + _YEAR, LAST_SECOND) if tail.upper_bound is None else tail.upper_bound
        )


@frozen
class FollowingPresent:
    """The present moved on while the walk went to where it was: ask where it is by now.

    After a complete page up to a near bound, the present must still lie before that bound.
    """

    near: int | None = None
    """The end of a complete page before a bound that was brought near."""

    def next(self, tail: Tail) -> Bounds:
        """Ask without an upper bound."""
        return Bounds(_just_before(tail), None)

    def receive(self, tail: Tail, bounds: Bounds, answer: Answer) -> _Step:
        """Leave what lies before the present to the walkers."""
        echo, present = answer.echo, _present_of(answer)
        if self.near is not None:
            # An echo as wide as the service's widest window may have been cut, and gives no time.
            widest = _YEAR if tail.widest is None else tail.widest
            if echo.after > bounds.after or echo.before >= min(self.near, bounds.after + widest):
                return StandingIn().receive(tail, bounds, answer)
            if not answer.is_full:
                return _end_step(tail, present)
        if end := _end_by_present(tail, bounds, answer):
            return end
        return _follow_step(tail, answer, waiting=FollowingPresent(), moved=AskingFuture(_MINUTE))


@frozen
class StandingIn:
    """The service takes no bound in the future: two pages stand in for the last one.

    Both are complete, they were served in different seconds, and no other page was read between
    them.
    """

    last: Window | None = None
    """The first of the two."""

    def next(self, tail: Tail) -> Bounds:
        """Ask without an upper bound, the second time from a second earlier."""
        before_present = 1 if self.last is None else 2
        return Bounds(max(tail.start, tail.reached - before_present), None)

    def receive(self, tail: Tail, bounds: Bounds, answer: Answer) -> _Step:
        """End with the second of two complete pages."""
        if end := _end_by_present(tail, bounds, answer):
            return end
        echo, present = answer.echo, _present_of(answer)
        page = Window(bounds.after, echo.before)
        is_cut = echo.after > bounds.after or page.before - page.after == tail.widest
        if not _is_answer(tail, answer) or (is_cut and present > tail.reached):
            return _follow_step(tail, answer, waiting=self, moved=StandingIn())
        return self._compare_pages(tail, page, present)

    def _compare_pages(self, tail: Tail, page: Window, present: int) -> _Step:
        """Judge a complete page by the one before it."""
        last = self.last
        if last is None:
            return _stay_step(tail, StandingIn(page), is_answer=True)
        if page.before == last.before:
            if tail.pauses < _PATIENCE:
                return _wait_step(tail, StandingIn(page), is_answer=True)
            if present <= tail.reached:
                return _end_step(tail, tail.reached)
        elif page.after < last.after and page.before - page.after == last.before - last.after:
            tail.widest = page.before - page.after
        else:
            return _end_step(tail, present)
        return _move_step(tail, present, StandingIn(), is_answer=True)


_State = AskingAll | FindingPresent | SeekingPresent | AskingFuture | FollowingPresent | StandingIn


def _just_before(tail: Tail) -> int:
    """Return the last second before the tail, within the walk."""
    return max(tail.start, tail.reached - 1)


def _stay_step(tail: Tail, state: _State, *, is_answer: bool) -> _Step:
    return _Step(state=state, reached=tail.reached, is_answer=is_answer, pauses=tail.pauses)


def _wait_step(tail: Tail, state: _State, *, is_answer: bool) -> _Step:
    """Ask again once the service's clock has moved."""
    return _Step(state=state, reached=tail.reached, is_answer=is_answer, pauses=tail.pauses + 1)


def _move_step(tail: Tail, present: int, state: _State, *, is_answer: bool) -> _Step:
    """Continue from a present, unless the walk's bound lies before it."""
    reached = max(tail.reached, present)
    is_finished = tail.upper_bound is not None and reached > tail.upper_bound
    return _Step(state=state, reached=reached, is_answer=is_answer, is_finished=is_finished)


def _follow_step(tail: Tail, answer: Answer, *, waiting: _State, moved: _State) -> _Step:
    """Continue from the present once it has moved, or once it has not for some time."""
    if _is_timeless(tail, answer):
        return _seek_step(tail)
    present, is_answer = _present_of(answer), _is_answer(tail, answer)
    if present > tail.reached:
        return _move_step(tail, present, moved, is_answer=is_answer)
    if tail.pauses < _PATIENCE:
        return _wait_step(tail, waiting, is_answer=is_answer)
    if tail.reached > answer.echo.before:
        # No row can lie behind the present: the page is full of earlier seconds' rows.
        return _end_step(tail, tail.reached, is_answer=False)
    # The current second alone overfills the page, and does not pass.
    return _move_step(tail, tail.reached + 1, moved, is_answer=False)


def _seek_step(tail: Tail) -> _Step:
    """Seek the present, or continue a second later once what was found surely has passed."""
    if not tail.pauses:
        return _stay_step(tail, SeekingPresent(tail.reached), is_answer=False)
    if tail.pauses < _PATIENCE:
        return _wait_step(tail, FindingPresent(), is_answer=False)
    return _move_step(tail, tail.reached + 1, FindingPresent(), is_answer=False)


def _end_step(tail: Tail, present: int, *, is_answer: bool = True) -> _Step:
    """End with the seconds up to a present."""
    reached = max(tail.reached, present)
    return _Step(state=FindingPresent(), reached=reached, is_answer=is_answer, is_finished=True)


def _end_at_bound(tail: Tail, *, is_answer: bool) -> _Step:
    """End with the seconds up to an upper bound that has passed."""
    reached = tail.reached if tail.upper_bound is None else tail.upper_bound + 1
    return _end_step(tail, reached, is_answer=is_answer)


def _has_passed(tail: Tail, answer: Answer) -> bool:
    """Return whether the upper bound lies so far back that no clock could be that wrong."""
    if tail.upper_bound is None or answer.served_at is None:
        return False
    return answer.served_at - _DAY > tail.upper_bound


def _is_whole(bounds: Bounds, answer: Answer) -> bool:
    """Return whether the service applied the bounds, or wider ones."""
    if bounds.before is None:
        return False
    return answer.echo.after <= bounds.after and answer.echo.before >= bounds.before


def _is_answer(tail: Tail, answer: Answer) -> bool:
    """Return whether a page without an upper bound holds rows of the walk, and all of them."""
    # Rows may lie behind the upper bound of the walk: the page only gives the time.
    is_beyond = tail.upper_bound is not None and answer.echo.before > tail.upper_bound
    return not (answer.is_full or is_beyond)


def _is_endless(answer: Answer) -> bool:
    """Return whether a page without an upper bound echoes none that is worth the name."""
    if answer.served_at is None:
        return answer.echo.before - _BEHIND > END_OF_TIME
    return answer.echo.before - answer.served_at > _CENTURY


def _is_timeless(tail: Tail, answer: Answer) -> bool:
    """Return whether a page of a walk up to the present says nothing of the service's time."""
    return tail.upper_bound is None and answer.served_at is None and _is_endless(answer)


def _present_of(answer: Answer) -> int:
    """Return the present by a page without an upper bound."""
    if answer.served_at is not None and _is_endless(answer):
        return answer.served_at - _BEHIND
    return answer.echo.before - _BEHIND


def _end_by_present(tail: Tail, bounds: Bounds, answer: Answer) -> _Step | None:
    """Return how a walk ends with a page without an upper bound; None where it does not."""
    if tail.upper_bound is not None:
        is_passed = _present_of(answer) > tail.upper_bound
        return _end_at_bound(tail, is_answer=False) if is_passed else None
    if answer.is_full or answer.echo.after > bounds.after:
        return None
    # Where the walk is ahead of the service's own clock there is nothing more to come. By a
    # year: `Date` may be of a clock that is days behind.
    is_ahead = answer.served_at is not None and tail.reached - _YEAR > answer.served_at
    is_all = _is_timeless(tail, answer) or (_is_endless(answer) and tail.date_ahead is None)
    return _end_step(tail, tail.reached) if is_ahead or is_all else None
