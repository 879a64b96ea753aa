"""A walk asks only while somebody iterates, and leaves nothing behind."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from income_client import ApplicationPaginator, ClientClosedError, ConfigurationError
from income_client.emulator import Emulator
from income_client.protocol.timestamps import wire_time
from income_client.testing import JumpingClock
from tests.support.service import NOW, HeldClock, client_tasks, ids_of, quiet, served, until

CONCURRENCY = 4


@contextlib.asynccontextmanager
async def held_walk() -> AsyncIterator[tuple[Emulator, ApplicationPaginator, HeldClock, list[str]]]:
    """Walk until a row is out and every walker's request is held by the service."""
    held = HeldClock()
    async with served(2000, clock=held, latency=1, pattern="uniform") as (service, client):
        walk = client.list_applications(updated_before=wire_time(NOW), limit=20)
        found = []
        async for row in walk:
            found.append(row.application_id)
            if await all_are_held(service, held):
                break
        yield service, walk, held, found
        held.release_all()


async def all_are_held(service: Emulator, held: HeldClock) -> bool:
    """Hold what the service is asked now; say whether that is a request of every walker."""
    if len(client_tasks()) < CONCURRENCY:
        return False
    held.is_held = True
    await quiet(service)
    if service._in_flight == CONCURRENCY:
        return True
    held.release_all()
    await quiet(service)
    return False


async def test_a_slow_consumer_stops_the_requests() -> None:
    """While a row is held, no more is asked than there are walkers, and few rows wait."""
    async with served(1000) as (service, client):
        walk = client.list_applications(
            updated_before=wire_time(NOW), limit=20, concurrency=CONCURRENCY
        )
        async for number, page in counted(walk):
            if number % 5:
                continue
            asked = await quiet(service)
            progress = walk.progress
            lists = sum(request.name == "list_applications" for request in service.requests)
            assert lists <= progress.requests + CONCURRENCY
            assert await quiet(service) == asked
            assert len(page.applications) <= 20


async def counted(walk: ApplicationPaginator) -> AsyncIterator[tuple[int, Any]]:
    """Number the pages of a walk."""
    number = 0
    async for page in walk.pages():
        yield number, page
        number += 1


async def test_few_rows_wait_for_a_slow_consumer() -> None:
    """The rows that were read and not yet given stay below two pages for each walker."""
    async with served(3000, pattern="uniform") as (_, client):
        walk = client.list_applications(updated_before=wire_time(NOW), limit=50)
        given = 0
        async for _ in walk:
            given += 1
            assert walk.progress.rows - given <= 2 * CONCURRENCY * 50
    assert given == 3000


async def test_closing_ends_the_requests_under_way() -> None:
    """After a break and ``aclose`` no task, no request and no further question is left."""
    async with held_walk() as (service, walk, _, _found):
        assert service._in_flight == CONCURRENCY
        await walk.aclose()
        assert client_tasks() == set()
        await until(lambda: service._in_flight == 0)
        asked = len(service.requests)
        assert await quiet(service) == asked
        await walk.aclose()


async def test_dropping_ends_the_requests_under_way() -> None:
    """A walk that nobody holds any more ends its requests by itself."""
    held = HeldClock()
    async with served(2000, clock=held, latency=1, pattern="uniform") as (service, client):
        async for _ in client.list_applications(updated_before=wire_time(NOW), limit=20):
            if await all_are_held(service, held):
                break
        await until(lambda: client_tasks() == set())
        await until(lambda: service._in_flight == 0)
        asked = len(service.requests)
        assert await quiet(service) == asked


async def test_leaving_pages_ends_the_requests_under_way() -> None:
    """The same holds for a loop over pages."""
    held = HeldClock()
    async with served(2000, clock=held, latency=1, pattern="uniform") as (service, client):
        async for _ in client.list_applications(updated_before=wire_time(NOW), limit=20).pages():
            if await all_are_held(service, held):
                break
        gc.collect()
        await until(lambda: client_tasks() == set())
        await until(lambda: service._in_flight == 0)


@pytest.mark.parametrize("cancellations", [1, 2, 3])
async def test_cancelling_leaves_nothing_and_loses_nothing(cancellations: int) -> None:
    """However often it is cancelled, a walk goes on to the exact set when iterated again."""
    async with held_walk() as (service, walk, held, found):

        async def go_on() -> None:
            async for row in walk:
                found.append(row.application_id)

        task = asyncio.create_task(go_on())
        await quiet(service)
        for _ in range(cancellations):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([task])
        assert task.cancelled()
        await until(lambda: client_tasks() == set())
        await until(lambda: service._in_flight == 0)
        held.release_all()
        found.extend(await ids_of(walk))
        assert sorted(found) == sorted(service.world.ids)


async def test_a_walk_may_be_cancelled_at_any_moment() -> None:
    """Cancelled after any number of turns of the loop, a walk gives each row once in the end."""
    async with served(60) as (service, client):
        for turns in range(0, 160, 3):
            walk = client.list_applications(limit=8)
            found: list[str] = []
            async with asyncio.timeout(20) as limit:

                async def go_on(walk: ApplicationPaginator, found: list[str]) -> None:
                    async for row in walk:
                        found.append(row.application_id)
                        await asyncio.sleep(0)

                task = asyncio.create_task(go_on(walk, found))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                found += await ids_of(walk)
            assert not limit.expired()
            assert sorted(found) == sorted(service.world.ids)


async def test_a_deadline_around_a_walk_leaves_nothing() -> None:
    """``asyncio.timeout`` around the loop ends what is under way."""
    async with held_walk() as (service, walk, _, _found):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await ids_of(walk)
        assert client_tasks() == set()
        await until(lambda: service._in_flight == 0)


async def test_closing_sends_away_who_waits() -> None:
    """Somebody who waits for a row when another task closes the walk gets an error."""
    async with held_walk() as (service, walk, held, found):
        waiting = asyncio.create_task(ids_of(walk))
        await quiet(service)
        await walk.aclose()
        with pytest.raises(ClientClosedError):
            await waiting
        held.release_all()
        # Rows that the waiting task had taken went with it.
        assert set(found).isdisjoint(await ids_of(walk))


async def test_a_walk_has_one_consumer() -> None:
    """A second task that asks for a row while the first one waits is refused."""
    async with held_walk() as (service, walk, held, _found):
        first = asyncio.create_task(ids_of(walk))
        await quiet(service)
        with pytest.raises(ConfigurationError):
            await anext(walk)
        held.release_all()
        assert len(await first) > 0


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
