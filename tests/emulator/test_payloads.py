"""The invented income files: their sums, their references and that they repeat."""

from datetime import date
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from income_client.emulator import ServiceRules, World
from income_client.emulator.api import Service
from tests.support.emulated import LIST, ask, ask_json

EARNED = ("regular", "overtime", "bonus", "commission", "tips", "sick", "vacation")
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


def _exact(number: Any) -> Decimal:
    return Decimal(0) if number == "" else Decimal(str(number))


def _sources(application: Any) -> list[tuple[int, Any]]:
    return [
        (income["year"], source)
        for calculation in application["income_calculations"].values()
        for income in calculation["incomes"]
        for source in income["income_sources"]
    ]


def _stubs() -> list[Any]:
    return [
        document["extracted_data"]
        for _, documents in files()
        for kind, document in documents.values()
        if kind == "paystub"
    ]


def test_amounts_are_supported() -> None:
    """The calculated amount is what the last supporting document says, to the cent."""
    said = {
        "paystub": lambda data: data["gross_pay"]["ytd"],
        "w2": lambda data: data["wages_tips_other_compensation"],
        "form_1099": lambda data: data["gross_amount"],
    }
    for application, documents in files():
        for _, source in _sources(application):
            kind, document = documents[source["document_ids"][-1]]
            amount = source["calculated_income_amount"]
            assert amount == said[kind](document["extracted_data"])
            assert _exact(amount) == round(_exact(amount), 2)


@pytest.mark.parametrize("column", ["current", "ytd"])
def test_paystubs_add_up(column: str) -> None:
    """Gross is the sum of what was earned, net is gross without what was withheld."""
    for stub in _stubs():
        gross = _exact(stub["gross_pay"][column])
        assert gross == sum(_exact(stub[f"{name}_pay"][column]) for name in EARNED)
        withheld = sum(_exact(each[column]) for each in stub["taxes"] + stub["deductions"])
        kept = sum(_exact(stub[name][column]) for name in ("garnishments", "loans401_k"))
        assert 0 < _exact(stub["net_pay"][column]) == gross - withheld - kept


def test_totals_grow_from_stub_to_stub() -> None:
    """Each paystub's totals are those of the one before and its own amounts."""
    for application, documents in files():
        for _, source in _sources(application):
            said = [documents[name][1]["extracted_data"] for name in source["document_ids"]]
            for before, after in pairwise(said):
                grown = _exact(before["gross_pay"]["ytd"]) + _exact(after["gross_pay"]["current"])
                assert _exact(after["gross_pay"]["ytd"]) == grown


def test_references_hold() -> None:
    """Every document supports one source, and its files are among the data sources."""
    for application, documents in files():
        used = [name for _, source in _sources(application) for name in source["document_ids"]]
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


def test_dates_are_plausible() -> None:
    """Paystubs cover whole periods of one year and were paid before the application."""
    for application, documents in files():
        applied = date.fromisoformat(application["application_date"][:10])
        for kind, document in documents.values():
            if kind == "paystub":
                stub = document["extracted_data"]
                begin, end, paid = (
                    date.fromisoformat(stub[name])
                    for name in ("pay_begin_date", "pay_end_date", "pay_date")
                )
                assert begin.year == end.year
                assert begin < end < paid <= applied


def test_variety() -> None:
    """The files hold all that a client must cope with: several of each, nulls and absent values."""
    applications = [application for application, _ in files()]
    calculations = [each for a in applications for each in a["income_calculations"].values()]
    stubs = _stubs()
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


def test_the_same_seed_gives_the_same_bytes() -> None:
    """The same seed and version give the same bytes, whatever was asked before."""
    first, second = _service(), _service()
    name = first.world.ids[9]
    for other in first.world.ids[:9]:
        ask(first, f"{LIST}/{other}")
    for path in (f"{LIST}/{name}", f"{LIST}/{name}/documents"):
        assert ask(first, path).body == ask(second, path).body
