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


async def test_the_first_save_stores_where_it_began() -> None:
    """So that a restart does not skip what happens between."""
    store = MemoryCheckpointStore()
    checkpoint, letters = await Lease(store, "default", SystemClock()).acquire(None, now)
    assert (checkpoint, letters) == (evolve(at(100), holder=checkpoint.holder), ())
    assert (await store.load("default")).checkpoint == checkpoint.text


async def test_the_next_lease_resumes_where_the_last_one_was() -> None:
    """It has the dead letters too, and every save of the previous holder is refused."""
    store = MemoryCheckpointStore()
    first = await taken(store)
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


async def test_a_lease_that_another_took_first_is_given_up_like_any() -> None:
    """After a refused try it was taken; its end lets a standby take over at once."""
    store = FailingStore()
    store.failures, store.error = 1, CheckpointConflictError("another was first")
    lease = Lease(store, "default", JumpingClock(), 15.0)
    await lease.acquire(None, now)
    await lease.release()
    text = (await store.load("default")).checkpoint
    assert text is not None
    assert read_checkpoint(text).lease == 0


async def test_a_standby_does_not_wait_for_its_own_first_save() -> None:
    """If only the answer to it was lost, nobody else holds the lease."""
    store, clock = FailingStore(), JumpingClock()
    store.failures, store.saves_first = 1, True
    lease = Lease(store, "default", clock, 15.0)
    with pytest.raises(CheckpointError):
        await lease.acquire(None, now)
    await lease.acquire(None, now)
    await lease.release()
    assert clock.slept == []
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
