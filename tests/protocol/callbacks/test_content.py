"""The body of a callback: JSON of any shape, read for hints."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import Callback
from income_client.protocol.callbacks.content import content_refusal, read_callback
from income_client.protocol.callbacks.exchange import RequestHead
from income_client.protocol.callbacks.refusals import Refusal

NOW = datetime(2026, 6, 30, 12, tzinfo=UTC)


def head(*fields: tuple[str, str]) -> RequestHead:
    """Return the head of a request with these fields."""
    raw = tuple((name.encode(), value.encode("latin-1")) for name, value in fields)
    return RequestHead(method="POST", headers=raw)


def read(body: bytes) -> Callback:
    """Return the callback that a body is."""
    found = read_callback(body, received_at=NOW)
    assert isinstance(found, Callback)
    return found


def test_hints_are_taken_up() -> None:
    """The event and the ids that are publicly known."""
    body = b'{"event_type":"extractions","application_id":"app-1","more":[1,{"a":null}]}'
    assert read(body) == Callback(
        event_type="extractions",
        application_id="app-1",
        payload={"event_type": "extractions", "application_id": "app-1", "more": [1, {"a": None}]},
        received_at=NOW,
    )


@pytest.mark.parametrize(
    "body",
    [
        b"{}", b"[]", b"null", b"7", b'"text"', b"true", b"[[[]]]", b'{"event_type":7}',
        b'{"application_id":null,"event_type":["a"],"application_reference_id":{}}',
        b'{"application_id":""}', b'{"application_id":"a\\u0000b"}', b'{"event_type":"a\\nb"}',
        b'{"application_id":"' + b"a" * 257 + b'"}', b"\xef\xbb\xbf{}",
    ],
)  # fmt: skip
def test_unknown_shapes_pass_without_hints(body: bytes) -> None:
    """Payloads are not specified."""
    found = read(body)
    hints = (found.event_type, found.application_id, found.application_reference_id)
    assert hints == (None, None, None)


@pytest.mark.parametrize("body", [b"", b" \r\n\t"])
def test_an_empty_body_is_a_callback_that_says_nothing(body: bytes) -> None:
    """Whoever may ring, rings."""
    assert read(body) == Callback(payload=None, received_at=NOW)


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"{}{}", b"nul", b"a=b", b"<a/>", b"\xff\xfe{\0}\0", b'{"a":"\xff"}', b"NaN",
        b"[" * 5000 + b"]" * 5000, b'{"a":' * 300 + b"1" + b"}" * 300, b'{"a":1,"a":2}', b"\0",
    ],
)  # fmt: skip
def test_what_is_no_json_is_refused(body: bytes) -> None:
    """Cut, doubled, in another encoding, or too deep."""
    assert read_callback(body, received_at=NOW) is Refusal.NOT_JSON


@given(st.binary(max_size=200))
def test_no_body_raises(body: bytes) -> None:
    """Whatever comes becomes a callback or a refusal."""
    found = read_callback(body, received_at=NOW)
    assert isinstance(found, Callback) or found is Refusal.NOT_JSON


def test_the_payload_is_not_shown() -> None:
    """It may hold what the contract does not name."""
    assert "secret" not in repr(read(b'{"event_type":"error","note":"secret"}'))


@pytest.mark.parametrize(
    "value",
    [
        "application/json", "Application/JSON", "application/json; charset=utf-8",
        'application/json;charset="UTF-8"', "application/vnd.service+json", "application/json;",
        "application/json; version=1; charset=us-ascii",
    ],
)  # fmt: skip
def test_json_is_read_under_any_of_its_names(value: str) -> None:
    """With or without a charset that means UTF-8."""
    assert content_refusal(head(("Content-Type", value)), max_body_bytes=9) is None


def test_a_body_without_a_type_is_read() -> None:
    """Nobody says that the service names one; what is no JSON is refused all the same."""
    assert content_refusal(head(), max_body_bytes=9) is None


@pytest.mark.parametrize(
    "value",
    [
        "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=json",
        "text/json", "application/jsonp", "application/json-seq", "json", "",
        "application/json; charset=utf-16", "text/html; charset=application/json", "*/*",
    ],
)  # fmt: skip
def test_other_types_are_refused(value: str) -> None:
    """Forms of browsers among them."""
    found = content_refusal(head(("Content-Type", value)), max_body_bytes=9)
    assert found is Refusal.CONTENT_TYPE


@pytest.mark.parametrize("value", ["gzip", "br", "deflate", "identity, gzip", "zstd", "GZIP", "x"])
def test_compressed_bodies_are_refused(value: str) -> None:
    """Whoever wants to send much has to send much."""
    fields = (("Content-Type", "application/json"), ("Content-Encoding", value))
    assert content_refusal(head(*fields), max_body_bytes=9) is Refusal.CONTENT_ENCODING


def test_doubled_types_are_refused() -> None:
    """One of them would be believed by somebody else."""
    fields = (("Content-Type", "application/json"), ("content-type", "text/plain"))
    assert content_refusal(head(*fields), max_body_bytes=9) is Refusal.CONTENT_TYPE


@pytest.mark.parametrize(
    ("length", "refusal"),
    [("9", None), ("10", Refusal.TOO_LARGE), ("9" * 30, Refusal.TOO_LARGE)],
)
def test_a_body_that_announces_too_much_is_not_read(length: str, refusal: object) -> None:
    """Its limit is the last byte that is read."""
    assert content_refusal(head(("Content-Length", length)), max_body_bytes=9) is refusal
