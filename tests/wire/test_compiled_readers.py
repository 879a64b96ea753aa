"""The compiled readers: they refuse what has a fault, and store what a record stores."""

import copy
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from income_client import from_json, to_json
from income_client.records import Application, ApplicationDocuments, ApplicationPage
from income_client.wire.codec import decode
from income_client.wire.compiled import quick_reader as quick_reader_of
from income_client.wire.readers import faults_of, reader_of
from income_client.wire.scalars import UnusualNumber, copy_untyped
from income_client.wire.times import parse_service_time, parse_utc_time
from tests.support import strategies
from tests.support.payloads import APPLICATION, DOCUMENTS, PAGE, text_of, tree_of

REPLIES: dict[type[Any], dict[str, Any]] = {
    ApplicationPage: PAGE,
    Application: APPLICATION,
    ApplicationDocuments: DOCUMENTS,
}
NEW_VALUES: tuple[Any, ...] = (
    None, True, 0, -7, Decimal("2.50"), Decimal("1e15"), UnusualNumber("1e300"), 2**70, 10**41,
    "", "text", "2024-02-29", "2024-02-30", "2024-02-29T10:00:00", "2024-02-29T10:00:00Z",
    [], ["text", 1], [None], {}, {"current": 1, "ytd": ""},
    {"applicant1": {"text": Decimal("18446744073709551616.0")}},
)  # fmt: skip
PIECES = (
    b"", b" ", b'"', b",", b"{", b"}", b"[]", b"null", b"-0", b"1.0", b"1e2", b"0.10", b"+00:00",
    b"Z", b"z", b"t", b".5", b".9999999", b"24:00:00", b"\xff", b"\\ud800", b"\\u0041",
    b"\xef\xbb\xbf", b"9" * 50, b"1e400",
)  # fmt: skip
"""Replacements that give a text another meaning, or none."""


def _assert_read_or_refused(cls: Any, payload: Any) -> None:
    """Check that a payload is refused just if it has faults, and else goes back as it came."""
    try:
        record = reader_of(cls)(copy.deepcopy(payload), cls)
    except Exception:  # noqa: BLE001 - any refusal is one
        assert faults_of(cls, payload)
    else:
        assert not faults_of(cls, payload)
        assert text_of(tree_of(to_json(record))) == text_of(copy_untyped(payload))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield container and key of everything in a payload."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)


@given(strategies.replies(), st.data())
def test_what_has_a_fault_is_refused_and_all_else_is_read(
    reply: tuple[type[Any], dict[str, Any]], data: st.DataObject
) -> None:
    """A whole reply, or one with a part of it replaced."""
    cls, payload = reply
    _assert_read_or_refused(cls, payload)
    container, key = data.draw(st.sampled_from(list(_places(payload))))
    container[key] = data.draw(st.sampled_from(NEW_VALUES))
    _assert_read_or_refused(cls, payload)


QUICK = (ApplicationPage, Application)
"""The replies that a typed parser reads at first."""
OF_EACH = pytest.mark.parametrize("cls", QUICK, ids=lambda cls: cls.__name__)


def _read_either_way(cls: Any, body: bytes) -> list[tuple[str, object]]:
    """Return what comes of a text: at once, and by the reader that keeps what is unknown."""
    quick_reader = quick_reader_of(cls)
    assert quick_reader is not None
    results: list[tuple[str, object]] = []
    for read in (quick_reader, partial(decode, cls, on_tree=lambda _: None)):
        try:
            record = read(body)
        except Exception as error:  # noqa: BLE001 - any refusal is one
            results.append(("refused", type(error)))
        else:
            results.append((repr(record), to_json(record)))
    return results


def _assert_quick_is_right(cls: Any, body: bytes) -> None:
    """Check that the quick reader refuses, or reads just what the other one does."""
    quick, thorough = _read_either_way(cls, body)
    assert quick[0] == "refused" or quick == thorough


@given(strategies.replies(QUICK), st.data())
def test_what_is_read_quickly_is_read_as_thoroughly(
    reply: tuple[type[Any], dict[str, Any]], data: st.DataObject
) -> None:
    """A value replaced, a key given twice, and any bytes put anywhere: the same, or read again."""
    cls, payload = reply
    _assert_quick_is_right(cls, text_of(payload))
    container, key = data.draw(st.sampled_from(list(_places(payload))))
    container[key] = data.draw(st.sampled_from(NEW_VALUES))
    body = text_of(payload)
    _assert_quick_is_right(cls, body)
    place = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(0, 3)) + place
    new = data.draw(st.sampled_from(PIECES) | st.binary(max_size=3))
    _assert_quick_is_right(cls, body[:place] + new + body[end:])


@OF_EACH
def test_an_ordinary_reply_is_read_quickly(cls: type[Any]) -> None:
    """The reply is not read a second time; one with an unknown field is."""
    payload = REPLIES[cls]
    quick, thorough = _read_either_way(cls, text_of(payload))
    assert quick == thorough
    assert _read_either_way(cls, text_of({**payload, "new_field": 1}))[0][0] == "refused"
    assert from_json(cls, text_of({**payload, "new_field": 1})).extra == {"new_field": 1}


FIRST_VALUES = (
    b"1", b'{"a":1}', b'{"a":"\xff"}', b'{"a":1e400}', b'{"a":01}', b'{"a":"\\ud800"}',
    b'{"a":"\x01"}',
    b'{"a":' + b"1" * 5000 + b"}", b"[" * 1500 + b"]" * 1500, b'{"a":tru}', b'"\xff"', b'"x"',
)  # fmt: skip


@OF_EACH
def test_a_key_given_twice_is_read_as_ever(cls: type[Any]) -> None:
    """The value that a repeated key replaces is checked as well."""
    body = text_of(REPLIES[cls])
    for key, first in product(REPLIES[cls], FIRST_VALUES):
        name = b'"%s":' % key.encode()
        _assert_quick_is_right(cls, body.replace(name, name + first + b"," + name, 1))


TIMES = (
    "2024-01-05T09:30:00", "2024-01-05T09:30:00Z", "2024-01-05T24:00:00", "2024-W05-3T10:00:00",
)  # fmt: skip


@given(
    st.sampled_from(TIMES),
    st.text("0123456789-:TZW+. \uff11", max_size=2),
    st.integers(0, 20),
    st.integers(0, 2),
)
@example("2024-01-05T09:30:00Z", "", 17, 2)
def test_a_time_is_read_by_the_rules_of_times(text: str, new: str, start: int, cut: int) -> None:
    """The short way of a compiled reader takes no other form of a time."""
    text = text[:start] + new + text[start + cut :]
    page = {**PAGE, "updated_after": text}
    application = {**tree_of(text_of(APPLICATION)), "last_updated_at": text}
    assert bool(faults_of(ApplicationPage, page)) == (parse_service_time(text) is None)
    assert bool(faults_of(Application, application)) == (parse_utc_time(text) is None)
    _assert_read_or_refused(ApplicationPage, page)
    _assert_read_or_refused(Application, application)
