"""``income-client token``: what it says of a token, and that it shows it only when asked."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.support.cli import Cli, few_runs, with_basic
from tests.support.streams import Terminal

OPAQUE: Final = "an-opaque-token-of-no-form"
EMPTY_PAGE: Final = (
    b'{"updated_after": "2026-01-01T00:00:00", "updated_before": "2026-01-02T00:00:00",'
    b' "applications": []}'
)
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES: Final = st.sampled_from(["exp", "iat", "scope", "aud", "sub", "email", "name"]) | st.text(
    st.characters(categories=["L", "N", "P", "S"])
)


@pytest.fixture
def token(cli: Cli) -> Iterator[Cli]:
    """The command on a service whose present is that of this machine."""
    now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    with IncomeService(5, start=now, time_flows=True) as service:
        yield cli.at(service)


def part(value: Any, depth: int = 0) -> str:
    """Return a value as a part of a token, with arrays in arrays in place of an ``@``."""
    text = json.dumps(value)
    if depth:
        text = text.replace('"@"', "[" * depth + "]" * depth)
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def jwt(claims: Any, **header: Any) -> str:
    """Return a token with these claims, signed by nobody."""
    return f"{part({'alg': 'RS256', **header})}.{part(claims)}.c2lnbmF0dXJl"


def issue(service: IncomeService, access_token: str, *, is_taken: bool = True) -> None:
    """Have the token endpoint issue this, and perhaps the service accept it."""
    reply = {"access_token": access_token, "token_type": "Bearer", "expires_in": 600}
    service.faults.clear()
    service.faults.add(Fault("body", path="/token", times=None, body=json.dumps(reply).encode()))
    if is_taken:
        service.faults.add(Fault("body", path="/v1/*", times=None, body=EMPTY_PAGE))


def described(token: Cli, access_token: str) -> Any:
    """Return what is said of a token, as JSON."""
    issue(token.service, access_token)
    ran = token("token", "-o", "json")
    assert (ran.status, ran.stderr) == (0, "")
    return json.loads(ran.stdout)


def test_a_token_is_described_and_not_shown(token: Cli) -> None:
    ran = token("token")
    assert (ran.status, ran.stderr) == (0, "")
    for words in ("Bearer, JWT", "3600 s", "iss", "income-emulator"):
        assert words in ran.stdout
    assert "eyJ" not in ran.stdout  # how every JWT begins
    assert token.service.token_requests == 1
    shown = json.loads(token("token", "-o", "json").stdout)
    assert (shown["type"], shown["form"], shown["lifetime"]) == ("Bearer", "JWT", 3600.0)
    assert shown["verified"] is False
    issued = datetime.fromisoformat(shown["expires_at"]) - timedelta(seconds=shown["seconds_left"])
    assert abs(datetime.now(UTC) - issued) < timedelta(minutes=2)
    assert shown["claims"]["iss"] == "income-emulator"
    assert "jti" in shown["not_shown"]


def test_reveal_prints_the_token_alone(token: Cli) -> None:
    """A pipe gets the token and a newline, a person on a terminal a warning beside it."""
    issue(token.service, OPAQUE)
    ran = token("token", "--reveal")
    assert (ran.status, ran.stdout, ran.stderr) == (0, f"{OPAQUE}\n", "")
    shown = token("token", "--reveal", terminal=Terminal())
    assert OPAQUE in shown.screen
    assert "income-client: " in shown.screen
    beside = token("token", "--reveal", terminal=Terminal(), piped=True)
    assert (beside.screen, beside.stdout) == ("", f"{OPAQUE}\n")


def test_a_refused_token_is_4(token: Cli) -> None:
    issue(token.service, OPAQUE, is_taken=False)
    ran = token("token")
    assert (ran.status, ran.stderr.count("\n")) == (4, 1)
    assert "opaque" in ran.stdout
    assert OPAQUE not in ran.stdout + ran.stderr


def test_basic_credentials_need_no_token(token: Cli) -> None:
    ran = token("token", env=with_basic(token.service))
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert len(token.service.requests) == 0


def test_claims_are_readable(token: Cli) -> None:
    """And cannot act on a terminal."""
    claims = {"exp": 1_800_000_000, "iat": -62_135_596_800, "aud": ["a", "b"], "iss": "them"}
    shown = described(token, jwt({**claims, "scope": "income:read"}))
    times = {"exp": "2027-01-15T08:00:00Z", "iat": "0001-01-01T00:00:00Z"}
    assert shown["claims"] == {**times, "aud": "a b", "scope": "income:read", "iss": "them"}
    assert shown["scope"] == "income:read"
    assert shown["header"] == {"alg": "RS256"}
    assert shown["exp_agrees"] is False
    issue(token.service, jwt({"iss": "\x1b[2Jhush", "\x1bname": 1}))
    ran = token("token")
    assert "\x1b" not in ran.stdout
    assert "?[2Jhush" in ran.stdout


@pytest.mark.parametrize("sub", ["Ada\u00a0Invented", "b@example.com"])
def test_claims_about_a_person_are_only_named(sub: str, token: Cli) -> None:
    """What is not known harmless is named; a subject is shown only if it looks like a client's."""
    claims = {"email": "a@example.com", "name": "Ada", "act": {"sub": "x"}, "sub": sub}
    shown = described(token, jwt(claims, jwk={"k": "hush"}))
    assert shown["claims"] == {"sub": "(not shown)"}
    assert set(shown["not_shown"]) == {"jwk", "email", "name", "act"}
    assert not any(word in str(shown) for word in ("Ada", "example.com", "hush", sub))
    assert described(token, jwt({"sub": "client-7"}))["claims"] == {"sub": "client-7"}


@pytest.mark.parametrize(
    ("access_token", "form"),
    [
        (f"{part({'alg': 'RSA-OAEP', 'enc': 'A256GCM'})}.a.b.c.d", "encrypted JWT"),
        (OPAQUE, "opaque"),
        ("..", "opaque"),
        (f"{part({})}.{part({})}.x", "opaque"),
        (f"{part([])}.{part({})}.x", "opaque"),
        (f"{part({'alg': 'none'})}.{part({'aud': '@'}, 10)}.x", None),
        (f"{part({'alg': 'none'})}.{part({'aud': '@'}, 2500)}.x", None),
    ],
)
def test_a_token_need_not_be_a_readable_jwt(
    access_token: str, form: str | None, token: Cli
) -> None:
    """It then has no claims; what is nested without end is neither read nor shown."""
    shown = described(token, access_token)
    assert form in (None, shown["form"])
    assert shown["lifetime"] == 600.0
    assert shown["claims"] in ({}, {"aud": "(not shown)"})
    assert bool(shown["header"]) is (shown["form"] != "opaque")


@few_runs
@given(claims=st.dictionaries(NAMES, JSON, max_size=5))
@example(claims={"exp": 1e300, "iat": 10**30})
def test_any_claims_can_be_described(claims: dict[str, Any], token: Cli) -> None:
    shown = described(token, jwt(claims))
    assert {name[:200] for name in claims} == {*shown["claims"], *shown["not_shown"]}
    assert all(len(words) <= 201 for words in shown["claims"].values())
