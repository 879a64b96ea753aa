"""An SQLite file that somebody keeps locked holds up its own save, and nothing else."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from income_client import CheckpointError, SQLiteCheckpointStore
from tests.support.polling import ids_of, rest, scene, take
from tests.support.service import client_tasks, until
from tests.support.store_files import locked

PROMPT = 10
"""Seconds of patience with a stop; a lock was once waited for longer than that."""


async def test_a_locked_file_leaves_the_threads_of_the_loop_to_others(tmp_path: Path) -> None:
    """Name lookups and files go on while a save waits."""
    store = SQLiteCheckpointStore(tmp_path / "polls.db")
    await store.save("default", "one", version=0)
    with ThreadPoolExecutor(1) as only_thread, locked(tmp_path / "polls.db") as other:
        asyncio.get_running_loop().set_default_executor(only_thread)
        saving = asyncio.create_task(store.save("default", "two", version=1))
        await asyncio.sleep(0)
        assert await asyncio.to_thread(lambda: "looked up") == "looked up"
        assert not saving.done()
        other.execute("ROLLBACK")
        assert await saving == 2


async def test_a_locked_file_does_not_hold_up_a_cancellation(tmp_path: Path) -> None:
    """Nothing is written by a save that was cancelled while it waited."""
    store = SQLiteCheckpointStore(tmp_path / "polls.db")
    await store.save("default", "one", version=0)
    with locked(tmp_path / "polls.db"):
        saving = asyncio.create_task(store.save("default", "two", version=1))
        await asyncio.sleep(0)
        saving.cancel()
        await asyncio.wait([saving], timeout=PROMPT)
        assert saving.cancelled()
    stored = await store.load("default")
    assert (stored.checkpoint, stored.version) == ("one", 1)


@pytest.mark.parametrize("way", ["stop before", "stop during", "cancel"])
async def test_a_locked_file_does_not_hold_up_the_end_of_a_poller(way: str, tmp_path: Path) -> None:
    """Its last batch is not committed then, and comes again; the checkpoint is whole."""
    async with scene() as place:
        path = tmp_path / "polls.db"
        place.store = SQLiteCheckpointStore(path)
        place.touch(1, 2)
        place.service.advance(10)
        poller = place.poll()
        batch = await take(poller)
        before = await place.store.load("default")
        with locked(path):
            if way == "stop before":
                poller.stop()
            committing = asyncio.create_task(batch.commit())
            if way != "stop before":
                await until(lambda: poller.status.failures > 0)
            if way == "stop during":
                poller.stop()
            if way == "cancel":
                committing.cancel()
            await asyncio.wait([committing], timeout=PROMPT)
            assert committing.done()
            assert committing.cancelled() == (way == "cancel")
            if way != "cancel":
                assert isinstance(committing.exception(), CheckpointError)
            assert client_tasks() == set()
        assert await place.store.load("default") == before
        assert ids_of(await rest(place.poll())) == ids_of(batch)


async def test_a_poller_goes_on_where_it_was_once_the_lock_is_gone(tmp_path: Path) -> None:
    """The batch in hand is committed, and nothing was read again for it."""
    async with scene() as place:
        path = tmp_path / "polls.db"
        place.store = SQLiteCheckpointStore(path)
        place.touch(1, 2)
        place.service.advance(10)
        poller = place.poll()
        batch = await take(poller)
        with locked(path):
            committing = asyncio.create_task(batch.commit())
            await until(lambda: poller.status.failures > 1)
        await committing
        assert (await place.store.load("default")).checkpoint == batch.checkpoint
        assert place.requests("list_applications") == 1
        assert place.requests("get_application") == 2
        assert await rest(place.poll()) == []
