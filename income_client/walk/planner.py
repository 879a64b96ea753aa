"""The planner of a walk: which window to ask for next, and what a page of it settles.

A walk covers a span of whole seconds. Up to the present, each second belongs to one
*part*, which is walked from its start to its end with at most one question in flight; the
rest is the *tail*. What pages have settled is *received*, and what the consumer is done
with is *covered*. Parts and received windows partition what lies before the tail after
every step.

The outer bounds go out exactly as given. An inner cut overlaps by one second, so that all
four meanings of the bounds return every row of a window, and rows that a neighbouring
window already gave are recognised by their id. How wide the next window is follows from
hints; they change the number of requests only.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, assert_never

from attrs import define

from income_client.errors import UnexpectedResponseError
from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.window import Window

from .density import Density
from .tail import Tail
from .windows import (
    Answer,
    Bounds,
    Delivery,
    Intervals,
    Kind,
    Overlap,
    Pause,
    Question,
    Rows,
    Saturation,
    Second,
    believe,
    echoed_window,
)

_MOST_DOUBTS: Final = 8
"""Times that an overfull second is asked for again because its rows moved."""
_WORTH_SHARING: Final = 0.9
"""Pages that must lie ahead of a walker before another takes half of them."""


class WalkPlanner:
    """Decides the next question of a walk, and takes the pages.

    Args:
        bounds: the outer bounds, sent exactly as they are; without ``before``
            the walk ends at the present.
        limit: rows at which a page is full: the limit that is sent.
        walkers: questions that may be in flight at a time.
        covered: windows that an earlier walk over the same bounds has covered.
        keep_saturated: whether rows of saturated windows are delivered.
        lead: for a walk that another will follow, as `Tail` has it; None otherwise.
        repeats: whether a row is delivered with each page that holds it. What was read of
            an application after one page may be out of date when another one lists it.
    """

    def __init__(
        self,
        bounds: Bounds,
        *,
        limit: int,
        walkers: int,
        covered: Iterable[Window] = (),
        keep_saturated: bool = False,
        lead: int | None = None,
        repeats: bool = False,
    ) -> None:
        self.bounds = bounds
        self.covered: Intervals = Intervals(covered)
        self.saturated: list[Window] = []
        self.withheld: dict[str, ApplicationSummary] = {}
        self.ready: deque[Delivery] = deque()
        self.requests: int = 0
        self.rows: int = 0
        self.duplicates: int = 0
        self.splits: int = 0
        self.present: int | None = None
        self.density: Density = Density(limit)
        self._limit = limit
        self._walkers = walkers
        self._keep_saturated = keep_saturated
        self._repeats = repeats
        self._received = Intervals(self.covered)
        self._asked = 0
        self._saturation = Saturation()
        self._inclusive = False
        reached = max((window.before for window in self.covered), default=bounds.after)
        self._tail: Tail | None = None
        if bounds.before is None or reached <= bounds.before:
            self._tail = Tail(bounds.after, reached=reached, until=bounds.before, lead=lead)
        gaps = self._received.gaps(Window(bounds.after, reached))
        self._parts = [_Part(gap.after, gap.before) for gap in gaps]
        end = 2**62 if bounds.before is None else bounds.before + 1
        self._overlap = Overlap(Window(bounds.after, end))

    @property
    def is_finished(self) -> bool:
        """Whether every question of the walk is answered."""
        return self._tail is None and not self._parts

    @property
    def span(self) -> Window:
        """The seconds that the walk answers for as far as is known by now."""
        ends = [window.before for window in (*self._received, *self.planned)]
        return Window(self.bounds.after, max(ends, default=self.bounds.after))

    @property
    def planned(self) -> list[Window]:
        """The windows before the tail that are not received, those in flight included."""
        return [Window(part.start, part.end) for part in self._parts]

    def next(self) -> Question | Pause | None:
        """Return what to do now; None where there is nothing to do before a page comes."""
        if self._asked >= self._walkers:
            return None
        if not self._parts:
            return self._next_of_tail() if self._asked == 0 else None
        part = next((part for part in self._parts if part.asked is None), None) or self._share()
        if part is None:
            return None
        part.asked = self._question(part)
        self._asked += 1
        return part.asked

    def receive(
        self, question: Question, page: ApplicationPage, *, served_at: int | None = None
    ) -> None:
        """Take the page of a question; what it completes is put into ``ready``.

        Args:
            question: one that ``next`` returned.
            page: the reply.
            served_at: the second at which the service says that it answered.

        Raises:
            UnexpectedResponseError: the service answered another question, or gives the
                same rows to all of them.
        """
        self.requests += 1
        answer = Answer(
            echo=echoed_window(page.updated_after, page.updated_before),
            rows={row.application_id: row for row in page.applications},
            is_full=len(page.applications) >= self._limit,
            served_at=served_at,
        )
        match question.kind:
            case Kind.TAIL:
                self._receive_tail(question, answer)
            case Kind.SECOND:
                self._receive_form(question, answer)
            case Kind.WINDOW:
                self._receive_window(question, answer)
            case _:
                assert_never(question.kind)

    def refuse(self, question: Question) -> bool:
        """Record that the service refused a question; return whether there is another way."""
        if question.kind is Kind.TAIL and self._tail:
            is_handled = self._tail.refuse(question.bounds)
            self._asked -= is_handled
            return is_handled
        if question.kind is Kind.SECOND:
            part = self._release(question)
            if part.second:
                part.second.refuse(question.bounds)
                self._judge(part, part.second)
        return question.kind is Kind.SECOND

    def drop(self, question: Question) -> None:
        """Take a question back that failed or was cancelled; it will be asked again."""
        if question.kind is Kind.TAIL and self._tail:
            self._asked -= 1
            self._tail.interrupt()
        else:
            self._release(question)

    def acknowledge(self, delivery: Delivery) -> None:
        """Record that the consumer is done with a delivery."""
        self.covered.add(delivery.covers)

    def _next_of_tail(self) -> Question | Pause | None:
        if self._tail is None:
            return None
        bounds = self._tail.next()
        if isinstance(bounds, Pause):
            return bounds
        self._asked += 1
        return Question(Kind.TAIL, Window(self._tail.reached, self._tail.reached), bounds)

    def _question(self, part: "_Part") -> Question:
        if part.second and (form := part.second.next()):
            return Question(Kind.SECOND, Window(part.start, part.start + 1), form)
        width = self.density.width(part.start, part.end)
        if part.overfull is not None:
            width = max(1, min(width, part.overfull - 1))
        window = Window(part.start, part.start + width)
        return Question(Kind.WINDOW, window, self.bounds.around(window))

    def _share(self) -> "_Part | None":
        """Cut the part with the most pages ahead in two, for a walker without work."""
        if not self._parts:
            return None
        pages, fullest = max(
            ((self.density.pages(part.free_from, part.end), part) for part in self._parts),
            key=lambda found: found[0],
        )
        cut = (fullest.free_from + fullest.end + 1) // 2
        if pages < _WORTH_SHARING or cut >= fullest.end:
            return None
        self.density.divide(fullest.start, cut, fullest.end)
        half = _Part(cut, fullest.end)
        fullest.end = cut
        self._parts.insert(self._parts.index(fullest) + 1, half)
        return half

    def _receive_full(self, part: "_Part", window: Window, rows: Rows) -> None:
        """Ask about less than a window that came back full, and apart for its quiet beginning."""
        width = window.before - window.after
        part.overfull = width if width > 1 else None
        cut = self.density.full(window, rows)
        if cut is not None:
            self._parts.insert(self._parts.index(part), _Part(part.start, cut))
            part.start, part.overfull = cut, None

    def _release(self, question: Question) -> "_Part":
        self._asked -= 1
        part = next(part for part in self._parts if part.asked is question)
        part.asked = None
        return part

    def _receive_window(self, question: Question, answer: Answer) -> None:
        part = self._release(question)
        window = question.window
        width = window.before - window.after
        if not answer.is_full:
            self.density.complete(window, answer.rows)
            part.overfull = None
            covered, left = believe(window, question.bounds, answer.echo)
            at = self._parts.index(part)
            rest = (*left, Window(window.before, part.end))
            self._parts[at : at + 1] = [part.left_in(window) for window in rest if window]
            self._deliver(covered, question.bounds, answer.echo, answer.rows)
        elif width > 1:
            self.splits += 1
            self._receive_full(part, window, answer.rows)
        else:
            part.second = Second(
                window.after, self.bounds, question.bounds, answer, inclusive=self._inclusive
            )
            self._judge(part, part.second)

    def _receive_form(self, question: Question, answer: Answer) -> None:
        part = self._release(question)
        if part.second:
            part.second.receive(question.bounds, answer)
            self._judge(part, part.second)

    def _judge(self, part: "_Part", second: Second) -> None:
        """Close a second about which everything was asked that can be."""
        self._inclusive = second.inclusive = self._inclusive or second.inclusive
        if second.next() is not None:
            return
        if second.is_whole and not second.covered and part.doubts < _MOST_DOUBTS:
            # A row of the full page has moved meanwhile: the second is asked for again.
            part.doubts += 1
            part.second = None
            return
        window = Window(part.start, part.start + 1)
        self.density.complete(window, second.rows)
        part.pass_second()
        if part.start >= part.end:
            self._parts.remove(part)
        if second.covered:
            self._deliver(window, self.bounds.around(window), second.echo, second.rows)
            return
        if self._saturation.contradicts(window.after, second.rows):
            raise UnexpectedResponseError("the service gives the same rows whatever it is asked")
        self.saturated.append(window)
        self._received.add(window)
        if self._keep_saturated:
            nothing = Window(window.after, window.after)
            self._deliver(nothing, self.bounds.around(window), second.echo, second.rows)
        else:
            self.withheld.update(second.rows)

    def _receive_tail(self, question: Question, answer: Answer) -> None:
        self._asked -= 1
        if self._tail is None:
            return
        step = self._tail.receive(question.bounds, answer)
        self.present = self._tail.reached
        if step.is_walked:
            self._walk(step.span, answer.rows if answer.is_full else {})
        elif not answer.is_full:
            covered, left = believe(step.span, question.bounds, answer.echo)
            for window in left:
                self._walk(window, {})
            self._deliver(covered, question.bounds, answer.echo, answer.rows)
        if step.is_finished:
            self._tail = None

    def _walk(self, window: Window, rows: Rows) -> None:
        """Leave a window of the tail to the walkers, with the rows of a full page if it was one."""
        if self._tail is None or not window:
            return
        self._tail.interrupt()
        part = _Part(window.after, window.before)
        self._parts.append(part)
        if rows:
            self._receive_full(part, window, rows)

    def _deliver(self, covers: Window, bounds: Bounds, echo: Window, rows: Rows) -> None:
        asked = bounds.reach
        reach = Window(min(asked.after, echo.after), max(asked.before, echo.before + 1))
        fresh = rows.keys() if self._repeats else self._overlap.admit(reach, rows.keys())
        self.rows += len(fresh)
        self.duplicates += len(rows) - len(fresh)
        applications = tuple(row for key, row in rows.items() if key in fresh)
        self.ready.append(Delivery(covers=covers, bounds=echo, applications=applications))
        self._received.add(covers)
        self._overlap.forget(self._received)


@define(eq=False)
class _Part:
    """Seconds that are walked from start to end, with at most one question in flight."""

    start: int
    """First second not yet received."""
    end: int
    """First second behind the part."""
    asked: Question | None = None
    """The question in flight."""
    overfull: int | None = None
    """Width of the window at the start that came back full."""
    second: Second | None = None
    """The first second, while it is narrowed down."""
    doubts: int = 0
    """How often rows of that second moved while it was narrowed down."""

    @property
    def free_from(self) -> int:
        """First second that no question in flight is about."""
        return self.asked.window.before if self.asked else self.start

    def pass_second(self) -> None:
        """Continue behind the first second."""
        self.start += 1
        self.second = self.overfull = None
        self.doubts = 0

    def left_in(self, window: Window) -> "_Part":
        """Return the part that is left of this one in a window."""
        if window.before == self.end:
            self.start = window.after
            return self
        return _Part(window.after, window.before)
