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

import math
from collections import deque
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final, assert_never

from attrs import Factory, define

from income_client.errors import UnexpectedResponseError
from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.window import Window

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
    second_of,
)

_MOST_DOUBTS: Final = 8
"""Times that an overfull second is asked for again because its rows moved."""
_WORTH_SHARING: Final = 0.9
"""Pages that must lie ahead of a walker before another takes half of them."""

FILL: Final = 0.85
"""How full a page is aimed to be."""
_GROWTH: Final = 4
"""How much wider than the last a window may be."""
_GROWTH_AFTER_EMPTY: Final = 16
_EMPTY: Final = 0.0005
"""Share of a page that an empty window counts as; a density of 0 has no logarithm."""
_MEMORY: Final = 0.1
"""Share of a page after which a density just seen counts as much as what was known before."""
_HIDDEN: Final = 2.0
"""How many times the rows seen a full page is taken to hold, where the density is known."""
_HIDDEN_BLIND: Final = 3.3
"""The same where nothing is known yet."""
_SAMPLE: Final = 8
"""Ids of a full page that must be found before their share is believed."""
_TELLING: Final = 0.06
"""Share of a page that must be expected before half of it means that a burst is over."""
_USUAL: Final = 24
"""Windows from which the usual density is taken."""
_EVEN: Final = 6
"""Windows left in a gap from which on it is divided evenly."""


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
        self._parts = [
            self._part(gap) for gap in self._received.gaps(Window(bounds.after, reached))
        ]
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
        width = part.density.width(part.start, part.end)
        if part.overfull is not None:
            width = max(1, min(width, part.overfull - 1))
        window = Window(part.start, part.start + width)
        return Question(Kind.WINDOW, window, self.bounds.around(window))

    def _part(self, window: Window) -> "_Part":
        return _Part(window.after, window.before, Density(self._limit))

    def _share(self) -> "_Part | None":
        """Cut the part with the most pages ahead in two, for a walker without work."""
        fullest = max(self._parts, key=lambda part: part.pages_ahead, default=None)
        if fullest is None or fullest.pages_ahead < _WORTH_SHARING:
            return None
        cut = (fullest.free_from + fullest.end + 1) // 2
        if cut >= fullest.end:
            return None
        half = _Part(cut, fullest.end, fullest.density.fork(fullest.start, cut))
        fullest.end = cut
        self._parts.insert(self._parts.index(fullest) + 1, half)
        return half

    def _set_apart_quiet(self, part: "_Part", rows: Rows) -> None:
        """Make a separate part of what lies before the oldest of these applications.

        Nothing is updated before it was made, so one question probably does for
        all of it. It is a hint like any other: the rows are a sample.
        """
        if part.density.rate is not None or not rows:
            return
        oldest = second_of(min(row.application_date for row in rows.values()))
        if part.start < oldest < part.end - 1:
            quiet = self._part(Window(part.start, oldest))
            self._parts.insert(self._parts.index(part), quiet)
            part.start, part.overfull = oldest, None

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
            part.density.completed(window.after, width, answer.rows.keys())
            part.overfull = None
            covered, left = believe(window, question.bounds, answer.echo)
            at = self._parts.index(part)
            rest = (*left, Window(window.before, part.end))
            self._parts[at : at + 1] = [part.left_in(window) for window in rest if window]
            self._deliver(covered, question.bounds, answer.echo, answer.rows)
        elif width > 1:
            self.splits += 1
            part.density.overfull(window.after, width, answer.rows.keys())
            part.overfull = width
            self._set_apart_quiet(part, answer.rows)
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
        part.density.completed(window.after, 1, second.rows.keys())
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
        part = self._part(window)
        self._parts.append(part)
        if rows:
            width = window.before - window.after
            part.density.overfull(window.after, width, rows.keys())
            part.overfull = width if width > 1 else None
            self._set_apart_quiet(part, rows)

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
    density: "Density"
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

    @property
    def pages_ahead(self) -> float:
        """Pages that probably lie behind the question in flight."""
        return self.density.pages(self.free_from, self.end)

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
        return _Part(window.after, window.before, self.density.for_another_part())


@define(kw_only=True)
class FullPage:
    """A full page, remembered until the windows inside it are done.

    It says two things: how many rows its span holds at least, and which rows they are. As
    the narrower windows inside it come back, the share of its ids in them gives the rest.
    """

    end: int
    """Where its window ended."""
    rows: float
    """Rows that must still be ahead, at the least."""
    ids: AbstractSet[str]
    """Those of its rows that may still turn up ahead."""
    found: int = 0
    """How many of them have."""
    seen: int = 0
    """All rows that turned up since."""

    def learn(self, ids: AbstractSet[str]) -> None:
        """Take the rows of a window inside it."""
        before = len(self.ids)
        self.ids = self.ids - ids
        self.found += before - len(self.ids)
        self.seen += len(ids)
        self.rows -= len(ids)

    def cut(self, position: int, at: int) -> "FullPage":
        """End here, and return the rest, without the ids: they may lie in either part."""
        rows = self.rows * (self.end - at) / (self.end - position)
        behind = FullPage(end=self.end, rows=rows, ids=frozenset())
        self.end, self.rows, self.ids = at, self.rows - rows, frozenset()
        self.found = self.seen = 0
        return behind

    @property
    def is_useful(self) -> bool:
        """Whether it still says anything about the rows ahead."""
        return self.rows > 0 or self.found >= _SAMPLE

    def estimate(self, *, blind: bool) -> float:
        """Return how many rows are probably ahead."""
        at_least = max(1.0, self.rows * (_HIDDEN_BLIND if blind else _HIDDEN))
        if self.found < _SAMPLE:
            return at_least
        by_share = self.seen / self.found * len(self.ids)
        # Where every row was on the page it lists the oldest first: its share says nothing.
        return max(by_share, at_least if self.found >= self.seen else 1.0)


@define
class _Seen:
    """A window that was completed."""

    rate: float
    width: int
    rows: int


@define
class Density:
    """Estimates how wide the next window should be: as the rows just seen were spread.

    A page is aimed to be 0.85 full. After a burst of rows, the next window is as wide as
    usual again.
    """

    limit: int
    """Rows at which a page counts as full."""
    rate: float | None = None
    """Rows a second, None while no window was completed."""
    is_usual: bool = False
    """Whether the rate is the usual one, taken up again after a burst."""
    seen: deque[_Seen] = Factory(lambda: deque(maxlen=_USUAL))
    """The windows completed last."""
    full_pages: list[FullPage] = Factory(list)
    """Full pages around the position, the narrowest last."""

    def width(self, position: int, end: int) -> int:
        """Return the width in seconds, 1 to ``end - position``, of the window to ask for."""
        gap = end - position
        wanted = min(self._wanted(position, gap), gap)
        if wanted * _EVEN > gap:
            wanted = math.ceil(gap / max(1, math.ceil(gap / max(wanted, 1) - 0.12)))
        return max(1, int(wanted))

    def _wanted(self, position: int, gap: int) -> float:
        target = FILL * (self.limit - 1)
        wanted: float = gap
        if self.rate is not None:
            wanted = target / self.rate
            if not self.is_usual:
                growth = _GROWTH if self.seen[-1].rows else _GROWTH_AFTER_EMPTY
                wanted = min(wanted, self.seen[-1].width * growth)
        if self.full_pages:
            ahead = self.full_pages[-1].end - position
            if wanted > ahead / 2:
                rows = self.full_pages[-1].estimate(blind=self.rate is None)
                wanted = min(wanted, target / rows * ahead)
        return wanted

    def pages(self, position: int, end: int) -> float:
        """Return how many pages probably lie in ``[position, end)``."""
        rows = (self.rate or 0.0) * (end - position)
        for page in self.full_pages:
            if page.end > position:
                share = (min(page.end, end) - position) / (page.end - position)
                rows = max(rows, page.estimate(blind=self.rate is None) * share)
        return rows / (FILL * self.limit)

    def completed(self, position: int, width: int, ids: AbstractSet[str]) -> None:
        """Learn from a page that was not full."""
        seen = _Seen(max(len(ids), _EMPTY * self.limit) / width, width, len(ids))
        self.is_usual = False
        if self.rate is None:
            self.rate = seen.rate
        else:
            expected = self.rate * width
            weight = max(seen.rows, expected) / (max(seen.rows, expected) + _MEMORY * self.limit)
            self.rate = _pooled(self.rate, seen.rate, weight)
            if expected > _TELLING * self.limit and seen.rows < expected / 2:
                self._expect_the_usual()
        self.seen.append(seen)
        for page in self.full_pages:
            page.learn(ids)
        end = position + width
        self.full_pages = [page for page in self.full_pages if page.end > end and page.is_useful]

    def _expect_the_usual(self) -> None:
        """Go back to the median of the densities seen, each weighted with its seconds."""
        half = sum(seen.width for seen in self.seen) / 2
        for seen in sorted(self.seen, key=lambda seen: seen.rate):
            half -= seen.width
            if half <= 0:
                self.is_usual = seen.rate < (self.rate or 0.0)
                self.rate = min(seen.rate, self.rate or seen.rate)
                return

    def overfull(self, position: int, width: int, ids: AbstractSet[str]) -> None:
        """Learn from a full page: its window holds these rows at the least."""
        self.full_pages.append(FullPage(end=position + width, rows=len(ids), ids=frozenset(ids)))

    def fork(self, position: int, cut: int) -> "Density":
        """Return what is known of ``cut`` and beyond, and forget it here."""
        beyond = self.for_another_part()
        for page in self.full_pages:
            if page.end > cut:
                beyond.full_pages.append(page.cut(position, cut))
        return beyond

    def for_another_part(self) -> "Density":
        """Return the density without full pages, for another part of the same span."""
        return Density(self.limit, self.rate, self.is_usual, self.seen.copy())


def _pooled(known: float, seen: float, weight: float) -> float:
    """Return the mean of two densities on a logarithmic scale."""
    return math.exp(weight * math.log(seen) + (1 - weight) * math.log(known))
