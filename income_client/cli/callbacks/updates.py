"""A callback for each update of an emulated service, as far as the endpoint keeps up."""

import asyncio
from types import TracebackType
from typing import Final, Self

from income_client.emulator import Emulator

_MOST_UNDER_WAY: Final = 16


class UpdateCallbacks:
    """Fires callbacks beside whatever happens inside; those under way at its end are given up.

    A callback that cannot even be fired ends what happens inside, and is raised in a group.

    Args:
        service: whose; nothing is fired where it has no target.

    Attributes:
        delivered: how many were taken.
        failed: how many were not.
        skipped: how many were not fired, since too many were under way.
    """

    def __init__(self, service: Emulator) -> None:
        self.delivered: int = 0
        self.failed: int = 0
        self.skipped: int = 0
        self._service = service
        self._under_way: set[asyncio.Task[None]] = set()
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for task in tuple(self._under_way):
            task.cancel()
        await self._group.__aexit__(exc_type, exc, traceback)

    def fire(self, application_id: str) -> None:
        """Begin to tell of an update, and wait for nothing."""
        if self._service.callbacks is None:
            return
        if len(self._under_way) >= _MOST_UNDER_WAY:
            self.skipped += 1
            return
        task = self._group.create_task(self._deliver(application_id))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def summary(self) -> str | None:
        """Return what became of them, None if there were none."""
        if not (self.delivered or self.failed or self.skipped):
            return None
        text = f"callbacks: {self.delivered:,} delivered, {self.failed:,} not"
        skipped = f", {self.skipped:,} skipped while {_MOST_UNDER_WAY} were under way"
        return text + skipped * bool(self.skipped)

    async def _deliver(self, application_id: str) -> None:
        delivery = await self._service.fire_callback(application_id)
        self.delivered += delivery.delivered
        self.failed += not delivery.delivered
