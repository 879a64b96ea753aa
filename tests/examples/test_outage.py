# test_outage.py
# pip install pytest pytest-asyncio
import pytest

from income_client import IncomeClient, MemoryCheckpointStore
from income_client.testing import IncomeService, JumpingClock, outage


@pytest.mark.asyncio
async def test_a_poller_survives_an_outage(
    income_service: IncomeService, income_api: IncomeClient, income_clock: JumpingClock
) -> None:
    store = MemoryCheckpointStore()
    async for _ in income_api.poll(store, once=True):
        pass  # it starts now
    income_service.touch(income_service.ids[0])
    income_service.faults.add(outage(seconds=600))
    async for record in income_api.poll(store):
        assert record.application_id == income_service.ids[0]
        break
    assert sum(income_clock.slept) > 600
    assert income_service.requests.failed
