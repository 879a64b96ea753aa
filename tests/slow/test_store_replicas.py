"""Stores with replicas: PostgreSQL's lacks the last commits, a NATS bucket has three."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest
from attrs import define, field
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import KeyValueConfig
from nats.js.kv import KeyValue

from income_client import ApplicationRecord, CheckpointError, IncomeClient, Poller
from income_client.emulator import Emulator
from income_client.engines.nats import NatsCheckpointStore
from income_client.engines.postgres import PostgresCheckpointStore
from income_client.testing import check_checkpoint_store
from tests.support.nats_server import connected, running_cluster
from tests.support.pollers import StandingClock
from tests.support.polling import NOW_TEXT, Scene
from tests.support.postgres import CommitCutter, PostgresServer, postgres_server
from tests.support.service import NOW
from tests.support.store_files import letter

SCHEMA: Final = "pollers"
INSERT: Final = "INSERT INTO rows VALUES ($1)"
ROWS: Final = f"SELECT array_agg(version) FROM {SCHEMA}.rows"
LOST: Final = (
    CheckpointError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError,
    OSError,
)  # fmt: skip


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    """Run a server of the test's own."""
    with postgres_server() as server:
        yield server


def version_of(record: ApplicationRecord) -> str:
    """Return a text that no other version of any application has."""
    return f"{record.application_id} of {record.last_updated_at}"


@define
class Process:
    """A poller with standbys, and its consumer; the name of its server leads where it is told."""

    name: CommitCutter
    clock: StandingClock
    poller: Poller
    pool: Any

    async def consume(self) -> None:
        """Write a row for each version, in the transaction of the checkpoint."""
        async for batch in self.poller.batches():
            rows = [(version_of(record),) for record in batch]
            with suppress(*LOST):
                async with batch, self.pool.acquire() as connection, batch.transaction(connection):
                    await connection.executemany(INSERT, rows)

    async def move_to(self, server: PostgresServer) -> None:
        """Have the name lead to another server, and new connections with it."""
        self.name.server = server
        await self.pool.expire_connections()


@define
class Failover:
    """A service, two processes, and the applications that were updated."""

    place: Scene
    processes: tuple[Process, Process]
    updated: set[str] = field(factory=set)

    async def until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        """Let time pass until something is so."""
        async with asyncio.timeout(60):
            while not await is_so():
                self.place.service.advance(1)
                for one in self.processes:
                    one.clock.advance(1)
                await asyncio.sleep(0.05)

    async def handle(self, server: PostgresServer, *numbers: int) -> None:
        """Update applications, and wait until a server has rows of their last versions."""
        self.place.service.advance(1)
        ids = self.place.touch(*numbers)
        self.updated.update(ids)
        last = await self.last(ids)

        async def are_there() -> bool:
            return last <= set(await server.run(ROWS) or ())

        await self.until(are_there)

    async def last(self, ids: list[str]) -> set[str]:
        """Return the last versions of applications."""
        records = self.place.client.fetch_records(ids, documents=False)
        return {version_of(record) async for record in records}

    def leader_and_standby(self) -> tuple[Process, Process]:
        """Return who works first."""
        one, other = self.processes
        return (other, one) if one.poller.status.is_standby else (one, other)


@asynccontextmanager
async def process(place: Scene, server: PostgresServer) -> AsyncIterator[Process]:
    """Run one; it is killed at the end."""
    name, clock, service = CommitCutter(server), StandingClock(), place.service
    async with (
        name.listening() as folder,
        PostgresServer(server.folder).pool(SCHEMA, host=folder) as pool,
        IncomeClient(service.url, auth=service.oauth2, clock=clock) as client,
    ):
        store = PostgresCheckpointStore(pool)
        poller = client.poll(store, start=NOW_TEXT, documents=False, standby=True)
        made = Process(name, clock, poller, pool)
        consuming = asyncio.create_task(made.consume())
        try:
            yield made
        finally:
            consuming.cancel()
            await asyncio.wait([consuming])


@pytest.mark.parametrize("is_cut_off", [False, True], ids=["together", "cut off"])
async def test_nothing_that_a_replica_lacks_is_skipped(
    primary: PostgresServer, is_cut_off: bool
) -> None:
    """Also where the leader works on at the old server for a while, beside a new leader."""
    async with primary.pool(SCHEMA) as pool:
        await PostgresCheckpointStore(pool).create_schema()
        await pool.execute("CREATE TABLE rows (version text)")
    with postgres_server(primary) as replica:
        async with (
            Emulator(range(NOW - 1000, NOW - 980), time_flows=False, days=30) as service,
            IncomeClient(service.url, auth=service.oauth2) as client,
            process(place := Scene(service, client), primary) as one,
            process(place, primary) as other,
        ):
            failover = Failover(place, (one, other))

            async def has_rows() -> bool:
                return bool(await replica.run(ROWS))

            async def receives_nothing() -> bool:
                return not await replica.run("SELECT count(*) FROM pg_stat_wal_receiver")

            await failover.handle(primary, 1, 2)
            await failover.until(has_rows)
            await replica.run("ALTER SYSTEM SET primary_conninfo = ''")
            await replica.run("SELECT pg_reload_conf()")
            await failover.until(receives_nothing)
            await failover.handle(primary, 2, 3)
            assert len(await replica.run(ROWS)) < len(await primary.run(ROWS))
            await replica.run("SELECT pg_promote()")
            leader, standby = failover.leader_and_standby()
            await standby.move_to(replica)
            if is_cut_off:
                await failover.handle(primary, 4)
                await failover.handle(replica, 5)
                assert not leader.poller.status.is_standby
                assert not standby.poller.status.is_standby
            await leader.move_to(replica)
            primary.kill()
            await failover.handle(replica, 6)
            rows = await replica.run(ROWS)
            assert len(rows) == len(set(rows))
            assert await failover.last(sorted(failover.updated)) <= set(rows)


async def test_a_replica_says_that_nothing_can_be_saved_there(primary: PostgresServer) -> None:
    """To a standby that is about to wait, although no row would be changed."""
    async with primary.pool(SCHEMA) as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        await store.save("default", "one", version=0)
        await store.check_rights("default")
        with postgres_server(primary) as replica:
            address = replica.address(min_size=0, server_settings={"search_path": SCHEMA})
            async with asyncpg.create_pool(**address) as other:
                with pytest.raises(CheckpointError, match="read-only") as refused:
                    await PostgresCheckpointStore(other).check_rights("default")
                assert refused.value.retryable
        assert (await store.load("default")).version == 1


# NATS


async def test_three_nodes_answer_with_what_was_saved_last(tmp_path: Path) -> None:
    """Whichever node is asked, in a bucket that allows direct reads, as `nats kv add` makes it."""
    with running_cluster(tmp_path) as servers:
        async with AsyncExitStack() as held:
            clients = [await held.enter_async_context(connected(one)) for one in servers]
            stores = [NatsCheckpointStore(one) for one in await buckets(clients, "checkpoints")]
            for version in range(90):
                store = stores[version % 3]
                assert (await store.load("default")).version == version
                letters = [letter(version)]
                await store.save("default", "text", version=version, dead_letters=letters)
                assert len(await stores[version % 2].dead_letters("default")) == version + 1
            made = iter(range(100))

            async def make() -> NatsCheckpointStore:
                return NatsCheckpointStore((await buckets(clients[:1], f"check{next(made)}"))[0])

            await check_checkpoint_store(make)


async def buckets(clients: list[Client], name: str) -> list[KeyValue]:
    """Make a bucket of three replicas; return it by each of the connections."""
    config = KeyValueConfig(bucket=name, history=5, replicas=3, direct=True)
    async with asyncio.timeout(60):
        while True:
            try:
                await clients[0].jetstream().create_key_value(config)
                break
            except NatsError:  # the nodes have not elected a leader yet
                await asyncio.sleep(0.2)
    return [await client.jetstream().key_value(name) for client in clients]
