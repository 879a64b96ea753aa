"""The fence around a poller's name: who has made the last save holds it, and only that one saves.

`Ownership` says what the poller knows of its name; this asks the store and saves. A save that was
cancelled or has failed may have been made all the same, so the store is asked before the next one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

from attrs import evolve

from income_client.checkpoints import StoredCheckpoint
from income_client.checkpoints.store import reason_of_conflict
from income_client.errors import CheckpointConflictError, CheckpointError, IncomeClientError
from income_client.records.dead_letters import DeadLetter
from income_client.system.clock import Clock

from .checkpoint import Checkpoint
from .foreign_store import ForeignStore
from .ownership import Abandoned, Hold, Overdue, Ownership, Released, Save
from .status import Monitor

_LONGEST_SILENCE: Final = 15.0
"""Seconds that a database waits for a commit after the save, where there is no lease."""


class Fence:
    """Saves the checkpoints of one poller after its ``first`` save, until another makes one.

    Each save names the lease, of so many ``seconds``; None without standbys.
    """

    def __init__(
        self,
        store: ForeignStore,
        first: Save,
        *,
        clock: Clock,
        seconds: float | None,
        monitor: Monitor,
    ) -> None:
        self._store = store
        self._ownership = Ownership(first)
        self._clock = clock
        self._seconds = seconds
        self._monitor = monitor
        self._lock = asyncio.Lock()

    @property
    def hold(self) -> Hold:
        """Whether the name is held, or how it was given up or lost."""
        return self._ownership.hold

    @property
    def last(self) -> Save:
        """The last save that was made, as far as is known."""
        return self._ownership.last

    @property
    def progress(self) -> tuple[int, int]:
        """That of the checkpoint saved last."""
        return self.last.checkpoint.progress

    @property
    def is_unsure(self) -> bool:
        """Whether a save has failed that may have been made."""
        return self._ownership.sent is not None

    async def check_ownership(self) -> None:
        """Raise `CheckpointConflictError` if another poller has taken over."""
        async with self._lock:
            await self._check_stored()

    async def load_letters(self) -> tuple[DeadLetter, ...]:
        """Return the dead letters that the store has."""
        return await self._store.load_letters()

    async def save(self, checkpoint: Checkpoint, resolved: Sequence[str] = ()) -> None:
        """Store a checkpoint, and remove dead letters by their keys."""
        async with self._lock:
            await self._check_if_doubtful()
            await self._send_save(self._store, checkpoint, (), resolved)
            self._confirm_save()

    async def save_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Store dead letters, and leave the checkpoint as it is."""
        async with self._lock:
            await self._save_last(letters)

    async def renew(self, age: float) -> None:
        """Save the last checkpoint again, if that was so many seconds ago."""
        now = self._clock.monotonic()
        async with self._lock:
            if now - self.last.sent_at >= age:
                await self._save_last()

    async def give_up(self, hold: Released | Overdue) -> None:
        """Let a standby take over at once, if it was not given up before, nor lost."""
        before = self._ownership
        self._ownership = before.changed_to(hold)
        if self._ownership is not before:
            with suppress(IncomeClientError):
                async with self._lock:
                    await self._save_last()

    def abandon(self) -> None:
        """Name no lease in further saves."""
        self._ownership = self._ownership.changed_to(Abandoned())

    @asynccontextmanager
    async def saving_with(
        self, connection: Any, checkpoint: Checkpoint, resolved: Callable[[], Sequence[str]]
    ) -> AsyncIterator[None]:
        """Store a checkpoint in the transaction in which the block writes, at its end."""
        transaction = self._store.begin_transaction(connection)
        replaced: Save | None = None  # once the store has accepted the save
        async with AsyncExitStack() as held:
            try:
                async with transaction as bound:
                    yield
                    await held.enter_async_context(self._lock)
                    store = self._store.bound_to(bound)
                    await store.end_when_idle(self._seconds or _LONGEST_SILENCE)
                    await self._check_if_doubtful()
                    before = self.last
                    await self._send_save(store, checkpoint, (), resolved())
                    replaced = before
                    if self.last is not replaced:
                        # With the rows of an earlier try: those of this one must be undone.
                        raise CheckpointConflictError("stored already")  # noqa: TRY301 - by this
            except Exception:
                if replaced is None:
                    raise
                if self.is_unsure:
                    # Whether the transaction was committed is unknown if its reply was lost.
                    with suppress(CheckpointError):
                        await self._check_stored()
                if self.last is replaced:
                    raise
            else:
                self._confirm_save()

    async def _check_stored(self) -> None:
        stored = await self._store.load()
        seen = self._ownership.seen(stored)
        if seen is None:
            raise self._lose_to(stored)
        if seen.last is not self.last:
            self._monitor.failed_renewals = 0
        self._ownership = seen

    async def _check_if_doubtful(self) -> None:
        """Ask the store what it holds, where the next save may be refused for good reasons."""
        if self.is_unsure or isinstance(self.hold, Overdue):
            await self._check_stored()

    def _lose_to(self, stored: StoredCheckpoint) -> CheckpointConflictError:
        """Note that the store holds what is another's, or nothing; return the error for that."""
        before = self._ownership
        self._ownership = before.lost_to(stored)
        if before.is_held and self._seconds is not None:
            silence = self._clock.monotonic() - before.last.sent_at
            self._monitor.lost_lease(silence, has_vanished=stored.checkpoint is None)
        return self._conflict_error(stored)

    def _conflict_error(self, found: StoredCheckpoint) -> CheckpointConflictError:
        known = self.last.stored.version
        reason = reason_of_conflict(found.version, known)
        if found.checkpoint is None:
            reason = "it is gone from the store, which was emptied or made again"
        elif isinstance(self.hold, Overdue) and found.version > known:
            reason = (
                f"this poller gave its lease up after its consumer had held a batch for "
                f"{self.hold.seconds:.0f} s, and another has taken over"
            )
        return CheckpointConflictError(f"checkpoint {self._store.name!r}: {reason}")

    async def _save_last(self, letters: Sequence[DeadLetter] = ()) -> None:
        await self._check_if_doubtful()  # which tells what the last save was
        await self._send_save(self._store, self.last.checkpoint, letters, ())
        self._confirm_save()

    async def _send_save(
        self,
        store: ForeignStore,
        checkpoint: Checkpoint,
        letters: Sequence[DeadLetter],
        resolved: Sequence[str],
    ) -> None:
        """Save over what this poller has saved last; raise an error over anything else.

        If the store holds the save already, it is confirmed; else that is left to the caller.
        """
        while True:
            last = self.last
            if last.checkpoint.progress > checkpoint.progress:
                checkpoint = last.checkpoint  # it was saved late, after this save was begun
            lease = self._seconds if self._ownership.is_held else 0
            if lease != checkpoint.lease:
                checkpoint = evolve(checkpoint, lease=lease)
            sent = Save.following(last.stored, checkpoint, self._clock.monotonic())
            self._ownership = self._ownership.sending(sent)
            try:
                await store.save(sent.stored, over=last.stored, letters=letters, resolved=resolved)
            except CheckpointConflictError:
                # An earlier try may have been made only after the store was asked for it.
                stored = await self._store.load()
                seen = self._ownership.seen(stored)
                if seen is None or seen.last is last:
                    self._lose_to(stored)
                    raise
                self._ownership = seen
                if seen.last is sent:
                    self._confirm_save()
                    return
            else:
                return

    def _confirm_save(self) -> None:
        """Note that the save that was sent is made."""
        self._ownership = self._ownership.made()
        self._monitor.failed_renewals = 0
