"""Runs polls one after the other, step by step, until one brings a batch; hands out nothing."""

from collections.abc import Awaitable, Callable
from math import ceil
from typing import Final, TypeVar

from income_client.clock import Clock
from income_client.errors import (
    AuthenticationError,
    CheckpointError,
    ClientClosedError,
    ConfigurationError,
    IncomeClientError,
)
from income_client.walk.windows import Pause, Question

from .batches import Batch
from .checkpoint import Checkpoint
from .handover import Handover
from .lease import Claim
from .ledger import Ledger
from .memory import Memory
from .news import PollNews
from .pauses import Pauses
from .poll import Harvest, Poll
from .reading import Read
from .schedule import Rhythm, growing
from .source import PollSource
from .status import Tally
from .versions import RecordVersion

T = TypeVar("T")

_ENDING: Final = (AuthenticationError, ClientClosedError, ConfigurationError)
_REFUSED_SECONDS: Final = 300.0
"""How long credentials that have worked may be refused: providers do that while deployed."""
_STORE_TRIES: Final = 6
"""Tries to store something, about half a minute, before a single poll fails for it."""
_LONGEST_STORE_PAUSE: Final = 60.0


class PollRunner:
    """The polls of one poller.

    Args:
        source: reads pages and applications.
        claim: the poller's hold on its name.
        handover: makes batches and commits them.
        start: where to begin if nothing is kept; None for the present.
        settle: seconds that the checkpoint stays behind service time.
        lookback: seconds before the checkpoint that are read again each time.
        rhythm: says when the next poll begins.
        pauses: waits for it.
        clock: what is waited by.
        news: told of each poll's end.

    Attributes:
        tally: the counts.
        memory: what was delivered, and what could not be read; None before the claim.
        ends_with_poll: whether the end of a poll is the end of all.
    """

    def __init__(
        self,
        source: PollSource,
        claim: Claim,
        handover: Handover,
        *,
        start: Checkpoint | int | None,
        settle: int,
        lookback: int,
        rhythm: Rhythm,
        pauses: Pauses,
        clock: Clock,
        news: PollNews,
    ) -> None:
        self.tally: Tally = Tally()
        self.memory: Memory | None = None
        self.ends_with_poll = False
        self._source = source
        self._claim = claim
        self._handover = handover
        self._start = start
        self._settle, self._lookback = settle, lookback
        self._rhythm = rhythm
        self._pauses = pauses
        self._clock = clock
        self._news = news
        self._poll: Poll | None = None
        self._harvest: Harvest | None = None
        self._is_over = False
        self._have_credentials_worked = False
        self._refused_since: float | None = None
        self._begins = 0.0
        self._began: float | None = None

    @property
    def reached(self) -> int | None:
        """The second that the checkpoint has come to; None before the claim."""
        return None if self.memory is None else self.memory.ledger.reached

    @property
    def is_polling(self) -> bool:
        """Whether a poll is under way."""
        return self._poll is not None

    def interrupt(self) -> None:
        """Forget what was under way, to begin it anew; the ledger knows what was delivered."""
        self._poll = None

    async def next_batch(self) -> Batch | None:
        """Run until there is a batch; None once it was stopped.

        Raises:
            IncomeClientError: no pause makes it better, or the poll was to be the last.
        """
        while not self._pauses.is_stopped:
            batch = await self.persist(self._step)
            if batch is not None:
                self.tally.failures = 0
                return batch
        self._poll = None
        return None

    async def persist(self, step: Callable[[], Awaitable[T]]) -> T:
        """Do something, again and again with pauses while it fails and may succeed later.

        A failing store leaves the poll in hand as it is: only the step is made again.

        Raises:
            IncomeClientError: no pause makes it better, or there is no time for one.
        """
        tries = 0
        while True:
            try:
                return await step()
            except IncomeClientError as error:
                tries += 1
                is_of_store = isinstance(error, CheckpointError)
                if not is_of_store:
                    self._poll = None
                now = self._clock.monotonic()
                self.tally.fail(error)
                is_last = self._is_last(error, now, tries)
                if not is_last and not is_of_store:
                    self._rhythm.fail(now, error, self.tally.failures)
                # Only now is it known when the next one begins.
                lag = self.tally.lag(now, self.reached)
                self._news.failed(self.tally.failures, lag, error, is_last=is_last)
                if is_last:
                    raise
            if is_of_store:
                await self._pauses.pause(min(_LONGEST_STORE_PAUSE, growing(tries)))
            else:
                await self._pauses.until_turn()

    def _is_last(self, error: IncomeClientError, now: float, tries: int) -> bool:
        """Tell whether a failure ends the poller, and keep track of refused credentials."""
        match error:
            case CheckpointError():
                is_last = self.ends_with_poll and tries >= _STORE_TRIES
                is_last = is_last or not error.retryable
            case AuthenticationError():
                if self._refused_since is None:
                    self._refused_since = now
                is_long = now - self._refused_since >= _REFUSED_SECONDS
                is_last = is_long or self.ends_with_poll or not self._have_credentials_worked
            case ClientClosedError() | ConfigurationError():
                is_last = True
            case _:
                self._refused_since = None
                is_last = self.ends_with_poll
        return is_last or self._pauses.is_stopped

    async def _step(self) -> Batch | None:
        if self._pauses.is_stopped:
            return None
        if self._harvest is not None:
            batch = await self._handover.bring_in(self._harvest, self.persist)
            self._harvest = None
            if self._is_over and self.ends_with_poll:
                self._pauses.stop()
            return batch
        if self._poll is not None:
            await self._go_on(self._poll)
        elif self.memory is None:
            await self._begin()
        else:
            await self._begin_poll(self.memory)
        return None

    async def _begin(self) -> None:
        given = self._start if isinstance(self._start, Checkpoint) else None
        taken = await self._pauses.unless_stopped(self._claim.take(given, self._first_second))
        if taken is not None:
            checkpoint, letters = taken
            ledger = Ledger(checkpoint, settle=self._settle, lookback=self._lookback)
            self.memory = Memory(ledger=ledger, letters=self._handover.receive(letters))
            self._news.committed(checkpoint.reached)

    async def _first_second(self) -> int:
        if isinstance(self._start, int):
            return self._start
        present = await self._source.present()
        self._have_credentials_worked = True
        return present

    async def _begin_poll(self, memory: Memory) -> None:
        await self._pauses.until_turn()
        await self._pauses.unless_stopped(self._claim.check())
        if self._pauses.is_stopped:
            return
        now = self._clock.monotonic()
        self._rhythm.begin(now)
        self._is_over = False
        elapsed = None if self._began is None else ceil(now - self._began)
        self._begins = now
        self.tally.unchanged = 0
        self._poll = Poll(
            memory,
            frame=self._source.frame,
            limit=self._source.limit,
            pursues=self._rhythm.is_urgent or self.ends_with_poll,
            elapsed=elapsed,
        )

    async def _go_on(self, poll: Poll) -> None:
        match poll.next():
            case None:
                self._harvest = poll.close()
                self._poll, self._is_over = None, True
                self._began = self._begins
                self._refused_since = None
                self.tally.succeed()
                now = self._clock.monotonic()
                self._rhythm.succeed()
                self._news.finished(self.tally.polls, self.tally.lag(now, self.reached))
            case Pause(seconds):
                await self._pauses.unless_stopped(self._clock.sleep(seconds))
            case Question() as question:
                await self._ask(poll, question)
            case Read() as read:
                await self._read(poll, read)

    async def _ask(self, poll: Poll, question: Question) -> None:
        try:
            reply = await self._pauses.unless_stopped(self._source.ask(question.bounds))
            if reply is None:
                return
            self._have_credentials_worked = True
            failure = poll.receive_page(question, reply.page, served_at=reply.served_at)
        except IncomeClientError as error:
            if isinstance(error, _ENDING) or not poll.take_failure(question, error):
                raise
            return
        del reply
        if failure is not None:
            raise failure
        self.tally.hear(poll.service_time, self._clock.monotonic())

    async def _read(self, poll: Poll, read: Read) -> None:
        if read.pause:
            await self._pauses.pause(read.pause)
        results = await self._pauses.unless_stopped(self._source.read(read.application_ids))
        if results is None:
            return
        if any(isinstance(result, RecordVersion) for result in results.values()):
            self._refused_since = None
        ended = next((r for r in results.values() if isinstance(r, ClientClosedError)), None)
        outcome = ended or poll.receive_records(results)
        self.tally.read_again(poll.unchanged, self._settle + self._lookback)
        del results, poll
        if isinstance(outcome, IncomeClientError):
            raise outcome
        self._harvest = outcome
