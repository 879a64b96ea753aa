"""What tests of the engines share."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from income_client.engines import PostgresCheckpointStore
from tests.support.postgres import PostgresServer


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
