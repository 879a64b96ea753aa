"""Pollers whose checkpoints are in PostgreSQL, together with the rows of their consumers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import asyncpg
import pytest

from income_client import Batch, CheckpointConflictError, CheckpointError, IncomeClient
from income_client.emulator import Emulator
from income_client.engines.postgres import PostgresCheckpointStore
from income_client.testing import JumpingClock
from tests.support.pollers import StandingClock
from tests.support.polling import NOW_TEXT, Scene, ids_of, rest, take
from tests.support.postgres import CommitCutter, PostgresServer
from tests.support.service import NOW

TABLES: Final = """
CREATE TABLE rows (id text NOT NULL);
CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('test.dies', true) = 'on' THEN
        PERFORM pg_terminate_backend(pg_backend_pid());
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON rows DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION die();
"""
LOST: Final = (CheckpointError, asyncpg.PostgresError, asyncpg.InterfaceError)


@contextlib.asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    """Run a service, and a client of it on a clock that jumps."""
    clock = JumpingClock()
    clock.most_sleeps = None  # it polls for as long as the server takes
    times = range(NOW - 1000, NOW - 980)
    async with (
        Emulator(times, clock=clock, time_flows=True, days=30) as service,
        IncomeClient(service.url, auth=service.oauth2, clock=clock) as client,
    ):
        yield Scene(service, client)


async def rows(pool: Any) -> list[str]:
    """Return the ids that consumers have written."""
    return sorted(row["id"] for row in await pool.fetch("SELECT id FROM rows"))


async def write(batch: Batch, connection: Any) -> None:
    """Write a row for each record, in the transaction of the batch's commit."""
    async with batch.transaction(connection):
        await insert(batch, connection)


async def insert(batch: Batch, connection: Any) -> None:
    """Write a row for each record."""
    records = [(record.application_id,) for record in batch]
    await connection.executemany("INSERT INTO rows VALUES ($1)", records)


async def write_and_lose(
    batch: Batch, pool: Any, fault: str | None, server: PostgresServer, cutter: CommitCutter
) -> None:
    """Do so on a connection that is lost at some moment."""
    async with pool.acquire() as connection, batch.transaction(connection):
        await insert(batch, connection)
        match fault:
            case "in the block":
                pid = connection.get_server_pid()
                await server.run("SELECT pg_terminate_backend($1, 5000)", pid)
            case "in the commit":
                await connection.execute("SET LOCAL test.dies = 'on'")
            case "before the commit":
                cutter.cuts = "request"
            case "after the commit":
                cutter.cuts = "reply"


@pytest.mark.parametrize(
    "fault", [None, "in the block", "in the commit", "before the commit", "after the commit"]
)
async def test_each_update_takes_effect_once(postgres: PostgresServer, fault: str | None) -> None:
    """Whenever the connection of its transaction is lost, each time for another batch."""
    cutter = CommitCutter(postgres)
    async with (
        scene() as place,
        cutter.listening() as folder,
        postgres.pool(host=folder) as pool,
    ):
        await pool.execute(TABLES)
        place.store = store = PostgresCheckpointStore(pool)
        await store.create_schema()
        poller, failures = place.poll(), 0
        for numbers in ((1, 2), (3,), (4, 5)):
            place.touch(*numbers)
            poller.wake()
            async for batch in poller.batches():
                now = fault if failures % 2 == 0 else None
                try:
                    await write_and_lose(batch, pool, now, postgres, cutter)
                except LOST:
                    failures += 1
                    continue
                break
            failures += failures % 2
        assert await rest(poller) == []
        assert await rows(pool) == sorted(place.ids[number] for number in range(1, 6))
        assert failures == (0 if fault in (None, "after the commit") else 6)
        assert cutter.cuts is None


@contextlib.asynccontextmanager
async def replica(place: Scene) -> AsyncIterator[Batch]:
    """Run a poller with standbys on a clock of its own, and yield its first batch."""
    clock, service = StandingClock(), place.service
    async with IncomeClient(service.url, auth=service.oauth2, clock=clock) as client:
        poller = client.poll(place.store, start=NOW_TEXT, documents=False, standby=True)
        taking = asyncio.ensure_future(take(poller))
        async with asyncio.timeout(30):
            while not taking.done():
                if clock.is_slept_on:
                    clock.advance(1)
                await asyncio.sleep(0)
        yield await taking


async def test_a_poller_that_was_replaced_while_it_paused_writes_no_rows(
    pool: Any, store: PostgresCheckpointStore
) -> None:
    """The standby takes over once the lease has expired by its own clock, and writes them."""
    await pool.execute(TABLES)
    async with scene() as place:
        place.store = store
        updated = sorted(place.touch(1, 2))
        async with replica(place) as batch, replica(place) as again, pool.acquire() as connection:
            assert sorted(ids_of(batch)) == sorted(ids_of(again)) == updated
            with pytest.raises(CheckpointConflictError):
                await write(batch, connection)
            assert await rows(pool) == []
            await write(again, connection)
        assert await rows(pool) == updated
