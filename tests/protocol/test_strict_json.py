"""Hostile JSON: refused as a value, never with an exception, and told apart from what is odd."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import DecodeError
from income_client.protocol.wire import decode, to_json
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
        (b"[" * 2000 + b"]" * 2000, False),
        (_page_with('"x": NaN'), True),
        (_page_with('"x": -Infinity'), True),
        (b"null", False),
        (b"[]", False),
        (b'"text"', False),
        (b"7", False),
        (b"{}", False),
        (b"[" * 300 + b"]" * 300, False),
        (_page_with('"x": ' + "1" * 5000), False),
        (_page_with('"x": 1e999999999999999999999'), False),
        (_page_with('"x": ' + "[" * 101 + "]" * 101), False),
        (_page_with('"x": ' + '{"y":' * 600 + "1" + "}" * 600), False),
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
        _page_with('"x": 18446744073709551616, "y": -1' + "0" * 30),
        _page_with('"x": 1e300, "y": [1e400, -1e-999, 0.' + "1" * 99 + "]"),
        _page_with('"x": 1, "x": 2'),
        _page_with('"x": "\\u003a", "y:\\u003A": "::"'),
        _page_with('"x": "\\\\u003a"'),
        b" " + PAGE_TEXT.replace(" ", "\n").encode() + b" ",
    ],
)
def test_unusual_text_is_read_all_the_same(body: bytes) -> None:
    """A byte order mark, odd spacing, escaped colons and large numbers that fit pass."""
    assert isinstance(decode(ApplicationPage, body), ApplicationPage)


def test_an_unusual_number_is_kept_with_its_digits() -> None:
    """Where no type is known, a number of any size is a Decimal that goes back as it came."""
    page = decode(ApplicationPage, _page_with('"x": [1e400], "y": 1.50'))
    assert isinstance(page, ApplicationPage)
    extra = page.applications[0].extra
    assert [type(one) for one in (extra["x"][0], extra["y"])] == [Decimal, Decimal]
    assert b'"x":[1E+400],"y":1.50' in to_json(page)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\u03ae1-. ', max_size=40).map(str.encode))
def test_no_bytes_make_decoding_raise(body: bytes) -> None:
    """Any bytes give a record or an error value, never an exception."""
    assert isinstance(decode(ApplicationSummary, body), ApplicationSummary | DecodeError)
