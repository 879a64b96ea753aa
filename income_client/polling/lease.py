"""The lease of a poller: acquired at its start, renewed while it runs, released at its end."""

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
"""Lengths of the lease for which a consumer may work on one batch; then the lease is released."""


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
        """Whether the lease was acquired and is not held any more, for whatever reason."""
        return self._fence is not None and not isinstance(self._fence.hold, Held)

    @property
    def has_vanished(self) -> bool:
        """Whether the lease was lost because the checkpoint has vanished from the store."""
        return self._fence is not None and self._fence.hold == Lost(has_vanished=True)

    async def acquire(
        self,
        given: Checkpoint | None,
        begin: Callable[[], Awaitable[int]],
        *,
        must_exist: bool = False,
    ) -> tuple[Checkpoint, tuple[DeadLetter, ...]]:
        """Acquire the lease; return the checkpoint to resume from, and the dead letters."""
        self._fence = fence = await self._standby.acquire(given, begin, must_exist=must_exist)
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
        # A weak reference, so that an abandoned poller is garbage-collected during the pause.
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
