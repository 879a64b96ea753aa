"""The token endpoint issues tokens to its clients only, and refuses as RFC 6749 has it."""

import base64
from typing import Any, Final
from urllib.parse import quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.receivers.auth import CallbackBearerAuth
from income_client.receivers.exchange import Answer, Refusal, RequestHead
from income_client.receivers.issuer import CallbackTokenIssuer
from income_client.receivers.jwt import check_token
from income_client.settings import OAuth2ClientCredentials, Secret
from tests.support.callbacks import refusal_of
from tests.support.canaries import CANARY
from tests.support.signed_tokens import NOW, outcome

SECRET: Final = f"{CANARY}-that-is-long-enough-to-sign-with"
CLIENT: Final = "service"
FORM: Final = b"application/x-www-form-urlencoded"
GRANT: Final = b"grant_type=client_credentials"


def basic(client_id: str, secret: str, encoding: str = "utf-8") -> bytes:
    return b"Basic " + base64.b64encode(f"{client_id}:{secret}".encode(encoding))


GOOD: Final = basic(CLIENT, SECRET)


def request_token(
    issuer: CallbackTokenIssuer,
    body: bytes = GRANT,
    *,
    method: str = "POST",
    authorization: bytes | None = GOOD,
    content_type: bytes | None = FORM,
    more: tuple[tuple[bytes, bytes], ...] = (),
    nonce: bytes = bytes(16),
) -> Answer:
    """Send a token request; a header of None is left out."""
    named = ((b"Authorization", authorization), (b"Content-Type", content_type))
    headers = tuple((name, value) for name, value in named if value is not None)
    head = RequestHead(method=method, headers=(*headers, *more))
    return issuer.answer(head, body, now=NOW, nonce=nonce)


def issued_token(issuer: CallbackTokenIssuer, **arguments: Any) -> str:
    answer = request_token(issuer, **arguments)
    assert answer.status == 200
    return str(msgspec.json.decode(answer.body)["access_token"])


OTHER: Final = OAuth2ClientCredentials("old-service", "z" * 40)
SHOP: Final = CallbackTokenIssuer(CLIENT, SECRET)
PAIR: Final = f"&client_id={CLIENT}&client_secret={SECRET}".encode()


def refusal(auth: CallbackBearerAuth, text: str, *, now: float = NOW) -> Refusal | None:
    return refusal_of(check_token, text, auth.keys, auth.rules, now=now)


def issuer(**arguments: Any) -> CallbackTokenIssuer:
    return CallbackTokenIssuer(CLIENT, SECRET, **arguments)


def said(answer: Answer) -> tuple[int, Any]:
    return answer.status, msgspec.json.decode(answer.body).get("error")


def test_a_token_is_issued_and_accepted() -> None:
    """The answer has the form of contract section 5.1, may not be stored, and hides its token."""
    answer = request_token(SHOP)
    content = msgspec.json.decode(answer.body)
    assert answer.status == 200
    assert content.keys() == {"access_token", "token_type", "expires_in"}
    assert (content["token_type"], content["expires_in"]) == ("Bearer", 3600)
    assert dict(answer.headers)["Cache-Control"] == "no-store"
    assert dict(answer.headers)["Pragma"] == "no-cache"
    assert refusal(SHOP.auth, content["access_token"]) is None
    assert content["access_token"].partition(".")[0] not in repr(answer)
    assert "no-store" in repr(answer)


def test_a_token_ends_with_its_life() -> None:
    shop = issuer(lifetime=60)
    assert msgspec.json.decode(request_token(shop).body)["expires_in"] == 60
    assert refusal(shop.auth, issued_token(shop), now=NOW + 89) is None
    assert refusal(shop.auth, issued_token(shop), now=NOW + 90) is Refusal.TOKEN_OUT_OF_TIME


def test_another_secret_or_another_client_has_other_tokens() -> None:
    text = issued_token(issuer())
    for shop in (CallbackTokenIssuer(CLIENT, "y" * 43), CallbackTokenIssuer("other", SECRET)):
        assert refusal(shop.auth, text) is Refusal.TOKEN_KEY_UNKNOWN
    keys = Secret(SECRET)
    assert outcome(text, keys=keys, algorithms=["HS256"]) is Refusal.TOKEN_KEY_UNKNOWN


def test_while_a_secret_changes_both_get_tokens_and_both_tokens_pass() -> None:
    """The old secret's tokens end with it; `issue` gives the first client's without a request."""
    shop = issuer(also=[OTHER])
    old = issued_token(shop, authorization=basic(OTHER.client_id, OTHER.client_secret.reveal()))
    new = issued_token(shop)
    assert shop.issue(now=NOW, nonce=bytes(16)) == new
    assert refusal(shop.auth, old) is refusal(shop.auth, new) is refusal(SHOP.auth, new) is None
    assert refusal(SHOP.auth, old) is Refusal.TOKEN_KEY_UNKNOWN


@pytest.mark.parametrize("secret", ["pa:ss w%41rd+ü" * 3, "€" * 32, "+" * 32, "%zz " * 8])
def test_every_spelling_of_a_secret_is_known(secret: str) -> None:
    """Plain, encoded like a form (RFC 6749), in UTF-8 or, where it can be, in Latin-1."""
    shop = CallbackTokenIssuer("dï 1+1", secret)
    encodings = ["utf-8"] if "€" in secret else ["utf-8", "latin-1"]
    for encoding in encodings:
        assert request_token(shop, authorization=basic("dï 1+1", secret, encoding)).status == 200
    encoded = basic(quote_plus("dï 1+1"), quote_plus(secret))
    assert request_token(shop, authorization=encoded).status == 200


def test_only_post_is_answered() -> None:
    for method in ("GET", "HEAD", "PUT", "post", "OPTIONS"):
        answer = request_token(SHOP, method=method)
        assert answer.status == 405
        assert dict(answer.headers)["Allow"] == "POST"


def test_what_is_not_known_is_ignored_and_credentials_may_come_in_the_form() -> None:
    for body in (
        GRANT,
        GRANT + b"&scope=callbacks&audience=x&resource=a&resource=b",
        *(GRANT + rest for rest in (b"&client_id=service", b"&client_id=&client_secret=", b"&")),
        *(first + GRANT for first in (b"&=&x&", b"scope=%ff%00&")),
        b"grant%5Ftype=client%5Fcredentials",
    ):
        assert request_token(SHOP, body).status == 200
    assert request_token(SHOP, GRANT + PAIR, authorization=None).status == 200
    assert request_token(SHOP, content_type=FORM + b"; charset=UTF-8").status == 200


INVALID_FORMS: Final = (
    *(b"", b"scope=x", b"grant_type=", b"Grant_Type=client_credentials"),
    *(GRANT + b"&" + GRANT, GRANT + PAIR, GRANT + b"&client_secret=x"),
    *(GRANT + b"&client_id=other", GRANT + b"&client_id=service&client_id=service"),
    *(GRANT + b"&scope=%zz", GRANT + b"&scope=%", GRANT + b"&x=1" * 100),
    b'{"grant_type": "client_credentials"}',
)
INVALID: Final[tuple[dict[str, Any], ...]] = (
    *({"body": body} for body in INVALID_FORMS),
    *({"content_type": one} for one in (None, b"application/json", b"multipart/form-data")),
    {"more": ((b"content-type", FORM),)},
    {"more": ((b"content-encoding", b"gzip"),)},
    {"more": ((b"AUTHORIZATION", GOOD),)},
)


def test_an_invalid_request_is_refused() -> None:
    for arguments in INVALID:
        assert said(request_token(SHOP, **arguments)) == (400, "invalid_request")


def test_another_grant_is_not_supported() -> None:
    for grant in (b"password", b"CLIENT_CREDENTIALS", b"client_credentials%00"):
        body = b"grant_type=" + grant
        assert said(request_token(SHOP, body)) == (400, "unsupported_grant_type")
        unknown = request_token(SHOP, body, authorization=basic(CLIENT, "x"))
        assert said(unknown) == (401, "invalid_client")


HEADERS: Final = (
    *(None, b"", b"Basic", b"Basic ", b"Basic !!!!", b"Basic =", b"Bearer abc"),
    *(GOOD.replace(b"Basic", b"Digest"), GOOD + b"AAAA", b"Basic " + b"A" * 20_000),
    *(basic(CLIENT, ""), basic(CLIENT, SECRET + "\0"), basic(CLIENT, SECRET[:-1])),
    *(basic(CLIENT, SECRET.upper()), basic(CLIENT, "ü" * 40), basic(CLIENT, "%zz%")),
    *(basic("", SECRET), basic(CLIENT.upper(), SECRET), basic("other", SECRET)),
    b"Basic " + base64.b64encode(SECRET.encode()),
    b"Basic " + base64.b64encode(b"\xff:\xff\x00"),
    "Basic ü".encode(),
)
FORMS: Final = (
    *(b"&client_id=service", b"&client_id=service&client_secret=", b"&client_assertion=x"),
    *(b"&client_id=service&client_secret=x", b"&client_id=service&client_secret=%00"),
    *(PAIR + b"%00", PAIR + b"+", PAIR.replace(b"service", b"Service")),
)


def test_all_wrong_clients_get_the_same_answer() -> None:
    wrong = request_token(SHOP, authorization=basic(CLIENT, "wrong"))
    assert said(wrong) == (401, "invalid_client")
    assert dict(wrong.headers)["WWW-Authenticate"].startswith("Basic ")
    for authorization in HEADERS:
        assert request_token(SHOP, authorization=authorization) == wrong
    for form in FORMS:
        assert request_token(SHOP, GRANT + form, authorization=None) == wrong


@given(st.binary(max_size=200), st.binary(max_size=100), st.booleans())
def test_any_bytes_lead_to_a_refusal(body: bytes, value: bytes, is_basic: bool) -> None:
    authorization = b"Basic " + base64.b64encode(value) if is_basic else value
    for form in (body, GRANT + b"&" + body):
        assert request_token(SHOP, form, authorization=authorization).status in (400, 401)
