"""What a token says of itself is read, and what may be about a person is not shown."""

from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.cli.tokens.claims import content_of
from tests.cli.claimed_tokens import jwt, part

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_NAMES = st.sampled_from(["exp", "iat", "scope", "aud", "sub", "email", "name"]) | st.text()


def test_claims_are_told_in_words() -> None:
    """Times are told in UTC, lists in a row, and the scope apart."""
    content = content_of(
        jwt({"exp": 1_800_000_000, "aud": ["a", "b"], "scope": "income:read", "iss": "them"})
    )
    assert content is not None
    assert content.claims == {
        "exp": "2027-01-15T08:00:00Z",
        "aud": "a b",
        "scope": "income:read",
        "iss": "them",
    }
    assert content.scope == "income:read"
    assert content.expires_at == datetime(2027, 1, 15, 8, tzinfo=UTC)
    assert content.header == {"alg": "RS256"}


def test_what_may_be_about_a_person_stays() -> None:
    """Claims that are not known harmless are named only, and an address is none to show."""
    content = content_of(
        jwt(
            {"email": "a@example.com", "name": "Ada", "act": {"sub": "x"}, "sub": "b@example.com"},
            jwk={"k": "hush"},
        )
    )
    assert content is not None
    assert content.claims == {"sub": "(not shown)"}
    assert content.hidden == ("jwk", "email", "name", "act")
    assert "Ada" not in repr(content)
    assert "example.com" not in repr(content)
    assert "hush" not in repr(content)


@pytest.mark.parametrize("sub", ["Ada Invented", "Ada\u00a0Invented", "a\tb"])
def test_a_name_of_a_person_stays(sub: str) -> None:
    """A client has no blank in its name; people have."""
    content = content_of(jwt({"sub": sub}))
    assert content is not None
    assert content.claims == {"sub": "(not shown)"}
    plain = content_of(jwt({"sub": "client-7"}))
    assert plain is not None
    assert plain.claims == {"sub": "client-7"}


def test_a_year_has_four_digits() -> None:
    """Even the first one."""
    content = content_of(jwt({"iat": -62_135_596_800}))
    assert content is not None
    assert content.claims == {"iat": "0001-01-01T00:00:00Z"}


def test_encrypted_claims_are_for_the_service() -> None:
    """Of an encrypted token only the header can be read."""
    content = content_of(f"{part({'alg': 'RSA-OAEP', 'enc': 'A256GCM'})}.a.b.c.d")
    assert content is not None
    assert content.is_encrypted
    assert content.claims == {}
    assert content.header == {"alg": "RSA-OAEP", "enc": "A256GCM"}


@pytest.mark.parametrize(
    "token",
    ["opaque", "a.b.c", "..", f"{part({})}.{part({})}.x", f"{part([])}.{part({})}.x", "Zm9v.é.x"],
)
def test_an_opaque_token_is_fine(token: str) -> None:
    """A token need not be a JWT, and nothing is said of one that is none."""
    assert content_of(token) is None


def test_a_bomb_is_no_token() -> None:
    """What is nested without end is neither read nor shown, at any depth."""
    for depth in (10, 900, 6000):
        nested = "[" * depth + "]" * depth
        claims = urlsafe_b64encode(f'{{"aud": {nested}}}'.encode()).decode().rstrip("=")
        content = content_of(f"{part({'alg': 'none'})}.{claims}.x")
        assert content is None or content.claims == {"aud": "(not shown)"}


@given(token=st.text() | st.lists(st.text(), min_size=3, max_size=5).map(".".join))
def test_any_text_is_a_token(token: str) -> None:
    """Whatever it is, it does no harm."""
    content_of(token)


@given(claims=st.dictionaries(_NAMES, _JSON, max_size=5))
def test_any_claims_can_be_told(claims: dict[str, Any]) -> None:
    """Each claim is told or named, and none is told at length."""
    content = content_of(jwt(claims))
    assert content is not None
    assert {name[:200] for name in claims} == {*content.claims, *content.hidden}
    assert all(len(words) <= 201 for words in content.claims.values())
