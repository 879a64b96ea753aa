"""Promise 11: a poller that ends leaves no task, no connection and no half-written checkpoint."""

import asyncio
import gc
import time

import pytest
from attrs import evolve

from income_client import (
    Batch,
    ClientClosedError,
    IncomeClient,
    MemoryCheckpointStore,
    ServerError,
)
from income_client.emulator import Fault
from income_client.events.kinds import CallFinished, Event
from income_client.polling.checkpoint import Checkpoint, read_checkpoint
from income_client.testing import JumpingClock
from tests.support.clocks import ManualClock
from tests.support.polling import LIST, NOW_TEXT, Scene, first, ids_of, reached, rest, scene
from tests.support.service import client_tasks, quiet, until


@pytest.mark.parametrize("ending", ["left", "cancelled", "stopped", "closed"])
async def test_a_poller_leaves_nothing_behind(place: Scene, ending: str) -> None:
    """A standby leaves no renewal of its lease, no listener and no wake-up behind either."""
    single = place.poll()
    place.touch(1)
    async for _ in single:
        assert client_tasks() == set()
        break
    await quiet(place.service)
    assert client_tasks() == set()
    leader, standby = (place.poll(standby=True, interval=600) for _ in range(2))
    await anext(leader)
    waiting = asyncio.create_task(anext(standby, None))
    await quiet(place.service)
    assert standby.wake()
    match ending:
        case "left":
            waiting.cancel()
            del leader, standby, single
        case "cancelled":
            waiting.cancel()
            reading = asyncio.create_task(anext(leader))
            await quiet(place.service)
            reading.cancel()
            await asyncio.wait([reading])
        case "stopped":
            leader.stop()
            standby.stop()
            assert await anext(leader, None) is None
        case _:
            await leader.aclose()
            await standby.aclose()
    await asyncio.wait([waiting])
    del waiting
    gc.collect()
    await quiet(place.service)
    assert client_tasks() == set()


async def test_stopping_finishes_the_batch_in_hand(place: Scene) -> None:
    """The open batch is delivered and committed, and nothing more is requested, as before it."""
    updated = place.touch(1, 2, 3)
    poller, ids = place.poll(), []
    async for record in poller:
        poller.stop()
        ids.append(record.application_id)
    assert sorted(ids) == sorted(updated)
    assert await rest(place.poll()) == []
    place.service.requests.clear()
    early = place.poll()
    early.stop()
    for one in (poller, early):
        assert [record async for record in one] == []
    assert not place.service.requests


@pytest.mark.parametrize("start", [None, NOW_TEXT], ids=["for-the-present", "for-a-page"])
async def test_stopping_ends_a_request_that_is_under_way(place: Scene, start: str | None) -> None:
    """A service that does not answer does not delay the end of a process."""
    place.service.faults.add(Fault("stall", path=LIST))
    waiting = asyncio.create_task(anext(poller := place.poll(start=start), None))
    await until(lambda: bool(place.requests("list_applications")))
    poller.stop()
    assert await waiting is None
    assert place.requests("list_applications") == 1


async def test_a_request_that_fails_as_the_poller_is_stopped_raises_nothing() -> None:
    """A failure that would have been retried ends no program with an error."""

    def stop(event: Event) -> None:
        if isinstance(event, CallFinished) and event.error is not None:
            poller.stop()

    async with scene(on_event=stop) as place:
        place.service.faults.add(Fault("status", path=LIST, times=None))
        poller = place.poll()
        assert await anext(poller, None) is None
        assert poller.status.failures == 1


async def test_a_closed_client_ends_a_poller(place: Scene) -> None:
    other = IncomeClient(place.service.url, auth=place.service.oauth2, clock=JumpingClock())
    poller = other.poll(MemoryCheckpointStore(), start="2026-06-30")
    await first(poller, 1)
    await other.aclose()
    with pytest.raises(ClientClosedError):
        await first(poller, 100)


async def test_the_status_serves_a_health_endpoint() -> None:
    clock = ManualClock(is_held=False)
    async with scene(clock=clock, time_flows=False) as place:
        poller = place.poll(settle=5)
        status = poller.status
        assert (status.reached, status.lag, status.polls, status.records) == (None, None, 0, 0)
        place.touch(1, 2)
        place.service.advance(60)
        await first(poller, 2)
        assert poller.status.records == 2
        assert poller.status.next_poll_at is None
        clock.is_held = True
        waiting = asyncio.create_task(anext(poller, None))
        await until(lambda: poller.status.next_poll_at is not None)
        status = poller.status
        assert status.polls == 1
        assert status.lag == 5
        assert str(status.reached) == "2026-06-30 12:00:55"
        assert (status.failures, status.last_error, status.dead_letters) == (0, None, 0)
        poller.stop()
        assert await waiting is None  # the pause ends at once
        assert poller.status.next_poll_at is None
        clock.release_all()


async def test_a_wrong_local_clock_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> tuple[list[str], Checkpoint]:
        async with scene(30, time_flows=False) as place:
            place.touch(1, 2)
            place.service.advance(90)
            await rest(place.poll(start=None))
            place.touch(3)
            place.service.advance(90)
            await rest(place.poll())
            queries = [request.query for request in place.service.requests]
            checkpoint = read_checkpoint(await place.text())
            return queries, evolve(
                checkpoint, holder=None, service=None
            )  # which is another each time

    right = await story()
    for days in (-1, 1):
        wrong = time.time() + 86_400 * days
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda wrong=wrong: wrong)
            assert await story() == right


async def test_one_poll_delivers_all_that_is_new() -> None:
    """The poll delivers batches of a hundred, each application once; no other poll follows.

    The next begins where the last one ended; one that fails is not retried beyond what the client's
    own policy does.
    """
    async with scene(101) as place:
        for count, sizes in ((101, [100, 1]), (0, []), (2, [2])):
            updated = place.touch(*range(count))
            place.service.advance(10)
            place.service.requests.clear()
            poller = place.poll(once=True)
            batches = list[Batch]()
            async for batch in poller.batches():
                async with batch:
                    batches.append(batch)
            assert [len(batch) for batch in batches] == sizes
            assert sorted(one for batch in batches for one in ids_of(batch)) == sorted(updated)
            assert place.requests("get_application") == count
            assert poller.status.polls == 1
        before = await reached(place)
        place.service.advance(60)
        assert [record async for record in place.poll(once=True)] == []
        assert await reached(place) >= before + 60
        place.service.faults.add(Fault("status", status=503, path=LIST, times=None))
        poller = place.poll(once=True)
        with pytest.raises(ServerError):
            await anext(poller)
        assert poller.status.failures == 1


async def test_wrong_code_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the consumer's code is raised unchanged, and the poller may be used again."""
    clock = JumpingClock()
    jump = clock.sleep

    async def sleep(seconds: float) -> None:
        if seconds > 20:
            raise AttributeError("no such attribute")
        await jump(seconds)

    monkeypatch.setattr(clock, "sleep", sleep)
    async with scene(clock=clock) as place:
        poller = place.poll()
        for _ in range(2):
            with pytest.raises(AttributeError, match="no such attribute"):
                await first(poller, 1)
        assert poller.status.failures == 0
        updated = place.touch(1)
        poller.wake()
        assert [one.application_id for one in await first(poller, 1)] == updated
