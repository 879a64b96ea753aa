"""Windows of a walk: the bounds of a request, and the seconds that its page covers.

Everything here is a value or a rule about values. `planner` decides what is asked, and when.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Final

from attrs import frozen

from income_client.errors import UnexpectedResponseError
from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.window import EPOCH, Window
from income_client.wire.rows import key_of_row

Rows = Mapping[str, ApplicationSummary]

_SECOND: Final = timedelta(seconds=1)
_NARROWEST: Final = 3
"""Seconds of the narrowest window that may be the widest one of a service."""
_QUESTIONS_OF_A_TRIAL: Final = 16
_DAY: Final = 86_400
_APART: Final = 3
"""Seconds between two one-second questions from which they no longer overlap."""


@frozen
class Bounds:
    """The two bounds of a list call, in seconds; whether they are inclusive is not known."""

    after: int
    """``updated_after``, as sent or as echoed."""
    before: int | None
    """``updated_before``; None leaves it to the service, which takes the present."""

    @property
    def seconds(self) -> Window:
        """Every second of which a page for these bounds may hold rows."""
        before = self.after if self.before is None else self.before
        return Window(min(self.after, before), max(self.after, before) + 1)

    def around(self, window: Window) -> "Bounds":
        """Return the bounds to send for ``window``, from a second before it, clipped to ``self``.

        A service that excludes ``updated_after`` would otherwise omit the window's first second.
        """
        before = window.before if self.before is None else min(window.before, self.before)
        return Bounds(max(window.after - 1, self.after), before)

    def hold(self, inner: "Bounds") -> bool:
        """Return whether other bounds lie within these."""
        if inner.after < self.after:
            return False
        return self.before is None or inner.before is None or inner.before <= self.before


@frozen(kw_only=True)
class Answer:
    """The service's reply to a question."""

    page: ApplicationPage
    """The page as it came."""
    echo: Window
    """Bounds that the service applied."""
    rows: Rows
    """The rows of the page, by their id; malformed ones by a key of their own."""
    is_full: bool
    """Whether the page has as many rows as it can, so that it may hide others."""
    served_at: int | None
    """Second at which the service answered, in its own frame."""
    cap: int | None = None
    """Rows of the largest page of a service that returns fewer than asked for; None if unknown."""

    @property
    def present(self) -> int:
        """The present second, if the service has not shortened the window.

        That is the smaller of the echoed upper bound and `Date`.
        """
        return self.echo.before if self.served_at is None else min(self.echo.before, self.served_at)

    @property
    def passed(self) -> int | None:
        """A second that has certainly passed by `Date`, even if `Date` is wrong; None if unset.

        No clock of a service is wrong by a day.
        """
        return None if self.served_at is None else self.served_at - _DAY

    @classmethod
    def of(cls, page: ApplicationPage, limit: int, served_at: int | None) -> "Answer":
        """Make the answer of a page that was requested with a limit."""
        return cls(
            page=page,
            echo=echo_of(page),
            rows={key_of_row(row): row for row in page.applications},
            is_full=len(page.applications) >= limit,
            served_at=served_at,
        )


@frozen
class Delivery:
    """A page for the consumer, and the window that is covered once its rows are processed."""

    covers: Window
    """The window that the rows complete; may be empty."""
    page: ApplicationPage
    """Page with the rows that no delivery of a neighbouring window had."""


def second_of(moment: datetime) -> int:
    """Return the whole second of a time without zone."""
    return (moment - EPOCH) // _SECOND


def echo_of(page: ApplicationPage) -> Window:
    """Return the bounds that a page echoes; a fraction of a second never makes them wider."""
    return Window(-((EPOCH - page.updated_after) // _SECOND), second_of(page.updated_before))


def split_by_echo(window: Window, bounds: Bounds, echo: Window) -> tuple[Window, list[Window]]:
    """Return the part of a window that its page covers, and the parts to ask for again.

    The page was not full. An echo that differs from the bounds is believed: a service may
    cut a long window short at either end, keep nothing older than some day, or apply no
    bound later than its present. Where it keeps one bound and leaves nothing of the window,
    there is nothing more to get for it. An echo that fits none of this raises: the page
    answers another question.
    """
    if window.after >= window.before:
        return window, []
    kept_after = echo.after <= bounds.after
    kept_before = bounds.before is None or echo.before >= bounds.before
    # Whatever the bounds mean, the seconds strictly between them are covered.
    start = window.after if kept_after else max(window.after, echo.after + 1)
    end = window.before if kept_before else min(window.before, echo.before)
    if start >= end:
        # Nothing of the window is kept: it is too old, or the present lies before it.
        is_end_as_asked = bounds.before is None or echo.before in (bounds.before, echo.after)
        is_raised = echo.after > bounds.after and is_end_as_asked
        is_lowered = echo.after == bounds.after and echo.before >= bounds.after
        if not (is_raised or is_lowered):
            message = f"asked for {window}, the service answered for {echo}"
            raise UnexpectedResponseError(message, call="list_applications", retryable=True)
        start = end = echo.before if kept_after else echo.after
        if not window.after < end < window.before:
            return window, []
    uncovered = [(window.after, start), (end, window.before)]
    return Window(start, end), [Window(*edges) for edges in uncovered if edges[0] < edges[1]]


class SpanLimit:
    """The widest span that the service applies to a list call, as its echoes show it.

    A service may cut every wider window down to that span. Two such echoes of one width show it,
    if they differ at both ends: the first day that a service keeps, and its present, cut windows
    at one end only. Windows are cut to the limit before they are asked for, so that walkers can
    work side by side. The limit is a hint, and may be wrong where a service cuts by other rules;
    so one question in sixteen is about a wider window, whose echo shows that.
    """

    def __init__(self) -> None:
        self.seconds: int | None = None
        """Seconds between the bounds of the widest window; None while none is known."""
        self._cut: Window | None = None  # the last echo that was narrower than its bounds
        self._asked = 0

    @property
    def width(self) -> int | None:
        """The width of the widest window; its bounds are one second further apart."""
        return None if self.seconds is None else self.seconds - 1

    def narrow(self, width: int) -> int:
        """Return the width of the next window to ask for."""
        if self.width is None:
            return width
        self._asked += 1
        is_trial = self._asked % _QUESTIONS_OF_A_TRIAL == 0
        return min(width, 2 * self.width if is_trial else self.width)

    def windows(self, start: int, end: int) -> float:
        """Return how many of the widest windows ``[start, end)`` takes."""
        return 0.0 if self.width is None else (end - start) / self.width

    def middle(self, start: int, end: int) -> int:
        """Return the second that divides ``[start, end)`` in halves of whole windows."""
        width = self.width or 1
        return start + max(1, round((end - start) / width / 2)) * width

    def learn(self, bounds: Bounds, echo: Window) -> None:
        """Learn from the echo of a question about seconds before the present."""
        before = echo.before if bounds.before is None else bounds.before
        width, cut = echo.before - echo.after, self._cut
        if echo.after <= bounds.after and echo.before >= before:
            if self.seconds is not None and width > self.seconds:
                self.seconds = None
        elif width >= _NARROWEST:
            self._cut = echo
            is_elsewhere = cut is not None and cut.after != echo.after and cut.before != echo.before
            if cut is not None and is_elsewhere and cut.before - cut.after == width:
                self.seconds = width


class Intervals:
    """A set of whole seconds, kept as disjoint, merged, ascending windows."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, windows: Iterable[Window] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for window in windows:
            self.add(window)

    def __iter__(self) -> Iterator[Window]:
        return map(Window, self._starts, self._ends)

    @property
    def seconds(self) -> int:
        """Number of seconds in the set."""
        return sum(self._ends) - sum(self._starts)

    def add(self, window: Window) -> None:
        """Add every second of a window to the set, and merge the windows that it touches."""
        if window.after >= window.before:
            return
        first = bisect_left(self._ends, window.after)
        last = bisect_right(self._starts, window.before)
        start, end = window.after, window.before
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def gaps(self, within: Window) -> list[Window]:
        """Return the windows inside ``within`` that the set lacks, in ascending order."""
        gaps = []
        position = within.after
        for window in self:
            if window.before <= position:
                continue
            if window.after >= within.before:
                break
            if window.after > position:
                gaps.append(Window(position, window.after))
            position = window.before
        if position < within.before:
            gaps.append(Window(position, within.before))
        return gaps


class Overlap:
    """Recognises rows that a neighbouring window already delivered.

    A page may hold rows of the seconds beside its window. Its ids are kept until every
    second that it may reach, and the one beside, is settled: no later page can then hold
    one of its rows again, not even where a saturated second, of which no page holds every
    row, lies between them. Only the pages beside what is still planned are kept, however
    long the walk.
    """

    def __init__(self) -> None:
        self._pages: list[tuple[Window, AbstractSet[str]]] = []

    def add_page(self, seconds: Window, ids: AbstractSet[str]) -> AbstractSet[str]:
        """Remember the ids of a page, and return those that are new."""
        fresh = ids
        for other, other_ids in self._pages:
            if other.overlaps(seconds):
                fresh = fresh - other_ids
        self._pages.append((seconds, ids))
        return fresh

    def drop_pages(self, planned: Sequence[Window]) -> None:
        """Forget the pages that touch none of these windows, which are in ascending order."""
        ends = [window.before for window in planned]
        pages = []
        for seconds, ids in self._pages:
            at = bisect_left(ends, seconds.after)
            if at < len(planned) and planned[at].touches(seconds):
                pages.append((seconds, ids))
        self._pages = pages


class Saturation:
    """Facts about the service that overfull seconds have shown so far."""

    def __init__(self) -> None:
        self.inclusive: bool = False
        """Whether both bounds are known to be inclusive."""
        self._last: tuple[int, frozenset[str], int] | None = None

    def contradicts(self, second: int, rows: Rows, present: int) -> bool:
        """Record a saturated second; return whether its rows were those of another one.

        A row belongs to one second. Pages about seconds that are three apart have no row in
        common, unless the service ignores the bounds. Updates may have moved rows from the other
        second, but only to seconds from the ``present`` of its page on.
        """
        ids = frozenset(rows)
        if self._last is not None:
            last_second, last_ids, last_present = self._last
            if abs(second - last_second) < _APART:
                return False
            if second < last_present and 2 * len(ids & last_ids) > len(ids):
                return True
        self._last = (second, ids, present)
        return False


class FullSecond:
    """Narrow questions that settle whether one overfull second is saturated.

    A question about the second ``s`` is sent as ``(s-1, s+1)`` and returns three seconds
    where both bounds are inclusive. With one inclusive bound, ``(s-1, s)`` or ``(s, s+1)``
    returns ``s`` alone, and the two together always hold it. With two inclusive bounds,
    ``(s, s)`` returns it alone. Any row on a page whose two bounds are equal proves that
    meaning; so an empty page is believed too once such a row was seen, here, for a
    neighbour or earlier in the walk. A form counts only when it was echoed exactly, and
    nothing is believed before the forms together, those about the neighbours included,
    hold every row of the full page.
    """

    def __init__(
        self, second: int, outer: Bounds, asked: Bounds, answer: Answer, saturation: Saturation
    ) -> None:
        self.answer: Answer = answer
        """The full page."""
        self.rows: dict[str, ApplicationSummary] = dict(answer.rows)
        """Rows of all pages about the second."""
        self._saturation = saturation
        self._held: set[str] = set()
        self._complete: set[Bounds] = set()
        self._pair = (Bounds(second - 1, second), Bounds(second, second + 1))
        self._alone = Bounds(second, second)
        self._neighbours = (Bounds(second - 1, second - 1), Bounds(second + 1, second + 1))
        self._to_ask = [
            form
            for form in (*self._pair, self._alone, *self._neighbours)
            if form != asked and outer.hold(form)
        ]

    @property
    def covered(self) -> bool:
        """Whether the pages so far prove that every row of the second was returned."""
        return self.is_whole and self.answer.rows.keys() <= self._held

    @property
    def is_whole(self) -> bool:
        """Whether the narrow questions cover the whole second, even without the full page."""
        is_alone = self._saturation.inclusive and self._alone in self._complete
        return is_alone or self._complete.issuperset(self._pair)

    def next(self) -> Bounds | None:
        """Return the bounds to ask next about the second; None if no further page would help."""
        if self.covered or not self._to_ask:
            return None
        form = self._to_ask[0]
        # The neighbours can only vouch for a second that some form holds, or may hold.
        may_help = self.is_whole or self._alone in self._complete
        return form if may_help or form not in self._neighbours else None

    def receive(self, form: Bounds, answer: Answer) -> None:
        """Receive the page of a form; a page whose echo differs from the form proves nothing."""
        self._to_ask.remove(form)
        self.rows.update(answer.rows)
        if (answer.echo.after, answer.echo.before) != (form.after, form.before):
            return
        self._held |= answer.rows.keys()
        self._saturation.inclusive |= form.after == form.before and bool(answer.rows)
        if not answer.is_full:
            self._complete.add(form)

    def refuse(self, form: Bounds) -> None:
        """Record that the service does not accept the form."""
        self._to_ask.remove(form)
