"""A walk goes on from its checkpoint: nothing is lost, and what is done is not read again."""

import json
from typing import Any

import pytest

from income_client import ApplicationSummary, IncomeClient, PermissionDeniedError
from income_client.emulator import Emulator, Fault
from income_client.protocol.timestamps import wire_time
from income_client.testing import JumpingClock
from tests.support.service import NOW, collect, ids_of, list_queries, served


def covered_by(checkpoint: str, second: int) -> bool:
    """Say whether a checkpoint answers for a second."""
    return any(after <= second < before for after, before in json.loads(checkpoint)["covered"])


async def resumed(service: Emulator, checkpoint: str, **options: Any) -> list[str]:
    """Walk on in a new client."""
    clock = JumpingClock()
    async with IncomeClient(service.url, auth=service.basic, clock=clock) as client:
        return await ids_of(client.list_applications(resume=checkpoint, **options))


async def test_a_finished_walk_has_nothing_left() -> None:
    """Resumed from its end, a walk with an upper bound asks nothing."""
    async with served(100) as (service, client):
        walk = client.list_applications(updated_before=wire_time(NOW - 3600), limit=20)
        await ids_of(walk)
        asked = len(list_queries(service))
        assert await resumed(service, walk.checkpoint) == []
    assert len(list_queries(service)) == asked


async def test_an_open_walk_goes_on_where_it_ended() -> None:
    """Resumed from its end, an open walk gives what was updated since, in a few requests."""
    clock = JumpingClock()
    async with served(500, clock=clock) as (service, client):
        walk = client.list_applications(limit=20)
        await ids_of(walk)
        clock.advance(3600)
        touched = service.world.ids[7]
        service.touch(touched)
        clock.advance(60)
        asked = len(list_queries(service))
        again = client.list_applications(limit=20, resume=walk.checkpoint)
        assert await ids_of(again) == [touched]
    assert len(list_queries(service)) - asked <= 3


async def test_an_open_walk_is_resumed_without_reading_all_again() -> None:
    """Far on its way, an open walk leaves only the rest to the next one."""
    async with served(2000) as (service, client):
        walk = client.list_applications(limit=50)
        found = []
        async for row in walk:
            found.append(row.application_id)
            if len(found) == 1500:
                break
        checkpoint = walk.checkpoint
        await walk.aclose()
        again = await resumed(service, checkpoint, limit=50)
    assert set(found) | set(again) == set(service.world.ids)
    assert len(again) <= 500 + 50


async def test_the_checkpoint_is_short_and_names_nobody() -> None:
    """It holds bounds and a few intervals, and no id."""
    async with served(2000) as (_, client):
        walk = client.list_applications(limit=20)
        longest = 0
        async for _ in walk:
            longest = max(longest, len(walk.checkpoint))
        assert "app-" not in walk.checkpoint
        assert json.loads(walk.checkpoint).keys() == {"walk", "after", "before", "covered", "check"}
    assert longest < 1000


async def test_a_failed_walk_resumes_from_its_checkpoint() -> None:
    """After an error in the middle a new walk gives the rest."""
    async with served(300) as (service, client):
        service.faults.add(Fault("status", status=403, path="/v1/*", skip=9))
        walk = client.list_applications(limit=20)
        rows: list[ApplicationSummary] = []
        with pytest.raises(PermissionDeniedError):
            await collect(walk, rows)
        found = [row.application_id for row in rows]
        again = await resumed(service, walk.checkpoint, limit=20)
    assert set(found) | set(again) == set(service.world.ids)
    assert not set(found) & set(again)
