"""The lease of a poller: acquired at its start, renewed while it runs, released at its end.

A leader with standbys saves its checkpoint several times per lease, and the checkpoint contains the
length of the lease. A standby takes over after it has seen no save for that long. It measures the
time with its own clock, so the clocks of machines need not agree.
"""

import asyncio
import os
import platform
import secrets
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from attrs import evolve, frozen

from income_client.checkpoints import StoredCheckpoint
from income_client.errors import CheckpointConflictError, CheckpointError, IncomeClientError
from income_client.events.instrumentation import Instrumentation
from income_client.records.dead_letters import DeadLetter
from income_client.system.clock import Clock
from income_client.system.logs import GuardedLogger

from .checkpoint import Checkpoint, read_checkpoint
from .fence import Fence
from .foreign_store import ForeignStore
from .ownership import Held, Lost, Overdue, Released, Save
from .schedule import LONGEST_PAUSE
from .status import Monitor

_LEASE_LOGGER: Final = GuardedLogger("income_client.poller.lease")
_RENEWALS: Final = 3
_LONGEST_ABSENCE: Final = 10
"""Lengths of the lease for which a consumer may work on one batch; then the lease is released."""
_MOST_RIVALS: Final = 20
LOOKS: Final = 10
"""Loads of the checkpoint by a standby during one lease of the leader."""
_MARK_BYTES: Final = 8


class Lease:
    """The lease of one poller.

    With ``seconds``, `acquire` waits until no other poller holds the lease, and a task renews it
    afterwards. Without, `acquire` takes the name over at once, and nothing is renewed.
    """

    def __init__(
        self,
        store: ForeignStore,
        clock: Clock,
        seconds: float | None = None,
        monitor: Monitor | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._monitor = (
            Monitor(store.name, Instrumentation(), clock) if monitor is None else monitor
        )
        self._standby = Standby(self._store, clock, seconds, self._monitor)
        self._fence: Fence | None = None  # None until the lease is acquired
        self.renewal: asyncio.Task[None] | None = None
        """The task that renews the lease; None without standbys."""
        self.idle_since: float | None = None
        """Time at which the consumer received its current batch; None while it awaits one."""

    @property
    def fence(self) -> Fence:
        """The fence that saves under the lease; only after `acquire`."""
        if self._fence is None:
            raise AssertionError("the lease is not acquired")
        return self._fence

    @property
    def log_name(self) -> str:
        """The name of the store in logs."""
        return self._store.log_name

    @property
    def longest_pause(self) -> float:
        """The longest pause between two tries to acquire the lease, in seconds.

        A standby must not look at the store less often because of failures.
        """
        return LONGEST_PAUSE if self._seconds is None else self._seconds / LOOKS

    @property
    def is_new(self) -> bool:
        """Whether the store had no checkpoint of the name when the lease was acquired."""
        return self._standby.is_new

    @property
    def is_lost(self) -> bool:
        """Whether the poller held the lease once and does not hold it now."""
        return self._fence is not None and not isinstance(self._fence.hold, Held)

    @property
    def may_be_acquired_again(self) -> bool:
        """Whether the poller may acquire the lease again after losing it."""
        # A checkpoint that has vanished from the store was not taken over by another poller.
        has_vanished = self._fence is not None and self._fence.hold == Lost(has_vanished=True)
        return self._seconds is not None or has_vanished

    def is_replacement(self, error: IncomeClientError) -> bool:
        """Return whether an error only says that another poller leads while this one stands by."""
        return isinstance(error, CheckpointConflictError) and self.may_be_acquired_again

    async def acquire(
        self,
        start: Checkpoint | None,
        begin: Callable[[], Awaitable[int]],
        *,
        must_exist: bool = False,
        filter_digest: str | None = None,
        service: str | None = None,
    ) -> tuple[Checkpoint, tuple[DeadLetter, ...]]:
        """Acquire the lease; return the checkpoint to resume from, and the dead letters."""
        self._fence = fence = await self._standby.acquire(
            start, begin, must_exist=must_exist, filter_digest=filter_digest, service=service
        )
        letters = await fence.load_letters()
        self._begin_renewing()
        return fence.last.checkpoint, letters

    async def release(self) -> None:
        """Release the lease for good, so that a standby takes over at once."""
        await self.end_renewal()
        if self._fence is not None:
            await self._fence.give_up(Released())

    async def end_renewal(self) -> None:
        """End the renewal task and wait for it; let it finish a release of the lease."""
        if self.renewal is None:
            return
        if not isinstance(self.fence.hold, Overdue):
            self.renewal.cancel()
        try:
            await asyncio.wait((self.renewal,))
        finally:
            self.renewal.cancel()

    def abandon(self) -> None:
        """Stop renewing the lease; a standby takes over when it expires."""
        if self.renewal is not None:
            self.renewal.cancel()
        if self._fence is not None and self._seconds is not None:
            self._fence.abandon()

    def successor(self) -> "Lease":
        """Return a lease to acquire next, which remembers what this one has seen and saved."""
        new = Lease(self._store, self._clock, self._seconds, self._monitor)
        new._standby = self._standby
        if self._fence is not None:
            new._standby.begin_again(self._fence.last)
        return new

    async def renew(self, age: float) -> bool:
        """Renew the lease if the last save is ``age`` seconds old; return whether it is held."""
        if self.is_lost:
            return False
        idle_seconds = 0.0 if self.idle_since is None else self._clock.monotonic() - self.idle_since
        if idle_seconds > _LONGEST_ABSENCE * (self._seconds or 0.0):
            await self._give_up(idle_seconds)
            return False
        try:
            await self.fence.renew(age)
        except CheckpointConflictError:
            return False
        except IncomeClientError as error:
            pause = (self._seconds or 0.0) / _RENEWALS
            self._monitor.renewal_failed(error, next_try=pause)
        return True

    async def _give_up(self, idle_seconds: float) -> None:
        _LEASE_LOGGER.warning(
            "poller %r gives its lease up, so that a standby can take over: its consumer has "
            "held a batch for %.0f s, more than ten leases of %g s",
            self._store.name,
            idle_seconds,
            self._seconds,
            extra={"poller": self._store.name, "seconds": idle_seconds, "lease": self._seconds},
        )
        await self.fence.give_up(Overdue(idle_seconds))

    def _begin_renewing(self) -> None:
        if self._seconds is None:
            return
        pause = self._seconds / _RENEWALS
        # A weak reference, so that an abandoned poller is garbage-collected during the pause.
        renewing = _keep_renewing(weakref.ref(self), self._clock, pause)
        self.renewal = asyncio.create_task(renewing, name="income_client lease renewal")
        loop = asyncio.get_running_loop()
        weakref.finalize(self, _cancel_task, self.renewal, loop).atexit = False


def _make_mark() -> str:
    """Return a new mark of a holder: random, and with the machine and the process for operators."""
    return f"{platform.node()}/{os.getpid()}/{secrets.token_hex(_MARK_BYTES)}"


async def _keep_renewing(lease_of: "weakref.ref[Lease]", clock: Clock, pause: float) -> None:
    while True:
        await clock.sleep(pause)
        lease = lease_of()
        if lease is None or not await lease.renew(pause / 2):
            return
        del lease


def _cancel_task(task: "asyncio.Task[None]", loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(task.cancel)


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
    """Acquires the lease of a name once it is free; without ``seconds``, at once."""

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
        self._first_seen: Checkpoint | None = None
        """The first checkpoint that was seen in the store, until ``start`` is compared with it."""
        self.is_new: bool = False
        """Whether the store had no checkpoint of the name when the lease was acquired."""

    def begin_again(self, last: Save) -> None:
        """Return to standby after losing the lease; ``last`` is the poller's last save."""
        self._past, self._own = last.checkpoint, last.stored
        self.is_new = self._may_save = False

    async def acquire(
        self,
        start: Checkpoint | None,
        begin: Callable[[], Awaitable[int]],
        *,
        must_exist: bool,
        filter_digest: str | None,
        service: str | None,
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
                    "the name and the store, or poll without must_exist to begin anew"
                )
            previous = self._read(stored)
            self._report_older(previous)
            for earlier in (previous, start):
                if earlier is not None and earlier.filter_digest != filter_digest:
                    # This poller would pass over updates that the filter has hidden until now.
                    raise CheckpointError("the checkpoint belongs to a poller with another filter")
            beginning = await self._choose_beginning(previous, start, begin)
            if beginning.service not in {None, service} and service is not None:
                self._monitor.is_of_another_service(beginning.reached)
            checkpoint = evolve(
                beginning,
                filter_digest=filter_digest,
                service=service,
                holder=_make_mark(),
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
            if (watched := self._watched) is not None:
                silence = self._clock.monotonic() - watched.seen_at
                self._monitor.took_over(silence, was_given_up=not watched.lease)
            return Fence(
                self._store, first, clock=self._clock, seconds=self._seconds, monitor=self._monitor
            )
        raise CheckpointConflictError("other pollers keep taking over this name")

    async def _choose_beginning(
        self,
        previous: Checkpoint | None,
        start: Checkpoint | None,
        begin: Callable[[], Awaitable[int]],
    ) -> Checkpoint:
        """Return the checkpoint to resume from, with one takeover more."""
        self._compare_with_start(start)
        beginning, takeovers = previous, 0 if previous is None else previous.takeovers
        if start is not None and (previous is None or start.progress > previous.progress):
            beginning = start
        if beginning is None and self._past is not None:
            since, takeovers = self._past.since, self._past.takeovers
            beginning = Checkpoint(since=since, reached=since, batches=self._past.batches)
        if beginning is None:
            second = await begin()
            beginning = Checkpoint(since=second, reached=second)
        return evolve(beginning, takeovers=max(beginning.takeovers, takeovers) + 1)

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
        checkpoint = read_checkpoint(stored.checkpoint)
        if self._past is None:
            self._first_seen = checkpoint
        past = self._past or checkpoint
        furthest = checkpoint if checkpoint.progress >= past.progress else past
        # A name that was begun anew may have begun earlier than before.
        self._past = evolve(furthest, since=min(checkpoint.since, past.since))
        return checkpoint

    def _watch(self, stored: StoredCheckpoint, own_lease: float) -> _Watched:
        checkpoint = self._read(stored)
        lease = 0.0 if checkpoint is None else checkpoint.lease
        return _Watched(stored, self._clock.monotonic(), own_lease if lease is None else lease)

    async def _try_rights(self) -> None:
        """Check once whether this standby may save, and not only when the leader has died."""
        if not self._may_save:
            await self._store.check_rights()
        self._may_save = True

    def _compare_with_start(self, start: Checkpoint | None) -> None:
        """Log a warning if batches were committed after the checkpoint that the caller has.

        Later saves prove nothing: the leader that a standby has watched committed batches too.
        """
        first, self._first_seen = self._first_seen, None
        if start is None or first is None or start.progress > first.progress:
            return
        if start.batches < first.batches:
            self._monitor.start_is_older(first.batches - start.batches)

    def _report_older(self, checkpoint: Checkpoint | None) -> None:
        """Log a warning if the stored checkpoint is older than one that this poller has seen."""
        past = self._past
        if past is not None and (checkpoint is None or checkpoint.progress < past.progress):
            resumes_at = past.since if checkpoint is None else checkpoint.reached
            self._monitor.lost_checkpoint(resumes_at, is_gone=checkpoint is None)
