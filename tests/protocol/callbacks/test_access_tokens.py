"""Tokens that are believed, and the forged, foreign and stale ones that are not."""

import hmac
import json
from typing import Any, Final

import pytest
from joserfc.jwk import OctKey

from income_client.protocol.callbacks.access_tokens import check_token
from income_client.protocol.callbacks.refusals import Refusal
from income_client.protocol.callbacks.token_keys import import_keys
from income_client.protocol.callbacks.token_rules import ASYMMETRIC, SYMMETRIC
from tests.support.signed_tokens import (
    AUDIENCE,
    CLAIMS,
    KIND_OF,
    NOW,
    accepting,
    key_set,
    outcome,
    private_key,
    public_jwk,
    public_pem,
    reencoded,
    segment,
    signed,
    token,
)

GOOD: Final = token()
HEAD: Final = {"alg": "ES256", "kid": "P-256-0"}


@pytest.mark.parametrize("algorithm", ASYMMETRIC)
def test_each_allowed_algorithm_is_verified(algorithm: str) -> None:
    """All of them pass by default, with a key from a set and with one in PEM."""
    text = token(algorithm)
    kind = KIND_OF[algorithm]
    assert outcome(text, keys=key_set("X25519", "P-256", "RSA", kind)) is None
    assert outcome(text, keys=public_pem(kind)) is None


@pytest.mark.parametrize("algorithm", SYMMETRIC)
def test_secrets_verify_when_named(algorithm: str) -> None:
    """HS256 and its like pass where they are named."""
    assert outcome(token(algorithm), keys=public_jwk("oct"), algorithms=[algorithm]) is None


@pytest.mark.parametrize("algorithm", ["EdDSA", "Ed25519"])
@pytest.mark.parametrize("key_algorithm", ["EdDSA", "Ed25519", None])
def test_both_names_of_ed25519_mean_the_same(algorithm: str, key_algorithm: str | None) -> None:
    """A key set and a token may use either name (RFC 9864)."""
    keys = public_jwk("Ed25519", alg=key_algorithm)
    assert outcome(token(algorithm), keys=keys) is None


@pytest.mark.parametrize(
    "header",
    [
        {"typ": None},
        {"typ": "JWT"},
        {"typ": "jwt"},
        {"typ": "application/at+jwt"},
        {"x5t": "abc", "org.example": {"a": [1]}, "x5c": ["AAAA"]},
        {"nonce": "x" * 2000},
        {"jku": "https://evil.example.test/"},
    ],
)
def test_what_else_a_header_says_is_of_no_matter(header: dict[str, Any]) -> None:
    """Identity providers add members; none of them is followed."""
    assert outcome(token(header=header)) is None


@pytest.mark.parametrize(
    "header",
    [
        {"typ": "id+jwt"},
        {"typ": ""},
        {"typ": 5},
        {"typ": "logout+jwt"},
        {"alg": "none"},
        {"alg": "None"},
        {"alg": "es256"},
        {"alg": "RSA-OAEP"},
        {"alg": "ES256K"},
        {"alg": None},
        {"alg": ["ES256"]},
        {"alg": "HS256"},
    ],
)
def test_other_algorithms_and_types_are_refused(header: dict[str, Any]) -> None:
    """The token does not choose how it is verified."""
    assert outcome(token(header=header)) is Refusal.TOKEN_ALGORITHM


@pytest.mark.parametrize(
    "header",
    [
        {"crit": ["exp"]},
        {"crit": []},
        {"crit": ["b64"], "b64": False},
        {"b64": False},
        {"b64": True},
        {"kid": 5},
        {"kid": ["P-256-0"]},
        {"nonce": "x" * 4096},
    ],
)
def test_headers_that_would_have_to_be_understood_are_refused(header: dict[str, Any]) -> None:
    """Nothing critical is understood, and a header has its length."""
    assert outcome(token(header=header)) is Refusal.TOKEN_UNREADABLE


def test_a_token_without_signature_is_refused() -> None:
    """Neither an empty signature nor `none` passes."""
    unsigned = f"{segment({'alg': 'none'})}.{segment(dict(CLAIMS))}."
    assert outcome(unsigned) is Refusal.TOKEN_UNREADABLE
    assert outcome(f"{unsigned}AAAA") is Refusal.TOKEN_ALGORITHM
    assert outcome(f"{GOOD.rpartition('.')[0]}.") is Refusal.TOKEN_UNREADABLE
    assert outcome(f"{GOOD.rpartition('.')[0]}.{segment(bytes(64))}") is Refusal.TOKEN_SIGNATURE


def test_a_public_key_is_no_secret() -> None:
    """HS256 made with the text of the RSA key finds no key, whatever is allowed."""
    for name in ("HS256", "HS512"):
        message = f"{segment({'alg': name})}.{segment(dict(CLAIMS))}"
        hashed = hmac.digest(public_pem("RSA"), message.encode(), f"sha{name[2:]}")
        forged = f"{message}.{segment(hashed)}"
        assert outcome(forged, keys=public_pem("RSA")) is Refusal.TOKEN_ALGORITHM
        secret: Any = {"keys": public_jwk("oct"), "algorithms": [name]}
        assert outcome(forged, **secret) is Refusal.TOKEN_KEY_UNKNOWN


@pytest.mark.parametrize("claimed", ["RS256", "ES384", "EdDSA"])
def test_an_algorithm_of_another_type_of_key_is_refused(claimed: str) -> None:
    """A key verifies only what fits its type and curve, even if the token names it."""
    assert outcome(token(header={"alg": claimed})) is Refusal.TOKEN_SIGNATURE


def test_keys_in_the_token_count_for_nothing() -> None:
    """A stranger's key stays unknown, whether or not it comes along."""
    stranger = public_jwk("P-256", 1)
    text = token(number=1, header={"jwk": stranger, "kid": None})
    assert outcome(text) is Refusal.TOKEN_KEY_UNKNOWN
    assert outcome(token(number=1, header={"kid": "P-256-0"})) is Refusal.TOKEN_SIGNATURE
    assert outcome(token(number=1)) is Refusal.TOKEN_KEY_UNKNOWN


@pytest.mark.parametrize(
    "members",
    [{"use": "enc"}, {"key_ops": ["encrypt"]}, {"alg": "ES384"}, {"use": "x"}, {"d": "AAAA"}],
)
def test_a_key_that_is_meant_for_something_else_verifies_nothing(members: dict[str, Any]) -> None:
    """What the owner says of its use holds."""
    keys = {"keys": [public_jwk("P-256", **members), public_jwk("P-256", 1)]}
    assert outcome(GOOD, keys=keys) is Refusal.TOKEN_KEY_UNKNOWN


def test_of_equal_names_every_key_is_tried() -> None:
    """A set may hold several keys of one name, and the right one need not be first."""
    same = {"keys": [public_jwk("P-256", number, kid="same") for number in (1, 2, 0)]}
    assert outcome(token(header={"kid": "same"}), keys=same) is None


def test_a_token_without_name_tries_what_fits_but_not_for_ever() -> None:
    """Up to four keys of a set are tried, since anybody can have it done; of one's own, all."""
    nameless = token(header={"kid": None})
    for others, expected in ((3, None), (4, Refusal.TOKEN_KEY_UNKNOWN)):
        numbers = [*range(1, others + 1), 0]
        keys = {"keys": [public_jwk("P-384"), *(public_jwk("P-256", n) for n in numbers)]}
        rules = accepting(keys=keys).rules
        assert rules is not None
        assert check_token(nameless, import_keys(keys), rules, now=NOW) is expected
        assert outcome(nameless, keys=keys) is None


def test_a_key_without_name_may_be_any() -> None:
    """Keys in PEM have no name, tokens do."""
    assert outcome(GOOD, keys=public_jwk("P-256", kid=None)) is None
    assert outcome(GOOD, keys=public_pem("P-256")) is None
    assert outcome(token(number=1), keys=public_pem("P-256")) is Refusal.TOKEN_KEY_UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a.b",
        "..",
        GOOD + ".",
        GOOD + ".AAAA",
        GOOD + "=",
        GOOD + "\n",
        " " + GOOD,
        GOOD.replace(".", "..", 1),
        "." + GOOD.partition(".")[2],
        "A" * 16_385,
        GOOD.replace("e", "\u0435", 1),
        GOOD.replace("e", "+", 1),
        f"{segment([1])}.{GOOD.partition('.')[2]}",
        f"{segment(b'{')}.{GOOD.partition('.')[2]}",
        f"{segment(b'[' * 3000)}.{GOOD.partition('.')[2]}",
        reencoded(GOOD, 0, b"\xef\xbb\xbf"),
        reencoded(GOOD, 0, b" "),
        reencoded(GOOD, 0, b"\xff"),
    ],
)
def test_what_is_no_token_is_unreadable(text: str) -> None:
    """Three parts in the one spelling of base64url, and a header that is an object."""
    assert outcome(text) is Refusal.TOKEN_UNREADABLE


def test_a_segment_has_one_spelling() -> None:
    """Bits that decoders drop may not be set, so that no token has a second text."""
    body = GOOD.rpartition(".")[0]
    last = GOOD[-1]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twin = alphabet[alphabet.index(last) ^ 1]
    assert outcome(f"{body}.{GOOD.rpartition('.')[2][:-1]}{twin}") is Refusal.TOKEN_UNREADABLE


@pytest.mark.parametrize("place", ["header", "payload"])
def test_a_name_that_stands_twice_is_unreadable(place: str) -> None:
    """Two parsers would read two things."""
    header, payload = json.dumps(HEAD).encode(), json.dumps(dict(CLAIMS)).encode()
    if place == "header":
        header = header.replace(b"{", b'{"alg": "RS256", ', 1)
    else:
        payload = payload.replace(b"{", b'{"iss": "x", ', 1)
    text = signed(header, payload, "ES256", private_key("P-256"))
    assert outcome(text) is Refusal.TOKEN_UNREADABLE


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"null", b"{", b"\xff", b"[" * 5000, b'"x"', b'{"exp": NaN}', b'{"exp": 1e999}'],
)
def test_a_signed_payload_that_is_no_object_is_unreadable(payload: bytes) -> None:
    """The signature alone does not make it a token."""
    text = signed(HEAD, payload, "ES256", private_key("P-256"))
    assert outcome(text) is Refusal.TOKEN_UNREADABLE


def test_the_audience_of_other_secrets_is_of_no_matter() -> None:
    """A second secret of the same issuer is accepted, a stranger's is not."""
    stranger = OctKey.generate_key(512)
    text = signed({"alg": "HS256"}, dict(CLAIMS), "HS256", stranger)
    keys: Any = {"keys": [public_jwk("oct"), public_jwk("oct", 1)], "algorithms": ["HS256"]}
    assert outcome(token("HS256", number=1), **keys) is None
    assert outcome(text, **keys) is Refusal.TOKEN_KEY_UNKNOWN
    assert outcome(token("HS256", aud=AUDIENCE, exp=NOW - 31), **keys) is Refusal.TOKEN_OUT_OF_TIME
