"""The public iterator over records and batches.

A poller is in one of four states. `Poller._run_phase` has every transition:

    state      action                             next state                     after a failure
    Acquiring  acquire the lease of the name      Waiting                        Acquiring
    Waiting    wait until the next poll begins    Polling                        Waiting
    Polling    list and read applications         Storing                        Waiting
    Storing    store dead letters, and make a     Polling, or Waiting after the  Storing
               batch of the records               end of the poll

A lost lease leads to Acquiring from every state. A returned batch is redelivered before any action.
A batch is done when its block has ended or its ``commit`` has returned; a batch that is consumed
record by record is done when the consumer asks for the record after its last one.

Between two batches only the renewal of the lease runs, and only with standbys. A consumer can
therefore leave its loop without any cleanup, and at most one batch is redelivered afterwards.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from math import ceil
from typing import Final, Self, assert_never

from attrs import evolve, field, frozen

from income_client._lazy import answers_other_names
from income_client.checkpoints import CheckpointStore
from income_client.errors import (
    CheckpointConflictError,
    ConfigurationError,
    IncomeClientError,
    InvalidArgumentError,
)
from income_client.records.documents import ApplicationRecord
from income_client.settings import check_flag, check_not_negative, check_positive

from .attempts import RowReader
from .batches import Batch, Batches, Records
from .bell import Bell
from .checkpoint import Checkpoint
from .cycle import Poll, PollerState
from .dead_letters import DeadLetters
from .foreign_store import ForeignStore
from .lease import Lease
from .progress import Progress
from .reading import PollSource
from .schedule import LONGEST_PAUSE, Failures, Schedule, Stopped
from .status import Monitor, PollerStatus

_LATEST_START: Final = 86_400
_LONGEST_SPAN: Final = 10 * 366 * 86_400.0


@frozen
class _Acquiring:
    """The poller does not hold the lease of its name."""


@frozen
class _Waiting:
    """The poller waits until its next poll begins."""

    state: PollerState


@frozen
class _Polling:
    """A poll lists and reads applications."""

    state: PollerState
    poll: Poll


@frozen
class _Storing:
    """Dead letters and progress are not stored yet; records that were read are not a batch yet."""

    state: PollerState
    poll: Poll | None
    """The poll that continues afterwards; None after the end of a poll."""
    records: Records = field(default=(), repr=False)


@frozen
class _DeliveredBatch:
    """A batch that the consumer works on as a whole."""

    batch: Batch


@frozen
class _DeliveredRecords:
    """A batch whose records the consumer receives one by one."""

    batch: Batch
    records: Iterator[ApplicationRecord] = field(repr=False)
    """Records of the batch that the consumer has not received yet."""


@answers_other_names
class Poller:
    """Every update of every application, for as long as it is iterated (contract section 4.1).

    Iterate over it for records, or over ``batches()`` for batches; both share one
    position. A batch of records is committed when the consumer comes back after its
    last one. Failures of the service are retried with growing pauses and shown in
    ``status``. No task runs while the consumer works on a record or a batch, but for one with
    ``standby``, which renews the lease.

    A loop over records that is entered again continues with the next one: where a record
    may fail and must come again, iterate over batches.

    Made by ``IncomeClient.poll``, which says what the arguments are; ``start`` is a second
    of the service's frame here, or a checkpoint.

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
        standby: bool = False,
        lease: float = 15.0,
        must_exist: bool = False,
    ) -> None:
        check_flag("once", once)
        check_positive("interval", interval)
        check_not_negative("settle", settle)
        check_not_negative("lookback", lookback)
        check_flag("standby", standby)
        check_positive("lease", lease)
        if max(interval, settle, lookback, lease) > _LONGEST_SPAN:
            names = "interval, settle, lookback and standby"
            raise ConfigurationError(f"{names} must be ten years at most")
        self._name, self._source = name, source
        self._clock = clock = source.session.clock
        self._start, self._settle, self._lookback = start, ceil(settle), ceil(lookback)
        self._has_standby = standby
        self._must_exist = check_flag("must_exist", must_exist)
        self._monitor = Monitor(name, source.session.instrumentation, clock)
        source.session = evolve(source.session, on_retry=self._monitor.request_failed)
        seconds = lease if standby else None
        store = ForeignStore.checked(checkpoints, name)
        self._lease = Lease(store, clock, seconds, self._monitor)
        self._schedule = Schedule(interval, clock, source.session.chance)
        self._schedule.ends_with_poll = once
        self._bell = Bell(store, self._schedule, clock)
        self._failures = Failures(self._schedule, self._monitor, clock, source)
        self._batches = Batches(self._lease, self._monitor, self._schedule, self._failures)
        self._phase: _Acquiring | _Waiting | _Polling | _Storing = _Acquiring()
        self._delivered: _DeliveredBatch | _DeliveredRecords | None = None
        """The batch that the consumer works on."""
        self._is_awaited = False
        source.session.instrumentation.add_poller(self)

    def __repr__(self) -> str:
        return f"<Poller {self._name!r}, {self._monitor.polls} polls>"

    def __aiter__(self) -> Self:
        if isinstance(self._delivered, _DeliveredRecords):
            self._monitor.warn_of_left_loop()
        return self

    async def __anext__(self) -> ApplicationRecord:
        """Return the next record; before the first record of a batch, commit the previous batch.

        With ``standby``, a poller that has lost its lease drops the rest of its batch, which
        the new leader delivers, and returns to standby.

        Raises:
            AuthenticationError: the credentials are wrong: they never worked here, or were
                refused for five minutes.
            CheckpointConflictError: another poller has taken over the name.
            CheckpointError: the store, or what it holds, cannot be used.
            ClientClosedError: the client was closed.
            ConfigurationError: another task awaits it already.
        """
        if self._has_standby:
            self._lease.idle_since = self._clock.monotonic()
            if self._lease.is_lost:
                self._delivered = None  # the new leader delivers the rest of the batch
        while (record := self._next_record()) is None:
            async with self._sole_consumer():
                await self._commit_delivered()
                batch = await self._next_batch()
            if batch is None:
                raise StopAsyncIteration
            self._delivered = _DeliveredRecords(batch, iter(batch))
        self._monitor.delivered((record,))
        return record

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Iterate over batches, which are committed by their own ``async with``.

        A batch that was not committed when the loop is left is delivered again by the next
        loop. One whose block was not entered when the loop comes back for another counts as
        done with by the consumer: a later commit covers it, which is a warning in the log once
        unless that is a call of ``commit``. To have a batch again, let its block fail.

        Yields:
            Records that are new, and their checkpoint. A batch whose block has failed is
            delivered again, after a pause that grows.

        Raises:
            IncomeClientError: as when iterating over records.
        """
        while True:
            async with self._sole_consumer():
                batch = await self._next_batch()
            if batch is None:
                return
            self._delivered = _DeliveredBatch(batch)
            self._monitor.delivered(batch.records)
            yield batch
            self._delivered = None

    def wake(self, _callback: object = None) -> bool:
        """Poll at once instead of at the end of the pause, since something has changed.

        Not sooner than a second after the last poll began, nor before the end of a pause that
        the service has asked for. It causes one poll: an update that the service lists later
        comes with the next. With ``standby``, a poller that waits for its turn wakes the one
        that works, in whichever process, within two seconds: through the checkpoint store, if
        that has a bell, as those of this package have (see `CheckpointStore.ring`). It does not
        block, and a failure is a warning in the log. Its argument is ignored, so that it can be
        the ``on_callback`` of a `CallbackReceiver`. Call it in the poller's event loop.

        Returns:
            Whether this poller works, or the store is asked to wake the one that does. False if
            the store has no bell, which is a warning in the log once, or this one was stopped.

        Raises:
            ConfigurationError: a poller that waits for its turn, called without an event loop.
        """
        self._schedule.wake()
        if self._schedule.is_stopped:
            return False
        return self._is_leader or not self._has_standby or self._bell.ring()

    def stop(self, *, after_poll: bool = False) -> None:
        """End the iteration after the current batch; nothing else is begun.

        Args:
            after_poll: end it with the current poll, or else the next, instead; if that poll
                fails, its error is raised. For a job that polls once and ends, see ``once``
                of ``IncomeClient.poll``.
        """
        if after_poll:
            self._schedule.ends_with_poll = True
        else:
            self._schedule.stop()

    @property
    def name(self) -> str:
        """The poller's name, which is its key in the store."""
        return self._name

    @property
    def status(self) -> PollerStatus:
        """The poller's counts, lag and last error, for a health endpoint or gauges.

        It may be read in any thread, for example in that of a metrics server.
        """
        phase, next_try = self._phase, self._schedule.retry_at
        is_polling = isinstance(phase, _Polling | _Storing)
        if next_try is None and not is_polling and not self._schedule.is_stopped:
            next_try = self._schedule.next_poll_at
        letters = DeadLetters() if isinstance(phase, _Acquiring) else phase.state.letters
        return self._monitor.status(
            is_standby=isinstance(phase, _Acquiring) and self._has_standby,
            is_leader=self._is_leader and not self._schedule.is_stopped,
            dead_letters=len(letters),
            saturated=letters.seconds,
            next_try=next_try,
        )

    @property
    def _is_leader(self) -> bool:
        return not isinstance(self._phase, _Acquiring) and not self._lease.is_lost

    async def aclose(self) -> None:
        """Stop, and release the lease, so that a standby takes over at once."""
        self.stop()
        await self._release_lease()

    async def _release_lease(self) -> None:
        await self._lease.release()
        await self._bell.aclose()

    # The consumer

    @asynccontextmanager
    async def _sole_consumer(self) -> AsyncIterator[None]:
        """Refuse a second consumer; if the block fails, end all tasks and release the lease."""
        if self._is_awaited:
            raise ConfigurationError("another task awaits this poller already; it has one consumer")
        self._is_awaited = True
        self._lease.idle_since = None
        try:
            yield
        except IncomeClientError:
            if self._has_standby:
                await self._release_lease()
            raise
        except BaseException:
            self._lease.abandon()
            self._bell.cancel()
            raise
        finally:
            self._is_awaited = False
            self._lease.idle_since = self._clock.monotonic()

    def _next_record(self) -> ApplicationRecord | None:
        if not isinstance(self._delivered, _DeliveredRecords):
            return None
        return next(self._delivered.records, None)

    async def _commit_delivered(self) -> None:
        """Commit the batch whose last record the consumer has processed, if there is one."""
        if not isinstance(self._delivered, _DeliveredRecords):
            return
        try:
            await self._delivered.batch.commit()
        except CheckpointConflictError as error:
            if not self._lease.is_replacement(error):
                raise
        self._delivered = None

    # Polls

    async def _next_batch(self) -> Batch | None:
        """Return the next batch for the consumer; None once the poller was stopped."""
        if self._delivered is not None:
            # The consumer may have left its loop in the middle of the batch.
            self._batches.return_batch(self._delivered.batch)
            self._delivered = None
        tries = 0
        while not self._schedule.is_stopped:
            if self._lease.is_lost and not self._lease.may_be_acquired_again:
                raise CheckpointConflictError("another process or poller has taken over this name")
            try:
                batch = await self._run_phase()
                if batch is not None:
                    return batch
                tries = 0
            except Stopped:
                break
            except IncomeClientError as error:
                if self._lease.is_replacement(error):
                    continue
                # A standby's good look at the store ends the row of failures before it.
                tries = min(tries, self._monitor.failures) + 1
                is_taking = isinstance(self._phase, _Acquiring)
                longest = self._lease.longest_pause if is_taking else LONGEST_PAUSE
                self._failures.note_failure(error, tries, longest_pause=longest)
            if tries:
                await self._schedule.until_next_try(self._bell.watch)
        await self._release_lease()
        return None

    async def _run_phase(self) -> Batch | None:
        """Do the action of the current state; return the batch that it produced, if any."""
        if self._lease.is_lost:
            await self._drop_lost_lease()
            self._phase = _Acquiring()
        if (returned := self._batches.first_returned) is not None:
            return await self._batches.deliver_again(returned)
        batch = None
        match self._phase:
            case _Acquiring():
                self._phase = _Waiting(await self._acquire_lease())
            case _Waiting(state):
                self._phase = _Polling(state, await self._begin_poll(state))
            case _Polling(state, poll):
                try:
                    self._phase = await self._poll_further(state, poll)
                except BaseException:
                    # The next poll lists and reads all that this one has not delivered.
                    self._phase = _Waiting(state)
                    raise
            case _Storing(state, Poll() as poll, records):
                batch = await self._batches.make_batch(records, state.progress, state.letters)
                self._phase = _Polling(state, poll)
            case _Storing(state):
                await self._batches.make_batch((), state.progress, state.letters)
                self._phase = _Waiting(state)
                self._monitor.poll_finished()
                self._schedule.stop_after_poll()
            case _:
                assert_never(self._phase)
        return batch

    async def _poll_further(self, state: PollerState, poll: Poll) -> _Storing:
        records = await poll.next_records()
        if records is not None:
            if state.reader.has_read:
                self._failures.note_success()
            return _Storing(state, poll, records)
        self._failures.note_success()
        self._schedule.succeed()
        return _Storing(state, None)

    async def _drop_lost_lease(self) -> None:
        """Prepare to acquire the lease again."""
        # A delivered batch keeps the lost lease, so that its commit is refused.
        await self._lease.end_renewal()
        self._lease = self._lease.successor()
        self._batches = Batches(self._lease, self._monitor, self._schedule, self._failures)
        self._monitor.progress = None
        if self._schedule.is_woken:
            self._bell.ring()  # the new leader must answer the wake-up
        self._schedule.wake()

    async def _acquire_lease(self) -> PollerState:
        start = self._start if isinstance(self._start, Checkpoint) else None
        self._schedule.resume_name()
        checkpoint, letters = await self._schedule.unless_stopped(
            self._lease.acquire(
                start,
                self._find_first_second,
                must_exist=self._must_exist,
                filter_digest=self._source.list_filter.digest,
                service=self._source.service,
            )
        )
        progress = Progress(checkpoint, settle=self._settle, lookback=self._lookback)
        self._monitor.progress = progress
        if self._lease.is_new:
            store = self._lease.log_name
            self._monitor.began(checkpoint.reached, store, is_given=start is not None)
        self._monitor.committed(checkpoint.reached)
        await self._schedule.unless_stopped(self._bell.begin())
        if self._lease.renewal is not None:
            # Another poller may have taken over: a long pause would leave the name without standby.
            end_pause = self._schedule.end_pause
            self._lease.renewal.add_done_callback(lambda _: end_pause())
        reader = RowReader(self._source, self._schedule)
        return PollerState(progress=progress, letters=DeadLetters(letters), reader=reader)

    async def _find_first_second(self) -> int:
        """Return the second at which polling begins for a name without a checkpoint."""
        self._schedule.begin_name(self._clock.monotonic())
        if not isinstance(self._start, int):
            present = await self._source.ask_present()
            return self._source.earlier_second(present, self._settle)
        # The local clock only decides whether the service is asked: most starts are long ago.
        if self._start < time.time() - _LATEST_START:
            return self._start
        present = await self._source.ask_present()
        if self._start > present + _LATEST_START:
            raise InvalidArgumentError(
                "start must not be later than the service's present", argument="start"
            )
        # The caller's clock may be ahead: updates before such a start would never be listed.
        return min(self._start, present)

    async def _begin_poll(self, state: PollerState) -> Poll:
        """Wait until the next poll begins, and begin it unless another poller has taken over."""
        await self._schedule.until_turn(self._bell.watch)
        await self._schedule.unless_stopped(self._lease.fence.check_ownership())
        if state.letters:
            state.letters.follow(
                await self._schedule.unless_stopped(self._lease.fence.load_letters())
            )
        self._schedule.begin_poll(self._clock.monotonic())
        self._monitor.unchanged = 0
        return Poll(state, self._source, self._schedule, self._monitor, self._clock)
