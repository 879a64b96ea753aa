"""The world: ids, updates and when the list shows them."""

from decimal import Decimal
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.emulator import ServiceRules, World
from income_client.emulator.api import Service
from income_client.emulator.times import stamp
from income_client.errors import ConfigurationError
from tests.support.emulated import LIST, ask, ask_json

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


def _application(number: int, second: int) -> dict[str, str]:
    return {
        "application_id": f"added-{number}",
        "application_reference_id": f"R-{number}",
        "application_date": stamp(0),
        "last_updated_at": f"{stamp(second)}Z",
    }


NOW = 1_000
SECONDS = st.lists(st.integers(0, NOW), max_size=12)


@given(
    invented=SECONDS,
    added=SECONDS,
    bounds=st.tuples(st.integers(-5, NOW + 5), st.integers(-5, NOW + 5)),
    closed=st.tuples(st.booleans(), st.booleans()),
    touched=st.integers(0, 30),
)
def test_a_window_has_those_that_were_updated_in_it(
    invented: list[int],
    added: list[int],
    bounds: tuple[int, int],
    closed: tuple[bool, bool],
    touched: int,
) -> None:
    """Invented or added, whichever came first, and after an update too."""
    lower_closed, upper_closed = closed
    rules = ServiceRules(lower_closed=lower_closed, upper_closed=upper_closed)
    world = World(invented, now=NOW, rules=rules)
    for number, second in enumerate(added):
        world.add(_application(number, second))
    for number in range(len(world)):
        assert world.number_of(world.id_of(number)) == number
        assert world.number_by_reference(world.reference_of(number)) == number
    beyond = World([0] * 99)
    assert world.number_of(beyond.id_of(98)) is None
    assert world.number_by_reference(beyond.reference_of(98)) is None
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


def test_an_application_that_was_added_is_served_as_it_was_given() -> None:
    """Its amounts to the digit, its documents with a file here unless they name another place."""
    service = Service(World([5], now=NOW))
    application = _application(1, 900) | {"amount": Decimal("1.50")}
    documents = {
        "application_id": "added-1",
        "application_reference_id": "R-1",
        "documents": {
            "paystub": [{"document_id": "d-1", "file_ids": ["f-1"], "file_reference_ids": ["a"]}],
            "unknown_form": [{"document_id": "d-2", "url": "https://files.example.com/2"}],
        },
    }
    assert service.world.add(application, documents) == "added-1"
    assert b'"amount":1.50' in ask(service, f"{LIST}/added-1").body
    served = ask_json(service, f"{LIST}/added-1/documents", "pages=true")["documents"]
    assert served["paystub"][0]["url"].startswith("http://127.0.0.1")
    assert served["paystub"][0]["pages"]["count"] == 1
    assert served["unknown_form"][0]["url"] == "https://files.example.com/2"
    assert service.storage.file_of("d-1").content
    service.world.advance_to(NOW + 1)
    service.world.replace(application)
    assert ask_json(service, f"{LIST}/added-1")["last_updated_at"] == f"{stamp(NOW + 1)}Z"
    with pytest.raises(ConfigurationError, match="there is no document d-1"):
        service.storage.file_of("d-1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"application_id": "added-1"}, "of this id already"),
        ({"application_reference_id": "R-1"}, "of this reference already"),
        ({"last_updated_at": f"{stamp(NOW + 1)}Z"}, "after the service's present"),
        ({"last_updated_at": "soon"}, "cannot be served"),
        ({"application_date": None}, "cannot be served"),
    ],
)
def test_what_cannot_be_added_is_refused(change: dict[str, Any], message: str) -> None:
    """And nothing has changed."""
    world = World([], now=NOW)
    world.add(_application(1, 900))
    with pytest.raises(ConfigurationError, match=message):
        world.add(_application(2, 900) | change)
    with pytest.raises(ConfigurationError, match="without 'application_reference_id'"):
        world.add({"application_id": "added-2"})
    with pytest.raises(ConfigurationError, match="no application of this id was added"):
        world.replace(_application(2, 900))
    with pytest.raises(ConfigurationError, match="keeps its application_reference_id"):
        world.replace(_application(1, 900) | {"application_reference_id": "R-2"})
    assert world.ids == ("added-1",)


def test_seeds_differ_and_repeat() -> None:
    """The same seed gives the same ids, another seed gives others."""
    assert World(range(9), seed=1).ids == World(range(9), seed=1).ids
    assert not set(World(range(9), seed=1).ids) & set(World(range(9), seed=2).ids)


def test_an_update_is_not_held_back_by_an_earlier_one() -> None:
    """Each update shows when its own delay is over, and one that is out of date never does."""
    world = World([5, 7], now=100, rules=ServiceRules(visibility_delay=50))
    slow, quick = world.ids
    for name in (slow, quick):
        world.touch(name)
    assert (world.updated_at(slow), world.truth(4, 8)) == (100, {slow, quick})
    world.rules = ServiceRules(visibility_delay=0)
    world.advance_to(110)
    world.touch(quick)
    assert quick in world.truth(109, 111)
    assert slow in world.truth(4, 6)
    world.advance_to(150)
    assert quick in world.truth(109, 111)
    assert slow in world.truth(99, 101)
    assert slow not in world.truth(4, 6)


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


def test_what_does_not_exist_is_refused() -> None:
    """And the present never goes back."""
    world = World([1], now=100)
    world.advance_to(50)
    assert world.now == 100
    for call in (world.touch, world.updated_at):
        with pytest.raises(ConfigurationError):
            call("app-0000000000")
