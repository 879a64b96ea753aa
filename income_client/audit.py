"""Compare what the service lists with what a program holds: ids, with the update times held.

The list is read. Its rows have no update time, but a row lies between the bounds of its
page. So a held time before them is stale, one behind them is not, and one between them leaves
it open: then the list is asked for a part of the page that begins just after the held time.

No alarm is false, whatever changes meanwhile, since only what was *due* counts: updated before
``until``, which lies ``settle`` before the present at which the audit began. That is asked for
before ``held`` is read, so ``held`` has had ``settle`` for what is due.

1. The first walk lists the span up to ``until``. Unknown ids may be missing, old times stale.
2. The second walk follows it, from ``until`` to the present. What it lists has been updated
   since: that is not due, and no longer missing or stale.
3. Each page with a finding is asked for again. What a complete page no longer shows has moved on,
   or was deleted, and is no finding either. If any are left, the second walk is made once more,
   after one of the seconds beside ``until``: two exclusive bounds hide that very second.
4. What no walk listed is asked for by its id, but no more than a thousand. An update may hide the
   old row before it shows the new one, so only what the service does not know either is gone.

Update times only grow. An application with a held time in the span is listed by the first walk
unless it moved behind ``until`` before; then the second lists it, which misses nothing that is
updated while it runs. So what neither listed is not on the list: ``unlisted``. This holds for times
held behind the earliest second that the service lists, and before ``until``; and for none before
a second that holds more rows than it can list, or a row without an id, where it may be.

Nothing that was due when the audit began, and still is as it was, is passed over, but for an
update in the very window of the held time. Pages are cut, and asked for in parts, to find those:

- A row that is in no part behind a cut was updated before it. So a cut within ``margin`` of each
  held time proves that none is older than that. As few cuts are made as can be, one call each.
- Rows out of the order of their held times are asked for in any case, where the service seems to
  list by time: an update has moved them.

What is left is counted: ``undecided``.
"""

import asyncio
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from itertools import islice
from math import ceil, floor
from typing import Any, Final

from attrs import define, field, frozen

from .clock import Clock
from .errors import (
    ConfigurationError,
    DecodeError,
    InvalidRequestError,
    NotFoundError,
    UnexpectedResponseError,
)
from .http.endpoints import LARGEST_LIMIT, Request, Response, get_application
from .http.replies import read_reply, read_rows
from .http.session import SessionManager
from .records.applications import Application, ApplicationPage, ApplicationSummary
from .records.window import Window
from .settings import check_count, check_not_negative, invalid, is_number, wrong
from .walk.paginator import ApplicationPaginator, ask_page, ask_present
from .walk.tail import END_OF_TIME
from .walk.windows import Answer, Bounds, Intervals, echo_of
from .wire.rows import MalformedRow
from .wire.times import FIRST_SECOND, LAST_SECOND, Rounding, When, aware_time, service_second

Held = Mapping[str, When] | Iterable[tuple[str, When]] | AsyncIterable[tuple[str, When]]
"""Ids with the update times held: a mapping, or pairs, asynchronous or not."""

_AT_ONCE: Final = 1_000
"""Entries of ``held`` that are read before others in the event loop have a turn."""
_MOST_OUT_OF_ORDER: Final = 0.25
"""Share of a page's rows; with more, the service does not list by time."""
_MOST_MOVED: Final = 100
"""Rows out of order for which a call is made, so that an odd order costs no call for each row."""
_FIRST_SLOTS: Final = 1_024
_MOST_CONFIRMED: Final = 1_000
"""Ids asked for one by one at the most: about as many calls as a walk over a million rows takes."""
_BEHIND: Final = 1
"""Seconds by which the present is taken earlier than it is echoed: the service may round up."""


@frozen(kw_only=True)
class StaleApplication:
    """An application of which a newer version is listed than is held.

    Attributes:
        application_id: which one.
        held_at: the update time held, in the service's zone.
        listed_in: the seconds in which it was updated since.
    """

    application_id: str
    held_at: datetime
    listed_in: Window


@frozen(kw_only=True)
class Audit:
    """What the service lists, compared with what is held.

    Nothing else is missing, nor stale by more than ``margin``, but for what ``saturated`` seconds
    and ``unreadable`` rows may hide.

    Attributes:
        after: from when on all that was updated was listed: later than asked for where the
            service lists nothing older; None for the beginning of time.
        until: only what was last updated before this counts.
        held: how many ids are held.
        listed: how many applications are listed, those updated after ``until`` aside.
        missing: ids that are listed, and not held.
        stale: those held with a time before their last update.
        unlisted: ids held with a time of the span that the service neither lists nor knows.
        undecided: how many ids the list did not say enough about: listed in the very window of
            the held time, so perhaps updated again there, later than the margin that was asked
            for; or not listed, but perhaps hidden in a saturated second, or known to the service
            as it was, or not asked for, as so many are not listed.
        margin: how long after the time held such an update may lie, at the most.
        margin_asked: the margin that was asked for, in seconds; None if none was.
        saturated: seconds that hold more applications than can be listed.
        unreadable: how many rows of the list have no id that can be read.
        requests: calls that it took.
    """

    after: datetime | None
    until: datetime
    held: int
    listed: int
    missing: tuple[str, ...]
    stale: tuple[StaleApplication, ...]
    unlisted: tuple[str, ...]
    undecided: int
    margin: timedelta
    margin_asked: float | None
    saturated: tuple[Window, ...]
    unreadable: int
    requests: int

    @property
    def drift(self) -> int:
        """How many are missing, stale or unlisted."""
        return len(self.missing) + len(self.stale) + len(self.unlisted)

    @property
    def is_complete(self) -> bool:
        """Whether nothing was found, and nothing was hidden from the audit.

        If a margin was asked for, also whether it was reached, so that nothing is undecided. If
        none was, updates in the same window as the time held may have been passed over.
        """
        is_reached = self.margin_asked is None or not self.undecided
        return is_reached and not (self.drift or self.saturated or self.unreadable)


class HeldTimes:
    """Ids with the seconds of the times held, in about 40 bytes and the id's own for each.

    A dict would take five times that. Ids lie behind each other in ``_ids``, and a table of their
    places, as large as twice their number at least, is searched from the hash of an id on.
    """

    def __init__(self) -> None:
        self.earliest: array[int] = array("q")
        """The time held, rounded down, by slot."""
        self.latest: array[int] = array("q")
        """Rounded up, and behind an hour that clocks repeat."""
        self._ids = bytearray()
        self._ends: array[int] = array("q", [0])
        self._table: array[int] = array("i", [-1]) * _FIRST_SLOTS

    def __len__(self) -> int:
        return len(self.latest)

    def add(self, application_id: str, earliest: int, latest: int) -> None:
        """Take a time; of several for one id the latest counts."""
        key = application_id.encode("utf-8", "surrogatepass")
        place = self._place_of(key)
        slot = self._table[place]
        if slot >= 0:
            self.earliest[slot] = max(self.earliest[slot], earliest)
            self.latest[slot] = max(self.latest[slot], latest)
            return
        self._table[place] = len(self)
        self._ids += key
        self._ends.append(len(self._ids))
        self.earliest.append(earliest)
        self.latest.append(latest)
        if 2 * len(self) > len(self._table):
            self._widen()

    def find(self, application_id: str) -> int | None:
        """Return the slot of an id, None if it is not held."""
        slot = self._table[self._place_of(application_id.encode("utf-8", "surrogatepass"))]
        return None if slot < 0 else slot

    def id_of(self, slot: int) -> str:
        """Return the id in a slot."""
        return self._key(slot).decode("utf-8", "surrogatepass")

    def _key(self, slot: int) -> bytes:
        return bytes(self._ids[self._ends[slot] : self._ends[slot + 1]])

    def _place_of(self, key: bytes) -> int:
        mask = len(self._table) - 1
        place = hash(key) & mask
        while (slot := self._table[place]) >= 0 and self._key(slot) != key:
            place = (place + 1) & mask
        return place

    def _widen(self) -> None:
        self._table = array("i", [-1]) * (2 * len(self._table))
        for slot in range(len(self)):
            self._table[self._place_of(self._key(slot))] = slot


@define
class Findings:
    """What is missing or stale of one window."""

    missing: list[str] = field(factory=list)
    """Ids."""
    stale: list[int] = field(factory=list)
    """Slots."""


@define(eq=False)
class ListedPage:
    """A window of the first walk, with the slots whose held time lies within it."""

    window: Window
    """Its bounds, between which its rows lie."""
    slots: "array[int]"
    out_of_order: frozenset[int]
    """Seconds after held times of rows that an update seems to have moved."""
    cuts: Sequence[int] = ()
    """Seconds, in ascending order, at which it is asked for in parts."""
    unknown_from: int | None = None
    """The latest cut behind which a part did not hold every row."""


class Comparison:
    """What is held, compared page by page with what is listed.

    Args:
        held: what is held, which does not change any more.
        until: the second before which an update is due.
        margin: seconds after a held time within which an update may be passed over; None for
            any in the same window.
    """

    def __init__(self, held: HeldTimes, until: int, margin: int | None) -> None:
        self.held = held
        self.until = until
        self._margin = margin
        self.listed: int = 0
        self.unreadable: int = 0
        self.missing: dict[str, Window] = {}
        self.stale: dict[int, Window] = {}
        self._nameless: list[Window] = []
        self._pages: list[ListedPage] = []
        self._is_listed = bytearray(len(held))
        self._is_recent = bytearray(len(held))
        self._undue: set[str] = set()
        self.gone: set[str] = set()
        """Ids that the service does not know."""
        self.known: set[str] = set()
        """Ids that no walk listed, though they were updated since."""

    def add_page(self, window: Window, rows: Sequence[ApplicationSummary]) -> None:
        """Take rows of the first walk, which lie between these bounds."""
        is_due = window.before <= self.until
        slots: array[int] = array("i")
        for application_id in self._ids_on(window, rows):
            self.listed += 1
            slot = self.held.find(application_id)
            if slot is not None:
                self._is_listed[slot] = True
            if slot is not None and self.held.latest[slot] >= window.after:
                slots.append(slot)
            elif not is_due:
                # The service has applied a later bound.
                self._undue.add(application_id)
            elif slot is None:
                self.missing[application_id] = window
            else:
                self.stale[slot] = window
        cuts = [self.held.latest[slot] + 1 for slot in slots]
        moved = frozenset(cut for cut in out_of_order(cuts) if cut < window.before)
        slots = array(
            "i", (slot for slot, cut in zip(slots, cuts, strict=True) if cut < window.before)
        )
        if slots:
            self._pages.append(ListedPage(window, slots, moved))

    def add_beside(self, window: Window, rows: Sequence[ApplicationSummary]) -> None:
        """Take rows of the seconds beside ``until``: they are listed, due or not."""
        for application_id in self._ids_on(window, rows):
            slot = self.held.find(application_id)
            if slot is not None and not self._is_listed[slot]:
                self._is_listed[slot] = self._is_recent[slot] = True

    def add_recent(self, window: Window, rows: Sequence[ApplicationSummary]) -> None:
        """Take rows of the second walk: they were updated since."""
        for application_id in self._ids_on(window, rows):
            self._undue.discard(application_id)
            slot = self.held.find(application_id)
            if slot is None:
                self.listed -= self.missing.pop(application_id, None) is not None
                continue
            self.listed -= self._is_listed[slot] and not self._is_recent[slot]
            self._is_listed[slot] = self._is_recent[slot] = True
            self.stale.pop(slot, None)

    def _ids_on(self, window: Window, rows: Sequence[ApplicationSummary]) -> Iterator[str]:
        for row in rows:
            if isinstance(row, MalformedRow) and not row.has_id:
                self.unreadable += 1
                self._nameless.append(window)
            else:
                yield row.application_id

    # Findings, looked at again

    def findings(self) -> Mapping[Window, "Findings"]:
        """Return what is missing or stale by the window in which it was listed."""
        found: dict[Window, Findings] = defaultdict(Findings)
        for application_id, window in self.missing.items():
            found[window].missing.append(application_id)
        for slot, window in self.stale.items():
            found[window].stale.append(slot)
        return found

    def look_again(self, window: Window, found: "Findings", answer: Answer | None) -> None:
        """Drop the findings of a window that a complete page of it does not show."""
        if answer is None or not _is_whole(window, answer):
            return
        there = {row.application_id for row in answer.page.applications}
        for application_id in found.missing:
            if application_id not in there:
                del self.missing[application_id]
        for slot in found.stale:
            if self.held.id_of(slot) not in there:
                del self.stale[slot]

    # Windows of held times, asked for in parts

    def parts(self) -> Iterator[tuple[ListedPage, Window]]:
        """Choose where pages are cut, the latest first, and return the parts to ask for."""
        most = _MOST_MOVED
        for page in sorted(self._pages, key=lambda page: page.window, reverse=True):
            moved = sorted(page.out_of_order)[-most:] if most else []
            most -= len(moved)
            page.cuts = array("q", self._cuts_within_margin(page, moved))
            # A part reaches a second into the next one, in case bounds are exclusive.
            ends = [*(cut + 1 for cut in page.cuts[1:]), page.window.before][: len(page.cuts)]
            yield from ((page, Window(*edges)) for edges in zip(page.cuts, ends, strict=True))

    def _cuts_within_margin(self, page: ListedPage, cuts: Sequence[int]) -> Sequence[int]:
        """Return these cuts, and as few others as put an end within the margin of each time."""
        if self._margin is None:
            return cuts
        ends = [*cuts, page.window.before]
        added: list[int] = []
        for first in sorted({self.held.latest[slot] + 1 for slot in self._open_slots(page)}):
            last = first + self._margin - 1
            is_within = added and added[-1] >= first
            if not is_within and ends[bisect_left(ends, first)] > last:
                added.append(last)
        return sorted([*cuts, *added])

    def take_part(self, page: ListedPage, part: Window, answer: Answer | None) -> None:
        """Take the rows of a part: they were updated after the held times before it."""
        if answer is None or not _is_whole(part, answer):
            page.unknown_from = max(part.after, page.unknown_from or part.after)
        if answer is None:
            return
        for row in answer.page.applications:
            slot = self.held.find(row.application_id)
            is_due = answer.echo.before <= self.until
            if slot is not None and is_due and self.held.latest[slot] < answer.echo.after:
                self.stale[slot] = answer.echo

    def _open_slots(self, page: ListedPage) -> Iterator[int]:
        return (slot for slot in page.slots if not self._is_recent[slot])

    # The result

    def undecided(self) -> tuple[int, int]:
        """Return how many were listed in the window of the held time and are undecided.

        And how many seconds after it any may have been updated again, at the most.
        """
        count, margin = len(self._undue), 0
        for page in self._pages:
            unknown = page.unknown_from
            decided = [cut for cut in page.cuts if unknown is None or cut > unknown]
            ends = [*decided, page.window.before]
            for slot in self._open_slots(page):
                if slot not in self.stale:
                    cut = self.held.latest[slot] + 1
                    possible = ends[bisect_left(ends, cut)] + 1 - cut
                    count += possible > (self._margin or 1)
                    margin = max(margin, possible)
        return count, margin

    def unlisted(self, after: int, saturated: Sequence[Window]) -> tuple[list[str], int]:
        """Return the ids that no walk listed from a second on, and how many may be hidden."""
        hidden = max((window.before for window in (*self._nameless, *saturated)), default=after)
        ids, unclear = [], 0
        for slot, is_listed in enumerate(self._is_listed):
            is_in_span = after < self.held.earliest[slot] and self.held.latest[slot] < self.until
            if is_listed or not is_in_span:
                continue
            if self.held.earliest[slot] <= hidden:
                unclear += 1
            else:
                ids.append(self.held.id_of(slot))
        return ids, unclear


def out_of_order(seconds: Sequence[int]) -> list[int]:
    """Return the seconds, as few as can be, without which the others ascend or descend.

    They are those that came too late for their place, not the ones that they passed. None are
    returned where so many would be that the others are in no order either.
    """
    fewest = min((_not_ascending(seconds), _not_ascending(seconds[::-1])), key=len)
    return fewest if len(fewest) <= _MOST_OUT_OF_ORDER * len(seconds) else []


def _not_ascending(seconds: Sequence[int]) -> list[int]:
    # The longest ascending rest, found from its end, so that later seconds are preferred.
    ends: list[int] = []
    lowest: list[int] = []
    following: list[int] = []
    for place in range(len(seconds) - 1, -1, -1):
        length = bisect_right(lowest, -seconds[place])
        lowest[length : length + 1] = [-seconds[place]]
        ends[length : length + 1] = [place]
        following.append(ends[length - 1] if length else -1)
    following.reverse()
    kept = set()
    place = ends[-1] if ends else -1
    while place >= 0:
        kept.add(place)
        place = following[place]
    return [second for place, second in enumerate(seconds) if place not in kept]


def _is_whole(window: Window, answer: Answer) -> bool:
    """Return whether a page holds every row between two bounds."""
    is_applied = answer.echo.after <= window.after and window.before <= answer.echo.before
    return is_applied and not answer.is_full


# The loop


@define(kw_only=True)
class Auditor:
    """Reads what is held, and the list, for one audit.

    Args:
        session: makes the requests.
        zone: the zone of the service's times that carry none.
        clock: sleeps where a walk waits for the service's clock.
        settle: seconds before the present from which on an update is not due.
        margin: seconds after a held time to within which it is proved not to be stale; None for
            what a walk proves.
        concurrency: list calls in flight at a time.
        limit: rows of one page.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    session: SessionManager
    zone: tzinfo
    clock: Clock
    settle: float
    margin: float | None
    concurrency: int
    limit: int = LARGEST_LIMIT
    _requests: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        check_not_negative("settle", self.settle)
        check_count("concurrency", self.concurrency)
        if self.margin is not None and (not is_number(self.margin) or self.margin < 1):
            raise invalid("margin", "None or a finite number, 1 or more", self.margin)

    async def run(self, held: Held, after: int | None, before: int | None) -> Audit:
        """Compare what is held with the list of a span, whose bounds are seconds."""
        _check_held(held)
        until = await self._read_until(before)
        if after is not None and after >= until:
            shown = aware_time(until, self.zone, near=None).isoformat()
            raise wrong("updated_after", f"must be before {shown}, since what follows is not due")
        margin = None if self.margin is None else floor(self.margin)
        comparison = Comparison(await read_held(held, self.zone), until, margin)
        covered = Intervals()
        saturated = await self._walk(after, until, comparison.add_page, covered)
        listed_from = next((w.after for w in covered if w.after <= until <= w.before), until)
        saturated += await self._walk(until, None, comparison.add_recent)
        await self._ask_all(
            (window, partial(comparison.look_again, window, found))
            for window, found in comparison.findings().items()
        )
        await self._ask_all(
            (part, partial(comparison.take_part, page, part)) for page, part in comparison.parts()
        )
        unlisted, _ = comparison.unlisted(listed_from, saturated)
        if comparison.missing or comparison.stale or unlisted:
            saturated += await self._walk(until - 1, until + 1, comparison.add_beside)
            saturated += await self._walk(until, None, comparison.add_recent)
            unlisted, _ = comparison.unlisted(listed_from, saturated)
            asks = (partial(self._confirm, comparison, one) for one in unlisted)
            await self._run_all(islice(asks, _MOST_CONFIRMED))
        return self._result(comparison, after, listed_from, saturated)

    async def _read_until(self, before: int | None) -> int:
        """Return the second before which an update is due."""
        reply = await ask_present(partial(self._ask, 1))
        if not 0 < reply.present <= END_OF_TIME:
            raise UnexpectedResponseError("the service sends no time", call="list_applications")
        present = reply.present - _BEHIND
        if reply.served_at is None:
            # In an hour that clocks repeat, it may be the first pass: the second is yet to come.
            near = aware_time(present, self.zone, near=None)
            present = service_second(near, self.zone, rounding=Rounding.DOWN)
        due = present - ceil(self.settle)
        return due if before is None else min(due, before)

    async def _walk(
        self,
        after: int | None,
        before: int | None,
        take: Callable[[Window, Sequence[ApplicationSummary]], None],
        covered: Intervals | None = None,
    ) -> tuple[Window, ...]:
        """Hand over every page of a span; return its saturated seconds.

        What complete pages hold is added to ``covered``.
        """

        def read(request: Request, response: Response) -> ApplicationPage:
            page = self._read(request, response)
            if covered is not None and len(page.applications) < self.limit:
                covered.add(echo_of(page))
            return page

        walk = ApplicationPaginator(
            self.session,
            after,
            before,
            None,
            limit=self.limit,
            concurrency=self.concurrency,
            on_saturated="report",
            clock=self.clock,
            zone=self.zone,
            read=read,
            keeps_malformed=True,
        )
        async with aclosing(walk.pages()) as pages:
            async for page in pages:
                take(echo_of(page), page.applications)
        return walk.saturated

    async def _ask_all(
        self, questions: Iterable[tuple[Window, Callable[[Answer | None], None]]]
    ) -> None:
        """Ask for what lies between bounds, and hand over each answer; None where it is refused."""

        async def ask(bounds: Window, take: Callable[[Answer | None], None]) -> None:
            try:
                answer = await self._ask(self.limit, Bounds(bounds.after, bounds.before))
            except InvalidRequestError:
                answer = None
            take(answer)

        await self._run_all(partial(ask, *question) for question in questions)

    async def _confirm(self, comparison: Comparison, application_id: str) -> None:
        """Ask for what no walk listed: it is gone if the service does not know it."""
        self._requests += 1
        try:
            request = get_application(application_id)
            read = partial(read_reply, Application, request)
            updated = (await self.session.call(request, read)).last_updated_at
        except (ConfigurationError, NotFoundError):  # no application can have the id, or has it
            comparison.gone.add(application_id)
        except (DecodeError, UnexpectedResponseError, InvalidRequestError):
            pass  # whether it was updated since is not known
        else:
            if service_second(updated, self.zone, rounding=Rounding.DOWN) >= comparison.until:
                comparison.known.add(application_id)

    async def _run_all(self, calls: Iterable[Callable[[], Awaitable[None]]]) -> None:
        """Make calls, as many at a time as may be in flight."""
        waiting = iter(calls)

        async def call_in_turn() -> None:
            for call in waiting:
                await call()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.concurrency):
                    group.create_task(call_in_turn())
        except ExceptionGroup as errors:
            raise errors.exceptions[0]

    async def _ask(self, limit: int, bounds: Bounds | None) -> Answer:
        return await ask_page(self.session, limit, self.zone, bounds, read=self._read)

    def _read(self, request: Request, response: Response) -> ApplicationPage:
        self._requests += 1
        return read_rows(request, response, keep_extra=False)

    def _result(
        self,
        comparison: Comparison,
        after: int | None,
        listed_from: int,
        saturated: Sequence[Window],
    ) -> Audit:
        is_all = after is None and listed_from <= 0
        not_listed, unclear = comparison.unlisted(listed_from, saturated)
        unlisted = [one for one in not_listed if one in comparison.gone]
        explained = comparison.gone | comparison.known
        unclear += sum(one not in explained for one in not_listed)
        undecided, margin = comparison.undecided()
        held = comparison.held
        stale = [
            StaleApplication(
                application_id=held.id_of(slot),
                held_at=aware_time(held.earliest[slot], self.zone, near=None),
                listed_in=window,
            )
            for slot, window in comparison.stale.items()
        ]
        return Audit(
            after=None if is_all else aware_time(listed_from, self.zone, near=None),
            until=aware_time(comparison.until, self.zone, near=None),
            held=len(held),
            listed=comparison.listed,
            missing=tuple(comparison.missing),
            stale=tuple(stale),
            unlisted=tuple(unlisted),
            undecided=undecided + unclear,
            margin=timedelta(seconds=margin),
            margin_asked=self.margin,
            saturated=tuple(dict.fromkeys(saturated)),
            unreadable=comparison.unreadable,
            requests=self._requests,
        )


def _check_held(held: object) -> None:
    if isinstance(held, str | bytes) or not isinstance(held, Iterable | AsyncIterable):
        raise invalid("held", "a mapping of ids to times, or an iterable of such pairs", held)


async def read_held(held: Held, zone: tzinfo) -> HeldTimes:
    """Read ids and times.

    Raises:
        ConfigurationError: an entry is not a pair of an id and a time.
    """
    times = HeldTimes()
    number = 0
    async with aclosing(_entries(held)) as entries:
        async for entry in entries:
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            number += 1
            match entry:
                case str(application_id), when if application_id:
                    try:
                        times.add(application_id, *_seconds_of(when, zone))
                    except ConfigurationError:
                        raise wrong("held", f"has no time in entry {number:,}")
                case _:
                    raise wrong("held", f"has no pair of an id and a time in entry {number:,}")
    return times


def _seconds_of(when: When, zone: tzinfo) -> tuple[int, int]:
    """Return a time, rounded down and up."""
    if zone is UTC and isinstance(when, datetime) and when.tzinfo is not None:
        # The usual case, ten times as fast: there may be a million.
        since = when.timestamp()
        if FIRST_SECOND <= since <= LAST_SECOND:
            return floor(since), ceil(since)
    return (
        service_second(when, zone, rounding=Rounding.DOWN),
        service_second(when, zone, rounding=Rounding.UP),
    )


async def _entries(held: Any) -> AsyncGenerator[Any, None]:
    match held:
        case Mapping():
            # It may change while others have a turn.
            for application_id in list(held):
                if (when := held.get(application_id)) is not None:
                    yield application_id, when
        case AsyncIterable():
            iterator = aiter(held)
            try:
                async for entry in iterator:
                    yield entry
            finally:
                close = getattr(iterator, "aclose", None)
                if close is not None:
                    await close()
        case _:
            for entry in held:
                yield entry
