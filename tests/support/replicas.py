"""Replicas of one poller on clocks that a test moves: one works, the others stand by."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from attrs import define, field

from income_client import (
    ApplicationRecord,
    Batch,
    CheckpointStore,
    IncomeClient,
    Poller,
    SQLiteCheckpointStore,
)
from income_client.events.kinds import Event
from tests.support.clocks import ManualClock
from tests.support.polling import NOW_TEXT, Scene, scene
from tests.support.service import collect

T = TypeVar("T")
LEASE = 15.0
IDLE_TURNS = 20
"""Turns in which only the test itself runs; a reply on loopback is there after the first."""


@define(kw_only=True)
class Replica:
    """A process: a client, a poller, and a consumer that receives records until it is killed."""

    client: IncomeClient
    poller: Poller
    clock: ManualClock
    records: list[ApplicationRecord] = field(factory=list)
    task: "asyncio.Task[None] | None" = None

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(collect(self.poller, self.records))


@define
class Cluster:
    """Replicas of one poller, and the service that they poll."""

    place: Scene
    replicas: list[Replica] = field(factory=list)
    rounds: int = 1

    def add(self, *, on_event: Callable[[Event], None] | None = None, **options: Any) -> Replica:
        clock, service = ManualClock(), self.place.service
        client = IncomeClient(service.url, auth=service.basic, clock=clock, on_event=on_event)
        usual: dict[str, Any] = {"start": NOW_TEXT, "documents": False}
        usual |= {"standby": True, "lease": LEASE}
        poller = client.poll(self.place.store, **usual | options)
        replica = Replica(client=client, poller=poller, clock=clock)
        self.replicas.append(replica)
        return replica

    async def started(self, seconds: int = 0, **options: Any) -> Replica:
        replica = self.add(**options)
        replica.start()
        await self.pass_time(seconds)
        return replica

    async def batch(self, **options: Any) -> tuple[Replica, AsyncGenerator[Batch], Batch]:
        """Add a replica that does not consume; return it, its iteration, and its first batch."""
        replica = self.add(**options)
        batches = replica.poller.batches()
        return replica, batches, await self.result(anext(batches))

    async def kill(self, replica: Replica) -> None:
        """Kill a replica, which does not release its lease."""
        self.replicas.remove(replica)
        if replica.task is not None:
            replica.task.cancel()
            await asyncio.wait([replica.task])
        await replica.client.aclose()

    async def settle(self) -> None:
        loop: Any = asyncio.get_running_loop()
        for _ in range(self.rounds):
            idle = 0
            while idle < IDLE_TURNS:
                await asyncio.sleep(0)
                idle = 0 if loop._ready else idle + 1
            if self.rounds > 1:
                await asyncio.to_thread(time.monotonic)  # once the only thread is idle

    async def pass_time(self, seconds: int, *, paused: Replica | None = None) -> None:
        """Let time pass second by second; one replica may be paused."""
        for _ in range(seconds):
            self.place.service.advance(1)
            for replica in self.replicas:
                if replica is not paused:
                    replica.clock.advance(1)
            await self.settle()

    async def resume(self, replica: Replica) -> None:
        replica.clock.advance(30)
        await self.settle()

    async def result(self, work: Awaitable[T]) -> T:
        """Return the result of an awaitable, and advance time until it comes."""
        waiting = asyncio.ensure_future(work)
        await self.settle()
        while not waiting.done():
            await self.pass_time(1)
        return await waiting

    async def version(self) -> int:
        return (await self.place.store.load("default")).version


@contextlib.asynccontextmanager
async def cluster(store: CheckpointStore | None = None) -> AsyncIterator[Cluster]:
    async with scene(time_flows=False) as place:
        made = Cluster(place)
        place.store = store or place.store
        if isinstance(store, SQLiteCheckpointStore):
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
            made.rounds = 4
        try:
            yield made
        finally:
            for replica in [*made.replicas]:
                await made.kill(replica)


async def leader_and_standby(made: Cluster, **options: Any) -> tuple[Replica, Replica]:
    """Start two replicas, of which the first works, and polls once an hour."""
    options = {"interval": 3600.0} | options
    leader, standby = await made.started(2, **options), await made.started(2, **options)
    assert not leader.poller.status.is_standby
    assert standby.poller.status.is_standby
    return leader, standby
