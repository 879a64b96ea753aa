"""Promise 4: an open walk reads up to the present second, and updates during it lose nothing."""

from typing import Any

import pytest
from attrs import define, evolve, field
from hypothesis import assume, given
from hypothesis import strategies as st

from income_client import InvalidRequestError, UnexpectedResponseError
from income_client.records.window import Window
from tests.support.listing import (
    BASE,
    DAY,
    Listing,
    ListService,
    Outcome,
    Page,
    Query,
    list_rules,
    serving,
)
from tests.support.walks import (
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

FUTURES = ["accept", "lower", "refuse"]
END = 253_402_300_799
"""The last second of the year 9999."""


@given(walks(since=[0, 0, 1, 30], after=[-10, -1, 0, 1], is_open=[True]))
def test_an_open_walk_reads_up_to_the_present_second(walked: DryWalk) -> None:
    """Every row is yielded once, including those of the second in which the walk ends."""
    now, listing = walked.listing.now, walked.listing
    after = walked.planner.bounds.after
    assert sorted(walked.run().ids) == sorted(listing.truth(after, now + 1))


@pytest.mark.parametrize("meaning", MEANINGS)
def test_a_walk_that_is_followed_ends_at_the_present_that_is_echoed(meaning: str) -> None:
    """A walk whose first page holds every row makes one request.

    Any other walk asks for a last page.
    """
    listing = Listing.of(range(100), 90, **MEANINGS[meaning])
    followed = dry_walk(listing, BASE - 1, None, limit=1000, date_ahead=0).run()
    assert (followed.planner.requests, followed.planner.present) == (1, BASE + 89)
    assert set(followed.ids) == listing.truth(BASE - 1, BASE + 90)
    assert dry_walk(listing, BASE - 1, None, limit=1000).run().planner.requests == 2
    through_full = dry_walk(listing, BASE - 1, None, limit=20, date_ahead=0, walkers=3).run()
    assert len(through_full.ids) == len(set(through_full.ids)) >= 89
    for walked in (followed, through_full):
        assert list(walked.planner.covered) == [Window(BASE - 1, BASE + 89)]


# Updates


@define
class Updates:
    """Applications that are updated while a walk is under way."""

    listing: Listing
    limit: int
    until: int
    """Second from which on nothing is updated."""
    moves_again: bool
    """Whether an application may be updated more than once."""
    left: int = 40
    """Updates that are left; a walk that is chased for ever has no end."""
    moved: list[tuple[int, int, str]] = field(factory=list)
    """Before the answer to which question, and in which second, what was updated."""

    def happen(self) -> None:
        """Update some applications, and advance the clock."""
        listing, chance = self.listing, self.listing.chance
        if chance.random() < 0.5:
            return
        for _ in range(chance.choice([1, 1, self.limit - 1])):
            crowd = sum(second == listing.now for second in listing.rows.values())
            still = sorted(listing.ids)
            if not self.moves_again:
                still = sorted(listing.ids - {key for _, _, key in self.moved})
            if crowd < self.limit - 1 and self.left and still and listing.now < self.until:
                key = chance.choice(still)
                listing.touch(key)
                self.moved.append((len(listing.queries), listing.now, key))
                self.left -= 1
        listing.now += chance.choice([0, 0, 0, 1, 1, 1, 3, 50])

    def before(self, question: int, after: int) -> set[str]:
        """Return what was updated before the reply to a request, and after a given second."""
        return {key for number, at, key in self.moved if number <= question and at > after}


@given(
    data=st.data(),
    limit=st.sampled_from([3, 5, 10]),
    walkers=WALKERS,
    ahead=st.sampled_from([None, None, 0, 7, 60]),
)
def test_updates_during_a_walk_lose_nothing(
    data: st.DataObject, limit: int, walkers: int, ahead: int | None
) -> None:
    """An application that is updated during the walk is still yielded.

    A service that hides the present second hides what is updated again and again: there
    each application is updated once. What is updated before the answer to the last question
    is not promised where that question only tells the time.
    """
    listing = data.draw(listings(Listing, limit, [10], oldest=None))
    rules, now = listing.rules, listing.now
    after = BASE + data.draw(st.sampled_from([-1, 0, 10]), "after")
    assume(rules.future != "refuse" or ahead is None)
    takes_the_future = rules.future == "accept" and rules.widest in (None, 3_600)
    ends_with_the_time = not rules.upper_closed and not (
        rules.future == "accept" and rules.widest is None
    )
    before = None if ahead is None else now + ahead
    updates = Updates(
        listing,
        limit,
        until=now + 10**6 if before is None else before - 1,
        moves_again=rules.upper_closed or takes_the_future,
    )
    listing.before_answer = updates.happen
    must = listing.truth(after, now + 1 if before is None else before)
    walked = dry_walk(listing, after, before, limit=limit, walkers=walkers).run()
    must |= updates.before(len(listing.queries) - ends_with_the_time, after)
    assert must <= set(walked.ids)
    assert walked.planner.saturated == []


@pytest.mark.parametrize("future", FUTURES)
@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize(("rounds_up", "seconds"), [(False, 1), (True, 0)])
def test_an_update_at_any_request_of_the_walk_is_found(
    rounds_up: bool, seconds: int, meaning: str, future: Any
) -> None:
    """The updated application is the oldest, or one not updated since the lower bound."""
    hides_the_present = future != "accept" and not MEANINGS[meaning]["upper_closed"]
    number = requests = 0
    while number <= requests:
        number += 1
        rules = {"future": future, "rounds_up": rounds_up, "order": "newest", **MEANINGS[meaning]}
        listing = Listing.of([-100, *range(0, 60, 5)], 60, **rules)
        first, second, *_ = listing.rows

        def update() -> None:
            if len(listing.queries) != number:  # noqa: B023 - it is called within the turn
                listing.now += seconds  # noqa: B023
                return
            listing.touch(first)  # noqa: B023
            listing.touch(second)  # noqa: B023

        listing.before_answer = update
        walked = dry_walk(listing, BASE - 1, None, limit=5, walkers=2).run()
        requests = len(listing.queries)
        is_late = number > requests - hides_the_present
        assert listing.ids - ({first} if is_late else set()) <= set(walked.ids)
    assert requests > 4


# The end


@pytest.mark.parametrize("future", FUTURES)
@pytest.mark.parametrize("meaning", MEANINGS)
def test_the_last_page_is_read_after_everything_else(meaning: str, future: Any) -> None:
    """No other request is open then, and the page is complete and reaches the present."""
    times = range(0, 13 * 40, 13)
    listing = Listing.of(times, 600, future=future, order="random", **MEANINGS[meaning])
    walked = dry_walk(listing, BASE - 1, None, limit=5, walkers=4)
    in_flight: list[int] = []

    def note() -> None:
        listing.now += 1
        in_flight.append(len(walked.in_flight))

    listing.before_answer = note
    assert set(walked.run().ids) == listing.ids
    assert in_flight[-1] == 0
    query, page = listing.pages[-1]
    assert len(page.ids) < 5
    if future == "accept":
        assert page.before > listing.now
    else:
        # Two complete pages, served in different seconds, with no call between them.
        other, earlier = listing.pages[-2]
        assert len(earlier.ids) < 5
        assert earlier.before < page.before == listing.now
        assert max(other.after or 0, query.after or 0) < earlier.before
        assert listing.queries[-2:] == [other, query]


@pytest.mark.parametrize("future", ["lower", "refuse"])
async def test_two_pages_of_one_second_prove_nothing(future: Any) -> None:
    """Behind an exclusive bound, rows of the present second show only once it has passed."""
    service = ListService.of([0, 9, 9], 9, future=future)
    async with serving(service) as client:
        found = await ids_of(walk(client, BASE - 1, None))
    assert sorted(found) == sorted(service.ids)
    assert service.now > BASE + 9
    assert sum(service.clock.slept) < 10


def tell_no_time(listing: Listing) -> None:
    """Make a service echo the end of time for an unset bound, as its true answer."""

    def endless(query: Query, page: Page) -> Outcome:
        if query.before is not None:
            return page
        if listing.rules.future == "refuse" and (query.after or 0) > listing.now:
            return 400
        open_query = evolve(query, before=END)
        answer = list_rules(
            evolve(listing.rules, future="accept"), listing.rows, END, open_query, listing.chance
        )
        assert isinstance(answer, Page)
        return answer

    listing.twist = endless


@given(
    data=st.data(),
    rows=st.integers(0, 40),
    walkers=WALKERS,
    is_kept=st.booleans(),
    tells_time=st.booleans(),
)
def test_a_burst_in_the_present_second_is_yielded_or_reported(
    data: st.DataObject, rows: int, walkers: int, is_kept: bool, tells_time: bool
) -> None:
    rules = data.draw(readings(500, oldest=None, widest=None, clock_stands=st.booleans()))
    # A second that never passes cannot be narrowed if no bound may lie after it.
    assume(not rules.clock_stands or rules.future != "refuse")
    listing = Listing.of([*[500] * rows, *range(30)], 500)
    listing.rules = rules
    if not tells_time:
        listing.rules = evolve(rules, date_ahead=None, clock_stands=False)
        tell_no_time(listing)
    walked = dry_walk(
        listing, BASE - 1, None, limit=20, walkers=walkers, keep_saturated=is_kept
    ).run()
    named = {window.after for window in walked.planner.saturated}
    assert named <= {BASE + 499, BASE + 500, BASE + 501}
    assert not named or rows >= 19
    known = {*walked.ids, *walked.planner.withheld}
    assert not named or len(known) >= 20
    assert {listing.rows[key] for key in listing.ids - known} <= named
    assert len(walked.ids) == len(set(walked.ids))


def test_a_full_last_page_hides_no_application_that_moves_with_the_present() -> None:
    """The application is updated before each answer, so that no other page shows its second."""
    listing = Listing.of([*[100] * 19, 0], 500, **MEANINGS["lower inclusive"], future="accept")
    *others, moving = listing.rows

    def move() -> None:
        listing.now += 1
        listing.touch(moving)
        if len(listing.queries) == 2:
            for key in others:
                listing.touch(key)

    listing.before_answer = move
    assert moving in dry_walk(listing, BASE - 1, None, limit=19).run().ids


def test_rows_of_a_clock_that_was_set_back_hold_up_no_walk() -> None:
    """More of them than fit on a page lie behind the present, which need not reach them."""
    listing = Listing.of([*range(30), *[900] * 25], 500, future="accept")
    walked = dry_walk(listing, BASE - 1, None, limit=20, walkers=1).run()
    assert {one for one, second in listing.rows.items() if second <= BASE + 500} <= {*walked.ids}
    assert walked.planner.requests < 20


def test_a_service_whose_windows_all_end_with_time_is_an_error() -> None:
    """No reply of the service leads to the present, and nothing is covered."""
    listing = Listing.of([0], 10, date_ahead=None, widest=DAY)
    tell_no_time(listing)
    walked = dry_walk(listing, BASE - 1, None, limit=5)
    with pytest.raises(UnexpectedResponseError, match="sends no time"):
        walked.run()
    assert list(walked.planner.covered) == []


@given(walks(since=[10], is_open=[True], date_ahead=st.sampled_from([None, None, 0]), widest=None))
def test_an_unset_bound_echoed_as_the_end_of_time_is_not_the_present(walked: DryWalk) -> None:
    """Updates during the walk lose nothing, and a resumed walk yields the later ones.

    With `Date` the walk ends there; without any time it covers no second to come.
    """
    listing = walked.listing
    tell_no_time(listing)
    must = listing.truth(BASE - 1, END)
    updates = Updates(listing, walked.limit, until=listing.now + 10**6, moves_again=True)
    listing.before_answer = updates.happen
    walked.run()
    assert must | updates.before(len(listing.queries), BASE) <= set(walked.ids)
    assert all(window.before <= listing.now + 1 for window in walked.planner.covered)
    listing.before_answer = lambda: None
    listing.now += 60
    touched = next(iter(listing.rows), None)
    if touched is not None:
        listing.touch(touched)
        assert touched in walked.resumed().ids


@pytest.mark.parametrize(
    ("before", "future", "twist"),
    [
        (None, "accept", lambda query, page: 400),
        (BASE + 5, "accept", lambda query, page: 400),
        (BASE + 500, "refuse", lambda query, page: page),
    ],
    ids=["everything", "everything up to a bound", "the caller's bound"],
)
async def test_what_is_refused_and_has_no_substitute_is_an_error(
    before: int | None, future: Any, twist: Any
) -> None:
    """The walk has an alternative to future bounds of its own, but to nothing else."""
    service = ListService.of([0], 10, future=future)
    service.twist = twist
    async with serving(service) as client:
        with pytest.raises(InvalidRequestError):
            await ids_of(walk(client, BASE - 1, before))
    assert len(service.queries) < 10
