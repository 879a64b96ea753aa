"""The planner against the truth of the list call: nothing lost, nothing twice, always an end."""

from collections import Counter
from collections.abc import Callable
from random import Random

from hypothesis import assume, event, given
from hypothesis import strategies as st

from income_client.records.window import Window
from income_client.walk.checkpoint import read_checkpoint, write_checkpoint
from income_client.walk.density import Density
from income_client.walk.windows import Rows
from tests.support.listing import Listing, Rules, rows_at
from tests.support.walk_data import BASE, readings, update_seconds
from tests.support.walks import parts_of, walk

LIMITS = st.sampled_from([2, 3, 7, 25])
WALKERS = st.sampled_from([1, 2, 4, 8])
RULES = readings(
    1,
    widest=st.sampled_from([None, None, 6, 40, 3_600]),
    oldest=st.sampled_from([None, None, BASE + 5, BASE + 100]),
    rounds_up=False,
    date_ahead=0,
    slowness=0,
)


def _is_sensible(rules: Rules, first: int, last: int) -> bool:
    """Tell whether the service keeps anything, and a walk does not take thousands of questions."""
    if rules.oldest is not None and rules.oldest > last:
        return False
    return rules.widest is None or (last - first) / rules.widest < 500


@given(st.data(), LIMITS, WALKERS, RULES)
def test_a_walk_yields_what_one_unlimited_query_would_each_id_once(
    data: st.DataObject, limit: int, walkers: int, rules: Rules
) -> None:
    """Every meaning of the bounds, order, cut and kind of data gives the truth exactly."""
    times = data.draw(update_seconds(limit, 10 * limit))
    last = max([*times, BASE + 5]) + 5
    after = BASE + data.draw(st.sampled_from([-10, 0, 1, 7]))
    before = max(after, last - data.draw(st.sampled_from([0, 5, 6, 20])))
    assume(_is_sensible(rules, after, before))
    days = data.draw(st.sampled_from([0, 3]), label="days since")
    world = Listing(rows=rows_at(times), now=last + days * 86_400, rules=rules)
    walked = walk(
        world,
        after,
        before,
        limit=limit,
        walkers=walkers,
        chance=data.draw(st.randoms()),
        tells_time=data.draw(st.booleans(), label="tells time"),
    ).run()
    assert len(walked.ids) == len(set(walked.ids))
    assert set(walked.ids) == world.truth(after, before)
    assert walked.planner.saturated == []
    if days and walked.tells_time:
        assert list(walked.planner.covered) == [Window(after, before + 1)]


@given(st.data(), LIMITS, WALKERS, RULES)
def test_an_open_walk_reaches_the_present_and_each_id_comes_once(
    data: st.DataObject, limit: int, walkers: int, rules: Rules
) -> None:
    """Without an upper bound everything up to the present is yielded, the current second too."""
    times = data.draw(update_seconds(limit, 10 * limit))
    now = max(times, default=BASE) + data.draw(st.sampled_from([0, 0, 1, 30]))
    after = BASE + data.draw(st.sampled_from([-10, 0, 1]))
    assume(after <= now and _is_sensible(rules, after, now))
    world = Listing(rows=rows_at(times), now=now, rules=rules)
    walked = walk(
        world, after, None, limit=limit, walkers=walkers, chance=data.draw(st.randoms())
    ).run()
    assert len(walked.ids) == len(set(walked.ids))
    assert set(walked.ids) == world.truth(after, now + 1)


@given(st.data(), LIMITS, WALKERS, RULES)
def test_updates_during_an_open_walk_lose_nothing(
    data: st.DataObject, limit: int, walkers: int, rules: Rules
) -> None:
    """An application that is updated during the walk is still yielded.

    Each moves at most once: a row that moves again and again within the current
    second is never visible behind an exclusive upper bound that may not lie ahead.
    """
    times = data.draw(update_seconds(limit, 10 * limit))
    now = max(times, default=BASE) + 10
    assume(_is_sensible(rules, BASE - 10, now))
    world = Listing(rows=rows_at(times), now=now, rules=rules)
    must = world.truth(BASE - 10, now + 1)
    chance = data.draw(st.randoms())
    still = sorted(must)
    chance.shuffle(still)

    def update(world: Listing) -> None:
        if still and chance.random() < 0.3:
            for _ in range(min(len(still), chance.choice([1, 1, limit - 1]))):
                world.touch(still.pop())
            world.now += chance.choice([0, 1, 1, 3])

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


@given(st.data(), LIMITS, WALKERS, RULES, st.integers(0, 60), st.booleans())
def test_an_upper_bound_ahead_of_the_present_loses_nothing(
    data: st.DataObject,
    limit: int,
    walkers: int,
    rules: Rules,
    ahead: int,
    tells_time: bool,
) -> None:
    """What is updated while the bound has not passed is yielded, in the walk or its resumption."""
    times = data.draw(update_seconds(limit, 10 * limit))
    now = max(times, default=BASE) + 10
    before = now + ahead
    assume(rules.future != "refuse" and _is_sensible(rules, BASE - 10, now))
    world = Listing(rows=rows_at(times), now=now, rules=rules)
    must = world.truth(BASE - 10, before)
    chance = data.draw(st.randoms())
    still = sorted(must)
    chance.shuffle(still)

    def update(world: Listing) -> None:
        if still and chance.random() < 0.3 and world.now < before - 1:
            world.touch(still.pop())
            world.now += chance.choice([0, 1, 1])

    first = walk(
        world,
        BASE - 10,
        before,
        limit=limit,
        walkers=walkers,
        chance=chance,
        before_answer=update,
        tells_time=tells_time,
        keep_saturated=True,
    )
    going, steps = True, data.draw(st.sampled_from([1, 3, 9, 10**6]), label="steps")
    while going and steps:
        going, steps = first.step(), steps - 1
    touched_later = {still.pop() for _ in range(min(len(still), 3))}
    covered = list(first.planner.covered)
    if world.now < before - 1:
        world.now += 1
        for key in touched_later:
            world.touch(key)
    world.now = before + 30
    again = walk(
        world,
        BASE - 10,
        before,
        limit=limit,
        walkers=walkers,
        chance=chance,
        tells_time=tells_time,
        keep_saturated=True,
        covered=covered,
    ).run()
    if not (first.planner.saturated or again.planner.saturated):
        assert must <= set(first.ids) | set(again.ids)
        moved = {key for key in touched_later if now < world.rows[key] < before}
        assert moved <= set(again.ids)


@given(st.integers(0, 60), WALKERS, RULES, st.booleans(), st.booleans())
def test_an_overfull_present_is_yielded_or_named(
    rows: int, walkers: int, rules: Rules, time_flows: bool, is_kept: bool
) -> None:
    """A burst in the very second of the walk is never dropped in silence."""
    assume(rules.future == "accept" and rules.widest is None)
    assume(rules.oldest is None or rules.oldest <= BASE)
    times = [BASE + 500] * rows + [BASE + n for n in range(30)]
    world = Listing(rows=rows_at(times), now=BASE + 500, rules=rules)
    walked = walk(
        world,
        BASE - 1,
        None,
        limit=20,
        walkers=walkers,
        time_flows=time_flows,
        keep_saturated=is_kept,
    ).run()
    given = set(walked.ids) | set(walked.planner.withheld)
    if walked.planner.saturated:
        assert rows >= 20
        assert len(given) >= 20
    else:
        assert given == world.truth(BASE - 1, BASE + 501)


@given(st.data(), LIMITS, WALKERS, RULES)
def test_planned_and_covered_windows_partition_the_span_at_every_step(
    data: st.DataObject, limit: int, walkers: int, rules: Rules
) -> None:
    """No second is in two places or in none, and no more questions are in flight than walkers."""
    times = data.draw(update_seconds(limit, 10 * limit))
    last = max(times, default=BASE) + 5
    assume(_is_sensible(rules, BASE, last))
    world = Listing(rows=rows_at(times), now=last, rules=rules)
    walked = walk(world, BASE, last, limit=limit, walkers=walkers, chance=data.draw(st.randoms()))
    going = True
    while going:
        going = walked.step()
        position = BASE
        for part in parts_of(walked.planner):
            assert part.after == position
            position = part.before
        assert position == walked.planner.span.before
        assert len(walked.in_flight) <= walkers


@given(st.data(), LIMITS, WALKERS, RULES, st.booleans())
def test_a_walk_that_crashed_anywhere_resumes_without_loss(
    data: st.DataObject, limit: int, walkers: int, rules: Rules, is_open: bool
) -> None:
    """What was acknowledged before the crash and what the resumed walk yields is everything."""
    times = data.draw(update_seconds(limit, 10 * limit))
    last = max(times, default=BASE) + 5
    before = None if is_open else last
    assume(_is_sensible(rules, BASE - 1, last))
    world = Listing(rows=rows_at(times), now=last, rules=rules)
    chance = data.draw(st.randoms())
    first = walk(world, BASE - 1, before, limit=limit, walkers=walkers, chance=chance)
    for _ in range(data.draw(st.integers(0, 12))):
        if not first.step():
            break
    _, covered = read_checkpoint(write_checkpoint(first.planner.bounds, first.planner.covered))
    again = walk(
        world, BASE - 1, before, limit=limit, walkers=walkers, chance=chance, covered=covered
    ).run()
    assert set(first.ids) | set(again.ids) == world.truth(BASE - 1, before or last + 1)
    new = [key for key in again.ids if key not in set(first.ids)]
    assert len(new) == len(set(new))


@given(st.data(), LIMITS, WALKERS)
def test_a_question_that_failed_is_asked_again(
    data: st.DataObject, limit: int, walkers: int
) -> None:
    """Dropping any question at any time changes nothing about the result."""
    times = data.draw(update_seconds(limit, 10 * limit))
    last = max(times, default=BASE) + 5
    world = Listing(rows=rows_at(times), now=last)
    chance = data.draw(st.randoms())
    walked = walk(world, BASE - 1, None, limit=limit, walkers=walkers, chance=chance)
    while walked.step():
        if walked.in_flight and chance.random() < 0.3:
            question, _ = walked.in_flight.pop()
            walked.planner.drop(question)
    assert len(walked.ids) == len(set(walked.ids)) == len(times)


@given(st.data(), LIMITS, RULES, st.sampled_from([0, 3_600]), st.booleans())
def test_walks_that_follow_each_other_lose_nothing(
    data: st.DataObject, limit: int, rules: Rules, date_ahead: int, tells_time: bool
) -> None:
    """Each ends at the first present that is echoed, and the next begins a second before that."""
    times = data.draw(update_seconds(limit, 10 * limit))
    now = max(times, default=BASE) + 2
    assume(_is_sensible(rules, BASE - 10, now))
    # Windows of a few seconds cannot be followed as fast as their end moves on.
    assume(rules.widest is None or rules.widest > 6)
    world = Listing(rows=rows_at(times), now=now, rules=rules)
    start, ids = BASE - 10, set[str]()
    while start < now - 1:
        walked = walk(
            world, start - 1, None, limit=limit, date_ahead=date_ahead, tells_time=tells_time
        ).run()
        # Without its `Date` a service that cuts windows short may be followed into the future.
        present = min(walked.planner.present or start, world.now - 1)
        assert not walked.planner.covered.gaps(Window(start, present))
        event("came to the present" if present == world.now - 1 else "was cut short")
        ids |= set(walked.ids)
        world.now += 1
        assert present > start, "no walk gets any further"
        start = present
    assert world.truth(BASE - 10, now) <= ids


class HostileDensity(Density):
    """Estimates that do as much harm as they can, and counts of the full pages at each place."""

    def __init__(self, limit: int, wanted: Callable[[int, int], int]) -> None:
        super().__init__(limit)
        self.full_at: Counter[int] = Counter()
        self._wanted = wanted

    def width(self, start: int, end: int) -> int:
        """Return any number."""
        return self._wanted(start, end)

    def pages(self, start: int, end: int) -> float:
        """Return any number."""
        return float(self._wanted(start, end))

    def middle(self, start: int, end: int) -> int:
        """Return any number."""
        return start + self._wanted(start, end)

    def full(self, window: Window, rows: Rows) -> int | None:
        """Count a full page."""
        self.full_at[window.after] += 1
        super().full(window, rows)
        return None


HOSTILE_WIDTHS: dict[str, Callable[[Random], Callable[[int, int], int]]] = {
    "everything": lambda _: lambda start, end: end - start,
    "more than there is": lambda _: lambda start, end: 10**12,
    "all but a second": lambda _: lambda start, end: end - start - 1,
    "nothing": lambda _: lambda start, end: 0,
    "less than nothing": lambda _: lambda start, end: -(10**12),
    "anything": lambda chance: lambda start, end: chance.randint(-9, 2 * (end - start)),
}


@given(st.data(), LIMITS, WALKERS, st.sampled_from(sorted(HOSTILE_WIDTHS)))
def test_no_estimate_makes_a_walk_endless(
    data: st.DataObject, limit: int, walkers: int, widths: str
) -> None:
    """Whatever width is wanted, few pages at one place are full, and the rows are the same."""
    chance = data.draw(st.randoms(), label="chance")
    is_narrow = HOSTILE_WIDTHS[widths](Random(0))(0, 1000) < 999
    span = 600 if is_narrow else data.draw(st.sampled_from([600, 10**6]), label="span")
    times = [BASE + chance.randrange(span) for _ in range(data.draw(st.integers(0, 60)))]
    world = Listing(rows=rows_at(times), now=BASE + span)
    walked = walk(world, BASE - 1, BASE + span, limit=limit, walkers=walkers, chance=chance)
    density = walked.planner.density = HostileDensity(limit, HOSTILE_WIDTHS[widths](Random(1)))
    walked.run()
    given = set(walked.ids) | set(walked.planner.withheld)
    assert walked.planner.saturated or given == world.truth(BASE - 1, BASE + span)
    assert max(density.full_at.values(), default=0) <= 4 + (span + 2).bit_length()
