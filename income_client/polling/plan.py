"""Decide the steps of one poll: what is listed and read next, and what may be committed.

A poll lists everything updated since the checkpoint, up to the service's present. The list
says no more than that an application may have changed: each one listed is read, and what was
read decides whether it is delivered. The checkpoint follows the pages that are done with, and
stays behind service time. What cannot be read becomes a dead letter before the checkpoint
passes it; those that are due are tried again after the listing.
"""

import contextlib
from collections.abc import Callable
from datetime import datetime
from typing import Final

from attrs import define, field, frozen

from income_client.errors import (
    ConfigurationError,
    IncomeClientError,
    InvalidRequestError,
    UnexpectedResponseError,
)
from income_client.records.dead_letters import DeadLetter, key_of_application, key_of_second
from income_client.records.documents import ApplicationRecord
from income_client.records.window import Window
from income_client.walk.planner import WalkPlanner
from income_client.walk.windows import Answer, Bounds, Delivery, Intervals, Question
from income_client.wire.times import FIRST_SECOND

from .checkpoint import Checkpoint, Progress
from .dead_letters import DeadLetters, reason_of
from .reading import GivenUp, Read, Reading, RecordVersion, Results, Row, key_of

_DAY: Final = 86_400
_HOUR: Final = 3_600
_SKEW: Final = 5
_END_OF_TIME: Final = 3_786_912_000
"""The beginning of 2090: a bound beyond it means no bound, and is not the present."""
_MOST_LETTERS: Final = 20
_MOST_ASIDE: Final = 50
_STILL: Final = 2
_OVERFULL: Final = "SaturatedWindowError: more rows than one page holds"


@frozen(kw_only=True)
class Chunk:
    """Records of a poll that make one batch, and what may be stored with them."""

    records: tuple[ApplicationRecord, ...] = field(default=(), repr=False)
    """Those that are new, at most a hundred."""
    checkpoint: Checkpoint
    """What may be committed once they are delivered."""
    dead: tuple[DeadLetter, ...]
    """What must be stored before anything of this is committed."""
    resolved: tuple[str, ...]
    """Keys of dead letters that may be removed once the records are delivered."""


@define(kw_only=True)
class PollerState:
    """What a poller keeps from one poll to the next."""

    progress: Progress
    """What was delivered."""
    letters: DeadLetters
    """What could not be read."""
    lead: int = 0
    """Seconds by which the service's `Date` was found to run ahead of its echo, or behind it."""
    witness: str | None = None
    """An application that was read not long ago."""
    echoed: int | None = None
    """The present that the service echoed in the last poll."""

    def __attrs_post_init__(self) -> None:
        for application_id in self.letters.application_ids:
            self.progress.hold(key_of(application_id))


class Present:
    """The service's time at the beginning of a poll, before anything else was listed."""

    def __init__(self, lead: int = 0) -> None:
        self.lead: int = lead
        self._echoed: int | None = None
        self._told = 0

    @property
    def is_known(self) -> bool:
        """Whether a reply has shown it."""
        return self._echoed is not None

    @property
    def echoed(self) -> int:
        """The present second by the clock that the list goes by."""
        return self._told if self._echoed is None else self._echoed

    def hear(self, echoed: int, served_at: int | None) -> None:
        """Take echo and `Date` of a poll's first reply; raise if it shows no time."""
        if served_at is None and echoed > _END_OF_TIME:
            raise UnexpectedResponseError("list_applications: the service tells no time")
        self._echoed, self._told = echoed, echoed if served_at is None else served_at

    def no_later_than(self, listed: int) -> int:
        """Return service time for a checkpoint: the smaller of `Date` and the present listed."""
        return min(self._told, listed)

    def no_earlier_than(self, listed: int) -> int:
        """Return a second by which everything was written that was read before the poll."""
        return min(listed, self._told + _HOUR)

    def learn(self, listed: int) -> None:
        """Note how far `Date` is from the echo, if the echo was the present that was listed."""
        if self._echoed is not None and listed - self._echoed <= _SKEW:
            self.lead = self._told - self._echoed


class Poll:
    """Decides the steps of one poll, and takes what they bring.

    Args:
        state: the poller's; changed during the poll.
        frame: turns an aware time into a second of the service's frame.
        limit: rows asked for in one page.
        pursues: whether what is updated this very second is listed as well, which
            takes one more list call.
        elapsed: seconds since the last poll began; None if unknown.

    Attributes:
        unchanged: applications that were read and are as they were delivered.
    """

    def __init__(
        self,
        state: PollerState,
        *,
        frame: Callable[[datetime], int],
        limit: int = 1000,
        pursues: bool = False,
        elapsed: int | None = None,
    ) -> None:
        state.progress.begin()
        self.unchanged: int = 0
        self._state, self._frame, self._limit = state, frame, limit
        self._lead = None if pursues else state.lead
        self._is_running = elapsed is not None
        self._elapsed = _DAY if elapsed is None else elapsed
        self._planner = self._listing = self._new_listing()
        self._present = Present(state.lead)
        self._reading = Reading(state.witness)
        self._pages: list[Delivery] = []
        self._aside: list[Row] = []
        self._is_listed = self._is_finished = False
        self._due_seconds: list[Window] = []
        self._second: Window | None = None

    @property
    def service_time(self) -> int | None:
        """The service's second, the earlier of what it says; None before it has said any."""
        if not self._present.is_known or self._listing.present is None:
            return None
        return self._present.no_later_than(self._listing.present + 1)

    def next(self) -> Question | Read | None:
        """Return the next step; None when the poll is over."""
        while True:
            if self._reading:
                return self._reading.next()
            if self._pages and not self._aside:
                self._close_pages()
            elif self._planner.ready:
                self._open_page(self._planner.ready.popleft())
            elif (action := self._planner.next()) is not None:
                return action
            elif not self._has_more():
                return None

    def receive_page(self, question: Question, answer: Answer) -> None:
        """Take the page of a question; raise `UnexpectedResponseError` if it is not its answer."""
        if not self._present.is_known and question.bounds.before is None:
            self._present.hear(answer.echo.before, answer.served_at)
            if self._begins_anew():
                return
        self._planner.receive(question, answer)

    def take_failure(self, question: Question, error: IncomeClientError) -> bool:
        """Note that a question has failed; return whether the poll continues.

        There may be another way to ask, and a saturated second that cannot be listed again
        holds nothing up.
        """
        if isinstance(error, InvalidRequestError) and self._planner.refuse(question):
            return True
        if self._second is None:
            return False
        self._put_second(self._second, reason_of(error))
        self._second = None
        self._planner = self._listing
        return True

    def receive_records(self, results: Results) -> Chunk:
        """Return what may be delivered and committed; raise the error of a poll that fails."""
        try:
            taken = self._reading.receive(results)
        except IncomeClientError:
            if self._is_hopeless():
                raise
            return self._chunk(())
        self._state.witness = self._reading.witness
        if taken.read:
            # The service gives something: what was set aside must say why it is not given.
            self._reading.extend(self._aside)
            self._aside.clear()
        for lost in taken.given_up:
            self._give_up(lost)
        records = tuple(one.record for row, one in taken.read if self._is_new(row, one))
        self.unchanged += len(taken.read) - len(records)
        if not self._reading and not self._aside:
            self._close_pages()
        if records:
            self._state.progress.deliver()
        return self._chunk(records)

    def close(self) -> Chunk:
        """Return what may be committed at the end of the poll, without any record."""
        return self._chunk(())

    def _new_listing(self) -> WalkPlanner:
        # Whatever the bounds mean, every row from there on is listed.
        bounds = Bounds(max(self._state.progress.lower - 1, FIRST_SECOND), None)
        return WalkPlanner(
            bounds,
            limit=self._limit,
            walkers=1,
            keep_saturated=True,
            lead=self._lead,
            repeats=True,
        )

    def _begins_anew(self) -> bool:
        """List anew if the first reply shows that other seconds must be asked for.

        A clock that is behind what was reached has gone back, or ran ahead before: what was
        updated since the last poll carries its times. One that does not move would hide what
        its second holds until the next one begins.
        """
        progress, now = self._state.progress, self._present.echoed
        last, self._state.echoed = self._state.echoed, now
        if now < (progress.reached if progress.low is None else progress.low):
            second = now - self._elapsed - progress.settle - 1
            progress.fall_back(max(second, FIRST_SECOND), is_running=self._is_running)
        elif now == last and self._elapsed > _STILL and self._lead is not None:
            self._lead = None
        else:
            return False
        self._planner = self._listing = self._new_listing()
        return True

    def _chunk(self, records: tuple[ApplicationRecord, ...]) -> Chunk:
        letters = self._state.letters
        return Chunk(
            records=records,
            checkpoint=self._state.progress.checkpoint(),
            dead=letters.unsaved,
            resolved=letters.resolved,
        )

    def _open_page(self, page: Delivery) -> None:
        self._pages.append(page)
        rows = [Row(row.application_id, page.covers) for row in page.page.applications]
        # What is new first: the others are probably as they were.
        self._reading.extend(sorted(rows, key=self._is_seen))

    def _is_seen(self, row: Row) -> bool:
        return self._state.progress.is_seen(key_of(row.application_id))

    def _is_new(self, row: Row, version: RecordVersion) -> bool:
        """Take a version that was read; return whether it is new."""
        updated = None
        with contextlib.suppress(ConfigurationError):  # beyond the calendar
            updated = self._frame(version.updated_at)
        key, progress = key_of(row.application_id), self._state.progress
        self._state.letters.resolve(key_of_application(row.application_id))
        progress.release(key)
        return progress.admit(
            key, version.digest, listed_in=row.window, updated=updated, now=self._now
        )

    def _give_up(self, lost: GivenUp) -> None:
        row, reason = lost.row, reason_of(lost.error)
        self._state.progress.hold(key_of(row.application_id))
        self._state.letters.put(
            row.application_id, row.window, reason, attempts=row.attempts, now=self._now
        )

    def _close_pages(self) -> None:
        for page in self._pages:
            self._planner.acknowledge(page)
        self._pages.clear()
        if self._planner is self._listing:
            self._advance()

    def _is_hopeless(self) -> bool:
        """Return whether a poll that can read nothing must fail; if not, set its rows aside."""
        if self._is_listed or len(self._reading) + len(self._aside) > _MOST_ASIDE:
            return True
        self._aside += self._reading.set_aside()
        return False

    def _advance(self) -> None:
        """Move the checkpoint over all that is done without a gap."""
        listing, letters = self._listing, self._state.letters
        for window in listing.saturated:
            if key_of_second(window) not in letters:
                self._put_second(window, _OVERFULL)
        done = Intervals([*listing.covered, *listing.saturated])
        start = listing.bounds.after
        edge = next((w.before for w in done if w.after <= start < w.before), start)
        progress = self._state.progress
        progress.advance(min(edge, self._now - progress.settle))

    def _has_more(self) -> bool:
        """Continue with the dead letters that are due once everything is listed."""
        if self._aside:  # nothing else was listed that could tell: once more
            self._is_listed = True
            self._reading.extend(self._aside)
            self._aside.clear()
            return True
        if not self._is_finished:
            self._is_listed = self._is_finished = True
            self._finish_listing()
            return True
        if self._second is not None:
            self._judge(self._second)
        if not self._due_seconds:
            return False
        self._second = second = self._due_seconds.pop()
        bounds = Bounds(second.after - 1, second.before)
        self._planner = WalkPlanner(bounds, limit=self._limit, walkers=1)
        return True

    def _finish_listing(self) -> None:
        self._advance()
        present = self._listing.present
        if present is not None:
            self._present.learn(present)
            self._state.lead = self._present.lead
            # The present is taken a second earlier than echoed, and may be rounded.
            self._state.progress.tell_time(self._present.no_earlier_than(present) + 2)
        for letter in self._state.letters.due(self._now, most=_MOST_LETTERS):
            if letter.application_id is None:
                self._due_seconds.append(letter.window)
            else:
                self._reading.extend([Row(letter.application_id, letter.window, is_letter=True)])

    def _judge(self, second: Window) -> None:
        """Note whether a second that was saturated still is."""
        self._second = None
        if self._planner.saturated:
            self._put_second(second, _OVERFULL)
        else:
            self._state.letters.resolve(key_of_second(second))

    def _put_second(self, second: Window, reason: str) -> None:
        self._state.letters.put(None, second, reason, attempts=1, now=self._now)

    @property
    def _now(self) -> int:
        now = self.service_time
        return self._listing.bounds.after if now is None else now
