"""Records: frozen values that compare, copy, travel and keep a borrower's data to themselves."""

import copy
import json
import pickle
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any, Final

import attrs
import msgspec
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client import from_json
from income_client.records import (
    Application,
    ApplicationDocuments,
    ApplicationPage,
    ApplicationRecord,
    Document,
    IncomeCalculation,
    Paystub,
    SuspectedFraudulent,
    Window,
    YearlyIncome,
)
from income_client.records.dead_letters import DeadLetter
from income_client.records.fields import NO_EXTRA, FrozenDict, UntypedDict, shown_key
from income_client.testing import make_application
from income_client.wire.shapes import RECORDS
from tests.support.payloads import APPLICATION, DOCUMENTS, PAGE, known_record

CLASSES = sorted(RECORDS, key=lambda cls: cls.__name__)


def _read(cls: type[Any], payload: object) -> Any:
    return from_json(cls, json.dumps(payload))


def _within(value: Any) -> Iterator[Any]:
    if type(value) in CLASSES:
        yield value
        for field in attrs.fields(type(value)):
            yield from _within(getattr(value, field.name))
    elif isinstance(value, dict | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _within(item)


EVERY_RECORD = [*_within(_read(ApplicationPage, PAGE)), *_within(known_record())]


# Values


def test_the_samples_hold_every_record() -> None:
    """Other tests can then rely on the samples for all classes."""
    assert {type(record) for record in EVERY_RECORD} == set(CLASSES)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_record_is_slotted_and_has_a_place_for_unknown_fields(cls: Any) -> None:
    """Records are keyword-only, and ``extra`` does not count in the hash.

    No record does more in ``__init__``, or at its making, than a compiled reader does: it stores
    its fields.
    """
    assert "__slots__" in vars(cls)
    assert "__dict__" not in dir(cls)
    assert "_attrs_cached_hash" not in vars(cls)["__slots__"]
    assert (type(cls), cls.__bases__) == (type, (object,))
    hooks = {"__new__", "__attrs_pre_init__", "__attrs_post_init__", "__init_subclass__"}
    assert not hooks & vars(cls).keys()
    for field in attrs.fields(cls):
        assert field.kw_only
        assert (field.init, field.converter, field.validator) == (True, None, None)
    if cls is not ApplicationRecord:
        assert attrs.fields(cls).extra.hash is False
        assert attrs.fields(cls).extra.default is NO_EXTRA


def test_a_record_can_be_copied_pickled_and_evolved() -> None:
    """The copies are equal to the original, and frozen too."""
    for record in EVERY_RECORD:
        name = attrs.fields(type(record))[0].name
        for twin in (
            record,
            copy.copy(record),
            copy.deepcopy(record),
            pickle.loads(pickle.dumps(record)),
            evolve(record),
        ):
            assert type(twin) is type(record)
            assert twin == record
            assert hash(twin) == hash(record)
            with pytest.raises(attrs.exceptions.FrozenInstanceError):
                setattr(twin, name, None)
            with pytest.raises(attrs.exceptions.FrozenInstanceError):
                delattr(twin, name)


def test_a_frozen_dict_cannot_be_changed() -> None:
    frozen: Any = FrozenDict({"a": 1})
    attempts = [
        lambda: frozen.__setitem__("a", 2),
        lambda: frozen.__delitem__("a"),
        lambda: frozen.__ior__({"b": 1}),
        lambda: frozen.update(b=1),
        lambda: frozen.pop("a"),
        frozen.popitem,
        frozen.clear,
        lambda: frozen.setdefault("b", 1),
    ]
    for attempt in attempts:
        with pytest.raises(TypeError, match="cannot be changed"):
            attempt()
    assert frozen == {"a": 1}
    assert copy.copy(frozen) is frozen
    assert msgspec.json.encode(frozen) == b'{"a":1}'


def test_a_record_answers_for_its_application_and_its_documents() -> None:
    """Paystubs are records, the data of other types a mapping that cannot be changed."""
    record = known_record()
    assert record.application_id == record.application.application_id
    assert record.last_updated_at == record.application.last_updated_at
    assert record.documents is not None
    documents = record.documents.documents
    assert [entry.document_type for entry in record.documents.all()] == [
        *("paystub", "paystub", "unknown_form")
    ]
    assert [entry.document for entry in record.documents.all()][:2] == list(documents["paystub"])
    assert [(document, document.extracted_data) for document in documents["paystub"]] == [
        (entry.document, entry.paystub) for entry in record.documents.paystubs
    ]
    assert all(isinstance(entry.paystub, Paystub) for entry in record.documents.paystubs)
    (other,) = documents["unknown_form"]
    assert isinstance(other, Document)
    assert isinstance(other.extracted_data, UntypedDict)
    assert other.extracted_data["wages"] == Decimal("51234.56")


def test_documents_are_iterated_with_their_types() -> None:
    """They are documents and no mapping; that there are none does not make them false."""
    documents = known_record().documents
    assert documents is not None
    assert list(documents) == [entry.document for entry in documents.all()]
    types = [entry.document_type for entry in documents.all()]
    assert [document.document_type for document in documents] == types
    assert (len(documents), next(iter(documents)) in documents) == (3, True)
    empty = evolve(documents, documents={})
    assert (len(empty), bool(empty), list(empty)) == (0, True, [])


def test_iterated_documents_that_were_made_by_hand_have_their_type_too() -> None:
    documents = known_record().documents
    assert documents is not None
    (first, *_) = documents
    by_hand = evolve(documents, documents={"paystub": (evolve(first, source=None),)})
    assert evolve(first, source=None).document_type is None
    assert [document.source for document in by_hand] == [first.source]


# What they show

CANARIES = ("canary", "4196.5", "1971")
READABLE = {
    "application_id", "application_reference_id", "application_date", "last_updated_at",
    "updated_at", "document_id", "document_ids", "file_id", "file_ids", "year", "source_type",
    "data_action",
}  # fmt: skip
KEYED_BY_DATA = {"applicants", "income_calculations", "documents"}


def _poisoned(value: Any, key: str = "") -> Any:
    poison: Any = value
    match value:
        case dict():
            more = {} if key in KEYED_BY_DATA else {"canary": "canary"}
            poison = {name: _poisoned(item, name) for name, item in value.items()} | more
        case list():
            poison = [_poisoned(item, key) for item in value]
        case int() | float() if key not in READABLE and not isinstance(value, bool):
            poison = 4196.5
        case str() if value and key not in READABLE:
            poison = "1971-01-09" if re.fullmatch(r"\d{4}-\d\d-\d\d", value) else "canary"
    return poison


def test_no_repr_shows_a_borrowers_data() -> None:
    for cls, payload in ((Application, APPLICATION), (ApplicationDocuments, DOCUMENTS)):
        # The innermost record first, so that a failure names its class.
        for record in sorted(
            _within(_read(cls, _poisoned(payload))), key=lambda one: len(repr(one))
        ):
            for canary in CANARIES:
                name = type(record).__name__
                place = f"mask the field of {name} in its class, or name it in READABLE here"
                assert canary not in repr(record) + str(record), place


def test_a_repr_shows_ids_times_and_types() -> None:
    """A key that is no plain name, an e-mail address say, is a star."""
    shown = repr(known_record())
    for text in ("app-1", "loan-1", "doc-1", "file-1", "2024, 1, 31", "2023", "wages", "create"):
        assert text in shown
    assert "AmountPair(current=***, ytd=***" in shown
    assert repr(FrozenDict({"ada@example.org": 1, "applicant1": 2})) == "{*: 1, applicant1: 2}"
    assert repr(UntypedDict({"ssn": "000112222"})) == "<1 fields>"
    assert shown_key("a" * 41) == shown_key("1a") == shown_key("ä") == shown_key(7) == "*"


# What they add up and pick out for their readers


SOURCE = known_record().application.income_calculations["applicant1"].incomes[0].income_sources[0]


def income(year: int, *amounts: Decimal | str) -> YearlyIncome:
    """Return the income of a year with one source for each amount."""
    sources = tuple(
        attrs.evolve(SOURCE, calculated_income_amount=Decimal(amount)) for amount in amounts
    )
    return YearlyIncome(year=year, income_sources=sources)


def application(*applicants: tuple[YearlyIncome, ...]) -> Application:
    """Return an application with these incomes, a tuple for each applicant."""
    calculations = {
        f"applicant{number}": IncomeCalculation(
            incomes=incomes, suspected_fraudulent=SuspectedFraudulent(document_ids=())
        )
        for number, incomes in enumerate(applicants, 1)
    }
    return evolve(make_application(), income_calculations=calculations)


@given(st.lists(st.decimals(-(10**20), 10**20, places=2), max_size=9))
def test_the_total_of_a_year_is_exact(amounts: list[Decimal]) -> None:
    """To the cent, whatever the program's own decimal context is."""
    cents = sum(int(amount.scaleb(2)) for amount in amounts)
    with localcontext(prec=3):
        total = income(2025, *amounts).total
    assert total.scaleb(2) == cents


def test_no_digit_of_the_largest_and_the_smallest_amount_is_lost() -> None:
    """Numbers of the service have up to 40 digits, and exponents up to 40."""
    total = income(2025, "9" * 40 + "E+40", "1E-40").total
    assert str(total) == f"{'9' * 40}{'0' * 40}.{'0' * 39}1"


def test_the_income_of_a_year_is_that_of_all_applicants() -> None:
    """Other years stay out, and a year that is listed twice counts twice."""
    both = application(
        (income(2024, "10.50"), income(2025, "1", "2.25")),
        (income(2025, "4"), income(2025, "0.25")),
    )
    assert both.total_income(2025) == Decimal("7.50")
    assert both.total_income(2024) == Decimal("10.50")
    # A year that was not calculated has no total; that of a year without sources is 0.
    assert application((income(2024, "1"),), ()).total_income(2025) is None
    assert application().total_income(2025) is None
    assert application((income(2025),)).total_income(2025) == 0


# Dead letters

NOON: Final = datetime(2026, 6, 30, 12)  # noqa: DTZ001 - the service's times carry no zone
LAST: Final = datetime(9999, 12, 31, 23, 59, 59)  # noqa: DTZ001 - likewise
ids = st.text(max_size=12) | st.integers(-99, 99).map(lambda n: f"window:{n}")


def letter(application_id: str | None, after: int = 5) -> DeadLetter:
    """Return a letter about an application, or about a second."""
    return DeadLetter(
        application_id=application_id,
        window=Window(after, after + 1),
        reason="NotFoundError: get_application(app-1): 404 Not Found",
        attempts=2,
        first_tried_at=NOON,
        last_tried_at=NOON,
    )


@given(ids, ids, st.integers(-9, 9), st.integers(-9, 9))
def test_no_two_subjects_have_one_key(one: str, two: str, first: int, second: int) -> None:
    """An application has one key wherever it was listed, and is taken for no second."""
    assert (letter(one, first).key == letter(two, second).key) is (one == two)
    assert (letter(None, first).key == letter(None, second).key) is (first == second)
    assert letter(one, first).key != letter(None, second).key


@given(st.integers(1, 60), st.sampled_from((NOON, LAST)))
def test_the_next_try_is_a_while_after_the_last(attempts: int, last: datetime) -> None:
    """The more often it was tried, the later, and a day later at most."""
    one = evolve(letter("app-1"), attempts=attempts, last_tried_at=last)
    more = evolve(one, attempts=attempts + 1)
    assert last <= one.next_try_at <= more.next_try_at
    assert one.next_try_at - last <= timedelta(days=1)
