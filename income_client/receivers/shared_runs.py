"""Equal work is done one at a time, and once more for all who ask meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Row(Generic[T]):
    """Those who want the same."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.next: asyncio.Future[T] | None = None
        self.users = 0


class SharedRuns(Generic[T]):
    """Runs of equal work, of which none begins before whoever shares it has asked.

    Who asks while such work is under way may know of something newer than it does, and is
    served by the next run, together with all who ask before that begins.

    Args:
        abandoned: what those get whose shared run was cancelled by the one who ran it.
    """

    def __init__(self, abandoned: T) -> None:
        self._abandoned = abandoned
        self._rows: dict[bytes, _Row[T]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    async def run(self, key: bytes, work: Callable[[], Awaitable[T]]) -> T:
        """Return the outcome of a run that begins after this call.

        Args:
            key: equal for equal work.
            work: does it.
        """
        row = self._rows.setdefault(key, _Row())
        if row.next is not None:
            # The future is its runner's; one who waits for it may be cancelled alone.
            return await asyncio.shield(row.next)
        shared = row.next = asyncio.get_running_loop().create_future()
        row.users += 1
        try:
            async with row.turn:
                row.next = None
                outcome = await work()
            shared.set_result(outcome)
        finally:
            if row.next is shared:
                row.next = None
            if not shared.done():
                shared.set_result(self._abandoned)
            row.users -= 1
            if not row.users:
                del self._rows[key]
        return outcome
