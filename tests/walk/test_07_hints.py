"""Promise 7: hints change the number of requests, and never the rows of a walk."""

from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.listing import EPOCH, ListService, Rules, rows_at, serving, text_of
from tests.support.walk_data import (
    BASE,
    DAY,
    LIMITS,
    WALKERS,
    ids_of,
    readings,
    update_seconds,
    walk,
)

YEAR = 365 * DAY


def hostile_dates(kind: str, service: ListService, chance: Random) -> Callable[[str], str]:
    """Return application dates that mislead a walk that trusts them."""
    seconds = sorted(service.rows.values()) or [BASE]
    kinds: dict[str, Callable[[str], str]] = {
        "the beginning of time": lambda key: "0001-01-01T00:00:00",
        "the end of time": lambda key: "9999-12-31T23:59:59",
        "after the update": lambda key: text_of(service.rows[key] + chance.randrange(1, YEAR)),
        "mirrored": lambda key: text_of(seconds[0] + seconds[-1] - service.rows[key]),
        "in the middle": lambda key: text_of(seconds[len(seconds) // 2]),
        "the last second": lambda key: text_of(service.now),
        "at random": lambda key: (
            EPOCH + timedelta(seconds=chance.randrange(-(10**10), 10**11))
        ).isoformat(),
        "around the updates": lambda key: text_of(chance.choice(seconds) + chance.randint(-1, 1)),
    }
    return kinds[kind]


DATES = st.sampled_from(
    [
        "the beginning of time",
        "the end of time",
        "after the update",
        "mirrored",
        "in the middle",
        "the last second",
        "at random",
        "around the updates",
    ]
)


@given(
    data=st.data(),
    limit=LIMITS,
    walkers=WALKERS,
    dates=DATES,
    begins=st.sampled_from(["1970", "before", "at the first row"]),
)
async def test_application_dates_are_only_a_hint(
    data: st.DataObject, limit: int, walkers: int, dates: str, begins: str
) -> None:
    """Whatever application dates the rows have, in any order, the ids are the same."""
    times = data.draw(update_seconds(limit))
    now = max(times, default=BASE) + data.draw(st.sampled_from([0, 9, 3 * DAY]), "since the last")
    after = {"1970": None, "before": BASE - 400, "at the first row": BASE}[begins]
    before = data.draw(st.sampled_from([None, now + 1]), "before")
    # A service that cuts windows to seconds is not walked from 1970.
    rules = data.draw(readings(now - BASE + 400, oldest=None, widest=None, future="accept"))
    service = ListService(rows=rows_at(times), now=now, rules=rules)
    service.dates = hostile_dates(dates, service, Random(data.draw(st.integers(0, 2**32))))
    async with serving(service) as client:
        paginator = walk(client, after, before, limit=limit, concurrency=walkers)
        found = await ids_of(paginator)
    assert len(found) == len(set(found))
    assert set(found) == service.truth(after or 0, now + 1)
    assert paginator.saturated == ()


DENSITIES: dict[str, Callable[[Random, int], int]] = {
    "even": lambda chance, number: number * 70_000,
    "one burst": lambda chance, number: 20_000_000 + number // 5,
    "two bursts": lambda chance, number: (number % 2) * 30_000_000 + number // 8,
    "a burst at the end": lambda chance, number: 31_500_000 + number // 3,
    "growing": lambda chance, number: int(31_500_000 * chance.random() ** 0.1),
    "many small bursts": lambda chance, number: (number // 12) * 900_000 + number % 12,
    "self-similar": lambda chance, number: sum(
        (chance.random() < 0.2) * 31_500_000 // 2**level for level in range(1, 24)
    ),
}


@pytest.mark.parametrize("walkers", [1, 8])
@pytest.mark.parametrize("density", DENSITIES)
async def test_the_number_of_requests_is_bounded_for_every_density(
    density: str, walkers: int
) -> None:
    """However rows are spread over a year, a dozen requests per page are enough."""
    chance, limit = Random(5), 25
    seconds = [BASE + DENSITIES[density](chance, number) for number in range(400)]
    service = ListService(rows=rows_at(seconds), now=BASE + YEAR + DAY, rules=Rules(order="random"))
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + YEAR, limit=limit, concurrency=walkers)
        found = await ids_of(paginator)
    assert sorted(found) == sorted(service.ids)
    assert len(service.queries) <= 12 * len(seconds) / limit


@given(dates=DATES, walkers=WALKERS, seed=st.integers(0, 2**32))
async def test_hostile_hints_cost_a_bounded_number_of_requests(
    dates: str, walkers: int, seed: int
) -> None:
    """False dates cost a walk from 1970 some more requests, and none is repeated."""
    chance = Random(seed)
    seconds = [BASE + chance.randrange(10**6) for _ in range(150)]
    service = ListService(
        rows=rows_at(seconds), now=BASE + 10**6, rules=Rules(order="random"), chance=chance
    )
    service.dates = hostile_dates(dates, service, chance)
    async with serving(service) as client:
        found = await ids_of(walk(client, None, None, limit=30, concurrency=walkers))
    assert sorted(found) == sorted(service.ids)
    asked = [(query.after, query.before) for query in service.queries]
    assert len(asked) - len(set(asked)) <= 2
    assert len(asked) <= 150


@pytest.mark.parametrize("limit", [5, 25, 100, 1000])
async def test_the_empty_time_before_the_first_application_takes_few_requests(limit: int) -> None:
    """A walk from 1970 reaches last month's data in few requests, whatever its limit."""
    times = [BASE + 300 * n for n in range(2 * limit)]
    service = ListService(
        rows=rows_at(times), now=times[-1] + 1, dates=lambda key: text_of(service.rows[key] - DAY)
    )
    async with serving(service) as client:
        found = await ids_of(client.list_applications(limit=limit, concurrency=1))
    assert sorted(found) == sorted(service.ids)
    assert len(service.queries) <= 20


@pytest.mark.parametrize("limit", [2, 5, 25, 100])
@pytest.mark.parametrize("span", [6_000, 10**6, 3 * 10**7])
async def test_an_empty_time_after_a_burst_takes_few_requests(span: int, limit: int) -> None:
    """Windows grow again quickly after a burst, whatever the limit."""
    times = [BASE + number // (limit - 1) for number in range(7 * (limit - 1))]
    service = ListService(rows=rows_at(times), now=BASE + span + 30 * DAY)
    async with serving(service) as client:
        found = await ids_of(walk(client, BASE - 1, BASE + span, limit=limit, concurrency=1))
    assert sorted(found) == sorted(service.ids)
    assert len(service.queries) <= 80


@given(data=st.data(), limit=LIMITS, seed=st.integers(0, 2**32))
async def test_the_order_in_which_replies_come_does_not_matter(
    data: st.DataObject, limit: int, seed: int
) -> None:
    """In whatever order replies arrive, the same ids are yielded and the same is covered."""
    times = data.draw(update_seconds(limit))
    last = max([*times, BASE + 5]) + 5
    ends = []
    for slowness, walkers in ((0, 1), (4, 3), (25, 8)):
        rules = Rules(order="random", slowness=slowness)
        service = ListService(
            rows=rows_at(times), now=last + 3 * DAY, rules=rules, chance=Random(seed)
        )
        async with serving(service) as client:
            paginator = walk(client, BASE - 1, last, limit=limit, concurrency=walkers)
            found = await ids_of(paginator)
        assert len(found) == len(set(found))
        ends.append((set(found), paginator.checkpoint))
    assert ends[0] == ends[1] == ends[2]
    assert ends[0][0] == set(rows_at(times))
