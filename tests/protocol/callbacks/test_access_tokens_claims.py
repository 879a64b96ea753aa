"""What a token must say, and that no change of one passes."""

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.protocol.callbacks.refusals import Refusal
from tests.support.signed_tokens import AUDIENCE, CLAIMS, NOW, outcome, private_key, signed, token

GOOD: Final = token()
HEAD: Final = {"alg": "ES256", "kid": "P-256-0"}


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW - 29},
        {"exp": NOW + 0.5},
        {"nbf": NOW + 29, "iat": NOW + 29},
        {"nbf": None, "iat": None},
        {"aud": [AUDIENCE]},
        {"aud": ["other", AUDIENCE]},
        {"jti": 2**64, "deep": [[[{}]]], "amount": 1e300},
    ],
)
def test_a_token_passes_within_the_leeway_and_with_more_than_is_asked(claims: Any) -> None:
    """Clocks differ, and tokens say more than is needed."""
    assert outcome(token(**claims)) is None


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW - 30},
        {"exp": 0},
        {"exp": -5},
        {"exp": True},
        {"exp": str(NOW + 60)},
        {"exp": 1e300},
        {"exp": 10**400},
        {"exp": [NOW + 60]},
        {"exp": NOW * 1000},
        {"nbf": NOW + 31},
        {"iat": NOW + 31},
        {"nbf": "0"},
        {"iat": False},
        {"iat": {}},
    ],
)
def test_a_token_out_of_its_time_is_refused(claims: Any) -> None:
    """Over, not yet valid, made in the future, or with times that are none."""
    assert outcome(token(**claims)) is Refusal.TOKEN_OUT_OF_TIME


def test_a_time_that_is_null_is_none() -> None:
    """A claim of null is there, and wrong."""
    for name in ("exp", "nbf", "iat"):
        text = signed(HEAD, {**CLAIMS, name: None}, "ES256", private_key("P-256"))
        assert outcome(text) is Refusal.TOKEN_OUT_OF_TIME


def test_a_token_must_expire() -> None:
    """One without an end would be good for ever."""
    assert outcome(token(exp=None)) is Refusal.TOKEN_CLAIMS


def test_the_leeway_is_the_callers() -> None:
    """At 0 the very second of the end is too late."""
    assert outcome(token(exp=NOW), leeway=0) is Refusal.TOKEN_OUT_OF_TIME
    assert outcome(token(exp=NOW + 1), leeway=0) is None
    assert outcome(token(exp=NOW - 59), leeway=60) is None


@pytest.mark.parametrize("issuer", [None, "", "x", ["https://id.example.test/"], 5])
def test_another_issuer_is_refused(issuer: Any) -> None:
    """The issuer is equal, letter for letter."""
    assert outcome(token(iss=issuer)) is Refusal.TOKEN_ISSUER
    assert outcome(token(iss="https://id.example.test")) is Refusal.TOKEN_ISSUER


@pytest.mark.parametrize(
    "audience", [None, "", "x", [], ["x"], [AUDIENCE, 5], {AUDIENCE: 1}, 5, AUDIENCE.upper()]
)
def test_another_audience_is_refused(audience: Any) -> None:
    """A token for another API of the same issuer does not pass."""
    assert outcome(token(aud=audience)) is Refusal.TOKEN_AUDIENCE


def test_of_several_audiences_one_is_enough() -> None:
    """The endpoint may be known under more names."""
    assert outcome(GOOD, audience=["x", AUDIENCE]) is None
    assert outcome(token(aud="x"), audience=["x", AUDIENCE]) is None


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"client_id": "service"}, None),
        ({"client_id": "other"}, Refusal.TOKEN_CLAIMS),
        ({"client_id": "service", "tid": "t"}, Refusal.TOKEN_CLAIMS),
        ({"level": 1}, None),
        ({"level": True}, Refusal.TOKEN_CLAIMS),
        ({"level": "1"}, Refusal.TOKEN_CLAIMS),
        ({"is_live": True}, None),
        ({"is_live": 1}, Refusal.TOKEN_CLAIMS),
    ],
)
def test_further_claims_are_equal_and_of_the_same_type(claims: Any, expected: Any) -> None:
    """They stand in for the audience, or go beside it."""
    text = token(level=1, is_live=True)
    assert outcome(text, claims=claims) is expected
    assert outcome(token(level=1, is_live=True, aud=None), claims=claims, audience=None) is expected


@given(st.data())
def test_no_change_of_a_good_token_passes(data: st.DataObject) -> None:
    """Whatever is changed, put in, cut out or swapped: it is refused, and nothing is raised."""
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, min(len(GOOD), start + 20)))
    characters = st.sampled_from("AQg048Zz-_.=+/ \n") | st.characters()
    changed = GOOD[:start] + data.draw(st.text(characters, max_size=20)) + GOOD[end:]
    if changed != GOOD:
        assert isinstance(outcome(changed), Refusal)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
_names = st.sampled_from([*CLAIMS, "alg", "typ", "kid", "crit", "b64", "jwk", "x"])


@given(st.dictionaries(_names, _json), st.dictionaries(_names, _json))
def test_whatever_is_signed_leads_to_an_answer(header: Any, claims: Any) -> None:
    """Members of any type, rightly signed, are believed or refused, and never raise."""
    texts = [
        json.dumps(part).encode("ascii") for part in ({**HEAD, **header}, {**CLAIMS, **claims})
    ]
    found = outcome(signed(texts[0], texts[1], "ES256", private_key("P-256")))
    assert found is None or isinstance(found, Refusal)


@given(st.binary(max_size=300))
def test_bytes_of_any_kind_lead_to_a_refusal(octets: bytes) -> None:
    """Text that was never a token is refused."""
    assert isinstance(outcome(octets.decode("latin-1")), Refusal)
