"""Whole payloads of the service as JSON-able values, for property tests.

They follow from the fields of the records, so that a new field needs no line here. That the
fields have the names and the types of the contract is for `payloads`, which are written by hand.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import Any, get_args, get_origin

import attrs
from hypothesis import strategies as st

from income_client.records import (
    Application,
    ApplicationDocuments,
    ApplicationPage,
    ApplicationSummary,
    Document,
    Paystub,
)
from income_client.records.fields import Amount, ServiceTime, UtcTime

Payload = dict[str, Any]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["a:b", "\\u003a", '":{"', "\u003a", "\x7f\x00", "Ünï"]
)


def _fraction(sign: int, digits: int, exponent: int) -> Decimal:
    # Without a point or an exponent, a number is an integer in JSON.
    return Decimal((sign, tuple(map(int, str(digits))), exponent or -1))


def _decimals(digits: int, exponents: int) -> st.SearchStrategy[Decimal]:
    sign, figures = st.integers(0, 1), st.integers(1, 10**digits - 1)
    return st.builds(_fraction, sign, figures, st.integers(-exponents, exponents))


numbers = (
    st.integers(-(10**40) + 1, 10**40 - 1)
    | st.decimals(-(10**9), 10**9, places=2)
    | _decimals(15, 20)
)
times = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(datetime.isoformat)  # noqa: DTZ001
utc_times = times.map(lambda text: text + "Z")
days = st.dates(date(1, 1, 1)).map(date.isoformat)

_plain = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts
untyped = st.recursive(
    _plain | _decimals(25, 600),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
unknown_fields = st.dictionaries(
    st.sampled_from(["extra", "extracted_extra", "new field", "x:y", ""]), untyped, max_size=2
)


_OF_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    bool: st.booleans(),
    int: st.integers(0, 9999),
    date: days,
    Decimal: numbers,
    Amount: numbers | st.just(""),
    ServiceTime: times,
    UtcTime: utc_times,
    Any: untyped,
}


def pages() -> st.SearchStrategy[Payload]:
    """Replies of the list call."""
    return _object(ApplicationPage, applications=st.lists(_object(ApplicationSummary), max_size=4))


def applications() -> st.SearchStrategy[Payload]:
    """Replies with one application."""
    return _object(Application)


def documents_replies() -> st.SearchStrategy[Payload]:
    """Replies with the documents of one application, paystubs and others."""
    other = st.dictionaries(texts, untyped, max_size=3)
    data = {"paystub": _object(Paystub), "unknown_form": other, "new:type": other}
    by_type = {kind: st.lists(_documents(data[kind]), max_size=2) for kind in data}
    return _object(ApplicationDocuments, documents=st.fixed_dictionaries({}, optional=by_type))


def replies(
    classes: Sequence[type[Any]] = (ApplicationPage, Application, ApplicationDocuments),
) -> st.SearchStrategy[tuple[type[Any], Payload]]:
    """Any reply of these, with the class that it is read as."""
    made = {
        ApplicationPage: pages(),
        Application: applications(),
        ApplicationDocuments: documents_replies(),
    }
    return st.one_of([st.tuples(st.just(cls), made[cls]) for cls in classes])


def _documents(data: st.SearchStrategy[Payload]) -> st.SearchStrategy[Payload]:
    document = _object(Document, extracted_data=data)
    blocks: st.SearchStrategy[Payload] = st.just({}) | st.fixed_dictionaries({"pages": untyped})
    return st.builds(lambda own, more: {**own, **more}, document, blocks)


def _object(record: type[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Payload]:
    """Objects with the fields of a record that have no default, and perhaps with unknown ones."""
    by_type = {
        field.name: _values(field.type)
        for field in attrs.fields(record)
        if field.default is attrs.NOTHING and field.name not in fields
    }
    known = st.fixed_dictionaries(by_type | fields)
    return st.builds(lambda more, own: {**more, **own}, st.just({}) | unknown_fields, known)


def _values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a field of this type."""
    if kind in _OF_TYPE:
        return _OF_TYPE[kind]
    if attrs.has(kind):
        return _object(kind)
    if get_origin(kind) is tuple:
        return st.lists(_values(get_args(kind)[0]), max_size=2)
    if get_origin(kind) is Mapping:
        slots = st.sampled_from(["applicant1", "applicant2"])
        return st.dictionaries(slots, _values(get_args(kind)[1]), max_size=2)
    (required,) = set(get_args(kind)) - {NoneType}
    return st.none() | _values(required)
