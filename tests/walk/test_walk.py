"""A walk in the eyes of its caller: progress, pages, failures, and a pause that is cut short."""

import asyncio
from typing import Any

import pytest

from income_client import RetryPolicy, ServerError, Timeouts, WalkProgress
from income_client.emulator import Fault
from income_client.testing import JumpingClock
from tests.support.loop_time import pass_time
from tests.support.service import client_tasks, ids_of, list_queries, quiet, served, until

NOW = "2026-06-30T12:00:00"
PASSING = {
    "throttled": Fault("status", status=429, headers={"Retry-After": "2"}, skip=4, times=3),
    "stall": Fault("stall", skip=4, times=2),
}


@pytest.mark.parametrize("before", [None, NOW])
async def test_progress_only_grows_and_ends_at_one(before: str | None) -> None:
    """It reaches 1 only when the consumer is done, and has all that was updated meanwhile."""
    clock = JumpingClock()
    async with served(300, clock=clock, order="random") as (service, client):
        walk = client.list_applications(None, before, limit=20)
        seen: list[WalkProgress] = [walk.progress]
        unseen = dict.fromkeys(service.world.ids)
        found: set[str] = set()
        async for row in walk:
            seen.append(walk.progress)
            found.add(row.application_id)
            unseen.pop(row.application_id, None)
            clock.advance(5)
            if before is None and len(seen) < 250 and unseen:
                # It moves behind all that was known of the span until now.
                service.touch(unseen.popitem()[0])
        seen.append(walk.progress)
    assert found == set(service.world.ids)
    fractions = [progress.covered_fraction for progress in seen]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0.0
    assert fractions[-2] < 1.0 or before is None
    assert fractions[-1] == 1.0
    last = seen[-1]
    assert last.rows >= len(service.world)
    assert last.requests == len(list_queries(service))
    assert last.splits > 0
    assert last.duplicates >= 0


async def test_a_walk_over_nothing_ends() -> None:
    """A service without applications is walked in at most two requests."""
    async with served(0) as (service, client):
        walk = client.list_applications()
        assert await ids_of(walk) == []
        assert walk.progress.covered_fraction == 1.0
        assert await ids_of(client.list_applications(updated_before=NOW)) == []
    assert len(list_queries(service)) == 3


@pytest.mark.parametrize("goes_on", ["rows", "pages"])
async def test_a_loop_over_pages_that_was_left_does_not_end_the_next_one(goes_on: str) -> None:
    """The loop's end comes later, while requests of the next one are in flight."""
    async with served(100) as (service, client):
        walk = client.list_applications(limit=7)
        found: list[str] = []
        async for page in walk.pages():
            found += [row.application_id for row in page.applications]
            break
        if goes_on == "rows":
            found += await ids_of(walk)
        else:
            async for page in walk.pages():
                found += [row.application_id for row in page.applications]
    assert sorted(found) == sorted(service.world.ids)


@pytest.mark.parametrize("fault", PASSING)
async def test_a_passing_failure_goes_unnoticed(fault: str) -> None:
    async with served(200) as (service, client):
        service.faults.add(PASSING[fault])
        view = client.with_options(timeouts=Timeouts(read=30, deadline=10_000))
        walking = asyncio.create_task(ids_of(view.list_applications(limit=20)))
        while not walking.done():
            # All that is left waits for what stalls.
            await quiet(service)
            pass_time(31)
        found = await walking
        assert len(service.faults) == 0
    assert sorted(found) == sorted(service.world.ids)


async def test_an_error_carries_its_facts_out_of_a_walk() -> None:
    async with served(200) as (service, client):
        service.faults.add(Fault("status", status=500, path="/v1/*", skip=3, times=None))
        view = client.with_options(retry=RetryPolicy(max_attempts=2))
        with pytest.raises(ServerError) as caught:
            await ids_of(view.list_applications(limit=20))
        error = caught.value
    assert (error.status, error.attempts, error.retryable) == (500, 2, True)
    assert error.request_id is not None
    assert error.__cause__ is None
    assert error.__context__ is None


class HesitantClock(JumpingClock):
    """A clock that jumps, except over its first pause, which never ends."""

    async def sleep(self, seconds: float) -> None:
        """Wait for ever the first time."""
        if not self.slept:
            self.slept.append(seconds)
            await asyncio.get_running_loop().create_future()
        await super().sleep(seconds)


async def test_a_pause_that_was_cut_short_is_made_again() -> None:
    """A walk that waits for the service's next second waits anew after a cancellation."""
    clock = HesitantClock()
    knobs: dict[str, Any] = {"future": "clamp", "time_flows": False}
    async with served(20, clock=clock, **knobs) as (service, client):
        walk = client.list_applications()
        found: list[str] = []

        async def go_on() -> None:
            async for row in walk:
                found.append(row.application_id)  # noqa: PERF401 - kept when cancelled

        task = asyncio.create_task(go_on())
        await until(lambda: len(clock.slept) == 1)
        asked = len(service.requests)
        task.cancel()
        await asyncio.wait([task])
        assert client_tasks() == set()
        await go_on()
        assert sorted(found) == sorted(service.world.ids)
        assert clock.slept[0] == clock.slept[1] == 1.0
        assert len(clock.slept) - 1 == len(service.requests) - asked
