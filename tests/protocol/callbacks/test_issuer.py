"""The token endpoint sells to its clients only, and its tokens are good everywhere."""

import traceback
from typing import Any, Final
from urllib.parse import quote_plus

import msgspec
import pytest

from income_client.errors import ConfigurationError
from income_client.protocol.callbacks.access_tokens import check_token
from income_client.protocol.callbacks.bearer import CallbackBearerAuth
from income_client.protocol.callbacks.exchange import Answer
from income_client.protocol.callbacks.issuer import CallbackTokenIssuer
from income_client.protocol.callbacks.refusals import Refusal
from income_client.settings import OAuth2ClientCredentials, Secret
from tests.support.callback_token_requests import CLIENT, SECRET, basic, bought, buy
from tests.support.signed_tokens import NOW, outcome

OTHER: Final = OAuth2ClientCredentials("old-service", "z" * 40)


def refusal(auth: CallbackBearerAuth, text: str, *, now: float = NOW) -> Refusal | None:
    """Return what a receiver says of a token."""
    assert auth.keys is not None
    assert auth.rules is not None
    return check_token(text, auth.keys, auth.rules, now=now)


def issuer(**arguments: Any) -> CallbackTokenIssuer:
    """Return an issuer."""
    return CallbackTokenIssuer(CLIENT, SECRET, **arguments)


def fields(answer: Answer) -> dict[str, str]:
    """Return the header fields of an answer."""
    return dict(answer.headers)


def test_a_token_is_sold_and_accepted() -> None:
    """The answer has the form of contract section 5.1, and is kept by nobody."""
    shop = issuer()
    answer = buy(shop)
    content = msgspec.json.decode(answer.body)
    assert answer.status == 200
    assert content.keys() == {"access_token", "token_type", "expires_in"}
    assert (content["token_type"], content["expires_in"]) == ("Bearer", 3600)
    assert fields(answer)["Cache-Control"] == "no-store"
    assert fields(answer)["Pragma"] == "no-cache"
    assert refusal(shop.auth, content["access_token"]) is None


def test_nothing_is_stored() -> None:
    """A second process with the same secret accepts the tokens of the first."""
    assert refusal(issuer().auth, bought(issuer())) is None


def test_a_token_ends_with_its_life() -> None:
    """The lifetime is the caller's; the leeway comes on top."""
    shop = issuer(lifetime=60)
    assert msgspec.json.decode(buy(shop).body)["expires_in"] == 60
    assert refusal(shop.auth, bought(shop), now=NOW + 89) is None
    assert refusal(shop.auth, bought(shop), now=NOW + 90) is Refusal.TOKEN_OUT_OF_TIME


def test_another_secret_or_another_client_sells_other_tokens() -> None:
    """Neither accepts the other's, and no identity provider's rules fit."""
    text = bought(issuer())
    for shop in (CallbackTokenIssuer(CLIENT, "y" * 43), CallbackTokenIssuer("other", SECRET)):
        assert refusal(shop.auth, text) is Refusal.TOKEN_KEY_UNKNOWN
    keys = Secret(SECRET)
    assert outcome(text, keys=keys, algorithms=["HS256"]) is Refusal.TOKEN_KEY_UNKNOWN


def test_each_token_has_a_name_of_its_own() -> None:
    """The same second sells different tokens."""
    shop = issuer()
    assert bought(shop, nonce=bytes(16)) != bought(shop, nonce=bytes(15) + b"1")


def test_during_a_change_both_secrets_buy_and_both_tokens_pass() -> None:
    """The old secret's tokens end with it."""
    shop = issuer(also=[OTHER])
    old = bought(shop, authorization=basic(OTHER.client_id, OTHER.client_secret.reveal()))
    assert refusal(shop.auth, old) is None
    assert refusal(shop.auth, bought(shop)) is None
    assert refusal(issuer().auth, bought(shop)) is None
    assert refusal(issuer().auth, old) is Refusal.TOKEN_KEY_UNKNOWN


def test_tokens_of_many_clients_pass() -> None:
    """Each of them that is sold is accepted."""
    clients = [OAuth2ClientCredentials(f"client-{n}", f"{SECRET}-{n}") for n in range(12)]
    shop = CallbackTokenIssuer(CLIENT, SECRET, also=clients)
    for client in clients:
        credentials = basic(client.client_id, client.client_secret.reveal())
        text = bought(shop, authorization=credentials)
        assert refusal(shop.auth, text) is None


@pytest.mark.parametrize("lifetime", [59, 86_401, 0, float("nan"), float("inf"), True, "60"])
def test_a_life_is_a_minute_to_a_day(lifetime: Any) -> None:
    """Other lives are refused."""
    with pytest.raises(ConfigurationError, match="lifetime"):
        issuer(lifetime=lifetime)


def test_a_short_secret_is_refused_with_a_recipe() -> None:
    """Since who sees a token can try secrets at home."""
    short = "S3CRET" + "x" * 25
    old = OAuth2ClientCredentials("old", short)
    for secret, also in ((short, ()), (SECRET, (old,))):
        with pytest.raises(ConfigurationError, match=r"token_urlsafe\(32\)") as caught:
            CallbackTokenIssuer(CLIENT, secret, also=also)
        framed = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        own = [frame for frame in framed.stack if frame.filename.endswith("/issuer.py")]
        assert own[-1].name == "__init__"
        assert not any("S3CRET" in str(frame.locals) for frame in own)


@pytest.mark.parametrize(
    ("client_id", "client_secret", "also"),
    [
        ("", SECRET, ()),
        ("a:b", SECRET, ()),
        (CLIENT, "", ()),
        (CLIENT, None, ()),
        (CLIENT, SECRET, 5),
        (CLIENT, SECRET, "x"),
        (CLIENT, SECRET, [Secret(SECRET)]),
    ],
)
def test_what_is_no_client_is_refused(client_id: Any, client_secret: Any, also: Any) -> None:
    """Neither half pairs nor other values."""
    with pytest.raises(ConfigurationError):
        CallbackTokenIssuer(client_id, client_secret, also=also)


def test_the_secret_is_not_shown() -> None:
    """Neither the secret nor what is made of it, in the repr or in a token."""
    shop = issuer()
    (client,) = shop._clients
    for shown in (repr(shop), repr(client), bought(shop)):
        assert SECRET not in shown
        assert client.key.reveal() not in shown


@pytest.mark.parametrize("secret", ["pa:ss w%41rd+ü" * 3, "€" * 32, "+" * 32, "%zz " * 8])
def test_every_spelling_of_a_secret_is_known(secret: str) -> None:
    """Plain, encoded like a form (RFC 6749), in UTF-8 or, where it can be, in Latin-1."""
    shop = CallbackTokenIssuer("dï 1+1", secret)
    encodings = ["utf-8"] if "€" in secret else ["utf-8", "latin-1"]
    for encoding in encodings:
        assert buy(shop, authorization=basic("dï 1+1", secret, encoding)).status == 200
    encoded = basic(quote_plus("dï 1+1"), quote_plus(secret))
    assert buy(shop, authorization=encoded).status == 200
