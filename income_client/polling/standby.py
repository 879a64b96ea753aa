"""Acquiring a lease: at once, or as a standby after the lease of the leader has expired.

A leader with standbys saves its checkpoint several times per lease, and the checkpoint contains the
length of the lease. A standby takes over after it has seen no save for that long. It measures the
time with its own clock, so the clocks of machines need not agree.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from attrs import evolve, frozen

from income_client.checkpoints import StoredCheckpoint
from income_client.errors import CheckpointConflictError, CheckpointError
from income_client.system.clock import Clock

from .checkpoint import Checkpoint, read_checkpoint
from .fence import Fence
from .foreign_store import ForeignStore
from .ownership import Save
from .status import Monitor

_MOST_RIVALS: Final = 20
LOOKS: Final = 10
"""Loads of the checkpoint by a standby during one lease of the leader."""
_MARK_BYTES: Final = 8


@frozen
class _Watched:
    """A checkpoint of another poller that a standby watches."""

    stored: StoredCheckpoint
    seen_at: float
    """Time at which the standby saw this checkpoint first, by its own clock."""
    lease: float
    """Length of the lease in seconds; 0 after its release."""

    @property
    def free_at(self) -> float:
        """Time at which the lease expires, if the other poller does not save again."""
        return self.seen_at + self.lease


class Standby:
    """Acquires a lease of so many ``seconds``; without ``seconds``, without waiting for it."""

    def __init__(
        self, store: ForeignStore, clock: Clock, seconds: float | None, monitor: Monitor
    ) -> None:
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._monitor = monitor
        self._past: Checkpoint | None = None
        """The furthest checkpoint that this poller has saved under an earlier lease, or has seen
        in the store. After the store has lost it, polling resumes from here and not from the
        present."""
        self._own: StoredCheckpoint | None = None
        """The content of the store after this poller's last save, if that save was made."""
        self._watched: _Watched | None = None
        self._may_save = False  # whether a standby's check of its rights has succeeded
        self.is_new: bool = False
        """Whether the store had no checkpoint of the name when the lease was acquired."""

    def begin_again(self, last: Save) -> None:
        """Return to standby after losing the lease; ``last`` is the poller's last save."""
        self._past, self._own = last.checkpoint, last.stored
        self.is_new = self._may_save = False

    async def acquire(
        self,
        given: Checkpoint | None,
        begin: Callable[[], Awaitable[int]],
        *,
        must_exist: bool,
    ) -> Fence:
        """Make the first save, under a new mark, once the lease is free; return the fence."""
        for _ in range(_MOST_RIVALS):
            stored = await self._wait_until_free()
            # A failed try may have made the first save: then the name was new before that.
            if stored != self._own:
                self.is_new = stored.checkpoint is None
            if self.is_new and must_exist and self._past is None:
                raise CheckpointError(
                    f"there is no checkpoint {self._store.name!r} in {self._store.log_name}: check "
                    'the name and the store, or poll without start="stored" to begin anew'
                )
            found = self._read(stored)
            self._report_older(found)
            checkpoint = evolve(
                await self._choose_beginning(found, given, begin),
                holder=secrets.token_hex(_MARK_BYTES),
                lease=self._seconds,
            )
            first = Save.following(stored, checkpoint, self._clock.monotonic())
            self._own = first.stored
            try:
                await self._store.save(first.stored, over=stored)
            except CheckpointConflictError:
                if self._seconds is not None:
                    await self._clock.sleep(self._seconds / LOOKS)
                continue
            self._monitor.failed_renewals = 0
            if (seen := self._watched) is not None:
                silence = self._clock.monotonic() - seen.seen_at
                self._monitor.took_over(silence, was_given_up=not seen.lease)
            return Fence(
                self._store, first, clock=self._clock, seconds=self._seconds, monitor=self._monitor
            )
        raise CheckpointConflictError("other pollers keep taking over this name")

    async def _choose_beginning(
        self,
        found: Checkpoint | None,
        given: Checkpoint | None,
        begin: Callable[[], Awaitable[int]],
    ) -> Checkpoint:
        """Return the checkpoint to resume from, with one takeover more."""
        known, takeovers = found, 0 if found is None else found.takeovers
        if given is not None and (found is None or given.progress > found.progress):
            known = given
        if known is None and self._past is not None:
            since, takeovers = self._past.since, self._past.takeovers
            known = Checkpoint(since=since, reached=since, batches=self._past.batches)
        if known is None:
            second = await begin()
            known = Checkpoint(since=second, reached=second)
        return evolve(known, takeovers=max(known.takeovers, takeovers) + 1)

    async def _wait_until_free(self) -> StoredCheckpoint:
        """Load the checkpoint; with standbys, wait until no other poller holds the lease."""
        while True:
            stored = await self._store.load()
            if self._seconds is None or stored == self._own:
                return stored
            if self._watched is None or stored != self._watched.stored:
                self._watched = self._watch(stored, self._seconds)
            if self._clock.monotonic() >= self._watched.free_at:
                return stored
            await self._try_rights()
            self._monitor.stands_by(self._watched.lease)
            await self._clock.sleep(self._seconds / LOOKS)

    def _read(self, stored: StoredCheckpoint) -> Checkpoint | None:
        """Return the stored checkpoint, and remember the furthest one that was seen."""
        if stored.checkpoint is None:
            return None
        found, past = read_checkpoint(stored.checkpoint), self._past
        if past is None or found.progress >= past.progress:
            self._past = found
        return found

    def _watch(self, stored: StoredCheckpoint, own_lease: float) -> _Watched:
        found = self._read(stored)
        lease = 0.0 if found is None else found.lease
        return _Watched(stored, self._clock.monotonic(), own_lease if lease is None else lease)

    async def _try_rights(self) -> None:
        """Check once whether this standby may save, and not only when the leader has died."""
        if not self._may_save:
            await self._store.check_rights()
        self._may_save = True

    def _report_older(self, found: Checkpoint | None) -> None:
        """Log a warning if the stored checkpoint is older than one that this poller has seen."""
        past = self._past
        if past is not None and (found is None or found.progress < past.progress):
            resumes_at = past.since if found is None else found.reached
            self._monitor.lost_checkpoint(resumes_at, is_gone=found is None)
