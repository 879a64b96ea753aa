"""Batches of records, and their commits to the store, which are kept in order.

Dead letters are stored before the batch that was read beside them is delivered, and removed
from the store only with the batch that delivers their application after all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Self

from attrs import define, field, frozen

from income_client.records.documents import ApplicationRecord

from .checkpoint import Checkpoint, DeadLetters, Progress
from .lease import Lease
from .status import Monitor

Save = Callable[[], Awaitable[None]]


Records = tuple[ApplicationRecord, ...]


@frozen
class _Commit:
    """What may be stored once the records before it are delivered."""

    checkpoint: Checkpoint
    resolved: tuple[str, ...]


@define(eq=False, repr=False)
class Batch:
    """Records that are new, at most a hundred, in the order in which they were listed.

    ``async with batch:`` commits it at the end of the block. If the block fails, the batch is
    delivered again. A consumer that stores ``batch.checkpoint`` together with its data starts
    its next poller with ``start=``, and commits all the same after that, so that the store
    moves on as well.
    """

    number: int
    """Counts the batches of this poller."""
    records: Records
    """What is new."""
    checkpoint: str
    """What ``poll(start=...)`` takes: a text of 20 bytes for each application updated within
    ``settle`` and ``lookback``, or listed by the page being read."""
    _commit: Save
    _give_back: Callable[["Batch"], None]
    has_failed: bool = field(default=False, init=False)
    """Whether its block has ended in an error."""

    def __iter__(self) -> Iterator[ApplicationRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} records>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is None:
            await self.commit()
        else:
            self.has_failed = True
            self._give_back(self)

    async def commit(self) -> None:
        """Store the checkpoint, which covers every batch before as well; again does nothing.

        If the block of an earlier batch has failed, it is stored once that one is committed.
        While the store fails, the commit is retried with growing pauses, which ``status`` shows.

        Raises:
            CheckpointConflictError: another poller has taken over the name; nothing was stored.
            CheckpointError: the store cannot be used, or failed when polling was stopped, or
                kept failing in a single poll; the batch can be committed again.
        """
        await self._commit()


class Batches:
    """The batches of one poller."""

    def __init__(self, lease: Lease, monitor: Monitor) -> None:
        self._lease = lease
        self._monitor = monitor
        self._number = 0
        self._committed = 0
        self._done: dict[int, _Commit] = {}
        self._returned: dict[int, Batch] = {}
        self._lock = asyncio.Lock()

    def take_back(self, batch: Batch) -> None:
        """Have a batch delivered again, unless it was committed."""
        if batch.number > self._committed and batch.number not in self._done:
            self._returned[batch.number] = batch

    def returned(self) -> Batch | None:
        """Return the first of the batches to be delivered again."""
        return self._returned.pop(min(self._returned)) if self._returned else None

    async def make(
        self,
        records: Records,
        progress: Progress,
        letters: DeadLetters,
        persist: Callable[[Save], Awaitable[None]],
    ) -> Batch | None:
        """Make a batch, whose commit `persist` retries; without records store what was reached."""
        if dead := letters.unsaved:
            await self._lease.save_letters(dead)
            letters.saved(dead, ())
            self._monitor.dead_lettered(dead)
        new = _Commit(progress.checkpoint(), letters.resolved)
        if records:
            self._number += 1
            commit = partial(persist, partial(self._commit, self._number, new, letters))
            return Batch(self._number, records, new.checkpoint.text, commit, self.take_back)
        # A consumer that keeps checkpoints elsewhere may not have stored the last one yet.
        are_committed = self._committed == self._number
        if are_committed and (new.resolved or new.checkpoint.progress > self._lease.progress):
            await self._store(new, letters)
        return None

    async def _commit(self, number: int, new: _Commit, letters: DeadLetters) -> None:
        async with self._lock:
            self._returned.pop(number, None)
            if number <= self._committed:
                return
            self._done[number] = new
            # A checkpoint covers every batch before it, and must not cover one that failed.
            end = min(self._returned, default=self._number + 1)
            ready = [number for number in self._done if number < end]
            if not ready:
                return
            last = max(ready)
            try:
                await self._store(self._done[last], letters)
            except BaseException:
                del self._done[number]
                raise
            self._committed = last
            self._done = {n: later for n, later in self._done.items() if n > last}

    async def _store(self, new: _Commit, letters: DeadLetters) -> None:
        # Some may have become dead letters again since.
        resolved = [key for key in new.resolved if key not in letters]
        await self._lease.save(new.checkpoint, resolved)
        letters.saved((), resolved)
        self._monitor.committed(new.checkpoint.reached)
