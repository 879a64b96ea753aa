"""The bell of a poller's store: any process rings it, and the poller that works looks at it.

A ring is a count beside the checkpoint, at which a poller looks every two seconds of its pauses.
Nothing depends on it: a ring that is lost costs an interval.
"""

import asyncio
import logging
from typing import Final

from income_client.errors import CheckpointError, ConfigurationError, IncomeClientError
from income_client.system.clock import Clock

from .foreign_store import ForeignStore
from .schedule import Schedule, backoff_pause

_LOGGER: Final = logging.getLogger("income_client.poller.bell")
_LOOK_SECONDS: Final = 2.0
"""How often a poller looks in its pauses."""
_GAP: Final = 0.5
"""Seconds between two rings: a leader polls no more than once a second."""
_TRIES: Final = 4
_UNREACHED: Final = "wake() did not reach the poller that works"
_DEAF: Final = "it is not woken by other processes"


class Bell:
    """The bell of a poller's store, if that has one; a ring wakes the poller's ``schedule``."""

    def __init__(self, store: ForeignStore, schedule: Schedule, clock: Clock) -> None:
        self._store = store
        self._schedule = schedule
        self._clock = clock
        self._rings: int | None = None  # as far as the poller has looked
        self._is_deaf = True
        self._must_ring = False
        self._ringing: asyncio.Task[None] | None = None
        self._warned: set[str] = set()

    def ring(self) -> bool:
        """Have the leader woken soon; return whether the store has a bell."""
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
        """Note how often it was rung before the first poll, which answers all of that."""
        self._is_deaf = not self._store.has_bell
        self._rings = await self._count()

    async def watch(self) -> None:
        """Wake the schedule each time it was rung."""
        while not self._is_deaf:
            # Rings come from other processes, in the time of the machine and not of a test's clock.
            await asyncio.sleep(_LOOK_SECONDS)
            rings = await self._count()
            if rings is not None and rings != self._rings:
                self._rings = rings
                self._schedule.wake()

    def cancel(self) -> None:
        """Ring no more."""
        # Once: a second time would interrupt it while it gives back a connection.
        if self._ringing is not None and not self._ringing.cancelling():
            self._ringing.cancel()

    async def aclose(self) -> None:
        """Ring no more, and wait for the end of that; it may be used again."""
        self.cancel()
        if self._ringing is not None:
            await asyncio.wait((self._ringing,))

    async def _count(self) -> int | None:
        """Return how often it was rung; None if the store cannot tell."""
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
        """Log a failure, once until it is over."""
        if what not in self._warned:
            self._warned.add(what)
            name = self._store.name
            _LOGGER.warning("poller %r: %s: %s", name, what, reason, extra={"poller": name})


def _is_final(error: IncomeClientError) -> bool:
    return isinstance(error, CheckpointError) and not error.retryable
