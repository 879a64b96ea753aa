"""The planner of a walk: which window to ask for next, and what a page of it settles.

A walk covers a span of whole seconds. Up to the present each second belongs to
one *stretch*, which is walked from its start to its end with at most one
question in flight; the rest is the *tail*. What pages have settled is
*received*, and what the consumer is done with is *covered*. Stretches and
received windows partition what lies before the tail after every step.

The outer bounds go out exactly as given. An inner cut overlaps by one second,
so that all four meanings of the bounds return every row of a window, and rows
that a neighbouring window already gave are recognised by their id. Which window
comes next is decided from hints; they change the number of requests only.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, assert_never

from income_client.errors import UnexpectedResponseError
from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.window import Window

from .stretch import Stretch
from .stretches import Stretches
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
"""Times that an overfull second is asked for anew because its rows moved."""


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
        self.present: int | None = None
        gaps = self._received.gaps(Window(bounds.after, reached))
        self._stretches = Stretches(gaps, limit)
        end = 2**62 if bounds.before is None else bounds.before + 1
        self._overlap = Overlap(Window(bounds.after, end))

    @property
    def is_finished(self) -> bool:
        """Tell whether every question of the walk is answered."""
        return self._tail is None and not self._stretches

    @property
    def span(self) -> Window:
        """The seconds that the walk answers for as far as is known by now."""
        ends = [*(window.before for window in self._received), *(s.end for s in self._stretches)]
        return Window(self.bounds.after, max(ends, default=self.bounds.after))

    @property
    def planned(self) -> list[Window]:
        """The windows before the tail that are not received, those in flight included."""
        return [Window(stretch.start, stretch.end) for stretch in self._stretches]

    def next(self) -> Question | Pause | None:
        """Return what to do now; None where there is nothing to do before a page comes."""
        if self._asked >= self._walkers:
            return None
        if not self._stretches:
            return self._next_of_tail() if self._asked == 0 else None
        stretch = self._stretches.unasked()
        if stretch is None:
            return None
        stretch.asked = self._question(stretch)
        self._asked += 1
        return stretch.asked

    def _next_of_tail(self) -> Question | Pause | None:
        if self._tail is None:
            return None
        bounds = self._tail.next()
        if isinstance(bounds, Pause):
            return bounds
        self._asked += 1
        return Question(Kind.TAIL, Window(self._tail.reached, self._tail.reached), bounds)

    def _question(self, stretch: Stretch) -> Question:
        if stretch.second and (form := stretch.second.next()):
            return Question(Kind.SECOND, Window(stretch.start, stretch.start + 1), form)
        width = stretch.density.width(stretch.start, stretch.end)
        if stretch.overfull is not None:
            width = max(1, min(width, stretch.overfull - 1))
        window = Window(stretch.start, stretch.start + width)
        return Question(Kind.WINDOW, window, self.bounds.around(window))

    def receive(
        self, question: Question, page: ApplicationPage, *, served_at: int | None = None
    ) -> None:
        """Take the page of a question; what it completes is put into ``ready``.

        Args:
            question: one that ``next`` returned.
            page: the reply.
            served_at: the second at which the service says that it answered.

        Raises:
            UnexpectedResponseError: the service answered another question, or any alike.
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
        """Take note that the service refused a question; tell whether there is another way."""
        if question.kind is Kind.TAIL and self._tail:
            is_handled = self._tail.refuse(question.bounds)
            self._asked -= is_handled
            return is_handled
        if question.kind is Kind.SECOND:
            stretch = self._release(question)
            if stretch.second:
                stretch.second.refuse(question.bounds)
                self._judge(stretch, stretch.second)
        return question.kind is Kind.SECOND

    def drop(self, question: Question) -> None:
        """Take a question back that failed or was cancelled; it will be asked again."""
        if question.kind is Kind.TAIL and self._tail:
            self._asked -= 1
            self._tail.interrupt()
        else:
            self._release(question)

    def acknowledge(self, delivery: Delivery) -> None:
        """Take note that the consumer is done with a delivery."""
        self.covered.add(delivery.covers)

    def _release(self, question: Question) -> Stretch:
        self._asked -= 1
        return self._stretches.release(question)

    def _receive_window(self, question: Question, answer: Answer) -> None:
        stretch = self._release(question)
        window = question.window
        width = window.before - window.after
        ids = frozenset(answer.rows)
        if not answer.is_full:
            stretch.density.completed(window.after, width, ids)
            stretch.overfull = None
            self._settle(stretch, question, answer)
        elif width > 1:
            self.splits += 1
            stretch.density.overfull(window.after, width, ids)
            stretch.overfull = width
            self._stretches.set_apart_quiet(stretch, answer.rows)
        else:
            stretch.second = Second(
                window.after, self.bounds, question.bounds, answer, inclusive=self._inclusive
            )
            self._judge(stretch, stretch.second)

    def _settle(self, stretch: Stretch, question: Question, answer: Answer) -> None:
        covered, left = believe(question.window, question.bounds, answer.echo)
        rest = (*left, Window(question.window.before, stretch.end))
        self._stretches.replace(stretch, rest)
        self._deliver(covered, question.bounds, answer.echo, answer.rows)

    def _receive_form(self, question: Question, answer: Answer) -> None:
        stretch = self._release(question)
        if stretch.second:
            stretch.second.receive(question.bounds, answer)
            self._judge(stretch, stretch.second)

    def _judge(self, stretch: Stretch, second: Second) -> None:
        """Close a second about which everything was asked that can be."""
        self._inclusive = second.inclusive = self._inclusive or second.inclusive
        if second.next() is not None:
            return
        if second.is_whole and not second.covered and stretch.doubts < _MOST_DOUBTS:
            # A row of the full page has moved meanwhile: the second is asked for anew.
            stretch.doubts += 1
            stretch.second = None
            return
        window = Window(stretch.start, stretch.start + 1)
        stretch.density.completed(window.after, 1, set(second.rows))
        self._stretches.pass_second(stretch)
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
        """Leave a window that the tail came upon to the walkers."""
        if self._tail is None or not window:
            return
        self._tail.interrupt()
        self._stretches.add(window, rows)

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
