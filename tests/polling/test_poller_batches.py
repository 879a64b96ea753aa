"""Batches of the polling iterator: what commits them, and which come again."""

import asyncio
from typing import Any

import pytest

from income_client import (
    Batch,
    MemoryCheckpointStore,
    SQLiteCheckpointStore,
)
from income_client.emulator import Fault
from tests.support.polling import NOW_TEXT, ids_of, reached, rest, scene, take
from tests.support.service import NOW


def fail_if(condition: bool) -> None:
    """Fail as a database would."""
    if condition:
        raise ValueError("the database is away")


async def test_a_batch_is_committed_by_its_own_block() -> None:
    """The end of the block stores the checkpoint that the batch carries."""
    async with scene() as place:
        place.touch(1, 2)
        async for batch in place.poll().batches():
            async with batch:
                assert len(batch) == len(batch.records) == 2
                assert list(batch) == list(batch.records)
                assert (await place.store.load("default")).checkpoint != batch.checkpoint
            assert (await place.store.load("default")).checkpoint == batch.checkpoint
            break
        assert await rest(place.poll()) == []


async def test_a_batch_whose_block_fails_comes_again() -> None:
    """Nothing after it is handed out before it is done with, however often that takes."""
    async with scene() as place:
        place.touch(1)
        seen: list[Batch] = []
        async for batch in place.poll().batches():
            seen.append(batch)
            try:
                async with batch:
                    fail_if(len(seen) < 4)
            except ValueError:
                place.touch(2)
            if len(seen) == 5:
                break
        assert [ids_of(batch) for batch in seen[:4]] == [[place.ids[1]]] * 4
        assert ids_of(seen[4]) == [place.ids[2]]


async def test_a_failing_block_is_not_tried_without_pause() -> None:
    """Its pauses grow."""
    async with scene() as place:
        place.touch(1)
        poller, tries = place.poll(interval=1000), 0
        clock: Any = place.client._clock
        async for batch in poller.batches():
            tries += 1
            clock.slept.clear() if tries == 1 else None
            if tries == 6:
                break
            try:
                async with batch:
                    fail_if(tries > 0)
            except ValueError:
                continue
        pauses = [seconds for seconds in clock.slept if seconds < 100]
        assert len(pauses) == 5
        assert all(2**n / 2 <= pause <= 2**n for n, pause in enumerate(pauses, start=1))


async def test_a_checkpoint_kept_elsewhere_begins_where_it_was() -> None:
    """Data and checkpoint in one transaction of the user's: what is stored is not repeated."""
    async with scene(300) as place:
        for number in range(250):
            place.touch(number)
        kept: dict[str, Any] = {"text": NOW_TEXT, "ids": []}
        while len(kept["ids"]) < 250:
            poller = place.client.poll(MemoryCheckpointStore(), start=kept["text"], documents=False)
            batch = await take(poller)
            kept = {"text": batch.checkpoint, "ids": kept["ids"] + ids_of(batch)}
        assert len(set(kept["ids"])) == 250


async def test_all_of_history_comes_batch_by_batch() -> None:
    """A first poll over many pages commits as it goes, so that a crash costs one batch."""
    async with scene(2500, order="shuffled") as place:
        ids: list[str] = []
        progress = []
        while len(set(ids)) < 2500:
            async for batch in place.poll(start="2026-06-30").batches():
                async with batch:
                    assert len(batch) <= 100
                    assert len(batch.checkpoint) < 60_000
                    ids += ids_of(batch)
                progress.append(await reached(place))
                if len(progress) % 7 == 0 or len(ids) == 2500:
                    break
        assert progress == sorted(progress)
        assert len(ids) == len(set(ids)) == 2500
        assert len(set(progress)) > 2


async def test_a_batch_that_was_left_comes_again() -> None:
    """Somebody may have failed before its block began; nobody knows."""
    async with scene(250) as place:
        for number in range(250):
            place.touch(number)
        poller, ids = place.poll(), []
        async for batch in poller.batches():
            left = ids_of(batch)
            break
        async for batch in poller.batches():
            async with batch:
                ids += ids_of(batch)
            if len(ids) == 250:
                break
        assert ids[:100] == left
        assert len(set(ids)) == 250
        assert await rest(place.poll()) == []


async def test_a_later_commit_does_not_cover_a_batch_that_failed() -> None:
    """Blocks may run side by side; the failed one comes again, after a restart as well."""
    async with scene(250) as place:
        for number in range(250):
            place.touch(number)
        poller, batches = place.poll(), []
        async for batch in poller.batches():
            batches.append(batch)
            if len(batches) == 2:
                break
        one, two = batches
        with pytest.raises(ValueError, match="away"):
            async with one:
                fail_if(len(one) > 0)
        await two.commit()
        assert await reached(place) == NOW
        again = await take(poller)
        assert ids_of(again) == ids_of(one)
        await again.commit()
        third = await take(poller)
        assert (len(third), third.number) == (50, 3)
        await third.commit()
        assert await rest(place.poll()) == []


async def test_commits_beside_polls_do_not_take_each_other_for_rivals(tmp_path: Any) -> None:
    """Batches may be committed by tasks, while what cannot be read is being stored."""
    async with scene(400) as place:
        place.store = SQLiteCheckpointStore(tmp_path / "polls.db")
        for number in range(400):
            place.touch(number)
        for number in range(0, 400, 40):
            path = f"*/{place.ids[number]}"
            place.service.faults.add(Fault("status", status=404, path=path, times=None))
        poller, count = place.poll(), 0
        async with asyncio.TaskGroup() as group:
            async for batch in poller.batches():
                group.create_task(batch.commit())
                count += len(batch)
                if count == 390:
                    poller.stop(after_poll=True)
        assert len(await place.letters()) == 10
        assert await rest(place.poll()) == []
