"""Parts of a span: together the whole of it, each row once, and every update found."""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from attrs import define, field
from hypothesis import assume, event, given
from hypothesis import strategies as st

from benchmarks.walking import YEAR, SimulatedList, seconds_of
from income_client import SpanPart
from income_client.emulator import ListReply, ServiceRules, World, list_reply
from income_client.emulator.service_rules import FutureBounds
from income_client.walk.edges import Cuts, bounds_around, is_whole
from income_client.walk.split import bounds_of, cuts_of, split_questions
from income_client.walk.windows import Answer, Bounds
from tests.support.walk_data import LIMITS, MEANINGS, WALKERS
from tests.support.walks import (
    BASE,
    Hook,
    Walk,
    nothing,
    page_of,
    service_rules,
    update_times,
    walk,
)

PARTS = st.integers(1, 6)


def ask(world: World, bounds: Bounds, limit: int) -> Answer:
    """Answer one list call at once."""
    reply = list_reply(world, world.rules, after=bounds.after, before=bounds.before, limit=limit)
    assert isinstance(reply, ListReply)
    return Answer.of(page_of(world, reply), limit, world.now)


def split(
    world: World, after: int, before: int | None, parts: int, limit: int, hook: Hook = nothing
) -> tuple[SpanPart, ...]:
    """Cut a span of a world into parts."""
    questions = split_questions(
        after, before, present=world.now, settle=60, parts=parts, limit=limit
    )
    try:
        bounds = next(questions)
        while True:
            hook(world)
            bounds = questions.send(ask(world, bounds, limit))
    except StopIteration as end:
        found: tuple[SpanPart, ...] = end.value
        return found


def reading(
    world: World, part: SpanPart, limit: int, walkers: int, chance: Random, hook: Hook = nothing
) -> Walk:
    """Prepare the walk over a part."""
    after, before = bounds_of(part)
    assert after is not None
    return walk(
        world,
        after,
        before,
        limit=limit,
        walkers=walkers,
        chance=chance,
        before_answer=hook,
        cuts=cuts_of(part),
        keep_saturated=True,
    )


def is_sensible(rules: ServiceRules, first: int, last: int) -> bool:
    """Tell whether the service keeps anything, and walks do not take thousands of questions."""
    if rules.oldest is not None and rules.oldest > last:
        return False
    return rules.max_span is None or (last - first) / rules.max_span < 200


@given(st.data(), LIMITS, WALKERS, service_rules(), PARTS)
def test_parts_of_a_past_span_hold_each_row_once(
    data: st.DataObject, limit: int, walkers: int, rules: ServiceRules, parts: int
) -> None:
    """Whatever the bounds mean and the service does, the parts are the whole, without overlap."""
    times = data.draw(update_times(limit))
    last = max([*times, BASE + 5]) + 5
    after = BASE + data.draw(st.sampled_from([-10, 0, 1, 7]))
    before = max(after, last - data.draw(st.sampled_from([0, 5, 6, 20])))
    assume(is_sensible(rules, after, before))
    world = World(times, now=last + data.draw(st.sampled_from([1, 86_400])), rules=rules)
    found = split(world, after, before, parts, limit)
    assert not any(part.read_last for part in found)
    event(f"parts: {len(found)}")
    ids = Counter[str]()
    chance = Random(data.draw(st.integers(0, 2**32)))
    for part in data.draw(st.permutations(found)):
        ids.update(reading(world, part, limit, walkers, chance).run().ids)
    assert ids == Counter(world.truth(after, before))


@given(st.data(), WALKERS, st.sampled_from(list(MEANINGS)))
def test_cuts_in_the_midst_of_rows_lose_and_repeat_nothing(
    data: st.DataObject, walkers: int, meaning: str
) -> None:
    """Cuts may lie anywhere, and as close to each other as seconds do."""
    limit, length = 10, data.draw(st.integers(2, 30))
    times = [BASE + data.draw(st.integers(0, length)) for _ in range(data.draw(st.integers(0, 40)))]
    assume(all(times.count(second) < 4 for second in set(times)))
    world = World(times, now=BASE + 1_000, rules=ServiceRules(**MEANINGS[meaning]))
    places = st.integers(BASE + 1, BASE + length - 1)
    cuts = sorted(data.draw(st.sets(places, max_size=6)))
    cuts = [cut for cut in cuts if is_whole(cut, ask(world, Bounds(cut - 1, cut + 1), limit))]
    edges: list[int | None] = [None, *cuts, None]
    ids = Counter[str]()
    for low, high in pairwise(edges):
        walked = walk(
            world,
            BASE if low is None else low,
            BASE + length if high is None else high,
            limit=limit,
            walkers=walkers,
            cuts=Cuts(low, high),
        ).run()
        ids.update(walked.ids)
    assert ids == Counter(world.truth(BASE, BASE + length))


@define
class Updates:
    """Applications that are updated before answers, two in a second."""

    still: list[str]
    """Those that may be updated."""
    chance: Random
    until: int | None
    """Second from which on nothing is updated."""
    are_repeated: bool = True
    """Whether one may be updated again."""
    left: int = 40
    """How often it may happen: a walk that is chased for ever has no end."""
    moved: set[str] = field(factory=set)

    def happen(self, world: World) -> None:
        """Update some applications, and let some time pass."""
        is_over = not self.left or (self.until is not None and world.now >= self.until)
        if is_over or self.chance.random() < 0.5:
            return
        self.left -= 1
        for one in self.chance.sample(self.still, min(len(self.still), 2)):
            world.touch(one)
            self.moved.add(one)
            if not self.are_repeated or self.chance.random() < 0.5:
                self.still.remove(one)
        world.advance_to(world.now + self.chance.choice([1, 1, 3, 100]))


@given(st.data(), LIMITS, WALKERS, service_rules(), PARTS)
def test_updates_while_the_parts_are_read_lose_nothing(
    data: st.DataObject, limit: int, walkers: int, rules: ServiceRules, parts: int
) -> None:
    """Parts are read at once and in any order, the last one last, and applications move meanwhile.

    What is updated comes at least once, and what is not exactly once. In the last part, each
    moves at most once: one that moves again and again within the current second is never
    visible behind an exclusive upper bound that may not lie ahead.
    """
    times = data.draw(update_times(limit))
    now = max(times, default=BASE) + data.draw(st.sampled_from([10, 70, 1_000]))
    after = BASE + data.draw(st.sampled_from([-10, 0, 3]))
    ahead = data.draw(st.sampled_from([None, None, 0, 7]))
    assume(rules.future is not FutureBounds.REFUSE or ahead in (None, 0))
    assume(is_sensible(rules, after, now))
    world = World(times, now=now, rules=rules)
    until = None if ahead is None else now + ahead
    must = world.truth(after, now + 1 if until is None else until)
    chance = Random(data.draw(st.integers(0, 2**32)))
    updates = Updates(sorted(must), chance, until)
    *others, last = split(world, after, until, parts, limit, updates.happen)
    assert last.read_last
    walks = [reading(world, part, limit, walkers, chance, updates.happen) for part in others]
    running = list(walks)
    while running:
        one = chance.choice(running)
        if not one.step():
            running.remove(one)
    updates.are_repeated, updates.left = False, 40
    walks.append(reading(world, last, limit, walkers, chance, updates.happen).run())
    moved = updates.moved
    ids = Counter(one for each in walks for one in each.ids)
    event(f"parts: {len(walks)}, moved: {min(len(moved), 3)}")
    if not any(each.planner.saturated for each in walks):
        assert must <= set(ids)
        assert {one: ids[one] for one in must - moved} == dict.fromkeys(must - moved, 1)


def sizes(pattern: str, parts: int) -> tuple[list[int], int]:
    """Return how many rows each part of a year holds, and how many questions it took."""
    seconds = seconds_of(pattern, 100_000, seed=1) if pattern else []
    service = SimulatedList(seconds or [YEAR.after], seed=1)
    questions = split_questions(
        YEAR.after - 1, YEAR.before, present=YEAR.before + 10**7, settle=60, parts=parts, limit=1000
    )
    asked = 0
    try:
        bounds = next(questions)
        while True:
            asked += 1
            bounds = questions.send(Answer.of(service.page(bounds), 1000, None))
    except StopIteration as end:
        edges = [bounds_of(part) for part in end.value]
    return [
        sum(after <= second < before for second in seconds)
        for after, before in edges
        if after is not None and before is not None
    ], asked


@pytest.mark.parametrize(
    ("pattern", "most"),
    [("uniform", 1.1), ("growth", 1.1), ("diurnal", 1.6), ("bursts", 1.8), ("bmodel", 2.0)],
)
def test_parts_are_about_as_large_as_each_other(pattern: str, most: float) -> None:
    """A hundred thousand rows over a year are cut in four by some thirty list calls a part."""
    found, asked = sizes(pattern, 4)
    assert len(found) == 4
    assert max(found) < most * sum(found) / 4
    assert asked <= 4 * 31


def test_a_span_with_one_row_is_cut_all_the_same() -> None:
    """Where there is next to nothing, all of that is soon known."""
    found, asked = sizes("", 4)
    assert len(found) == 4
    assert asked < 40


@pytest.mark.parametrize(("after", "before"), [(YEAR.after, YEAR.after), (YEAR.before, None)])
def test_a_span_without_a_past_second_is_one_part_without_a_question(
    after: int, before: int | None
) -> None:
    """There is nothing to learn about it."""
    questions = split_questions(
        after, before, present=YEAR.before + 60, settle=60, parts=4, limit=1000
    )
    with pytest.raises(StopIteration) as end:
        next(questions)
    (part,) = end.value.value
    assert (bounds_of(part), part.estimated_applications) == ((after, before), 0)


def test_the_page_around_a_cut_is_as_narrow_as_can_be() -> None:
    """It holds the cut's second whatever the bounds mean; a wider one would be full more often."""
    assert bounds_around(BASE) == Bounds(BASE - 1, BASE + 1)
