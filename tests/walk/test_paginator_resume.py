"""A walk goes on from its checkpoint: nothing is lost, and what is done is not read again."""

import json
from typing import Any

import pytest

from income_client import ApplicationSummary, CheckpointError, IncomeClient, PermissionDeniedError
from income_client.emulator import Emulator, Fault
from income_client.protocol.timestamps import wire_time
from income_client.testing import JumpingClock
from tests.support.service import NOW, collect, ids_of, list_queries, moments, served


def covered_by(checkpoint: str, second: int) -> bool:
    """Say whether a checkpoint answers for a second."""
    return any(after <= second < before for after, before in json.loads(checkpoint)["covered"])


async def resumed(service: Emulator, checkpoint: str, **options: Any) -> list[str]:
    """Walk on in a new client."""
    clock = JumpingClock()
    async with IncomeClient(service.url, auth=service.basic, clock=clock) as client:
        return await ids_of(client.list_applications(resume=checkpoint, **options))


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("before", [None, wire_time(NOW)])
async def test_a_crash_after_any_row_loses_nothing(
    before: str | None, concurrency: int, closed: bool
) -> None:
    """Each row of a walk may be its last; the next walk gives all that was not done."""
    options: dict[str, Any] = {"limit": 4, "concurrency": concurrency}
    knobs: dict[str, Any] = {"lower_closed": closed, "upper_closed": closed}
    async with served(24, order="random", days=2, **knobs) as (service, client):
        ids, second_of = service.world.ids, service.world.updated_at
        for crash in range(len(ids)):
            walk = client.list_applications(updated_before=before, **options)
            found = []
            async for row in walk:
                found.append(row.application_id)
                if len(found) > crash:
                    break
            checkpoint = walk.checkpoint
            await walk.aclose()
            assert not covered_by(checkpoint, second_of(found[-1]))
            again = await resumed(service, checkpoint, **options)
            assert set(found) | set(again) == set(ids)
            assert len(again) == len(set(again))
            # Inclusive bounds return the seconds beside a window as well.
            reach = (-1, 0, 1) if closed else (0,)
            for key in again:
                assert not all(covered_by(checkpoint, second_of(key) + near) for near in reach)


async def test_a_row_is_covered_once_its_consumer_came_back() -> None:
    """The checkpoint answers for a page only after the row behind it was asked for."""
    async with served(moments([10, 20, 30])) as (service, client):
        walk = client.list_applications()
        for _ in range(3):
            row = await anext(walk)
            assert not covered_by(walk.checkpoint, service.world.updated_at(row.application_id))
        assert await ids_of(walk) == []
        assert all(covered_by(walk.checkpoint, second) for second in moments([10, 20, 30]))


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


@pytest.mark.parametrize(
    "checkpoint",
    [
        "",
        "garbage",
        "null",
        "[]",
        "{}",
        '{"walk":1}',
        '{"walk":"1","after":0,"before":null,"covered":[]}',
        '{"walk":2,"after":0,"before":null,"covered":[]}',
        '{"walk":1,"after":0,"before":null,"covered":[[5,1]]}',
        '{"walk":1,"after":0,"before":null,"covered":[[0,9],[5,20]]}',
        '{"walk":1,"after":9,"before":5,"covered":[]}',
        '{"walk":1,"after":10,"before":20,"covered":[[5,7]]}',
        '{"walk":1,"after":0,"before":null,"covered":[],"more":1}',
        '{"walk":1,"after":0,"before":null,"covered":[[0,1.5]]}',
        '{"walk":1,"after":0,"before":5,"covered":[]',
        "\ud800",
        7,
        b"{}",
    ],
)
async def test_a_checkpoint_that_cannot_be_used_is_refused(checkpoint: Any) -> None:
    """Damaged, newer or foreign: an error before anything is sent, never a silent restart."""
    async with served(3) as (service, client):
        with pytest.raises(CheckpointError):
            client.list_applications(resume=checkpoint)
    assert service.requests == []


async def test_a_checkpoint_belongs_to_its_span() -> None:
    """Given bounds must be those of the walk that wrote it."""
    async with served(3) as (_, client):
        checkpoint = client.list_applications("2026-06-01", "2026-06-02").checkpoint
        same = client.list_applications("2026-06-01", "2026-06-02", resume=checkpoint)
        assert same.checkpoint == checkpoint
        for after, before in (("2026-06-02", None), (None, "2026-06-03")):
            with pytest.raises(CheckpointError):
                client.list_applications(after, before, resume=checkpoint)
