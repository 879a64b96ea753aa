"""Compare the service's list with the ids and update times that a program holds.

The rows of the list have no update time, but a row's update lies between the bounds of its page. So
a held time before the bounds is stale, and a held time after them is current. A held time between
them is undecided: the audit then lists a part of the page that begins just after that time.

The audit raises no false alarm, since only *due* updates count: those before ``until``, which is
``settle`` seconds before the present at the audit's beginning. The audit asks for the present
before it reads ``held``, so the program has had ``settle`` seconds to store a due update.

1. The first walk lists the span up to ``until``. Unknown ids may be missing, old times stale.
2. The second walk lists the span from ``until`` to the present. An application in it was updated
   after ``until``: it is not due, and neither missing nor stale.
3. Each window with a finding is listed again. An application that a complete page does not show any
   more was updated or deleted, and is no finding. If findings remain, the audit lists the seconds
   beside ``until``, since two exclusive bounds hide that second, and then makes the second walk
   again.
4. At most a thousand ids that no walk has listed are read one by one. An update may hide the old
   row before it shows the new one, so an application is deleted only if the service does not know
   it.

Update times only grow. The first walk lists an application with a held time in the span, unless an
update has moved it behind ``until``; then the second walk lists it, which misses no update during
the walk. So an id that neither walk has listed is not on the list: ``unlisted``. This holds for
held times after the earliest second that the service lists, and before ``until``. It does not hold
for held times before a saturated second or a row without an id, where the application may be.

The audit passes over no due update that is still the latest one, except an update in the window of
the held time. With ``margin``, the audit lists pages in parts to find those updates: a row that no
part after a cut contains was updated before the cut. So a cut within ``margin`` after each held
time proves that no row is older than that. The audit makes the fewest possible cuts, one call each.

Ids without a decision are counted: ``undecided``.
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
        application_id: id of the application.
        held_at: the program's update time, in the service's zone.
        listed_in: seconds that contain a later update.
    """

    application_id: str
    held_at: datetime
    listed_in: Window


@frozen(kw_only=True)
class Audit:
    """The result of comparing the service's list with the ids and times that a program holds.

    No other application is missing, or stale by more than ``margin``, unless a second in
    ``saturated`` or one of the ``unreadable`` rows hides it.

    Attributes:
        after: the time after which all updates were listed: later than the requested bound if the
            service lists no earlier updates; None for the beginning of time.
        until: the time before which an application's last update counts.
        held: number of ids held.
        listed: number of listed applications, without those updated after ``until``.
        missing: ids that are listed, and not held.
        stale: applications held with a time before their last update.
        unlisted: ids, held with a time of the span, that the service neither lists nor knows.
        undecided: number of ids about which the list says too little. Most are listed in the window
            of the held time, and may have been updated again in it, later than the requested
            margin. The others are not listed: they may be hidden in a saturated second, are known
            to the service with the held time, or were not read, since too many are not listed.
        in_future: number of ids held with a time after the service's present. The audit cannot
            find updates of these: often a local time was stored as UTC.
        later_than_listed: number of other ids held with a time after the page that lists them,
            which may have the same cause. A document may be updated later than the application,
            so this is only a warning.
        margin: the longest possible time from a held time to such an update.
        margin_asked: the requested margin in seconds; None without one.
        saturated: seconds with more applications than can be listed.
        unreadable: number of rows of the list without a readable id.
        requests: number of calls that the audit made.
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
