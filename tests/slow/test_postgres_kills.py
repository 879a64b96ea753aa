"""Stores in PostgreSQL while their server is killed, restarted or frozen (promises 8 and 9)."""

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import asyncpg
import pytest

from income_client import CheckpointError, IncomeClient, Poller
from income_client.emulator import Emulator
from income_client.engines import postgres
from income_client.engines.postgres import PostgresCheckpointStore
from income_client.testing import JumpingClock
from tests.support.kills import killed, share_of
from tests.support.polling import Scene
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.service import NOW

LOST: Final = (
    CheckpointError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError,
    OSError,
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Run a server, which starts again after each kill."""
    with postgres_server() as server:
        yield server


async def test_a_killed_server_loses_nothing_that_was_saved(
    server: PostgresServer, pytestconfig: pytest.Config
) -> None:
    """After each fault the store is at the last version known of, or the next."""
    kills = share_of(pytestconfig, 0.4)
    async with server.pool() as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        known = faults = 0
        is_sure = True
        async with killed(server, kills) as killing:
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
        assert (await store.load("default")).version == known > faults > 0


async def test_each_update_takes_effect_once_although_the_server_is_killed(
    server: PostgresServer, pytestconfig: pytest.Config
) -> None:
    """Rows and checkpoint are committed together, and what was committed does not come again."""
    kills = share_of(pytestconfig, 0.4)
    clock = JumpingClock()
    clock.most_sleeps = None  # it polls for as long as the kills take
    async with (
        server.pool() as pool,
        Emulator(range(NOW - 2000, NOW - 1000), clock=clock, time_flows=True) as service,
        IncomeClient(service.url, auth=service.oauth2, clock=clock) as client,
    ):
        place = Scene(service, client, PostgresCheckpointStore(pool))
        await PostgresCheckpointStore(pool).create_schema()
        await pool.execute("CREATE TABLE rows (id text)")
        poller = place.poll()
        updating = asyncio.ensure_future(_update(place, poller, killed(server, kills)))
        failures = await _consume(poller, pool)
        updated = await updating
        last = place.poll()
        last.stop(after_poll=True)
        await _consume(last, pool)
        rows = await pool.fetch("SELECT id FROM rows")
    assert sorted(row["id"] for row in rows) == sorted(updated)
    assert failures > 0


async def _consume(poller: Poller, pool: Any) -> int:
    """Write a row for each update, and return how often that has failed."""
    failures = 0
    async for batch in poller.batches():
        try:
            async with batch, pool.acquire() as connection, batch.transaction(connection):
                ids = [(record.application_id,) for record in batch]
                await connection.executemany("INSERT INTO rows VALUES ($1)", ids)
        except LOST:
            failures += 1
    return failures


async def _update(
    place: Scene, poller: Poller, kills: AbstractAsyncContextManager["asyncio.Task[None]"]
) -> list[str]:
    """Update applications, each once, while the server is killed; then end the poller."""
    updated: list[str] = []
    async with kills as killing:
        while not killing.done():
            updated += place.touch(len(updated))
            poller.wake()
            await asyncio.sleep(0.01)
    poller.stop(after_poll=True)
    return updated


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
