"""The planner in cases that have a name: saturation, order, hints, hostile echoes."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.emulator import Order, ServiceRules, World
from income_client.errors import UnexpectedResponseError
from income_client.protocol.intervals import Intervals
from income_client.protocol.questions import Bounds, Kind, Question
from income_client.protocol.windows import WalkPlanner
from income_client.records.applications import ApplicationPage
from income_client.records.window import EPOCH, Window
from tests.support.walks import BASE, Walk, walk

WALKERS = st.sampled_from([1, 2, 4, 8])
MEANINGS = [(lower, upper) for lower in (False, True) for upper in (False, True)]


@pytest.mark.parametrize(("lower", "upper"), MEANINGS)
@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled", "random"])
def test_seconds_with_one_row_less_than_the_limit_are_not_saturated(
    lower: bool, upper: bool, order: str
) -> None:
    """Adjacent seconds of ``limit - 1`` rows each are told apart under every meaning."""
    limit = 20
    times = [BASE + second for second in range(6) for _ in range(limit - 1)]
    rules = ServiceRules(lower_closed=lower, upper_closed=upper, order=order)
    for after, before in [(BASE - 3, BASE + 9), (BASE, BASE + 5), (BASE + 2, BASE + 2)]:
        world = World(times, now=BASE + 9, rules=rules)
        walked = walk(world, after, before, limit=limit).run()
        assert sorted(walked.ids) == sorted(world.truth(after, before))
        assert walked.planner.saturated == []


@pytest.mark.parametrize(("lower", "upper"), MEANINGS)
@pytest.mark.parametrize("walkers", [1, 4])
def test_a_saturated_second_is_named_and_everything_else_yielded(
    lower: bool, upper: bool, walkers: int
) -> None:
    """A second with ``limit`` rows or more is neither lost in silence nor a loop."""
    limit, full = 10, BASE + 50
    times = [BASE + second for second in range(100)] + [full] * 25
    rules = ServiceRules(lower_closed=lower, upper_closed=upper, order="random")
    world = World(times, now=BASE + 200, rules=rules)
    walked = walk(world, BASE - 1, BASE + 100, limit=limit, walkers=walkers).run()
    named = walked.planner.saturated
    assert Window(full, full + 1) in named
    assert all(abs(window.after - full) <= 1 for window in named)
    clear = {key for key in world.ids if abs(world.updated_at(key) - full) > 1}
    assert clear <= set(walked.ids)
    assert len(walked.planner.withheld) >= limit
    assert not walked.planner.covered.covers(Window(full, full + 1))


def test_rows_of_a_saturated_second_are_delivered_on_request() -> None:
    """With ``keep_saturated`` its known rows come like any others, and it stays uncovered."""
    world = World([BASE + 5] * 30, now=BASE + 20)
    walked = walk(world, BASE, BASE + 10, limit=10, keep_saturated=True).run()
    assert walked.planner.saturated == [Window(BASE + 5, BASE + 6)]
    assert len(walked.ids) == 10
    assert not walked.planner.covered.covers(Window(BASE + 5, BASE + 6))


def test_one_walker_goes_in_ascending_order() -> None:
    """With one question in flight windows are delivered from the oldest to the newest."""
    world = World([BASE + 17 * n for n in range(500)], now=BASE + 10_000)
    walked = walk(world, BASE, BASE + 10_000, limit=50).run()
    starts = [page.covers.after for page in walked.delivered]
    assert starts == sorted(starts)


def test_the_outer_bounds_go_out_exactly_as_given() -> None:
    """No question reaches beyond the span, and its ends are asked for as they were given."""
    world = World([BASE + n for n in range(300)], now=BASE + 400)
    walked = walk(world, BASE, BASE + 299, limit=20, walkers=3)
    asked: list[Bounds] = []
    while walked.step():
        asked += [question.bounds for question, _ in walked.in_flight]
    assert min(bounds.after for bounds in asked) == BASE
    assert max(bounds.before or 0 for bounds in asked) == BASE + 299


def test_a_small_open_walk_takes_two_requests() -> None:
    """One question learns the present, and one ends the walk there."""
    walked = walk(World([BASE] * 5, now=BASE + 10), 0, None, limit=1000).run()
    assert walked.planner.requests == 2


def test_the_silence_before_the_first_application_takes_one_question() -> None:
    """A walk from 1970 finds its way to data of last month at once."""
    world = World([BASE + 300 * n for n in range(5000)], now=BASE + 300 * 5000)
    walked = walk(world, 0, None, limit=1000).run()
    assert walked.planner.requests <= 14


@given(st.integers(0, 2**32), WALKERS)
def test_application_dates_are_only_a_hint(seed: int, walkers: int) -> None:
    """Hostile dates change the number of requests and not the result."""
    chance = Random(seed)
    world = World([BASE + chance.randrange(10**6) for _ in range(400)], now=BASE + 10**6)
    world.applied_at = lambda number: chance.randrange(-(10**9), 10**11)  # type: ignore[method-assign]
    walked = walk(world, BASE - 1, None, limit=30, walkers=walkers, chance=chance).run()
    assert sorted(walked.ids) == sorted(world.ids)
    assert walked.planner.requests < 200


def test_a_page_that_answers_another_question_proves_nothing() -> None:
    """Bounds shifted as a whole are no clamp: the walk says so instead of believing the page."""
    done = [Window(BASE, BASE + 400), Window(BASE + 500, BASE + 1001)]
    planner = WalkPlanner(Bounds(BASE, BASE + 1000), limit=10, walkers=1, covered=done)
    question = planner.next()
    assert isinstance(question, Question)
    assert question.kind is Kind.WINDOW
    shifted = ApplicationPage(
        updated_after=Window(BASE + 5000, 0).starts_at,
        updated_before=Window(BASE + 6000, 0).starts_at,
        applications=(),
    )
    with pytest.raises(UnexpectedResponseError, match="answered for"):
        planner.receive(question, shifted)
    assert planner.next() is not None


def test_a_service_without_upper_bounds_needs_no_second_page() -> None:
    """An echo centuries ahead of the service's own clock is no bound: the page is complete."""
    planner = WalkPlanner(Bounds(0, None), limit=10, walkers=1)
    question = planner.next()
    assert isinstance(question, Question)
    endless = ApplicationPage(
        updated_after=EPOCH,
        updated_before=EPOCH.replace(year=9999),
        applications=(),
    )
    planner.receive(question, endless, served_at=BASE)
    assert planner.next() is None
    assert planner.is_finished


def test_the_present_is_taken_from_the_clock_where_the_echo_has_none() -> None:
    """A full page without an upper bound is walked up to the time at which it was served."""
    world = World([BASE + n for n in range(50)], now=BASE + 60)
    walked: Walk = walk(world, BASE - 1, None, limit=20)
    question = walked.planner.next()
    assert isinstance(question, Question)
    rows = tuple(walked._row(key) for key in world.ids[:20])
    page = ApplicationPage(
        updated_after=EPOCH, updated_before=EPOCH.replace(year=9999), applications=rows
    )
    walked.planner.receive(question, page, served_at=BASE + 60)
    assert walked.planner.span == Window(BASE - 1, BASE + 59)
    assert sorted(walked.run().ids) == sorted(world.ids)


def test_covered_windows_are_not_asked_for_again() -> None:
    """A resumed walk leaves out what its checkpoint covers."""
    done = [Window(BASE, BASE + 400), Window(BASE + 500, BASE + 1001)]
    planner = WalkPlanner(Bounds(BASE, BASE + 1000), limit=10, walkers=4, covered=done)
    assert planner.planned == [Window(BASE + 400, BASE + 500)]
    assert planner.covered == Intervals(done)


def test_a_resumed_open_walk_goes_on_where_it_stopped() -> None:
    """What was covered is not walked again, whatever lies behind it."""
    world = World([BASE + n for n in range(3000)], now=BASE + 3000)
    first = walk(world, BASE - 1, None, limit=100).run()
    again = walk(world, BASE - 1, None, limit=100, covered=list(first.planner.covered)).run()
    assert again.planner.requests == 2
    assert len(again.ids) < 5


def test_a_row_that_moves_while_a_second_is_narrowed_down_saturates_nothing() -> None:
    """The second is asked for anew: one update is no reason to end a walk with an error."""
    rules = ServiceRules(lower_closed=True, upper_closed=True, order=Order.ASCENDING)
    times = [BASE + second for second in (4, 5, 6) for _ in range(6)]
    world = World(times, now=BASE + 100, rules=rules)
    walked = walk(world, BASE, None, limit=10)
    at_four = [key for key in world.ids if world.updated_at(key) == BASE + 4]
    going = True
    while going:
        kinds = {question.kind for question, _ in walked.in_flight}
        if Kind.SECOND in kinds and at_four:
            world.touch(at_four.pop())
        going = walked.step()
        walked._ask()
    assert len(at_four) < 6
    assert walked.planner.saturated == []
    assert set(walked.ids) == set(world.ids)


def test_a_service_that_ignores_the_bounds_is_found_out() -> None:
    """The same rows for seconds that are apart are an error, not a walk of a billion questions."""
    planner = WalkPlanner(Bounds(0, None), limit=10, walkers=1)
    world = World([BASE] * 10)
    rows = tuple(walk(world, 0, None, limit=10)._row(key) for key in world.ids)

    def ask_for_ever() -> None:
        for _ in range(500):
            question = planner.next()
            if isinstance(question, Question):
                before = question.bounds.before
                page = ApplicationPage(
                    updated_after=Window(question.bounds.after, 0).starts_at,
                    updated_before=Window(BASE if before is None else before, 0).starts_at,
                    applications=rows,
                )
                planner.receive(question, page)

    with pytest.raises(UnexpectedResponseError, match="the same rows"):
        ask_for_ever()
    assert planner.requests < 100


def test_splits_count_the_windows_that_were_divided() -> None:
    """A full page of the tail, or of a form, divides nothing."""
    walked = walk(World([BASE + 5] * 30, now=BASE + 20), BASE, BASE + 10, limit=10).run()
    assert walked.planner.saturated
    assert walked.planner.splits < walked.planner.requests - 4


@pytest.mark.parametrize(("lower", "upper"), MEANINGS)
def test_a_walk_that_is_followed_takes_one_request(lower: bool, upper: bool) -> None:
    """Where a page holds all since the last, nothing but the present is asked for."""
    rules = ServiceRules(lower_closed=lower, upper_closed=upper)
    world = World([BASE + n for n in range(100)], now=BASE + 90, rules=rules)
    walked = walk(world, BASE - 1, None, limit=1000, lead=0).run()
    assert walked.planner.requests == 1
    assert walked.planner.present == BASE + 89
    assert list(walked.planner.covered) == [Window(BASE - 1, BASE + 89)]
    assert set(walked.ids) == world.truth(BASE - 1, BASE + 90)


def test_a_walk_that_is_followed_goes_through_a_full_page() -> None:
    """It is walked up to the present that it told, and no further."""
    world = World([BASE + n for n in range(500)], now=BASE + 400)
    walked = walk(world, BASE - 1, None, limit=20, lead=0, walkers=3).run()
    assert list(walked.planner.covered) == [Window(BASE - 1, BASE + 399)]
    assert len(walked.ids) == len(set(walked.ids)) >= 399
