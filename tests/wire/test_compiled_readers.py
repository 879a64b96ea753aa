"""The compiled readers: what cattrs would give, record for record and refusal for refusal."""

import copy
import json
import pickle
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import records
from income_client.errors import DecodeError
from income_client.records import Application, ApplicationDocuments, ApplicationPage
from income_client.wire.codec import decode
from income_client.wire.readers import faults_of, make_converter
from income_client.wire.strict_json import UnusualNumber
from tests.support import strategies
from tests.support.payloads import APPLICATION, DOCUMENTS, PAGE

REPLIES: list[tuple[type[Any], dict[str, Any]]] = [
    (ApplicationPage, PAGE),
    (Application, APPLICATION),
    (ApplicationDocuments, DOCUMENTS),
]
TYPES = {"paystub": records.Paystub}
COMPILED = make_converter(TYPES)
BY_CATTRS = make_converter(TYPES, compiled=())
REFUSED = "refused"
NEW_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -7,
    Decimal("2.50"),
    Decimal("1e15"),
    UnusualNumber("1e300"),
    2**70,
    10**41,
    "",
    "text",
    "2024-02-29",
    "2024-02-30",
    "2024-02-29T10:00:00",
    "2024-02-29T10:00:00Z",
    [],
    ["text", 1],
    [None],
    {},
    {"current": 1, "ytd": ""},
    {"applicant1": {"text": 2.0**64}},
)


def _dissected(value: Any) -> Any:
    """Return a value with the type of everything in it, so that 1, 1.0 and True differ."""
    match value:
        case Mapping():
            parts: Any = {key: _dissected(item) for key, item in value.items()}
        case list() | tuple():
            parts = [_dissected(item) for item in value]
        case _ if attrs.has(type(value)):
            names = attrs.fields_dict(type(value))
            parts = {name: _dissected(getattr(value, name)) for name in names}
        case _:
            parts = repr(value)
    return type(value), parts


def _outcome(converter: Any, cls: type[Any], payload: object) -> Any:
    try:
        return _dissected(converter.structure(copy.deepcopy(payload), cls))
    except Exception:  # noqa: BLE001 - any refusal is one
        return REFUSED


def _assert_same(cls: type[Any], payload: object) -> None:
    outcome = _outcome(COMPILED, cls, payload)
    assert outcome == _outcome(BY_CATTRS, cls, payload)
    faults = faults_of(cls, payload, TYPES)
    assert bool(faults) == (outcome == REFUSED)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield container and key of everything in a payload."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)


ANY_REPLY = st.one_of(
    st.tuples(st.just(ApplicationPage), strategies.pages()),
    st.tuples(st.just(Application), strategies.applications()),
    st.tuples(st.just(ApplicationDocuments), strategies.documents_replies()),
)


@given(ANY_REPLY, st.data())
def test_generated_payloads_have_the_same_outcome(
    reply: tuple[type[Any], dict[str, Any]], data: st.DataObject
) -> None:
    """Whatever a reply holds, whole or with something of it replaced, both ways agree."""
    cls, payload = reply
    _assert_same(cls, payload)
    container, key = data.draw(st.sampled_from(list(_places(payload))))
    container[key] = data.draw(st.sampled_from(NEW_VALUES))
    _assert_same(cls, payload)


@pytest.mark.parametrize("payload", [None, True, 1, 1.5, "text", [], [{}], {}])
def test_what_is_no_object_is_refused_by_both(payload: object) -> None:
    """A reply that is no object, or an empty one, is no record."""
    for cls, _ in REPLIES:
        assert _outcome(COMPILED, cls, payload) == REFUSED
        _assert_same(cls, payload)


RECORDS = [getattr(records, name) for name in records.__all__ if attrs.has(getattr(records, name))]


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_to_make_a_record_is_to_store_its_fields(cls: type[Any]) -> None:
    """No record does more in ``__init__``, or at its making, than a compiled reader does."""
    assert type(cls) is type
    assert cls.__bases__ == (object,)
    hooks = {"__new__", "__attrs_pre_init__", "__attrs_post_init__", "__init_subclass__"}
    assert not hooks & vars(cls).keys()
    assert "_attrs_cached_hash" not in vars(cls)["__slots__"]
    for field in attrs.fields(cls):
        assert field.init
        assert field.converter is None
        assert field.validator is None


@pytest.mark.parametrize(
    ("cls", "sample"), REPLIES, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_read_record_is_a_record_like_any_other(cls: type[Any], sample: dict[str, Any]) -> None:
    """It is of the very class, frozen, and can be copied, changed into another and pickled."""
    record = decode(cls, json.dumps(sample).encode())
    assert not isinstance(record, DecodeError)
    assert type(record) is cls
    name = attrs.fields(cls)[0].name
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(record, name, None)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        delattr(record, name)
    assert copy.deepcopy(record) == record
    assert pickle.loads(pickle.dumps(record)) == record
    assert attrs.evolve(record, **{name: getattr(record, name)}) == record
