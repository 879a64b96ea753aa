"""How many applications a poll reads at a time: exactly as many as it may."""

import asyncio
from typing import Final

import pytest

from income_client import ApplicationRecord, MemoryCheckpointStore
from tests.support.service import HeldClock, collect, quiet, served

APPLICATIONS: Final = 60


@pytest.mark.parametrize("documents", [False, True], ids=["applications", "with-documents"])
@pytest.mark.parametrize("concurrency", [1, 2, 5, 16], ids="{}-at-a-time".format)
async def test_a_poll_has_its_concurrency_in_flight(concurrency: int, documents: bool) -> None:
    """While replies are held back there are that many requests, and one more for each reply."""
    held = HeldClock()
    held.is_held = True
    records: list[ApplicationRecord] = []
    async with served(APPLICATIONS, clock=held, latency=1) as (service, client):
        poller = client.poll(
            MemoryCheckpointStore(),
            start="2000-01-01",
            concurrency=concurrency,
            documents=documents,
        )
        poller.stop(after_poll=True)
        polling = asyncio.create_task(collect(poller, records))
        while await quiet(service) and service.requests[-1].name in ("token", "list_applications"):
            held.release()
        for _ in range(20):
            await quiet(service)
            assert service._in_flight == concurrency
            held.release()
        held.release_all()
        await polling
    assert service.max_in_flight == concurrency
    assert len(records) == APPLICATIONS
