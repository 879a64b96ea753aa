"""Asynchronous tests without marks, with fixtures of the project's own."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from income_client import IncomeClient, MemoryCheckpointStore
from income_client.testing import IncomeService, make_record


async def changed(client: IncomeClient, store: MemoryCheckpointStore) -> list[str]:
    """Return what was updated since the call before; the first call only begins."""
    return [one.application_id async for one in client.poll(store, once=True)]


@pytest.fixture
def income_service_options() -> Mapping[str, Any]:
    """Options of the service for this module: no applications."""
    return {"applications": 0}


@pytest.fixture
async def store(income_client: IncomeClient) -> AsyncIterator[MemoryCheckpointStore]:
    """A store whose poller has begun, and which is read to its end."""
    store = MemoryCheckpointStore()
    assert await changed(income_client, store) == []
    yield store
    assert await changed(income_client, store) == []


async def test_what_is_updated_comes_once(
    income_service: IncomeService, income_client: IncomeClient, store: MemoryCheckpointStore
) -> None:
    """A new application, a change of it, and nothing twice."""
    new = income_service.add(make_record(), now=True).application_id
    assert await changed(income_client, store) == [new]
    income_service.touch(new)
    assert await changed(income_client, store) == [new]
