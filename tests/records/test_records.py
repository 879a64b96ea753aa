"""Records: frozen values that compare, copy, travel and keep a borrower's data to themselves."""

import copy
import json
import pickle
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import attrs
import msgspec
import pytest

from income_client import from_json, records
from income_client.records import (
    AmountPair,
    Application,
    ApplicationDocuments,
    ApplicationPage,
    ApplicationRecord,
    ApplicationSummary,
    Document,
    FrozenDict,
    ImageFile,
    Paystub,
    Window,
)
from income_client.records.fields import NO_EXTRA, UntypedDict, shown_key
from tests.support.payloads import APPLICATION, DOCUMENTS, PAGE

CLASSES = [kind for kind in vars(records).values() if attrs.has(kind) and kind is not Window]


def _read(cls: type[Any], payload: object) -> Any:
    return from_json(cls, json.dumps(payload))


def _application_record() -> ApplicationRecord:
    return ApplicationRecord(
        application=_read(Application, APPLICATION),
        documents=_read(ApplicationDocuments, DOCUMENTS),
    )


def _within(value: Any) -> Iterator[Any]:
    if type(value) in CLASSES:
        yield value
        for field in attrs.fields(type(value)):
            yield from _within(getattr(value, field.name))
    elif isinstance(value, dict):
        for item in value.values():
            yield from _within(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _within(item)


EVERY_RECORD = [*_within(_read(ApplicationPage, PAGE)), *_within(_application_record())]


def test_the_samples_hold_every_record() -> None:
    """The sample payloads have a record of every class, so that the other tests see all."""
    assert {type(record) for record in EVERY_RECORD} == set(CLASSES)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_record_is_frozen_slotted_and_has_a_place_for_unknown_fields(cls: Any) -> None:
    """Every record is slotted and keyword-only, and its extra does not count in the hash."""
    assert "__slots__" in vars(cls)
    assert "__dict__" not in dir(cls)
    assert all(field.kw_only for field in attrs.fields(cls))
    if cls is not ApplicationRecord:
        assert attrs.fields(cls).extra.hash is False
        assert attrs.fields(cls).extra.default is NO_EXTRA


@pytest.mark.parametrize("record", EVERY_RECORD, ids=lambda record: type(record).__name__)
def test_a_record_can_be_copied_pickled_and_evolved(record: Any) -> None:
    """Copies, pickles and evolved records are equal to the original and frozen like it."""
    for twin in (
        copy.copy(record),
        copy.deepcopy(record),
        pickle.loads(pickle.dumps(record)),
        attrs.evolve(record),
    ):
        assert twin == record
        assert hash(twin) == hash(record)
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(twin, attrs.fields(type(record))[0].name, None)


def test_extra_counts_for_equality_and_not_for_the_hash() -> None:
    """Two records that differ only in unknown fields are unequal and have one hash."""
    plain = _read(ImageFile, {"file_id": "f", "file_reference_id": "n"})
    more = attrs.evolve(plain, extra=UntypedDict({"size": [1]}))
    assert plain != more
    assert hash(plain) == hash(more)


def test_all_iterates_every_document_with_its_type() -> None:
    """ApplicationDocuments.all() gives each document of each type once, with the type."""
    documents = _read(ApplicationDocuments, DOCUMENTS)
    types = [entry.document_type for entry in documents.all()]
    assert types == ["paystub", "paystub", "unknown_form"]
    assert [entry.document for entry in documents.all()][:2] == list(documents.documents["paystub"])


def test_an_application_record_answers_for_its_application() -> None:
    """The id and update time of an ApplicationRecord are those of its application."""
    record = _application_record()
    assert record.application_id == record.application.application_id
    assert record.last_updated_at == record.application.last_updated_at


CANARIES = ("canary", "4196.5", "1971")
READABLE = {
    "application_id",
    "application_reference_id",
    "application_date",
    "last_updated_at",
    "updated_at",
    "document_id",
    "document_ids",
    "file_id",
    "file_ids",
    "year",
    "source_type",
    "data_action",
}
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
    """Names, numbers, dates, addresses, amounts, links and unknown fields stay hidden."""
    for cls, payload in ((Application, APPLICATION), (ApplicationDocuments, DOCUMENTS)):
        for record in _within(_read(cls, _poisoned(payload))):
            for canary in CANARIES:
                assert canary not in repr(record), type(record)
                assert canary not in str(record), type(record)


def test_a_repr_shows_ids_times_and_types() -> None:
    """What is needed to find a record again stays readable."""
    shown = repr(_application_record())
    for text in ("app-1", "loan-1", "doc-1", "file-1", "2024, 1, 31", "2023", "wages", "create"):
        assert text in shown
    assert "AmountPair(current=***, ytd=***" in shown


def test_the_mappings_of_a_record_show_no_key_that_came_with_the_data() -> None:
    """A key that is no plain name, an e-mail address say, is a star in a repr."""
    assert repr(FrozenDict({"ada@example.org": 1, "applicant1": 2})) == "{*: 1, applicant1: 2}"
    assert repr(UntypedDict({"ssn": "000112222"})) == "<1 fields>"
    assert shown_key("a" * 41) == shown_key("1a") == shown_key("ä") == shown_key(7) == "*"


def test_a_frozen_dict_cannot_be_changed() -> None:
    """Every way to change a dict is a TypeError on a FrozenDict."""
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


def test_a_deep_copy_shares_nothing_that_can_change() -> None:
    """What lies within unknown fields is copied as well."""
    fields = UntypedDict({"list": [1]})
    twin = copy.deepcopy(fields)
    assert type(twin) is UntypedDict
    assert twin == fields
    assert twin["list"] is not fields["list"]


def test_records_can_be_made_by_hand() -> None:
    """A record needs only the fields of the contract, plain mappings included."""
    pair = AmountPair(current=Decimal("1.10"), ytd=None)
    assert repr(pair) == "AmountPair(current=***, ytd=***)"
    row = _read(ApplicationSummary, PAGE["applications"][0])
    assert attrs.evolve(row, extra={"ssn": "000112222"}).extra == {"ssn": "000112222"}
    assert "000112222" not in repr(attrs.evolve(row, extra={"ssn": "000112222"}))


def test_extracted_data_of_a_type_without_a_class_is_an_immutable_mapping() -> None:
    """Paystubs are records, the data of other types a mapping that cannot be changed."""
    documents = _read(ApplicationDocuments, DOCUMENTS).documents
    assert all(isinstance(document.extracted_data, Paystub) for document in documents["paystub"])
    (other,) = documents["unknown_form"]
    assert isinstance(other, Document)
    assert isinstance(other.extracted_data, UntypedDict)
    assert other.extracted_data["wages"] == Decimal("51234.56")
