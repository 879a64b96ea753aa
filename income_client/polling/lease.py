"""The lease of one poller: it is taken, renewed while the poller lives, and given up at its end."""

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from income_client.errors import CheckpointConflictError, IncomeClientError
from income_client.events.instrumentation import Instrumentation
from income_client.records.dead_letters import DeadLetter
from income_client.system.clock import Clock

from .checkpoint import Checkpoint
from .fence import Fence
from .foreign_store import ForeignStore
from .ownership import Held, Lost, Overdue, Released
from .schedule import LONGEST_PAUSE
from .standby import LOOKS, Standby
from .status import Monitor

_LOGGER: Final = logging.getLogger("income_client.poller")
_LEASE_LOGGER: Final = logging.getLogger("income_client.poller.lease")
_RENEWALS: Final = 3
_LONGEST_ABSENCE: Final = 10
"""Leases for which a consumer may work on a batch; then its poller gives the lease up."""


class Lease:
    """The lease of one poller.

    With ``seconds`` it is taken once no other poller holds it, and renewed while it is held.
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
        self._fence: Fence | None = None  # before it is taken
        self.renewal: asyncio.Task[None] | None = None
        """The task that renews it while it is held; None without standbys."""
        self.idle_since: float | None = None
        """When the consumer was given what it works on; None while it waits."""

    @property
    def fence(self) -> Fence:
        """What saves under it, once it is taken."""
        if self._fence is None:
            raise AssertionError("the lease is not taken")
        return self._fence

    @property
    def log_name(self) -> str:
        """What the store is called in a log."""
        return self._store.log_name

    @property
    def longest_pause(self) -> float:
        """Seconds between two tries to acquire it, at most: a standby's failures delay no look."""
        return LONGEST_PAUSE if self._seconds is None else self._seconds / LOOKS

    @property
    def is_new(self) -> bool:
        """Whether the store had no checkpoint of the name when it was taken."""
        return self._standby.is_new

    @property
    def is_lost(self) -> bool:
        """Whether it was given up, or another poller has taken over."""
        return self._fence is not None and not isinstance(self._fence.hold, Held)

    @property
    def has_vanished(self) -> bool:
        """Whether it was lost because the store has no checkpoint any more."""
        return self._fence is not None and self._fence.hold == Lost(has_vanished=True)

    async def acquire(
        self,
        given: Checkpoint | None,
        begin: Callable[[], Awaitable[int]],
        *,
        must_exist: bool = False,
    ) -> tuple[Checkpoint, tuple[DeadLetter, ...]]:
        """Take the name over; return where to begin, and the dead letters."""
        self._fence = fence = await self._standby.acquire(given, begin, must_exist=must_exist)
        letters = await fence.load_letters()
        self._begin_renewing()
        return fence.last.checkpoint, letters

    async def release(self) -> None:
        """Give it up for good, so that a standby takes over at once."""
        await self.end_renewal()
        if self._fence is not None:
            await self._fence.give_up(Released())

    async def end_renewal(self) -> None:
        """End the renewal task and wait for it; if it gives the lease up, let it do so."""
        if self.renewal is None:
            return
        if not isinstance(self.fence.hold, Overdue):
            self.renewal.cancel()
        try:
            await asyncio.wait((self.renewal,))
        finally:
            self.renewal.cancel()

    def abandon(self) -> None:
        """Stop renewing the lease, if this poller holds it."""
        if self.renewal is not None:
            self.renewal.cancel()
        if self._fence is not None and self._seconds is not None:
            self._fence.abandon()

    def successor(self) -> "Lease":
        """Return a lease that is not taken yet, and knows what this one has seen and saved."""
        new = Lease(self._store, self._clock, self._seconds, self._monitor)
        new._standby = self._standby
        if self._fence is not None:
            new._standby.begin_again(self._fence.last)
        return new

    async def renew(self, age: float) -> bool:
        """Save again what was saved so many seconds ago; return whether it is held after that."""
        if self.is_lost:
            return False
        held = 0.0 if self.idle_since is None else self._clock.monotonic() - self.idle_since
        if held > _LONGEST_ABSENCE * (self._seconds or 0.0):
            await self._give_up(held)
            return False
        try:
            await self.fence.renew(age)
        except CheckpointConflictError:
            return False
        except IncomeClientError as error:
            name = type(error).__name__
            _LOGGER.warning("the lease was not renewed (%s)", name, extra={"error": name})
            self._monitor.renewal_failed(error)
        return True

    async def _give_up(self, held: float) -> None:
        _LEASE_LOGGER.warning(
            "poller %r gives its lease up, so that a standby can take over: its consumer has "
            "held a batch for %.0f s, more than ten leases of %g s",
            self._store.name,
            held,
            self._seconds,
            extra={"poller": self._store.name, "seconds": held, "lease": self._seconds},
        )
        await self.fence.give_up(Overdue(held))

    def _begin_renewing(self) -> None:
        if self._seconds is None:
            return
        pause = self._seconds / _RENEWALS
        # It holds no lease while it waits, so that an abandoned poller is garbage-collected.
        renewing = _keep_renewing(weakref.ref(self), self._clock, pause)
        self.renewal = asyncio.create_task(renewing, name="income_client lease renewal")
        loop = asyncio.get_running_loop()
        weakref.finalize(self, _cancel_task, self.renewal, loop).atexit = False


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
