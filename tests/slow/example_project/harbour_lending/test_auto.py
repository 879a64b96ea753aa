"""Asynchronous tests without marks, with fixtures of the project's own."""

from collections.abc import AsyncIterator, Mapping
from decimal import Decimal
from typing import Any

import pytest

from income_client import IncomeClient, MemoryCheckpointStore
from income_client.testing import IncomeService, make_application, make_record

from .decisions import Decision, decide
from .updates import changed_records


@pytest.fixture
def income_service_options() -> Mapping[str, Any]:
    """All tests of this module begin with nothing."""
    return {"applications": 0}


@pytest.fixture
async def store(income_client: IncomeClient) -> AsyncIterator[MemoryCheckpointStore]:
    """A store whose poller has begun, and which is read to its end."""
    store = MemoryCheckpointStore()
    assert await changed_records(income_client, store) == []
    yield store
    assert await changed_records(income_client, store) == []


async def test_what_is_updated_comes_once(
    income_service: IncomeService, income_client: IncomeClient, store: MemoryCheckpointStore
) -> None:
    """A new application, a change of it, and nothing twice."""
    new = income_service.add(make_record(), now=True)
    (first,) = await changed_records(income_client, store)
    assert first.application == new.application
    income_service.touch(new.application_id)
    (second,) = await changed_records(income_client, store)
    assert second.last_updated_at > first.last_updated_at


async def test_an_unknown_application_is_said_to_be(income_client: IncomeClient) -> None:
    """No error is raised."""
    assert await decide(income_client, "nobody", Decimal(1)) is Decision.UNKNOWN


async def test_who_earns_nothing_gets_nothing(
    income_service: IncomeService, income_client: IncomeClient
) -> None:
    """An application without any income."""
    application = make_application(income_calculations={})
    income_service.add(application)
    decision = await decide(income_client, application.application_id, Decimal(1))
    assert decision is Decision.REFUSED
