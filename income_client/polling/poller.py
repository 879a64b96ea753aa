"""The public iterator over records and batches.

Between two batches no task runs: so nothing must be cleaned up when the consumer leaves its
loop, and no more than one batch can come twice.
"""

import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from math import ceil
from typing import Any, Final, Self, TypeVar

from income_client.checkpoints import CheckpointStore
from income_client.clock import Clock
from income_client.errors import ConfigurationError, IncomeClientError
from income_client.instrumentation import Instrumentation
from income_client.records.documents import ApplicationRecord
from income_client.settings import check_not_negative, check_positive

from .batches import Batch, Batches
from .checkpoint import Checkpoint
from .cycle import PollRunner
from .lease import Lease
from .reading import PollSource
from .schedule import Schedule
from .status import Monitor, PollerStatus

T = TypeVar("T")

_LONGEST_PAUSE: Final = 60.0
_LONGEST_SPAN: Final = 10 * 366 * 86_400.0


class Poller:
    """Every update of every application, for as long as it is iterated (contract section 4.1).

    Iterate over it for records, or over ``batches()`` for batches; both share one
    position. A batch of records is committed when the consumer comes back after its
    last one. Failures of the service are retried with growing pauses and shown in
    ``status``. No task runs while the consumer works on a record or a batch.

    A loop over records that is entered again continues with the next one: where a record
    may fail and must come again, iterate over batches.

    Made by ``IncomeClient.poll``, which says what the arguments are; ``start`` is a second
    of the service's frame here, or a checkpoint, ``instrumentation`` listens to events, and
    ``chance`` is the source of the jitter.

    Raises:
        ConfigurationError: an argument is invalid.
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
        once: bool = False,
        clock: Clock,
        instrumentation: Instrumentation | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if not isinstance(once, bool):
            raise ConfigurationError("once must be True or False")
        check_positive("interval", interval)
        check_not_negative("settle", settle)
        check_not_negative("lookback", lookback)
        if max(interval, settle, lookback) > _LONGEST_SPAN:
            raise ConfigurationError("interval, settle and lookback are ten years at the most")
        self._name = name
        lease = Lease(checkpoints, name)
        self._monitor = Monitor(
            name, Instrumentation() if instrumentation is None else instrumentation, clock
        )
        self._schedule = Schedule(interval, clock, chance)
        self._batches = Batches(lease, self._monitor)
        self._runner = PollRunner(
            source,
            lease,
            self._batches,
            start=start,
            settle=ceil(settle),
            lookback=ceil(lookback),
            schedule=self._schedule,
            clock=clock,
            monitor=self._monitor,
        )
        self._runner.ends_with_poll = once
        self._out: Batch | None = None
        self._records: Iterator[ApplicationRecord] = iter(())
        self._refusals = 0
        self._is_by_record = self._is_waited_for = False

    def __repr__(self) -> str:
        return f"<Poller {self._name!r}, {self._monitor.polls} polls>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ApplicationRecord:
        """Return the next record; commit the batch before, if this is the first of another.

        Raises:
            AuthenticationError: the credentials are wrong: they never worked here, or were
                refused for five minutes.
            CheckpointConflictError: another poller has taken over the name.
            CheckpointError: the store, or what it holds, cannot be used.
            ClientClosedError: the client was closed.
            ConfigurationError: another task awaits it already.
        """
        while (record := next(self._records, None)) is None:
            if self._is_by_record and self._out is not None:
                await self._commit(self._out)
            batch = await self._next_batch()
            if batch is None:
                raise StopAsyncIteration
            self._out, self._is_by_record = batch, True
            self._records = iter(batch)
        self._monitor.delivered((record,))
        return record

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Iterate over batches, which are committed by their own ``async with``.

        A batch that was not committed when the loop is left is delivered again by the next
        loop. One whose block was not entered when the loop comes back for another counts as
        stored elsewhere by the consumer: a later commit covers it.

        Yields:
            Records that are new, and their checkpoint. A batch whose block has failed is
            delivered again, after a pause that grows.

        Raises:
            IncomeClientError: as when iterating over records.
        """
        while (batch := await self._next_batch()) is not None:
            self._out, self._is_by_record = batch, False
            self._records = iter(())
            self._monitor.delivered(batch.records)
            yield batch
            self._out = None

    def wake(self, _callback: object = None) -> None:
        """Poll at once instead of at the end of the pause, since something has changed.

        Not sooner than a second after the last poll began, nor before the end of a pause that
        the service has asked for. It causes one poll: an update that the service lists later
        comes with the next. Its argument is ignored, so that it can be the ``on_callback`` of
        a `CallbackReceiver`. Call it in the poller's event loop.
        """
        self._schedule.wake()

    def stop(self, *, after_poll: bool = False) -> None:
        """End the iteration after the current batch; nothing else is begun.

        Args:
            after_poll: end it with the current poll, or else the next, instead; if that poll
                fails, its error is raised. For a job that polls once and ends, see ``once``
                of ``IncomeClient.poll``.
        """
        if after_poll:
            self._runner.ends_with_poll = True
        else:
            self._schedule.stop()

    @property
    def status(self) -> PollerStatus:
        """How it is doing, for a health endpoint.

        Read it in the poller's event loop: in another thread it may fail while a poll
        changes the counts. For another thread, count events instead.
        """
        state = self._runner.state
        is_waiting = not self._runner.is_polling and not self._schedule.is_stopped
        return self._monitor.status(
            reached=self._runner.reached,
            dead_letters=0 if state is None else len(state.letters),
            saturated=() if state is None else state.letters.seconds,
            next_poll=self._schedule.at if is_waiting else None,
        )

    async def aclose(self) -> None:
        """Stop; there is nothing else to close."""
        self.stop()

    async def _next_batch(self) -> Batch | None:
        return await self._alone(self._next())

    async def _commit(self, batch: Batch) -> None:
        await self._alone(batch.commit())
        self._out = None

    async def _alone(self, work: Coroutine[Any, Any, T]) -> T:
        if self._is_waited_for:
            work.close()
            raise ConfigurationError("another task awaits this poller already; it has one consumer")
        self._is_waited_for = True
        try:
            return await work
        except IncomeClientError as error:
            self._runner.interrupt()
            failure = error.again()  # its frames may hold records
        except BaseException:
            self._runner.interrupt()
            raise
        finally:
            self._is_waited_for = False
        raise failure

    async def _next(self) -> Batch | None:
        if self._schedule.is_stopped:
            return None
        left, self._out = self._out, None
        if left is not None:
            # Its consumer may have stopped anywhere in it.
            self._batches.take_back(left)
        returned = self._batches.returned()
        if returned is None:
            self._refusals = 0
            return await self._runner.next_batch()
        if not returned.has_failed:
            return returned
        self._refusals += 1
        # Kept in hand, since the pause may be cancelled.
        self._out = returned
        goes_on = await self._schedule.pause(min(_LONGEST_PAUSE, 2.0**self._refusals))
        return returned if goes_on else None
