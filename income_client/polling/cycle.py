"""One poll: list applications, read them, and move the progress.

The first poll lists everything that was updated since the checkpoint, up to the service's present.
Later ones list what no poll has listed yet; then, for updates that are listed late, what was listed
before; and, once `settle` has passed, the rest of what the progress is to move over (`listings`). A
listed application may or may not have changed: it is read, and the content decides whether it is
delivered. The progress follows the pages of which every row is read since `settle` has passed.

An application that cannot be read is tried again after the others of its page, and then becomes a
dead letter before the progress passes it (`attempts`). Overdue dead letters are tried again after
the listing.

A poll has four phases: ListingAll or ListingNew, then Relisting once for each span that is listed
again, then Retrying once for each window of an overdue dead letter, then Listed. Rows that a phase
has opened are read before the phase continues.
"""

import contextlib
from collections import deque
from collections.abc import Sequence
from itertools import islice
from math import ceil, inf
from typing import Final, assert_never

from attrs import define, field, frozen

from income_client.errors import (
    AuthenticationError,
    ClientClosedError,
    ConfigurationError,
    IncomeClientError,
    InvalidRequestError,
    UnexpectedResponseError,
)
from income_client.records.dead_letters import is_second, key_of_application, key_of_window
from income_client.records.documents import ApplicationRecord
from income_client.records.window import Window
from income_client.system.clock import Clock
from income_client.walk.planner import WalkPlanner
from income_client.walk.tail import END_OF_TIME
from income_client.walk.windows import Answer, Bounds, Delivery, Intervals, echo_of
from income_client.wire.times import FIRST_SECOND

from .attempts import OF_ACCOUNT, Row, RowReader, counts_against_application, most_attempts
from .batches import Records
from .dead_letters import DeadLetters, dead_letter_reason
from .listings import PARTS_OF_AGE, Listings, Span
from .progress import Progress
from .reading import PollSource, Versioned, ids_on, key_of, nameless_on, updated_at
from .schedule import Schedule
from .status import Monitor

_MOST_LETTERS: Final = 20
"""Most dead letters that one poll tries again, since each may take as long as the deadline."""
_NAMELESS: Final = "DecodeError: a row of the list without an id"
_OVERFULL: Final = "SaturatedWindowError: more rows than one page holds"

_DAY: Final = 86_400
"""Seconds since the last successful poll of any process, where they are unknown."""
_MINUTE: Final = 60
_SKEW: Final = 5
_STILL: Final = 2
_MARGIN: Final = 2
"""Seconds by which `settle` must outlast the time since the last poll, for parts to be listed."""

_ENDING: Final = (AuthenticationError, ClientClosedError, ConfigurationError)


@define(kw_only=True)
class PollerState:
    """The state of a poller between polls."""

    progress: Progress
    letters: DeadLetters
    reader: RowReader
    listings: Listings = field(factory=Listings)
    includes_first: bool = False
    """Whether a page has shown a row of the second of its lower bound; only a hint, which spares
    the reading of one second more."""
    future_until: float = -inf
    """Time of the clock until which a woken poll lists up to a bound in the future at once: the
    service has applied such a bound lately, and `Date` gives the present."""
    date_ahead: int = 0
    """Seconds by which `Date` was ahead of the echo in the last poll; may be negative."""
    echoed: int | None = None
    """The present second in the first reply of the last poll; None before that."""


@frozen
class _FirstReply:
    """The service's time in the first reply of a poll."""

    echoed: int
    """The present second, from the echoed window; from `Date` where that ends in the future."""
    served_at: int | None
    """The second in the `Date` field; None without one."""

    @property
    def date(self) -> int:
        """The second of the reply: that of `Date`, or else of the echo."""
        return self.echoed if self.served_at is None else self.served_at

    @property
    def earliest(self) -> int:
        """The earliest second at which the service can have replied."""
        # An echo far from `Date` belongs to a window that the service has cut short.
        is_close = abs(self.date - self.echoed) <= _SKEW
        return min(self.date, self.echoed) if is_close else self.date


@frozen
class _ListingAll:
    """All updates since the checkpoint are being listed, and each page is read before the next."""


@frozen
class _ListingNew:
    """The updates that no poll has listed yet are being listed; the whole list is read at once."""


@define
class _Relisting:
    """Seconds that an earlier poll has listed are listed again, and read as far as needed."""

    window: Window
    planner: WalkPlanner
    is_due: bool
    """Whether `settle` has passed since: every row is read, and the progress moves over them."""
    earliest_date: int | None = None
    """The earliest second in the `Date` of a reply; None without any."""
    latest_bound: int | None = None
    """The latest upper bound that a reply without `Date` has applied; None without any."""

    def note_time(self, bounds: Bounds, answer: Answer) -> None:
        """Note what the reply to a question with these bounds shows of its server's clock."""
        date, bound = answer.served_at, answer.echo.before
        if date is not None:
            self.earliest_date = min(date, self.earliest_date or date)
        elif bounds.before is not None:
            self.latest_bound = max(bound, self.latest_bound or bound)

    @property
    def has_passed(self) -> bool:
        """Whether the window had passed by the clock of each server that has listed it."""
        # Without `Date`, a server whose clock is behind may apply an earlier bound than was sent.
        times = (self.earliest_date, self.latest_bound)
        return all(second is None or second >= self.window.before for second in times)


@define
class _Retrying:
    """The window of a dead letter is being listed again, and its applications read."""

    window: Window
    planner: WalkPlanner
    due: Sequence[Window]
    """Windows of dead letters to list after this one."""
    nameless: str | None = None
    """The fault of a row without an id in the window; None if all rows have ids."""


@frozen
class _Listed:
    """The list is complete; the last records are being read."""


class Poll:
    """One poll of the service."""

    def __init__(
        self,
        state: PollerState,
        source: PollSource,
        schedule: Schedule,
        monitor: Monitor,
        clock: Clock,
    ) -> None:
        self._state, self._source = state, source
        self._schedule, self._monitor = schedule, monitor
        self._clock = clock
        self._began = clock.monotonic()
        to_the_end = schedule.is_urgent or schedule.ends_with_poll
        self._date_ahead = None if to_the_end else state.date_ahead
        self._first_reply: _FirstReply | None = None
        elapsed = schedule.seconds_since_success(self._began)
        is_all_due = elapsed is None or elapsed + _MARGIN >= state.progress.settle
        lists_all = is_all_due or state.listings.until is None
        self._phase: _ListingAll | _ListingNew | _Relisting | _Retrying | _Listed
        self._phase = _ListingAll() if lists_all else _ListingNew()
        self._begins_at_end = to_the_end and not lists_all and self._began < state.future_until
        """Whether the first page is the last one, up to a bound in the future."""
        self._listing = self._new_listing()
        self._spans: deque[Span] = deque()
        """Seconds to list again after the current phase."""
        self._listed_from: int = state.progress.position
        """First second that the whole poll lists, and each after it."""
        self._must_list_all_next = False
        """Whether due seconds were listed by a server for which they had not passed."""
        self._page: Delivery | None = None
        """The page whose rows are being read, if the progress moves over it; otherwise None."""
        self._rows: deque[Row] = deque()

    async def next_records(self) -> Records | None:
        """Return the next new records, at most a batch and perhaps none; None at the end."""
        while True:
            if self._rows:
                return await self._read_rows()
            if isinstance(self._phase, _Listed):
                return None
            if not await self._list_more():
                self._phase = self._next_phase()

    async def _list_more(self) -> bool:
        """List more in the current phase; return False once that is over."""
        match self._phase:
            case _ListingAll():
                return await self._list_further(self._listing)
            case _ListingNew():
                return await self._list_to_end(self._listing)
            case _Relisting(planner=planner):
                return await self._list_to_end(planner)
            case _Retrying() as retrying:
                return await self._list_again(retrying)
            case _Listed():
                return False
            case _:
                assert_never(self._phase)

    def _next_phase(self) -> "_Relisting | _Retrying | _Listed":
        """Do what ends the current phase, and return the phase after it."""
        match self._phase:
            case _ListingAll():
                self._advance_checkpoint(self._listing)
                return self._relist(are_all_read=True)
            case _ListingNew():
                self._note_saturated(self._listing)
                return self._relist(are_all_read=False)
            case _Relisting() as relisting:
                self._end_relisting(relisting)
                return self._relist_next()
            case _Retrying(due=due):
                return self._retry_first_of(due)
            case _Listed() as listed:
                return listed
            case _:
                assert_never(self._phase)

    # Listing

    def _new_listing(self) -> WalkPlanner:
        first = self._state.progress.lower
        # One second early, so that an exclusive bound lists the first second as well.
        early = 1
        until = self._state.listings.until
        if isinstance(self._phase, _ListingNew) and until is not None:
            first = max(first, until)
            # Were the bound exclusive after all, later polls would list the first second again.
            early = 0 if self._state.includes_first else 1
        return self._planner_from(
            first - early,
            None,
            date_ahead=self._date_ahead,
            begins_at_end=self._begins_at_end,
        )

    def _planner_from(
        self,
        after: int,
        before: int | None,
        *,
        date_ahead: int | None = None,
        begins_at_end: bool = False,
    ) -> WalkPlanner:
        return WalkPlanner(
            Bounds(max(after, FIRST_SECOND), before),
            limit=self._source.limit,
            walkers=1,
            keep_saturated=True,
            date_ahead=date_ahead,
            begins_at_end=begins_at_end,
            repeats=True,
        )

    def _list_all(self) -> None:
        """List everything since the checkpoint, because the service's clock was set back."""
        self._phase = _ListingAll()
        self._begins_at_end = False
        self._state.listings.forget()
        self._listing = self._new_listing()

    def _relist(self, *, are_all_read: bool) -> "_Relisting | _Retrying | _Listed":
        """Return the phase after the listing, the latest of the spans to list again first."""
        self._note_date_ahead()
        state, now = self._state, self._service_time
        position = self._listed_from = state.progress.position
        if not are_all_read and now is not None:
            settled = self._source.earlier_second(now, state.progress.settle)
            relisting = state.listings.plan(now, position=position, settled=settled)
            self._spans += relisting.spans
            self._listed_from = relisting.listed_from
            if not relisting.is_all:
                self._schedule.hasten(state.progress.settle / PARTS_OF_AGE)
        return self._relist_next()

    def _relist_next(self) -> "_Relisting | _Retrying | _Listed":
        if self._spans:
            span = self._spans.popleft()
            # What lies within `lookback` is listed with what is due.
            first = min(span.first, self._state.progress.lower) if span.is_due else span.first
            window = Window(first, span.before)
            return _Relisting(window, self._planner_from(first - 1, span.before), span.is_due)
        listings = self._state.listings
        if (now := self._service_time) is None or self._must_list_all_next:
            listings.forget()
        else:
            listings.note(self._listed_from, now)
            listings.forget_before(self._state.progress.position)
        return self._retry_first_of(self._due_windows())

    def _end_relisting(self, relisting: _Relisting) -> None:
        self._note_saturated(relisting.planner)
        if not relisting.is_due:
            return
        if relisting.has_passed:
            self._advance_to(relisting.window.before)
        else:
            # The server may not list the whole window yet. The next poll lists all, and moves the
            # progress as far as its own server's clock allows.
            self._must_list_all_next = True

    async def _list_to_end(self, planner: WalkPlanner) -> bool:
        """List what is left of a walk, before any of its rows is read; return whether it was left.

        An application on two of its pages is read once.
        """
        has_listed = False
        while await self._list_further(planner):
            has_listed = True
        return has_listed

    async def _list_further(self, planner: WalkPlanner) -> bool:
        """Open the next page, or request one; return False once the listing is complete."""
        if planner.ready:
            self._open_page(planner.ready.popleft())
            return True
        question = planner.next()
        if question is None:
            return False
        if question.delay:
            await self._schedule.unless_stopped(self._clock.sleep(question.delay))
        try:
            answer = await self._schedule.unless_stopped(self._source.ask_list(question.bounds))
        except InvalidRequestError:
            self._state.future_until = -inf
            if not planner.refuse(question) and not await self._follow_clock():
                raise
            return True  # the planner has another form of the question
        match self._phase:
            case _ListingAll() | _ListingNew():
                self._note_future(question.bounds, answer)
            case _Relisting() as relisting:
                relisting.note_time(question.bounds, answer)
            case _:
                pass
        if self._first_reply is not None or not self._must_list_anew(answer):
            planner.receive(question, answer)
        self._monitor.note_service_time(self._service_time)
        return True

    def _note_future(self, bounds: Bounds, answer: Answer) -> None:
        """Note whether the service applies a bound in the future as it was sent."""
        if bounds.before is None:
            return
        if answer.served_at is None or answer.echo.before != bounds.before or answer.is_full:
            self._state.future_until = -inf
        elif bounds.before > answer.served_at and not self._begins_at_end:
            # For some time only: a page without an upper bound shows how far `Date` is ahead.
            self._state.future_until = self._clock.monotonic() + _MINUTE

    async def _follow_clock(self) -> bool:
        """List anew if the refused bounds lie in the service's future; return whether they do.

        A service that refuses bounds in the future gives no other sign of a clock that went back.
        """
        if self._first_reply is not None:
            return False
        if isinstance(self._phase, _ListingNew):
            self._list_all()
            return True
        now = await self._schedule.unless_stopped(self._source.ask_present())
        is_ahead = now < self._listing.bounds.after
        if is_ahead:
            self._fall_back(now)
        return is_ahead

    def _fall_back(self, now: int) -> None:
        """List again from before the present, after the service's clock went back.

        Updates since the last poll carry times of the clock that went back, and it may have run
        ahead before.
        """
        progress = self._state.progress
        # Until the reply: the list call may have been tried again for minutes.
        elapsed = self._schedule.seconds_since_success(self._clock.monotonic())
        elapsed = _DAY if elapsed is None else elapsed
        second = self._source.earlier_second(now, elapsed + progress.settle + 1)
        self._monitor.clock_fell_back(progress.reached + progress.settle - now)
        progress.fall_back(second)
        self._list_all()

    def _must_list_anew(self, answer: Answer) -> bool:
        """Note the time of the first reply; return whether the listing must begin anew."""
        if self._begins_at_end and answer.served_at is None:
            self._begins_at_end = False
            self._listing = self._new_listing()
            return True
        if answer.served_at is None and answer.echo.before > END_OF_TIME:
            raise UnexpectedResponseError("the service sends no time", call="list_applications")
        now = answer.echo.before
        if self._begins_at_end and answer.served_at is not None:
            now = answer.served_at - self._state.date_ahead
        self._first_reply = _FirstReply(now, answer.served_at)
        progress = self._state.progress
        last, self._state.echoed = self._state.echoed, now
        if now < progress.position:
            self._fall_back(now)
            return True
        elapsed = self._schedule.seconds_since_success(self._began)
        is_still = now == last and (elapsed is None or elapsed > _STILL)
        must_look_ahead = is_still and self._date_ahead is not None
        if must_look_ahead:
            # With a clock that stands still, the present second is listed only up to its bound.
            self._date_ahead = None
        until = self._state.listings.until
        # Servers whose clocks differ a little are no clock that went back: the updates that they
        # make in seconds before `until` are like updates that are listed late.
        is_behind = until is not None and now < until - _SKEW
        if must_look_ahead or is_behind or (is_still and isinstance(self._phase, _ListingNew)):
            self._list_all()
            return True
        return False

    @property
    def _service_time(self) -> int | None:
        """The present second of the service, the earlier of echo and `Date`; None if unknown."""
        present = self._listing.present
        if self._first_reply is None or present is None:
            return None
        if self._begins_at_end and self._listing.requests == 1:
            return self._first_reply.earliest
        return min(self._first_reply.earliest, present + 1)

    @property
    def _present_second(self) -> int:
        now = self._service_time
        return self._listing.bounds.after if now is None else now

    @property
    def _latest_present(self) -> int | None:
        """The latest second that may be the present; None while the service time is unknown."""
        # The first echoes of windows that the service cuts short do not show the present.
        served_at = None if self._first_reply is None else self._first_reply.served_at
        heard = [second for second in (served_at, self._listing.present) if second is not None]
        return max(heard) + ceil(self._clock.monotonic() - self._began) if heard else None

    def _note_date_ahead(self) -> None:
        """Note for the next poll by how many seconds `Date` is ahead of the echo."""
        first, present = self._first_reply, self._listing.present
        # If the list continued beyond the echo, the echo was not the present.
        if first is not None and present is not None and present - first.echoed <= _SKEW:
            self._state.date_ahead = first.date - first.echoed

    def _open_page(self, page: Delivery) -> None:
        progress, window = self._state.progress, page.covers
        if isinstance(self._phase, _Relisting):
            # The last page of a walk that ends shortly before the present covers nothing.
            window = page.covers or self._phase.window
        if nameless := nameless_on(page.page):
            self._put_nameless(window, f"{_NAMELESS} ({nameless[0].error.message})")
        after = echo_of(page.page).after
        rows = [Row(application_id, window, after) for application_id in ids_on(page.page)]
        match self._phase:
            case _ListingAll():
                self._page = page
            case _ListingNew():
                waiting = {row.application_id for row in self._rows}
                rows = [row for row in rows if row.application_id not in waiting]
            case _Relisting(is_due=False):
                rows = [row for row in rows if not self._is_read(row)]
            case _:
                pass
        # Unknown applications first, since known ones have probably not changed.
        self._rows.extend(sorted(rows, key=lambda row: progress.is_seen(row.key)))
        if not self._rows:
            self._close_page()

    def _is_read(self, row: Row) -> bool:
        return self._state.progress.is_read(row.key, row.window.after)

    def _close_page(self) -> None:
        """Move the progress over a page whose rows are all read or dead letters."""
        page, self._page = self._page, None
        if page is not None:
            self._listing.acknowledge(page)
            self._advance_checkpoint(self._listing)

    def _note_saturated(self, planner: WalkPlanner) -> None:
        for window in planner.saturated:
            if key_of_window(window) not in self._state.letters:
                self._put_window(window, _OVERFULL)

    def _advance_checkpoint(self, planner: WalkPlanner) -> None:
        """Move the progress over all covered windows up to the first gap."""
        self._note_saturated(planner)
        covered = Intervals([*planner.covered, *planner.saturated])
        start = planner.bounds.after
        edge = next((window.before for window in covered if window.contains(start)), start)
        settle = self._state.progress.settle
        settled = self._source.earlier_second(self._present_second, settle)
        self._advance_to(min(edge, settled))

    def _advance_to(self, second: int) -> None:
        progress, letters = self._state.progress, self._state.letters
        dead_keys = {key_of(application_id) for application_id in letters.application_ids}
        progress.advance(second, dead_keys)

    # Reading

    async def _read_rows(self) -> Records:
        """Read the next rows, at most a batch; return the new records."""
        rows = list(islice(self._rows, self._source.batch_size))
        outcomes = await self._state.reader.read(rows)
        records = []
        for row, outcome in zip(rows, outcomes, strict=True):
            self._rows.popleft()
            if isinstance(outcome, IncomeClientError):
                if counts_against_application(outcome, outcomes):
                    self._retry_or_give_up(row, outcome)
                elif not row.is_letter:
                    row.postponed += 1
                    self._rows.append(row)
            elif self._admit_version(row, outcome):
                records.append(outcome)
            else:
                self._monitor.unchanged += 1
        if not self._rows:
            self._close_page()
        progress = self._state.progress
        self._monitor.warn_of_unchanged(progress.lookback)
        if records:
            progress.deliver()
        return tuple(records)

    def _admit_version(self, row: Row, version: Versioned[ApplicationRecord]) -> bool:
        """Remember a version that was read; return whether it must be delivered."""
        updated = None
        with contextlib.suppress(ConfigurationError):  # beyond the calendar
            moment = updated_at(version.payload)
            updated = self._source.last_second_of(moment)
            if self._source.second_of(moment) == row.listed_after:
                self._state.includes_first = True
        letter = key_of_application(row.application_id)
        was_dead = letter in self._state.letters
        self._state.letters.resolve(letter)
        key, progress = row.key, self._state.progress
        last_updated = progress.updated(key)
        # The list may have shown the update long ago, in a span with the one that was read.
        may_be_hidden = isinstance(self._phase, _Relisting) and progress.is_read(
            key, progress.position
        )
        is_new = progress.admit(
            key,
            version.digest,
            listed_in=row.window,
            updated=updated,
            latest=self._latest_present,
        )
        is_update = is_new and not was_dead and updated != last_updated
        if is_update and not may_be_hidden and updated is not None:
            self._note_lateness(updated, row.window)
        return is_new

    def _note_lateness(self, updated: int, window: Window) -> None:
        """Note how late an update was listed, if an earlier poll has listed what was there."""
        listings = self._state.listings
        if listings.until is None:
            return
        seconds = 0
        if updated < listings.until:
            listed_at = listings.listed_at(updated)
            if listed_at is None or not window.contains(updated):
                return  # outside, the row was listed for another update, or at another time
            # It was made within its second, and the list was complete within another.
            seconds = max(0, listed_at - updated - 1)
        progress = self._state.progress
        progress.lateness.note(seconds, self._present_second)
        self._monitor.warn_of_lateness(seconds, progress.settle)

    def _retry_or_give_up(self, row: Row, error: IncomeClientError) -> None:
        row.attempts += 1
        if not row.is_letter and row.attempts < most_attempts(error):
            self._rows.append(row)
            return
        self._state.letters.record_failure(
            row.application_id,
            row.window,
            dead_letter_reason(error),
            attempts=row.attempts,
            now=self._present_second,
            is_retry=row.is_letter,
        )

    # Dead letters

    def _due_windows(self) -> list[Window]:
        """Add rows for overdue applications; return the windows of other overdue dead letters."""
        windows = []
        for letter in self._state.letters.due(self._present_second, most=_MOST_LETTERS):
            if letter.application_id is None:
                windows.append(letter.window)
            else:
                self._rows.append(Row(letter.application_id, letter.window, is_letter=True))
        return windows

    def _retry_first_of(self, due: Sequence[Window]) -> _Retrying | _Listed:
        if not due:
            return _Listed()
        window, *later = due
        bounds = Bounds(window.after - 1, window.before)
        return _Retrying(window, WalkPlanner(bounds, limit=self._source.limit, walkers=1), later)

    async def _list_again(self, retrying: _Retrying) -> bool:
        """List more of a dead letter's window; return False once that is over or has failed."""
        try:
            if await self._list_further(retrying.planner):
                return True
            self._judge_window(retrying)
        except IncomeClientError as error:
            if isinstance(error, _ENDING):
                raise
            # A window that cannot be listed again must not fail the poll.
            if not isinstance(error, OF_ACCOUNT):
                self._put_window(retrying.window, dead_letter_reason(error), is_retry=True)
        return False

    def _judge_window(self, retrying: _Retrying) -> None:
        """Resolve a window's dead letter, unless it is still saturated or a row still has no id."""
        window, planner = retrying.window, retrying.planner
        has_passed = planner.present is not None and planner.present > window.before
        if planner.requests > 1 and not has_passed:
            # The service's clock went back during the poll: the list does not show the window.
            return
        overfull = _OVERFULL if planner.saturated else None
        reason = overfull if is_second(window) else retrying.nameless
        if reason is not None:
            self._put_window(window, reason, is_retry=True)
        else:
            self._state.letters.resolve(key_of_window(window))

    def _put_nameless(self, window: Window, reason: str) -> None:
        """Note that a page contains a row without an id."""
        match self._phase:
            case _Retrying() as retrying if not is_second(retrying.window):
                retrying.nameless = reason
            case _:
                for part in self._state.letters.windows_around(window):
                    self._put_window(part, reason)

    def _put_window(self, window: Window, reason: str, *, is_retry: bool = False) -> None:
        letters = self._state.letters
        letters.record_failure(
            None, window, reason, attempts=1, now=self._present_second, is_retry=is_retry
        )
