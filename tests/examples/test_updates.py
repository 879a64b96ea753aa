# test_updates.py
# pip install pytest pytest-asyncio
import pytest

from income_client import IncomeClient, MemoryCheckpointStore
from income_client.testing import IncomeService, make_record


async def updated(client: IncomeClient, store: MemoryCheckpointStore) -> set[str]:
    return {record.application_id async for record in client.poll(store, once=True)}


@pytest.mark.asyncio
@pytest.mark.income_service(applications=20, order="shuffled")
async def test_every_update_is_delivered_once(
    income_service: IncomeService, income_api: IncomeClient
) -> None:
    store = MemoryCheckpointStore()
    assert await updated(income_api, store) == set()  # it starts now
    income_service.faults.add("any: 429 retry-after=30")
    new = income_service.add(make_record(), now=True)
    income_service.touch(income_service.ids[3])
    assert await updated(income_api, store) == {new.application_id, income_service.ids[3]}
    assert await updated(income_api, store) == set()
