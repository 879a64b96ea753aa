"""The fence around a poller's name: who has made the last save holds it, and only that one saves.

Each holder has a mark, a random text in every checkpoint that it saves: versions are counts, and
two pollers may have counted to the same number after a failover or a restore. So a store compares
the checkpoint that it holds in the same statement as the version.

A save that was cancelled or has failed may have been made all the same; so the store is
asked before the next one.
"""

import asyncio
import enum
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final, assert_never

from attrs import evolve, frozen

from income_client.checkpoints import StoredCheckpoint
from income_client.checkpoints.store import reason_of_conflict
from income_client.errors import CheckpointConflictError, CheckpointError, IncomeClientError
from income_client.records.dead_letters import DeadLetter
from income_client.system.clock import Clock

from .checkpoint import Checkpoint, read_checkpoint
from .foreign_store import ForeignStore
from .status import Monitor

_LONGEST_SILENCE: Final = 15.0
"""Seconds that a database waits for a commit after the save, where there is no lease."""


@frozen
class Save:
    """A save, and what the store holds once it is made."""

    checkpoint: Checkpoint
    stored: StoredCheckpoint
    sent_at: float

    @classmethod
    def following(cls, stored: StoredCheckpoint, checkpoint: Checkpoint, now: float) -> "Save":
        """Return the save that follows on what is stored."""
        new = StoredCheckpoint(checkpoint=checkpoint.text, version=stored.version + 1)
        return cls(checkpoint, new, now)


@frozen
class _Sure:
    """The store holds the last save, unless another poller has saved since."""

    last: Save


@frozen
class _Unsure:
    """One more save was sent, and nothing has told whether it was made."""

    last: Save
    sent: Save


class _Commit(enum.Enum):
    """How far a save has come that is part of a transaction."""

    OPEN = enum.auto()
    """It was not accepted: the transaction is undone."""
    SENT = enum.auto()
    """The store has accepted it: the end of the transaction decides."""
    MADE = enum.auto()
    """The store holds it."""


@frozen
class Held:
    """This poller works."""


@frozen
class Abandoned:
    """It was left without a word: a standby takes over once it has expired."""


@frozen
class Released:
    """It was given up: a standby takes over at once."""


@frozen
class Overdue:
    """It was given up because the consumer had held a batch for so many seconds."""

    seconds: float


@frozen
class Lost:
    """Another poller has taken over, or the store has no checkpoint any more."""

    has_vanished: bool


Hold = Held | Abandoned | Released | Overdue | Lost


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
        self._state: _Sure | _Unsure = _Sure(first)
        self._mark = first.checkpoint.holder
        self._clock = clock
        self._seconds = seconds
        self._monitor = monitor
        self._lock = asyncio.Lock()
        self.hold: Hold = Held()
        """Whether the name is held, or how it was given up or lost."""

    @property
    def last(self) -> Save:
        """The last save that was made, as far as is known."""
        return self._state.last

    @property
    def progress(self) -> tuple[int, int]:
        """That of the checkpoint saved last."""
        return self.last.checkpoint.progress

    @property
    def is_unsure(self) -> bool:
        """Whether a save has failed that may have been made."""
        return isinstance(self._state, _Unsure)

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
        if self._change_hold(hold):
            with suppress(IncomeClientError):
                async with self._lock:
                    await self._save_last()

    def abandon(self) -> None:
        """Name no lease in further saves."""
        self._change_hold(Abandoned())

    @asynccontextmanager
    async def saving_with(
        self, connection: Any, checkpoint: Checkpoint, resolved: Callable[[], Sequence[str]]
    ) -> AsyncIterator[None]:
        """Store a checkpoint in the transaction in which the block writes, at its end."""
        transaction = self._store.begin_transaction(connection)
        commit = _Commit.OPEN
        async with AsyncExitStack() as held:
            try:
                async with transaction as bound:
                    yield
                    await held.enter_async_context(self._lock)
                    store = self._store.bound_to(bound)
                    await store.end_when_idle(self._seconds or _LONGEST_SILENCE)
                    await self._check_if_doubtful()
                    commit = await self._send_save(store, checkpoint, (), resolved())
                    if commit is _Commit.MADE:
                        # With the rows of an earlier try: those of this one must be undone.
                        raise CheckpointConflictError("stored already")  # noqa: TRY301 - by this
            except Exception:
                if commit is _Commit.SENT:
                    # Whether the transaction was committed is unknown if its reply was lost.
                    commit = await self._ask_for_commit()
                if commit is not _Commit.MADE:
                    raise
            else:
                self._confirm_save()

    async def _check_stored(self) -> None:
        found = await self._store.load()
        match self._state:
            case _Unsure(sent=sent) if sent.stored == found:
                self._confirm_save()
            case _Unsure(last=last):
                self._state = _Sure(last)
            case _Sure():
                pass
            case never:
                assert_never(never)
        if not self._accept(found):
            conflict = self._conflict_error(found)
            self._note_loss(found)
            raise conflict

    async def _check_if_doubtful(self) -> None:
        """Ask the store what it holds, where the next save may be refused for good reasons."""
        if self.is_unsure or isinstance(self.hold, Overdue):
            await self._check_stored()

    def _accept(self, found: StoredCheckpoint) -> bool:
        """Return whether this poller has made the last save in the store, and remember it."""
        known = self.last.stored
        if found == known or found.checkpoint is None or found.version < known.version:
            return found == known
        checkpoint = read_checkpoint(found.checkpoint)
        if self._mark is None or checkpoint.holder != self._mark:
            return False
        # A store of the user's may give back the members of the text in another order.
        if found.version > known.version:
            # The save was cancelled or has failed, and was made after the store was asked.
            self._state = _Sure(Save(checkpoint, found, self.last.sent_at))
        return True

    def _change_hold(self, new: Hold) -> bool:
        """Make each change that there is, and say whether this is one."""
        match self.hold, new:
            case (Held(), _) | (Abandoned(), Released() | Overdue() | Lost()) | (Lost(), Lost()):
                self.hold = new
                return True
            case _:  # what was given up stays so
                return False

    def _note_loss(self, found: StoredCheckpoint) -> None:
        was_held = isinstance(self.hold, Held)
        has_vanished = found.checkpoint is None
        self._change_hold(Lost(has_vanished=has_vanished))
        if was_held and self._seconds is not None:
            silence = self._clock.monotonic() - self.last.sent_at
            self._monitor.lost_lease(silence, has_vanished=has_vanished)

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
    ) -> _Commit:
        """Save over what this poller has saved last; raise an error over anything else."""
        while True:
            last = self.last
            if last.checkpoint.progress > checkpoint.progress:
                checkpoint = last.checkpoint  # it was saved late, after this save was begun
            lease = self._seconds if isinstance(self.hold, Held) else 0
            if lease != checkpoint.lease:
                checkpoint = evolve(checkpoint, lease=lease)
            sent = Save.following(last.stored, checkpoint, self._clock.monotonic())
            self._state = _Unsure(last, sent)
            try:
                await store.save(sent.stored, over=last.stored, letters=letters, resolved=resolved)
            except CheckpointConflictError:
                # An earlier try may have been made only after the store was asked for it.
                found = await self._store.load()
                if found == sent.stored:
                    self._confirm_save()
                    return _Commit.MADE
                self._state = _Sure(last)
                if found.version <= last.stored.version or not self._accept(found):
                    self._note_loss(found)
                    raise
            else:
                return _Commit.SENT

    async def _ask_for_commit(self) -> _Commit:
        """Return whether the store holds what the last transaction was to save."""
        before = self.last
        with suppress(CheckpointError):
            await self._check_stored()
        return _Commit.SENT if self.last is before else _Commit.MADE

    def _confirm_save(self) -> None:
        """Note that the save that was sent is made."""
        if isinstance(self._state, _Unsure):
            self._state = _Sure(self._state.sent)
        self._monitor.failed_renewals = 0
