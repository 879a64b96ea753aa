"""Promise 2: a full page proves nothing, and rows that cannot be read are reported, not dropped."""

import contextlib
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from income_client import (
    IncomeClientError,
    SaturatedWindowError,
    UnexpectedResponseError,
    Window,
)
from tests.support.listing import (
    ListService,
    Outcome,
    Page,
    Query,
    Rules,
    rows_at,
    serving,
)
from tests.support.walk_data import BASE, DAY, MEANINGS, WALKERS, collect, ids_of, readings, walk

LATER = BASE + 10 * DAY
ORDERS = st.sampled_from(["random", "oldest", "newest", "id", "id reversed"])
SMALL_LIMITS = st.sampled_from([2, 3, 5])


@pytest.mark.parametrize("meaning", MEANINGS)
@given(data=st.data(), limit=SMALL_LIMITS, walkers=st.sampled_from([1, 4]), order=ORDERS)
async def test_seconds_with_fewer_rows_than_the_limit_are_never_saturated(
    meaning: str, data: st.DataObject, limit: int, walkers: int, order: Any
) -> None:
    """Seconds with fewer rows than the limit are read, even beside equally crowded ones."""
    nearly_full = st.sampled_from([limit - 1, limit - 1, 1, 0])
    sizes = data.draw(st.lists(nearly_full, min_size=2, max_size=8))
    times = [BASE + second for second, size in enumerate(sizes) for _ in range(size)]
    after = BASE + data.draw(st.sampled_from([-3, -1, 0, 1]), "after")
    before = max(after, BASE + len(sizes) + data.draw(st.sampled_from([-2, -1, 0, 3]), "before"))
    rules = Rules(order=order, slowness=3, **MEANINGS[meaning])
    service = ListService(rows=rows_at(times), now=LATER, rules=rules)
    async with serving(service) as client:
        paginator = walk(client, after, before, limit=limit, concurrency=walkers)
        found = await ids_of(paginator)
    assert len(found) == len(set(found))
    assert set(found) == service.truth(after, before)
    assert paginator.saturated == ()


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("gap", [1, 2, 3, 4, 500, DAY])
async def test_saturated_seconds_that_lie_apart_are_each_named(
    gap: int, concurrency: int, meaning: str
) -> None:
    """Three imports, however far from each other, are reported, and all other rows yielded."""
    crowds = [BASE + 5 + number * gap for number in range(3)]
    quiet = [BASE + 3, BASE + 30, BASE + 400, BASE + 3 * DAY]
    rules = Rules(order="random", **MEANINGS[meaning])
    service = ListService(rows=rows_at([*crowds * 30, *quiet]), now=LATER, rules=rules)
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, LATER, limit=10, concurrency=concurrency)
        with pytest.raises(SaturatedWindowError) as caught:
            await collect(paginator, found)
    named = {window.after for window in caught.value.windows}
    assert set(crowds) <= named
    # Where both bounds are inclusive, no page holds the seconds beside two crowded ones.
    assert all({second - 1, second, second + 1} & set(crowds) for second in named)
    assert {key for key in service.ids if service.rows[key] not in named} <= set(found)


@given(data=st.data(), limit=st.sampled_from([3, 5]), walkers=WALKERS, order=ORDERS)
async def test_a_saturated_second_is_named_after_everything_else(
    data: st.DataObject, limit: int, walkers: int, order: Any
) -> None:
    """Seconds with as many rows as the limit are reported; all other rows are yielded."""
    meaning = data.draw(st.sampled_from(list(MEANINGS)), "meaning")
    on_saturated: Any = data.draw(st.sampled_from(["raise", "report"]), "on_saturated")
    crowd = st.sampled_from([limit, 3 * limit, limit - 1, 1, 0])
    sizes = data.draw(st.lists(crowd, min_size=1, max_size=4))
    quiet = data.draw(st.lists(st.integers(10, 90), max_size=10, unique=True))
    times = [BASE + second for second, size in enumerate(sizes) for _ in range(size)]
    rules = Rules(order=order, slowness=3, **MEANINGS[meaning])
    service = ListService(
        rows=rows_at(times + [BASE + second for second in quiet]), now=LATER, rules=rules
    )
    full = {BASE + second for second, size in enumerate(sizes) if size >= limit}
    found: list[str] = []
    carried: list[str] = []
    async with serving(service) as client:
        paginator = walk(
            client,
            BASE - 3,
            BASE + 100,
            limit=limit,
            concurrency=walkers,
            on_saturated=on_saturated,
        )
        try:
            await collect(paginator, found)
            assert on_saturated == "report" or not full
        except SaturatedWindowError as error:
            assert on_saturated == "raise"
            assert error.windows == paginator.saturated  # noqa: PT017 - it may also end well
            carried = [row.application_id for row in error.applications]
        asked = len(service.queries)
        assert await ids_of(paginator) == []
        assert len(service.queries) == asked
    assert len(found) == len(set(found))
    assert len(carried) == len(set(carried))
    named = {window.after for window in paginator.saturated}
    assert all(window.before == window.after + 1 for window in paginator.saturated)
    assert full <= named
    assert all({second - 1, second, second + 1} & full for second in named)
    assert {key for key in service.ids if service.rows[key] not in named} <= set(found)
    assert (paginator.progress.covered_fraction < 1.0) is bool(named)
    for second in full:
        rows = {key for key in service.ids if service.rows[key] == second}
        assert len(rows & {*carried, *found}) >= limit
        forms = {(second - 1, second), (second, second + 1), (second, second)}
        assert forms <= {(query.after, query.before) for query in service.queries}
    assert asked <= 60 + 120 * len(named)


@pytest.mark.parametrize("order", ["oldest", "newest", "random"])
@pytest.mark.parametrize("concurrency", [1, 2])
async def test_rows_beside_a_saturated_second_come_once(concurrency: int, order: Any) -> None:
    """With inclusive bounds both neighbours return its rows, and each is yielded once."""
    rules = Rules(order=order, lower_closed=True, upper_closed=True)
    for sizes in ([2, 3, 2], [1, 9, 1], [2, 3, 3, 2]):
        times = [BASE + second for second, size in enumerate(sizes) for _ in range(size)]
        service = ListService(rows=rows_at([*times, BASE + 50]), now=LATER, rules=rules)
        for on_saturated in ("raise", "report"):
            found: list[str] = []
            async with serving(service) as client:
                options: Any = {"concurrency": concurrency, "on_saturated": on_saturated}
                paginator = walk(client, BASE - 3, BASE + 90, limit=3, **options)
                with contextlib.suppress(SaturatedWindowError):
                    await collect(paginator, found)
            assert paginator.saturated
            assert len(found) == len(set(found))


@given(st.data(), SMALL_LIMITS, WALKERS)
async def test_every_row_is_yielded_or_its_second_is_reported(
    data: st.DataObject, limit: int, walkers: int
) -> None:
    """With capped windows and future bounds too, each row is yielded or its second reported."""
    sizes = data.draw(st.lists(st.integers(0, 2 * limit), min_size=1, max_size=4))
    times = [BASE + second for second, size in enumerate(sizes) for _ in range(size)]
    after = BASE + data.draw(st.sampled_from([-7, -1, 0]), "after")
    before = data.draw(st.sampled_from([None, BASE + len(sizes), BASE + 30]), "before")
    rules = data.draw(readings(40, oldest=None))
    assume(rules.future != "refuse" or before is None)
    now = BASE + len(sizes) + data.draw(st.sampled_from([-1, 0, 9]), "now")
    service = ListService(rows=rows_at(times), now=now, rules=rules)
    async with serving(service) as client:
        paginator = walk(
            client, after, before, limit=limit, concurrency=walkers, on_saturated="report"
        )
        found = set(await ids_of(paginator))
    assert not service.overran
    named = {window.after for window in paginator.saturated}
    end = service.now + 1 if before is None else min(before, service.now + 1)
    for key in service.truth(after, end) - found:
        assert service.rows[key] in named


async def test_a_page_of_exactly_limit_rows_is_full() -> None:
    """Ten rows for a limit of ten may hide an eleventh, so the window is split."""
    service = ListService(rows=rows_at([BASE + 60 * n for n in range(11)]), now=LATER)
    async with serving(service) as client:
        found = await ids_of(walk(client, BASE - 1, BASE + 601, limit=10))
        assert sorted(found) == sorted(service.ids)
        del service.rows[found[0]]
        found = await ids_of(walk(client, BASE - 1, BASE + 601, limit=10))
        assert sorted(found) == sorted(service.ids)
        pages = [(query, page) for query, page in service.pages if len(page.ids) == 10]
        spans = [(query.after, query.before) for query, _ in service.pages]
    assert len(pages) == 2
    assert all(spans.count((query.after, query.before)) == 2 for query, _ in pages)


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_service_that_ignores_the_limit_loses_nothing(concurrency: int) -> None:
    """A page with more rows than the limit counts as full, and its window is split."""
    chance = Random(3)
    service = ListService(
        rows=rows_at([BASE + chance.randrange(3_000) for _ in range(120)]), now=LATER
    )
    service.rows |= {f"crowd-{number}": BASE + 1_000 for number in range(30)}

    def unlimited(query: Query, page: Page) -> Outcome:
        keys = service.truth(query.after or 0, query.before or 0)
        return Page(after=page.after, before=page.before, ids=tuple(sorted(keys)))

    service.twist = unlimited
    async with serving(service) as client:
        paginator = walk(
            client,
            BASE - 1,
            BASE + 3_000,
            limit=10,
            concurrency=concurrency,
            on_saturated="report",
        )
        found = await ids_of(paginator)
    assert sorted(found) == sorted(service.ids)
    assert Window(BASE + 1_000, BASE + 1_001) in paginator.saturated


async def test_every_request_carries_the_limit() -> None:
    """The limit is sent with each request, even where it is the default."""
    service = ListService(rows=rows_at([BASE + 60 * n for n in range(30)]), now=LATER)
    async with serving(service) as client:
        await ids_of(walk(client, BASE - 1, None))
        await ids_of(walk(client, BASE - 1, None, limit=10))
    limits = [query.sent["limit"] for query in service.queries]
    assert set(limits) == {"1000", "10"}
    assert limits == sorted(limits, reverse=True)


def crowded(count: int) -> ListService:
    """Return a service with this many rows in one second, among sparse ones."""
    times = [BASE + 50] * count + [BASE + 7 * n for n in range(7)]
    return ListService(rows=rows_at(times), now=LATER)


def is_narrow(query: Query) -> bool:
    """Return whether a request is one of the narrower windows around the crowded second."""
    width = (query.before or 0) - (query.after or 0)
    return width <= 1 and BASE + 48 <= (query.after or 0) <= BASE + 51


@pytest.mark.parametrize("shift", [(-1, 0), (0, 1), (-1, 1), (1, 0), (0, -1)])
@pytest.mark.parametrize("on_saturated", ["raise", "report"])
async def test_a_narrower_window_with_a_wrong_echo_proves_nothing(
    shift: tuple[int, int], on_saturated: str
) -> None:
    """A narrower window whose echo has other bounds is not trusted, even with all rows."""
    service = crowded(25)
    crowd = sorted(key for key in service.ids if service.rows[key] == BASE + 50)

    def lie(query: Query, page: Page) -> Outcome:
        if not is_narrow(query):
            return page
        # The first ten are the full page; each narrower window gives five of them and is not full.
        half = crowd[:5] if query.after == BASE + 49 else crowd[5:10]
        first, last = shift
        after, before = (query.after or 0) + first, (query.before or 0) + last
        return Page(after=after, before=before, ids=tuple(half))

    service.twist = lie
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 200, limit=10, on_saturated=on_saturated)
        try:
            await collect(paginator, found)
        except SaturatedWindowError as error:
            assert on_saturated == "raise"
            found += [row.application_id for row in error.applications]
    assert Window(BASE + 50, BASE + 51) in paginator.saturated
    assert set(crowd[:10]) <= set(found)
    assert len(service.queries) < 200


@pytest.mark.parametrize("shown", [0, 3, 9])
async def test_a_narrower_window_that_misses_known_rows_proves_nothing(shown: int) -> None:
    """A reply with fewer rows than the full page already gave is not trusted."""
    service = crowded(25)

    def lie(query: Query, page: Page) -> Outcome:
        if not is_narrow(query):
            return page
        return Page(after=page.after, before=page.before, ids=page.ids[:shown])

    service.twist = lie
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 200, limit=10)
        found: list[str] = []
        with pytest.raises(SaturatedWindowError) as caught:
            await collect(paginator, found)
    assert Window(BASE + 50, BASE + 51) in caught.value.windows
    clear = {key for key in service.ids if service.rows[key] != BASE + 50}
    assert clear <= set(found)
    assert len(caught.value.applications) >= 10
    assert len(service.queries) < 200


@pytest.mark.parametrize("status", [400, 422])
async def test_a_second_stays_saturated_if_narrower_windows_are_refused(status: int) -> None:
    """If the service refuses empty windows the walk does not fail; it reports the second."""
    service = crowded(25)
    service.twist = lambda query, page: status if is_narrow(query) else page
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 200, limit=10)
        with pytest.raises(SaturatedWindowError) as caught:
            await collect(paginator, found)
    assert caught.value.windows == (Window(BASE + 50, BASE + 51),)
    assert {row.application_id for row in caught.value.applications}.isdisjoint(found)
    assert len(found) == 7


async def test_an_update_while_a_second_is_narrowed_does_not_saturate_it() -> None:
    """The second is requested again: one concurrent update does not fail the walk."""
    rules = Rules(lower_closed=True, upper_closed=True)
    times = [BASE + second for second in (4, 5, 6) for _ in range(6)]
    service = ListService(rows=rows_at(times), now=BASE + 100, rules=rules)
    moving = [key for key in service.ids if service.rows[key] == BASE + 4]

    def move() -> None:
        query = service.queries[-1]
        if query.before is not None and query.before - (query.after or 0) < 2 and moving:
            service.touch(moving.pop())

    service.before_answer = move
    async with serving(service) as client:
        paginator = walk(client, BASE, None, limit=10, concurrency=1)
        found = await ids_of(paginator)
    assert len(moving) < 6
    assert paginator.saturated == ()
    assert set(found) == service.ids


async def test_updates_while_many_seconds_are_narrowed_saturate_none_of_them() -> None:
    """Twelve crowded seconds, of each of which one row moves, are all read."""
    rules = Rules(lower_closed=True, upper_closed=True)
    crowds = [BASE + 9 * number for number in range(12)]
    times = [second + n for second in crowds for n in (4, 5, 6) for _ in range(6)]
    service = ListService(rows=rows_at(times), now=BASE + 1_000, rules=rules)
    moved: set[int] = set()

    def move() -> None:
        query = service.queries[-1]
        after, before = query.after or 0, query.before or LATER
        for key, second in service.rows.items():
            crowd = (second - BASE) // 9
            if before - after < 2 and second in (after, before) and crowd not in moved:
                moved.add(crowd)
                service.now += 1
                service.touch(key)
                break

    service.before_answer = move
    async with serving(service) as client:
        paginator = walk(client, BASE, None, limit=10, concurrency=1)
        found = await ids_of(paginator)
    assert len(moved) == len(crowds)
    assert paginator.saturated == ()
    assert set(found) == service.ids


@pytest.mark.parametrize("before", [None, BASE + 20 * DAY])
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_service_that_ignores_the_bounds_is_an_error(
    before: int | None, concurrency: int
) -> None:
    """The same rows for every window are detected early, not after a billion requests."""
    service = ListService(rows=rows_at([BASE] * 10), now=LATER, most_requests=500)
    keys = tuple(service.rows)

    def always(query: Query, page: Page) -> Outcome:
        return Page(after=page.after, before=page.before, ids=keys)

    service.twist = always
    async with serving(service) as client:
        with pytest.raises(UnexpectedResponseError):
            await ids_of(walk(client, None, before, limit=10, concurrency=concurrency))
    assert not service.overran


@given(st.data(), WALKERS)
async def test_contradictory_pages_end_in_an_error_or_in_reported_seconds(
    data: st.DataObject, walkers: int
) -> None:
    """Random contradictions of rows, counts and echoes never make a walk loop forever."""
    chance = Random(data.draw(st.integers(0, 2**32)))
    rules = data.draw(readings(40, oldest=None, widest=None))
    service = ListService(
        rows=rows_at([BASE + chance.randrange(40) for _ in range(30)]),
        now=BASE + 60,
        rules=rules,
        most_requests=3_000,
    )

    def lie(query: Query, page: Page) -> Outcome:
        if chance.random() < 0.6:
            return page
        shift = chance.choice([0, 0, 0, -1, 1, -30, 30])
        ids = chance.sample(sorted(service.ids), chance.choice([0, 3, 5, 8]))
        return Page(after=page.after + shift, before=page.before + shift, ids=tuple(ids))

    service.twist = lie
    async with serving(service) as client:
        paginator = walk(
            client, BASE - 1, BASE + 45, limit=5, concurrency=walkers, on_saturated="report"
        )
        try:
            await ids_of(paginator)
        except IncomeClientError as error:
            assert isinstance(error, UnexpectedResponseError)  # noqa: PT017 - it may also end well
    assert not service.overran
