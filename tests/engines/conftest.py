"""The servers that engines are tested with."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from income_client.engines.postgres import PostgresCheckpointStore
from tests.support.clocks import hurried
from tests.support.nats_server import NatsServer, connected, running_server
from tests.support.postgres import PostgresServer, postgres_server


@pytest.fixture
async def fast_loop() -> AsyncIterator[None]:
    """Let waits for a server, and pauses before retries, take a fifth of their time."""
    with hurried():
        yield


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """Run a NATS server with JetStream for all tests of a process."""
    yield from running_server(tmp_path_factory.mktemp("nats"))


@pytest.fixture
async def client(nats_server: NatsServer) -> AsyncIterator[Client]:
    async with connected(nats_server) as made:
        yield made


@pytest.fixture
def lost_server(tmp_path: Path) -> Iterator[NatsServer]:
    """Run a NATS server that a test may kill."""
    folder = tmp_path / "nats"
    folder.mkdir()
    yield from running_server(folder)


@pytest.fixture
async def lost_client(lost_server: NatsServer) -> AsyncIterator[Client]:
    """Connect to it, however often it is killed."""
    async with connected(lost_server, max_reconnect_attempts=-1) as made:
        yield made


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Run a PostgreSQL server for all tests of a process."""
    with postgres_server() as server:
        yield server


@pytest.fixture
async def pool(postgres: PostgresServer) -> AsyncIterator[Any]:
    """Lend a pool whose tables are in a schema of the test's own."""
    async with postgres.pool() as pool:
        yield pool


@pytest.fixture
async def store(pool: Any) -> PostgresCheckpointStore:
    """Return a store with its tables."""
    store = PostgresCheckpointStore(pool)
    await store.create_schema()
    return store
