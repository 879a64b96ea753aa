"""The fence of a poller's name: a save succeeds only over the last save of the same poller.

`Ownership` decides; the fence loads from the store and saves to it. After a save with an unknown
outcome, the fence loads the stored checkpoint before it saves again.
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
"""Seconds after the save within which a transaction must be committed, without a lease."""


class Fence:
    """Saves the checkpoints of one poller, from its ``first`` save until another poller saves.

    Each save contains the length of the lease in ``seconds``; None without standbys.
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
        """The state of the lease."""
        return self._ownership.hold

    @property
    def last(self) -> Save:
        """The last save that is known to be made."""
        return self._ownership.last

    @property
    def progress(self) -> tuple[int, int]:
        """The progress of the checkpoint that was saved last."""
        return self.last.checkpoint.progress

    @property
    def is_unsure(self) -> bool:
        """Whether the outcome of a save is unknown."""
        return self._ownership.sent is not None

    async def check_ownership(self) -> None:
        """Raise `CheckpointConflictError` if another poller has taken over."""
        async with self._lock:
            await self._check_stored()

    async def load_letters(self) -> tuple[DeadLetter, ...]:
        """Load the dead letters from the store."""
        return await self._store.load_letters()

    async def save(self, checkpoint: Checkpoint, resolved: Sequence[str] = ()) -> None:
        """Save a checkpoint, and remove the dead letters with the ``resolved`` keys."""
        async with self._lock:
            await self._check_if_doubtful()
            await self._send_save(self._store, checkpoint, (), resolved)
            self._confirm_save()

    async def save_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Save dead letters together with the last checkpoint."""
        async with self._lock:
            await self._save_last(letters)

    async def renew(self, age: float) -> None:
        """Save the last checkpoint again if its save is at least ``age`` seconds old."""
        now = self._clock.monotonic()
        async with self._lock:
            if now - self.last.sent_at >= age:
                await self._save_last()

    async def give_up(self, hold: Released | Overdue) -> None:
        """Release the lease, so that a standby takes over at once; ignore a store that fails."""
        before = self._ownership
        self._ownership = before.after_change(hold)
        if self._ownership is not before:
            with suppress(IncomeClientError):
                async with self._lock:
                    await self._save_last()

    def abandon(self) -> None:
        """Leave the stored lease to expire, and save no lease any more."""
        self._ownership = self._ownership.after_change(Abandoned())

    @asynccontextmanager
    async def saving_with(
        self, connection: Any, checkpoint: Checkpoint, resolved: Callable[[], Sequence[str]]
    ) -> AsyncIterator[None]:
        """Save a checkpoint at the end of the block, in the transaction of the block's writes."""
        transaction = self._store.begin_transaction(connection)
        replaced: Save | None = None  # set once the store has accepted the save
        async with AsyncExitStack() as stack:
            try:
                async with transaction as bound:
                    yield
                    await stack.enter_async_context(self._lock)
                    store = self._store.bound_to(bound)
                    await store.end_when_idle(self._seconds or _LONGEST_SILENCE)
                    await self._check_if_doubtful()
                    before = self.last
                    await self._send_save(store, checkpoint, (), resolved())
                    replaced = before
                    if self.last is not replaced:
                        # An earlier try was committed, with its rows: undo the rows of this try.
                        raise CheckpointConflictError("stored already")  # noqa: TRY301 - by this
            except Exception:
                if replaced is None:
                    raise
                if self.is_unsure:
                    # The reply to the commit may be lost: only the store knows the outcome.
                    with suppress(CheckpointError):
                        await self._check_stored()
                if self.last is replaced:
                    raise
            else:
                self._confirm_save()

    async def _check_stored(self) -> None:
        stored = await self._store.load()
        ownership = self._ownership.after_load(stored)
        if ownership is None:
            raise self._lose_to(stored)
        if ownership.last is not self.last:
            self._monitor.saved()
        self._ownership = ownership

    async def _check_if_doubtful(self) -> None:
        """Load the stored checkpoint if the last outcome is unknown, or the lease was given up."""
        if self.is_unsure or isinstance(self.hold, Overdue):
            await self._check_stored()

    def _lose_to(self, stored: StoredCheckpoint) -> CheckpointConflictError:
        """Note that another poller has saved, or that the store is empty; return the error."""
        before = self._ownership
        self._ownership = before.after_loss(stored)
        if before.is_held and self._seconds is not None:
            silence = self._clock.monotonic() - before.last.sent_at
            self._monitor.lost_lease(silence, has_vanished=stored.checkpoint is None)
        return self._conflict_error(stored)

    def _conflict_error(self, stored: StoredCheckpoint) -> CheckpointConflictError:
        own_version = self.last.stored.version
        reason = reason_of_conflict(stored.version, own_version)
        if stored.checkpoint is None:
            reason = "it is gone from the store, which was emptied or made again"
        elif isinstance(self.hold, Overdue) and stored.version > own_version:
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
        """Replace this poller's last save; raise `CheckpointConflictError` over any other.

        The caller confirms the save, unless the store turns out to hold it already.
        """
        while True:
            last = self.last
            if last.checkpoint.progress > checkpoint.progress:
                checkpoint = last.checkpoint  # a late save that lies further ahead
            lease = self._seconds if self._ownership.is_held else 0
            if lease != checkpoint.lease:
                checkpoint = evolve(checkpoint, lease=lease)
            sent = Save.following(last.stored, checkpoint, self._clock.monotonic())
            self._ownership = self._ownership.after_sending(sent)
            try:
                await store.save(sent.stored, over=last.stored, letters=letters, resolved=resolved)
            except CheckpointConflictError:
                # The store may have made an earlier save of this poller late.
                stored = await self._store.load()
                ownership = self._ownership.after_load(stored)
                if ownership is None or ownership.last is last:
                    self._lose_to(stored)
                    raise
                self._ownership = ownership
                if ownership.last is sent:
                    self._confirm_save()
                    return
            else:
                return

    def _confirm_save(self) -> None:
        """Note that the sent save is made."""
        self._ownership = self._ownership.after_confirmation()
        self._monitor.saved()
