"""Batches and their commits: each checkpoint is stored only when all before it may be."""

import asyncio

import pytest

from income_client import ApplicationRecord, Batch, CheckpointError, MemoryCheckpointStore
from income_client.claims import Claim
from income_client.handover import Handover, Save
from income_client.poll_news import PollNews
from income_client.protocol.checkpoint import Checkpoint, read_checkpoint
from income_client.protocol.polling import Harvest
from tests.polling.test_claims import LETTER, ShakyStore, now
from tests.support.poller_model import version_of


def harvest(number: int, *, is_empty: bool = False) -> Harvest:
    """Return what one step of a poll brings."""
    records: tuple[ApplicationRecord, ...] = ()
    if not is_empty:
        records = (version_of(f"app-{number}", 0, 100).record,)
    checkpoint = Checkpoint(since=100, reached=100 + number, batches=number, claims=1)
    return Harvest(records=records, checkpoint=checkpoint, dead=(), resolved=())


async def once(save: Save) -> None:
    """Store what is to be stored, and try it once."""
    await save()


class Desk:
    """A handover, and the store behind it."""

    def __init__(self, store: MemoryCheckpointStore | None = None) -> None:
        self.store = store or MemoryCheckpointStore()
        self.claim = Claim(self.store, "default")
        self.handover = Handover(self.claim, PollNews("default"))

    async def batches(self, count: int) -> list[Batch]:
        """Take the name, and return so many batches."""
        await self.claim.take(None, now)
        made = [await self.handover.bring_in(harvest(number + 1), once) for number in range(count)]
        return [batch for batch in made if batch is not None]

    async def reached(self) -> int:
        """Return how far the stored checkpoint has come, in batches."""
        text = (await self.store.load("default")).checkpoint
        return read_checkpoint(text).reached - 100


async def test_a_commit_covers_what_came_before() -> None:
    """In any order, and again without effect."""
    desk = Desk()
    one, two, three = await desk.batches(3)
    await two.commit()
    assert await desk.reached() == 2
    await asyncio.gather(one.commit(), three.commit(), three.commit())
    assert await desk.reached() == 3
    assert desk.handover.returned() is None


async def test_what_has_failed_is_not_covered() -> None:
    """Later commits wait for it, and are made with its own."""
    desk = Desk()
    one, two, three = await desk.batches(3)
    desk.handover.take_back(two)
    await three.commit()
    assert await desk.reached() == 0
    await one.commit()
    assert await desk.reached() == 1
    await two.commit()
    assert await desk.reached() == 3
    assert desk.handover.returned() is None


async def test_the_first_of_those_taken_back_comes_first() -> None:
    """And none that was committed meanwhile."""
    desk = Desk()
    one, two, three = await desk.batches(3)
    for batch in (three, one, two):
        desk.handover.take_back(batch)
    await one.commit()
    assert desk.handover.returned() is two
    assert desk.handover.returned() is three
    await three.commit()
    desk.handover.take_back(two)
    assert desk.handover.returned() is None


async def test_an_empty_harvest_waits_for_what_is_out() -> None:
    """Whoever keeps checkpoints elsewhere may not have kept the last one yet."""
    desk = Desk()
    (one,) = await desk.batches(1)
    assert await desk.handover.bring_in(harvest(5, is_empty=True), once) is None
    assert await desk.reached() == 0
    await one.commit()
    await desk.handover.bring_in(harvest(6, is_empty=True), once)
    assert await desk.reached() == 6


async def test_a_failed_commit_can_be_made_again() -> None:
    """Nothing counts as committed before it is stored."""
    store = ShakyStore()
    desk = Desk(store)
    (one,) = await desk.batches(1)
    store.fails_before = OSError("disk")
    with pytest.raises(CheckpointError):
        await one.commit()
    desk.handover.take_back(one)
    assert desk.handover.returned() is one
    await one.commit()
    assert await desk.reached() == 1


async def test_what_is_dead_is_stored_before_the_batch_is_out() -> None:
    """Its checkpoint passes what could not be read."""
    desk = Desk()
    await desk.claim.take(None, now)
    letters = desk.handover.receive(())
    letters.put("app-1", LETTER.window, "NotFoundError: 404", attempts=2, now=5)
    brought = Harvest(
        records=harvest(1).records,
        checkpoint=harvest(1).checkpoint,
        dead=letters.unsaved,
        resolved=(),
    )
    batch = await desk.handover.bring_in(brought, once)
    assert batch is not None
    assert len(await desk.store.dead_letters("default")) == 1
    assert await desk.reached() == 0
    assert letters.unsaved == ()
