"""Given applications stand in the world as invented ones do."""

from hypothesis import given
from hypothesis import strategies as st

from income_client.emulator import ServiceRules
from income_client.testing import given as given_records
from income_client.testing import make_record
from income_client.testing.given_world import GivenWorld

NOW = 1_000
SECONDS = st.lists(st.integers(0, NOW), max_size=12)


def _world(invented: list[int], added: list[int], rules: ServiceRules) -> GivenWorld:
    world = GivenWorld(invented, seed=7, now=NOW, rules=rules)
    for number, second in enumerate(added):
        world.add(given_records.given(make_record(number=number, applicants=0)), second, now=NOW)
    return world


@given(
    invented=SECONDS,
    added=SECONDS,
    bounds=st.tuples(st.integers(-5, NOW + 5), st.integers(-5, NOW + 5)),
    lower_closed=st.booleans(),
    upper_closed=st.booleans(),
    touched=st.integers(0, 30),
)
def test_a_window_has_those_that_were_updated_in_it(
    invented: list[int],
    added: list[int],
    bounds: tuple[int, int],
    lower_closed: bool,
    upper_closed: bool,
    touched: int,
) -> None:
    """Whichever came first, and after an update too."""
    rules = ServiceRules(lower_closed=lower_closed, upper_closed=upper_closed)
    world = _world(invented, added, rules)
    updates = dict(zip(world.ids, [*invented, *added], strict=True))
    if touched < len(updates):
        name = world.ids[touched]
        updates[name] = world.touch(name)
    after, before = bounds
    meant = {
        name
        for name, second in updates.items()
        if (second > after or (lower_closed and second == after))
        and (second < before or (upper_closed and second == before))
    }
    assert world.truth(after, before) == meant


@given(invented=SECONDS, added=SECONDS)
def test_numbers_ids_and_references_are_one(invented: list[int], added: list[int]) -> None:
    """Each leads to the other, and to nothing beyond the last."""
    world = _world(invented, added, ServiceRules())
    for number in range(len(world)):
        assert world.number_of(world.id_of(number)) == number
        assert world.number_by_reference(world.reference_of(number)) == number
    beyond = GivenWorld([0] * 99, seed=7, now=NOW, rules=ServiceRules())
    assert world.number_of(beyond.id_of(98)) is None
    assert world.number_by_reference(beyond.reference_of(98)) is None
