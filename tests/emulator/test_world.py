"""The world: ids, invented times and files, updates, and when the list shows them."""

from collections import Counter
from decimal import Decimal
from functools import cache
from itertools import cycle
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.emulator import ServiceRules, World
from income_client.emulator.api import Service
from income_client.emulator.times import DAY, stamp
from income_client.emulator.update_times import Spread, spread_times
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


def test_an_application_that_was_added_is_served_as_it_was_given() -> None:
    """Amounts keep their digits, and documents stay until a replacement without documents."""
    service = Service(World([5], now=NOW))
    application = _application(1, 900) | {"amount": Decimal("1.50")}
    service.world.add(application, {"documents": {"paystub": [{"document_id": "d-1"}]}})
    assert b'"amount":1.50' in ask(service, f"{LIST}/added-1").body
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
    """After any additions and updates, the list has each application once, at its last update."""
    world = World(times[::2], now=20)
    for number, second in enumerate(times[1::2]):
        world.add(_application(number, second))
    assert [*map(world.number_of, world.ids)] == [*range(len(times))]
    assert [world.updated_at(name) for name in world.ids] == [*times[::2], *times[1::2]]
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


# Invented times


PATTERNS = ("uniform", "bursts", "growth", "diurnal", "pareto", "bmodel", "seconds")


def _spread(pattern: str, count: int, seed: int = 1, span: int = 20 * DAY) -> list[int]:
    first = 1000 * DAY
    task = Spread(rng=Random(seed), count=count, first=first, last=first + span - 1)
    return spread_times(pattern, task)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_times_lie_in_the_span(pattern: str) -> None:
    """The times are ascending, and equal for equal seeds."""
    for count in (0, 1, 2, 17, 5_000):
        times = _spread(pattern, count)
        assert len(times) == count
        assert times == sorted(times) == _spread(pattern, count)
        assert all(1000 * DAY <= each < 1020 * DAY for each in times)
    assert times != _spread(pattern, 5_000, seed=2)
    if pattern == "seconds":
        assert max(Counter(_spread(pattern, 50_000)).values()) >= 1000, "no second fills a page"
    else:
        dense = Counter(_spread(pattern, 30_000, seed=3, span=61))
        assert (dense.total(), max(dense.values()) <= 400) == (30_000, True)


# Invented files


YEAR = 31_536_000


def _service() -> Service:
    # All through three years, the first days of January included.
    updates = [54 * YEAR + number * 3 * YEAR // 150 for number in range(150)]
    return Service(World(updates, rules=ServiceRules()))


@cache
def files() -> list[tuple[Any, dict[str, tuple[str, Any]]]]:
    """Return applications with their documents by id, some of them updated."""
    service = _service()
    found = []
    for number, name in enumerate(service.world.ids):
        if number % 3 == 0:
            service.world.touch(name)
        application = ask_json(service, f"{LIST}/{name}")
        documents = ask_json(service, f"{LIST}/{name}/documents")["documents"]
        by_id = {
            each["document_id"]: (kind, each) for kind in documents for each in documents[kind]
        }
        found.append((application, by_id))
    return found


def test_amounts_are_supported() -> None:
    """Each is what its last document says; every document supports one, and its files are known."""
    said = {
        "paystub": lambda data: data["gross_pay"]["ytd"],
        "w2": lambda data: data["wages_tips_other_compensation"],
        "form_1099": lambda data: data["gross_amount"],
    }
    for application, documents in files():
        incomes = [
            income
            for calculation in application["income_calculations"].values()
            for income in calculation["incomes"]
        ]
        used = []
        for source in (source for income in incomes for source in income["income_sources"]):
            used += source["document_ids"]
            kind, document = documents[used[-1]]
            assert source["calculated_income_amount"] == said[kind](document["extracted_data"])
        assert sorted(used) == sorted(documents)
        images = {
            image["file_id"]: image["file_reference_id"]
            for image in application["data_sources"]["image_files"]
        }
        for _, document in documents.values():
            pairs = zip(document["file_ids"], document["file_reference_ids"], strict=True)
            assert all(images[file_id] == name for file_id, name in pairs)
        for calculation in application["income_calculations"].values():
            assert set(calculation["suspected_fraudulent"]["document_ids"]) <= set(documents)


def test_variety() -> None:
    """The files hold all that a client must cope with: several of each, nulls and absent values."""
    applications = [application for application, _ in files()]
    calculations = [each for a in applications for each in a["income_calculations"].values()]
    stubs = [
        each["extracted_data"]
        for _, documents in files()
        for kind, each in documents.values()
        if kind == "paystub"
    ]
    people = [person for stub in stubs for person in stub["applicants"].values()]
    applicants = [each for a in applications for each in a["applicants"].values()]
    assert {len(application["applicants"]) for application in applications} == {1, 2, 3}
    assert {len(each["incomes"]) for each in calculations} == {1, 2, 3}
    kinds = {kind for _, documents in files() for kind, _ in documents.values()}
    assert kinds == {"paystub", "w2", "form_1099"}
    for some in (
        [person["suffix"] is None for person in people],
        [person["middle_name"] is None for person in people],
        [person["address"]["street_2"] is None for person in people],
        [stub["tips_pay"]["current"] == "" for stub in stubs],
        [bool(stub["deductions"]) for stub in stubs],
        [entry["end_date"] is None for each in applicants for entry in each["address_info"]],
    ):
        assert set(some) == {True, False}
    suspects = [bool(each["suspected_fraudulent"]["document_ids"]) for each in calculations]
    assert 0 < sum(suspects) < len(suspects) // 5


def test_what_is_removed_is_gone() -> None:
    """Also where an update of it was yet to show; its id can be added again, and is another one."""
    world = World(range(100, 109), now=200, rules=ServiceRules(visibility_delay=5))
    gone, stays = world.ids[4], world.ids[5]
    for name in (gone, stays):
        world.touch(name)
    reference = world.reference_of(4)
    world.remove(gone)
    with pytest.raises(ConfigurationError, match="no application of this id"):
        world.remove(gone)
    world.advance_to(300)
    assert (len(world), gone in world.ids, world.number_by_reference(reference)) == (8, False, None)
    assert world.truth(0, 300) == set(world.ids)
    assert world.id_near(4) == world.id_near(13) == stays
    application = _application(4, 99)
    application |= {"application_id": gone, "application_reference_id": reference}
    for _ in range(2):
        world.add(application)
        assert [world.id_of(number) for number in world.search(gone)] == [gone]
        assert (world.span(), world.counts(99, 2, 2)) == ((99, 200), [2, 2])
        assert len(world.ids) == len(set(world.ids)) == 9
        world.remove(gone)
    for name in world.ids:
        world.remove(name)
    assert (len(world), world.span(), world.id_near(0)) == (0, None, None)


def test_the_same_seed_gives_the_same_ids_and_bytes() -> None:
    """Earlier requests change nothing; another seed gives other ids."""
    assert World(range(9), seed=1).ids == World(range(9), seed=1).ids
    assert not set(World(range(9), seed=1).ids) & set(World(range(9), seed=2).ids)
    first, second = _service(), _service()
    name = first.world.ids[9]
    for other in first.world.ids[:9]:
        ask(first, f"{LIST}/{other}")
    for path in (f"{LIST}/{name}", f"{LIST}/{name}/documents"):
        assert ask(first, path).body == ask(second, path).body
