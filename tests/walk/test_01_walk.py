"""Promise 1: a walk yields what one unlimited query would return, each application once."""

from datetime import UTC, date, datetime, timedelta, timezone
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.records import Window
from tests.support.listing import BASE, DAY, Listing, ListService, rows_at, serving
from tests.support.walks import (
    CHANCES,
    LIMITS,
    MEANINGS,
    WALKERS,
    DryWalk,
    dry_walk,
    ids_of,
    listings,
    readings,
    walk,
    walks,
)

CHICAGO = timezone(timedelta(hours=-6))


@pytest.mark.parametrize("meaning", MEANINGS)
@given(data=st.data(), limit=LIMITS, walkers=WALKERS)
def test_a_walk_yields_what_one_unlimited_query_returns(
    meaning: str, data: st.DataObject, limit: int, walkers: int
) -> None:
    """Every id comes once, for every order of rows and replies, and all windows and data."""
    listing = data.draw(listings(Listing, limit, **MEANINGS[meaning]))
    after = BASE + data.draw(st.sampled_from([-10, -1, 0, 1, 7]), "after")
    before = max(after, listing.now - data.draw(st.sampled_from([0, 4, 5, 6, 20]), "before"))
    passed = data.draw(st.sampled_from([0, 3 * DAY]), "seconds since")
    listing.now += passed
    walked = dry_walk(listing, after, before, limit=limit, walkers=walkers).run()
    assert sorted(walked.ids) == sorted(listing.truth(after, before))
    assert walked.planner.saturated == []
    assert min(query.after or 0 for query in listing.queries) == after
    assert max(query.before or 0 for query in listing.queries) <= before
    assert before in {query.before for query in listing.queries}
    if passed and listing.rules.date_ahead is not None:
        assert list(walked.planner.covered) == [Window(after, before + 1)]


@given(CHANCES, WALKERS, st.sampled_from(["random", "oldest", "newest"]))
def test_inner_cuts_overlap_by_one_second_and_outer_bounds_do_not(
    chance: Random, walkers: int, order: Any
) -> None:
    """The complete pages of a walk form a chain from the lower bound to the upper one."""
    times = list(accumulate((chance.choice([5, 9, 400]) for _ in range(60)), initial=BASE))[1:]
    after, before = BASE + 7, times[-1] + 1
    listing = Listing.of((second - BASE for second in times), order=order)
    listing.chance = chance
    walked = dry_walk(listing, after, before, limit=10, walkers=walkers).run()
    assert set(walked.ids) == listing.truth(after, before)
    complete = sorted(
        (query.after or 0, query.before or 0) for query, page in listing.pages if len(page.ids) < 10
    )
    assert complete[0][0] == after
    assert complete[-1][1] == before
    assert [low - high for (_, high), (low, _) in pairwise(complete)] == [-1] * (len(complete) - 1)


@given(walks(is_open=[False], walkers=st.just(1), oldest=None, widest=None))
def test_one_walker_goes_in_ascending_order(walked: DryWalk) -> None:
    listing = walked.listing
    rows = (delivery.page.applications for delivery in walked.run().delivered)
    seconds = [[listing.rows[row.application_id] for row in page] for page in rows if page]
    assert sum(map(len, seconds)) == len(listing.ids)
    assert all(max(one) <= min(other) for one, other in pairwise(seconds))


@given(
    data=st.data(),
    limit=st.sampled_from([3, 10]),
    walkers=WALKERS,
    turns=st.lists(st.integers(0, 12), min_size=2, max_size=8),
)
async def test_rows_and_pages_share_one_position(
    data: st.DataObject, limit: int, walkers: int, turns: list[int]
) -> None:
    """A loop that was left may end while requests of the next one are in flight."""
    times = [BASE + 131 * number for number in range(20)]
    rules = data.draw(readings(4_000, widest=None, oldest=None))
    service = ListService(rows=rows_at(times), now=BASE + 4_000, rules=rules)
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, None, limit=limit, concurrency=walkers)
        for turn in turns:
            if turn % 2:
                async for page in paginator.pages():
                    assert page.updated_after <= page.updated_before
                    found += [row.application_id for row in page.applications]
                    break
            for _ in range(turn // 2):
                if (row := await anext(paginator, None)) is not None:
                    found.append(row.application_id)
        async for page in paginator.pages():
            found += [row.application_id for row in page.applications]
        assert await ids_of(paginator) == []
    assert sorted(found) == sorted(service.ids)


async def test_bounds_are_sent_in_whole_seconds_of_the_service_s_zone() -> None:
    """Aware times are converted, naive ones and days are taken to be in it; fractions widen."""
    noon = datetime(2026, 6, 1, 12)  # noqa: DTZ001 - the service's times carry no zone
    half = timedelta(milliseconds=500)
    spans: list[tuple[Any, Any]] = [
        (noon.replace(tzinfo=UTC), noon.replace(tzinfo=CHICAGO)),
        (date(2026, 6, 1), "2026-06-01T12:00:00Z"),
        (noon + half, noon + timedelta(days=1) + half),
    ]
    service = ListService(rows={}, now=1_800_000_000)
    async with serving(service, service_timezone=CHICAGO) as client:
        for after, before in spans:
            assert await ids_of(client.list_applications(after, before)) == []
    sent = [
        (query.sent["updated_after"], query.sent["updated_before"]) for query in service.queries
    ]
    assert sent == [
        ("2026-06-01T06:00:00", "2026-06-01T12:00:00"),
        ("2026-06-01T00:00:00", "2026-06-01T06:00:00"),
        ("2026-06-01T12:00:00", "2026-06-02T12:00:01"),
    ]


async def test_a_walk_without_a_lower_bound_begins_at_the_beginning_of_time() -> None:
    """The lower bound and the limit are always sent: the service's defaults do not matter."""
    service = ListService(rows=rows_at([1, 86_400, BASE]), now=BASE + 10)
    async with serving(service) as client:
        for limit in (1000, 7):
            assert set(await ids_of(client.list_applications(limit=limit))) == service.ids
            assert service.queries[0].after == 0
            assert all("updated_after" in query.sent for query in service.queries)
            assert {query.sent["limit"] for query in service.queries} == {str(limit)}
            service.queries.clear()
