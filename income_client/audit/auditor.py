"""Compare the service's list with the ids and update times that a program holds.

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
update in the very window of the held time. With ``margin``, pages are asked for in parts to find
those too: a row that is in no part behind a cut was updated before it, so a cut within ``margin``
of each held time proves that none is older than that. As few cuts are made as can be, one call
each.

What is left is counted: ``undecided``.
"""

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Sequence,
)
from contextlib import aclosing
from datetime import datetime, timedelta, tzinfo
from functools import partial
from itertools import islice
from math import ceil, floor
from typing import Final

from attrs import define, field, frozen

from income_client.errors import (
    ConfigurationError,
    DecodeError,
    InvalidRequestError,
    NotFoundError,
    UnexpectedResponseError,
)
from income_client.http.endpoints import LARGEST_LIMIT, Request, Response, get_application
from income_client.http.replies import read_reply, read_rows
from income_client.http.session import SessionManager
from income_client.records.applications import Application, ApplicationPage, ApplicationSummary
from income_client.records.window import Window
from income_client.settings import check_count, check_not_negative, invalid, is_number, wrong
from income_client.system.clock import Clock
from income_client.walk.paginator import ApplicationPaginator, ask_page, ask_present
from income_client.walk.tail import END_OF_TIME
from income_client.walk.windows import Answer, Bounds, Intervals, echo_of
from income_client.wire.times import Rounding, aware_time, earlier_second, service_second

from .comparison import Comparison
from .held import Held, HeldTimes, check_held, read_held

_MOST_CONFIRMED: Final = 1_000
"""Most calls for single ids: about as many as list calls for a million rows."""
_SKEW: Final = 5
"""Seconds by which two clocks of one service may differ."""
_BEHIND: Final = 1
"""Seconds by which the present is taken earlier than it is echoed: the service may round up."""


@frozen(kw_only=True)
class StaleApplication:
    """An application whose listed version is newer than the program's.

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
    """The result of comparing the service's list with the ids and times that a program holds.

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
        in_future: how many ids are held with a time after the service's present. The audit cannot
            find updates of these: often a local time was stored as UTC.
        later_than_listed: how many other ids are held with a time after the page on which they were
            listed, which may have the same cause. A document may be updated later than the
            application, so this is a warning alone.
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
    in_future: int
    later_than_listed: int
    margin: timedelta
    margin_asked: float | None
    saturated: tuple[Window, ...]
    unreadable: int
    requests: int

    @property
    def drift(self) -> int:
        """Number of ids that are missing, stale or unlisted."""
        return len(self.missing) + len(self.stale) + len(self.unlisted)

    @property
    def is_complete(self) -> bool:
        """Whether nothing was found, and nothing was hidden from the audit, as by a future time.

        If a margin was asked for, also whether it was reached, so that nothing is undecided. If
        none was, updates in the same window as the time held may have been passed over.
        """
        is_reached = self.margin_asked is None or not self.undecided
        is_clear = not (self.saturated or self.unreadable or self.in_future)
        return is_reached and is_clear and not self.drift


@define(kw_only=True)
class Auditor:
    """Reads the program's times and the service's list for one audit.

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
    _present: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        check_not_negative("settle", self.settle)
        check_count("concurrency", self.concurrency)
        if self.margin is not None and (not is_number(self.margin) or self.margin < 1):
            raise invalid("margin", "None or a finite number, 1 or more", self.margin)

    async def run(self, held: Held, after: int | None, before: int | None) -> Audit:
        """Compare the program's times with the list of a span, whose bounds are seconds."""
        check_held(held)
        until = await self._read_until(before)
        if after is not None and after >= until:
            end = aware_time(until, self.zone, near=None).isoformat()
            raise wrong("updated_after", f"must be before {end}, since what follows is not due")
        margin = None if self.margin is None else floor(self.margin)
        comparison = Comparison(await read_held(held, self.zone), until, margin)
        covered = Intervals()
        saturated = await self._walk(after, until, comparison.add_page, covered)
        listed_from = next((w.after for w in covered if w.after <= until <= w.before), until)
        saturated += await self._walk(until, None, comparison.add_recent)
        await self._ask_all(
            (window, partial(comparison.look_again, window, findings))
            for window, findings in comparison.findings().items()
        )
        await self._ask_all(
            (part, partial(comparison.take_part, page, part)) for page, part in comparison.parts()
        )
        unlisted, _ = comparison.unlisted(listed_from, saturated)
        if comparison.missing or comparison.stale or unlisted:
            saturated += await self._walk(until - 1, until + 1, comparison.add_beside)
            saturated += await self._walk(until, None, comparison.add_recent)
            unlisted, _ = comparison.unlisted(listed_from, saturated)
            asks = (
                partial(self._confirm, comparison, application_id) for application_id in unlisted
            )
            await self._run_all(islice(asks, _MOST_CONFIRMED))
        in_future = await self._count_future(comparison.held)
        return self._result(comparison, after, listed_from, saturated, in_future)

    async def _count_future(self, held: HeldTimes) -> int:
        """Return how many ids are held with a time after the service's present."""
        latest = max(held.earliest, default=0)
        # The present is asked for again, since updates may be held that came after the first reply.
        if latest <= self._present or latest <= (present := await self._read_present()) + _SKEW:
            return 0
        return sum(second > present + _SKEW for second in held.earliest)

    async def _read_until(self, before: int | None) -> int:
        """Return the second before which an update is due."""
        self._present = await self._read_present()
        settled = earlier_second(self._present, ceil(self.settle), self.zone)
        return settled if before is None else min(settled, before)

    async def _read_present(self) -> int:
        """Return the service's present second."""
        reply = await ask_present(partial(self._ask, 1))
        if not 0 < reply.present <= END_OF_TIME:
            raise UnexpectedResponseError("the service sends no time", call="list_applications")
        present = reply.present - _BEHIND
        if reply.served_at is None:
            # In an hour that clocks repeat, it may be the first pass: the second is yet to come.
            near = aware_time(present, self.zone, near=None)
            present = service_second(near, self.zone, rounding=Rounding.DOWN)
        return present

    async def _walk(
        self,
        after: int | None,
        before: int | None,
        take: Callable[[Window, Sequence[ApplicationSummary]], None],
        covered: Intervals | None = None,
    ) -> tuple[Window, ...]:
        """Pass every page of a span to ``take``; return the saturated seconds.

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
        """Make a list call for each window, and pass on its answer; None for a refused window."""

        async def ask(bounds: Window, take: Callable[[Answer | None], None]) -> None:
            try:
                answer = await self._ask(self.limit, Bounds(bounds.after, bounds.before))
            except InvalidRequestError:
                answer = None
            take(answer)

        await self._run_all(partial(ask, *question) for question in questions)

    async def _confirm(self, comparison: Comparison, application_id: str) -> None:
        """Read an application that no walk listed, to learn whether the service knows it."""
        self._requests += 1
        try:
            request = get_application(application_id)
            read = partial(read_reply, Application, request)
            updated = (await self.session.call(request, read)).last_updated_at
        except (ConfigurationError, NotFoundError):  # no application can have the id, or has it
            comparison.unknown_ids.add(application_id)
        except (DecodeError, UnexpectedResponseError, InvalidRequestError):
            pass  # whether it was updated since is not known
        else:
            if service_second(updated, self.zone, rounding=Rounding.DOWN) >= comparison.until:
                comparison.updated_later.add(application_id)

    async def _run_all(self, calls: Iterable[Callable[[], Awaitable[None]]]) -> None:
        """Make calls at the same time, within the client's concurrency."""
        waiting = iter(calls)

        async def call_in_turn() -> None:
            for call in waiting:
                await call()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.concurrency):
                    group.create_task(call_in_turn())
        except ExceptionGroup as errors:
            failure = errors.exceptions[0]
        else:
            return
        # Not in the block above, where its cause would be replaced.
        raise failure

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
        in_future: int,
    ) -> Audit:
        is_all = after is None and listed_from <= 0
        not_listed, unclear = comparison.unlisted(listed_from, saturated)
        unlisted = [
            application_id
            for application_id in not_listed
            if application_id in comparison.unknown_ids
        ]
        explained = comparison.unknown_ids | comparison.updated_later
        unclear += sum(application_id not in explained for application_id in not_listed)
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
            in_future=in_future,
            later_than_listed=max(0, comparison.later_than_listed - in_future),
            margin=timedelta(seconds=margin),
            margin_asked=self.margin,
            saturated=tuple(dict.fromkeys(saturated)),
            unreadable=comparison.unreadable,
            requests=self._requests,
        )
