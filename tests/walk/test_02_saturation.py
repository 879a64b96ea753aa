"""Promise 2: a full page proves nothing, and rows that cannot be read are reported, not dropped."""

import contextlib
from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st

from income_client import SaturatedWindowError, UnexpectedResponseError
from income_client.records import Window
from income_client.walk.windows import Answer, Bounds, FullSecond, Intervals, Saturation
from tests.support.listing import (
    BASE,
    DAY,
    Listing,
    ListService,
    Outcome,
    Page,
    Query,
    Rules,
    rows_at,
    serving,
)
from tests.support.walks import (
    CHANCES,
    MEANINGS,
    WALKERS,
    DryWalk,
    collect,
    dry_walk,
    ids_of,
    page_of,
    readings,
    walk,
)

LATER = BASE + 10 * DAY
ORDERS: st.SearchStrategy[Any] = st.sampled_from(
    ["random", "oldest", "newest", "id", "id reversed"]
)
SMALL_LIMITS = st.sampled_from([2, 3, 5])

# One second, and the narrower forms of the question about it

S = 100
LIMIT = 6
OUTER = Bounds(0, 1000)


def page(after: int, before: int, *rows: str, limit: int = LIMIT) -> Answer:
    """Make an answer with rows of these ids."""
    return Answer.of(page_of(after, before, dict.fromkeys(rows, 0)), limit, None)


def overfull(first: Answer, outer: Bounds = OUTER) -> FullSecond:
    """Begin with a full page."""
    asked = Bounds(first.echo.after, first.echo.before)
    return FullSecond(S, outer, asked, first, Saturation())


@given(st.tuples(*[st.integers(0, LIMIT + 2)] * 3), st.booleans(), st.booleans())
def test_a_second_is_covered_only_with_all_its_rows(
    sizes: tuple[int, int, int], lower: bool, upper: bool
) -> None:
    """The promise holds for every meaning of the bounds, and always if each second fits a page."""
    rows = rows_at([S + at - 1 for at in range(3) for _ in range(sizes[at])])
    rules = Rules(order="id", lower_closed=lower, upper_closed=upper)
    listing = Listing(rows=rows, now=LATER, rules=rules)

    def answer(form: Bounds) -> Answer:
        found = listing.page(Query(after=form.after, before=form.before, limit=LIMIT))
        assert isinstance(found, Page)
        return page(found.after, found.before, *found.ids)

    first = answer(Bounds(S - 1, S + 1))
    assume(first.is_full)
    second = overfull(first)
    while (form := second.next()) is not None:
        second.receive(form, answer(form))
    if second.covered:
        assert {key for key, at in rows.items() if at == S} <= set(second.rows)
    if all(size < LIMIT for size in sizes):
        assert second.covered


@pytest.mark.parametrize("shift", [None, (0, 0), (-1, 0), (0, 1), (-1, 1), (1, 0), (0, -1)])
def test_a_form_that_was_not_answered_exactly_proves_nothing(shift: tuple[int, int] | None) -> None:
    """The form was refused, or its page lacks a known row, or is about another window."""
    second = overfull(page(S - 1, S + 1, "a", limit=1))
    while (form := second.next()) is not None:
        if shift is None:
            second.refuse(form)
        else:
            after, before = form.after + shift[0], (form.before or 0) + shift[1]
            second.receive(form, page(after, before, *("a" if any(shift) else "")))
    assert not second.covered


def test_no_form_leaves_the_outer_bounds() -> None:
    """At the edge of the walk no neighbour's second is asked for."""
    second = overfull(page(S, S + 1, "a", limit=1), outer=Bounds(S, S + 1))
    asked = []
    while (form := second.next()) is not None:
        asked.append(form)
        second.receive(form, page(form.after, form.before or 0, "a"))
    assert asked == [Bounds(S, S)]
    assert second.covered


# Whole walks


def rows_per_second(sizes: list[int]) -> list[int]:
    """Return a second for each of so many rows in each second."""
    return [second for second, size in enumerate(sizes) for _ in range(size)]


def clear_rows(walked: DryWalk) -> set[str]:
    """Return the ids outside of saturated seconds."""
    named = {window.after for window in walked.planner.saturated}
    return {key for key, second in walked.listing.rows.items() if second not in named}


@given(data=st.data(), limit=st.sampled_from([3, 5]), walkers=WALKERS, is_kept=st.booleans())
def test_every_row_outside_of_saturated_seconds_is_yielded(
    data: st.DataObject, limit: int, walkers: int, is_kept: bool
) -> None:
    """A second is saturated only after each narrower question, and its known rows are kept."""
    meaning = data.draw(st.sampled_from(list(MEANINGS)), "meaning")
    sizes = data.draw(st.lists(st.sampled_from([limit, 3 * limit, limit - 1, 1, 0]), max_size=4))
    quiet = data.draw(st.lists(st.integers(10, 90), max_size=10, unique=True))
    order = data.draw(ORDERS)
    listing = Listing.of([*rows_per_second(sizes), *quiet], order=order, **MEANINGS[meaning])
    walked = dry_walk(
        listing, BASE - 3, BASE + 100, limit=limit, walkers=walkers, keep_saturated=is_kept,
    ).run()  # fmt: skip
    planner, ids = walked.planner, {*walked.ids, *walked.planner.withheld}
    assert len(walked.ids) == len(set(walked.ids))
    assert not is_kept or not planner.withheld
    full = {BASE + second for second, size in enumerate(sizes) if size >= limit}
    named = {window.after for window in planner.saturated}
    assert all(window.before == window.after + 1 for window in planner.saturated)
    assert full <= named
    assert all({second - 1, second, second + 1} & full for second in named)
    assert clear_rows(walked) <= set(walked.ids)
    assert all(planner.covered.gaps(window) for window in planner.saturated)
    assert planner.splits <= planner.requests - 4 * len(full)
    for second in full:
        rows = {key for key in listing.ids if listing.rows[key] == second}
        assert len(rows & ids) >= limit
        forms = {(second - 1, second), (second, second + 1), (second, second)}
        assert forms <= {(query.after, query.before) for query in listing.queries}
    assert planner.requests <= 60 + 120 * len(named)


@pytest.mark.parametrize("sizes", [[2, 3, 2], [1, 9, 1]])
def test_rows_beside_a_saturated_second_come_once(sizes: list[int]) -> None:
    """With inclusive bounds both neighbouring windows return the rows of the second."""
    listing = Listing.of([*rows_per_second(sizes), 50], **MEANINGS["both inclusive"])
    walked = dry_walk(listing, BASE - 3, BASE + 90, limit=3, walkers=2).run()
    assert walked.planner.saturated
    assert len(walked.ids) == len(set(walked.ids)) == walked.planner.rows


@pytest.mark.parametrize("on_saturated", ["raise", "report"])
async def test_a_saturated_second_is_named_after_everything_else(on_saturated: Any) -> None:
    """An error with its rows, or the walk itself, names the second.

    The walk then yields the rows.
    """
    service = ListService.of([*[5] * 9, *range(0, 100, 20)], slowness=3)
    found: list[str] = []
    carried: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 3, BASE + 100, limit=3, on_saturated=on_saturated)
        try:
            await collect(paginator, found)
            assert on_saturated == "report"
        except SaturatedWindowError as error:
            assert on_saturated == "raise"
            assert error.windows == paginator.saturated  # noqa: PT017 - it may also end well
            carried = [row.application_id for row in error.applications]
        asked = len(service.queries)
        assert await ids_of(paginator) == []
        assert len(service.queries) == asked
    assert paginator.saturated == (Window(BASE + 5, BASE + 6),)
    assert paginator.progress.covered_fraction < 1.0
    assert len(found) == len(set(found))
    assert len(found) + len(carried) == len({*found, *carried}) == 8


@given(st.data(), SMALL_LIMITS, WALKERS)
def test_every_row_is_yielded_or_its_second_is_reported(
    data: st.DataObject, limit: int, walkers: int
) -> None:
    """Capped windows and future bounds are included."""
    sizes = data.draw(st.lists(st.integers(0, 2 * limit), min_size=1, max_size=4))
    after = BASE + data.draw(st.sampled_from([-7, -1, 0]), "after")
    before = data.draw(st.sampled_from([None, BASE + len(sizes), BASE + 30]), "before")
    rules = data.draw(readings(40, oldest=None))
    assume(rules.future != "refuse" or before is None)
    now = len(sizes) + data.draw(st.sampled_from([-1, 0, 9]), "now")
    listing = Listing.of(rows_per_second(sizes), now)
    listing.rules, listing.chance = rules, data.draw(CHANCES)
    walked = dry_walk(listing, after, before, limit=limit, walkers=walkers).run()
    end = listing.now + 1 if before is None else min(before, listing.now + 1)
    assert listing.truth(after, end) & clear_rows(walked) <= set(walked.ids)


@given(WALKERS, CHANCES)
def test_a_service_that_ignores_the_limit_loses_nothing(walkers: int, chance: Random) -> None:
    """A page with more rows than the limit counts as full, and its window is split."""
    listing = Listing.of([*(chance.randrange(3_000) for _ in range(60)), *[1_000] * 30])
    listing.chance = chance

    def unlimited(query: Query, page: Page) -> Outcome:
        keys = listing.truth(query.after or 0, query.before or 0)
        return Page(after=page.after, before=page.before, ids=tuple(sorted(keys)))

    listing.twist = unlimited
    walked = dry_walk(
        listing, BASE - 1, BASE + 3_000, limit=10, walkers=walkers, keep_saturated=True
    ).run()
    assert sorted(walked.ids) == sorted(listing.ids)
    assert Window(BASE + 1_000, BASE + 1_001) in walked.planner.saturated


# A service that answers the narrower forms in some other way


async def test_a_second_stays_saturated_if_narrower_windows_are_refused() -> None:
    """The walk does not fail at a service that refuses empty windows; it reports the second."""
    service = ListService.of([*[50] * 25, *range(0, 49, 7)])

    def refuse_narrow(query: Query, page: Page) -> Page | int:
        is_last = page.before == BASE + 200
        return 422 if page.before - page.after <= 1 and not is_last else page

    service.twist = refuse_narrow
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 200, limit=10)
        with pytest.raises(SaturatedWindowError) as caught:
            await collect(paginator, found)
    assert caught.value.windows == (Window(BASE + 50, BASE + 51),)
    assert {row.application_id for row in caught.value.applications}.isdisjoint(found)
    assert len(found) == 7


@pytest.mark.parametrize(("seconds", "moves"), [(1, 6), (12, 1)])
def test_updates_while_seconds_are_narrowed_saturate_none_of_them(seconds: int, moves: int) -> None:
    """A second is requested again when its rows move, and each second has its own patience."""
    times = [9 * crowd + n for crowd in range(seconds) for n in (4, 5, 6) for _ in range(6)]
    listing = Listing.of(times, 1_000, **MEANINGS["both inclusive"])
    moved: list[int] = []

    def move() -> None:
        query = listing.queries[-1]
        after, before = query.after or 0, query.before or LATER
        for key, second in listing.rows.items():
            crowd = (second - BASE) // 9
            if before - after < 2 and second in (after, before) and moved.count(crowd) < moves:
                moved.append(crowd)
                listing.now += 1
                listing.touch(key)
                break

    listing.before_answer = move
    walked = dry_walk(listing, BASE, None, limit=10).run()
    assert set(moved) == set(range(seconds))
    assert walked.planner.saturated == []
    assert set(walked.ids) == listing.ids


@pytest.mark.parametrize("before", [None, BASE + 20 * DAY])
@pytest.mark.parametrize("walkers", [1, 4])
def test_a_service_that_ignores_the_bounds_is_an_error(before: int | None, walkers: int) -> None:
    """The error comes early and each time; a walk that continues has skipped no second."""
    listing = Listing.of([0] * 10)
    listing.most_requests = 1_000
    keys = tuple(listing.rows)
    listing.twist = lambda query, page: evolve(page, ids=keys)
    walked = dry_walk(listing, 0, before, limit=10, walkers=walkers)
    for _ in range(2):
        with pytest.raises(UnexpectedResponseError):
            walked.run()
        planner = walked.planner
        parts = [*planner.planned, *planner.saturated, *planner.covered]
        assert list(Intervals(parts)) == [planner.span]


def test_rows_that_move_from_one_full_second_to_another_contradict_nothing() -> None:
    """A job updates all of them twice: first they fill one second, then a later one."""
    listing = Listing.of([100] * 10, 110)
    walked = dry_walk(listing, BASE, None, limit=10, keep_saturated=True)

    def move() -> None:
        listing.now += 1
        if walked.planner.saturated and BASE + 100 in listing.rows.values():
            for key in listing.ids:
                listing.touch(key)

    listing.before_answer = move
    assert set(walked.run().ids) == listing.ids
    (moved_to,) = set(listing.rows.values())
    assert [window.after for window in walked.planner.saturated] == [BASE + 100, moved_to]


def test_a_full_page_about_another_window_saturates_nothing() -> None:
    """The clock is set back, and the service lowers both bounds to a present that is full."""
    listing = Listing.of([10, 500, 900], 1_000, **MEANINGS["both inclusive"], future="lower")
    walked = dry_walk(listing, BASE, None, limit=3)
    walked.step()
    listing.now = BASE + 200
    for key in listing.ids:
        listing.touch(key)
    with pytest.raises(UnexpectedResponseError, match="answered for"):
        walked.run()
    assert all(window.before <= BASE + 202 for window in walked.planner.saturated)


@given(st.data(), WALKERS)
def test_contradictory_pages_end_in_an_error_or_in_reported_seconds(
    data: st.DataObject, walkers: int
) -> None:
    """Random contradictions of rows, counts and echoes never make a walk loop forever."""
    chance = data.draw(CHANCES)
    listing = Listing.of((chance.randrange(40) for _ in range(30)), 60)
    listing.rules = data.draw(readings(40, oldest=None, widest=None))
    listing.chance, listing.most_requests = chance, 3_000

    def lie(query: Query, page: Page) -> Outcome:
        if chance.random() < 0.6:
            return page
        shift = chance.choice([0, 0, 0, -1, 1, -30, 30])
        ids = chance.sample(sorted(listing.ids), chance.choice([0, 3, 5, 8]))
        return Page(after=page.after + shift, before=page.before + shift, ids=tuple(ids))

    listing.twist = lie
    walked = dry_walk(listing, BASE - 1, BASE + 45, limit=5, walkers=walkers)
    with contextlib.suppress(UnexpectedResponseError):
        walked.run()
