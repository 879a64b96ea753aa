"""A poller keeps up with a service that cuts long windows short, however long its look-back."""

from typing import Any

import pytest

from income_client import MemoryCheckpointStore
from tests.support.listing import EPOCH
from tests.support.service import served


@pytest.mark.parametrize("future", ["accept", "clamp", "refuse"])
@pytest.mark.parametrize("span_clamp", ["before", "after"])
@pytest.mark.parametrize("max_span", [600, 4000])
async def test_the_checkpoint_follows_the_present(
    max_span: int, span_clamp: str, future: str
) -> None:
    """Each poll comes as far as the service is, and not only to the end of the first window."""
    store = MemoryCheckpointStore()
    rules: Any = {"max_span": max_span, "span_clamp": span_clamp, "future": future}
    async with served(20, **rules) as (service, client):
        for number in range(12):
            touched = service.world.ids[number]
            poller = client.poll(store, documents=False, settle=5, lookback=3600)
            poller.stop(after_poll=True)
            found = {record.application_id async for record in poller}
            assert number == 0 or service.world.ids[number - 1] in found
            reached = poller.status.reached
            assert reached is not None
            behind = service.now - int((reached - EPOCH).total_seconds())
            assert behind <= 30
            service.advance(600)
            service.touch(touched)
