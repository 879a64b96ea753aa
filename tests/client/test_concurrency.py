"""How many requests are in flight: the client's limit is the default of what it makes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from income_client import IncomeClient, MemoryCheckpointStore
from income_client.emulator import Emulator
from income_client.testing import JumpingClock

WAYS = ["fetch_records", "fetch_documents", "poll"]


def reads(client: IncomeClient, way: str, ids: list[str], **options: Any) -> AsyncIterator[object]:
    """Return an iterator over all applications, read in one of several ways."""
    match way:
        case "fetch_records":
            return client.fetch_records(ids, documents=False, **options)
        case "fetch_documents":
            return client.fetch_documents(ids, **options)
        case _:
            store = MemoryCheckpointStore()
            return aiter(client.poll(store, start="2000-01-01", documents=False, **options))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("options", "most"),
    [({}, 40), ({"concurrency": None}, 40), ({"concurrency": 5}, 5), ({"concurrency": 99}, 40)],
)
async def test_as_many_are_in_flight_as_the_client_allows(
    way: str, options: dict[str, Any], most: int
) -> None:
    """Unless another number is given, and never more than the client's own."""
    clock = JumpingClock()
    async with Emulator(80, latency=0.001, clock=clock, time_flows=True) as service:
        async with IncomeClient(
            service.url, auth=service.basic, concurrency=40, clock=clock
        ) as client:
            records = reads(client, way, list(service.world.ids), **options)
            for _ in range(80):
                await anext(records)
            await records.aclose()  # type: ignore[attr-defined]
        assert most - 1 <= service.max_in_flight <= most
