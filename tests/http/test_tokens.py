"""Tokens are read strictly, replaced in time and stored with their end."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from income_client.errors import AuthenticationError, IncomeClientError, TokenError
from income_client.http.endpoints import Response
from income_client.http.tokens import StoredToken, Token, from_stored, read_token, to_stored
from income_client.settings import Secret

NOON = datetime(2026, 6, 30, 12, tzinfo=UTC)
GOOD = {"access_token": "abc.def.S3CRET", "token_type": "Bearer", "expires_in": 3600}


def token(lifetime: float = 3600, obtained_at: float = 0) -> Token:
    """Return some token."""
    return Token(authorization=Secret("Bearer t"), obtained_at=obtained_at, lifetime=lifetime)


def answered(payload: Any, status: int = 200) -> Response:
    """Return a reply of the token endpoint."""
    headers = {"content-type": "text/html", "retry-after": "7"}
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return Response(status=status, headers=headers, body=body)


def failure(response: Response, cls: type[IncomeClientError]) -> IncomeClientError:
    """Return the error that a reply is read as."""
    with pytest.raises(IncomeClientError) as caught:
        read_token(response, sent_at=0)
    assert type(caught.value) is cls
    return caught.value


def test_a_reply_becomes_a_token() -> None:
    """The life begins when the request is sent."""
    found = read_token(answered(GOOD | {"token_type": "bEARER", "more": 1}), sent_at=5.0)
    assert isinstance(found, Token)
    assert found.authorization == Secret("Bearer abc.def.S3CRET")
    assert (found.obtained_at, found.lifetime) == (5.0, 3600.0)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        (
            "access_token",
            [None, "", " ", "a b", "a\r\nX: y", "S3CRET\xe9", "S3CRET\x00", 7, ["a"], "a" * 16385],
        ),
        ("token_type", [None, "", "mac", "S3CRET", 1, ["Bearer"], "Bearer "]),
        ("expires_in", [None, 0, -1, True, "3600", 3600.0, 1e400, 10**10, 2**63, [3600]]),
    ],
)
def test_a_field_that_is_wrong_is_named_and_not_shown(field: str, values: list[Any]) -> None:
    """A token that cannot be sent or timed is refused."""
    for value in values:
        error = failure(answered(GOOD | {field: value}), TokenError)
        assert error.status == 200
        assert not error.retryable or value == 1e400
        assert field in str(error) or value == 1e400
        assert "S3CRET" not in str(error) + repr(error)
    missing = {name: value for name, value in GOOD.items() if name != field}
    assert field in str(failure(answered(missing), TokenError))


@pytest.mark.parametrize("body", [b"", b"<html>S3CRET", b'{"access_token": "S3C', b"\xff"])
def test_a_reply_that_is_not_json_can_be_retried(body: bytes) -> None:
    """A page of some proxy, or a body cut short, may be gone the next time."""
    error = failure(answered(body), TokenError)
    assert error.retryable
    assert error.message == f"token: text/html, {len(body)} bytes instead of JSON"


@pytest.mark.parametrize("payload", [None, [], "abc", 1])
def test_a_reply_must_be_an_object(payload: Any) -> None:
    """Whole JSON of another shape is not retried."""
    error = failure(answered(payload), TokenError)
    assert not error.retryable


def test_a_byte_order_mark_is_passed_over() -> None:
    """A mark before the JSON does no harm."""
    body = b"\xef\xbb\xbf" + json.dumps(GOOD).encode()
    assert isinstance(read_token(answered(body), sent_at=0), Token)


@pytest.mark.parametrize("status", [400, 401])
def test_refused_credentials_are_said_so_and_not_retried(status: int) -> None:
    """A 400 or 401 of the token endpoint is about the credentials."""
    error = failure(answered({"error": "invalid_client"}, status), AuthenticationError)
    assert (error.status, error.retryable) == (status, False)
    assert (
        error.message
        == {
            400: "token: 400 Bad Request",
            401: "token: 401 Unauthorized, the client credentials were refused",
        }[status]
    )


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(403, False), (404, False), (307, False), (204, False), (408, True), (429, True), (503, True)],
)
def test_another_status_is_a_token_error(status: int, retryable: bool) -> None:
    """Whether it can be retried is as for any call."""
    error = failure(answered(GOOD, status), TokenError)
    assert (error.status, error.retryable, error.retry_after) == (status, retryable, 7.0)


def test_a_stored_token_keeps_its_end() -> None:
    """A token that goes through a store ends when it would have ended."""
    some = token(lifetime=600, obtained_at=100)
    stored = to_stored(some, now=150, wall_time=NOON)
    assert stored.access_token == Secret("t")
    assert stored.expires_at == NOON + timedelta(seconds=550)
    back = from_stored(stored, now=7000, wall_time=NOON + timedelta(seconds=50))
    assert back.authorization == some.authorization
    assert (back.obtained_at, back.lifetime) == (6900, 600)


def test_a_stored_token_lasts_no_longer_than_it_was_given_for() -> None:
    """A clock that was set back does not lengthen a token's life."""
    stored = StoredToken(access_token=Secret("t"), expires_at=NOON + timedelta(days=9), lifetime=60)
    assert from_stored(stored, now=500, wall_time=NOON).obtained_at == 500


def test_a_stored_token_has_the_usual_lifetime() -> None:
    """Where the store does not say which one it was issued for."""
    assert StoredToken(access_token="t", expires_at=NOON).lifetime == 3600


def test_a_key_that_comes_twice_is_refused() -> None:
    """A reply that says two things is not read as a token."""
    twice = b'{"access_token":"a","access_token":"b","token_type":"Bearer","expires_in":9}'
    error = failure(answered(twice), TokenError)
    assert not error.retryable
    assert "twice" in error.message
