"""Batches of records, and their commits, which reach the store in order.

New dead letters are stored before the delivery of the batch that was read with them. A resolved
dead letter is removed from the store with the commit of the batch that contains its application.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self

from attrs import define, field, frozen

from income_client.errors import ConfigurationError, IncomeClientError
from income_client.records.documents import ApplicationRecord

from .checkpoint import Checkpoint, read_checkpoint
from .dead_letters import DeadLetters
from .lease import Lease
from .progress import Progress
from .reading import Versioned, key_of
from .schedule import LONGEST_PAUSE, Failures, Schedule, backoff_pause
from .status import Monitor

_COUNT_BYTES: Final = 8
_ID_BYTES: Final = 16

Records = tuple[Versioned[ApplicationRecord], ...]


@frozen
class _Commit:
    """The changes to store with the commit of a batch."""

    checkpoint: Checkpoint
    letters: DeadLetters
    _resolved: tuple[str, ...]

    @property
    def resolved(self) -> list[str]:
        """Keys of resolved dead letters that have not failed again since."""
        return [key for key in self._resolved if key not in self.letters]


@define(eq=False, repr=False)
class Batch:
    """Records that are new, at most a hundred, in the order in which they were listed.

    ``async with batch:`` commits it at the end of the block, and with it every batch before that
    has not failed. If the block fails, the batch is delivered again. A consumer that collects
    batches calls ``commit`` of the last one; the end of a block that commits over a batch whose
    block was never entered warns of that in the log. A consumer that stores ``batch.checkpoint``
    together with its data starts its next poller with ``start=``, and commits all the same after
    that, so that the store moves on as well. It also stores ``sequence``, and writes nothing unless
    the stored one is smaller: a process that was replaced may commit late, over newer data.
    """

    number: int
    """Number of the batch, counted by this poller."""
    records: tuple[ApplicationRecord, ...]
    """Records that are new or have changed, in the order of the list."""
    delivery_ids: tuple[str, ...] = field(repr=False)
    """An id for each record: the same when the batch is delivered again, after a crash as well,
    and another one for each later version. For a broker, which drops messages that come twice."""
    checkpoint: str
    """The checkpoint after this batch, for ``poll(start=...)``: a text of 20 bytes for each
    application updated within ``settle`` and ``lookback``, or listed by the page being read."""
    sequence: int
    """Grows with each batch of the name, over takeovers as well: of two records of an application,
    the one with the greater number is the newer. The same when this poller delivers it again. It
    needs 64 bits."""
    _commit: _Commit
    _batches: "Batches"
    has_failed: bool = field(default=False, init=False)
    """Whether the block of the batch has ended in an error since the last delivery."""
    _is_in_block: bool = field(default=False, init=False)
    """Whether the block of the batch's transaction is running."""

    def __iter__(self) -> Iterator[ApplicationRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} records>"

    async def __aenter__(self) -> Self:
        self._batches.note_entered(self.number)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._batches.note_left(self.number)
        if exc is not None:
            self._note_failure(exc)
            return
        self._batches.warn_of_skipped(self.number)
        await self.commit()

    async def commit(self) -> None:
        """Store the batch's checkpoint, which covers all earlier batches; a repeat does nothing.

        If the block of an earlier batch still runs, or has failed, it is stored once that one
        is committed.
        While the store fails, the commit is retried with growing pauses, which ``status`` shows.

        Raises:
            CheckpointConflictError: another poller has taken over the name; nothing was stored.
            CheckpointError: the store cannot be used, or failed when polling was stopped, or
                kept failing in a single poll; the batch can be committed again.
            ConfigurationError: the block of its transaction runs, whose end commits it.
        """
        self._check_outside()
        await self._batches.commit(self.number, self._commit)

    @asynccontextmanager
    async def transaction(self, connection: Any) -> AsyncIterator[None]:
        """Commit the batch in one database transaction with the block's writes.

        ``async with batch.transaction(connection): await connection.execute(...)`` begins a
        transaction, stores the checkpoint in it after the block, and commits both or neither:
        each update takes effect exactly once. If the block or the commit fails, the batch is
        delivered again. Where the connection may fail to come, let the batch know of that, too:
        ``async with batch, pool.acquire() as connection, batch.transaction(connection): ...``

        Args:
            connection: of the same database as the store, and in no transaction: an
                ``asyncpg.Connection`` for a ``PostgresCheckpointStore``.

        Returns:
            A context manager whose block writes through the connection.

        Raises:
            CheckpointConflictError: another poller has taken over the name; nothing was stored.
            CheckpointError: the store cannot be used.
            ConfigurationError: the store has no transactions, or the batch, or one before it,
                must be committed in another way.
        """
        self._check_outside()
        self._is_in_block = True
        try:
            async with self._batches.transaction(self.number, self._commit, connection):
                yield
        except BaseException as error:
            self._note_failure(error)
            raise
        finally:
            self._is_in_block = False

    def _check_outside(self) -> None:
        # A commit within the block of the transaction would lose the batch after a rollback.
        if self._is_in_block:
            raise ConfigurationError("the batch is committed at the end of its transaction")

    def _note_failure(self, error: BaseException) -> None:
        self.has_failed = True
        self._batches.return_failed(self, error)


def _delivery_id(version: Versioned[ApplicationRecord], batches: int) -> str:
    # The count distinguishes content that returns later from its first appearance.
    key = key_of(version.payload.application_id)
    content = key + version.digest + batches.to_bytes(_COUNT_BYTES)
    return hashlib.blake2b(content, digest_size=_ID_BYTES).hexdigest()


class Batches:
    """The batches of one lease of a poller."""

    def __init__(
        self, lease: Lease, monitor: Monitor, schedule: Schedule, failures: Failures
    ) -> None:
        self._lease, self._monitor = lease, monitor
        self._schedule, self._failures = schedule, failures
        self._number = 0
        self._committed = 0
        self._done: dict[int, _Commit] = {}
        """Commits of batches that wait for an earlier batch, whose block still runs or has failed;
        by number."""
        self._unentered: set[int] = set()
        """Numbers of delivered batches whose block the consumer has not entered."""
        self._running: set[int] = set()
        """Numbers of batches whose block has been entered, and has not ended."""
        self._returned: dict[int, Batch] = {}
        self._refusals = 0
        """Redeliveries in a row after a failed block."""
        self._lock = asyncio.Lock()

    # Delivery

    async def make_batch(
        self, records: Records, progress: Progress, letters: DeadLetters
    ) -> Batch | None:
        """Store dead letters, and make a batch; without records, store the progress instead."""
        if letters.unsaved:
            await self._store_letters(letters)
        commit = _Commit(progress.checkpoint(), letters, letters.resolved)
        if not records:
            # A consumer that keeps checkpoints elsewhere may not have stored its last batch yet.
            are_committed = self._committed == self._number
            new, last = commit.checkpoint, self._lease.fence.last.checkpoint
            has_grown = new.progress > last.progress
            # After the clock was set back nothing grows, and the next process must list from there.
            has_fallen = new.progress == last.progress and new.resumes_at != last.resumes_at
            if are_committed and (commit.resolved or has_grown or has_fallen):
                await self._store_commit(commit)
            return None
        self._number += 1
        self._unentered.add(self._number)
        self._monitor.works()
        return Batch(
            self._number,
            tuple(record.payload for record in records),
            tuple(_delivery_id(record, commit.checkpoint.batches) for record in records),
            commit.checkpoint.text,
            commit.checkpoint.sequence,
            commit,
            self,
        )

    def return_batch(self, batch: Batch) -> None:
        """Schedule the redelivery of a batch, unless it was committed."""
        if batch.number > self._committed and batch.number not in self._done:
            self._returned[batch.number] = batch

    def return_failed(self, batch: Batch, error: BaseException) -> None:
        """Schedule the redelivery of a batch whose block has failed, and count the failure."""
        if batch.number not in self._returned:
            self.return_batch(batch)
            if batch.number in self._returned:
                self._monitor.block_failed(error)

    @property
    def first_returned(self) -> Batch | None:
        """The batch to redeliver first; None if there is none."""
        return self._returned[min(self._returned)] if self._returned else None

    async def deliver_again(self, batch: Batch) -> Batch | None:
        """Return a batch for redelivery; None if it turns out to be committed."""
        if batch.has_failed:
            if await self._was_committed(batch):
                return None
            self._refusals += 1
            await self._schedule.pause(min(LONGEST_PAUSE, backoff_pause(self._refusals + 1)))
            batch.has_failed = False
        # Another poller may have taken over meanwhile, and delivered newer versions.
        await self._schedule.unless_stopped(self._lease.fence.check_ownership())
        if batch.number in self._returned:
            self._unentered.add(batch.number)
        return self._returned.pop(batch.number, None)

    def note_entered(self, number: int) -> None:
        """Note that the consumer has entered the block of a batch."""
        self._unentered.discard(number)
        self._running.add(number)

    def note_left(self, number: int) -> None:
        """Note that the block of a batch has ended."""
        self._running.discard(number)

    def warn_of_skipped(self, number: int) -> None:
        """Log a warning if a commit covers an earlier batch whose block was never entered."""
        end = min((number, *self._returned))
        skipped = [
            number for number in self._unentered if number < end and number not in self._done
        ]
        if skipped:
            self._monitor.warn_of_skipped(min(skipped), number)

    async def _was_committed(self, batch: Batch) -> bool:
        """Return whether a batch with a failed block was committed."""
        if self._lease.fence.is_unsure:
            await self._lease.fence.check_ownership()
        if read_checkpoint(batch.checkpoint).progress > self._lease.fence.progress:
            return False
        self._note_committed(batch.number)
        return True

    # Commits

    async def commit(self, number: int, commit: _Commit) -> None:
        """Commit a batch, and try again while the store fails."""
        tries = 0
        while True:
            try:
                return await self._store_done(number, commit)
            except IncomeClientError as error:
                if self._lease.is_replacement(error):
                    raise
                tries += 1
                self._failures.note_failure(error, tries, is_last=self._schedule.is_stopped)
            await self._schedule.until_next_try()

    @asynccontextmanager
    async def transaction(
        self, number: int, commit: _Commit, connection: Any
    ) -> AsyncIterator[None]:
        """Commit a batch in the transaction of the block's writes."""

        def resolved() -> Sequence[str]:
            if number <= self._committed:
                raise ConfigurationError("the batch is committed already")
            if min(self._returned, default=number) < number:
                raise ConfigurationError("a batch before this one failed: it must be first")
            if number - 1 not in (self._committed, *self._done):
                # The checkpoint would cover that batch, whose rows were not written.
                raise ConfigurationError("the batch before this one is not committed")
            return commit.resolved

        resolved()
        async with self._lease.fence.saving_with(connection, commit.checkpoint, resolved):
            yield
        self._note_committed(number)
        self._note_stored(commit)

    async def _store_done(self, number: int, commit: _Commit) -> None:
        """Commit the last batch that is done, before the first one that has failed."""
        async with self._lock:
            self._returned.pop(number, None)
            self._running.discard(number)
            if number <= self._committed:
                return
            self._done[number] = commit
            # A checkpoint covers all earlier batches, so it must stay before one that has failed,
            # or may fail yet.
            end = min((*self._returned, *self._running), default=self._number + 1)
            ready = [number for number in self._done if number < end]
            if not ready:
                return
            last = max(ready)
            try:
                await self._store_commit(self._done[last])
            except BaseException:
                del self._done[number]
                raise
            self._note_committed(last)

    async def _store_letters(self, letters: DeadLetters) -> None:
        if len(letters.new) < len(letters.unsaved):
            # A dead letter that was forgotten during its retry must not come back.
            letters.follow(await self._lease.fence.load_letters())
        dead, new = letters.unsaved, letters.new
        if dead:
            await self._lease.fence.save_letters(dead)
            letters.saved(dead, ())
            self._monitor.dead_lettered(dead, new)

    async def _store_commit(self, commit: _Commit) -> None:
        await self._lease.fence.save(commit.checkpoint, commit.resolved)
        self._note_stored(commit)

    def _note_committed(self, number: int) -> None:
        self._monitor.failed_blocks = self._refusals = 0
        self._returned.pop(number, None)
        self._committed = max(self._committed, number)
        self._done = {n: later for n, later in self._done.items() if n > self._committed}
        self._unentered = {n for n in self._unentered if n > self._committed}
        self._running = {n for n in self._running if n > self._committed}

    def _note_stored(self, commit: _Commit) -> None:
        self._monitor.resolved(commit.letters.saved((), commit.resolved))
        self._monitor.committed(commit.checkpoint.reached)
