"""Token requests that are refused, each with the answer that RFC 6749 has for it."""

import base64
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.protocol.callbacks.exchange import Answer
from income_client.protocol.callbacks.issuer import CallbackTokenIssuer
from tests.support.callback_token_requests import CLIENT, FORM, GOOD, GRANT, SECRET, basic, buy

SHOP: Final = CallbackTokenIssuer(CLIENT, SECRET)
PAIR: Final = f"&client_id={CLIENT}&client_secret={SECRET}".encode()


def said(answer: Answer) -> tuple[int, Any]:
    """Return the status and the error of an answer."""
    return answer.status, msgspec.json.decode(answer.body).get("error")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "post", "OPTIONS"])
def test_only_post_is_answered(method: str) -> None:
    """Credentials do not belong into addresses."""
    answer = buy(SHOP, method=method)
    assert answer.status == 405
    assert dict(answer.headers)["Allow"] == "POST"


@pytest.mark.parametrize(
    "body",
    [
        GRANT,
        GRANT + b"&scope=callbacks&audience=x&resource=a&resource=b",
        GRANT + b"&client_id=service",
        GRANT + b"&client_id=&client_secret=",
        GRANT + b"&",
        b"&=&x&" + GRANT,
        b"grant%5Ftype=client%5Fcredentials",
        b"scope=%ff%00&" + GRANT,
    ],
)
def test_what_is_not_known_is_ignored(body: bytes) -> None:
    """Parameters of other profiles, and those without a value, do no harm."""
    assert buy(SHOP, body).status == 200


def test_credentials_may_come_in_the_form() -> None:
    """As RFC 6749 allows, in place of the header."""
    assert buy(SHOP, GRANT + PAIR, authorization=None).status == 200
    assert buy(SHOP, content_type=FORM + b"; charset=UTF-8").status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"scope=x",
        b"grant_type=",
        b"Grant_Type=client_credentials",
        GRANT + b"&" + GRANT,
        GRANT + PAIR,
        GRANT + b"&client_secret=x",
        GRANT + b"&client_id=other",
        GRANT + b"&client_id=service&client_id=service",
        GRANT + b"&scope=%zz",
        GRANT + b"&scope=%",
        GRANT + b"&x=1" * 100,
        b'{"grant_type": "client_credentials"}',
    ],
)
def test_a_request_that_is_not_well_formed_is_invalid(body: bytes) -> None:
    """Doubled, missing and broken parameters, and two ways to authenticate at once."""
    assert said(buy(SHOP, body)) == (400, "invalid_request")


@pytest.mark.parametrize(
    "arguments",
    [
        {"content_type": None},
        {"content_type": b"application/json"},
        {"content_type": b"multipart/form-data"},
        {"more": ((b"content-type", FORM),)},
        {"more": ((b"content-encoding", b"gzip"),)},
        {"more": ((b"AUTHORIZATION", GOOD),)},
    ],
)
def test_a_head_that_is_not_well_formed_is_invalid(arguments: Any) -> None:
    """Another type, a compressed form, a header that stands twice."""
    assert said(buy(SHOP, **arguments)) == (400, "invalid_request")


@pytest.mark.parametrize("grant", [b"password", b"CLIENT_CREDENTIALS", b"client_credentials%00"])
def test_another_grant_is_not_supported(grant: bytes) -> None:
    """There is one kind of grant, for those who may ask."""
    assert said(buy(SHOP, b"grant_type=" + grant)) == (400, "unsupported_grant_type")
    unknown = buy(SHOP, b"grant_type=" + grant, authorization=basic(CLIENT, "x"))
    assert said(unknown) == (401, "invalid_client")


STRANGERS: Final = (
    None,
    b"",
    b"Basic",
    b"Basic ",
    b"Basic !!!!",
    b"Basic =",
    b"Bearer abc",
    GOOD.replace(b"Basic", b"Digest"),
    GOOD + b"AAAA",
    basic(CLIENT, ""),
    basic("", SECRET),
    basic(CLIENT, SECRET + "\0"),
    basic(CLIENT, SECRET[:-1]),
    basic(CLIENT, SECRET.upper()),
    basic(CLIENT.upper(), SECRET),
    basic("other", SECRET),
    basic(CLIENT, "ü" * 40),
    basic(CLIENT, "%zz%"),
    b"Basic " + base64.b64encode(SECRET.encode()),
    b"Basic " + base64.b64encode(b"\xff:\xff\x00"),
    b"Basic " + b"A" * 20_000,
    "Basic ü".encode(),
)


@pytest.mark.parametrize("authorization", STRANGERS)
def test_whoever_is_no_client_gets_the_same_answer(authorization: bytes | None) -> None:
    """Neither the status nor the text says what was wrong."""
    answer = buy(SHOP, authorization=authorization)
    assert answer == buy(SHOP, authorization=basic(CLIENT, "wrong"))
    assert said(answer) == (401, "invalid_client")
    assert dict(answer.headers)["WWW-Authenticate"].startswith("Basic ")


@pytest.mark.parametrize(
    "pair",
    [
        b"",
        b"&client_id=service",
        b"&client_id=service&client_secret=",
        b"&client_id=service&client_secret=x",
        b"&client_id=service&client_secret=%00",
        PAIR + b"%00",
        PAIR + b"+",
        PAIR.replace(b"service", b"Service"),
        b"&client_assertion=x",
    ],
)
def test_a_wrong_pair_in_the_form_gets_it_too(pair: bytes) -> None:
    """The place makes no difference."""
    answer = buy(SHOP, GRANT + pair, authorization=None)
    assert answer == buy(SHOP, authorization=basic(CLIENT, "wrong"))


@given(st.binary(max_size=200), st.binary(max_size=100), st.booleans())
def test_bytes_of_any_kind_lead_to_a_refusal(body: bytes, value: bytes, is_basic: bool) -> None:
    """Nothing is raised, and nothing is sold."""
    authorization = b"Basic " + base64.b64encode(value) if is_basic else value
    for form in (body, GRANT + b"&" + body):
        assert buy(SHOP, form, authorization=authorization).status in (400, 401)
