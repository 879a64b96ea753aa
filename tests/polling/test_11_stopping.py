"""Promise 11: a poller that ends leaves no task, no connection and no half-written checkpoint."""

import asyncio
import gc
import time
from typing import Any

import pytest
from attrs import evolve

from income_client import (
    AuthenticationError,
    ClientClosedError,
    IncomeClient,
    MemoryCheckpointStore,
    OAuth2ClientCredentials,
    ServerError,
)
from income_client.emulator import Fault
from income_client.polling.checkpoint import Checkpoint, read_checkpoint
from income_client.testing import JumpingClock
from tests.support.pollers import StandingClock
from tests.support.polling import Scene, first, rest, scene
from tests.support.service import HeldClock, client_tasks, quiet, until

LIST = "/v1/income/applications"
DETAILS = "/v1/income/applications/*"


def pauses_of(place: Scene) -> list[float]:
    """Return the pauses so far, in seconds."""
    clock: Any = place.client._clock
    return list(clock.slept)


async def test_leaving_the_loop_leaves_nothing_behind() -> None:
    """No task is running after the loop is left, whether the poller object is kept or not."""
    async with scene() as place:
        place.touch(1, 2, 3)
        poller = place.poll()
        async for _ in poller:
            assert client_tasks() == set()
            break
        await quiet(place.service)
        assert client_tasks() == set()
        del poller
        gc.collect()


@pytest.mark.parametrize("ending", ["left", "cancelled", "stopped", "closed"])
async def test_a_poller_with_standbys_leaves_nothing_behind(ending: str) -> None:
    """Neither the renewal of its lease nor what listens for wake-ups, nor one on its way."""
    async with scene() as place:
        leader, standby = (place.poll(standby=True, interval=600) for _ in range(2))
        place.touch(1)
        await anext(leader)
        waiting = asyncio.create_task(anext(standby, None))
        await quiet(place.service)
        assert standby.wake()
        match ending:
            case "left":
                waiting.cancel()
                del leader, standby
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


async def test_stopping_finishes_the_batch_in_hand() -> None:
    """The open batch is delivered and committed, and nothing more is requested."""
    async with scene() as place:
        updated = place.touch(1, 2, 3)
        poller, ids = place.poll(), []
        async for record in poller:
            poller.stop()
            ids.append(record.application_id)
        assert sorted(ids) == sorted(updated)
        assert await rest(place.poll()) == []
        assert [record async for record in poller] == []


async def test_stopping_a_pause_ends_it_at_once() -> None:
    """A stopped poller does not wait for the end of its pause."""
    clock = HeldClock()
    async with scene(clock=clock) as place:
        poller = place.poll()
        clock.is_held = True
        waiting = asyncio.create_task(anext(poller, None))
        await until(lambda: poller.status.next_poll_at is not None and poller.status.polls == 1)
        poller.stop()
        assert await waiting is None
        clock.release_all()


async def test_stopping_ends_a_request_that_is_under_way() -> None:
    """A service that does not answer does not delay the end of a process."""
    async with scene() as place:
        place.service.faults.add(Fault("stall", path=LIST))
        waiting = asyncio.create_task(anext(poller := place.poll(), None))
        await until(lambda: bool(place.requests("list_applications")))
        poller.stop()
        assert await waiting is None
        assert place.requests("list_applications") == 1


async def test_stopping_ends_the_call_that_asks_for_the_present() -> None:
    """Without a stored checkpoint, the first call asks the service where to begin."""
    async with scene() as place:
        place.service.faults.add(Fault("stall", path=LIST))
        waiting = asyncio.create_task(anext(poller := place.poll(start=None), None))
        await until(lambda: bool(place.requests("list_applications")))
        poller.stop()
        assert await waiting is None


async def test_stopping_before_the_first_poll_asks_nothing() -> None:
    """A poller that is stopped before its iteration begins sends no request."""
    async with scene() as place:
        poller = place.poll()
        poller.stop()
        assert [record async for record in poller] == []
        assert not place.service.requests


async def test_a_job_ends_with_its_poll() -> None:
    """A job reads everything up to the present second, commits and ends."""
    async with scene(time_flows=False) as place:
        updated = place.touch(1, 2)
        assert sorted(r.application_id for r in await rest(place.poll())) == sorted(updated)
        assert await rest(place.poll()) == []


async def test_a_job_raises_the_failure_of_its_poll() -> None:
    """The failure of a single poll is raised to the caller."""
    async with scene() as place:
        place.service.faults.add(Fault("status", status=503, path=LIST, times=3))
        with pytest.raises(ServerError):
            await rest(place.poll())


async def test_waking_cuts_a_pause_short() -> None:
    """A woken poller polls at once, and lists what is updated in that very second."""
    clock = StandingClock()
    async with scene(clock=clock, time_flows=False) as place:
        poller = place.poll()
        waiting = asyncio.create_task(anext(poller))
        await until(lambda: poller.status.polls == 1 and clock.is_slept_on)
        updated = place.touch(7)
        clock.advance(2)
        await quiet(place.service)
        assert not waiting.done()
        poller.wake()
        assert (await waiting).application_id == updated[0]


async def test_failures_are_reported_and_retried_with_growing_pauses() -> None:
    """Transient failures never end the iteration."""
    async with scene() as place:
        place.service.faults.add(Fault("status", status=503, path=LIST, times=3 * 7))
        poller = place.poll()
        waiting = asyncio.create_task(anext(poller))
        await until(lambda: poller.status.failures == 7)
        status = poller.status
        assert isinstance(status.last_error, ServerError)
        assert status.last_error.__traceback__ is None
        grown = pauses_of(place)
        updated = place.touch(3)
        assert (await waiting).application_id == updated[0]
        assert poller.status.failures == 0
        assert poller.status.last_error is not None
        growing = [pause for pause in grown if pause >= 0.5]
        assert len(growing) == 6
        assert growing == sorted(growing)
        assert max(growing) <= 60


async def test_a_pause_that_the_service_asks_for_is_kept() -> None:
    """It may be longer than the poller's own pauses, and waking does not shorten it."""
    clock = JumpingClock()
    async with scene(clock=clock) as place:
        headers = {"Retry-After": "900"}
        place.service.faults.add(Fault("status", status=429, path=LIST, headers=headers))
        poller = place.poll()
        waiting = asyncio.create_task(anext(poller))
        await until(lambda: poller.status.failures == 1)
        poller.wake()
        await until(lambda: poller.status.polls >= 1)
        assert max(clock.slept) >= 899
        poller.stop()
        await asyncio.wait([waiting])


async def test_wrong_credentials_end_a_poller() -> None:
    """Wrong credentials are not retried."""
    async with scene() as place:
        wrong = OAuth2ClientCredentials(place.service.oauth2.client_id, "another secret")
        async with IncomeClient(place.service.url, auth=wrong, clock=JumpingClock()) as client:
            with pytest.raises(AuthenticationError):
                await first(client.poll(MemoryCheckpointStore()), 1)


async def test_a_closed_client_ends_a_poller() -> None:
    """The iteration raises instead of polling a closed client for ever."""
    async with scene() as place:
        other = IncomeClient(place.service.url, auth=place.service.oauth2, clock=JumpingClock())
        poller = other.poll(MemoryCheckpointStore(), start="2026-06-30")
        await first(poller, 1)
        await other.aclose()
        with pytest.raises(ClientClosedError):
            await first(poller, 100)


async def test_the_status_serves_a_health_endpoint() -> None:
    """It has the progress, the lag, the number of polls and the time of the next one."""
    clock = HeldClock()
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
        await waiting
        assert poller.status.next_poll_at is None
        clock.release_all()


@pytest.mark.parametrize("days", [-1, 1])
async def test_a_wrong_local_clock_changes_nothing(
    days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests and commits depend on the service's clock alone."""

    async def story() -> tuple[list[str], Checkpoint]:
        async with scene(30, time_flows=False) as place:
            place.touch(1, 2)
            place.service.advance(90)
            await rest(place.poll(start=None))
            place.touch(3)
            place.service.advance(90)
            await rest(place.poll())
            queries = [request.query for request in place.service.requests]
            checkpoint = read_checkpoint((await place.store.load("default")).checkpoint or "")
            return queries, evolve(checkpoint, holder=None)  # which is another each time

    right = await story()
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 86_400 * days)
    assert await story() == right


async def test_a_poller_ends_with_its_task_group() -> None:
    """The failure of another task cancels the poller, and nothing is lost."""
    async with scene() as place:
        updated = place.touch(1)
        got: list[str] = []

        async def poll() -> None:
            async for record in place.poll():
                got.append(record.application_id)  # noqa: PERF401 - it never ends

        async def fail() -> None:
            await until(lambda: bool(got))
            raise ZeroDivisionError

        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(poll())
                group.create_task(fail())

        with pytest.raises(ExceptionGroup):
            await work()
        assert got == updated
        await quiet(place.service)
        assert {t for t in client_tasks() if "income_client" not in t.get_name()} == set()


async def test_a_batch_holds_about_a_hundred_records() -> None:
    """However many applications were updated, batches stay small."""
    async with scene(450) as place:
        place.touch(*range(450))
        place.service.advance(30)
        poller = place.poll()
        poller.stop(after_poll=True)
        sizes = []
        async for batch in poller.batches():
            async with batch:
                sizes.append(len(batch))
        assert sum(sizes) == 450
        assert max(sizes) <= 200
