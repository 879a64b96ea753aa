"""Promise 3: memory does not grow with the walk, and a slow consumer stops the requests."""

import asyncio
import gc
import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.records import Window
from income_client.walk.windows import Overlap
from tests.support.listing import BASE, DAY, ListService, serving
from tests.support.walks import WALKERS, collect, walk

SPAN = 1_000_000
LONG_ID = 4_000


def spread(count: int, *, seed: int = 1, **rules: Any) -> ListService:
    """Return a service with this many applications, most of them late in the span."""
    chance = Random(seed)
    times = [int(SPAN * chance.random() ** 0.4) for _ in range(count)]
    return ListService.of(times, SPAN + 3 * DAY, **rules)


@given(
    seed=st.integers(0, 2**32),
    walkers=WALKERS,
    stops=st.lists(st.integers(0, 89), min_size=1, max_size=3),
)
async def test_a_slow_consumer_stops_the_requests(
    seed: int, walkers: int, stops: list[int]
) -> None:
    """While the consumer holds a row, each walker sends at most one more request.

    At most two pages per walker wait; the checkpoint is a few intervals per walker, without ids.
    """
    service = spread(90, seed=seed, order="random", slowness=2)
    given_rows = 0
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + SPAN + 1, limit=10, concurrency=walkers)
        async for row in paginator:
            assert paginator.progress.rows - given_rows <= (2 * walkers + 1) * 10
            assert len(paginator.checkpoint) < 200 + 100 * walkers
            assert row.application_id not in paginator.checkpoint
            if given_rows in stops:
                asked = len(service.queries)
                assert await service.quiet() <= asked + walkers
                asked = len(service.queries)
                assert await service.quiet() == asked
            given_rows += 1
    assert given_rows == 90


def test_only_ids_beside_what_is_still_planned_are_remembered() -> None:
    """A row of a page that was forgotten would be taken for a new one."""
    overlap, ids = Overlap(), [f"app-{number}" for number in range(100)]
    for number, one in enumerate(ids):
        overlap.add_page(Window(10 * number - 1, 10 * number + 11), {one})
        overlap.drop_pages([Window(10 * number + 10, 1_000)])
    assert set(ids) - overlap.add_page(Window(0, 1_000), set(ids)) == {ids[-1]}


@pytest.mark.parametrize(("rows", "walkers", "before"), [(320, 1, None), (750, 4, BASE + SPAN + 1)])
async def test_remembered_ids_are_bounded(rows: int, walkers: int, before: int | None) -> None:
    """Ids are kept for a few pages per walker, not for the whole walk."""
    service = spread(0, slowness=4)
    chance = Random(rows)
    # Each id is long, so that ids that are kept show in the memory used.
    service.rows = {f"{n:0{LONG_ID}d}": BASE + chance.randrange(SPAN) for n in range(rows)}
    most = given_rows = 0
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, before, limit=10, concurrency=walkers)
        tracemalloc.start()
        try:
            async for _ in paginator:
                given_rows += 1
                if given_rows % 20 == 0:
                    # The service's own log of requests does not count.
                    service.pages.clear()
                    gc.collect(0)
                    most = max(most, tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
    assert given_rows == rows
    pages = 10 * LONG_ID * (walkers + 1)
    assert most < 12 * pages, f"{most / pages:.1f} pages for each walker"


@pytest.mark.parametrize("walkers", [2, 4])
async def test_nothing_waits_for_order(walkers: int) -> None:
    """While one reply is outstanding, rows of other windows are yielded."""
    service = spread(600, order="random")
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + SPAN + 1, limit=10, concurrency=walkers)
        while len(service.queries) < 30:
            found.append((await anext(paginator)).application_id)
        service.holds = lambda query: not service.held
        consumer = asyncio.create_task(collect(paginator, found))
        await service.quiet()
        (held,) = service.held
        outside = {
            key
            for key, second in service.rows.items()
            if not (held.after or 0) <= second <= (held.before or 0)
        }
        # About a page behind the window is left to the walker whose reply is missing.
        assert len(outside - set(found)) <= 20
        assert not consumer.done()
        service.release()
        await consumer
    assert sorted(found) == sorted(service.ids)
