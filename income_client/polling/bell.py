"""Wake-ups that cross processes, through a counter in the checkpoint store.

Any process rings the bell, which increments the counter; the leader reads the counter every two
seconds of its pauses. Wake-ups are best effort: a lost one delays the next poll by at most the
interval.
"""

import asyncio
from typing import Final

from income_client.errors import CheckpointError, ConfigurationError, IncomeClientError
from income_client.system.clock import Clock
from income_client.system.logs import GuardedLogger

from .foreign_store import ForeignStore
from .schedule import Schedule, backoff_pause

_LOGGER: Final = GuardedLogger("income_client.poller.bell")
_LOOK_SECONDS: Final = 2.0
"""Seconds between two reads of the counter."""
_GAP: Final = 0.5
"""Seconds between two rings of one process, since a leader polls at most once a second."""
_TRIES: Final = 4
_UNREACHED: Final = "wake() did not reach the leader"
_DEAF: Final = "wake-ups of other processes do not arrive"


class Bell:
    """The bell of one poller: it rings for the leader, and wakes its own ``schedule`` as leader."""

    def __init__(self, store: ForeignStore, schedule: Schedule, clock: Clock) -> None:
        self._store = store
        self._schedule = schedule
        self._clock = clock
        self._rings: int | None = None  # the counter at the last read
        self._is_deaf = True
        self._must_ring = False
        self._ringing: asyncio.Task[None] | None = None
        self._warned: set[str] = set()

    def ring(self) -> bool:
        """Start to ring for the leader; return whether the store has a bell."""
        if not self._store.has_bell:
            self._warn_once(_UNREACHED, f"{self._store.log_name} has no bell")
            return False
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            message = "wake() must be called in the poller's event loop"
            raise ConfigurationError(message) from None
        self._must_ring = True
        if self._ringing is None or self._ringing.done():
            self._ringing = asyncio.create_task(self._keep_ringing(), name="income_client bell")
        return True

    async def begin(self) -> None:
        """Read the counter before the first poll, which answers all earlier rings."""
        self._is_deaf = not self._store.has_bell
        self._rings = await self._count()

    async def watch(self) -> None:
        """Wake the schedule after each change of the counter."""
        while not self._is_deaf:
            # Rings come from other processes, so real time counts here and not a test's clock.
            await asyncio.sleep(_LOOK_SECONDS)
            rings = await self._count()
            if rings is not None and rings != self._rings:
                self._rings = rings
                self._schedule.wake()

    def cancel(self) -> None:
        """Cancel a ring that is in progress."""
        # Only once: a second cancellation would interrupt the release of a connection.
        if self._ringing is not None and not self._ringing.cancelling():
            self._ringing.cancel()

    async def aclose(self) -> None:
        """Cancel a ring that is in progress, and wait until its task has ended."""
        self.cancel()
        if self._ringing is not None:
            await asyncio.wait((self._ringing,))

    async def _count(self) -> int | None:
        """Return the counter; None if it could not be read."""
        if self._is_deaf:
            return None
        try:
            rings = await self._store.count_rings()
        except IncomeClientError as error:
            self._warn_once(_DEAF, error.message)
            self._is_deaf = _is_final(error)
            return None
        self._warned.discard(_DEAF)
        return rings

    async def _keep_ringing(self) -> None:
        while self._must_ring:
            self._must_ring = False
            await self._ring_once()
            await self._clock.sleep(_GAP)

    async def _ring_once(self) -> None:
        for failures in range(1, _TRIES + 1):
            try:
                await self._store.ring()
            except IncomeClientError as error:
                self._warn_once(_UNREACHED, error.message)
                if _is_final(error):
                    return
            else:
                self._warned.discard(_UNREACHED)
                return
            await self._clock.sleep(backoff_pause(failures))

    def _warn_once(self, what: str, reason: str) -> None:
        """Log a warning, unless it was logged since the last success."""
        if what not in self._warned:
            self._warned.add(what)
            name = self._store.name
            _LOGGER.warning("poller %r: %s: %s", name, what, reason, extra={"poller": name})


def _is_final(error: IncomeClientError) -> bool:
    return isinstance(error, CheckpointError) and not error.retryable
