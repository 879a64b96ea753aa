"""Promise 1: a walk yields what one unlimited query would return, each application once."""

from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import BasicAuth, IncomeClient
from tests.support.listing import ListService, Rules, rows_at, serving, text_of
from tests.support.server import ScriptedServer
from tests.support.walk_data import (
    BASE,
    DAY,
    LIMITS,
    MEANINGS,
    WALKERS,
    ids_of,
    readings,
    update_seconds,
    walk,
)

CHICAGO = timezone(timedelta(hours=-6))


@pytest.mark.parametrize("meaning", MEANINGS)
@given(data=st.data(), limit=LIMITS, walkers=WALKERS)
async def test_a_walk_yields_what_one_unlimited_query_returns(
    meaning: str, data: st.DataObject, limit: int, walkers: int
) -> None:
    """Whatever the row order, windows and data, a walk yields every id exactly once."""
    times = data.draw(update_seconds(limit))
    last = max([*times, BASE + 5]) + 5
    after = BASE + data.draw(st.sampled_from([-10, -1, 0, 1, 7]), "after")
    before = max(after, last - data.draw(st.sampled_from([0, 4, 5, 6, 20]), "before"))
    passed = data.draw(st.sampled_from([0, 3 * DAY]), "seconds since")
    rules = data.draw(readings(before - after, **MEANINGS[meaning]))
    service = ListService(rows=rows_at(times), now=last + passed, rules=rules)
    async with serving(service) as client:
        paginator = walk(client, after, before, limit=limit, concurrency=walkers)
        found = await ids_of(paginator)
    assert len(found) == len(set(found))
    assert set(found) == service.truth(after, before)
    assert paginator.saturated == ()
    assert paginator.progress.covered_fraction == 1.0
    bounded = [query for query in service.queries if query.before is not None]
    assert {query.limit for query in service.queries} == {limit}
    assert min(query.after or 0 for query in service.queries) == after
    assert max(query.before or 0 for query in bounded) == before
    assert service.queries[0].sent["updated_after"] == text_of(after)


@given(st.integers(0, 2**32), WALKERS, st.sampled_from(["random", "oldest", "newest"]))
async def test_inner_cuts_overlap_by_one_second_and_outer_bounds_do_not(
    seed: int, walkers: int, order: Any
) -> None:
    """The complete pages of a walk form a chain from the lower bound to the upper one."""
    chance = Random(seed)
    second, times = BASE, []
    for _ in range(60):
        second += chance.choice([5, 9, 400])
        times.append(second)
    after, before = BASE + 7, second + 1
    service = ListService(
        rows=rows_at(times), now=second + 3 * DAY, rules=Rules(order=order, slowness=5)
    )
    async with serving(service) as client:
        found = await ids_of(walk(client, after, before, limit=10, concurrency=walkers))
    assert set(found) == service.truth(after, before)
    complete = sorted(
        (query.after or 0, query.before or 0) for query, page in service.pages if len(page.ids) < 10
    )
    assert complete[0][0] == after
    assert complete[-1][1] == before
    assert [low - high for (_, high), (low, _) in pairwise(complete)] == [-1] * (len(complete) - 1)


@given(st.data(), LIMITS)
async def test_one_walker_goes_in_ascending_order(data: st.DataObject, limit: int) -> None:
    """With a concurrency of 1 no page holds an older update than the page before it."""
    times = data.draw(update_seconds(limit))
    last = max([*times, BASE + 5]) + 5
    rules = Rules(order="random")
    service = ListService(rows=rows_at(times), now=last + 3 * DAY, rules=rules)
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, last, limit=limit, concurrency=1)
        seconds = [
            [service.rows[row.application_id] for row in page.applications]
            async for page in paginator.pages()
        ]
    assert sum(map(len, seconds)) == len(times)
    assert all(max(one) <= min(other) for one, other in pairwise(seconds))


@given(
    data=st.data(),
    limit=LIMITS,
    walkers=WALKERS,
    turns=st.lists(st.integers(0, 12), min_size=2, max_size=8),
)
async def test_rows_and_pages_share_one_position(
    data: st.DataObject, limit: int, walkers: int, turns: list[int]
) -> None:
    """A walk read partly by rows and partly by pages yields every application once."""
    times = [BASE + 131 * number for number in range(30)]
    rules = data.draw(readings(4_000, widest=None, oldest=None))
    service = ListService(rows=rows_at(times), now=BASE + 4_000, rules=rules)
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, None, limit=limit, concurrency=walkers)
        for turn in turns:
            if turn % 2:
                pages = paginator.pages()
                async for page in pages:
                    assert page.updated_after <= page.updated_before
                    found += [row.application_id for row in page.applications]
                    break
                await pages.aclose()
            for _ in range(turn // 2):
                if (row := await anext(paginator, None)) is not None:
                    found.append(row.application_id)
        async for page in paginator.pages():
            found += [row.application_id for row in page.applications]
        assert await ids_of(paginator) == []
    assert sorted(found) == sorted(service.ids)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2026, 6, 1, 12, tzinfo=UTC), "2026-06-01T06:00:00"),
        (datetime(2026, 6, 1, 12), "2026-06-01T12:00:00"),  # noqa: DTZ001 - the service's own
        (datetime(2026, 6, 1, 12, tzinfo=CHICAGO), "2026-06-01T12:00:00"),
        (date(2026, 6, 1), "2026-06-01T00:00:00"),
        ("2026-06-01", "2026-06-01T00:00:00"),
        ("2026-06-01T12:00:00", "2026-06-01T12:00:00"),
        ("2026-06-01T12:00:00Z", "2026-06-01T06:00:00"),
    ],
)
async def test_a_bound_may_be_given_in_any_form(value: Any, text: str) -> None:
    """Aware times are converted to the service's zone; naive times are taken to be in it."""
    service = ListService(rows={}, now=1_800_000_000)
    async with (
        ScriptedServer(service.answer) as server,
        IncomeClient(
            server.url,
            auth=BasicAuth("partner", "invented"),
            service_timezone=CHICAGO,
        ) as client,
    ):
        assert await ids_of(client.list_applications(value, "2026-07-01")) == []
        assert await ids_of(client.list_applications("2026-05-01", value)) == []
    first, second = (query.sent for query in service.queries)
    assert (first["updated_after"], first["updated_before"]) == (text, "2026-07-01T00:00:00")
    assert (second["updated_after"], second["updated_before"]) == ("2026-05-01T00:00:00", text)


async def test_fractions_of_a_second_widen_the_span() -> None:
    """The lower bound is rounded down to a whole second, the upper one up."""
    half = timedelta(milliseconds=500)
    noon = datetime(2026, 6, 1, 12)  # noqa: DTZ001 - the service's times carry no zone
    service = ListService(rows={}, now=1_800_000_000)
    async with serving(service) as client:
        await ids_of(client.list_applications(noon + half, noon + timedelta(days=1) + half))
    (query,) = service.queries
    assert query.sent["updated_after"] == "2026-06-01T12:00:00"
    assert query.sent["updated_before"] == "2026-06-02T12:00:01"


async def test_a_walk_without_a_lower_bound_begins_at_the_beginning_of_time() -> None:
    """The lower bound is always sent, so the service's default for it does not matter."""
    service = ListService(rows=rows_at([1, 86_400, BASE]), now=BASE + 10)
    async with serving(service) as client:
        assert set(await ids_of(client.list_applications())) == service.ids
    assert {query.sent.get("updated_after") is None for query in service.queries} == {False}
    assert service.queries[0].after == 0
