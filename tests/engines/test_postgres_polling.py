"""Pollers whose checkpoints are in PostgreSQL, together with the rows of their consumers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import asyncpg
import pytest

from income_client import Batch, CheckpointError, CheckpointStore, IncomeClient, Poller
from income_client.emulator import Emulator
from income_client.engines.postgres import PostgresCheckpointStore
from income_client.testing import JumpingClock
from tests.support.clocks import ManualClock
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
    clock = JumpingClock()
    clock.most_sleeps = None  # it polls for as long as the server takes
    times = range(NOW - 1000, NOW - 980)
    async with (
        Emulator(times, clock=clock, time_flows=True, days=30) as service,
        IncomeClient(service.url, auth=service.oauth2, clock=clock) as client,
    ):
        yield Scene(service, client)


async def rows(pool: Any) -> list[str]:
    return sorted(row["id"] for row in await pool.fetch("SELECT id FROM rows"))


async def insert(batch: Batch, connection: Any) -> None:
    records = [(record.application_id,) for record in batch]
    await connection.executemany("INSERT INTO rows VALUES ($1)", records)


async def write_and_lose(
    batch: Batch, pool: Any, fault: str | None, server: PostgresServer, cutter: CommitCutter
) -> None:
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
    "fault", ["in the block", "in the commit", "before the commit", "after the commit"]
)
async def test_each_update_takes_effect_once(postgres: PostgresServer, fault: str) -> None:
    """Whenever the connection of its transaction is lost, each time for another batch."""
    cutter = CommitCutter(postgres)
    async with scene() as place, cutter.listening() as folder, postgres.pool(host=folder) as pool:
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
        assert failures == (0 if fault == "after the commit" else 6)
        assert cutter.cuts is None


@contextlib.asynccontextmanager
async def waiting(
    place: Scene, store: CheckpointStore | None = None, **options: Any
) -> AsyncIterator[tuple[ManualClock, Poller]]:
    """Make a poller with standbys on a clock of its own."""
    clock, service = ManualClock(), place.service
    usual: dict[str, Any] = {"start": NOW_TEXT, "documents": False, "standby": True}
    async with IncomeClient(service.url, auth=service.oauth2, clock=clock) as client:
        yield clock, client.poll(store or place.store, **usual | options)


@contextlib.asynccontextmanager
async def replica(
    place: Scene, store: CheckpointStore | None = None, **options: Any
) -> AsyncIterator[Batch]:
    """Run a poller with standbys on a clock of its own, and yield its first batch."""
    async with waiting(place, store, **options) as (clock, poller):
        taking = asyncio.ensure_future(take(poller))
        async with asyncio.timeout(30):
            while not taking.done():
                if clock.sleepers - {"income_client lease renewal"}:
                    clock.advance(1)
                await asyncio.sleep(0)
        yield await taking


async def test_a_leader_that_is_lost_in_its_commit_holds_the_name_for_one_lease(
    postgres: PostgresServer, pool: Any, store: PostgresCheckpointStore
) -> None:
    """The server ends its session then, and what it sends after a pause is refused."""
    await pool.execute(TABLES)
    cutter, schema = CommitCutter(postgres), await pool.fetchval("SELECT current_schema()")
    idle = "SHOW idle_in_transaction_session_timeout"
    async with (
        scene() as place,
        cutter.listening() as folder,
        postgres.pool(schema, host=folder) as behind,
        behind.acquire() as connection,
    ):
        place.store = store
        updated = sorted(place.touch(1, 2))

        async def write_and_pause(batch: Batch) -> None:
            async with batch.transaction(connection):
                await insert(batch, connection)
                assert await connection.fetchval(idle) == "0"  # the block may take long
                cutter.cuts = "pause"

        async with replica(place, PostgresCheckpointStore(behind), standby=0.5) as batch:
            paused = asyncio.ensure_future(write_and_pause(batch))
            await cutter.is_paused.wait()
            async with replica(place, standby=0.5) as again:
                assert not paused.done()
                assert sorted(ids_of(again)) == updated
                async with pool.acquire() as other, again.transaction(other):
                    await insert(again, other)
            cutter.resumes.set()
            with pytest.raises(CheckpointError) as refused:
                await paused
            assert refused.value.retryable
        assert await rows(pool) == updated


@contextlib.asynccontextmanager
async def read_only(postgres: PostgresServer, pool: Any) -> AsyncIterator[tuple[Any, str]]:
    """Lend a pool of one connection whose server is read-only until the user's setting is reset."""
    schema = await pool.fetchval("SELECT current_schema()")
    user = f"reader_of_{schema}"
    await pool.execute(
        f"CREATE ROLE {user} LOGIN SUPERUSER;"
        f"ALTER ROLE {user} SET default_transaction_read_only = on"
    )
    async with postgres.pool(schema, user=user, max_size=1) as one:
        yield one, f"ALTER ROLE {user} RESET default_transaction_read_only"


@pytest.mark.parametrize("first", ["save", "row"])
async def test_a_pool_leaves_a_server_that_is_read_only(
    postgres: PostgresServer, pool: Any, store: PostgresCheckpointStore, first: str
) -> None:
    """After a failover the name may lead there for a moment, and to the new primary later."""
    await pool.execute(TABLES)
    async with read_only(postgres, pool) as (one, reset):
        here = PostgresCheckpointStore(one)

        async def insert_and_save() -> None:
            async with one.acquire() as connection, here.transaction(connection) as bound:
                if first == "row":
                    await connection.execute("INSERT INTO rows VALUES ('a')")
                await bound.save("default", "one", version=0)

        with pytest.raises(LOST, match="read-only"):
            await insert_and_save()
        await pool.execute(reset)
        await insert_and_save()
    assert (await store.load("default")).checkpoint == "one"


async def test_a_standby_without_rights_ends_at_its_start(
    postgres: PostgresServer, pool: Any, store: PostgresCheckpointStore
) -> None:
    """A standby that can only read would look healthy until the leader dies."""
    schema = await pool.fetchval("SELECT current_schema()")
    await pool.execute(
        f"CREATE ROLE looker_of_{schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO "
        f"looker_of_{schema}; GRANT SELECT ON income_checkpoints TO looker_of_{schema}"
    )
    async with scene() as place, postgres.pool(schema, user=f"looker_of_{schema}") as narrow:
        place.store = store
        place.touch(1)
        async with replica(place), waiting(place, PostgresCheckpointStore(narrow)) as (_, poller):
            async with asyncio.timeout(30):
                with pytest.raises(CheckpointError, match="lacks rights"):
                    await take(poller)
