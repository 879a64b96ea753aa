"""The planner of a walk: which window to ask for next, and what a page of it settles.

A walk covers a span of whole seconds. Up to the present, each second that is not settled
yet belongs to one *part*, which is walked from its start to its end with at most one
question in flight; the rest is the *tail*. A second is *covered* once the consumer is done
with its rows. Parts and settled seconds partition what lies before the tail after every step.

The outer bounds go out exactly as given. An inner cut overlaps by one second, so that all
four meanings of the bounds return every row of a window, and rows that a neighbouring
window already gave are recognised by their id. How wide the next window is follows from
hints; they change the number of requests only.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from attrs import define, evolve

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
    Question,
    Rows,
    Saturation,
    split_by_echo,
)

_MOST_DOUBTS: Final = 8
"""Times that an overfull second is asked for again because its rows moved."""
_WORTH_SHARING: Final = 0.9
"""Pages that must lie ahead of a walker before another takes half of them."""
_ENDLESS: Final = 2**62
_SECOND: Final = 1.0


class WalkPlanner:
    """Decides the next question of a walk, and takes the pages.

    Args:
        bounds: the outer bounds, sent exactly as they are; without ``before``
            the walk ends at the present.
        limit: rows at which a page is full: the limit that is sent.
        walkers: questions that may be in flight at a time.
        covered: windows that an earlier walk over the same bounds has covered.
        keep_saturated: whether rows of saturated windows are delivered.
        date_ahead: for a walk that another will follow, as `Tail` has it; None otherwise.
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
        reached = max((window.before for window in self.covered), default=bounds.after)
        gaps = self.covered.gaps(Window(bounds.after, reached))
        self._parts = [_Part(gap.after, gap.before) for gap in gaps]
        self._tail = Tail(bounds.after, reached=reached, until=bounds.before, date_ahead=date_ahead)

    @property
    def is_finished(self) -> bool:
        """Whether every question of the walk is answered."""
        return self._tail.is_finished and not self._parts

    @property
    def present(self) -> int | None:
        """The second before which all is settled or planned; None before the first page."""
        return self._tail.reached if self.requests else None

    @property
    def span(self) -> Window:
        """The seconds that the walk answers for as far as is known by now."""
        return Window(self.bounds.after, self._tail.reached)

    @property
    def planned(self) -> list[Window]:
        """The windows before the tail that are not settled, those in flight included."""
        return [Window(part.start, part.end) for part in self._parts]

    def next(self) -> Question | None:
        """Return what to ask now; None where there is nothing to ask before a page comes."""
        if self._in_flight >= self._walkers:
            return None
        if self._parts:
            part = next((part for part in self._parts if part.asked is None), None) or self._share()
            if part is None:
                return None
            question = part.asked = self._question(part)
        elif self._in_flight or self._tail.is_finished:
            return None
        else:
            window = Window(self._tail.reached, self._tail.reached)
            delay = _SECOND if self._tail.must_wait else 0.0
            question = Question(self._tail.next(), window, delay)
        self._in_flight += 1
        return question

    def receive(self, question: Question, answer: Answer) -> None:
        """Take the answer to a question; what it completes is put into ``ready``.

        Raises:
            UnexpectedResponseError: it answers another question, so that this one will be
                asked again; or the service gives the same rows to all of them.
        """
        self.requests += 1
        part = self._release(question)
        if part is None:
            self._receive_tail(question.bounds, answer)
        elif part.second is None:
            self._receive_window(part, question, answer)
        else:
            part.second.receive(question.bounds, answer)
            self._judge(part, part.second)

    def refuse(self, question: Question) -> bool:
        """Record that the service refused a question; return whether there is another way.

        If there is none, the question is still in flight.
        """
        part = next((part for part in self._parts if part.asked is question), None)
        if part is None:
            is_handled = self._tail.refuse(question.bounds)
            self._in_flight -= is_handled
            return is_handled
        if part.second is None:
            return False
        self._release(question)
        part.second.refuse(question.bounds)
        self._judge(part, part.second)
        return True

    def drop(self, question: Question) -> None:
        """Take a question back that failed or was cancelled; it will be asked again."""
        self._release(question)

    def acknowledge(self, delivery: Delivery) -> None:
        """Record that the consumer is done with a delivery."""
        self.covered.add(delivery.covers)

    def _question(self, part: "_Part") -> Question:
        if part.second and (form := part.second.next()):
            return Question(form, Window(part.start, part.start + 1))
        width = self.density.width(part.start, part.end)
        if part.overfull is not None:
            width = max(1, min(width, part.overfull - 1))
        window = Window(part.start, part.start + width)
        return Question(self.bounds.around(window), window)

    def _share(self) -> "_Part | None":
        """Cut the part with the most pages ahead in two, for a walker without work."""
        pages, fullest = max(
            ((self.density.pages(part.free_from, part.end), part) for part in self._parts),
            key=lambda found: found[0],
        )
        cut = self.density.middle(fullest.free_from, fullest.end)
        if pages < _WORTH_SHARING or cut >= fullest.end:
            return None
        self.density.divide(fullest.start, cut, fullest.end)
        half = _Part(cut, fullest.end)
        fullest.end = cut
        self._parts.insert(self._parts.index(fullest) + 1, half)
        return half

    def _release(self, question: Question) -> "_Part | None":
        """Return the part that a question was about; None for the tail."""
        self._in_flight -= 1
        part = next((part for part in self._parts if part.asked is question), None)
        if part is not None:
            part.asked = None
        return part

    def _receive_window(self, part: "_Part", question: Question, answer: Answer) -> None:
        window, bounds = question.window, question.bounds
        if not answer.is_full:
            covered, left = split_by_echo(window, bounds, answer.echo)
            self.density.complete(window, answer.rows)
            at = self._parts.index(part)
            self._parts[at:at] = [_Part(rest.after, rest.before) for rest in left]
            self._pass(part, window.before)
            self._deliver(covered, bounds, answer, answer.rows)
        elif window.before - window.after > 1:
            self.splits += 1
            self._receive_full(part, window, answer.rows)
        else:
            part.second = FullSecond(window.after, self.bounds, bounds, answer, self._saturation)
            self._judge(part, part.second)

    def _receive_full(self, part: "_Part", window: Window, rows: Rows) -> None:
        """Ask about less than a window that came back full, and apart for its quiet beginning."""
        width = window.before - window.after
        part.overfull = width if width > 1 else None
        cut = self.density.full(window, rows)
        if cut is not None:
            self._parts.insert(self._parts.index(part), _Part(part.start, cut))
            part.start, part.overfull = cut, None

    def _pass(self, part: "_Part", end: int) -> None:
        """Continue a part behind what is settled of it."""
        part.start = end
        part.second = part.overfull = None
        part.doubts = 0
        if part.start >= part.end:
            self._parts.remove(part)

    def _judge(self, part: "_Part", second: FullSecond) -> None:
        """Close a second about which everything was asked that can be."""
        if second.next() is not None:
            return
        if second.is_whole and not second.covered and part.doubts < _MOST_DOUBTS:
            # A row of the full page has moved meanwhile: the second is asked for again.
            part.doubts += 1
            part.second = None
            return
        if not second.covered and self._saturation.contradicts(part.start, second.rows):
            part.second = None
            raise UnexpectedResponseError("the service gives the same rows whatever it is asked")
        window = Window(part.start, part.start + 1)
        bounds = self.bounds.around(window)
        self.density.complete(window, second.rows)
        self._pass(part, window.before)
        if second.covered:
            self._deliver(window, bounds, second.answer, second.rows)
            return
        self.saturated.append(window)
        rows: Rows = second.rows
        if not self._keep_saturated:
            # Withheld are rows that can be read. Each of the others has an error of its own.
            rows = {key: row for key, row in rows.items() if isinstance(row, MalformedRow)}
            self.withheld.update((key, row) for key, row in second.rows.items() if key not in rows)
        if rows:
            nothing = Window(window.after, window.after)
            self._deliver(nothing, bounds, second.answer, rows)

    def _receive_tail(self, bounds: Bounds, answer: Answer) -> None:
        start = self._tail.reached
        is_answer = self._tail.receive(bounds, answer)
        span = Window(start, self._tail.reached)
        if is_answer:
            covered, left = split_by_echo(span, bounds, answer.echo)
            self._parts += [_Part(rest.after, rest.before) for rest in left]
            self._deliver(covered, bounds, answer, answer.rows)
        elif span.after < span.before:
            part = _Part(span.after, span.before)
            self._parts.append(part)
            if answer.is_full:
                self._receive_full(part, span, answer.rows)

    def _deliver(self, covers: Window, bounds: Bounds, answer: Answer, rows: Rows) -> None:
        asked, echo = bounds.reach, answer.echo
        reach = Window(min(asked.after, echo.after), max(asked.before, echo.before + 1))
        fresh = rows.keys() if self._repeats else self._overlap.admit(reach, rows.keys())
        self.rows += len(fresh)
        self.duplicates += len(rows) - len(fresh)
        applications = tuple(row for key, row in rows.items() if key in fresh)
        self.ready.append(Delivery(covers, evolve(answer.page, applications=applications)))
        ahead = [] if self._tail.is_finished else [Window(self._tail.reached, _ENDLESS)]
        self._overlap.forget([*self.planned, *ahead])


@define(eq=False)
class _Part:
    """Seconds that are walked from start to end, with at most one question in flight."""

    start: int
    """First second not yet settled."""
    end: int
    """First second behind the part."""
    asked: Question | None = None
    """The question in flight."""
    overfull: int | None = None
    """Width of the window at the start that came back full."""
    second: FullSecond | None = None
    """The first second, while it is narrowed down."""
    doubts: int = 0
    """How often rows of that second moved while it was narrowed down."""

    @property
    def free_from(self) -> int:
        """First second that no question in flight is about."""
        return self.start if self.asked is None else self.asked.window.before
