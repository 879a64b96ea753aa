"""Promise 5: a walk trusts the window that the service echoes, and requests the rest."""

from collections.abc import Callable
from datetime import timedelta
from itertools import product
from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client import MemoryCheckpointStore, UnexpectedResponseError
from income_client.records.applications import ApplicationPage
from income_client.records.window import EPOCH, Window
from income_client.walk.windows import Answer, Bounds, split_by_echo
from tests.support.listing import (
    BASE,
    DAY,
    Listing,
    ListService,
    Outcome,
    Page,
    Query,
    rows_at,
    serving,
)
from tests.support.walks import (
    CHANCES,
    LIMITS,
    MEANINGS,
    WALKERS,
    DryWalk,
    collect,
    dry_walk,
    readings,
    walk,
    walks,
)

HOUR = 3_600
FIFTY = range(0, 50 * 97, 97)
"""Seconds after the first at which each of fifty rows was updated."""

# One page

OPEN = Window(100, 150)
EDGE = Window(100, 101)
ASKED = Window(100, 200)
NOTHING = Window(0, 0)

# What was asked for, the upper bound that was sent, the echo; what it covers, and what is left.
# fmt: off
COVERED: dict[str, tuple[Window, int | None, Window, Window, list[Window]]] = {
    "as asked":               (ASKED, 200, Window(99, 200), ASKED, []),
    "wider at both ends":     (ASKED, 200, Window(0, 900), ASKED, []),
    "cut at its start":       (ASKED, 200, Window(149, 200), Window(150, 200), [Window(100, 150)]),
    "cut at its end":         (ASKED, 200, Window(99, 150), Window(100, 150), [Window(150, 200)]),
    "cut at both":            (ASKED, 200, Window(119, 150), Window(120, 150),
                               [Window(100, 120), Window(150, 200)]),
    "nothing so old is kept": (ASKED, 200, Window(500, 500), ASKED, []),
    "the same, end as asked": (ASKED, 200, Window(500, 200), ASKED, []),
    "the present is earlier": (ASKED, 200, Window(99, 99), ASKED, []),
    "only the last second":   (ASKED, 200, Window(199, 200), NOTHING,
                               [Window(100, 199), Window(199, 200)]),
    "one second at the edge of what is kept": (EDGE, 101, Window(100, 101), EDGE, []),
    "no upper bound":         (OPEN, None, Window(99, 150), OPEN, []),
}
# fmt: on


@pytest.mark.parametrize(
    ("asked", "before", "echo", "covered", "left"), COVERED.values(), ids=COVERED
)
def test_only_what_was_applied_is_covered(
    asked: Window, before: int | None, echo: Window, covered: Window, left: list[Window]
) -> None:
    """The seconds strictly between the echoed bounds are covered.

    The others are asked for again.
    """
    found, rest = split_by_echo(asked, Bounds(99, before), echo)
    assert rest == left
    assert found == covered or not (found or covered)


@pytest.mark.parametrize("echo", [(500, 600), (10, 60), (201, 300), (10, 10), (99, 50), (600, 500)])
def test_an_echo_of_another_window_is_an_error(echo: tuple[int, int]) -> None:
    """A page about other seconds is never taken for an empty one."""
    with pytest.raises(UnexpectedResponseError) as caught:
        split_by_echo(ASKED, Bounds(99, 200), Window(*echo))
    assert (caught.value.call, caught.value.retryable) == ("list_applications", True)


def test_a_fraction_of_a_second_never_makes_an_echo_wider() -> None:
    """The lower bound is rounded up and the upper one down."""
    moment = EPOCH + timedelta(seconds=10.5)
    page = ApplicationPage(updated_after=moment, updated_before=moment, applications=())
    assert Answer.of(page, 10, None).echo == Window(11, 10)


# Whole walks


def applied(listing: Listing, after: int, before: int, limit: int) -> Page:
    """Answer for other bounds than the requested ones, and echo those."""
    page = listing.page(Query(after=after, before=before, limit=limit))
    assert isinstance(page, Page)
    return page


@given(walks(is_open=[False], oldest=None, widest=None), st.sampled_from(["start", "end", "both"]))
def test_windows_cut_short_at_random_lose_nothing(walked: DryWalk, cut: str) -> None:
    listing, chance, last = walked.listing, walked.listing.chance, walked.listing.now
    times = sorted(listing.rows.values())
    listing.now += 3 * DAY

    def cut_short(query: Query, page: Page) -> Outcome:
        after, before = page.after, page.before
        if before - after > 4 and chance.random() < 0.5:
            # Often at the second of a row, which must be in one of the two pages.
            if cut != "end":
                within = [second for second in times if after < second < before - 2]
                third = after + chance.randint(1, (before - after) // 3)
                after = chance.choice([*within, third])
            if cut != "start":
                within = [second for second in times if after + 2 <= second < before]
                before = chance.choice([*within, chance.randint(after + 2, before)])
        return applied(listing, after, before, query.limit)

    listing.twist = cut_short
    assert sorted(walked.run().ids) == sorted(listing.truth(BASE - 1, last))
    # Without its `Date` the service does not say that all of the span has passed.
    has_date = listing.rules.date_ahead is not None
    span = Window(BASE - 1, last) if has_date else walked.planner.span
    assert not walked.planner.covered.gaps(span)


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("cut", ["start", "end"])
def test_narrow_windows_are_walked_one_by_one(cut: Any, meaning: str) -> None:
    """The walk takes about as many requests as needed; rows at the edge of windows come once."""
    listing = Listing.of(range(50), widest=3, cut=cut, **MEANINGS[meaning])
    walked = dry_walk(listing, BASE - 1, BASE + 50, limit=60, walkers=3).run()
    assert sorted(walked.ids) == sorted(listing.ids)
    assert walked.planner.requests < 40
    assert (walked.planner.duplicates > 0) is (meaning != "both exclusive")


@given(st.data(), LIMITS, WALKERS, st.integers(0, 90), st.integers(0, 90))
def test_wider_windows_hide_nothing(
    data: st.DataObject, limit: int, walkers: int, earlier: int, later: int
) -> None:
    """A service that rounds windows outwards returns each requested row once."""
    gaps = data.draw(st.lists(st.integers(400, 2_400), max_size=30), "gaps")
    times = [BASE + sum(gaps[: number + 1]) for number in range(len(gaps))]
    last = BASE + sum(gaps)
    rules = data.draw(readings(last - BASE, oldest=None, widest=None, future="accept"))
    listing = Listing(rows=rows_at(times), now=last + 3 * DAY, rules=rules)
    listing.twist = lambda query, page: applied(
        listing, page.after - earlier, page.before + later, query.limit
    )
    walked = dry_walk(listing, BASE - 1, last, limit=limit, walkers=walkers).run()
    assert len(walked.ids) == len(set(walked.ids))
    assert listing.truth(BASE - 1, last) <= set(walked.ids)
    assert set(walked.ids) <= listing.truth(BASE - 1 - earlier, last + later)


@given(
    chance=CHANCES,
    walkers=WALKERS,
    oldest=st.sampled_from([-500, 0, 100, 4_999, 9_000]).map(BASE.__add__),
    pace=st.sampled_from([0, 120]),
    before=st.sampled_from([None, BASE + 5_000]),
)
def test_what_is_no_longer_kept_is_passed_over(
    chance: Random, walkers: int, oldest: int, pace: int, before: int | None
) -> None:
    """Rows that the service keeps to the end are yielded, though it deletes more meanwhile."""
    listing = Listing.of((chance.randrange(5_000) for _ in range(50)), 9_500, order="random")
    listing.chance = chance

    def forget(query: Query, page: Page) -> Outcome:
        nonlocal oldest
        oldest += chance.randint(0, pace)
        return applied(listing, max(page.after, oldest), page.before, query.limit)

    listing.twist = forget
    walked = dry_walk(listing, BASE - 1, before, limit=8, walkers=walkers).run()
    assert listing.truth(max(oldest, BASE - 1), BASE + 9_501) <= set(walked.ids)
    assert len(walked.ids) == len(set(walked.ids))
    assert not walked.planner.covered.gaps(Window(BASE - 1, before or BASE + 9_498))


@pytest.mark.parametrize("widest", [1, 2])
def test_windows_too_narrow_to_prove_anything_are_an_error(widest: int) -> None:
    """A service that serves one or two seconds per window raises, and hides nothing."""
    listing = Listing.of(range(60), 900, widest=widest, cut="end")
    with pytest.raises(UnexpectedResponseError, match=f"cuts windows down to {widest} s"):
        dry_walk(listing, BASE - 1, BASE + 60, limit=10).run()


# Pages about another window


ELSEWHERE: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "all later": lambda after, before: (before + 5_000, before + 6_000),
    "all earlier": lambda after, before: (after - 6_000, after - 5_000),
    "nothing before the start": lambda after, before: (after - 50, after - 50),
    "ends before it starts": lambda after, before: (before + 10, after - 10),
    "a day earlier": lambda after, before: (after - DAY, before - DAY),
    "another zone": lambda after, before: (after - HOUR, before - HOUR),
}


@pytest.mark.parametrize("before", [None, BASE + 5_000])
@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_a_page_about_another_window_covers_nothing(elsewhere: str, before: int | None) -> None:
    """Whichever page it is: it raises or is requested again, and the walk can be continued."""
    errors = 0
    for number, walkers, days in product((1, 2, 5), (1, 4), (0, 30)):
        listing = Listing.of(FIFTY, 9_000 + days * DAY)

        def lie(query: Query, page: Page, number: int = number) -> Outcome:
            if len(listing.queries) != number:  # noqa: B023 - it is called within the turn
                return page
            after, before = ELSEWHERE[elsewhere](page.after, page.before)
            return applied(listing, after, before, query.limit)  # noqa: B023

        listing.twist = lie
        walked = dry_walk(listing, BASE - 1, before, limit=10, walkers=walkers)
        try:
            walked.run()
        except UnexpectedResponseError as error:
            assert error.retryable  # noqa: PT017 - not every page is an error
            errors += 1
            walked.run()
        assert sorted(walked.ids) == sorted(listing.ids)
    assert errors


# Over sockets


@pytest.mark.parametrize(
    ("until", "before"), [(None, -62_135_596_800), (None, 0), (None, None), (BASE + 5_000, 0)]
)
async def test_an_echo_at_the_end_of_the_calendar_is_an_error(
    until: int | None, before: int | None
) -> None:
    """The seconds after it cannot be requested, and the error says so."""
    service = ListService.of([1], DAY)

    def spoil(_: Query, page: Page) -> Outcome:
        upper = page.before if before is None else before
        return Page(after=253_402_300_799, before=upper, ids=())

    service.twist = spoil
    async with serving(service) as client:
        with pytest.raises(UnexpectedResponseError, match="calendar"):
            await collect(walk(client, BASE - 1, until), [])
        poller = client.poll(MemoryCheckpointStore(), start="1970-01-01", once=True)
        with pytest.raises(UnexpectedResponseError):
            await anext(poller)
    assert len(service.queries) < 100


# A widest span

WEEK = 7 * DAY


def narrowed(cut: Any, widest: int, walkers: int, *, is_open: bool = False) -> DryWalk:
    """Prepare a walk over 400 weeks of a service that cuts every window, with rows at the end."""
    chance = Random(5)
    times = [399 * WEEK + chance.randrange(WEEK) for _ in range(200)]
    listing = Listing.of(times, 400 * WEEK, widest=widest, cut=cut)
    before = None if is_open else listing.now
    return dry_walk(listing, BASE, before, limit=60, walkers=walkers)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("cut", ["start", "end"])
def test_walkers_work_side_by_side_where_every_span_is_narrowed(cut: str, is_open: bool) -> None:
    """Each window is asked for once, and only the ids beside what is planned are remembered."""
    walked = narrowed(cut, WEEK, 8, is_open=is_open)
    steps = side_by_side = most_pages = 0
    while walked.step():
        steps += 1
        side_by_side += len(walked.in_flight) == 7
        most_pages = max(most_pages, len(walked.planner._overlap._pages))
    assert sorted(walked.ids) == sorted(walked.listing.ids)
    assert steps <= 1.05 * 400 + 15
    assert side_by_side > 0.9 * steps
    assert most_pages < 4 * 8


def test_pages_whose_spans_are_narrowed_by_changing_widths_are_not_remembered() -> None:
    """Each echo raises the lower bound, so that a page has no row of the seconds before it."""
    walked = narrowed("start", WEEK, 1)
    listing, chance = walked.listing, Random(7)

    def change_width() -> None:
        listing.rules = evolve(listing.rules, widest=chance.randrange(DAY, WEEK))

    listing.before_answer = change_width
    while walked.step():
        assert len(walked.planner._overlap._pages) < 8
    assert sorted(walked.ids) == sorted(listing.ids)


def test_a_span_that_is_narrowed_no_more_is_asked_for_whole_again() -> None:
    """The widest span is a hint: one that was mistaken costs few requests."""
    walked = narrowed("start", DAY, 1)
    for _ in range(40):
        walked.step()
    walked.listing.rules = evolve(walked.listing.rules, widest=None)
    walked.run()
    assert sorted(walked.ids) == sorted(walked.listing.ids)
    assert walked.planner.requests < 40 + 16 + 40


def test_the_first_day_that_a_service_keeps_is_no_widest_span() -> None:
    """A bound before that day costs one more request."""
    listing = Listing.of([390 * WEEK] * 3, 400 * WEEK, oldest=BASE + 389 * WEEK)
    walked = dry_walk(listing, BASE, listing.now, limit=60).run()
    assert sorted(walked.ids) == sorted(listing.ids)
    assert walked.planner.requests < 8
