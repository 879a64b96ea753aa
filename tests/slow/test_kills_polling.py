"""Pollers and processes that save are killed, and a server is frozen (promises 8 and 9).

``--kills=300`` makes it last minutes; ``-rP`` shows what it came to.
"""

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from income_client import (
    CheckpointConflictError,
    CheckpointError,
    SQLiteCheckpointStore,
)
from income_client.engines import postgres
from income_client.engines.postgres import PostgresCheckpointStore
from tests.slow.killed_pollers import BATCH, BUCKET, SCHEMA, killed
from tests.slow.kills import Workers, share_of, workers_of
from tests.support.disk import contents, letter, names, run_in
from tests.support.nats_server import NatsServer, connected, running_server
from tests.support.postgres import PostgresServer, postgres_server

LEFT: Final = re.compile(r"store\.db(-journal)?|\.store\.db\.[0-9a-f]{8}\.new")
WITHOUT_END: Final = 1_000_000


def save(say: Callable[[str], None], path: str, saves: int, after: float) -> None:
    """Save so many versions from a moment on; say the number of each, or that another won it."""

    async def run() -> None:
        store = SQLiteCheckpointStore(path)
        store._busy_seconds = 50.0  # others may hold the lock for long where the disk is slow
        for _ in range(saves):
            version = (await store.load("default")).version
            text, letters = f"text {version + 1}", [letter(version + 1)]
            try:
                new = await store.save("default", text, version=version, dead_letters=letters)
                say(str(new))
            except CheckpointConflictError:
                say("lost")

    while time.monotonic() < after:
        pass
    asyncio.run(run())


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Run a PostgreSQL server."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """Run a NATS server."""
    yield from running_server(tmp_path)


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    """Lend a source of processes that save."""
    async with workers_of(save) as source:
        yield source


async def _check(path: Path) -> int:
    """Look at a store after a kill and return its version, the first or none."""
    store = SQLiteCheckpointStore(path)
    stored = await store.load("default")
    assert stored.version in {0, 1}
    assert len(await store.dead_letters("default")) == stored.version
    if stored.version:
        assert stored.checkpoint == "text 1"
    if path.name in names(path.parent):
        assert contents(path.parent)[path.name][1]
        assert run_in(path, "PRAGMA integrity_check") == [("ok",)]
    else:
        assert stored.version == 0
    return stored.version


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
        version = await _check(path)
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


@pytest.fixture
async def store_address(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Run the server of a store; yield the store's address."""
    match request.param:
        case "sqlite":
            yield f"sqlite:{tmp_path / 'store.db'}"
        case "postgres":
            server = request.getfixturevalue("server")
            async with server.pool(SCHEMA) as pool:
                await PostgresCheckpointStore(pool).create_schema()
            yield f"postgres:{server.folder}"
        case "nats":
            server = request.getfixturevalue("nats_server")
            async with connected(server) as client:
                await client.jetstream().create_key_value(bucket=BUCKET, history=5)
            yield server.url


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("store_address", ["sqlite", "postgres", "nats"], indirect=True)
async def test_pollers_that_are_killed_lose_nothing(
    store_address: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Every version that is current when the service rests is delivered."""
    folder = tmp_path / "notes"
    folder.mkdir()
    outcome = await killed(share_of(pytestconfig, 0.2), folder, store=store_address)
    assert outcome.most_again <= BATCH
    print(outcome)  # noqa: T201


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
