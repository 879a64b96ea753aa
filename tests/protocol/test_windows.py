"""The planner against the emulator's truth: nothing lost, nothing twice, always an end."""

from random import Random
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from income_client.emulator import ServiceRules, World
from income_client.errors import UnexpectedResponseError
from income_client.protocol.intervals import Intervals
from income_client.protocol.questions import Bounds, Kind, Question
from income_client.protocol.resume import read_checkpoint, write_checkpoint
from income_client.protocol.windows import WalkPlanner
from income_client.records.applications import ApplicationPage
from income_client.records.window import EPOCH, Window
from tests.walks import BASE, Walk, parts_of, service_rules, update_times, walk

LIMITS = st.sampled_from([2, 3, 7, 25])
WALKERS = st.sampled_from([1, 2, 4, 8])
MEANINGS = [(lower, upper) for lower in (False, True) for upper in (False, True)]


def _is_sensible(rules: ServiceRules, first: int, last: int) -> bool:
    """Tell whether the service keeps anything, and a walk does not take thousands of questions."""
    if rules.oldest is not None and rules.oldest > last:
        return False
    return rules.max_span is None or (last - first) / rules.max_span < 500


@given(st.data(), LIMITS, WALKERS, service_rules())
@settings(max_examples=400, deadline=None)
def test_a_walk_yields_what_one_unlimited_query_would_each_id_once(
    data: st.DataObject, limit: int, walkers: int, rules: ServiceRules
) -> None:
    """Every meaning of the bounds, order, cut and kind of data gives the truth exactly."""
    times = data.draw(update_times(limit))
    last = max([*times, BASE + 5]) + 5
    after = BASE + data.draw(st.sampled_from([-10, 0, 1, 7]))
    before = max(after, last - data.draw(st.sampled_from([0, 5, 6, 20])))
    assume(_is_sensible(rules, after, before))
    world = World(times, now=last, rules=rules)
    walked = walk(
        world, after, before, limit=limit, walkers=walkers, chance=data.draw(st.randoms())
    ).run()
    assert len(walked.ids) == len(set(walked.ids))
    assert set(walked.ids) == world.truth(after, before)
    assert walked.planner.saturated == []
    assert list(walked.planner.covered) == [Window(after, before + 1)]


@given(st.data(), LIMITS, WALKERS, service_rules())
@settings(max_examples=400, deadline=None)
def test_an_open_walk_reaches_the_present_and_each_id_comes_once(
    data: st.DataObject, limit: int, walkers: int, rules: ServiceRules
) -> None:
    """Without an upper bound everything up to the present is yielded, the current second too."""
    times = data.draw(update_times(limit))
    now = max(times, default=BASE) + data.draw(st.sampled_from([0, 0, 1, 30]))
    after = BASE + data.draw(st.sampled_from([-10, 0, 1]))
    assume(after <= now and _is_sensible(rules, after, now))
    world = World(times, now=now, rules=rules)
    walked = walk(
        world, after, None, limit=limit, walkers=walkers, chance=data.draw(st.randoms())
    ).run()
    assert len(walked.ids) == len(set(walked.ids))
    assert set(walked.ids) == world.truth(after, now + 1)


@given(st.data(), LIMITS, WALKERS, service_rules())
@settings(max_examples=300, deadline=None)
def test_updates_during_an_open_walk_lose_nothing(
    data: st.DataObject, limit: int, walkers: int, rules: ServiceRules
) -> None:
    """An application that moves to the present while the walk is under way is yielded all the same.

    Each moves at most once: a row that moves again and again within the current
    second is never visible behind an exclusive upper bound that may not lie ahead.
    """
    times = data.draw(update_times(limit))
    now = max(times, default=BASE) + 10
    assume(_is_sensible(rules, BASE - 10, now))
    world = World(times, now=now, rules=rules)
    must = world.truth(BASE - 10, now + 1)
    chance = data.draw(st.randoms())
    still = sorted(must)
    chance.shuffle(still)

    def update(world: World) -> None:
        if still and chance.random() < 0.3:
            for _ in range(min(len(still), chance.choice([1, 1, limit - 1]))):
                world.touch(still.pop())
            world.advance_to(world.now + chance.choice([0, 1, 1, 3]))

    walked = walk(
        world,
        BASE - 10,
        None,
        limit=limit,
        walkers=walkers,
        chance=chance,
        before_answer=update,
        keep_saturated=True,
    ).run()
    event(f"moved: {min(len(must) - len(still), 3)}")
    if not walked.planner.saturated:
        assert must <= set(walked.ids)


@given(st.data(), LIMITS, WALKERS, service_rules())
@settings(max_examples=150, deadline=None)
def test_planned_and_covered_windows_partition_the_span_at_every_step(
    data: st.DataObject, limit: int, walkers: int, rules: ServiceRules
) -> None:
    """No second is in two places or in none, and no more questions are in flight than walkers."""
    times = data.draw(update_times(limit))
    last = max(times, default=BASE) + 5
    assume(_is_sensible(rules, BASE, last))
    world = World(times, now=last, rules=rules)
    walked = walk(world, BASE, last, limit=limit, walkers=walkers, chance=data.draw(st.randoms()))
    going = True
    while going:
        going = walked.step()
        position = BASE
        for part in parts_of(walked.planner):
            assert part.after == position
            position = part.before
        assert position == last + 1
        assert len(walked.in_flight) <= walkers


@given(st.data(), LIMITS, WALKERS, service_rules(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_walk_that_crashed_anywhere_resumes_without_loss(
    data: st.DataObject, limit: int, walkers: int, rules: ServiceRules, is_open: bool
) -> None:
    """What was acknowledged before the crash and what the resumed walk yields is everything."""
    times = data.draw(update_times(limit))
    last = max(times, default=BASE) + 5
    before = None if is_open else last
    assume(_is_sensible(rules, BASE - 1, last))
    world = World(times, now=last, rules=rules)
    chance = data.draw(st.randoms())
    first = walk(world, BASE - 1, before, limit=limit, walkers=walkers, chance=chance)
    for _ in range(data.draw(st.integers(0, 12))):
        if not first.step():
            break
    text = write_checkpoint(first.planner.bounds, first.planner.covered)
    state = read_checkpoint(text)
    again = walk(
        world, BASE - 1, before, limit=limit, walkers=walkers, chance=chance, covered=state.covered
    ).run()
    assert set(first.ids) | set(again.ids) == world.truth(BASE - 1, before or last + 1)
    new = [key for key in again.ids if key not in set(first.ids)]
    assert len(new) == len(set(new))
    if not is_open:
        assert list(again.planner.covered) == [Window(BASE - 1, last + 1)]


@given(st.data(), LIMITS, WALKERS)
@settings(max_examples=100, deadline=None)
def test_a_question_that_failed_is_asked_again(
    data: st.DataObject, limit: int, walkers: int
) -> None:
    """Dropping any question at any time changes nothing about the result."""
    times = data.draw(update_times(limit))
    last = max(times, default=BASE) + 5
    world = World(times, now=last)
    chance = data.draw(st.randoms())
    walked = walk(world, BASE - 1, None, limit=limit, walkers=walkers, chance=chance)
    while walked.step():
        if walked.in_flight and chance.random() < 0.3:
            question, _ = walked.in_flight.pop()
            walked.planner.drop(question)
    assert len(walked.ids) == len(set(walked.ids)) == len(times)


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
@settings(max_examples=30, deadline=None)
def test_application_dates_are_only_a_hint(seed: int, walkers: int) -> None:
    """Hostile dates change the number of requests and not the result."""
    chance = Random(seed)
    world = World([BASE + chance.randrange(10**6) for _ in range(400)], now=BASE + 10**6)
    world.applied_at = lambda number: chance.randrange(-(10**9), 10**11)  # type: ignore[method-assign]
    walked = walk(world, BASE - 1, None, limit=30, walkers=walkers, chance=chance).run()
    assert sorted(walked.ids) == sorted(world.ids)
    assert walked.planner.requests < 200


@given(st.integers(0, 2**32), WALKERS)
@settings(max_examples=30, deadline=None)
def test_memory_of_rows_is_bounded_by_the_walkers(seed: int, walkers: int) -> None:
    """Ids are kept for two pages of each covered interval, however long the walk."""
    chance = Random(seed)
    world = World([BASE + int(10**6 * chance.random() ** 3) for _ in range(3000)], now=BASE + 10**6)
    walked = walk(world, BASE - 1, BASE + 10**6, limit=30, walkers=walkers, chance=chance)
    while walked.step():
        planner: Any = walked.planner
        assert len(planner._overlap) <= 2 * len(planner._received)
        assert len(planner.covered) <= walkers + 8


def test_a_page_that_answers_another_question_proves_nothing() -> None:
    """Bounds shifted as a whole are no clamp: the walk says so instead of believing the page."""
    planner = WalkPlanner(Bounds(BASE, BASE + 1000), limit=10, walkers=1)
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
