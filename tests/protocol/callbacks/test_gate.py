"""The head of a callback is checked in a fixed order, and no check stands in for another."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import CallbackBasicAuth, CallbackBearerAuth, CallbackSourceNetworks
from income_client.protocol.callbacks.exchange import RequestHead
from income_client.protocol.callbacks.gate import BearerToken, CallbackGate
from income_client.protocol.callbacks.networks import TrustedProxies
from income_client.protocol.callbacks.refusals import Refusal

NOW = 1_782_820_800.0
BASIC = CallbackBasicAuth("service", "invented-1")
BEARER = CallbackBearerAuth(verify=lambda _token: True)
NETWORKS = CallbackSourceNetworks(["198.51.100.0/24"])
GOOD = b"Basic " + base64.b64encode(b"service:invented-1")
PROXIES = TrustedProxies(["10.0.0.1"])


def head(*authorization: bytes, method: str = "POST", peer: str = "198.51.100.7") -> RequestHead:
    """Return the head of a request with these Authorization fields."""
    fields = tuple((b"authorization", value) for value in authorization)
    return RequestHead(method=method, headers=fields, peer=peer)


def gate(*auth: CallbackBasicAuth | CallbackBearerAuth | CallbackSourceNetworks) -> CallbackGate:
    """Return a gate with these checks."""
    return CallbackGate(auth, proxies=PROXIES)


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ([], Refusal.AUTHORIZATION_MISSING),
        ([GOOD, GOOD], Refusal.AUTHORIZATION_DOUBLED),
        ([GOOD, b""], Refusal.AUTHORIZATION_DOUBLED),
        ([b""], Refusal.SCHEME_NOT_ACCEPTED),
        ([b"Basic"], Refusal.PASSWORD_WRONG),
        ([b"Digest " + GOOD[6:]], Refusal.SCHEME_NOT_ACCEPTED),
        ([b"Basic\t" + GOOD[6:]], Refusal.SCHEME_NOT_ACCEPTED),
        ([GOOD + b", " + GOOD], Refusal.AUTHORIZATION_UNREADABLE),
        ([GOOD + b"\xff"], Refusal.AUTHORIZATION_UNREADABLE),
        ([b"Basic " + b"A" * 16_400], Refusal.AUTHORIZATION_UNREADABLE),
        ([b"Bearer x"], Refusal.SCHEME_NOT_ACCEPTED),
    ],
)
def test_one_good_authorization_header_is_needed(fields: list[bytes], refusal: Refusal) -> None:
    """Whatever else is there."""
    assert gate(BASIC).check(head(*fields), now=NOW) is refusal


def test_of_basic_and_bearer_either_will_do() -> None:
    """A request has one Authorization header."""
    both = gate(BASIC, BEARER)
    assert both.check(head(GOOD), now=NOW) is None
    assert both.check(head(b"bearer  abc"), now=NOW) == BearerToken(text="abc")
    assert both.challenges == ('Basic realm="callbacks"', 'Bearer realm="callbacks"')


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD", "OPTIONS", "post", "BREW", ""])
def test_only_post_is_asked_for_anything(method: str) -> None:
    """Methods have a case."""
    assert gate(BASIC).check(head(GOOD, method=method), now=NOW) is Refusal.METHOD


def test_addresses_are_looked_at_before_passwords() -> None:
    """Nobody guesses from elsewhere."""
    both = gate(BASIC, NETWORKS)
    assert both.check(head(GOOD), now=NOW) is None
    assert both.check(head(GOOD, peer="203.0.113.9"), now=NOW) is Refusal.SOURCE_NOT_ALLOWED
    assert both.check(head(peer="203.0.113.9"), now=NOW) is Refusal.SOURCE_NOT_ALLOWED
    assert both.check(head(), now=NOW) is Refusal.AUTHORIZATION_MISSING


def test_a_token_is_not_shown() -> None:
    """It opens the endpoint for as long as it lives."""
    assert "abc" not in repr(BearerToken(text="abc"))


@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=60)), max_size=5))
def test_no_head_raises(fields: list[tuple[bytes, bytes]]) -> None:
    """Whatever comes becomes a refusal, or a token to be checked."""
    request = RequestHead(method="POST", headers=tuple(fields), peer="198.51.100.7")
    assert isinstance(gate(BASIC, BEARER, NETWORKS).check(request, now=NOW), Refusal | BearerToken)


@given(st.binary(max_size=200))
def test_no_authorization_raises(value: bytes) -> None:
    """Nor does any of it pass."""
    for scheme in (b"", b"Basic ", b"Bearer "):
        found = gate(BASIC, BEARER).check(head(scheme + value), now=NOW)
        assert isinstance(found, Refusal | BearerToken)
