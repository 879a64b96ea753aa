"""The world: ids, updates and when the list shows them."""

from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.emulator import ServiceRules, World
from income_client.errors import ConfigurationError

EVERYTHING = (-1, 10**6)


def test_ids_are_found_again() -> None:
    """Every id and every reference leads back to its application, and nothing else does."""
    world = World(range(500))
    assert [world.number_of(name) for name in world.ids] == list(range(500))
    assert len(set(world.ids)) == len(world) == 500
    assert [world.number_by_reference(world.reference_of(n)) for n in (0, 499)] == [0, 499]
    strange = ("", "app-", "app-zzzzzzzzzz", "app-" + "\u0663" * 10, world.id_of(500), "../token")
    assert not any(world.number_of(name) is not None for name in strange)
    for reference in ("", "LOAN-1", "LOAN-00000500", "LOAN-" + "\u0661" * 8, "loan-00000001"):
        assert world.number_by_reference(reference) is None


def test_seeds_differ_and_repeat() -> None:
    """The same seed gives the same ids, another seed gives others."""
    assert World(range(9), seed=1).ids == World(range(9), seed=1).ids
    assert not set(World(range(9), seed=1).ids) & set(World(range(9), seed=2).ids)


def test_touch_moves_an_application_to_now() -> None:
    """An update gives an application a new version and the present second as its place."""
    world = World([5, 5, 7], now=100)
    name = world.ids[1]
    assert world.touch(name) == world.updated_at(name) == 100
    assert world.history(1).version == 1
    assert world.truth(4, 50) == {world.ids[0], world.ids[2]}
    assert world.truth(99, 101) == {name}
    assert world.applied_at(1) <= 5


def test_late_visibility() -> None:
    """A late update leaves the row at its old place until the delay has passed."""
    world = World([5, 7], now=100, rules=ServiceRules(visibility_delay=10))
    name = world.ids[0]
    world.touch(name)
    assert world.updated_at(name) == 100
    assert name in world.truth(4, 6)
    world.advance_to(109)
    assert name not in world.truth(99, 101)
    world.advance_to(110)
    assert name in world.truth(99, 101)
    assert name not in world.truth(4, 6)


def test_an_update_is_not_held_back_by_an_earlier_one() -> None:
    """Each update shows when its own delay is over, and one that is out of date never does."""
    world = World([5, 7], now=100, rules=ServiceRules(visibility_delay=50))
    slow, quick = world.ids
    for name in (slow, quick):
        world.touch(name)
    world.rules = ServiceRules(visibility_delay=0)
    world.advance_to(110)
    world.touch(quick)
    assert quick in world.truth(109, 111)
    assert slow in world.truth(4, 6)
    world.advance_to(150)
    assert quick in world.truth(109, 111)
    assert slow in world.truth(99, 101)


@given(
    times=st.lists(st.integers(0, 20), min_size=1, max_size=8),
    steps=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), max_size=30),
    delays=st.lists(st.integers(0, 4), min_size=1, max_size=5),
)
def test_every_application_has_one_place(
    times: list[int], steps: list[tuple[int, int]], delays: list[int]
) -> None:
    """Whatever is updated when, the list holds each application once, at last at its update."""
    world = World(times, now=20)
    for delay, (number, pause) in zip(cycle(delays), steps, strict=False):
        world.rules = ServiceRules(visibility_delay=delay, upper_closed=True)
        world.touch(world.ids[number % len(times)])
        world.advance_to(world.now + pause)
        assert world.truth(*EVERYTHING) == set(world.ids)
    world.advance_to(world.now + max(delays))
    world.rules = ServiceRules(upper_closed=True)
    for name in world.ids:
        second = world.updated_at(name)
        assert name in world.truth(second - 1, second)


def test_time_never_goes_back() -> None:
    """The present only moves forward."""
    world = World([], now=100)
    world.advance_to(50)
    assert world.now == 100


def test_unknown_ids_are_refused() -> None:
    """An id that does not exist cannot be touched or looked up."""
    world = World([1])
    for call in (world.touch, world.updated_at):
        with pytest.raises(ConfigurationError):
            call("app-0000000000")
