"""A poller's hold on its name: taken once, lost to the next, and sure of what was saved."""

import asyncio
from typing import Any

import pytest
from attrs import evolve

from income_client import CheckpointConflictError, CheckpointError, MemoryCheckpointStore
from income_client.clock import SystemClock
from income_client.polling.checkpoint import Checkpoint, read_checkpoint
from income_client.polling.fence import Fence
from income_client.polling.lease import Lease
from income_client.testing import JumpingClock
from tests.support.polling import FailingStore
from tests.support.store_files import letter

LETTER = letter(1)


async def now() -> int:
    return 100


def at(reached: int, takeovers: int = 1) -> Checkpoint:
    return Checkpoint(since=100, reached=reached, takeovers=takeovers)


async def taken(store: Any) -> Fence:
    lease = Lease(store, "default", SystemClock())
    await lease.acquire(None, now)
    return lease.fence


async def test_the_next_lease_resumes_where_the_last_one_was() -> None:
    """The first stores where it began, so that a restart does not skip what happens between.

    Each has the dead letters too, and every save of the previous holder is refused.
    """
    store = MemoryCheckpointStore()
    lease = Lease(store, "default", SystemClock())
    checkpoint, letters = await lease.acquire(None, now)
    assert (checkpoint, letters) == (evolve(at(100), holder=checkpoint.holder), ())
    assert (await store.load("default")).checkpoint == checkpoint.text
    first = lease.fence
    await first.save(at(107))
    await first.save_letters([LETTER])
    second = Lease(store, "default", SystemClock())
    checkpoint, letters = await second.acquire(None, now)
    assert (checkpoint.reached, checkpoint.takeovers, letters) == (107, 2, (LETTER,))
    for refused in (first.save(at(109)), first.save_letters([LETTER]), first.check_ownership()):
        with pytest.raises(CheckpointConflictError):
            await refused
    await second.fence.save(at(110, takeovers=2), resolved=[LETTER.key])
    assert await store.dead_letters("default") == ()


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize(
    "error", [OSError("disk"), CheckpointError("busy", retryable=True), asyncio.CancelledError()]
)
async def test_after_a_failed_save_the_store_is_asked(
    error: BaseException, *, is_saved: bool
) -> None:
    """Whether it was made or not, the next save is neither refused nor lost."""
    store = FailingStore()
    lease = await taken(store)
    store.failures, store.error, store.saves_first = 1, error, is_saved
    with pytest.raises((CheckpointError, asyncio.CancelledError)) as caught:
        await lease.save(at(103))
    if isinstance(caught.value, CheckpointError):
        assert caught.value.retryable
    await lease.check_ownership()
    await lease.save(at(105))
    assert (await store.load("default")).checkpoint == at(105).text
    await taken(store)
    with pytest.raises(CheckpointConflictError):
        await lease.check_ownership()


async def test_a_lease_of_another_poller_is_not_taken_for_ours() -> None:
    """Even if the other one stored the very text that we tried to store."""
    store = FailingStore()
    lease = await taken(store)
    store.failures, store.error = 1, OSError("disk")
    with pytest.raises(CheckpointError):
        await lease.save_letters([LETTER])
    await taken(store)
    with pytest.raises(CheckpointConflictError):
        await lease.save_letters([LETTER])


async def test_a_first_save_that_failed_is_tried_again() -> None:
    """After a conflict as after one that was made; its end lets a standby take over at once."""
    store = FailingStore()
    store.failures, store.error = 1, CheckpointConflictError("another was first")
    lease = Lease(store, "default", JumpingClock(), 15.0)
    await lease.acquire(None, now)
    await lease.release()
    assert read_checkpoint((await store.load("default")).checkpoint or "").lease == 0
    store, clock = FailingStore(), JumpingClock()
    store.failures, store.saves_first = 1, True
    lease = Lease(store, "default", clock, 15.0)
    with pytest.raises(CheckpointError):
        await lease.acquire(None, now)
    await lease.acquire(None, now)
    await lease.release()
    assert clock.slept == []  # if only the answer to it was lost, nobody else holds the lease
    assert lease.is_new


async def test_two_who_take_it_at_once_do_not_both_have_it() -> None:
    """One of them is refused by the other's save, and leases again."""
    store = MemoryCheckpointStore()
    leases = [Lease(store, "default", SystemClock()) for _ in range(5)]

    async def slow() -> int:
        await asyncio.sleep(0)
        return 100

    await asyncio.gather(*(lease.acquire(None, slow) for lease in leases))
    holders = []
    for lease in leases:
        try:
            await lease.fence.check_ownership()
            holders.append(lease)
        except CheckpointConflictError:
            pass
    assert len(holders) == 1
    assert (await store.load("default")).version == 5
