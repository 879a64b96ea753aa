"""Leader and standby: one poller of a name works, the others wait until its lease ends."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from attrs import define, field

from income_client import (
    ApplicationRecord,
    Batch,
    CheckpointConflictError,
    CheckpointError,
    CheckpointStore,
    IncomeClient,
    IncomeClientError,
    MemoryCheckpointStore,
    Poller,
    SQLiteCheckpointStore,
)
from income_client.emulator import Fault
from income_client.events import CheckpointCreated, Event
from tests.support.pollers import StandingClock
from tests.support.polling import NOW_TEXT, FailingStore, Scene, ids_of, scene
from tests.support.service import NOW, collect

T = TypeVar("T")
LEASE = 15.0
IDLE_TURNS = 20
"""Turns in which only the test itself runs; a reply on loopback is there after the first."""


@define(kw_only=True)
class Replica:
    """One process: a client, a poller, and a consumer that takes records until it is ended."""

    client: IncomeClient
    poller: Poller
    clock: StandingClock
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
        clock, service = StandingClock(), self.place.service
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
        """End a replica without a word."""
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


@pytest.fixture
async def made() -> AsyncIterator[Cluster]:
    async with cluster() as made:
        yield made


async def leader_and_standby(made: Cluster, **options: Any) -> tuple[Replica, Replica]:
    """Start two replicas, of which the first works, and polls once an hour."""
    options = {"interval": 3600.0} | options
    leader, standby = await made.started(2, **options), await made.started(2, **options)
    assert not leader.poller.status.is_standby
    assert standby.poller.status.is_standby
    return leader, standby


@pytest.mark.parametrize("is_file", [False, True])
async def test_a_standby_takes_over_once_the_lease_has_expired(
    is_file: bool, tmp_path: Path
) -> None:
    """Not while the leader renews it."""
    async with cluster(SQLiteCheckpointStore(tmp_path / "store") if is_file else None) as made:
        leader, standby = await leader_and_standby(made)
        await made.pass_time(int(2 * LEASE))
        assert standby.poller.status.is_standby
        updated = made.place.touch(1, 2)
        await made.kill(leader)
        version = await made.version()
        await made.pass_time(12)
        assert (standby.poller.status.is_standby, await made.version()) == (True, version)
        await made.pass_time(6)
        assert sorted(ids_of(standby.records)) == sorted(updated)


async def test_waiting_taking_over_and_losing_the_lease_are_logged_once_each(
    made: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """With the seconds without a renewal; one that starts alone logs nothing of it."""
    caplog.set_level("INFO", "income_client.poller.lease")
    leader, standby = await leader_and_standby(made, interval=30.0)
    await made.pass_time(40)
    await made.pass_time(17, paused=leader)
    await made.resume(leader)
    await made.pass_time(3)
    assert leader.poller.status.is_standby
    await standby.poller.aclose()
    await made.pass_time(3)
    assert [line.getMessage() for line in caplog.records] == [
        "poller 'default' waits as a standby: another poller holds the lease of 15 s",
        "poller 'default' has taken over: the lease of the other was not renewed for 16 s",
        "poller 'default' has lost its lease, which was renewed 33 s ago: another has taken over",
        "poller 'default' waits as a standby: another poller holds the lease of 15 s",
        "poller 'default' has taken over: the lease of the other was given up",
    ]
    facts = [(vars(line)["poller"], round(vars(line)["seconds"])) for line in caplog.records]
    assert facts == [("default", seconds) for seconds in (15, 16, 33, 15, 0)]


@pytest.mark.parametrize("standby", [True, False])
@pytest.mark.parametrize("ending", ["stopped", "closed", "cancelled and closed", "once"])
async def test_a_poller_that_ends_gives_its_lease_up(
    made: Cluster, ending: str, *, standby: bool
) -> None:
    """So that a deployment does not wait for it to expire; nothing comes again."""
    updated = made.place.touch(1, 2)
    once = ending == "once" and not standby
    leader = await made.started(2, interval=3600.0, standby=standby, once=once)
    waiting = await made.started(2) if standby else None
    assert leader.task is not None
    match ending:
        case "stopped":
            leader.poller.stop()
        case "closed":
            await leader.poller.aclose()
        case "cancelled and closed":
            leader.task.cancel()
            await asyncio.wait([leader.task])
            await leader.poller.aclose()
        case "once" if standby:
            leader.poller.stop(after_poll=True)
            leader.poller.wake()
            await made.pass_time(1)
    await asyncio.wait([leader.task])
    again = made.place.touch(3)
    waiting = waiting or await made.started()
    await made.pass_time(2)
    assert not waiting.poller.status.is_standby
    assert (sorted(ids_of(leader.records)), ids_of(waiting.records)) == (sorted(updated), again)


@pytest.mark.parametrize("is_closed", [False, True])
async def test_what_a_poller_without_standbys_has_left_comes_again(
    made: Cluster, is_closed: bool
) -> None:
    """At once if it was closed, else after a lease; a batch in hand is never passed over.

    It is committed after its poller was closed, as long as no other has taken over.
    """
    updated = made.place.touch(1, 2)
    single, batches, batch = await made.batch(standby=False)
    await batches.aclose()
    if is_closed:
        await single.poller.aclose()
    standby = await made.started(3)
    assert standby.poller.status.is_standby is not is_closed
    await made.pass_time(int(LEASE))
    assert sorted(ids_of(standby.records)) == sorted(updated)
    with pytest.raises(CheckpointConflictError):
        await batch.commit()
    await standby.poller.aclose()
    made.place.touch(3)
    single, batches, batch = await made.batch(standby=False)
    await batches.aclose()
    await single.poller.aclose()
    await batch.commit()
    last = await made.started(3)
    assert not last.poller.status.is_standby
    assert last.records == []


async def test_a_poller_without_standbys_continues_after_an_error(made: Cluster) -> None:
    """It has not ended, and so has not given up its name."""
    single = made.add(standby=False, once=True)
    path = "/v1/income/applications"
    made.place.service.faults.add(Fault("status", status=401, path=path))
    with pytest.raises(IncomeClientError):
        await made.result(anext(single.poller))
    text = await made.place.text()
    assert "lease" not in json.loads(text)
    updated = made.place.touch(1)
    assert ids_of([await made.result(anext(single.poller))]) == updated


@pytest.mark.parametrize("way", ["records", "commit"])
async def test_a_poller_that_was_replaced_waits_for_its_turn(made: Cluster, way: str) -> None:
    """It drops what is left of its batch, which the other has delivered; a commit is refused.

    What comes next is what was updated since.
    """
    updated = made.place.touch(1, 2, 3)
    leader, batches, batch = await made.batch()
    if way == "records":
        await batches.aclose()
        assert (await made.result(anext(leader.poller))).application_id in updated
    standby = await made.started()
    await made.pass_time(17, paused=leader)
    assert sorted(ids_of(standby.records)) == sorted(updated)
    version = await made.version()
    waiting: asyncio.Future[Any]
    if way == "records":
        await made.resume(leader)
        waiting = asyncio.ensure_future(anext(leader.poller))
    else:
        with pytest.raises(CheckpointConflictError):
            await batch.commit()
        waiting = asyncio.ensure_future(anext(batches))
    await made.settle()
    assert (leader.poller.status.is_standby, await made.version()) == (True, version)
    await standby.poller.aclose()
    again = made.place.touch(4)
    await made.pass_time(3)
    found = await waiting
    assert ids_of(found if way == "commit" else [found]) == again
    await batches.aclose()
    await leader.poller.aclose()


@pytest.mark.parametrize("standby", [False, True])
async def test_a_batch_that_was_left_is_not_given_out_after_a_takeover(
    made: Cluster, *, standby: bool
) -> None:
    """Also if its block was never entered: the loop that comes next learns of the other poller."""
    made.place.touch(1)
    left, batches, _ = await made.batch(standby=standby)
    await batches.aclose()
    await made.result(anext(made.add(standby=False).poller))
    loop = left.poller.batches()
    waiting = asyncio.ensure_future(anext(loop))
    await made.settle()
    if standby:
        assert (waiting.done(), left.poller.status.is_standby) == (False, True)
    else:
        with pytest.raises(CheckpointConflictError):
            await waiting
    waiting.cancel()
    await asyncio.wait([waiting])
    await loop.aclose()


async def test_numbers_of_batches_grow_over_takeovers(made: Cluster) -> None:
    """Whatever was committed: of two records of an application, the greater is the newer."""
    numbers: list[int] = []
    for turn in range(4):
        poller = made.add(standby=False).poller
        async with contextlib.aclosing(poller.batches()) as batches:
            for number in range(3):
                made.place.touch(1)
                batch = await made.result(anext(batches))
                numbers.append(batch.sequence)
                if number < turn:
                    await batch.commit()
        await poller.aclose()
    assert numbers == sorted(set(numbers))


async def test_the_lease_is_renewed_while_the_consumer_works(
    made: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """For ten leases; a consumer that has not come back by then hangs, and loses it.

    The log says why when it is given up, and so does the conflict of the commit that comes late.
    Where no standby waits, the commit is made all the same.
    """
    made.place.touch(1)
    _, batches, batch = await made.batch()
    await made.pass_time(int(11 * LEASE))
    await batch.commit()
    await batches.aclose()
    caplog.clear()
    made.place.touch(2)
    _, batches, batch = await made.batch()
    standby = await made.started(int(10 * LEASE))
    assert standby.poller.status.is_standby
    assert [line for line in caplog.records if hasattr(line, "lease")] == []
    await made.pass_time(int(LEASE))
    assert ids_of(standby.records) == ids_of(batch)
    (line,) = [line for line in caplog.records if hasattr(line, "lease")]
    facts = line.__dict__
    assert (line.levelname, facts["poller"], facts["lease"]) == ("WARNING", "default", LEASE)
    assert line.name == "income_client.poller.lease"
    assert 10 * LEASE < facts["seconds"] < 11 * LEASE
    held = f"{facts['seconds']:.0f} s"
    assert held in line.getMessage()
    with pytest.raises(CheckpointConflictError, match=f"gave its lease up .* {held}"):
        await batch.commit()
    await batches.aclose()


@pytest.mark.parametrize("saves_first", [False, True])
async def test_failures_are_counted_until_one_succeeds(*, saves_first: bool) -> None:
    """Renewals cost no leadership, and neither polls nor a standby save: nothing else shows it."""
    async with cluster(store := FailingStore()) as made:
        leader, standby = await leader_and_standby(made)
        assert leader.poller.status.failures == 0
        store.failures, store.saves_first = 2 - saves_first, saves_first
        await made.pass_time(6)
        assert leader.poller.status.failures == 1
        assert "the store is locked" in str(leader.poller.status.last_error)
        await made.pass_time(9)
        assert (leader.poller.status.failures, store.failures) == (0, 0)
        await made.pass_time(int(2 * LEASE))
        assert (standby.poller.status.is_standby, leader.poller.status.is_standby) == (True, False)
        store.failing_loads = 1_000
        await made.pass_time(6)
        assert standby.poller.status.failures > 1
        store.failing_loads = 0
        await made.pass_time(12)
        assert (standby.poller.status.is_standby, standby.poller.status.failures) == (True, 0)
        assert "the store is away" in str(standby.poller.status.last_error)


async def test_failures_of_a_standby_do_not_delay_a_takeover() -> None:
    """Ten single failures, each followed by looks that succeed, and one as the leader dies."""
    async with cluster(store := FailingStore()) as made:
        leader, standby = await leader_and_standby(made)
        for _ in range(10):
            store.failing_loads = 1
            await made.pass_time(6)
            assert standby.poller.status.failures == 0
        store.failing_loads = 1
        await made.pass_time(1)
        await made.kill(leader)
        await made.pass_time(int(1.2 * LEASE))
        assert not standby.poller.status.is_standby


async def test_an_outage_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A standby looks at the store each tenth of its lease, and warns ever less often."""
    caplog.set_level("INFO", "income_client.poller")
    async with cluster(store := FailingStore()) as made:
        _, standby = await leader_and_standby(made)
        store.failing_loads = 1_000
        await made.pass_time(100)
        assert standby.poller.status.failures > 50
    failed = [one for one in caplog.records if "polling failed" in one.getMessage()]
    assert len(failed) > 50
    assert sum(one.levelname == "WARNING" for one in failed) < len(failed) / 4


@pytest.mark.parametrize("comes_back", [False, True])
async def test_closing_waits_for_a_lease_that_is_being_given_up(*, comes_back: bool) -> None:
    """The store is slow; the consumer still holds its batch, or has asked for the next one."""

    class SlowStore(MemoryCheckpointStore):
        answers = asyncio.Event()

        async def save(self, name: str, checkpoint: str, **changes: Any) -> int:
            await self.answers.wait()
            return await super().save(name, checkpoint, **changes)

    async with cluster(store := SlowStore()) as made:
        store.answers.set()
        made.place.touch(1)
        replica, batches, _ = await made.batch()
        await made.pass_time(int(10 * LEASE))
        store.answers.clear()
        await made.pass_time(int(LEASE))
        waiting: list[asyncio.Future[Any]] = []
        if comes_back:
            waiting.append(asyncio.ensure_future(anext(batches)))
            await made.settle()
        waiting.append(asyncio.ensure_future(replica.poller.aclose()))
        await made.settle()
        assert not any(task.done() for task in waiting)
        store.answers.set()
        await asyncio.wait(waiting)
        if comes_back:
            assert isinstance(waiting[0].exception(), StopAsyncIteration)
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert not any(name.startswith("income_client") for name in names)
        await batches.aclose()


async def test_a_store_says_once_whether_a_standby_could_save() -> None:
    """When it begins to wait; who takes the name at once finds out by its first save."""

    class Narrow(MemoryCheckpointStore):
        asked = 0

        async def check_rights(self, name: str) -> None:
            assert name == "default"
            self.asked += 1
            if self.asked == 1:
                raise CheckpointError("no rights for now", retryable=True)

    async with cluster(store := Narrow()) as made:
        leader = await made.started(interval=3600.0)
        standby = await made.started(1, interval=3600.0)
        assert "no rights" in str(standby.poller.status.last_error)
        await made.pass_time(12)
        assert store.asked == 2
        assert (standby.poller.status.is_standby, standby.poller.status.failures) == (True, 0)
        assert leader.poller.status.last_error is None


@pytest.mark.parametrize(("is_gone", "standby"), [(False, True), (True, True), (True, False)])
async def test_a_store_that_has_lost_what_was_saved_leads_to_redelivery(
    caplog: pytest.LogCaptureFixture, *, is_gone: bool, standby: bool
) -> None:
    """It was restored to an older state, or emptied: all since comes again, which the log says."""
    async with cluster(store := MemoryCheckpointStore()) as nodes:
        leader = await nodes.started(interval=5.0, standby=standby)
        updated, kept = [], {}
        for number in (1, 2, 3):
            updated += nodes.place.touch(number)
            await nodes.pass_time(12)
            if number == 1 and not is_gone:
                kept = dict(store._stored)
        assert ids_of(leader.records) == updated
        store._stored = kept
        await nodes.pass_time(30)
        assert sorted(ids_of(leader.records)[3:]) == sorted(updated if is_gone else updated[1:])
    lost = "gone from the store" if is_gone else "older than what this poller has saved"
    (line,) = [one for one in caplog.records if lost in one.getMessage()]
    facts = vars(line)
    assert (line.name, facts["poller"]) == ("income_client.poller.lease", "default")
    assert (facts["reached"] == NOW) is is_gone
    assert "whatever was updated since" in line.getMessage()


async def test_a_standby_that_never_led_resumes_from_what_it_has_watched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The leader dies, and the store is emptied before the standby has taken over."""
    events: list[Event] = []
    async with cluster(store := MemoryCheckpointStore()) as nodes:
        leader = await nodes.started(2, start=None, settle=0.0, interval=5.0)
        standby = await nodes.started(2, start=None, settle=0.0, on_event=events.append)
        updated = nodes.place.touch(1)
        await nodes.kill(leader)
        await nodes.pass_time(5)
        updated += nodes.place.touch(2)
        store._stored.clear()
        await nodes.pass_time(10)
        assert not standby.poller.status.is_standby
        assert sorted(ids_of(standby.records)) == sorted(updated)
        error = standby.poller.status.last_error
    (line,) = [one for one in caplog.records if one.levelname == "WARNING"]
    assert "gone from the store" in line.getMessage()
    assert line.getMessage() == str(error)
    assert len([one for one in events if isinstance(one, CheckpointCreated)]) == 1


async def test_without_standby_the_newest_takes_over_at_once(made: Cluster) -> None:
    """And keeps the name for as long as it saves; the replica waits behind it."""
    leader = await made.started(1, interval=5.0)
    newest = await made.started(20, standby=False, interval=5.0)
    assert leader.poller.status.is_standby
    assert not newest.poller.status.is_standby
    await made.kill(newest)
    await made.pass_time(int(LEASE) + 3)
    assert not leader.poller.status.is_standby


async def test_each_lease_is_as_long_as_its_holder_says(made: Cluster) -> None:
    leader = await made.started(1, lease=30.0, interval=3600.0)
    standby = await made.started(lease=5.0)
    await made.pass_time(29, paused=leader)
    assert standby.poller.status.is_standby
    await made.pass_time(3, paused=leader)
    assert not standby.poller.status.is_standby


async def test_a_wait_that_is_cancelled_again_and_again_still_becomes_leader(made: Cluster) -> None:
    """The time that a standby has watched the other counts, also after its waiter is cancelled."""
    await made.kill(await made.started(2))
    standby = made.add()
    for _ in range(6):
        waiting = asyncio.ensure_future(anext(standby.poller))
        await made.pass_time(4)
        waiting.cancel()
        await asyncio.wait([waiting])
    standby.start()
    await made.pass_time(3)
    assert not standby.poller.status.is_standby
    await standby.poller.aclose()
