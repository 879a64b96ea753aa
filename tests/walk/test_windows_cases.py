"""The planner in cases that have a name: saturation, order, hints, hostile echoes."""

from datetime import timedelta

import pytest

from income_client.errors import UnexpectedResponseError
from income_client.records.applications import ApplicationPage
from income_client.records.window import EPOCH, Window
from income_client.walk.planner import WalkPlanner
from income_client.walk.windows import Answer, Bounds, Intervals
from tests.support.listing import Listing, Rules, rows_at
from tests.support.walk_data import BASE
from tests.support.walks import Walk, walk

MEANINGS = [(lower, upper) for lower in (False, True) for upper in (False, True)]


def test_rows_of_a_saturated_second_are_delivered_on_request() -> None:
    """With ``keep_saturated`` its known rows come like any others, and it stays uncovered."""
    world = Listing(rows=rows_at([BASE + 5] * 30), now=BASE + 20)
    walked = walk(world, BASE, BASE + 10, limit=10, keep_saturated=True).run()
    assert walked.planner.saturated == [Window(BASE + 5, BASE + 6)]
    assert len(walked.ids) == 10
    assert walked.planner.covered.gaps(Window(BASE + 5, BASE + 6))


def test_a_small_open_walk_takes_two_requests() -> None:
    """One question learns the present, and one ends the walk there."""
    walked = walk(Listing(rows=rows_at([BASE] * 5), now=BASE + 10), 0, None, limit=1000).run()
    assert walked.planner.requests == 2


def test_a_service_without_upper_bounds_needs_no_second_page() -> None:
    """An echo centuries ahead of the service's clock is not a bound: the page is complete."""
    planner = WalkPlanner(Bounds(0, None), limit=10, walkers=1)
    question = planner.next()
    assert question is not None
    endless = ApplicationPage(
        updated_after=EPOCH,
        updated_before=EPOCH.replace(year=9999),
        applications=(),
    )
    planner.receive(question, Answer.of(endless, 10, BASE))
    assert planner.next() is None
    assert planner.is_finished


def test_the_present_is_taken_from_the_clock_where_the_echo_has_none() -> None:
    """A full page without an upper bound is walked up to the time at which it was served."""
    world = Listing(rows=rows_at([BASE + n for n in range(50)]), now=BASE + 60)
    walked: Walk = walk(world, BASE - 1, None, limit=20)
    question = walked.planner.next()
    assert question is not None
    rows = tuple(walked.row_of(key) for key in sorted(world.ids)[:20])
    page = ApplicationPage(
        updated_after=EPOCH, updated_before=EPOCH.replace(year=9999), applications=rows
    )
    walked.planner.receive(question, Answer.of(page, 20, BASE + 60))
    assert walked.planner.span == Window(BASE - 1, BASE + 59)
    assert sorted(walked.run().ids) == sorted(world.ids)


def test_splits_count_the_windows_that_were_divided() -> None:
    """A full page of the tail, or of a form, divides nothing."""
    world = Listing(rows=rows_at([BASE + 5] * 30), now=BASE + 20)
    walked = walk(world, BASE, BASE + 10, limit=10).run()
    assert walked.planner.saturated
    assert walked.planner.splits < walked.planner.requests - 4


@pytest.mark.parametrize(("lower", "upper"), MEANINGS)
def test_a_walk_that_is_followed_takes_one_request(lower: bool, upper: bool) -> None:
    """Where a page holds all since the last, nothing but the present is asked for."""
    rules = Rules(lower_closed=lower, upper_closed=upper)
    world = Listing(rows=rows_at([BASE + n for n in range(100)]), now=BASE + 90, rules=rules)
    walked = walk(world, BASE - 1, None, limit=1000, date_ahead=0).run()
    assert walked.planner.requests == 1
    assert walked.planner.present == BASE + 89
    assert list(walked.planner.covered) == [Window(BASE - 1, BASE + 89)]
    assert set(walked.ids) == world.truth(BASE - 1, BASE + 90)


def test_a_walk_that_is_followed_goes_through_a_full_page() -> None:
    """It is walked up to the present that it reported, and no further."""
    world = Listing(rows=rows_at([BASE + n for n in range(500)]), now=BASE + 400)
    walked = walk(world, BASE - 1, None, limit=20, date_ahead=0, walkers=3).run()
    assert list(walked.planner.covered) == [Window(BASE - 1, BASE + 399)]
    assert len(walked.ids) == len(set(walked.ids)) >= 399


def test_a_service_that_ignores_the_bounds_is_an_error_each_time() -> None:
    """A walk that continues after the error has skipped no second."""
    planner = WalkPlanner(Bounds(BASE, BASE + 100), limit=5, walkers=1)
    walked = walk(Listing(rows=rows_at([BASE] * 5), now=BASE + 50), BASE, None, limit=5)
    rows = tuple(walked.row_of(key) for key in walked.world.ids)

    def go_on() -> None:
        while (question := planner.next()) is not None:
            page = ApplicationPage(
                updated_after=EPOCH + timedelta(seconds=question.bounds.after),
                updated_before=EPOCH + timedelta(seconds=question.bounds.before or BASE + 50),
                applications=rows,
            )
            planner.receive(question, Answer.of(page, 5, BASE + 50))

    planned = []
    for _ in range(2):
        with pytest.raises(UnexpectedResponseError):
            go_on()
        planned.append(planner.planned)
    assert planned[0] == planned[1]
    assert list(Intervals([*planner.planned, *planner.saturated])) == [planner.span]
