"""Pollers, processes that save, and the servers of stores are killed (promises 8 and 9).

``--kills=300`` makes it last minutes; ``-rP`` shows what it came to.
"""

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import asyncpg
import pytest

from income_client import (
    CheckpointConflictError,
    CheckpointError,
    CheckpointStore,
    IncomeClient,
    Poller,
    SQLiteCheckpointStore,
)
from income_client.emulator import Emulator
from income_client.engines import postgres
from income_client.engines.postgres import PostgresCheckpointStore
from income_client.testing import JumpingClock
from tests.support.killed_pollers import BATCH, killed
from tests.support.kills import Workers, share_of, workers_of
from tests.support.polling import Scene
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.service import NOW
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
    """Every version that is current when the service rests is delivered."""
    outcome = await killed(share_of(pytestconfig, 0.5), tmp_path)
    assert outcome.most_again <= BATCH
    print(outcome)  # noqa: T201


# Servers that are killed, frozen or replaced

LOST: Final = (
    CheckpointError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError,
    OSError,
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Run a server, which starts again after each kill."""
    with postgres_server() as server:
        yield server


@asynccontextmanager
async def killed_server(server: PostgresServer, kills: int) -> AsyncIterator["asyncio.Task[None]"]:
    """Kill a server and start it again, so many times; yields a task that ends afterwards."""
    chance = Random(17)

    async def kill() -> None:
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0, 0.1))
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)

    killing = asyncio.ensure_future(kill())
    try:
        yield killing
    finally:
        await killing


@pytest.fixture
def kills(pytestconfig: pytest.Config) -> int:
    return share_of(pytestconfig, 0.4)


async def save_among_kills(server: PostgresServer, kills: int, store: CheckpointStore) -> None:
    """Check that after each fault a store is at the last version known of, or at the next."""
    known = faults = 0
    is_sure = True
    async with killed_server(server, kills) as killing:
        while not killing.done() or not is_sure:
            try:
                if not is_sure:
                    stored = await store.load("default")
                    assert stored.version in (known, known + 1)
                    assert stored.checkpoint in (None, f"text {stored.version}")
                    known, is_sure = stored.version, True
                known = await store.save("default", f"text {known + 1}", version=known)
            except CheckpointError as error:
                if not error.retryable:
                    raise
                faults, is_sure = faults + is_sure, False
                await asyncio.sleep(0)
    assert (await store.load("default")).version == known
    assert min(known, faults) > 0


async def poll_among_kills(
    server: PostgresServer,
    kills: int,
    store: CheckpointStore,
    consume: Callable[[Poller], Awaitable[object]],
) -> list[str]:
    """Have all be consumed that is updated while a server is killed; return what was, in order."""
    clock = JumpingClock()
    clock.most_sleeps = None  # it polls for as long as the kills take
    async with (
        Emulator(range(NOW - 2000, NOW - 1000), clock=clock, time_flows=True) as service,
        IncomeClient(service.url, auth=service.oauth2, clock=clock) as client,
    ):
        place = Scene(service, client, store)
        poller = place.poll()
        consuming = asyncio.ensure_future(consume(poller))
        updated: list[str] = []
        async with killed_server(server, kills) as killing:
            while not killing.done():
                updated += place.touch(len(updated))
                poller.wake()
                await asyncio.sleep(0.01)
        poller.stop(after_poll=True)
        await consuming
        last = place.poll()  # the poll that was under way had begun before the last updates
        last.stop(after_poll=True)
        await consume(last)
    return updated


async def test_a_killed_postgres_loses_nothing_that_was_saved(
    server: PostgresServer, kills: int
) -> None:
    async with server.pool() as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        await save_among_kills(server, kills, store)


async def test_each_update_takes_effect_once_although_postgres_is_killed(
    server: PostgresServer, kills: int
) -> None:
    """Rows and checkpoint are committed together, and what was committed does not come again."""
    failures = 0

    async def consume(poller: Poller) -> None:
        nonlocal failures
        async for batch in poller.batches():
            try:
                async with batch, pool.acquire() as connection, batch.transaction(connection):
                    ids = [(record.application_id,) for record in batch]
                    await connection.executemany("INSERT INTO rows VALUES ($1)", ids)
            except LOST:
                failures += 1

    async with server.pool() as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        await pool.execute("CREATE TABLE rows (id text)")
        updated = await poll_among_kills(server, kills, store, consume)
        rows = await pool.fetch("SELECT id FROM rows")
    assert sorted(row["id"] for row in rows) == sorted(updated)
    assert failures > 0


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("in_transaction", [False, True])
async def test_calls_end_although_the_server_is_frozen(
    server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    is_cancelled: bool,
    in_transaction: bool,
) -> None:
    """After their time, or once they are cancelled; a transaction is undone later."""
    async with server.pool(max_size=1) as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        await store.save("default", "one", version=0)
        monkeypatch.setattr(postgres, "_SECONDS", 60.0 if is_cancelled else 0.2)
        pids = (server.pid, await pool.fetchval("SELECT pg_backend_pid()"))

        async def save() -> None:
            if not in_transaction:
                _send(signal.SIGSTOP, pids)
                await store.save("default", "two", version=1)
                return
            async with pool.acquire() as connection, store.transaction(connection) as bound:
                _send(signal.SIGSTOP, pids)
                await bound.save("default", "two", version=1)

        saving = asyncio.ensure_future(save())
        try:
            await asyncio.wait([saving], timeout=0.1 if is_cancelled else 30.0)
            saving.cancel()
            await asyncio.wait([saving], timeout=30.0)
            assert saving.done()
        finally:
            _send(signal.SIGCONT, pids)
        assert saving.cancelled() is is_cancelled
        error = None if is_cancelled else saving.exception()
        assert is_cancelled or (isinstance(error, CheckpointError) and error.retryable)
        monkeypatch.undo()
        assert (await store.load("default")).version in ((1,) if in_transaction else (1, 2))


def _send(number: signal.Signals, pids: Sequence[int]) -> None:
    for pid in pids:
        os.kill(pid, number)
