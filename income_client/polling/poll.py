"""One poll: what is listed and read next, what of it is new, and what may be committed.

A poll lists everything updated since the checkpoint, up to the present as the
service tells it. The list says no more than that an application may have changed:
each one listed is read, and what was read decides whether it is delivered. The
checkpoint follows the pages that are done with, and stays behind service time.
What cannot be read becomes a dead letter before the checkpoint passes it; those
that are due are tried again after the listing.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final

from attrs import field, frozen

from income_client.errors import (
    IncomeClientError,
    InvalidRequestError,
    UnexpectedResponseError,
)
from income_client.records.applications import ApplicationPage
from income_client.records.dead_letters import DeadLetter, key_of_second
from income_client.records.documents import ApplicationRecord
from income_client.records.window import Window
from income_client.walk.planner import WalkPlanner
from income_client.walk.windows import Bounds, Delivery, Intervals, Pause, Question, second_of
from income_client.wire.times import FIRST_SECOND

from .checkpoint import Checkpoint
from .dead_letters import reason_of
from .memory import Memory
from .present import Present
from .reading import Read, Reading, Results, Row

_DAY: Final = 86_400
_MOST_LETTERS: Final = 20
_MOST_ASIDE: Final = 50
_STILL: Final = 2
_OVERFULL: Final = "SaturatedWindowError: more rows than one page holds"


@frozen(kw_only=True)
class Harvest:
    """What reading has brought."""

    records: tuple[ApplicationRecord, ...] = field(default=(), repr=False)
    """Those that are new, at most a hundred."""
    checkpoint: Checkpoint
    """What may be committed once they are delivered."""
    dead: tuple[DeadLetter, ...]
    """What must be stored before anything of this is committed."""
    resolved: tuple[str, ...]
    """Keys of dead letters that may be taken out once the records are delivered."""


class Poll:
    """Decides the steps of one poll, and takes what they bring.

    Args:
        memory: the poller's; changed as the poll goes on.
        frame: turns an aware time into a second of the service's frame.
        limit: rows asked for in one page.
        pursues: whether what is updated this very second is listed as well, which
            takes one more list call.
        elapsed: seconds since the last poll began; None where nobody knows.

    Attributes:
        unchanged: applications that were read and are as they were delivered.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        frame: Callable[[datetime], int],
        limit: int = 1000,
        pursues: bool = False,
        elapsed: int | None = None,
    ) -> None:
        memory.ledger.begin()
        self.unchanged: int = 0
        self._memory, self._frame, self._limit = memory, frame, limit
        self._lead = None if pursues else memory.lead
        self._is_running = elapsed is not None
        self._elapsed = _DAY if elapsed is None else elapsed
        self._planner = self._listing = self._new_listing()
        self._present = Present(memory.lead)
        self._reading = Reading(memory.witness)
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

    def next(self) -> Question | Pause | Read | None:
        """Return what to do now; None when the poll is over."""
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

    def receive_page(
        self, question: Question, page: ApplicationPage, *, served_at: int | None
    ) -> UnexpectedResponseError | None:
        """Take the page of a question.

        Args:
            question: one that ``next`` returned.
            page: the reply.
            served_at: the second at which the service says that it answered.

        Returns:
            The error that stands for a reply that tells no time.

        Raises:
            UnexpectedResponseError: the service answered another question.
        """
        if not self._present.is_known and question.bounds.before is None:
            untold = self._present.hear(second_of(page.updated_before), served_at)
            if untold is not None:
                return untold
            if self._begins_anew():
                return None
        self._planner.receive(question, page, served_at=served_at)
        return None

    def take_failure(self, question: Question, error: IncomeClientError) -> bool:
        """Take note that a question has failed; tell whether the poll goes on.

        There may be another way to ask. And a second that was overfull before holds
        nothing up if it cannot be listed again.
        """
        if isinstance(error, InvalidRequestError) and self._planner.refuse(question):
            return True
        if self._second is None:
            return False
        self._bury(self._second, reason_of(error))
        self._second = None
        self._planner = self._listing
        return True

    def receive_records(self, results: Results) -> Harvest | IncomeClientError:
        """Take what reading brought.

        Args:
            results: for each id that ``next`` asked for.

        Returns:
            What may be delivered and committed, or the error for which the poll fails.
        """
        taken = self._reading.receive(results)
        self._memory.witness = self._reading.witness
        if isinstance(taken, IncomeClientError):
            return taken if self._is_hopeless() else self._harvest(())
        if taken.read:
            # The service gives something: what was set aside must say why it is not given.
            self._reading.extend(self._aside)
            self._aside.clear()
        for lost in taken.given_up:
            self._memory.give_up(lost, now=self._now)
        admit = partial(self._memory.admit, frame=self._frame, now=self._now)
        records = tuple(version.record for row, version in taken.read if admit(row, version))
        self.unchanged += len(taken.read) - len(records)
        if not self._reading and not self._aside:
            self._close_pages()
        if records:
            self._memory.ledger.deliver()
        return self._harvest(records)

    def close(self) -> Harvest:
        """Return what may be committed at the end of the poll, without any record."""
        return self._harvest(())

    def _new_listing(self) -> WalkPlanner:
        # Whatever the bounds mean, every row from there on is listed.
        bounds = Bounds(max(self._memory.ledger.lower - 1, FIRST_SECOND), None)
        return WalkPlanner(
            bounds,
            limit=self._limit,
            walkers=1,
            keep_saturated=True,
            lead=self._lead,
            repeats=True,
        )

    def _begins_anew(self) -> bool:
        """List anew if the first reply tells that other seconds must be asked for.

        A clock that is behind what was reached has gone back, or ran ahead before: what was
        updated since the last poll carries its times. One that stands still would hide what
        its second holds until the next one begins.
        """
        ledger, now = self._memory.ledger, self._present.echoed
        last, self._memory.echoed = self._memory.echoed, now
        if now < (ledger.reached if ledger.low is None else ledger.low):
            second = now - self._elapsed - ledger.settle - 1
            ledger.fall_back(max(second, FIRST_SECOND), is_running=self._is_running)
        elif now == last and self._elapsed > _STILL and self._lead is not None:
            self._lead = None
        else:
            return False
        self._planner = self._listing = self._new_listing()
        return True

    def _harvest(self, records: tuple[ApplicationRecord, ...]) -> Harvest:
        letters = self._memory.letters
        return Harvest(
            records=records,
            checkpoint=self._memory.ledger.checkpoint(),
            dead=letters.unsaved,
            resolved=letters.resolved,
        )

    def _open_page(self, page: Delivery) -> None:
        self._pages.append(page)
        rows = [Row(row.application_id, page.covers) for row in page.applications]
        # What is new first: the others are probably as they were.
        self._reading.extend(sorted(rows, key=self._memory.is_seen))

    def _close_pages(self) -> None:
        for page in self._pages:
            self._planner.acknowledge(page)
        self._pages.clear()
        if self._planner is self._listing:
            self._advance()

    def _is_hopeless(self) -> bool:
        """Tell whether a poll must fail where nothing was given; set a few rows aside if not."""
        if self._is_listed or len(self._reading) + len(self._aside) > _MOST_ASIDE:
            return True
        self._aside += self._reading.set_aside()
        return False

    def _advance(self) -> None:
        """Move the checkpoint over all that is done without a gap."""
        listing, letters = self._listing, self._memory.letters
        for window in listing.saturated:
            if key_of_second(window) not in letters:
                self._bury(window, _OVERFULL)
        done = Intervals([*listing.covered, *listing.saturated])
        start = listing.bounds.after
        edge = next((w.before for w in done if w.after <= start < w.before), start)
        ledger = self._memory.ledger
        ledger.advance(min(edge, self._now - ledger.settle))

    def _has_more(self) -> bool:
        """Go on with what is due among the dead letters once everything is listed."""
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
            self._memory.lead = self._present.lead
            # The present is taken a second earlier than echoed, and may be rounded.
            self._memory.ledger.tell_time(self._present.no_earlier_than(present) + 2)
        for letter in self._memory.letters.due(self._now, most=_MOST_LETTERS):
            if letter.application_id is None:
                self._due_seconds.append(letter.window)
            else:
                self._reading.extend([Row(letter.application_id, letter.window, is_letter=True)])

    def _judge(self, second: Window) -> None:
        """Say of a second that was overfull whether it still is."""
        self._second = None
        if self._planner.saturated:
            self._bury(second, _OVERFULL)
        else:
            self._memory.letters.resolve(key_of_second(second))

    def _bury(self, second: Window, reason: str) -> None:
        self._memory.letters.put(None, second, reason, attempts=1, now=self._now)

    @property
    def _now(self) -> int:
        now = self.service_time
        return self._listing.bounds.after if now is None else now
