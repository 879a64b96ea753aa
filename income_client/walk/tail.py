"""The end of a walk: how the planner finds the present, and how a walk may end there.

An update moves an application to the present while the walk is in progress. So what lies
before the present is left to the walkers, and the walk ends only with a single complete page
from there on, read after everything else.

The end is a state machine. `State` says what is asked next, `Event` what a page has shown and what
follows for the walk, and `TRANSITIONS` which state comes after it.

The present is the bound that the service echoes when it is asked without an upper one. Wherever
that lies behind the walk's own bound, or the page has no upper bound at all, the walk ends too.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, assert_never

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


class State(Enum):
    """The state of a walk's end, which decides the next question."""

    ASKING_ALL = auto()
    """The whole span, up to the walk's own bound: most spans are small."""

    FINDING_PRESENT = auto()
    """A page without an upper bound, for the present that it echoes.

    A service that cuts long windows short may echo less; this shows when it is asked from one
    second earlier, because its echo then moves back by one second too, and the walk continues
    from there. A walk that another walk will follow need not chase the present: it ends at the
    first one that is echoed, if that fits the service's own `Date`. Otherwise the end may have
    been cut off, and the walk continues like any other.
    """

    SEEKING_PRESENT = auto()
    """A page from a second halfway between one that has passed and one that has not.

    Nothing else tells the present then: a row shows that the second has passed from which its
    page was asked.
    """

    ASKING_FUTURE = auto()
    """The last page, from the present to a bound in the future.

    An exclusive upper bound hides the current second; so the bound lies behind it, the walk's
    own if it has one. Where the service cuts long windows, the bound is brought near. So it is
    after a full page, which rows ahead of a clock that was set back may have filled.
    """

    FOLLOWING_PRESENT = auto()
    """A page without an upper bound, for where the present is by now.

    After a complete page up to a near bound, the present must still lie before that bound.
    """

    STANDING_IN = auto()
    """Two pages without an upper bound, in place of a last one that the service refuses.

    Both are complete, they were served in different seconds, and no other page was read between
    them.
    """

    FINISHED = auto()
    """The walk is over once the gaps are closed; no question is left."""


class Event(Enum):
    """The meaning of a page for the end of a walk."""

    LAST = auto()
    """The page has every row that the walk still needs."""

    PASSED = auto()
    """The walk's own bound has passed: the remaining seconds up to the bound are walked."""

    PROVEN = auto()
    """No row of the walk lies after the present."""

    MOVED = auto()
    """The present is a later second: what lies before it is walked, or on the page."""

    SAME = auto()
    """The present has not moved: the next question waits for the service's clock."""

    STUCK = auto()
    """The present has not moved for some time, and its second is walked as it is."""

    TIMELESS = auto()
    """The service gives no time."""

    NARROWED = auto()
    """The present lies in one half of where it was sought."""

    WHOLE = auto()
    """The service took the bound in the future, but the page cannot be the last."""

    CUT = auto()
    """The service has cut the window to the widest that it applies."""

    CUT_PRESENT = auto()
    """The service has cut the window, so that the present lies after its end."""

    UNPROVEN = auto()
    """The page shows none of the other events."""


TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = {
    State.ASKING_ALL: {
        Event.LAST: State.FINISHED,
        Event.PASSED: State.FINISHED,
        Event.UNPROVEN: State.FINDING_PRESENT,
    },
    State.FINDING_PRESENT: {
        Event.LAST: State.FINISHED,
        Event.PASSED: State.FINISHED,
        Event.PROVEN: State.FINISHED,
        Event.MOVED: State.ASKING_FUTURE,
        Event.TIMELESS: State.SEEKING_PRESENT,
        Event.SAME: State.FINDING_PRESENT,
        Event.STUCK: State.FINDING_PRESENT,
    },
    State.SEEKING_PRESENT: {
        Event.NARROWED: State.SEEKING_PRESENT,
        Event.MOVED: State.FINDING_PRESENT,
        Event.SAME: State.FINDING_PRESENT,
    },
    State.ASKING_FUTURE: {
        Event.LAST: State.FINISHED,
        Event.PASSED: State.FINISHED,
        Event.WHOLE: State.FOLLOWING_PRESENT,
        Event.CUT: State.ASKING_FUTURE,
        Event.UNPROVEN: State.STANDING_IN,
    },
    State.FOLLOWING_PRESENT: {
        Event.LAST: State.FINISHED,
        Event.PASSED: State.FINISHED,
        Event.PROVEN: State.FINISHED,
        Event.MOVED: State.ASKING_FUTURE,
        Event.STUCK: State.ASKING_FUTURE,
        Event.SAME: State.FOLLOWING_PRESENT,
        Event.UNPROVEN: State.STANDING_IN,
        Event.TIMELESS: State.SEEKING_PRESENT,
    },
    State.STANDING_IN: {
        Event.LAST: State.FINISHED,
        Event.PASSED: State.FINISHED,
        Event.PROVEN: State.FINISHED,
        Event.MOVED: State.STANDING_IN,
        Event.CUT_PRESENT: State.STANDING_IN,
        Event.STUCK: State.STANDING_IN,
        Event.SAME: State.STANDING_IN,
        Event.UNPROVEN: State.STANDING_IN,
        Event.TIMELESS: State.SEEKING_PRESENT,
    },
}
"""The state after each event that a state can meet."""


class Tail:
    """The end of a walk: every second from ``reached`` on, which no gap covers.

    ``start`` and ``upper_bound`` are the walk's bounds, ``upper_bound=None`` the present.
    ``date_ahead`` is for a walk that another will follow: the seconds by which the service's
    `Date` is known to run ahead of the present that it echoes, or behind it if negative.
    ``begins_at_end`` is for a walk to the present that is expected to need one page: the last.
    """

    def __init__(
        self,
        start: int,
        *,
        reached: int,
        upper_bound: int | None,
        date_ahead: int | None = None,
        begins_at_end: bool = False,
    ) -> None:
        self.start = start
        self.upper_bound = upper_bound
        self.date_ahead = date_ahead
        self.reached: int = reached
        beginning = State.ASKING_FUTURE if begins_at_end else State.FINDING_PRESENT
        self.state: State = beginning if upper_bound is None else State.ASKING_ALL
        self.pauses: int = 0
        """Questions asked after a pause since the present last moved."""
        self._finish_past_bound()
        self._ahead = _YEAR
        """Largest number of seconds from the present to a bound in the future."""
        self._widest: int | None = None
        """Width of the widest window that the service applies; None while it cut none."""
        self._near: int | None = None
        """End of a complete page up to a near bound in the future."""
        self._first: Window | None = None
        """First of the two pages that replace the last one."""
        self._passed, self._not_passed = reached, END_OF_TIME
        """The seconds between which the present is sought."""
        self._is_narrow = True
        """Whether every echo so far differed from the bounds sent, or was too narrow to prove
        anything."""

    @property
    def is_finished(self) -> bool:
        """Whether no question is left once the gaps are closed."""
        return self.state is State.FINISHED

    @property
    def must_wait(self) -> bool:
        """Whether the service's clock must move before the next question is asked."""
        return self.pauses > 0

    def next(self) -> Bounds:
        """Return the bounds to ask with."""
        just_before = max(self.start, self.reached - 1)
        match self.state:
            case State.ASKING_ALL:
                return Bounds(just_before, self.upper_bound)
            case State.ASKING_FUTURE:
                before = min(self._far_bound, self.reached + self._ahead)
                if self._widest is not None:
                    before = min(before, just_before + self._widest)
                return Bounds(just_before, before)
            case State.SEEKING_PRESENT:
                return Bounds((self._passed + self._not_passed) // 2, None)
            case State.STANDING_IN if self._first is not None:
                return Bounds(max(self.start, self.reached - 2), None)
            case _:
                return Bounds(just_before, None)

    def refuse(self, bounds: Bounds) -> bool:
        """Record a refusal; return whether another form of the question is left."""
        if self.state is State.SEEKING_PRESENT and self._not_passed - self._passed > 1:
            self._not_passed = bounds.after
            return True
        if bounds.before is None or self.upper_bound is not None:
            return False
        self.state = TRANSITIONS[self.state][Event.UNPROVEN]
        return True

    def receive(self, bounds: Bounds, answer: Answer) -> bool:
        """Receive the page for these bounds, and change state if it shows the present.

        Return whether the page answers for the seconds that are passed by this.

        Raises:
            UnexpectedResponseError: the service cuts every window down to a second or two, so
                that its pages prove nothing; or it gives no time at all.
        """
        echo, width = answer.echo, answer.echo.before - answer.echo.after
        is_as_asked = (echo.after, echo.before) == (bounds.after, bounds.before)
        self._is_narrow &= 0 < width < _NARROWEST and not is_as_asked
        if self.state is State.SEEKING_PRESENT:
            self._halve(bounds.after, answer)
        event = self._read(bounds, answer)
        is_last = TRANSITIONS[self.state][event] is State.FINISHED
        if self._is_narrow and is_last and self._is_early(event, answer):
            raise UnexpectedResponseError(f"the service cuts windows down to {width} s: too narrow")
        is_answer = self._is_answer(event, answer)
        reached = self._reached_by(event, answer)
        self._keep(event, bounds, answer)
        self.reached = reached
        self.state = TRANSITIONS[self.state][event]
        self._finish_past_bound()
        return is_answer

    def skip_to(self, second: int) -> None:
        """Leave the seconds before one that has passed to the walkers."""
        self.reached = second
        self._forget_pages()

    def _read(self, bounds: Bounds, answer: Answer) -> Event:
        """Return the event of a page."""
        match self.state:
            case State.SEEKING_PRESENT:
                return self._read_half(bounds, answer)
            case State.ASKING_ALL | State.ASKING_FUTURE:
                return self._read_bounded(bounds, answer)
            case State.FINDING_PRESENT:
                return self._read_end(bounds, answer) or self._read_present(answer)
            case State.FOLLOWING_PRESENT:
                return self._read_end(bounds, answer) or self._read_followed(bounds, answer)
            case State.STANDING_IN:
                return self._read_end(bounds, answer) or self._read_pair(bounds, answer)
            case State.FINISHED:
                raise AssertionError("a walk that has ended asks for nothing")
            case _:
                assert_never(self.state)

    def _read_bounded(self, bounds: Bounds, answer: Answer) -> Event:
        """Return the event of a page with an upper bound."""
        echo, far = answer.echo, self._far_bound
        before = far if bounds.before is None else bounds.before
        is_whole = echo.after <= bounds.after and echo.before >= before
        if is_whole and not answer.is_full and before >= far:
            return Event.LAST
        if self._has_passed(answer):
            return Event.PASSED
        if self.state is State.ASKING_ALL:
            return Event.UNPROVEN
        if is_whole:
            return Event.WHOLE
        # A future bound that was lowered need not be the present: a long window may have
        # been cut short, and then ends in the future. Only an unset bound gives the present.
        is_cut = echo.after > bounds.after or echo.before > self.reached + _SKEW
        return Event.CUT if is_cut and self._widest is None else Event.UNPROVEN

    def _read_end(self, bounds: Bounds, answer: Answer) -> Event | None:
        """Return the event of a page without an upper bound that ends the walk; None for others."""
        if self.upper_bound is not None:
            return Event.PASSED if _present_of(answer) > self.upper_bound else None
        if answer.is_full or answer.echo.after > bounds.after:
            return None
        # Where the walk is ahead of the service's own clock there is nothing more to come. By a
        # year: `Date` may be of a clock that is days behind.
        is_ahead = answer.served_at is not None and self.reached - _YEAR > answer.served_at
        is_all = _is_endless(answer) and (answer.served_at is None or self.date_ahead is None)
        return Event.LAST if is_ahead or is_all else None

    def _read_present(self, answer: Answer) -> Event:
        """Return the event of the first page without an upper bound."""
        if self._is_timeless(answer):
            return self._read_clock(answer)
        if self.date_ahead is not None and answer.served_at is not None:
            date = answer.served_at - self.date_ahead
            if abs(date - _present_of(answer)) <= _SKEW:
                return Event.PROVEN
        return Event.MOVED

    def _read_half(self, bounds: Bounds, answer: Answer) -> Event:
        """Return the event of a page from the middle of the seconds in which the present lies."""
        is_last = not answer.is_full and answer.echo.after == bounds.after and bool(answer.rows)
        if self._not_passed - self._passed > 1 and not is_last:
            return Event.NARROWED
        if self._passed >= END_OF_TIME - 1:
            raise UnexpectedResponseError("the service sends no time", call="list_applications")
        return Event.MOVED if self._passed > self.reached else Event.SAME

    def _read_followed(self, bounds: Bounds, answer: Answer) -> Event:
        """Return the event of a page without an upper bound, after one with a future bound."""
        if self._near is not None:
            # An echo as wide as the service's widest window may have been cut, and gives no time.
            widest = _YEAR if self._widest is None else self._widest
            is_cut = answer.echo.after > bounds.after
            if is_cut or answer.echo.before >= min(self._near, bounds.after + widest):
                return Event.UNPROVEN
            if not answer.is_full:
                return Event.PROVEN
        return self._read_clock(answer)

    def _read_pair(self, bounds: Bounds, answer: Answer) -> Event:
        """Return the event of the second of two pages without an upper bound."""
        present, page, first = _present_of(answer), _page_of(bounds, answer), self._first
        is_cut = answer.echo.after > bounds.after or _width(page) == self._widest
        if not self._is_complete(answer) or (is_cut and present > self.reached):
            return self._read_clock(answer)
        if first is None:
            return Event.UNPROVEN
        if page.before == first.before:
            if self.pauses < _PATIENCE:
                return Event.SAME
            return Event.MOVED if present > self.reached else Event.PROVEN
        is_shifted = page.after < first.after and _width(page) == _width(first)
        return Event.CUT_PRESENT if is_shifted else Event.PROVEN

    def _read_clock(self, answer: Answer) -> Event:
        """Return the event of a page that only tells whether the present has moved."""
        if self._is_timeless(answer):
            if not self.pauses:
                return Event.TIMELESS
        elif _present_of(answer) > self.reached:
            return Event.MOVED
        if self.pauses < _PATIENCE:
            return Event.SAME
        # Behind the present no row can lie: the page is full of earlier seconds' rows. Otherwise
        # the current second alone overfills the page, and does not pass.
        return Event.PROVEN if self.reached > answer.echo.before else Event.STUCK

    def _reached_by(self, event: Event, answer: Answer) -> int:
        """Return the second that the walk has reached after a page."""
        is_seeking = self.state is State.SEEKING_PRESENT
        match event:
            case Event.PASSED:
                return self._behind_bound
            case Event.LAST if self._has_passed(answer):
                return self._behind_bound
            case Event.MOVED | Event.CUT_PRESENT | Event.PROVEN:
                return max(self.reached, self._passed if is_seeking else _present_of(answer))
            case Event.STUCK:
                return self.reached + 1
            case _:
                return self.reached

    def _keep(self, event: Event, bounds: Bounds, answer: Answer) -> None:
        """Remember the page, the pauses and the service's limits after an event."""
        match event:
            case Event.MOVED | Event.STUCK:
                self._forget_pages()
            case Event.CUT | Event.CUT_PRESENT:
                self._widest = answer.echo.before - max(bounds.after, answer.echo.after)
                self._forget_pages()
            case Event.SAME:
                self.pauses += 1
                if self._is_complete(answer):
                    self._first = _page_of(bounds, answer)
            case Event.UNPROVEN:
                # Only a page that was asked for as one of the two is the first of them.
                is_first = self.state is State.STANDING_IN
                self._first = _page_of(bounds, answer) if is_first else None
            case Event.TIMELESS:
                self._passed, self._not_passed = self.reached, END_OF_TIME
            case Event.WHOLE:
                self._near = None if answer.is_full else bounds.before
                self._ahead = _MINUTE
            case _:
                pass

    def _forget_pages(self) -> None:
        """Forget the pages and pauses of an earlier position of the walk."""
        self.pauses = 0
        self._near = self._first = None

    def _finish_past_bound(self) -> None:
        """End a walk that has come past its own bound."""
        if self.upper_bound is not None and self.reached > self.upper_bound:
            self.state = State.FINISHED

    def _halve(self, second: int, answer: Answer) -> None:
        """Drop the half of the seconds that cannot hold the present, by a page from ``second``."""
        is_empty = not answer.is_full and answer.echo.after == second and not answer.rows
        if answer.echo.after < second or is_empty:
            self._not_passed = second
        else:
            # The earliest second that the service keeps has passed as well.
            self._passed = second

    def _is_answer(self, event: Event, answer: Answer) -> bool:
        """Return whether a page covers the seconds up to the walk's new position."""
        match event:
            case Event.LAST:
                return True
            case Event.PASSED | Event.STUCK | Event.TIMELESS:
                return False
            case _:
                return self.state is not State.SEEKING_PRESENT and self._is_complete(answer)

    def _is_complete(self, answer: Answer) -> bool:
        """Return whether a page is not full, and ends within the walk's own bound."""
        # Rows behind the upper bound are not of the walk: such a page only gives the time.
        is_beyond = self.upper_bound is not None and answer.echo.before > self.upper_bound
        return not (answer.is_full or is_beyond)

    def _is_early(self, event: Event, answer: Answer) -> bool:
        """Return whether the walk ends before its bound, although that has passed by `Date`."""
        if self.upper_bound is None or answer.served_at is None or event is Event.PASSED:
            return False
        return self.upper_bound < answer.served_at - _MINUTE and not self._has_passed(answer)

    def _is_timeless(self, answer: Answer) -> bool:
        """Return whether neither echo nor `Date` of a page shows the service's time."""
        return self.upper_bound is None and answer.served_at is None and _is_endless(answer)

    def _has_passed(self, answer: Answer) -> bool:
        """Return whether the upper bound has certainly passed, even by a wrong clock."""
        if self.upper_bound is None or answer.passed is None:
            return False
        return answer.passed > self.upper_bound

    @property
    def _behind_bound(self) -> int:
        """First second after the walk's own bound."""
        return self.reached if self.upper_bound is None else self.upper_bound + 1

    @property
    def _far_bound(self) -> int:
        """Upper bound of the last page if the service cuts no windows."""
        if self.upper_bound is not None:
            return self.upper_bound
        return min(self.reached + _YEAR, LAST_SECOND)


def _page_of(bounds: Bounds, answer: Answer) -> Window:
    """Return the window of a page without an upper bound."""
    return Window(bounds.after, answer.echo.before)


def _width(page: Window) -> int:
    return page.before - page.after


def _is_endless(answer: Answer) -> bool:
    """Return whether the page's echo is beyond the end of time, and so gives no present."""
    if answer.served_at is None:
        return answer.echo.before - _BEHIND > END_OF_TIME
    return answer.echo.before - answer.served_at > _CENTURY


def _present_of(answer: Answer) -> int:
    """Return the present according to a page without an upper bound."""
    if answer.served_at is not None and _is_endless(answer):
        return answer.served_at - _BEHIND
    return answer.echo.before - _BEHIND
