"""Stores with replicas: one of PostgreSQL that is read-only, a NATS bucket that has three."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import asyncpg
import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import KeyValueConfig
from nats.js.kv import KeyValue

from income_client import CheckpointError
from income_client.engines.nats import NatsCheckpointStore
from income_client.engines.postgres import PostgresCheckpointStore
from income_client.testing import check_checkpoint_store
from tests.support.disk import letter
from tests.support.nats_server import connected, running_cluster
from tests.support.postgres import PostgresServer, postgres_server

SCHEMA: Final = "pollers"


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    """Run a server of the test's own."""
    with postgres_server() as server:
        yield server


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
