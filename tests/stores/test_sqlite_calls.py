"""Calls of an SQLite store among others: locked out, cancelled, in other loops and threads."""

import asyncio
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from income_client.checkpoints import SQLiteCheckpointStore
from income_client.checkpoints.store import Change
from income_client.errors import CheckpointConflictError, CheckpointError
from income_client.events import Event, PollFailed
from tests.support.disk import filled, first_free, locked, without_descriptors
from tests.support.polling import ids_of, rest, scene, take
from tests.support.service import client_tasks

A_MOMENT = 0.05
LONG = 30.0


@pytest.mark.parametrize("is_read", [False, True], ids=["writer", "reader"])
async def test_a_lock_that_is_kept_is_a_passing_fault(tmp_path: Path, *, is_read: bool) -> None:
    """Beyond its patience a save gives up, with nothing changed; reading is not held up."""
    path, look = tmp_path / "store.db", "SELECT version FROM checkpoints WHERE name = 'default'"
    store = await filled(path)
    store._busy_seconds = A_MOMENT
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN" if is_read else "BEGIN IMMEDIATE")
        assert other.execute(look).fetchall() == [(1,)]
        with pytest.raises(CheckpointError, match="database is locked") as caught:
            await store.save("default", "two", version=1)
        assert (await store.load("default")).version == 1
        assert other.execute(look).fetchall() == [(1,)]
        other.execute("ROLLBACK")
        assert caught.value.retryable
        assert not isinstance(caught.value, CheckpointConflictError)
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        assert await store.save("default", "two", version=1) == 2
        assert other.execute(look).fetchall() == [(2,)]


async def test_a_cancelled_save_has_ended_when_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is cancelled, nothing is written any more once the await is over."""
    path = tmp_path / "store.db"
    store = await filled(path)
    save, may_go = store._save_checkpoint, threading.Event()

    def slow(change: Any) -> int:
        may_go.wait(LONG)
        return save(change)

    monkeypatch.setattr(store, "_save_checkpoint", slow)
    saving = asyncio.create_task(store.save("default", "two", version=1))
    for _ in range(3):
        done, _ = await asyncio.wait((saving,), timeout=A_MOMENT / 2)
        assert not done
        # All of them, as a loop does that is being closed.
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
    may_go.set()
    with pytest.raises(asyncio.CancelledError):
        await saving
    before = path.read_bytes()
    assert (await store.load("default")).version == 2
    assert path.read_bytes() == before


def test_a_loop_that_is_closed_over_a_save_leaves_nothing_behind(tmp_path: Path) -> None:
    """At the end of a program, a save under way is completed, and the store's thread ends."""
    path = tmp_path / "store.db"
    store = asyncio.run(filled(path))
    threads = threading.active_count()

    async def leave() -> asyncio.Task[int]:
        saving = asyncio.create_task(store.save("default", "two", version=1))
        await asyncio.sleep(0)
        return saving

    saving = asyncio.run(leave())
    assert saving.cancelled()
    assert threading.active_count() == threads
    assert asyncio.run(store.load("default")).version == 2


async def test_too_many_open_files_are_a_passing_fault(tmp_path: Path) -> None:
    """Afterwards as after conflicts and damage no file is left open."""
    store, new = await filled(tmp_path / "store.db"), SQLiteCheckpointStore(tmp_path / "new.db")
    (tmp_path / "bad.db").write_bytes(b"bad" * 99)
    before = first_free()
    for spare in (0, 1):
        with without_descriptors(spare):
            for one, version in ((store, 1), (new, 0)):
                with pytest.raises(CheckpointError, match="no file descriptor left") as caught:
                    await one.save("default", "two", version=version)
                assert caught.value.retryable
    assert await store.save("default", "two", version=1) == 2
    assert await new.save("default", "one", version=0) == 1
    with pytest.raises(CheckpointConflictError):
        await store.save("default", "text", version=1)
    with pytest.raises(CheckpointError):
        await SQLiteCheckpointStore(tmp_path / "bad.db").load("default")
    assert first_free() == before


async def test_a_store_that_another_save_makes_at_that_moment_is_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks of one save the other has made the file: that is a conflict, as ever."""
    store = SQLiteCheckpointStore(tmp_path / "store.db")
    look = Path.stat

    def late(path: Path, **options: Any) -> os.stat_result:
        monkeypatch.undo()
        try:
            return look(path, **options)
        finally:
            store._save_checkpoint(Change("default", "first", 0, (), ()))

    monkeypatch.setattr(Path, "stat", late)
    with pytest.raises(CheckpointConflictError):
        await store.save("default", "second", version=0)
    assert (await store.load("default")).checkpoint == "first"


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


@pytest.mark.parametrize("way", ["stop", "cancel"])
async def test_a_locked_file_does_not_hold_up_the_end_of_a_poller(way: str, tmp_path: Path) -> None:
    """The last batch is not committed, and is delivered again; the checkpoint is whole."""
    failed = asyncio.Event()

    def hear(event: Event) -> None:
        if isinstance(event, PollFailed):
            failed.set()

    async with scene(on_event=hear) as place:
        path = tmp_path / "polls.db"
        place.store = SQLiteCheckpointStore(path)
        place.touch(1, 2)
        place.service.advance(10)
        poller = place.poll()
        batch = await take(poller)
        before = await place.store.load("default")
        with locked(path):
            committing = asyncio.create_task(batch.commit())
            await failed.wait()
            poller.stop() if way == "stop" else committing.cancel()
            await asyncio.wait([committing], timeout=PROMPT)
            assert committing.done()
            assert committing.cancelled() == (way == "cancel")
            assert way == "cancel" or isinstance(committing.exception(), CheckpointError)
            assert client_tasks() == set()
        assert await place.store.load("default") == before
        assert ids_of(await rest(place.poll())) == ids_of(batch)
