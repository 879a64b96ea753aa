"""Bells of stores on real servers: they wake the poller that works, and leave nothing behind."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, field
from nats.aio.client import Client

from income_client import CheckpointError, CheckpointStore, IncomeClient
from income_client.checkpoints.store import RingingStore
from income_client.engines.nats import NatsCheckpointStore
from income_client.engines.postgres import PostgresCheckpointStore
from income_client.system.clock import SystemClock
from tests.support.clocks import pass_time
from tests.support.nats_server import PASSWORD, USERS, NatsServer, bucket, connected, running_server
from tests.support.polling import NOW_TEXT, scene
from tests.support.postgres import PostgresServer

PATIENCE: Final = 150
LISTENERS: Final = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"


pytestmark = pytest.mark.usefixtures("fast_loop")


@define
class Listener:
    """Somebody who listens to a store."""

    store: RingingStore
    times: int = 0
    event: asyncio.Event = field(factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None

    def hear(self) -> None:
        self.times += 1
        self.event.set()

    async def heard(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.event.wait()
        self.event.clear()

    async def failure(self) -> CheckpointError:
        """Return the error with which it ends, and let time pass until then."""
        assert self.task is not None
        while not self.task.done():
            pass_time(1)
            await asyncio.wait([self.task], timeout=0.2)
        error = self.task.exception()
        assert isinstance(error, CheckpointError)
        return error


@contextlib.asynccontextmanager
async def listening(store: RingingStore) -> AsyncIterator[Listener]:
    listener = Listener(store)
    listener.task = asyncio.create_task(store.listen("default", listener.hear))
    try:
        yield listener
    finally:
        listener.task.cancel()
        await asyncio.wait([listener.task])


@pytest.fixture
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have listeners look at their connection more often: a server's time does not jump."""
    for engine in ("nats", "postgres"):
        monkeypatch.setattr(f"income_client.engines.{engine}._LOOK_SECONDS", 0.1)


@contextlib.asynccontextmanager
async def store_of(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[CheckpointStore]:
    if kind == "nats":
        async with connected(request.getfixturevalue("nats_server")) as client:
            yield NatsCheckpointStore(await bucket(client))
        return
    async with request.getfixturevalue("postgres").pool() as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        yield store


@pytest.mark.parametrize("kind", ["nats", "postgres"])
async def test_a_standby_wakes_the_poller_that_works(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """Though the interval is an hour; the clocks are those of the machine."""
    async with (
        scene(clock=SystemClock()) as place,
        IncomeClient(place.service.url, auth=place.service.basic) as client,
        store_of(kind, request) as store,
    ):
        options: dict[str, Any] = {"start": NOW_TEXT, "documents": False}
        options |= {"interval": 3600, "standby": True}
        leader = place.client.poll(store, **options)
        standby = client.poll(store, **options)
        (first,) = place.touch(0)
        async with asyncio.timeout(PATIENCE):
            assert (await anext(leader)).application_id == first
            waiting = asyncio.create_task(anext(standby, None))
            reading = asyncio.create_task(anext(leader))
            (updated,) = place.touch(1)
            assert standby.wake()
            assert (await reading).application_id == updated
            await leader.aclose()
            await standby.aclose()
            await waiting


# PostgreSQL


async def test_a_session_that_listens_may_be_lost(
    store: PostgresCheckpointStore, postgres: PostgresServer
) -> None:
    """That is an error that may pass; the next listener hears again."""
    async with listening(store) as listener:
        await listener.heard()
        await postgres.run(f"SELECT pg_terminate_backend(pid) FROM ({LISTENERS}) AS listeners")
        assert (await listener.failure()).retryable
    async with listening(store) as listener:
        await listener.heard()
        await store.ring("default")
        await listener.heard()


@pytest.mark.usefixtures("short_looks")
async def test_a_pool_that_is_closed_ends_the_listening(postgres: PostgresServer) -> None:
    """So that its close, which waits for every connection, waits for no poller."""
    async with postgres.pool() as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        async with listening(store) as listener:
            await listener.heard()
            async with asyncio.timeout(PATIENCE):
                await pool.close()
                assert listener.task is not None
                await listener.task


async def test_a_small_pool_keeps_its_connections(postgres: PostgresServer) -> None:
    """A transaction and the renewal of its lease need two: the bell must not take one of them."""
    async with postgres.pool(max_size=2) as pool:
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        async with listening(store) as listener:
            assert "max_size=3" in str(await listener.failure())


async def test_a_bell_that_is_not_heard_is_named(postgres: PostgresServer) -> None:
    """As behind a pooler of transactions: its own ring does not come back."""
    schema = "muted"
    settings = {"search_path": f"{schema}, pg_catalog"}
    async with postgres.pool(schema, server_settings=settings) as pool:
        await pool.execute(
            f"CREATE TABLE {schema}.rings (); CREATE FUNCTION {schema}.pg_notify(text, text)"
            " RETURNS void LANGUAGE sql AS 'INSERT INTO rings DEFAULT VALUES'"
        )
        store = PostgresCheckpointStore(pool)
        await store.create_schema()
        async with listening(store) as listener:
            while not await pool.fetchval("SELECT count(*) FROM rings"):
                pass
            assert "PgBouncer" in str(await listener.failure())
        assert listener.times == 0
        assert pool.get_idle_size() == pool.get_size()


# NATS


@pytest.mark.usefixtures("short_looks")
async def test_what_was_rung_while_the_connection_was_lost_is_made_up_for(
    lost_server: NatsServer, lost_client: Client
) -> None:
    """It counts as rung once the connection is there again; at the end nothing is left of it."""
    store = NatsCheckpointStore(await bucket(lost_client))
    before = len(lost_client._subs)
    async with listening(store) as listener:
        await listener.heard()
        lost_server.kill()
        lost_server.start()
        await listener.heard()
        await store.ring("default")
        await listener.heard()
    assert len(lost_client._subs) == before


async def test_a_user_without_rights_on_the_bell_is_told_its_subject(tmp_path: Path) -> None:
    for limited in running_server(tmp_path, USERS):
        async with connected(limited, user="owner", password=PASSWORD) as owner:
            await owner.jetstream().create_key_value(bucket="rights")
            async with connected(limited, user="reader", password=PASSWORD) as reader:
                store = NatsCheckpointStore(await reader.jetstream().key_value("rights"))
                async with listening(store) as listener:
                    error = str(await listener.failure())
        assert "_INCOME.bell.rights.checkpoint.default" in error
        assert listener.times == 0
