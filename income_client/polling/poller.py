"""The public iterator over records and batches.

Between two batches no task runs, but for the renewal of a lease that standbys wait for, and what
listens for their wake-ups as long as that runs: so nothing must be cleaned up when the consumer
leaves its loop, and no more than one batch can come twice.
"""

import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from functools import partial
from math import ceil
from typing import Any, Final, Self, TypeVar

from income_client.checkpoints import CheckpointStore
from income_client.clock import Clock
from income_client.errors import (
    AuthenticationError,
    CheckpointConflictError,
    CheckpointError,
    ClientClosedError,
    ConfigurationError,
    IncomeClientError,
)
from income_client.instrumentation import Instrumentation
from income_client.records.documents import ApplicationRecord
from income_client.settings import check_flag, check_not_negative, check_positive
from income_client.wire.times import FIRST_SECOND

from .batches import Batch, Batches, Records
from .bell import Bell
from .checkpoint import Checkpoint, DeadLetters, Progress
from .cycle import Poll, PollerState
from .lease import Lease
from .reading import PollSource
from .schedule import Schedule, Stopped, growing
from .status import Monitor, PollerStatus

T = TypeVar("T")

_LONGEST_PAUSE: Final = 60.0
_REFUSED_SECONDS: Final = 300.0
"""How long credentials that have worked may be refused: providers do that while deployed."""
_STORE_TRIES: Final = 6
"""Tries to store something, about half a minute, before a single poll fails for it."""
_LATEST_START: Final = 86_400
_LONGEST_SPAN: Final = 10 * 366 * 86_400.0


class Poller:
    """Every update of every application, for as long as it is iterated (contract section 4.1).

    Iterate over it for records, or over ``batches()`` for batches; both share one
    position. A batch of records is committed when the consumer comes back after its
    last one. Failures of the service are retried with growing pauses and shown in
    ``status``. No task runs while the consumer works on a record or a batch, but for two with
    ``standby``: one renews the lease, one listens for wake-ups of other processes.

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
        clock: Clock,
        instrumentation: Instrumentation,
    ) -> None:
        check_flag("once", once)
        check_positive("interval", interval)
        check_not_negative("settle", settle)
        check_not_negative("lookback", lookback)
        check_flag("standby", standby)
        check_positive("lease", lease)
        if max(interval, settle, lookback, lease) > _LONGEST_SPAN:
            names = "interval, settle, lookback and lease"
            raise ConfigurationError(f"{names} must be ten years at most")
        self._name, self._source, self._clock = name, source, clock
        self._start, self._settle, self._lookback = start, ceil(settle), ceil(lookback)
        self._has_standby = standby
        self._must_exist = check_flag("must_exist", must_exist)
        self._monitor = Monitor(name, instrumentation, clock)
        seconds = lease if standby else None
        self._lease = Lease(checkpoints, name, clock, seconds, self._monitor)
        self._schedule = Schedule(interval, clock, random.random)
        self._bell = Bell(checkpoints, name, clock, self._schedule.wake)
        self._batches = Batches(self._lease, self._monitor)
        self._ends_with_poll = once
        self._state: PollerState | None = None  # before the name is taken
        self._poll: Poll | None = None
        self._new: Records | None = None  # read, and not made a batch yet
        self._is_over = False
        self._began: float | None = None
        self._refused_since: float | None = None
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

        With ``standby``, a poller that another has replaced drops what is left of its batch,
        which the other delivers, and waits for its turn.

        Raises:
            AuthenticationError: the credentials are wrong: they never worked here, or were
                refused for five minutes.
            CheckpointConflictError: another poller has taken over the name.
            CheckpointError: the store, or what it holds, cannot be used.
            ClientClosedError: the client was closed.
            ConfigurationError: another task awaits it already.
        """
        if self._has_standby:
            self._stay_leader()
            self._lease.idle_since = self._clock.monotonic()
        while (record := next(self._records, None)) is None:
            if self._is_by_record and self._out is not None:
                try:
                    await self._commit(self._out)
                except self._replaceable:
                    self._stay_leader()
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

    def wake(self, _callback: object = None) -> bool:
        """Poll at once instead of at the end of the pause, since something has changed.

        Not sooner than a second after the last poll began, nor before the end of a pause that
        the service has asked for. It causes one poll: an update that the service lists later
        comes with the next. With ``standby``, a poller that waits for its turn wakes the one
        that works, in whichever process, within two seconds: through the checkpoint store, if
        that has a bell, as those of this package have (see `CheckpointStore`). It does not
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
        is_leader = self._state is not None and not self._lease.is_lost
        return is_leader or not self._has_standby or self._bell.ring()

    def stop(self, *, after_poll: bool = False) -> None:
        """End the iteration after the current batch; nothing else is begun.

        Args:
            after_poll: end it with the current poll, or else the next, instead; if that poll
                fails, its error is raised. For a job that polls once and ends, see ``once``
                of ``IncomeClient.poll``.
        """
        if after_poll:
            self._ends_with_poll = True
        else:
            self._schedule.stop()

    @property
    def status(self) -> PollerStatus:
        """How it is doing, for a health endpoint.

        Read it in the poller's event loop: in another thread it may fail while a poll
        changes the counts. For another thread, count events instead.
        """
        state, next_try = self._state, self._schedule.retry_at
        if next_try is None and self._poll is None and not self._schedule.is_stopped:
            next_try = self._schedule.at
        return self._monitor.status(
            reached=self._reached,
            is_standby=state is None and self._has_standby,
            dead_letters=0 if state is None else len(state.letters),
            saturated=() if state is None else state.letters.seconds,
            next_try=next_try,
        )

    async def aclose(self) -> None:
        """Stop, and give up the name, so that a standby takes over at once."""
        self.stop()
        await self._release()

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
        self._lease.idle_since = None
        try:
            return await work
        except IncomeClientError as error:
            self._poll = None
            failure = error.again()  # its frames may hold records
        except BaseException:
            # The next poll finds out what this one has not delivered.
            self._poll = None
            self._lease.abandon()
            self._bell.cancel()
            raise
        finally:
            self._is_waited_for = False
            self._lease.idle_since = self._clock.monotonic()
        if self._has_standby:
            await self._release()
        raise failure

    async def _next(self) -> Batch | None:
        batch = await self._first()
        if batch is None:
            await self._release()
        return batch

    async def _release(self) -> None:
        await self._lease.release()
        await self._bell.aclose()

    async def _first(self) -> Batch | None:
        if self._schedule.is_stopped:
            return None
        self._stay_leader()
        left, self._out = self._out, None
        if left is not None:
            # Its consumer may have stopped anywhere in it.
            self._batches.take_back(left)
        returned = self._batches.returned()
        if returned is None:
            self._refusals = 0
            return await self._new_batch()
        # Kept in hand, since what follows may be cancelled.
        self._out = returned
        try:
            if returned.has_failed:
                if await self._persist(partial(self._batches.was_committed, returned)):
                    self._out = None
                    return await self._first()
                self._refusals += 1
                await self._schedule.pause(min(_LONGEST_PAUSE, 2.0**self._refusals))
            # Another may have taken over in the meantime, and delivered what is newer.
            await self._persist(self._check_lease)
        except self._replaceable:
            self._out = None
            return await self._first()
        except Stopped:
            return None
        return returned

    async def _check_lease(self) -> None:
        await self._schedule.unless_stopped(self._lease.check())

    # Standby

    @property
    def _replaceable(self) -> tuple[type[CheckpointConflictError], ...]:
        """The errors after which this poller takes the name again, in its turn."""
        return (CheckpointConflictError,) if self._may_take_again else ()

    @property
    def _may_take_again(self) -> bool:
        # Nobody has taken over a name that the store does not know any more.
        return self._has_standby or self._lease.has_vanished

    def _stay_leader(self) -> None:
        """Take the name again, as a standby, if the lease is lost; without standby, raise."""
        if not self._lease.is_lost:
            return
        if not self._may_take_again:
            raise CheckpointConflictError("another process or poller has taken over this name")
        # Batches that are out keep the lost lease, by which nothing can be saved any more.
        self._lease.abandon()
        self._lease = self._lease.successor()
        self._batches = Batches(self._lease, self._monitor)
        self._state = self._poll = self._new = self._out = None
        self._records = iter(())
        if self._schedule.is_woken:
            self._bell.ring()  # what it was woken for is for another to read
        self._schedule.wake()

    # Polls

    @property
    def _reached(self) -> int | None:
        return None if self._state is None else self._state.progress.reached

    async def _new_batch(self) -> Batch | None:
        """Return what polls bring; None once the poller was stopped."""
        try:
            while True:
                try:
                    batch = await self._persist(self._step)
                except self._replaceable:
                    batch = None
                self._stay_leader()
                if batch is not None:
                    self._monitor.failures = 0
                    return batch
        except Stopped:
            self._poll = None
            return None

    async def _persist(self, step: Callable[[], Awaitable[T]]) -> T:
        """Repeat a step with growing pauses while it fails and may succeed later."""
        tries = 0
        while True:
            try:
                return await step()
            except self._replaceable:
                raise
            except IncomeClientError as error:
                tries += 1
                is_of_store = isinstance(error, CheckpointError)  # which ends no poll
                if not is_of_store:
                    self._poll = None
                now = self._clock.monotonic()
                self._monitor.failed(error)
                is_last = self._is_last(error, now, tries)
                if not is_last and is_of_store:
                    self._schedule.put_off(now, min(_LONGEST_PAUSE, growing(tries)))
                elif not is_last:
                    self._schedule.fail(now, error, self._monitor.failures)
                # Only now is it known when the next try begins.
                self._monitor.tell_failure(error, self._reached, is_last=is_last)
                if is_last:
                    raise
            if is_of_store:
                await self._schedule.until_retry()
            else:
                await self._schedule.until_turn()

    def _is_last(self, error: IncomeClientError, now: float, tries: int) -> bool:
        """Return whether a failure ends the poller; keep track of refused credentials."""
        match error:
            case CheckpointError():
                is_last = self._ends_with_poll and tries >= _STORE_TRIES
                is_last = is_last or not error.retryable
            case AuthenticationError():
                if self._refused_since is None:
                    self._refused_since = now
                is_long = now - self._refused_since >= _REFUSED_SECONDS
                is_last = is_long or self._ends_with_poll or not self._source.has_answered
            case ClientClosedError() | ConfigurationError():
                is_last = True
            case _:
                self._refused_since = None
                is_last = self._ends_with_poll
        return is_last or self._schedule.is_stopped

    async def _step(self) -> Batch | None:
        self._schedule.check()
        if self._state is None:
            await self._begin()
        elif self._new is not None:
            progress, letters = self._state.progress, self._state.letters
            batch = await self._batches.make(self._new, progress, letters, self._persist)
            self._new = None
            if self._is_over and self._ends_with_poll:
                self._schedule.stop()
            return batch
        elif self._poll is not None:
            await self._continue(self._poll)
        else:
            await self._begin_poll(self._state)
        return None

    async def _begin(self) -> None:
        given = self._start if isinstance(self._start, Checkpoint) else None
        checkpoint, letters = await self._schedule.unless_stopped(
            self._lease.take(given, self._first_second, must_exist=self._must_exist)
        )
        progress = Progress(checkpoint, settle=self._settle, lookback=self._lookback)
        self._state = PollerState(progress=progress, letters=DeadLetters(letters))
        if self._lease.is_new:
            self._monitor.began(checkpoint.reached, self._lease.place)
        self._monitor.committed(checkpoint.reached)
        self._bell.listen(self._lease.renewal)

    async def _first_second(self) -> int:
        if not isinstance(self._start, int):
            return max(await self._source.ask_present() - self._settle, FIRST_SECOND)
        # The local clock only decides whether the service is asked: most starts are long ago.
        if self._start < time.time() - _LATEST_START:
            return self._start
        present = await self._source.ask_present()
        if self._start > present + _LATEST_START:
            raise ConfigurationError(
                "start must not be later than the service's present", argument="start"
            )
        # The caller's clock may be ahead: what is updated until then would never be listed.
        return min(self._start, present)

    async def _begin_poll(self, state: PollerState) -> None:
        await self._schedule.until_turn()
        await self._check_lease()
        if state.letters:
            state.letters.forget(await self._schedule.unless_stopped(self._lease.letters()))
        now = self._clock.monotonic()
        self._schedule.begin(now)
        self._is_over = False
        self._monitor.unchanged = 0
        self._poll = Poll(
            state,
            self._source,
            self._schedule,
            self._monitor,
            clock=self._clock,
            to_the_end=self._schedule.is_urgent or self._ends_with_poll,
            elapsed=None if self._began is None else ceil(now - self._began),
        )

    async def _continue(self, poll: Poll) -> None:
        self._new = await poll.next_records()
        if self._new is not None:
            if poll.has_read:
                self._refused_since = None
            return
        self._new = ()
        self._poll, self._is_over = None, True
        self._began = poll.began
        self._refused_since = None
        self._schedule.succeed()
        self._monitor.poll_finished(self._reached)
