"""Buckets as operators have them: three replicas with direct reads."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import KeyValueConfig
from nats.js.kv import KeyValue

from income_client.engines.nats import NatsCheckpointStore
from income_client.testing import check_checkpoint_store
from tests.support.nats_server import connected, running_cluster
from tests.support.store_files import letter


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
