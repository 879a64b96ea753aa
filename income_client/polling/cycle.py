"""Polls, one after the other: what is listed and read, and what may be committed of it.

A poll lists everything updated since the checkpoint, up to the service's present. The list
says no more than that an application may have changed: each one listed is read, and what was
read decides whether it is delivered. The checkpoint follows the pages that are done with, and
stays behind service time.

A record that cannot be read is tried again after the others of its page, and then becomes a
dead letter, before the checkpoint passes it. A failure that may be the service's and not the
record's counts only while the service gives other records: if it gives none, the poll fails.
Dead letters that are due are tried again after the listing.
"""

import contextlib
from collections import deque
from collections.abc import Sequence
from itertools import islice
from math import ceil
from typing import Final

from attrs import define

from income_client.clock import Clock
from income_client.errors import (
    AuthenticationError,
    ClientClosedError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    IncomeClientError,
    InvalidRequestError,
    NotFoundError,
    UnexpectedResponseError,
)
from income_client.records.dead_letters import is_second, key_of_application, key_of_window
from income_client.records.documents import ApplicationRecord
from income_client.records.window import Window
from income_client.walk.planner import WalkPlanner
from income_client.walk.tail import END_OF_TIME
from income_client.walk.windows import Answer, Bounds, Delivery, Intervals, Question
from income_client.wire.times import FIRST_SECOND

from .batches import Records
from .checkpoint import DeadLetters, Progress, reason_of
from .reading import PollSource, Versioned, ids_on, key_of, nameless_on, updated_at
from .schedule import Schedule
from .status import Monitor

_BATCH_SIZE: Final = 100
_MOST_LETTERS: Final = 20
_WITNESSES: Final = 5
_CERTAIN: Final = (NotFoundError, DecodeError, ConfigurationError)
_ATTEMPTS_IF_CERTAIN: Final = 2
_ATTEMPTS_IF_LATE: Final = 1
_ATTEMPTS: Final = 3
_NAMELESS: Final = "DecodeError: a row of the list without an id"
_OVERFULL: Final = "SaturatedWindowError: more rows than one page holds"

_DAY: Final = 86_400
_SKEW: Final = 5
_STILL: Final = 2

_ENDING: Final = (AuthenticationError, ClientClosedError, ConfigurationError)


@define(kw_only=True)
class PollerState:
    """What a poller keeps from one poll to the next."""

    progress: Progress
    letters: DeadLetters
    date_ahead: int = 0
    """Seconds by which the service's `Date` was found to run ahead of its echo, or behind it."""
    echoed: int | None = None
    """The present that the service echoed in the last poll."""
    witness: str | None = None
    """An application that was read not long ago, which shows whether the service gives any."""


@define
class Row:
    """An application that the list showed in a window and that is still to be read."""

    application_id: str
    window: Window
    is_letter: bool = False
    """Whether it was given up before, and is not tried twice."""
    attempts: int = 0


class Poll:
    """One poll: the listing, the reading of what is listed, and the dead letters that are due."""

    def __init__(
        self,
        state: PollerState,
        source: PollSource,
        schedule: Schedule,
        monitor: Monitor,
        *,
        clock: Clock,
        to_the_end: bool = False,
        elapsed: int | None = None,
    ) -> None:
        self._state, self._source = state, source
        self._schedule, self._monitor = schedule, monitor
        self._clock = clock
        self.began: float = clock.monotonic()
        self._date_ahead = None if to_the_end else state.date_ahead
        self._elapsed = elapsed
        self._echoed = 0
        self._date: int | None = None
        self._latest: int | None = None
        self._listing = self._planner = self._new_listing()
        self._page: Delivery | None = None
        self._rows: deque[Row] = deque()
        self._due_seconds: list[Window] | None = None
        self._second: Window | None = None
        self._nameless: str | None = None
        """Why a row has no id that the window of a dead letter holds, which is tried again."""
        self.has_read: bool = False
        """Whether the records read last were given by the service, some of them at least."""

    async def next(self) -> Records | None:
        """Return what was read next and is new, a batch at most; None at the end."""
        while True:
            if self._rows:
                return await self._read()
            if self._planner.ready:
                self._open(self._planner.ready.popleft())
                continue
            question = self._planner.next()
            if question is not None:
                await self._ask(question)
            elif not self._turn_to_letters():
                return None

    # Listing

    def _new_listing(self) -> WalkPlanner:
        # Whatever the bounds mean, every row from there on is listed.
        bounds = Bounds(max(self._state.progress.lower - 1, FIRST_SECOND), None)
        return WalkPlanner(
            bounds,
            limit=self._source.limit,
            walkers=1,
            keep_saturated=True,
            date_ahead=self._date_ahead,
            repeats=True,
        )

    async def _ask(self, question: Question) -> None:
        if question.delay:
            await self._schedule.unless_stopped(self._clock.sleep(question.delay))
        try:
            answer = await self._schedule.unless_stopped(self._source.ask(question.bounds))
            if self._date is not None or not self._begins_anew(answer):
                self._planner.receive(question, answer)
        except IncomeClientError as error:
            if isinstance(error, InvalidRequestError) and self._planner.refuse(question):
                return  # there is another way to ask
            if self._second is None or isinstance(error, _ENDING):
                raise
            # A saturated second that cannot be listed again holds nothing up.
            self._put_second(self._second, reason_of(error), is_retry=True)
            self._second, self._planner = None, self._listing
        self._monitor.hear(self._service_time)

    def _begins_anew(self, answer: Answer) -> bool:
        """Take the time of the first reply; list anew if other seconds must be asked for."""
        if answer.served_at is None and answer.echo.before > END_OF_TIME:
            raise UnexpectedResponseError("list_applications: the service sends no time")
        now = self._echoed = answer.echo.before
        self._date = now if answer.served_at is None else answer.served_at
        self._latest = answer.served_at
        progress = self._state.progress
        last, self._state.echoed = self._state.echoed, now
        elapsed = _DAY if self._elapsed is None else self._elapsed
        if now < progress.position:
            # Its clock has gone back, or ran ahead before: what was updated since the last poll
            # carries its times.
            second = max(now - elapsed - progress.settle - 1, FIRST_SECOND)
            progress.fall_back(second, is_running=self._elapsed is not None)
        elif now == last and elapsed > _STILL and self._date_ahead is not None:
            # A clock that does not move hides what its second holds until the next one begins.
            self._date_ahead = None
        else:
            return False
        self._planner = self._listing = self._new_listing()
        return True

    @property
    def _service_time(self) -> int | None:
        """The service's second, the earlier of what it says; None before it has said any."""
        if self._date is None or self._listing.present is None:
            return None
        return min(self._date, self._listing.present + 1)

    @property
    def _now(self) -> int:
        now = self._service_time
        return self._listing.bounds.after if now is None else now

    def _latest_present(self) -> int | None:
        """Return the latest that the present may be; None while the service time is not known."""
        # Where windows are cut short, the first echoes say nothing of it.
        heard = [one for one in (self._latest, self._listing.present) if one is not None]
        return max(heard) + ceil(self._clock.monotonic() - self.began) if heard else None

    def _open(self, page: Delivery) -> None:
        self._page = page
        rows = [Row(application_id, page.covers) for application_id in ids_on(page.page)]
        if nameless := nameless_on(page.page):
            self._put_nameless(page.covers, f"{_NAMELESS} ({nameless[0].error.message})")
        # What is new first: the others are probably as they were.
        progress = self._state.progress
        self._rows.extend(
            sorted(rows, key=lambda row: progress.is_seen(key_of(row.application_id)))
        )
        if not rows:
            self._close()

    def _close(self) -> None:
        if self._page is not None:
            self._planner.acknowledge(self._page)
            self._page = None
        if self._planner is self._listing:
            self._advance()

    def _advance(self) -> None:
        """Move the checkpoint over all that is done without a gap."""
        listing, letters = self._listing, self._state.letters
        for window in listing.saturated:
            if key_of_window(window) not in letters:
                self._put_second(window, _OVERFULL)
        done = Intervals([*listing.covered, *listing.saturated])
        start = listing.bounds.after
        edge = next((w.before for w in done if w.after <= start < w.before), start)
        progress = self._state.progress
        held = {key_of(one) for one in letters.application_ids}
        progress.advance(min(edge, self._now - progress.settle), held)

    # Reading

    async def _read(self) -> Records:
        rows = list(islice(self._rows, _BATCH_SIZE))
        ids = [row.application_id for row in rows]
        attempts = min(row.attempts for row in rows)
        if attempts:
            await self._schedule.pause(attempts)
        read, failed = await self._schedule.unless_stopped(self._source.read(ids))
        if not read and _doubtful(rows, failed) is not None:
            others = await self._others(ids)
            await self._schedule.pause(attempts + 1)
            asked = self._source.read([*ids, *others])
            read, failed = await self._schedule.unless_stopped(asked)
            if not read and (error := _doubtful(rows, failed)) is not None:
                self._state.witness = None
                raise error
        self.has_read = bool(read)
        self._state.witness = next(reversed(read), self._state.witness)
        records = []
        for row in rows:
            self._rows.popleft()
            version = read.get(row.application_id)
            if version is None:
                self._retry_or_give_up(row, failed[row.application_id])
            elif self._is_new(row, version):
                records.append(version)
            else:
                self._monitor.unchanged += 1
        if not self._rows:
            self._close()
        progress = self._state.progress
        self._monitor.warn_of_unchanged(progress.settle + progress.lookback)
        if records:
            progress.deliver()
        return tuple(records)

    async def _others(self, ids: Sequence[str]) -> list[str]:
        """Return other applications, to see whether the service gives anything at all."""
        witness = self._state.witness
        if witness is not None and witness not in ids:
            return [witness]
        asked = self._source.ask(Bounds(0, None), limit=len(ids) + _WITNESSES)
        try:
            answer = await self._schedule.unless_stopped(asked)
        except InvalidRequestError:
            return []
        return [one for one in ids_on(answer.page) if one not in ids][:_WITNESSES]

    def _is_new(self, row: Row, version: Versioned[ApplicationRecord]) -> bool:
        """Take a version that was read; return whether it is new."""
        updated = None
        with contextlib.suppress(ConfigurationError):  # beyond the calendar
            updated = self._source.frame(updated_at(version.payload))
        if self._state.letters:
            self._state.letters.resolve(key_of_application(row.application_id))
        return self._state.progress.admit(
            key_of(row.application_id),
            version.digest,
            listed_in=row.window,
            updated=updated,
            latest=self._latest_present(),
        )

    def _retry_or_give_up(self, row: Row, error: IncomeClientError) -> None:
        row.attempts += 1
        if not row.is_letter and row.attempts < _enough(error):
            self._rows.append(row)
            return
        self._state.letters.put(
            row.application_id,
            row.window,
            reason_of(error),
            attempts=row.attempts,
            now=self._now,
            is_retry=row.is_letter,
        )

    # Dead letters

    def _turn_to_letters(self) -> bool:
        """Continue with the dead letters that are due once all is listed; False at the end."""
        if self._due_seconds is None:
            self._due_seconds = []
            self._finish_listing(self._due_seconds)
            return True
        if self._second is not None:
            self._judge(self._second)
        if not self._due_seconds:
            return False
        self._second = second = self._due_seconds.pop()
        self._nameless = None
        bounds = Bounds(second.after - 1, second.before)
        self._planner = WalkPlanner(bounds, limit=self._source.limit, walkers=1)
        return True

    def _finish_listing(self, due_seconds: list[Window]) -> None:
        self._advance()
        present = self._listing.present
        # The list may have continued behind the echo: then the echo was not the present.
        if self._date is not None and present is not None and present - self._echoed <= _SKEW:
            self._state.date_ahead = self._date - self._echoed
        for letter in self._state.letters.due(self._now, most=_MOST_LETTERS):
            if letter.application_id is None:
                due_seconds.append(letter.window)
            else:
                self._rows.append(Row(letter.application_id, letter.window, is_letter=True))

    def _judge(self, second: Window) -> None:
        """Note whether a second still is saturated, or a row of a window still has no id."""
        self._second = None
        overfull = _OVERFULL if self._planner.saturated else None
        reason = overfull if is_second(second) else self._nameless
        if reason is not None:
            self._put_second(second, reason, is_retry=True)
        else:
            self._state.letters.resolve(key_of_window(second))

    def _put_nameless(self, window: Window, reason: str) -> None:
        """Note that a page of a window holds a row without an id."""
        if self._second is not None and not is_second(self._second):
            self._nameless = reason
            return
        for part in self._state.letters.windows_around(window):
            self._put_second(part, reason)

    def _put_second(self, second: Window, reason: str, *, is_retry: bool = False) -> None:
        letters = self._state.letters
        letters.put(None, second, reason, attempts=1, now=self._now, is_retry=is_retry)


def _doubtful(
    rows: Sequence[Row], failed: dict[str, IncomeClientError]
) -> IncomeClientError | None:
    """Return a failure that may be the service's own, if there is one."""
    errors = [failed[row.application_id] for row in rows if not row.is_letter]
    return next((error for error in errors if not _is_certain(error)), None)


def _enough(error: IncomeClientError) -> int:
    """Return after how many attempts an application is given up."""
    if isinstance(error, DeadlineExceededError):
        # Its time is lost to all others, and a dead letter is tried again as well.
        return _ATTEMPTS_IF_LATE
    return _ATTEMPTS_IF_CERTAIN if _is_certain(error) else _ATTEMPTS


def _is_certain(error: IncomeClientError) -> bool:
    """Return whether a failure is about the record and not about the service."""
    return isinstance(error, _CERTAIN) and not error.retryable
