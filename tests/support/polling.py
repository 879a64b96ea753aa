"""Pollers on real sockets: one, or replicas on clocks that a test moves; and their stores."""

import asyncio
import contextlib
import json
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import pytest
from attrs import define, field

from income_client import (
    ApplicationRecord,
    Batch,
    CheckpointError,
    CheckpointStore,
    DeadLetter,
    IncomeClient,
    MemoryCheckpointStore,
    Poller,
    SQLiteCheckpointStore,
    StoredCheckpoint,
)
from income_client.emulator import Emulator, Fault
from income_client.emulator.times import stamp
from income_client.events.kinds import Event
from income_client.polling.reading import PollSource
from tests.support.clocks import ManualClock
from tests.support.service import NOW, collect, served, until


@define
class Scene:
    """A service, a client of it, a store, and what was delivered so far."""

    service: Emulator
    client: IncomeClient
    store: CheckpointStore = field(factory=MemoryCheckpointStore)

    def poll(self, **options: Any) -> Poller:
        """Return a poller; without documents, which most rules are not about."""
        usual: dict[str, Any] = {"start": NOW_TEXT, "settle": 5, "documents": False}
        return self.client.poll(self.store, **usual | options)

    @property
    def ids(self) -> tuple[str, ...]:
        return self.service.world.ids

    def touch(self, *numbers: int) -> list[str]:
        for number in numbers:
            self.service.touch(self.ids[number])
        return [self.ids[number] for number in numbers]

    def requests(self, name: str) -> int:
        return sum(request.name == name for request in self.service.requests)

    def asked(self, application_id: str) -> int:
        return sum(request.path.endswith(f"/{application_id}") for request in self.service.requests)

    def spoil(self, *ids: str, kind: Any = "status", **fault: Any) -> None:
        """Make the service fail for applications, for good unless ``times`` is set."""
        for one in ids:
            self.service.faults.add(Fault(kind, path=f"*/{one}", **{"times": None} | fault))

    def show(self, *rows: Any, before: int = NOW + 10, **fault: Any) -> None:
        """Make the list call return these rows, as a page up to this second."""
        page = {"updated_after": stamp(NOW - 1), "updated_before": stamp(before)}
        body = json.dumps(page | {"applications": rows}).encode()
        self.service.faults.add(Fault("body", body=body, path=LIST, **fault))

    async def text(self) -> str:
        """Return the stored checkpoint."""
        return (await self.store.load("default")).checkpoint or ""

    async def letters(self) -> list[str | None]:
        return [letter.application_id for letter in await self.store.dead_letters("default")]


class OfVersions:
    """A store as users of 0.2.0 may have written it: it compares versions and nothing else."""

    def __init__(self, store: CheckpointStore | None = None) -> None:
        self._store = store or MemoryCheckpointStore()
        self.load, self.dead_letters = self._store.load, self._store.dead_letters

    async def save(
        self,
        name: str,
        checkpoint: str,
        *,
        version: int,
        dead_letters: Sequence[DeadLetter] = (),
        resolved: Sequence[str] = (),
    ) -> int:
        letters: dict[str, Any] = {"dead_letters": dead_letters, "resolved": resolved}
        return await self._store.save(name, checkpoint, version=version, **letters)


class FailingStore(MemoryCheckpointStore):
    """Fails as many calls as it is told to; a save before it has saved or afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = self.failing_loads = self.failing_letters = self.tries = 0
        self.saves_first = False
        self.error: BaseException = CheckpointError("the store is locked", retryable=True)

    async def load(self, name: str) -> StoredCheckpoint:
        if self.failing_loads:
            self.failing_loads -= 1
            raise CheckpointError("the store is away", retryable=True)
        return await super().load(name)

    async def dead_letters(self, name: str) -> tuple[DeadLetter, ...]:
        if self.failing_letters:
            self.failing_letters -= 1
            raise self.error
        return await super().dead_letters(name)

    async def save(self, name: str, checkpoint: str, **changes: Any) -> int:
        self.tries += 1
        if not self.failures:
            return await super().save(name, checkpoint, **changes)
        self.failures -= 1
        if self.saves_first:
            await super().save(name, checkpoint, **changes)
        raise self.error


NOW_TEXT = "2026-06-30T12:00:00"
LIST = "/v1/income/applications"


@contextlib.contextmanager
def poll_sizes(*, page: int = 1000, batch: int = 100) -> Iterator[None]:
    """Limit the pages and the batches of new pollers within the block."""
    with pytest.MonkeyPatch.context() as patch:
        source = partial(PollSource, limit=page, batch_size=batch)
        patch.setattr("income_client.polling.reading.PollSource", source)
        yield


@contextlib.asynccontextmanager
async def scene(
    applications: Any = 20, *, batch_size: int = 100, page_size: int = 1000, **options: Any
) -> AsyncIterator[Scene]:
    """Run a service whose applications were all updated before it was started."""
    times = range(NOW - 1000, NOW - 1000 + applications) if isinstance(applications, int) else None
    with poll_sizes(page=page_size, batch=batch_size):
        async with served(applications if times is None else times, **options) as (service, client):
            yield Scene(service, client)


async def first(poller: Poller, count: int) -> list[ApplicationRecord]:
    records: list[ApplicationRecord] = []
    async for record in poller:
        records.append(record)
        if len(records) == count:
            break
    return records


async def rest(poller: Poller) -> list[ApplicationRecord]:
    """Take what is left until the poll under way, or else the next, has come to its end."""
    poller.stop(after_poll=True)
    return [record async for record in poller]


async def one_poll(poller: Poller) -> None:
    """Let a running poller make one more poll, without new records."""
    waiting = asyncio.create_task(anext(poller, None))
    done = poller.status.polls
    await until(lambda: poller.status.polls > done)
    waiting.cancel()
    await asyncio.wait([waiting])


async def take(poller: Poller) -> Batch:
    batches = poller.batches()
    batch = await anext(batches)
    await batches.aclose()
    return batch


def ids_of(records: Iterable[ApplicationRecord]) -> list[str]:
    return [record.application_id for record in records]


async def reached(place: Scene, name: str = "default") -> int:
    """Return the second that the stored checkpoint has come to."""
    text = (await place.store.load(name)).checkpoint
    assert text is not None
    return int(json.loads(text)["reached"])


# Replicas, of which one works and the others stand by

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
        usual: dict[str, Any] = {"start": NOW_TEXT, "settle": 5, "documents": False}
        usual["standby"] = LEASE
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
