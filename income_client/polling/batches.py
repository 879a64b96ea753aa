"""Batches of records, and their commits to the store, which are kept in order.

Dead letters are stored before the batch that was read beside them is delivered, and removed
from the store only with the batch that delivers their application after all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Self

from attrs import define, evolve, field, frozen

from income_client.records.dead_letters import DeadLetter
from income_client.records.documents import ApplicationRecord

from .checkpoint import Checkpoint
from .dead_letters import DeadLetters
from .lease import Lease
from .status import Monitor

Save = Callable[[], Awaitable[None]]


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
    records: tuple[ApplicationRecord, ...]
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
        self._letters = DeadLetters()
        self._number = 0
        self._committed = 0
        self._done: dict[int, Chunk] = {}
        self._returned: dict[int, Batch] = {}
        self._lock = asyncio.Lock()

    def begin(self, letters: Iterable[DeadLetter]) -> DeadLetters:
        """Take the dead letters that the store holds, and return what keeps them from now on."""
        self._letters = DeadLetters(letters)
        return self._letters

    def take_back(self, batch: Batch) -> None:
        """Have a batch delivered again, unless it was committed."""
        if batch.number > self._committed and batch.number not in self._done:
            self._returned[batch.number] = batch

    def returned(self) -> Batch | None:
        """Return the first of the batches to be delivered again."""
        return self._returned.pop(min(self._returned)) if self._returned else None

    async def make(self, chunk: Chunk, persist: Callable[[Save], Awaitable[None]]) -> Batch | None:
        """Make a batch; a chunk without records is stored at once.

        Nothing is stored before all batches are committed: a consumer that keeps checkpoints
        elsewhere may not have stored the last one yet. `persist` retries the commit of the
        batch while the store fails.
        """
        dead = [letter for letter in chunk.dead if letter in self._letters.unsaved]
        if dead:
            await self._lease.save_letters(dead)
            self._letters.saved(dead, ())
            self._monitor.dead_lettered(dead)
        if chunk.records:
            self._number += 1
            kept = evolve(chunk, records=())  # a commit that must wait keeps no records alive
            commit = partial(persist, partial(self._commit, self._number, kept))
            text = chunk.checkpoint.text
            return Batch(self._number, chunk.records, text, commit, self.take_back)
        is_further = chunk.checkpoint.progress > self._lease.progress
        if self._committed == self._number and (is_further or chunk.resolved):
            await self._store(chunk)
        return None

    async def _commit(self, number: int, chunk: Chunk) -> None:
        async with self._lock:
            self._returned.pop(number, None)
            if number <= self._committed:
                return
            self._done[number] = chunk
            # A checkpoint covers every batch before it, and must not cover one that failed.
            end = min(self._returned, default=self._number + 1)
            ready = [number for number in self._done if number < end]
            if not ready:
                return
            last = max(ready)
            try:
                await self._store(self._done[last])
            except BaseException:
                del self._done[number]
                raise
            self._committed = last
            self._done = {n: later for n, later in self._done.items() if n > last}

    async def _store(self, chunk: Chunk) -> None:
        # Some may have become dead letters again since.
        resolved = [key for key in chunk.resolved if key not in self._letters]
        await self._lease.save(chunk.checkpoint, resolved)
        self._letters.saved((), resolved)
        self._monitor.committed(chunk.checkpoint.reached)
