"""Drives polls over the session for as long as somebody iterates; decides little itself.

Between two batches nothing is under way: every task ends before the consumer's
loop goes on. So there is nothing to clean up when that loop is left, and a batch
is all that can come twice.
"""

import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from math import ceil
from typing import Any, Final, Self, TypeVar

from income_client.checkpoints import CheckpointStore
from income_client.clock import Clock
from income_client.errors import ConfigurationError
from income_client.instrumentation import Instrumentation
from income_client.records.documents import ApplicationRecord
from income_client.settings import check_not_negative, check_positive

from .batches import Batch
from .checkpoint import Checkpoint
from .cycle import PollRunner
from .handover import Handover
from .lease import Claim
from .news import PollNews
from .pauses import Pauses
from .schedule import Rhythm
from .source import PollSource
from .status import PollerStatus

T = TypeVar("T")

_LONGEST_PAUSE: Final = 60.0
_LONGEST_SPAN: Final = 10 * 366 * 86_400.0


class Poller:
    """Every update of every application, for as long as it is iterated (contract section 4.1).

    Iterate over it for records, or over ``batches()`` for batches; both share one
    position. A batch of records is committed when the consumer comes back after its
    last one. Whatever fails at the service is tried again with growing pauses and
    shown in ``status``; nothing is under way while the consumer has the word.

    A loop over records that is entered again goes on with the next one: where a record
    may fail and must come again, iterate over batches.

    Made by ``IncomeClient.poll``, which says what the arguments are; ``start`` is a second
    of the service's frame here, or a checkpoint, ``instrumentation`` is told of what happens, and
    ``chance`` is the jitter's source.

    Raises:
        ConfigurationError: an argument cannot be meant.
    """

    def __init__(
        self,
        source: PollSource,
        checkpoints: CheckpointStore,
        *,
        name: str,
        start: Checkpoint | int | None,
        interval: float,
        settle: float,
        lookback: float,
        clock: Clock,
        instrumentation: Instrumentation | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        check_positive("interval", interval)
        check_not_negative("settle", settle)
        check_not_negative("lookback", lookback)
        if max(interval, settle, lookback) > _LONGEST_SPAN:
            raise ConfigurationError("interval, settle and lookback are ten years at the most")
        self._name = name
        claim = Claim(checkpoints, name)
        self._news = PollNews(
            name, Instrumentation() if instrumentation is None else instrumentation
        )
        self._clock = clock
        self._rhythm = Rhythm(interval, chance)
        self._pauses = Pauses(self._rhythm, clock, chance)
        self._handover = Handover(claim, self._news)
        self._runner = PollRunner(
            source,
            claim,
            self._handover,
            start=start,
            settle=ceil(settle),
            lookback=ceil(lookback),
            rhythm=self._rhythm,
            pauses=self._pauses,
            clock=clock,
            news=self._news,
        )
        self._out: Batch | None = None
        self._records: Iterator[ApplicationRecord] = iter(())
        self._refusals = 0
        self._is_by_record = self._is_waited_for = False

    def __repr__(self) -> str:
        return f"<Poller {self._name!r}, {self._runner.tally.polls} polls>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ApplicationRecord:
        """Return the next record; commit the batch before, if this is the first of another.

        Raises:
            AuthenticationError: the credentials are wrong: they never worked here, or were
                refused for five minutes.
            CheckpointConflictError: another poller has claimed the name.
            CheckpointError: the store, or what it holds, cannot be used.
            ClientClosedError: the client was closed.
            ConfigurationError: it is waited for already.
        """
        while (record := next(self._records, None)) is None:
            if self._is_by_record and self._out is not None:
                await self._commit(self._out)
            batch = await self._next_batch()
            if batch is None:
                raise StopAsyncIteration
            self._out, self._is_by_record = batch, True
            self._records = iter(batch)
        self._hand_out((record,))
        return record

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Iterate over batches, which are committed by their own ``async with``.

        One that was not committed when the loop is left is handed out again by the next
        loop. One that was not entered when the loop comes back for another counts as kept
        by its consumer, who has stored its checkpoint elsewhere: a later commit covers it.

        Yields:
            Records that are new, and the checkpoint that goes with them. A batch
            whose block has failed is handed out again, after a pause that grows.

        Raises:
            IncomeClientError: as when iterating over records.
        """
        while (batch := await self._next_batch()) is not None:
            self._out, self._is_by_record = batch, False
            self._records = iter(())
            self._hand_out(batch.records)
            yield batch
            self._out = None

    def wake(self, _callback: object = None) -> None:
        """Poll at once instead of at the end of the pause: something is known to have changed.

        Not sooner than a second after the last poll began, nor before a pause is over that
        the service has asked for. It is one poll: an update that the service lists later than
        that comes with the next. What it is told is not looked at, so that it may be the
        ``on_callback`` of a `CallbackReceiver`. Call it in the poller's event loop.
        """
        self._pauses.wake()

    def stop(self, *, after_poll: bool = False) -> None:
        """End the iteration once the batch in hand is done with; nothing after it is begun.

        Args:
            after_poll: end it when the poll under way, or else the next, has come to its end
                instead; should that one fail, its error is raised. So a job that is started
                now and then reads all that is new, and ends.
        """
        if after_poll:
            self._runner.ends_with_poll = True
        else:
            self._pauses.stop()

    @property
    def status(self) -> PollerStatus:
        """How it is doing, for a health endpoint.

        Read it in the poller's event loop: in another thread it may fail while a poll
        changes what it counts. There, events can tell the same.
        """
        memory, is_idle = self._runner.memory, not self._runner.is_polling
        return self._runner.tally.status(
            now=self._clock.monotonic(),
            reached=self._runner.reached,
            dead_letters=0 if memory is None else len(memory.letters),
            saturated=() if memory is None else memory.letters.seconds,
            next_poll=self._rhythm.at if is_idle and not self._pauses.is_stopped else None,
        )

    async def aclose(self) -> None:
        """Stop; there is nothing else to close."""
        self.stop()

    async def _next_batch(self) -> Batch | None:
        return await self._alone(self._next())

    def _hand_out(self, records: Sequence[ApplicationRecord]) -> None:
        self._runner.tally.records += len(records)
        self._news.delivered(records)

    async def _commit(self, batch: Batch) -> None:
        await self._alone(batch.commit())
        self._out = None

    async def _alone(self, work: Coroutine[Any, Any, T]) -> T:
        if self._is_waited_for:
            work.close()
            raise ConfigurationError("this poller is waited for already; it has one consumer")
        self._is_waited_for = True
        try:
            return await work
        except BaseException:
            self._runner.interrupt()
            raise
        finally:
            self._is_waited_for = False

    async def _next(self) -> Batch | None:
        if self._pauses.is_stopped:
            return None
        left, self._out = self._out, None
        if left is not None:
            # Nobody knows how far its consumer came.
            self._handover.take_back(left)
        returned = self._handover.returned()
        if returned is None:
            self._refusals = 0
            return await self._runner.next_batch()
        if not returned.has_failed:
            return returned
        self._refusals += 1
        # Kept in hand, since the pause may be cancelled.
        self._out = returned
        goes_on = await self._pauses.pause(min(_LONGEST_PAUSE, 2.0**self._refusals))
        return returned if goes_on else None
