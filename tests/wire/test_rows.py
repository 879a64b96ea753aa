"""Pages that cannot be read as a whole are read row by row."""

import json

import pytest

from income_client.errors import DecodeError
from income_client.wire.codec import parse
from income_client.wire.rows import MalformedRow, decode_rows
from tests.support.payloads import BOUNDS, row_of_list

PAGE = {
    **BOUNDS,
    "applications": [
        row_of_list("app-1"),
        row_of_list("app-2", application_reference_id="loan-2"),
    ],
}


def test_bytes_of_half_a_character_spoil_their_row_only() -> None:
    """They are no UTF-8, which some services write all the same."""
    body = json.dumps(PAGE).encode().replace(b"loan-2", b"loan-\xed\xa0\x80")
    page = decode_rows(body, keep_extra=True)
    assert page is not None
    assert [isinstance(row, MalformedRow) for row in page.applications] == [False, True]
    assert [row.application_id for row in page.applications] == ["app-1", "app-2"]


def test_other_bytes_are_no_page() -> None:
    """What is not whole is not guessed at."""
    body = json.dumps(PAGE).encode()
    assert decode_rows(body.replace(b"loan-2", b"loan-\xff"), keep_extra=True) is None
    assert decode_rows(body[:-1], keep_extra=True) is None


def test_an_error_names_a_thousand_halves_of_characters_at_most() -> None:
    """A reply that is made to be large makes no large error."""
    with pytest.raises(DecodeError) as caught:
        parse(b"[" + b",".join([b'"\\ud800"'] * 1500) + b"]")
    assert len(caught.value.faults) == 1000
    assert caught.value.faults[999].path == "$[999]"
