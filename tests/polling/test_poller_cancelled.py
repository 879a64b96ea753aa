"""The polling iterator, cancelled at any await: the same one and another go on without loss."""

import asyncio
from typing import Any

import pytest

from income_client import SQLiteCheckpointStore
from tests.support.polling import rest, scene
from tests.support.service import client_tasks, quiet


@pytest.mark.parametrize("turns", [*range(1, 60), *range(60, 300, 7)])
async def test_cancelled_anywhere_it_goes_on_without_loss(turns: int, tmp_path: Any) -> None:
    """At any await; the same poller and another one deliver the rest."""
    async with scene(10) as place:
        place.store = SQLiteCheckpointStore(tmp_path / "p.db") if turns % 5 == 0 else place.store
        updated = set(place.touch(1, 2, 3, 4))
        poller = place.poll()
        got: set[str] = set()

        async def consume() -> None:
            async for record in poller:
                got.add(record.application_id)

        task = asyncio.create_task(consume())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await quiet(place.service)
        assert {t for t in client_tasks() if "income_client" not in t.get_name()} == set()
        if turns % 2:
            poller = place.poll()
        got |= {record.application_id for record in await rest(poller)}
        assert got == updated
        assert await rest(place.poll()) == []
