# test_following.py
# pip install pytest pytest-asyncio
import asyncio
from collections.abc import Awaitable, Callable

import pytest

from income_client import ApplicationRecord, IncomeClient, MemoryCheckpointStore, Poller
from income_client.testing import IncomeService, make_record


async def follow(  # code of yours
    poller: Poller, save: Callable[[ApplicationRecord], Awaitable[None]]
) -> None:
    async for batch in poller.batches():
        async with batch:
            for record in batch:
                await save(record)


@pytest.mark.asyncio
@pytest.mark.income_service(applications=0)
async def test_an_outage_of_ten_minutes_loses_nothing(
    income_service: IncomeService, income_api: IncomeClient
) -> None:
    saved = asyncio.Queue[ApplicationRecord]()
    poller = income_api.poll(MemoryCheckpointStore(), start="2026-01-01")
    async with asyncio.TaskGroup() as tasks:  # ends the test if the poller fails
        tasks.create_task(follow(poller, saved.put))
        record = income_service.add(make_record(), now=True)
        assert (await saved.get()).application_id == record.application_id
        income_service.faults.add("any: 503 seconds=600")
        income_service.touch(record.application_id)
        assert (await saved.get()).last_updated_at > record.last_updated_at
        poller.stop()
