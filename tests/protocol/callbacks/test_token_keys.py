"""Which keys of a set are taken; one that is bad spoils none of the others."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.protocol.callbacks.token_keys import TokenKeys, import_keys
from income_client.protocol.callbacks.token_rules import ASYMMETRIC
from tests.support.signed_tokens import key_set, private_key, public_jwk

RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("RSA", RSA),
        ("P-256", {"ES256"}),
        ("P-384", {"ES384"}),
        ("P-521", {"ES512"}),
        ("Ed25519", {"EdDSA", "Ed25519"}),
        ("oct", {"HS256", "HS384", "HS512"}),
    ],
)
def test_a_key_verifies_what_fits_its_type(kind: str, expected: set[str]) -> None:
    """The algorithms are decided when it is imported, not by a token."""
    (key,) = import_keys(key_set(kind)).keys
    assert key.algorithms == expected
    assert key.kid == f"{kind}-0"


@pytest.mark.parametrize("algorithm", [*ASYMMETRIC, "HS256", "none", "ES256K"])
def test_an_algorithm_that_does_not_fit_verifies_nothing(algorithm: str) -> None:
    """Even when it is asked for."""
    (key,) = import_keys(key_set("X25519", "P-256")).keys
    assert not key.verifies(algorithm, b"", b"")


def test_bad_keys_are_left_out_one_by_one() -> None:
    """Types of the future, keys for other uses, and what an issuer got wrong."""
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
    found = import_keys({"keys": [*bad, good, *bad]})
    assert [key.kid for key in found.keys] == ["P-256-0"]


def test_no_private_part_is_kept() -> None:
    """A key that gave its private part away is not even taken."""
    private = dict(private_key("RSA").as_dict(private=True))
    assert import_keys({"keys": [private]}).keys == ()


def test_a_set_has_a_hundred_keys_at_most() -> None:
    """What is beyond them is not looked at."""
    entries = [public_jwk("P-256", kid=str(number)) for number in range(150)]
    assert len(import_keys({"keys": entries}).keys) == 100


def test_neither_a_key_nor_a_set_shows_its_material() -> None:
    """Secrets may be among them."""
    keys = import_keys(key_set("oct"))
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
    """Nothing is raised, and no warning given."""
    for entry in (changes, {**public_jwk(kind), **changes}):
        assert isinstance(import_keys({"keys": [entry]}), TokenKeys)
    assert import_keys(changes).keys == ()
