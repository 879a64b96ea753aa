"""Each thing that a fetch hands out is one `RecordDelivered`, whatever is fetched."""

from typing import Any

import pytest

from income_client import Event, IncomeClient, RecordDelivered
from income_client.emulator import Emulator, Fault
from income_client.testing import JumpingClock


@pytest.mark.parametrize("way", ["fetch_records", "fetch_documents"])
async def test_what_is_handed_out_is_counted_once(way: str) -> None:
    """The event comes before its consumer has it; a failure that is yielded is none."""
    events: list[Event] = []
    clock = JumpingClock()
    async with (
        Emulator(4, clock=clock) as service,
        IncomeClient(
            service.url, auth=service.basic, clock=clock, on_event=events.append
        ) as client,
    ):
        ids = list(service.world.ids)
        service.faults.add(Fault("status", status=404, times=None, path=f"*/{ids[1]}*"))
        fetch: Any = getattr(client, way)
        told = [
            [event.application_id for event in events if isinstance(event, RecordDelivered)]
            async for _ in fetch(ids, on_error="yield")
        ]
        assert told == [ids[:1], ids[:1], [ids[0], ids[2]], [ids[0], ids[2], ids[3]]]
