"""Pollers, and processes that save into one store of SQLite's, are killed (promises 8 and 9).

``--kills=300`` makes it last minutes; ``-rP`` shows what it came to.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from income_client import CheckpointConflictError, SQLiteCheckpointStore
from tests.support.killed_pollers import BATCH, killed
from tests.support.kills import Workers, share_of, workers_of
from tests.support.store_files import contents, names, run_in

LEFT: Final = re.compile(r"store\.db(-journal)?|\.store\.db\.[0-9a-f]{8}\.new")
WITHOUT_END: Final = 1_000_000


def save(say: Callable[[str], None], path: str, saves: int, after: float) -> None:
    """Save so many versions from a moment on; say the number of each, or that another won it."""

    async def run() -> None:
        store = SQLiteCheckpointStore(path)
        store._busy_seconds = 50.0  # others may hold the lock for long where the disk is slow
        for _ in range(saves):
            version = (await store.load("default")).version
            try:
                say(str(await store.save("default", f"text {version + 1}", version=version)))
            except CheckpointConflictError:
                say("lost")

    while time.monotonic() < after:
        pass
    asyncio.run(run())


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    """Lend a source of processes that save."""
    async with workers_of(save) as source:
        yield source


async def _kill(workers: Workers, path: Path, *, saves: int, seconds: float) -> int:
    """Kill a process some time after so many saves; return the last version that it knew of."""
    life = workers.start(path=str(path), saves=WITHOUT_END, after=0)
    for _ in range(saves):
        await workers.word()
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:  # no event loop wakes as exactly
        pass
    await workers.kill(life)
    return int(life.words[-1]) if life.words else 0


async def _check(path: Path, known: int) -> int:
    """Look at a store after a kill and return its version."""
    stored = await SQLiteCheckpointStore(path).load("default")
    assert known <= stored.version <= known + 1
    if stored.version:
        assert stored.checkpoint == f"text {stored.version}"
    if path.name in names(path.parent):
        assert contents(path.parent)[path.name][1]
        assert run_in(path, "PRAGMA integrity_check") == [("ok",)]
    else:
        assert stored.version == 0
    return stored.version


async def test_a_killed_process_loses_nothing_that_it_saved(
    workers: Workers, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """After each kill the store is whole, at the last version known of or the next one."""
    path, chance, version = tmp_path / "store.db", Random(11), 0
    for _ in range(share_of(pytestconfig, 0.3)):
        known = await _kill(
            workers, path, saves=chance.randrange(1, 6), seconds=chance.uniform(0, 0.004)
        )
        assert known > version
        version = await _check(path, known)


async def test_a_process_killed_at_any_step_of_making_a_store_leaves_none_or_a_whole_one(
    workers: Workers, tmp_path: Path
) -> None:
    """Killed before each operation on files in turn, it leaves what the next save completes."""
    lives: list[Path] = []

    def fresh() -> dict[str, Any]:
        path = tmp_path / str(len(lives)) / "store.db"
        path.parent.mkdir()
        lives.append(path)
        return {"path": str(path), "saves": 1, "after": 0}

    there = []
    async for _ in workers.die(WITHOUT_END, fresh):
        path = lives[-1]
        there.append(path.exists())
        assert all(LEFT.fullmatch(name) for name in names(path.parent))
        version = await _check(path, 0)
        store = SQLiteCheckpointStore(path)
        assert await store.save("default", "on", version=version) == version + 1
        assert names(path.parent) == [path.name]
    assert there == sorted(there)
    assert {*there} == {False, True}


@pytest.mark.parametrize(("processes", "saves", "rounds"), [(2, 60, 2), (4, 3, 8)])
async def test_each_version_is_given_to_one_process(
    workers: Workers, tmp_path: Path, processes: int, saves: int, rounds: int
) -> None:
    """Racing from before the store exists, every version is won once and the others lose."""
    for number in range(rounds):
        path, start = tmp_path / f"store-{number}.db", time.monotonic() + 0.05
        lives = [workers.start(path=str(path), saves=saves, after=start) for _ in range(processes)]
        for life in lives:
            await workers.wait(life)
            assert life.code == 0
        said = [word for life in lives for word in life.words]
        won = sorted(int(word) for word in said if word != "lost")
        assert len(said) == processes * saves
        assert won == [*range(1, len(won) + 1)]
        assert (await SQLiteCheckpointStore(path).load("default")).version == len(won)
    assert len(names(tmp_path)) == rounds


@pytest.mark.timeout(3600)
async def test_pollers_that_are_killed_lose_nothing(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Every version that is current when the service rests is delivered, never an older one."""
    outcome = await killed(share_of(pytestconfig, 0.5), tmp_path)
    assert outcome.most_again <= BATCH
    assert outcome.committed_again * 1000 <= outcome.delivered
    assert outcome.faults > 0
    print(outcome)  # noqa: T201
