"""The planner of a walk: chooses the next window to request, and records what a page covers.

A walk covers a span of whole seconds. Up to the present, each second whose rows are not all
known belongs to one *gap*, which is walked from its start to its end with at most one question
in flight; what lies behind is the *tail*. A second is *covered* once the consumer is done with
its rows. After every step, gaps and seconds without a question left partition what lies before
the tail. A question knows which of them it is about.

The outer bounds go out exactly as given. An inner cut overlaps by one second, so that all
four meanings of the bounds return every row of a window, and rows that a neighbouring
window already gave are recognised by their id. How wide the next window is follows from
hints; they change the number of requests only. Whatever they are, a window at a place where one
came back full is narrower, half as wide at most once four did; so a walk ends.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, assert_never

from attrs import define, evolve, frozen

from income_client.errors import UnexpectedResponseError
from income_client.records.applications import ApplicationSummary
from income_client.records.window import Window
from income_client.wire.rows import MalformedRow

from .density import Density
from .tail import Tail
from .windows import (
    Answer,
    Bounds,
    Delivery,
    FullSecond,
    Intervals,
    Overlap,
    Rows,
    Saturation,
    SpanLimit,
    split_by_echo,
)

_MOST_RETRIES: Final = 8
"""Times that an overfull second is asked for again because its rows moved."""
_FULL_BEFORE_HALVING: Final = 4
"""Full pages at one place after which the next window there is half as wide at most.

Most places have none or one; of 629 in a list with bursts, two had more than four.
"""
_WORTH_DIVIDING: Final = 0.9
"""Pages that must lie ahead of a walker before another takes half of them.

With 1.6 a walk over six lists of real commit times, eight in flight, needs 1 % fewer requests
and 9 % more time.
"""
_ENDLESS: Final = 2**62
_SECOND: Final = 1.0


class WalkPlanner:
    """Chooses the next question of a walk, and receives the pages.

    Args:
        bounds: the outer bounds, sent exactly as they are; without ``before``
            the walk ends at the present.
        limit: rows at which a page is full: the limit that is sent.
        walkers: questions that may be in flight at a time.
        covered: windows that an earlier walk over the same bounds has covered.
        keep_saturated: whether rows of saturated windows are delivered.
        date_ahead: for a walk that another will follow, as `Tail` has it; None otherwise.
        begins_at_end: whether the first question is the last page, up to a bound in the future.
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
        date_ahead: int | None = None,
        begins_at_end: bool = False,
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
        self.density: Density = Density(limit)
        self._walkers = walkers
        self._keep_saturated = keep_saturated
        self._repeats = repeats
        self._in_flight = 0
        self._overlap = Overlap()
        self._saturation = Saturation()
        self._span_limit = SpanLimit()
        reached = max((window.before for window in self.covered), default=bounds.after)
        gaps = self.covered.gaps(Window(bounds.after, reached))
        self._gaps = [Gap(gap.after, gap.before) for gap in gaps]
        self._tail = Tail(
            bounds.after,
            reached=reached,
            upper_bound=bounds.before,
            date_ahead=date_ahead,
            begins_at_end=begins_at_end,
        )

    @property
    def is_finished(self) -> bool:
        """Whether every question of the walk is answered."""
        return self._tail.is_finished and not self._gaps

    @property
    def present(self) -> int | None:
        """The second before which all windows are covered or planned.

        None before the first page.
        """
        return self._tail.reached if self.requests else None

    @property
    def span(self) -> Window:
        """The span of the walk, as far as its end is known."""
        return Window(self.bounds.after, self._tail.reached)

    @property
    def planned(self) -> list[Window]:
        """The windows before the tail whose rows are not all known, those in flight included."""
        return [Window(gap.start, gap.end) for gap in self._gaps]

    def next(self) -> "Question | None":
        """Return the next question; None if the planner needs a page first."""
        if self._in_flight >= self._walkers:
            return None
        if self._gaps:
            free = (gap for gap in self._gaps if gap.question is None)
            gap = next(free, None) or self._divide_fullest_gap()
            if gap is None:
                return None
            question = gap.question = self._question_about(gap)
        elif self._in_flight or self._tail.is_finished:
            return None
        else:
            window = Window(self._tail.reached, self._tail.reached)
            delay = _SECOND if self._tail.must_wait else 0.0
            question = Question(self._tail.next(), window, self._tail, delay)
        self._in_flight += 1
        return question

    def receive(self, question: "Question", answer: Answer) -> None:
        """Receive the answer to a question; completed deliveries are added to ``ready``.

        Raises:
            UnexpectedResponseError: it answers another question, so that this one will be
                asked again; or the service gives the same rows to all of them.
        """
        self.requests += 1
        if answer.cap is not None and answer.cap < self.density.limit:
            self.density = Density(answer.cap)
        self._release_question(question)
        match question.about:
            case Tail():
                self._receive_tail(question.bounds, answer)
            case Gap() as gap:
                self._receive_gap(gap, question, answer)
            case _:
                assert_never(question.about)

    def refuse(self, question: "Question") -> bool:
        """Record that the service refused a question; return whether there is another way.

        If there is none, the question is still in flight.
        """
        match question.about:
            case Tail() as tail if tail.refuse(question.bounds):
                self._release_question(question)
            case Gap(second=FullSecond() as second) as gap:
                self._release_question(question)
                second.refuse(question.bounds)
                self._close_second(gap, second)
            case _:
                return False
        return True

    def drop(self, question: "Question") -> None:
        """Take back a question that failed or was cancelled, so that it is asked again."""
        self._release_question(question)

    def acknowledge(self, delivery: Delivery) -> None:
        """Record that the consumer has processed a delivery."""
        self.covered.add(delivery.covers)

    def _question_about(self, gap: "Gap") -> "Question":
        if gap.second and (form := gap.second.next()):
            return Question(form, Window(gap.start, gap.start + 1), gap)
        best = self.density.width(gap.start, gap.end)
        width = gap.narrow(self._span_limit.narrow(best))
        window = Window(gap.start, gap.start + width)
        return Question(self.bounds.around(window), window, gap)

    def _divide_fullest_gap(self) -> "Gap | None":
        """Cut the gap with the most pages ahead in two, for a walker without work."""
        fullest = max(self._gaps, key=lambda gap: max(self._sizes_of(gap)))
        pages, windows = self._sizes_of(fullest)
        hints = self._span_limit if windows > pages else self.density
        cut = hints.middle(fullest.free_from, fullest.end)
        if max(pages, windows) < _WORTH_DIVIDING or not fullest.free_from < cut < fullest.end:
            return None
        self.density.divide(fullest.start, cut, fullest.end)
        behind = Gap(cut, fullest.end)
        fullest.end = cut
        self._gaps.insert(self._gaps.index(fullest) + 1, behind)
        return behind

    def _sizes_of(self, gap: "Gap") -> tuple[float, float]:
        """Return how many pages, and how many of the widest windows, a gap has ahead."""
        span = gap.free_from, gap.end
        return self.density.pages(*span), self._span_limit.windows(*span)

    def _release_question(self, question: "Question") -> None:
        """Remove a question from the questions in flight."""
        self._in_flight -= 1
        if isinstance(question.about, Gap):
            question.about.question = None

    def _receive_gap(self, gap: "Gap", question: "Question", answer: Answer) -> None:
        if gap.second is None:
            self._receive_window(gap, question, answer)
        else:
            gap.second.receive(question.bounds, answer)
            self._close_second(gap, gap.second)

    def _receive_window(self, gap: "Gap", question: "Question", answer: Answer) -> None:
        window, bounds = question.window, question.bounds
        # Also of a full page: one that answers another question says nothing of this window.
        covered, uncovered = split_by_echo(window, bounds, answer.echo)
        self._span_limit.learn(bounds, answer.echo)
        if not answer.is_full:
            if covered.after < covered.before:
                self.density.complete(covered, answer.rows)
            at = self._gaps.index(gap)
            self._gaps[at:at] = [Gap(rest.after, rest.before) for rest in uncovered]
            self._shorten_gap(gap, window.before)
            self._deliver_rows(covered, bounds, answer, answer.rows)
        elif window.before - window.after > 1:
            self.splits += 1
            self._receive_full_window(gap, window, answer.rows)
        else:
            gap.second = FullSecond(window.after, self.bounds, bounds, answer, self._saturation)
            self._close_second(gap, gap.second)

    def _receive_full_window(self, gap: "Gap", window: Window, rows: Rows) -> None:
        """Plan a narrower window after a full one, and a gap of its own for a sparse beginning."""
        gap.full_width = window.before - window.after
        gap.full_pages += 1
        cut = self.density.full(window, rows)
        if cut is not None:
            self._gaps.insert(self._gaps.index(gap), Gap(gap.start, cut))
            gap.restart(cut)

    def _shorten_gap(self, gap: "Gap", start: int) -> None:
        """Move a gap's start to the first second that is not covered."""
        gap.restart(start)
        if gap.start >= gap.end:
            self._gaps.remove(gap)

    def _close_second(self, gap: "Gap", second: FullSecond) -> None:
        """Deliver, retry or mark as saturated an overfull second with no question left to ask."""
        if second.next() is not None:
            return
        if second.is_whole and not second.covered and gap.retries < _MOST_RETRIES:
            # A row of the full page has moved meanwhile: the second is asked for again.
            gap.retries += 1
            gap.second = None
            return
        present = self._tail.reached
        if not second.covered and self._saturation.contradicts(gap.start, second.rows, present):
            gap.second = None
            raise UnexpectedResponseError("the service gives the same rows whatever it is asked")
        window = Window(gap.start, gap.start + 1)
        bounds = self.bounds.around(window)
        self.density.complete(window, second.rows)
        self._shorten_gap(gap, window.before)
        if second.covered:
            self._deliver_rows(window, bounds, second.answer, second.rows)
            return
        self.saturated.append(window)
        rows: Rows = second.rows
        if not self._keep_saturated:
            # Withheld are rows that can be read. Each of the others has an error of its own.
            rows = {key: row for key, row in rows.items() if isinstance(row, MalformedRow)}
            self.withheld.update((key, row) for key, row in second.rows.items() if key not in rows)
        if rows:
            nothing = Window(window.after, window.after)
            self._deliver_rows(nothing, bounds, second.answer, rows)

    def _receive_tail(self, bounds: Bounds, answer: Answer) -> None:
        start = self._tail.reached
        is_answer = self._tail.receive(bounds, answer)
        span = Window(start, self._tail.reached)
        if is_answer:
            covered, uncovered = split_by_echo(span, bounds, answer.echo)
            self._gaps += [Gap(rest.after, rest.before) for rest in uncovered]
            self._deliver_rows(covered, bounds, answer, answer.rows)
        elif span.after < span.before:
            gap = Gap(span.after, span.before)
            self._gaps.append(gap)
            if answer.is_full:
                self._receive_full_window(gap, span, answer.rows)
        self._leave_passed_seconds(bounds, answer)

    def _leave_passed_seconds(self, bounds: Bounds, answer: Answer) -> None:
        """Plan the seconds before the present as a gap, if the service cut off the page there.

        A service that cuts windows at their end would otherwise lead the walk to the present one
        window at a time.
        """
        passed, echo, tail = answer.passed, answer.echo, self._tail
        if tail.is_finished or passed is None or echo.before >= passed:
            return
        self._span_limit.learn(Bounds(bounds.after, bounds.before or passed), echo)
        if echo.before - echo.after == self._span_limit.seconds and tail.reached < passed:
            self._gaps.append(Gap(tail.reached, passed))
            tail.skip_to(passed)

    def _deliver_rows(self, covers: Window, bounds: Bounds, answer: Answer, rows: Rows) -> None:
        requested, echo = bounds.seconds, answer.echo
        start, end = min(requested.after, echo.after), max(requested.before, echo.before + 1)
        if requested.after < echo.after < end:
            # Otherwise each page of a service that raises the bound would reach back to the start
            # of its gap, and be kept until that is walked. A fraction of a second is rounded up.
            start = echo.after - 1
        seconds = Window(start, end)
        fresh = rows.keys() if self._repeats else self._overlap.add_page(seconds, rows.keys())
        self.rows += len(fresh)
        self.duplicates += len(rows) - len(fresh)
        applications = tuple(row for key, row in rows.items() if key in fresh)
        self.ready.append(Delivery(covers, evolve(answer.page, applications=applications)))
        ahead = [] if self._tail.is_finished else [Window(self._tail.reached, _ENDLESS)]
        self._overlap.drop_pages([*self.planned, *ahead])


@define(eq=False)
class Gap:
    """Seconds that are walked from start to end, with at most one question in flight."""

    start: int
    """First second whose rows are not all known."""
    end: int
    """First second behind the gap."""
    question: "Question | None" = None
    """The question in flight."""
    full_pages: int = 0
    """Windows at the start that came back full."""
    full_width: int = 0
    """Width of the last full window at the start."""
    second: FullSecond | None = None
    """The first second, while it is narrowed down."""
    retries: int = 0
    """Number of times that the overfull second was asked for again because its rows moved."""

    @property
    def free_from(self) -> int:
        """First second after the window of the question in flight; without one, ``start``."""
        return self.start if self.question is None else self.question.window.before

    def narrow(self, width: int) -> int:
        """Return a width for the next window, smaller than a full window at this place."""
        most = self.end - self.start
        if self.full_pages >= _FULL_BEFORE_HALVING:
            most = self.full_width // 2
        elif self.full_pages:
            most = self.full_width - 1
        return max(1, min(width, most))

    def restart(self, start: int) -> None:
        """Restart the gap at a later second."""
        self.start = start
        self.second = None
        self.full_pages = self.full_width = self.retries = 0


@frozen(eq=False)
class Question:
    """A list call that the walk needs."""

    bounds: Bounds
    """The bounds to send."""
    window: Window
    """Seconds that the page is to cover; empty for a question about the walk's end."""
    about: Gap | Tail
    """Part of the walk that the question is about."""
    delay: float = 0.0
    """Seconds to wait before sending the question, so that the service's clock can move."""
