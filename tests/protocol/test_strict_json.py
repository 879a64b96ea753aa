"""Hostile JSON: refused as a value, never with an exception, and told apart from what is odd."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import DecodeError
from income_client.protocol.strict_json import parse
from income_client.protocol.wire import decode
from income_client.records import ApplicationPage, ApplicationSummary
from tests.support.leaks import held_by
from tests.support.payloads import PAGE

PAGE_TEXT = json.dumps(PAGE)
ROW_END = '"application_date": "2024-01-05T09:30:00"'


def _page_with(member: str) -> bytes:
    return PAGE_TEXT.replace(ROW_END, f"{ROW_END}, {member}").encode()


@pytest.mark.parametrize(
    ("body", "retryable"),
    [
        (b"", True),
        (b" ", True),
        (PAGE_TEXT.encode()[:-1], True),
        (PAGE_TEXT.encode() + b"}", True),
        (PAGE_TEXT.encode() + b"\x00", True),
        (PAGE_TEXT.encode("utf-16"), True),
        (PAGE_TEXT.encode().replace(b"loan-1", b"loan-\xff"), True),
        (PAGE_TEXT.encode().replace(b"loan-1", b"loan-\xed\xa0\x80"), True),
        (PAGE_TEXT.encode().replace(b"loan-1", b"loan-\\ud800"), True),
        (b"<html>log in</html>", True),
        (b"[" * 2000 + b"]" * 2000, True),
        (_page_with('"x": NaN'), True),
        (_page_with('"x": -Infinity'), True),
        (_page_with('"x": 1e999'), True),
        (b"null", False),
        (b"[]", False),
        (b'"text"', False),
        (b"7", False),
        (b"{}", False),
        (b"[" * 300 + b"]" * 300, False),
        (_page_with('"x": 18446744073709551616'), False),
        (_page_with('"x": [{"y": -1' + "0" * 30 + "}]"), False),
        (_page_with('"x": ' + "1" * 5000), True),
        (_page_with('"x": ' + "[" * 101 + "]" * 101), False),
        (_page_with('"x": ' + '{"y":' * 600 + "1" + "}" * 600), False),
        (_page_with('"x": 1, "x": 1'), False),
        (_page_with('"x": 1, "\\u0078": 1'), False),
        (_page_with('"x": {"y": [{"z": 1, "z": 2}]}'), False),
        (_page_with('"application_id": "app-2"'), False),
        (_page_with('"x": "\\u003a", "x": "::"'), False),
    ],
)
def test_hostile_text_is_a_decode_error_and_nothing_else(body: bytes, retryable: bool) -> None:
    """Broken and hostile bodies are a DecodeError; only what is not whole JSON is retryable."""
    error = decode(ApplicationPage, body)
    assert isinstance(error, DecodeError)
    assert error.retryable is retryable
    assert "loan-1" not in held_by(error)


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + PAGE_TEXT.encode(),
        _page_with('"x": ' + "[" * 100 + "]" * 100),
        _page_with('"x": 18446744073709551615, "y": -9223372036854775808'),
        _page_with('"x": "\\u003a", "y:\\u003A": "::"'),
        _page_with('"x": "\\\\u003a"'),
        b" " + PAGE_TEXT.replace(" ", "\n").encode() + b" ",
    ],
)
def test_unusual_text_is_read_all_the_same(body: bytes) -> None:
    """A byte order mark, odd spacing, escaped colons and large numbers that fit pass."""
    assert isinstance(decode(ApplicationPage, body), ApplicationPage)


keys = st.sampled_from(["a", "b", ":", "\\", "\\u003a", '"', "c:d", "\u003a"])
members = st.deferred(lambda: st.lists(st.tuples(keys, json_texts), max_size=3))
json_texts: st.SearchStrategy[str] = st.deferred(
    lambda: (
        st.sampled_from(['"\\u003a"', '"\\u003A:"', '"a:b"', "1", "null", '"\\\\u003a"', '"\\\\"'])
        | st.lists(json_texts, max_size=2).map(lambda items: f"[{','.join(items)}]")
        | members.map(_object_text)
    ),
)


def _object_text(pairs: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{json.dumps(key)} : {text}" for key, text in pairs) + "}"


@given(members.map(_object_text))
def test_keys_that_stand_twice_are_found_exactly(text: str) -> None:
    """A text is refused if and only if the standard parser meets a key twice in one object."""
    repeated = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        repeated.append(len(dict(pairs)) != len(pairs))

    json.loads(text, object_pairs_hook=look)
    assert isinstance(parse(text.encode()), DecodeError) is any(repeated)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\u03ae1-. ', max_size=40).map(str.encode))
def test_no_bytes_make_decoding_raise(body: bytes) -> None:
    """Any bytes give a record or an error value, never an exception."""
    assert isinstance(decode(ApplicationSummary, body), ApplicationSummary | DecodeError)
