"""How a poller takes its name: at once, or as a standby once no other poller holds the lease.

A poller that has standbys saves its checkpoint again and again, and names in it the seconds after
which a standby that has seen no further save takes over. Each standby counts them by its own
clock, so that the clocks of machines need not agree.
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
"""How often a standby looks at the store while the lease of another lasts."""
_MARK_BYTES: Final = 8


@frozen
class _Watched:
    """What another poller has saved, and the lease after which it may be taken over."""

    stored: StoredCheckpoint
    seen_at: float
    lease: float
    """In seconds; 0 if it was given up."""

    @property
    def free_at(self) -> float:
        """When the lease is over unless the other saves again."""
        return self.seen_at + self.lease


class Standby:
    """Waits for a name, and takes it; without ``seconds`` at once."""

    def __init__(
        self, store: ForeignStore, clock: Clock, seconds: float | None, monitor: Monitor
    ) -> None:
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._monitor = monitor
        self._past: Checkpoint | None = None
        """The last checkpoint that this poller has saved under an earlier lease, or has seen in
        the store. If the store loses it, polling does not begin at the present."""
        self._own: StoredCheckpoint | None = None
        """What the store holds if nobody has saved since this poller did, or tried to."""
        self._watched: _Watched | None = None
        self._may_save = False  # as far as it has tried
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
        """Make the first save under a mark of its own."""
        for _ in range(_MOST_RIVALS):
            stored = await self._wait_until_free()
            # A try before this one may have made the first save, and failed then or later.
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
        """Return the checkpoint to resume from, one takeover later."""
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
        """Return what is stored; with standbys, once no other poller holds the lease."""
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
        """Return the checkpoint that is stored, and remember the furthest one."""
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
        """Find out now whether this standby could save, and not when the leader has died."""
        if not self._may_save:
            await self._store.check_rights()
        self._may_save = True

    def _report_older(self, found: Checkpoint | None) -> None:
        """Warn if the store has lost what this poller has saved or seen."""
        past = self._past
        if past is not None and (found is None or found.progress < past.progress):
            resumes_at = past.since if found is None else found.reached
            self._monitor.lost_checkpoint(resumes_at, is_gone=found is None)
