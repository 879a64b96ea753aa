"""Several processes on one file, and processes that die."""

import os
import random
import re
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from income_client.checkpoints import SQLiteCheckpointStore
from tests.support.store_files import names, run_in
from tests.support.store_processes import Savers

LEFT = re.compile(r"store\.db(-wal|-shm)?|\.store\.db\.\w{8}\.creating")


@pytest.fixture(scope="module")
def savers() -> Iterator[Savers]:
    """Lend a source of processes that save."""
    with Savers() as source:
        yield source


async def _check(path: Path, acknowledged: int) -> int:
    """Look at a store after a kill and return its version."""
    stored = await SQLiteCheckpointStore(path).load("default")
    assert acknowledged <= stored.version <= acknowledged + 1
    if stored.version:
        assert stored.checkpoint == f"text {stored.version}"
    if names(path.parent) == [path.name]:
        assert run_in(path, "PRAGMA integrity_check") == [("ok",)]
    else:
        assert stored.version == 0
    return stored.version


def _kill(savers: Savers, path: Path, *, after: int, seconds: float) -> int:
    """Kill a saver some time after so many saves, and return its last acknowledged version."""
    (process,) = savers.start(path, 1, 1_000_000)
    acknowledged = 0
    for _ in range(after):
        acknowledged = int(savers.line())
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
    os.kill(process, signal.SIGKILL)
    while (line := savers.line()) != "end":
        acknowledged = int(line)
    return acknowledged


async def test_a_killed_process_loses_nothing_that_it_was_told(
    savers: Savers,
    tmp_path: Path,
) -> None:
    """After each kill the store is whole, at the last acknowledged version or the next one."""
    path, chance, version = tmp_path / "store.db", random.Random(11), 0
    for _ in range(30):
        after = chance.randrange(1, 6)
        acknowledged = _kill(savers, path, after=after, seconds=chance.uniform(0, 0.004))
        assert acknowledged > version
        version = await _check(path, acknowledged)


async def test_a_process_killed_while_it_makes_a_store_leaves_none_or_a_whole_one(
    savers: Savers,
    tmp_path: Path,
) -> None:
    """Nothing stands in the place, or a store; at most a draft stands beside."""
    chance, seen, longest = random.Random(13), set(), 0.02
    for number in range(36):
        path = tmp_path / str(number) / "store.db"
        path.parent.mkdir()
        acknowledged = _kill(savers, path, after=0, seconds=chance.uniform(0, longest))
        left = names(path.parent)
        seen.add(path.name in left)
        # Keeps the kills around the moment of creation, however fast the machine is.
        longest *= 0.8 if path.name in left else 1.25
        assert all(LEFT.fullmatch(name) for name in left)
        version = await _check(path, acknowledged)
        store = SQLiteCheckpointStore(path)
        assert await store.save("default", "on", version=version) == version + 1
        assert names(path.parent) == [path.name]
    assert seen == {True, False}


@pytest.mark.parametrize(("processes", "saves", "rounds"), [(2, 60, 2), (4, 3, 8)])
async def test_each_version_is_given_to_one_process(
    savers: Savers,
    tmp_path: Path,
    processes: int,
    saves: int,
    rounds: int,
) -> None:
    """Racing from before the store exists, every version is won once and the others lose."""
    for number in range(rounds):
        path = tmp_path / f"store-{number}.db"
        savers.start(path, processes, saves)
        lines = []
        while (line := savers.line()) != "end":
            lines.append(line)
        won = sorted(int(line) for line in lines if line != "lost")
        assert len(lines) == processes * saves
        assert won == [*range(1, len(won) + 1)]
        assert (await SQLiteCheckpointStore(path).load("default")).version == len(won)
    assert len(names(tmp_path)) == rounds


async def test_another_program_may_look_on(tmp_path: Path) -> None:
    """A reader that keeps the file open neither stops a save nor is shown half of one."""
    path = tmp_path / "store.db"
    store = SQLiteCheckpointStore(path)
    await store.save("default", "one", version=0)
    reader = sqlite3.connect(path, isolation_level=None)
    try:
        reader.execute("BEGIN")
        query = "SELECT checkpoint FROM checkpoints"
        assert reader.execute(query).fetchall() == [("one",)]
        await store.save("default", "two", version=1)
        assert reader.execute(query).fetchall() == [("one",)]
        reader.execute("COMMIT")
        assert reader.execute(query).fetchall() == [("two",)]
    finally:
        reader.close()
