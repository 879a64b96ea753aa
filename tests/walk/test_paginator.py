"""What a walk over the socket returns: every application once, in every reading of the contract."""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest

from income_client import (
    ApplicationPage,
    ApplicationSummary,
    IncomeClient,
    SaturatedWindowError,
    WalkProgress,
    Window,
)
from income_client.emulator import Fault
from income_client.protocol.timestamps import wire_time
from income_client.testing import JumpingClock
from tests.support.service import NOW, collect, ids_of, list_queries, moments, served

CHICAGO = timezone(timedelta(hours=-6))


@pytest.mark.parametrize("upper_closed", [False, True])
@pytest.mark.parametrize("lower_closed", [False, True])
@pytest.mark.parametrize("concurrency", [1, 4, 8])
async def test_every_application_comes_once(
    concurrency: int, lower_closed: bool, upper_closed: bool
) -> None:
    """Whatever the bounds mean, the ids are those of one unlimited question."""
    knobs: dict[str, Any] = {"lower_closed": lower_closed, "upper_closed": upper_closed}
    async with served(400, order="random", **knobs) as (service, client):
        times = sorted(map(service.world.updated_at, service.world.ids))
        after, before = times[40], times[-40]
        walk = client.list_applications(wire_time(after), wire_time(before), 20, concurrency)
        found = await ids_of(walk)
    assert len(found) == len(set(found))
    assert set(found) == service.world.truth(after, before)
    queries = list_queries(service)
    assert min(query["updated_after"] for query in queries) == wire_time(after)
    assert max(query["updated_before"] for query in queries) == wire_time(before)


async def test_one_walker_goes_forward() -> None:
    """With a concurrency of 1 no page holds an older update than the page before it."""
    async with served(400, order="shuffled") as (service, client):
        walk = client.list_applications(updated_before=wire_time(NOW), limit=20, concurrency=1)
        seconds = [
            [service.world.updated_at(row.application_id) for row in page.applications]
            async for page in walk.pages()
        ]
    assert len(seconds) > 20
    assert all(max(one) <= min(other) for one, other in pairwise(seconds))


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
    """Aware times are converted to the service's zone, naive ones are in it already."""
    async with (
        served(30) as (service, _),
        IncomeClient(service.url, auth=service.basic, service_timezone=CHICAGO) as client,
    ):
        await ids_of(client.list_applications(value, "2026-07-01"))
        await ids_of(client.list_applications("2026-05-01", value))
    queries = list_queries(service)
    assert queries[0] == {
        "updated_after": text,
        "updated_before": "2026-07-01T00:00:00",
        "limit": "1000",
    }
    assert queries[-1]["updated_before"] == text


async def test_fractions_of_a_second_widen_the_span() -> None:
    """The lower bound goes down to a whole second, the upper one up."""
    half = timedelta(milliseconds=500)
    noon = datetime(2026, 6, 1, 12)  # noqa: DTZ001 - the service's times carry no zone
    async with served(30) as (service, client):
        await ids_of(client.list_applications(noon + half, noon + timedelta(days=1) + half))
    (query,) = list_queries(service)
    assert query["updated_after"] == "2026-06-01T12:00:00"
    assert query["updated_before"] == "2026-06-02T12:00:01"


async def test_a_walk_over_nothing_ends() -> None:
    """A service without applications gives none, in two requests at the most."""
    async with served(0) as (service, client):
        walk = client.list_applications()
        assert await ids_of(walk) == []
        assert walk.progress.covered_fraction == 1.0
        bounded = client.list_applications(updated_before=wire_time(NOW))
        assert await ids_of(bounded) == []
    assert len(list_queries(service)) == 3


@pytest.mark.parametrize("upper_closed", [False, True])
@pytest.mark.parametrize("future", ["accept", "clamp", "refuse"])
async def test_an_open_walk_finds_what_was_updated_in_this_second(
    future: str, upper_closed: bool
) -> None:
    """The current second, which an exclusive upper bound hides, is read all the same."""
    seconds = [*moments([90_000, 60, 1]), NOW, NOW]
    async with served(seconds, future=future, upper_closed=upper_closed) as (service, client):
        found = await ids_of(client.list_applications("2026-01-01"))
    assert sorted(found) == sorted(service.world.ids)
    if future == "accept":
        assert len(list_queries(service)) == 2


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("future", ["accept", "clamp", "refuse"])
async def test_updates_during_an_open_walk_lose_nothing(future: str, concurrency: int) -> None:
    """Every application comes at least once although updates move it while the walk goes on."""
    clock = JumpingClock()
    async with served(200, clock=clock, future=future) as (service, client):
        ids = service.world.ids
        found: list[str] = []
        walk = client.list_applications(limit=20, concurrency=concurrency)
        async for row in walk:
            found.append(row.application_id)
            if len(found) < 400:
                service.touch(ids[len(found) * 7 % len(ids)])
                clock.advance(0.3)
    assert set(found) == set(ids)


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_saturated_second_is_raised_last(concurrency: int) -> None:
    """Everything else comes first; the error names the second and carries its rows."""
    crowd = NOW - 5000
    seconds = [*moments(range(1, 20_000, 500)), *[crowd] * 30]
    async with served(seconds) as (service, client):
        walk = client.list_applications(updated_before=wire_time(NOW), limit=10)
        rows: list[ApplicationSummary] = []
        with pytest.raises(SaturatedWindowError) as caught:
            await collect(walk, rows)
        assert walk.progress.covered_fraction < 1.0
        assert await ids_of(walk) == []
        crowded = {key for key in service.world.ids if service.world.updated_at(key) == crowd}
    found = [row.application_id for row in rows]
    assert sorted(found) == sorted(set(service.world.ids) - crowded)
    assert caught.value.windows == walk.saturated == (Window(crowd, crowd + 1),)
    assert len(caught.value.applications) == 10
    assert {row.application_id for row in caught.value.applications} <= crowded
    assert caught.value.__context__ is None


async def test_a_saturated_second_is_reported() -> None:
    """With "report" its rows come with the others, and the second is in ``saturated``."""
    crowd = NOW - 5000
    async with served([*moments(range(1, 20_000, 500)), *[crowd] * 30]) as (_, client):
        walk = client.list_applications(
            updated_before=wire_time(NOW), limit=10, on_saturated="report"
        )
        found = await ids_of(walk)
    assert len(found) == len(set(found)) == 50
    assert walk.saturated == (Window(crowd, crowd + 1),)


async def test_pages_hold_the_same_rows() -> None:
    """Iterating over pages gives every row once, each page with the bounds applied."""
    async with served(300) as (service, client):
        pages = [page async for page in client.list_applications(limit=20).pages()]
    found = [row.application_id for page in pages for row in page.applications]
    assert sorted(found) == sorted(service.world.ids)
    assert all(isinstance(page, ApplicationPage) for page in pages)
    assert all(page.updated_after < page.updated_before for page in pages)


async def test_rows_and_pages_share_one_position() -> None:
    """What is left of a page begun row by row comes as a page, and nothing is skipped."""
    async with served(100) as (service, client):
        walk = client.list_applications(limit=20)
        found = [(await anext(walk)).application_id for _ in range(3)]
        pages = walk.pages()
        for _ in range(3):
            found += [row.application_id for row in (await anext(pages)).applications]
        await pages.aclose()
        found += [(await anext(walk)).application_id for _ in range(3)]
        async for page in walk.pages():
            found += [row.application_id for row in page.applications]
    assert sorted(found) == sorted(service.world.ids)


@pytest.mark.parametrize("before", [None, wire_time(NOW)])
async def test_progress_only_grows_and_ends_at_one(before: str | None) -> None:
    """The covered fraction goes from 0 to 1, and reaches 1 only when the consumer is done."""
    clock = JumpingClock()
    async with served(300, clock=clock) as (service, client):
        walk = client.list_applications(None, before, limit=20)
        seen: list[WalkProgress] = [walk.progress]
        unseen = dict.fromkeys(service.world.ids)
        async for row in walk:
            seen.append(walk.progress)
            unseen.pop(row.application_id, None)
            clock.advance(5)
            if before is None and len(seen) < 250 and unseen:
                # It moves behind all that was known of the span until now.
                service.touch(unseen.popitem()[0])
        seen.append(walk.progress)
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


async def test_a_service_without_an_upper_bound_of_its_own_is_walked_to_its_end() -> None:
    """Where the end of time is echoed, a complete page ends the walk, and all is covered."""
    row = {
        "application_id": "app-1",
        "application_reference_id": "LOAN-1",
        "application_date": "2026-06-01T00:00:00",
    }
    page = {
        "updated_after": "1970-01-01T00:00:00",
        "updated_before": "9999-12-31T23:59:59",
        "applications": [row],
    }
    async with served(0) as (service, client):
        service.faults.add(Fault("body", body=json.dumps(page).encode(), path="/v1/*", times=None))
        walk = client.list_applications()
        assert await ids_of(walk) == ["app-1"]
        assert walk.progress.covered_fraction == 1.0
