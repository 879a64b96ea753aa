"""Checkpoints and their pollers while the store fails for a time."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, nullcontext, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import evolve

from income_client import (
    CheckpointConflictError,
    CheckpointError,
    IncomeClientError,
    MemoryCheckpointStore,
    StoredCheckpoint,
)
from income_client.events import CheckpointCreated, Event, PollFailed
from income_client.polling.checkpoint import Checkpoint, read_checkpoint
from income_client.polling.fence import Fence
from income_client.polling.foreign_store import ForeignStore
from income_client.polling.lease import Lease
from income_client.polling.ownership import Lost
from income_client.system.clock import SystemClock
from income_client.testing import JumpingClock
from tests.support.canaries import held_by, private_in
from tests.support.clocks import ManualClock
from tests.support.disk import letter
from tests.support.polling import FailingStore, OfVersions, Scene, first, ids_of, rest, scene, take
from tests.support.service import until


async def now() -> int:
    return 100


class LateStore(MemoryCheckpointStore):
    """Makes a save after its sender has given up, when it is next asked for something."""

    late: dict[str, Any] | None = None
    is_slow = False

    async def load(self, name: str) -> StoredCheckpoint:
        found = await super().load(name)
        if self.late is not None and not self.is_slow:
            change, self.late = self.late, None
            await super().save(name, **change)
        return found

    async def save(
        self, name: str, checkpoint: str, *, replaces: str | None = None, **changes: Any
    ) -> int:
        if self.is_slow:
            self.late = {"checkpoint": checkpoint, "replaces": replaces, **changes}
            raise CheckpointError("no answer", retryable=True)
        return await super().save(name, checkpoint, replaces=replaces, **changes)


@pytest.mark.parametrize("is_asked", [False, True])
@pytest.mark.parametrize("compares_texts", [False, True])
async def test_a_save_that_is_made_late_does_not_replace_its_poller(
    *, compares_texts: bool, is_asked: bool
) -> None:
    """The sender of the late save gave up, and has read the store before the save is made."""
    store = LateStore()
    with nullcontext() if compares_texts else pytest.deprecated_call():
        used = ForeignStore.checked(store if compares_texts else OfVersions(store), "default")
    lease = Lease(used, SystemClock())
    began, _ = await lease.acquire(None, now)
    fence = lease.fence
    store.is_slow = True
    with pytest.raises(CheckpointError):
        await fence.save(evolve(began, reached=103))
    store.is_slow = False
    if is_asked:
        await fence.check_ownership()
        await fence.check_ownership()
        assert fence.progress == evolve(began, reached=103).progress
    await fence.save_letters([letter(1)])
    assert read_checkpoint((await store.load("default")).checkpoint).reached == 103
    await fence.save(evolve(began, reached=105))
    assert read_checkpoint((await store.load("default")).checkpoint).reached == 105
    assert not isinstance(fence.hold, Lost)


async def test_a_first_save_that_failed_is_tried_again() -> None:
    """After a conflict as after one that was made; its end lets a standby take over at once."""
    store = FailingStore()
    store.failures, store.error = 1, CheckpointConflictError("another was first")
    lease = Lease(ForeignStore(store, "default"), JumpingClock(), 15.0)
    await lease.acquire(None, now)
    await lease.release()
    assert read_checkpoint((await store.load("default")).checkpoint or "").lease == 0
    store, clock = FailingStore(), JumpingClock()
    store.failures, store.saves_first = 1, True
    lease = Lease(ForeignStore(store, "default"), clock, 15.0)
    with pytest.raises(CheckpointError):
        await lease.acquire(None, now)
    await lease.acquire(None, now)
    await lease.release()
    assert clock.slept == []  # if only the answer to it was lost, nobody else holds the lease
    assert lease.is_new


class SilentStore(MemoryCheckpointStore):
    """Loses the reply to a save if told to; counts the saves that it refuses."""

    is_silent = False
    conflicts = 0

    async def save(
        self, name: str, checkpoint: str, *, replaces: str | None = None, **changes: Any
    ) -> int:
        await asyncio.sleep(0)
        try:
            version = await super().save(name, checkpoint, replaces=replaces, **changes)
        except CheckpointConflictError:
            self.conflicts += 1
            raise
        if self.is_silent:
            self.is_silent = False
            raise CheckpointError("no answer", retryable=True)
        return version


SAVES: dict[str, Callable[[Fence, Checkpoint], Awaitable[None]]] = {
    "checkpoint": lambda fence, checkpoint: fence.save(checkpoint),
    "dead letters": lambda fence, _: fence.save_letters([letter(1)]),
    "renewal": lambda fence, _: fence.renew(0),
}


@pytest.mark.parametrize("way", SAVES)
async def test_a_save_after_one_whose_reply_was_lost_is_not_refused(way: str) -> None:
    """The store is asked first, since a refusal would undo the transaction of a consumer."""
    store = SilentStore()
    lease = Lease(ForeignStore(store, "default"), SystemClock(), 15.0)
    began, _ = await lease.acquire(None, now)
    store.is_silent = True
    with pytest.raises(CheckpointError):
        await lease.fence.save(evolve(began, reached=103))
    await SAVES[way](lease.fence, evolve(began, reached=105))
    reached = 105 if way == "checkpoint" else 103
    assert read_checkpoint((await store.load("default")).checkpoint).reached == reached
    assert store.conflicts == 0
    await lease.release()


async def test_saves_at_the_same_time_follow_each_other() -> None:
    """A renewal and the commits of several tasks: none is refused, and the newest stays."""
    store = SilentStore()
    lease = Lease(ForeignStore(store, "default"), SystemClock(), 15.0)
    began, _ = await lease.acquire(None, now)
    newest = evolve(began, reached=105)
    await asyncio.gather(*(save(lease.fence, newest) for save in SAVES.values()))
    assert read_checkpoint((await store.load("default")).checkpoint).reached == 105
    assert store.conflicts == 0
    await lease.release()


async def test_a_store_that_lost_the_last_save_is_noticed_before_the_next_one() -> None:
    """The mark in the older checkpoint is the poller's own; the poll after it would be lost."""
    store = MemoryCheckpointStore()
    lease = Lease(ForeignStore(store, "default"), SystemClock(), 15.0)
    began, _ = await lease.acquire(None, now)
    older = dict(store._stored)
    await lease.fence.save(evolve(began, reached=103))
    store._stored = older
    with pytest.raises(CheckpointConflictError):
        await lease.fence.check_ownership()
    assert lease.is_lost
    await lease.release()


async def test_a_renewal_ends_once_another_has_taken_over() -> None:
    store = MemoryCheckpointStore()
    lease, other = (
        Lease(ForeignStore(store, "default"), SystemClock(), seconds) for seconds in (15.0, None)
    )
    await lease.acquire(None, now)
    assert await lease.renew(0)
    await other.acquire(None, now)
    assert not await lease.renew(0)
    await lease.release()


# Of the poll in hand nothing is lost: only the commit is tried again


def with_updates(place: Scene, count: int) -> FailingStore:
    """Update applications, some seconds ago, and give the place a store that can fail."""
    place.touch(*range(count))
    place.service.advance(10)
    place.store = store = FailingStore()
    return store


@pytest.mark.parametrize(
    ("failures", "saves_first", "way"),
    [(1, True, "records"), (5, False, "records"), (7, False, "blocks")],
)
async def test_a_failing_commit_costs_no_request(
    failures: int, saves_first: bool, way: str
) -> None:
    """The rest of the poll is handed out from where it was; nothing is listed or read anew.

    Dead letters are stored before their batch, which is not read again for that; the end of a
    batch's own block does not fail for a store that comes back.
    """
    async with scene(30, batch_size=10) as place:
        store = with_updates(place, 24)
        place.spoil(place.ids[0], status=404)
        poller, ids = place.poll(interval=10_000), list[str]()
        if way == "records":
            waiting = asyncio.create_task(anext(poller))
            await until(lambda: store.tries == 1)
            store.failures = 4
            ids += ids_of([await waiting])
            async for record in poller:
                ids.append(record.application_id)
                if len(ids) == 10:
                    store.failures, store.saves_first = failures, saves_first
                if len(ids) == 23:
                    poller.stop()
        else:
            async for batch in poller.batches():
                async with batch:
                    ids += ids_of(batch)
                    store.failures = failures
                assert store.failures == 0
                assert (await store.load("default")).checkpoint == batch.checkpoint
                if len(ids) == 23:
                    poller.stop()
        assert store.failures == 0
        assert sorted(ids) == sorted(place.ids[1:24])
        assert place.requests("get_application") == 23 + 2
        assert place.requests("list_applications") == 1
        assert await place.letters() == [place.ids[0]]
        assert await rest(place.poll()) == []


async def test_pauses_of_a_failing_commit_grow_and_are_shown() -> None:
    """Pauses grow to a minute by the client's clock.

    The status shows the time of the next try.
    """
    planned: list[float] = []

    def look(event: Event) -> None:
        if isinstance(event, PollFailed):
            before, status = datetime.now(UTC), poller.status
            assert status.failures == len(planned) + 1
            assert isinstance(status.last_error, CheckpointError)
            assert status.next_poll_at is not None
            planned.append((status.next_poll_at - before).total_seconds())

    clock = JumpingClock()
    async with scene(clock=clock, on_event=look) as place:
        store = with_updates(place, 3)
        poller = place.poll(interval=10_000)
        batch = await take(poller)
        clock.slept.clear()
        store.failures = 12
        await batch.commit()
        assert len(clock.slept) == len(planned) == 12
        for number, (longest, pause) in enumerate(zip(planned, clock.slept, strict=True)):
            assert min(60, 2**number) / 2 <= pause <= min(60, 2**number, longest + 0.001)
        assert poller.status.next_poll_at is None


@pytest.mark.parametrize("way", ["save", "save unsaid", "dead letters"])
async def test_a_new_beginning_is_reported_although_the_store_fails(way: str) -> None:
    """The report comes once, also if the first save was made and only its answer was lost."""
    events: list[Event] = []
    async with scene(on_event=events.append) as place:
        place.store = store = FailingStore()
        store.failing_letters = way == "dead letters"
        store.failures, store.saves_first = way != "dead letters", way == "save unsaid"
        poller = place.poll()
        await rest(poller)
        assert poller.status.last_error is not None
        await rest(place.poll())
        assert len([one for one in events if isinstance(one, CheckpointCreated)]) == 1


@pytest.mark.parametrize("way", ["stop", "cancel"])
async def test_stopping_ends_the_pauses_of_a_failing_commit(way: str) -> None:
    """A stop after one more try, whose error is raised; the batch comes again either way."""
    clock = ManualClock(is_held=False)
    async with scene(clock=clock) as place:
        store = with_updates(place, 3)
        poller = place.poll()
        batch = await take(poller)
        store.failures = 10_000
        clock.is_held = True
        committing = asyncio.create_task(batch.commit())
        await until(lambda: poller.status.failures == 1)
        poller.stop() if way == "stop" else committing.cancel()
        await asyncio.wait([committing])
        assert committing.cancelled() == (way == "cancel")
        clock.release_all()
        store.failures = 0
        if way == "stop":
            assert isinstance(committing.exception(), CheckpointError)
        else:
            assert ids_of(await take(poller)) == ids_of(batch)
        assert ids_of(await rest(place.poll())) == ids_of(batch)


async def test_a_single_poll_waits_for_the_store_for_a_while() -> None:
    """Half a minute or so; after that it fails, as it does when the service fails."""
    async with scene(clock=JumpingClock()) as place:
        store = with_updates(place, 3)
        store.failures = 3
        assert len(await rest(place.poll())) == 3
        store.failures = 10_000
        with pytest.raises(CheckpointError) as caught:
            await rest(place.poll())
        assert caught.value.retryable
        assert 10_000 - store.failures < 10


@pytest.mark.parametrize("moment", ["commit", "poll"])
async def test_a_store_that_was_restored_from_a_backup_is_named_as_such(
    place: Scene, moment: str
) -> None:
    """The poller ends; started again, it delivers what came since the backup."""
    place.store = store = MemoryCheckpointStore()
    await rest(place.poll())
    backup = dict(store._stored)
    updated = place.touch(1, 2)
    place.service.advance(10)
    batch = await take(poller := place.poll())
    if moment == "poll":
        await batch.commit()
    store._stored = backup
    with pytest.raises(CheckpointConflictError, match="restore from a backup"):
        await (batch.commit() if moment == "commit" else take(poller))
    assert set(ids_of(await rest(place.poll()))) == set(updated)


@pytest.mark.parametrize("has_failed", [False, True])
@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_batch_is_given_out_again_once_the_store_answers(
    *, has_failed: bool, is_stopped: bool
) -> None:
    """Another may have taken over, which only the store knows; a stop ends the wait for it."""
    failures: list[int] = []

    def note(event: Event) -> None:
        if isinstance(event, PollFailed):
            failures.append(poller.status.failures)
            if is_stopped and len(failures) == 2:
                poller.stop()

    async with scene(on_event=note) as place:
        store = place.store = FailingStore()
        place.touch(1)
        poller = place.poll()
        async with aclosing(poller.batches()) as batches:
            batch = await anext(batches)
            with suppress(ZeroDivisionError):
                async with batch if has_failed else nullcontext():
                    raise ZeroDivisionError
        store.failing_loads = 3
        async with aclosing(poller.batches()) as batches:
            again = await anext(batches, None)
        assert again is (None if is_stopped else batch)
        before = 1 if has_failed else 0  # the block itself
        assert failures == [before + number for number in range(1, 3 if is_stopped else 4)]


@pytest.mark.parametrize("way", ["records", "batches", "commit", "block"])
async def test_an_error_shows_nothing_of_what_the_poller_reads(place: Scene, way: str) -> None:
    """The error's frames hold the records, and crash reporters send the variables of frames."""
    place.store = store = FailingStore()
    place.touch(1)
    poller = place.poll()
    batch = await take(poller)
    store.error, store.failures = CheckpointError("the store is damaged"), 2
    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "records": lambda: first(place.poll(), 1),
        "batches": lambda: take(place.poll()),
        "commit": batch.commit,
        "block": lambda: batch.__aexit__(None, None, None),
    }
    with pytest.raises(IncomeClientError) as caught:
        await ways[way]()
    assert private_in(held_by(caught.value)) is None
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
