"""Tokens that are believed, and the forged, foreign and stale ones that are not."""

import hmac
import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from itertools import product
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from income_client.receivers.exchange import Refusal
from income_client.receivers.jwt import TokenKeys, check_token, import_key_set
from tests.support.callbacks import refusal_of
from tests.support.identities import (
    AUDIENCE,
    CLAIMS,
    ISSUER,
    KIND_OF,
    NOW,
    accepting,
    key_set,
    outcome,
    private_key,
    public_jwk,
    public_pem,
    segment,
    signed,
    token,
)

GOOD: Final = token()
HEAD: Final = {"alg": "ES256", "kid": "P-256-0"}


def test_each_allowed_algorithm_is_verified() -> None:
    """With a key from a set and with one in PEM; with a secret only where HS256 is named."""
    for algorithm, kind in KIND_OF.items():
        text = token(algorithm)
        if kind == "oct":
            assert outcome(text, keys=public_jwk("oct"), algorithms=[algorithm]) is None
        else:
            assert outcome(text, keys=key_set("X25519", "P-256", "RSA", kind)) is None
            assert outcome(text, keys=public_pem(kind)) is None


def test_both_names_of_ed25519_mean_the_same() -> None:
    """A key set and a token may use either name (RFC 9864)."""
    for algorithm, of_key in product(("EdDSA", "Ed25519"), ("EdDSA", "Ed25519", None)):
        assert outcome(token(algorithm), keys=public_jwk("Ed25519", alg=of_key)) is None


HEADERS: Final[Mapping[Refusal | None, list[dict[str, Any]]]] = {
    None: [
        *({"typ": name} for name in (None, "JWT", "jwt", "application/at+jwt")),
        {"x5t": "abc", "org.example": {"a": [1]}, "x5c": ["AAAA"]},
        {"nonce": "x" * 2000},
        {"jku": "https://evil.example.test/"},
    ],
    Refusal.TOKEN_ALGORITHM: [
        *({"typ": name} for name in ("id+jwt", "logout+jwt", "", 5)),
        *({"alg": name} for name in ("none", "None", "es256", "RSA-OAEP", "ES256K", "HS256")),
        *({"alg": name} for name in (None, ["ES256"])),
    ],
    # Nothing critical is understood, and a header has its length.
    Refusal.TOKEN_UNREADABLE: [
        *({"crit": ["exp"]}, {"crit": []}, {"crit": ["b64"], "b64": False}),
        *({"b64": False}, {"b64": True}, {"kid": 5}, {"kid": ["P-256-0"]}),
        {"nonce": "x" * 4096},
    ],
}


def test_a_header_does_not_choose_how_it_is_verified() -> None:
    """Identity providers add members, and none of them is followed."""
    for expected, headers in HEADERS.items():
        for header in headers:
            assert outcome(token(header=header)) is expected, header


SAID: Final[Mapping[Refusal | None, list[dict[str, Any]]]] = {
    None: [
        *({"exp": NOW - 29}, {"exp": NOW + 0.5}, {"nbf": NOW + 29, "iat": NOW + 29}),
        *({"nbf": None, "iat": None}, {"aud": [AUDIENCE]}, {"aud": ["other", AUDIENCE]}),
        {"jti": 2**64, "deep": [[[{}]]], "amount": 1e300},
    ],
    Refusal.TOKEN_OUT_OF_TIME: [
        *({"exp": time} for time in (NOW - 30, 0, -5, NOW * 1000, 1e300, 10**400)),
        *({"exp": time} for time in (True, str(NOW + 60), [NOW + 60])),
        *({"nbf": time} for time in (NOW + 31, "0")),
        *({"iat": NOW + 31}, {"iat": False}, {"iat": {}}),
    ],
    # One without an end would be good for ever.
    Refusal.TOKEN_CLAIMS: [{"exp": None}],
    Refusal.TOKEN_ISSUER: [
        *({"iss": text} for text in ("", "x", ISSUER.rstrip("/"), ISSUER.upper())),
        *({"iss": value} for value in (None, [ISSUER], 5)),
    ],
    Refusal.TOKEN_AUDIENCE: [
        *({"aud": text} for text in ("", "x", AUDIENCE.upper())),
        *({"aud": value} for value in (None, [], ["x"], [AUDIENCE, 5], {AUDIENCE: 1}, 5)),
    ],
}


def test_claims_are_judged_within_the_leeway() -> None:
    for expected, some in SAID.items():
        for claims in some:
            assert outcome(token(**claims)) is expected, claims


def test_a_token_without_its_own_signature_is_refused() -> None:
    header, _, signature = GOOD.split(".")
    altered = f"{header}.{segment({**CLAIMS, 'exp': NOW + 9_999})}.{signature}"
    assert outcome(altered) is Refusal.TOKEN_SIGNATURE
    unsigned = f"{segment({'alg': 'none'})}.{segment(dict(CLAIMS))}."
    assert outcome(unsigned) is Refusal.TOKEN_UNREADABLE
    assert outcome(f"{unsigned}AAAA") is Refusal.TOKEN_ALGORITHM
    assert outcome(f"{GOOD.rpartition('.')[0]}.") is Refusal.TOKEN_UNREADABLE
    assert outcome(f"{GOOD.rpartition('.')[0]}.{segment(bytes(64))}") is Refusal.TOKEN_SIGNATURE


def test_a_public_key_is_no_secret() -> None:
    for name in ("HS256", "HS512"):
        message = f"{segment({'alg': name})}.{segment(dict(CLAIMS))}"
        hashed = hmac.digest(public_pem("RSA"), message.encode(), f"sha{name[2:]}")
        forged = f"{message}.{segment(hashed)}"
        assert outcome(forged, keys=public_pem("RSA")) is Refusal.TOKEN_ALGORITHM
        secret: Any = {"keys": public_jwk("oct"), "algorithms": [name]}
        assert outcome(forged, **secret) is Refusal.TOKEN_KEY_UNKNOWN


def test_a_key_verifies_only_what_fits_its_type_and_curve() -> None:
    """Even if the token names it, and a key that is meant for something else verifies nothing."""
    for algorithm in ("RS256", "ES384", "EdDSA"):
        assert outcome(token(header={"alg": algorithm})) is Refusal.TOKEN_SIGNATURE
    others: list[dict[str, Any]] = [{"use": "enc"}, {"key_ops": ["encrypt"]}, {"alg": "ES384"}]
    for members in (*others, {"use": "x"}, {"d": "AAAA"}):
        keys = {"keys": [public_jwk("P-256", **members), public_jwk("P-256", 1)]}
        assert outcome(GOOD, keys=keys) is Refusal.TOKEN_KEY_UNKNOWN


def test_keys_in_the_token_count_for_nothing() -> None:
    stranger = public_jwk("P-256", 1)
    text = token(number=1, header={"jwk": stranger, "kid": None})
    assert outcome(text) is Refusal.TOKEN_KEY_UNKNOWN
    assert outcome(token(number=1, header={"kid": "P-256-0"})) is Refusal.TOKEN_SIGNATURE
    assert outcome(token(number=1)) is Refusal.TOKEN_KEY_UNKNOWN


def test_of_equal_names_every_key_is_tried() -> None:
    same = {"keys": [public_jwk("P-256", number, kid="same") for number in (1, 2, 0)]}
    assert outcome(token(header={"kid": "same"}), keys=same) is None


def test_a_token_without_name_tries_what_fits_but_not_for_ever() -> None:
    """Up to four keys of an address are tried, since anybody can cause it; of given keys, all."""
    nameless = token(header={"kid": None})
    for others, expected in ((3, None), (4, Refusal.TOKEN_KEY_UNKNOWN)):
        numbers = [*range(1, others + 1), 0]
        keys = {"keys": [public_jwk("P-384"), *(public_jwk("P-256", n) for n in numbers)]}
        rules = accepting(keys=keys).rules
        assert rules is not None
        found = refusal_of(check_token, nameless, import_key_set(keys), rules, now=NOW)
        assert found is expected
        assert outcome(nameless, keys=keys) is None


def reencoded(text: str, place: int, change: bytes) -> str:
    """Return a token whose header (0) or payload (1) has other bytes."""
    parts = text.split(".")
    raw = urlsafe_b64decode(parts[place] + "==")
    parts[place] = segment(change + raw)
    return ".".join(parts)


REST: Final = GOOD.partition(".")[2]


ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
NO_TOKENS: Final = (
    *("", "a", "a.b", "..", f" {GOOD}", f".{REST}", token(nonce="A" * 16_384)),
    *(GOOD + rest for rest in (".", ".AAAA", "=", "\n")),
    *(GOOD.replace(".", "..", 1), GOOD.replace("e", "\u0435", 1), GOOD.replace("e", "+", 1)),
    *(f"{segment(one)}.{REST}" for one in ([1], b"{", b"[" * 3000)),
    *(reencoded(GOOD, 0, change) for change in (b"\xef\xbb\xbf", b" ", b"\xff")),
    # Bits that decoders drop may not be set, so that no token has a second text.
    GOOD[:-1] + ALPHABET[ALPHABET.index(GOOD[-1]) ^ 1],
)


def test_what_is_not_a_token_is_unreadable() -> None:
    """Three parts in the one spelling of base64url, and a header that is an object."""
    others = [text for text in NO_TOKENS if outcome(text) is not Refusal.TOKEN_UNREADABLE]
    assert others == []


DOUBLED: Final = json.dumps(dict(CLAIMS)).encode().replace(b"{", b'{"iss": "x", ', 1)


SIGNED: Final[tuple[tuple[Any, Any], ...]] = (
    (json.dumps(HEAD).encode().replace(b"{", b'{"alg": "RS256", ', 1), dict(CLAIMS)),
    *((HEAD, one) for one in (DOUBLED, b"", b"[]", b"null", b"{", b"\xff", b"[" * 5000)),
    *((HEAD, one) for one in (b'"x"', b'{"exp": NaN}', b'{"exp": 1e999}')),
)


def test_a_signature_alone_does_not_make_a_token() -> None:
    """The payload must be an object; a name that is there twice would be read in two ways."""
    for header, payload in SIGNED:
        text = signed(header, payload, "ES256", private_key("P-256", 0))
        assert outcome(text) is Refusal.TOKEN_UNREADABLE
    for name in ("exp", "nbf", "iat"):
        text = signed(HEAD, {**CLAIMS, name: None}, "ES256", private_key("P-256", 0))
        assert outcome(text) is Refusal.TOKEN_OUT_OF_TIME


RULES: Final[tuple[tuple[dict[str, Any], dict[str, Any], Refusal | None], ...]] = (
    ({"exp": NOW}, {"leeway": 0}, Refusal.TOKEN_OUT_OF_TIME),
    ({"exp": NOW + 1}, {"leeway": 0}, None),
    ({"exp": NOW - 59}, {"leeway": 60}, None),
    ({}, {"audience": ["x", AUDIENCE]}, None),
    ({"aud": "x"}, {"audience": ["x", AUDIENCE]}, None),
)
FURTHER: Final[tuple[tuple[dict[str, Any], Refusal | None], ...]] = (
    ({"client_id": "service"}, None),
    ({"client_id": "other"}, Refusal.TOKEN_CLAIMS),
    ({"client_id": "service", "tid": "t"}, Refusal.TOKEN_CLAIMS),
    ({"level": 1}, None),
    ({"level": True}, Refusal.TOKEN_CLAIMS),
    ({"level": "1"}, Refusal.TOKEN_CLAIMS),
    ({"is_live": True}, None),
    ({"is_live": 1}, Refusal.TOKEN_CLAIMS),
)


def test_the_leeway_and_further_audiences_and_claims_are_the_caller_s() -> None:
    """With a leeway of 0 the very second of the end is too late; one audience is enough.

    Further claims are equal and of the same type.
    """
    for claims, rules, expected in RULES:
        assert outcome(token(**claims), **rules) is expected
    text = token(level=1, is_live=True)
    without = token(level=1, is_live=True, aud=None)
    for required, expected in FURTHER:
        assert outcome(text, claims=required) is expected
        assert outcome(without, claims=required, audience=None) is expected


@given(st.data())
def test_no_change_of_a_good_token_passes(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, min(len(GOOD), start + 20)))
    characters = st.sampled_from("AQg048Zz-_.=+/ \n") | st.characters()
    changed = GOOD[:start] + data.draw(st.text(characters, max_size=20)) + GOOD[end:]
    if changed != GOOD:
        assert isinstance(outcome(changed), Refusal)


_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_lists = st.lists(_scalars, max_size=3)
_json = _scalars | _lists | st.dictionaries(st.text(max_size=5), _scalars | _lists, max_size=3)
_names = st.sampled_from([*CLAIMS, "alg", "typ", "kid", "crit", "b64", "jwk", "x"])


@given(st.dictionaries(_names, _json), st.dictionaries(_names, _json))
def test_whatever_is_signed_leads_to_an_answer(header: Any, claims: Any) -> None:
    texts = [
        json.dumps(part).encode("ascii") for part in ({**HEAD, **header}, {**CLAIMS, **claims})
    ]
    found = outcome(signed(texts[0], texts[1], "ES256", private_key("P-256", 0)))
    assert found is None or isinstance(found, Refusal)


def test_bad_keys_are_left_out_one_by_one() -> None:
    bad: list[Any] = [
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA"},
        {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AAAA", "y": "AAAA"},
        {"kty": "RSA", "n": "AAAA", "e": "AQAB"},
        {"kty": "RSA", "n": 5, "e": "AQAB"},
        public_jwk("RSA", e="AQ"),
        public_jwk("RSA", e="AA"),
        public_jwk("P-256", use="enc"),
        dict(private_key("P-256", 1).as_dict(private=True)),
        {},
        [],
        None,
        "x",
    ]
    good = public_jwk("P-256", x5u="no address", x5c="no list", use="sig", key_ops=["verify"])
    found = import_key_set({"keys": [*bad, good, *bad]})
    assert [key.kid for key in found.keys] == ["P-256-0"]


def test_a_set_has_a_hundred_keys_at_most_and_shows_none() -> None:
    entries = [public_jwk("P-256", kid=str(number)) for number in range(150)]
    assert len(import_key_set({"keys": entries}).keys) == 100
    keys = import_key_set(key_set("oct"))
    assert public_jwk("oct")["k"] not in repr(keys)
    assert "material" not in repr(keys)


_parts = st.sampled_from(["kty", "crv", "x", "y", "n", "e", "k", "d", "kid", "use", "alg"])
_values = (
    st.none()
    | st.integers()
    | st.text(max_size=8)
    | st.lists(st.text(max_size=3), max_size=2)
    | st.sampled_from(["RSA", "EC", "OKP", "oct", "P-256", "Ed25519", "sig", "AQAB", "A" * 400])
)


@given(st.dictionaries(_parts | st.just("key_ops"), _values), st.sampled_from(["RSA", "P-256"]))
def test_keys_of_any_shape_are_taken_or_left_out(changes: dict[str, Any], kind: str) -> None:
    for entry in (changes, {**public_jwk(kind), **changes}):
        assert isinstance(import_key_set({"keys": [entry]}), TokenKeys)
    assert import_key_set(changes).keys == ()
