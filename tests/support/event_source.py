"""A queue of events in memory, with what a worker has told it."""

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime

from income_client.engines.relay import UpdateEvent
from income_client.engines.worker import DeadReason, Delivery

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def event(application_id: str = "app-1", event_id: str = "1") -> UpdateEvent:
    return UpdateEvent(id=event_id, application_id=application_id, updated_at=NOW)


class MemoryDelivery:
    """A message, which comes again at once whenever it is given back."""

    def __init__(self, source: "MemorySource", body: bytes, attempt: int) -> None:
        self._source, self.body, self.attempt = source, body, attempt

    async def acknowledge(self) -> None:
        await self._source.answer()
        self._source.acknowledged.append(self.body)

    async def give_back(self, seconds: float) -> None:
        await self._source.answer()
        self._source.pauses.append(seconds)
        self._source.deliver(self.body, self.attempt + 1)

    async def extend(self) -> None:
        await self._source.answer()
        self._source.extended += 1

    async def bury(self, reason: DeadReason, error: str) -> None:
        await self._source.answer()
        self._source.dead.append((reason, error))


class MemorySource:
    """Deliver what is put in, each message with its count.

    Attributes:
        faults: raised by what the worker does next, one after the other.
        refusals: raised by what it receives next, likewise.
        most: how many messages it asked for, each time.
    """

    def __init__(self, *events: UpdateEvent | bytes) -> None:
        self.extend_seconds = 10.0
        self.acknowledged: list[bytes] = []
        self.pauses: list[float] = []
        self.dead: list[tuple[DeadReason, str]] = []
        self.extended = 0
        self.most: list[int] = []
        self.faults: deque[Exception] = deque()
        self.refusals: deque[Exception] = deque()
        self.is_closed = False
        self._waiting: deque[Delivery] = deque()
        self._arrived = asyncio.Event()
        self.put(*events)

    @property
    def waiting(self) -> int:
        """Messages that are in nobody's hands."""
        return len(self._waiting)

    def put(self, *events: UpdateEvent | bytes) -> None:
        for one in events:
            self.deliver(one if isinstance(one, bytes) else one.to_json(), 1)

    def deliver(self, body: bytes, attempt: int) -> None:
        self._waiting.append(MemoryDelivery(self, body, attempt))
        self._arrived.set()

    async def answer(self) -> None:
        """Take what the worker says, or raise the next fault."""
        await asyncio.sleep(0)
        if self.faults:
            raise self.faults.popleft()

    async def receive(self, most: int) -> Sequence[Delivery]:
        await asyncio.sleep(0)
        if self.refusals:
            raise self.refusals.popleft()
        assert most >= 1, "it has no room for more"
        self.most.append(most)
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    async def aclose(self) -> None:
        self.is_closed = True
