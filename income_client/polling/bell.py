"""The bell of a poller's store: it is rung where another poller leads, and listened to by that.

Nothing depends on it: a ring that is lost costs an interval, and a bell that fails is tried
again beside the polls.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, cast

from income_client.checkpoints import CheckpointStore
from income_client.checkpoints.store import RingingStore
from income_client.errors import CheckpointError, ConfigurationError, IncomeClientError
from income_client.system.clock import Clock

from .schedule import backoff_pause

_LOGGER: Final = logging.getLogger("income_client.poller.bell")
_METHODS: Final = ("ring", "listen")
_GAP: Final = 0.5
"""Seconds between two rings: a leader polls no more than once a second."""
_TRIES: Final = 4
_LONGEST_PAUSE: Final = 60.0
_UNREACHED: Final = "wake() did not reach the poller that works"
_DEAF: Final = "it is not woken by other processes"


class Bell:
    """The bell of a poller's store, if that has one; ``heard`` is called for each ring."""

    def __init__(
        self, store: CheckpointStore, name: str, clock: Clock, heard: Callable[[], None]
    ) -> None:
        is_there = all(callable(getattr(store, method, None)) for method in _METHODS)
        self._store = cast("RingingStore", store) if is_there else None
        self._kind = type(store).__name__
        self._name = name
        self._clock = clock
        self._heard = heard
        self._must_ring = False
        self._ringing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures = 0  # of listening, in a row
        self._warned: set[str] = set()

    def ring(self) -> bool:
        """Have the leader woken soon; return whether the store has a bell."""
        if self._store is None:
            self._warn_once(_UNREACHED, f"{self._kind} has no bell")
            return False
        try:
            asyncio.get_running_loop()
        except RuntimeError as error:
            message = "wake() must be called in the poller's event loop"
            raise ConfigurationError(message) from error
        self._must_ring = True
        if self._ringing is None or self._ringing.done():
            self._ringing = self._start_task(self._keep_ringing(self._store))
        return True

    def listen(self, renewal: "asyncio.Task[None] | None") -> None:
        """Listen for as long as a lease is renewed, which a poller without standbys does not."""
        if self._store is None or renewal is None:
            return
        listening = self._start_task(self._keep_listening(self._store))
        renewal.add_done_callback(lambda _: _cancel_task(listening))

    def cancel(self) -> None:
        """End its tasks."""
        for task in self._tasks:
            _cancel_task(task)

    async def aclose(self) -> None:
        """End its tasks and wait for that; it may be used again."""
        self.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, name="income_client bell")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep_ringing(self, store: RingingStore) -> None:
        while self._must_ring:
            self._must_ring = False
            await self._ring_once(store)
            await self._clock.sleep(_GAP)

    async def _ring_once(self, store: RingingStore) -> None:
        for failures in range(1, _TRIES + 1):
            try:
                await store.ring(self._name)
            except Exception as error:  # noqa: BLE001 - foreign code
                self._warn_once(_UNREACHED, _safe_reason(error))
                if _is_final(error):
                    return
            else:
                self._warned.discard(_UNREACHED)
                return
            await self._clock.sleep(backoff_pause(failures))

    async def _keep_listening(self, store: RingingStore) -> None:
        while True:
            try:
                await store.listen(self._name, self._on_ring)
            except Exception as error:  # noqa: BLE001 - foreign code
                self._warn_once(_DEAF, _safe_reason(error))
                if _is_final(error):
                    return
            else:
                return  # the store is closed
            self._failures += 1
            await self._clock.sleep(min(_LONGEST_PAUSE, backoff_pause(self._failures)))

    def _on_ring(self) -> None:
        self._failures = 0
        self._warned.discard(_DEAF)
        self._heard()

    def _warn_once(self, what: str, reason: str) -> None:
        """Log a failure, once until it is over."""
        if what not in self._warned:
            self._warned.add(what)
            _LOGGER.warning(
                "poller %r: %s: %s", self._name, what, reason, extra={"poller": self._name}
            )


def _cancel_task(task: "asyncio.Task[None]") -> None:
    """Cancel a task, once: a second time would interrupt it while it gives back a connection."""
    if not task.cancelling():
        task.cancel()


def _is_final(error: Exception) -> bool:
    return isinstance(error, CheckpointError) and not error.retryable


def _safe_reason(error: Exception) -> str:
    """Return what an error says, or its class alone where the text may hold an address."""
    return error.message if isinstance(error, IncomeClientError) else type(error).__name__
