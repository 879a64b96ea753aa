"""Leader and standby: one poller of a name works, the others wait until its lease ends."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

import pytest
from attrs import evolve

from income_client import (
    AuthenticationError,
    CheckpointConflictError,
    CheckpointError,
    IncomeClientError,
    MemoryCheckpointStore,
)
from income_client.emulator import Fault
from income_client.events.kinds import CheckpointCreated, Event
from income_client.polling.checkpoint import Checkpoint, read_checkpoint
from tests.support.polling import LEASE, Cluster, FailingStore, cluster, ids_of, leader_and_standby
from tests.support.service import NOW

_TAKEN_OVER: Final = "poller 'default' has taken over: the lease of the previous leader"
_LOST: Final = "poller 'default' has lost its lease, which was renewed 33 s ago"


@pytest.fixture
async def made() -> AsyncIterator[Cluster]:
    async with cluster() as made:
        yield made


async def test_waiting_taking_over_and_losing_the_lease_are_logged_once_each(
    made: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the seconds without a renewal; a poller that starts alone logs none of it."""
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
        f"{_TAKEN_OVER} was not renewed for 16 s",
        f"{_LOST}: another poller has taken over",
        "poller 'default' waits as a standby: another poller holds the lease of 15 s",
        f"{_TAKEN_OVER} was released",
    ]
    assert [each.poller.status.is_leader for each in made.replicas] == [True, False]
    levels = [line.levelname for line in caplog.records]
    assert levels == ["INFO", "WARNING", "WARNING", "INFO", "INFO"]
    facts = [(vars(line)["poller"], round(vars(line)["seconds"])) for line in caplog.records]
    assert facts == [("default", seconds) for seconds in (15, 16, 33, 15, 0)]


@pytest.mark.parametrize("standby", [True, False])
@pytest.mark.parametrize("ending", ["stopped", "closed", "cancelled and closed", "once"])
async def test_a_poller_that_ends_gives_its_lease_up(
    made: Cluster, ending: str, *, standby: bool
) -> None:
    """A deployment need not wait for the lease to expire, and nothing is delivered again."""
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
    """The poller has not ended, and so has not released its lease."""
    single = made.add(standby=False, once=True)
    path = "/v1/income/applications"
    made.place.service.faults.add(Fault("status", status=401, path=path))
    with pytest.raises(IncomeClientError):
        await made.result(anext(single.poller))
    text = await made.place.text()
    assert "lease" not in json.loads(text)
    updated = made.place.touch(1)
    assert ids_of([await made.result(anext(single.poller))]) == updated


async def test_a_leader_that_was_replaced_in_a_long_pause_stands_by_at_once(made: Cluster) -> None:
    """Otherwise nobody would take over until its next poll, an hour later."""
    leader, other = await leader_and_standby(made)
    await made.pass_time(20, paused=leader)
    assert not other.poller.status.is_standby
    await made.pass_time(6)
    assert leader.poller.status.is_standby
    await made.kill(other)
    await made.pass_time(20)
    assert not leader.poller.status.is_standby


@pytest.mark.parametrize("way", ["records", "last record", "commit"])
async def test_a_poller_that_was_replaced_waits_for_its_turn(made: Cluster, way: str) -> None:
    """The poller drops the rest of its batch, which the leader has delivered.

    A commit is refused.

    What comes next is what was updated since, in a poll that does not wait for the interval.
    """
    updated = made.place.touch(1, 2, 3)
    leader, batches, batch = await made.batch(interval=3600.0)
    if way != "commit":
        await batches.aclose()
        for _ in updated if way == "last record" else updated[:1]:
            assert (await made.result(anext(leader.poller))).application_id in updated
    standby = await made.started()
    await made.pass_time(17, paused=leader)
    assert sorted(ids_of(standby.records)) == sorted(updated)
    version = await made.version()
    waiting: asyncio.Future[Any]
    if way != "commit":
        if way == "records":
            await made.resume(leader)  # the renewal finds out, and otherwise the commit
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


class RivalStore(MemoryCheckpointStore):
    """Lets another poller take over, and end, just before a save."""

    before: Callable[[], object] | None = None

    async def save(self, name: str, checkpoint: str, **changes: Any) -> int:
        if self.before is not None:
            self.before()
            self.before = None
            found = await self.load(name)
            last = read_checkpoint(found.checkpoint)
            rival = evolve(last, holder="rival", lease=0, takeovers=last.takeovers + 1)
            await super().save(name, rival.text, version=found.version)
        return await super().save(name, checkpoint, **changes)


async def test_a_poller_that_leads_again_polls_at_once() -> None:
    """The poller lost the lease at the end of a poll, between two renewals.

    The interval is an hour.
    """
    async with cluster(store := RivalStore()) as made:
        leader = await made.started(12, interval=3600.0)
        store.before = partial(made.place.touch, 1)
        leader.poller.wake()
        await made.settle()
        await made.pass_time(3)
        assert ids_of(leader.records) == [made.place.ids[1]]


@pytest.mark.parametrize("ending", ["error", "cancelled"])
async def test_a_poller_that_is_not_closed_does_not_keep_its_lease(
    made: Cluster, ending: str
) -> None:
    """After an error it has given the lease up; after a cancellation the last commit does so."""
    made.place.touch(1)
    replica, batches, batch = await made.batch()
    if ending == "error":
        made.place.service.faults.add(Fault("status", status=401, times=None))
        with pytest.raises(AuthenticationError):
            await made.result(anext(batches))
    else:
        waiting = asyncio.ensure_future(anext(batches))
        await made.settle()
        waiting.cancel()
        await asyncio.wait([waiting])
        await batch.commit()
    assert json.loads(await made.place.text())["lease"] == 0
    await batches.aclose()
    await replica.poller.aclose()


async def test_a_poller_takes_its_lease_again_after_a_batch_that_took_too_long(
    made: Cluster,
) -> None:
    """No standby has taken over; without the lease, a new poller would not wait."""
    made.place.touch(1)
    replica, batches, batch = await made.batch()
    await made.pass_time(int(11 * LEASE))
    await batch.commit()
    assert json.loads(await made.place.text())["lease"] == 0
    made.place.touch(2)
    await made.result(anext(batches))
    assert json.loads(await made.place.text())["lease"] == LEASE
    await batches.aclose()
    await replica.poller.aclose()


async def test_the_lease_is_renewed_while_the_consumer_works(
    made: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The consumer may take ten leases; one that has not returned by then loses the lease.

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
    """A standby finds out when it begins to wait; a leader finds out by its first save."""

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
    """The store was restored or emptied: every record since comes again, and the log says so."""
    async with cluster(store := MemoryCheckpointStore()) as nodes:
        await (await nodes.started(2, standby=standby)).poller.aclose()
        leader = await nodes.started(interval=5.0, standby=standby)
        updated, kept = [], {}
        for number in (1, 2, 3):
            updated += nodes.place.touch(number)
            await nodes.pass_time(12)
            if number == 1 and not is_gone:
                kept = dict(store._stored)
        assert ids_of(leader.records) == updated
        last = read_checkpoint(await nodes.place.text())
        store._stored = kept
        await nodes.pass_time(30)
        again = read_checkpoint(await nodes.place.text())
        assert again.sequence > last.sequence
        assert not is_gone or again.batches > last.batches  # which delivery ids are made of
        assert sorted(ids_of(leader.records)[3:]) == sorted(updated if is_gone else updated[1:])
    lost = "gone from the store" if is_gone else "older than what this poller has saved"
    lines = [one for one in caplog.records if one.levelname == "WARNING"]
    (line,) = [one for one in lines if lost in one.getMessage()]
    facts = vars(line)
    assert (line.name, facts["poller"]) == ("income_client.poller.lease", "default")
    assert (facts["reached"] == NOW) is is_gone
    assert "what was updated since" in line.getMessage()


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


async def test_a_standby_resumes_from_the_earliest_beginning_that_it_has_watched() -> None:
    """The store is emptied, begun anew from an earlier time, and emptied again."""
    async with cluster(store := MemoryCheckpointStore()) as nodes:
        first = Checkpoint(since=NOW - 60, reached=NOW, batches=9, lease=10.0, holder="one")
        second = Checkpoint(since=NOW - 600, reached=NOW - 600, lease=10.0, holder="two")
        await store.save("default", first.text, version=0)
        standby = await nodes.started(2, start=None, settle=0.0)
        await nodes.pass_time(2)
        store._stored.clear()
        await store.save("default", second.text, version=0)
        await nodes.pass_time(2)
        store._stored.clear()
        await nodes.pass_time(10)
        assert not standby.poller.status.is_standby
        stored = await store.load("default")
    assert read_checkpoint(stored.checkpoint).since == NOW - 600


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
    leader = await made.started(1, standby=30.0, interval=3600.0)
    standby = await made.started(standby=5.0)
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
