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

from income_client import DecodeError, IncomeClient, MemoryCheckpointStore, UnexpectedResponseError
from income_client.emulator import Emulator
from income_client.records.applications import ApplicationPage
from income_client.records.window import EPOCH, Window
from income_client.testing import JumpingClock
from income_client.walk.windows import Answer, Bounds, split_by_echo
from tests.support.listing import (
    Listing,
    ListService,
    Outcome,
    Page,
    Query,
    Rules,
    rows_at,
    serving,
    text_of,
)
from tests.support.walk_data import (
    BASE,
    CHANCES,
    DAY,
    LIMITS,
    MEANINGS,
    WALKERS,
    collect,
    ids_of,
    listings,
    readings,
    walk,
)
from tests.support.walks import DryWalk, dry_walk

HOUR = 3_600

# One page

ASKED = Window(100, 200)
SENT = Bounds(99, 200)
NOTHING = Window(0, 0)

CASES = {
    "as asked": (Window(99, 200), Window(100, 200), []),
    "wider at both ends": (Window(0, 900), Window(100, 200), []),
    "cut at its start": (Window(149, 200), Window(150, 200), [Window(100, 150)]),
    "cut at its end": (Window(99, 150), Window(100, 150), [Window(150, 200)]),
    "cut at both": (Window(119, 150), Window(120, 150), [Window(100, 120), Window(150, 200)]),
    "nothing so old is kept": (Window(500, 500), Window(100, 200), []),
    "nothing so old is kept, end as asked": (Window(500, 200), Window(100, 200), []),
    "the present is earlier": (Window(99, 99), Window(100, 200), []),
    "only the last second lies within": (
        Window(199, 200),
        NOTHING,
        [Window(100, 199), Window(199, 200)],
    ),
}


@pytest.mark.parametrize(("echo", "covered", "left"), CASES.values(), ids=CASES)
def test_only_what_was_applied_is_covered(
    echo: Window, covered: Window, left: list[Window]
) -> None:
    """What lies strictly between the echoed bounds is answered for, and the rest is left."""
    found, rest = split_by_echo(ASKED, SENT, echo)
    assert rest == left
    assert found == covered or not (found or covered)


@pytest.mark.parametrize(
    "echo",
    [
        Window(500, 600),
        Window(10, 60),
        Window(201, 300),
        Window(10, 10),
        Window(99, 50),
        Window(600, 500),
    ],
)
def test_an_echo_of_another_window_is_an_error(echo: Window) -> None:
    """A page about other seconds is never taken for an empty one."""
    with pytest.raises(UnexpectedResponseError):
        split_by_echo(ASKED, SENT, echo)


def test_one_second_that_the_service_has_nothing_for_is_settled() -> None:
    """At the edge of what is kept a window cannot be cut further; the walk continues."""
    window = Window(100, 101)
    assert split_by_echo(window, Bounds(99, 101), Window(100, 101)) == (window, [])


def test_an_open_question_answers_up_to_what_was_echoed() -> None:
    """Without an upper bound the echo decides."""
    covered, _ = split_by_echo(Window(100, 150), Bounds(99, None), Window(99, 150))
    assert covered == Window(100, 150)


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


@given(st.data(), LIMITS, WALKERS, st.sampled_from(["start", "end", "both"]))
def test_windows_cut_short_at_random_lose_nothing(
    data: st.DataObject, limit: int, walkers: int, cut: str
) -> None:
    """However short the service cuts a window, at either end, the rest is requested again."""
    listing = data.draw(listings(Listing, limit, oldest=None, widest=None))
    times, chance, last = sorted(listing.rows.values()), listing.chance, listing.now
    listing.now += 3 * DAY

    def cut_short(query: Query, page: Page) -> Outcome:
        after, before = page.after, page.before
        if before - after > 4 and chance.random() < 0.7:
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
    walked = dry_walk(listing, BASE - 1, last, limit=limit, walkers=walkers).run()
    assert len(walked.ids) == len(set(walked.ids))
    assert set(walked.ids) == listing.truth(BASE - 1, last)
    # Without its `Date` the service does not say that all of the span has passed.
    has_date = listing.rules.date_ahead is not None
    span = Window(BASE - 1, last) if has_date else walked.planner.span
    assert not walked.planner.covered.gaps(span)


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("cut", ["start", "end"])
@pytest.mark.parametrize("widest", [3, 4, 7])
def test_a_window_that_ends_at_the_second_of_a_row_hides_none(
    widest: int, cut: Any, meaning: str
) -> None:
    """With a row in every second, each cut lies at the second of one, which is yielded once."""
    rules = Rules(widest=widest, cut=cut, **MEANINGS[meaning])
    times = [BASE + n for n in range(30)]
    listing = Listing(rows=rows_at(times), now=BASE + 10 * DAY, rules=rules)
    walked = dry_walk(listing, BASE - 1, BASE + 30, limit=50).run()
    assert sorted(walked.ids) == sorted(listing.ids)
    assert walked.planner.rows == len(listing.ids)
    assert (walked.planner.duplicates > 0) is (meaning != "both exclusive")


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("cut", ["start", "end"])
@pytest.mark.parametrize("before", [None, BASE + 5_000])
def test_windows_of_ten_minutes_at_most_are_walked_one_by_one(
    before: int | None, cut: Any, meaning: str
) -> None:
    """A service with a maximum window is walked in full, in about as many requests as needed."""
    times = [BASE + 97 * n for n in range(50)]
    rules = Rules(widest=600, cut=cut, **MEANINGS[meaning])
    listing = Listing(rows=rows_at(times), now=BASE + 5_000, rules=rules)
    walked = dry_walk(listing, BASE - 1, before, limit=1000, walkers=3).run()
    assert sorted(walked.ids) == sorted(listing.ids)
    assert walked.planner.requests < 40


@given(st.data(), LIMITS, WALKERS, st.integers(0, 90), st.integers(0, 90))
def test_wider_windows_hide_nothing(
    data: st.DataObject, limit: int, walkers: int, earlier: int, later: int
) -> None:
    """From a service that rounds windows outwards, each requested row comes once."""
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


@pytest.mark.parametrize("walkers", [1, 4])
@pytest.mark.parametrize("oldest", [BASE - 5, BASE, BASE + 100, BASE + 4_999, BASE + 9_000])
@pytest.mark.parametrize("before", [None, BASE + 5_000])
def test_what_is_no_longer_kept_is_passed_over(
    before: int | None, oldest: int, walkers: int
) -> None:
    """A lower bound that the service raises to its retention limit is not an error."""
    times = [BASE + 97 * n for n in range(50)]
    rules = Rules(oldest=oldest, order="random")
    listing = Listing(rows=rows_at(times), now=BASE + 9_500, rules=rules)
    walked = dry_walk(listing, BASE - 1, before, limit=10, walkers=walkers).run()
    assert sorted(walked.ids) == sorted(listing.truth(BASE - 1, BASE + 9_501))
    assert not walked.planner.covered.gaps(Window(BASE - 1, before or BASE + 9_498))


@given(CHANCES, WALKERS)
def test_a_moving_retention_limit_loses_nothing_that_is_kept(chance: Random, walkers: int) -> None:
    """Everything that the service still keeps at the end of the walk was yielded."""
    times = [BASE + chance.randrange(5_000) for _ in range(50)]
    listing = Listing(rows=rows_at(times), now=BASE + 3 * DAY, chance=chance)
    oldest = BASE - 500

    def forget(query: Query, page: Page) -> Outcome:
        nonlocal oldest
        oldest += chance.randrange(120)
        return applied(listing, max(page.after, oldest), page.before, query.limit)

    listing.twist = forget
    walked = dry_walk(listing, BASE - 1, BASE + 5_000, limit=8, walkers=walkers).run()
    assert listing.truth(max(oldest, BASE - 1), BASE + 5_000) <= set(walked.ids)
    assert len(walked.ids) == len(set(walked.ids))


# Pages about another window


def run_through_an_error(walked: DryWalk) -> bool:
    """Walk to the end, again after an error; tell whether there was one."""
    try:
        walked.run()
    except UnexpectedResponseError as error:
        assert error.retryable  # noqa: PT017 - not every page is an error
        walked.listing.twist = lambda query, page: page
        walked.run()
        return True
    return False


@pytest.mark.parametrize("hours", [-6, 6, -1, 1, 14])
@pytest.mark.parametrize("before", [None, BASE + DAY])
def test_windows_of_another_zone_are_an_error_or_lose_nothing(
    before: int | None, hours: int
) -> None:
    """A service that applies bounds in another zone raises an error or is walked in full."""
    times = [BASE + 1_700 * n for n in range(50)]
    listing = Listing(rows=rows_at(times), now=BASE + DAY, most_requests=500)

    def shift(query: Query, page: Page) -> Outcome:
        before = listing.now if query.before is None else query.before + hours * HOUR
        return applied(listing, page.after + hours * HOUR, before, query.limit)

    listing.twist = shift
    walked = dry_walk(listing, BASE - 1, before, limit=10)
    run_through_an_error(walked)
    assert set(walked.ids) == listing.ids


ELSEWHERE: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "all later": lambda after, before: (before + 5_000, before + 6_000),
    "all earlier": lambda after, before: (after - 6_000, after - 5_000),
    "nothing before the start": lambda after, before: (after - 50, after - 50),
    "ends before it starts": lambda after, before: (before + 10, after - 10),
    "a day earlier": lambda after, before: (after - DAY, before - DAY),
}


@pytest.mark.parametrize("before", [None, BASE + 5_000])
@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_a_page_about_another_window_covers_nothing(elsewhere: str, before: int | None) -> None:
    """Whichever page it is: it raises or is requested again, and the walk can be continued."""
    errors = 0
    for number, walkers, days in product((1, 2, 3, 5, 8), (1, 4), (0, 30)):
        times = [BASE + 97 * n for n in range(50)]
        listing = Listing(rows=rows_at(times), now=BASE + 9_000 + days * DAY)

        def lie(query: Query, page: Page, number: int = number) -> Outcome:
            if len(listing.queries) != number:  # noqa: B023 - it is called within the turn
                return page
            after, before = ELSEWHERE[elsewhere](page.after, page.before)
            return applied(listing, after, before, query.limit)  # noqa: B023

        listing.twist = lie
        walked = dry_walk(listing, BASE - 1, before, limit=10, walkers=walkers)
        errors += run_through_an_error(walked)
        assert sorted(walked.ids) == sorted(listing.ids)
    assert errors


async def test_a_walk_is_iterated_again_after_a_page_about_another_window() -> None:
    """What was yielded before the error is not repeated, and nothing is left out."""
    service = ListService(rows=rows_at([BASE + 97 * n for n in range(50)]), now=BASE + 9_000)
    complete: list[Query] = []

    def lie(query: Query, page: Page) -> Outcome:
        if len(page.ids) < query.limit:
            complete.append(query)
        return evolve(page, after=BASE - DAY, before=BASE - DAY) if complete == [query] else page

    service.twist = lie
    found: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 5_000, limit=10)
        with pytest.raises(UnexpectedResponseError) as caught:
            await collect(paginator, found)
        assert caught.value.retryable
        assert paginator.progress.covered_fraction < 1.0
        await collect(paginator, found)
    assert sorted(found) == sorted(service.ids)


# Over sockets


MALFORMED: dict[str, Any] = {
    "no lower bound": {"after": None},
    "no upper bound": {"before": None},
    "null": {"before": "null"},
    "a number": {"before": "1700000000"},
    "empty": {"after": '""'},
    "words": {"after": '"yesterday"'},
    "no such day": {"before": '"2024-02-30T00:00:00"'},
    "the hour 24": {"before": '"2024-01-31T24:00:00"'},
    "a list": {"after": '["2024-01-31T00:00:00"]'},
}


@pytest.mark.parametrize("malformed", MALFORMED)
async def test_a_malformed_echo_is_an_error(malformed: str) -> None:
    """A page without a valid echo is never accepted."""
    service = ListService(rows=rows_at([BASE + 97 * n for n in range(50)]), now=BASE + 30 * DAY)
    service.twist = lambda query, page: evolve(page, ids=(), **MALFORMED[malformed])
    async with serving(service) as client:
        paginator = walk(client, BASE - 1, BASE + 5_000, limit=10)
        with pytest.raises(DecodeError):
            await collect(paginator, [])
        service.twist = lambda query, page: page
        assert set(await ids_of(paginator)) == service.ids


@pytest.mark.parametrize(
    ("until", "before"), [(None, -62_135_596_800), (None, 0), (None, None), (BASE + 5_000, 0)]
)
async def test_an_echo_at_the_end_of_the_calendar_is_an_error(
    until: int | None, before: int | None
) -> None:
    """The seconds after it cannot be requested, and the error says so."""
    service = ListService(rows=rows_at([BASE + 1]), now=BASE + DAY)

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


@pytest.mark.parametrize("meaning", ["both exclusive", "both inclusive"])
async def test_fractions_in_an_echo_make_it_narrower(meaning: str) -> None:
    """A bound between two seconds covers the whole seconds inside; the rest is requested."""
    times = [BASE + 7 * n for n in range(30)]
    service = ListService(
        rows=rows_at(times), now=BASE + 30 * DAY, rules=Rules(**MEANINGS[meaning])
    )

    def cut_fractions(query: Query, page: Page) -> Outcome:
        if page.before - page.after < 10:
            return page
        # The service applies bounds half a second further in: neither is the second of a row.
        first, last = page.after + 3, page.before - 3
        keys = [key for key, second in service.rows.items() if first <= second <= last]
        after, before = text_of(first - 1), text_of(last)
        return Page(
            after=f'"{after}.500000"', before=f'"{before}.500000"', ids=tuple(keys[: query.limit])
        )

    service.twist = cut_fractions
    async with serving(service) as client:
        found = await ids_of(walk(client, BASE - 1, BASE + 300, limit=50))
    assert sorted(found) == sorted(service.ids)


@pytest.mark.parametrize(
    "knobs", [{"default_span": 3_600}, {"default_span": 0}, {"max_span": 86_400}]
)
async def test_default_and_widest_spans_of_the_emulated_service_hide_nothing(
    knobs: dict[str, Any],
) -> None:
    """The service's defaults for unset bounds do not affect a walk."""
    clock = JumpingClock()
    async with (
        Emulator(60, clock=clock, days=20, **knobs) as service,
        IncomeClient(service.url, auth=service.basic, clock=clock) as client,
    ):
        after = None if "default_span" in knobs else "2026-06-01"
        found = await ids_of(client.list_applications(after, limit=20))
    assert sorted(found) == sorted(service.world.ids)


@pytest.mark.parametrize("seconds", [1, 2])
async def test_windows_too_narrow_to_prove_anything_are_an_error(seconds: int) -> None:
    """A service that serves one or two seconds per window raises, and hides nothing."""
    clock = JumpingClock()
    rules: dict[str, Any] = {"max_span": seconds, "span_clamp": "before"}
    async with (
        Emulator(60, clock=clock, days=0.01, **rules) as service,
        IncomeClient(service.url, auth=service.basic, clock=clock) as client,
    ):
        with pytest.raises(UnexpectedResponseError, match=f"cuts windows down to {seconds} s"):
            await ids_of(client.list_applications("2026-06-30T11:00", "2026-06-30T11:58"))
