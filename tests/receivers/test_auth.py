"""How the head of a callback is checked: credentials, the order, and where it came from."""

import base64
import ipaddress
import sys
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    BasicAuth,
    CallbackBasicAuth,
    CallbackBearerAuth,
    CallbackSourceNetworks,
    ConfigurationError,
    Secret,
    receivers,
)
from income_client.receivers.exchange import REWRITTEN_PEER, UNIX_PEER, Refusal, RequestHead
from income_client.receivers.networks import TrustedProxies
from tests.support.callbacks import refusal_of
from tests.support.signed_tokens import accepting, private_key, public_pem, segment

NOW: Final = 1_782_820_800.0
URL: Final = "https://id.example.test/keys"
AUTH: Final = CallbackBasicAuth("service", "invented-1", also=[BasicAuth("service", "invented-2")])


def encoded(pair: str, encoding: str = "utf-8") -> bytes:
    return base64.b64encode(pair.encode(encoding, "surrogatepass"))


def test_every_pair_is_accepted_in_both_encodings() -> None:
    """A password can be changed on one side after the other; the encoding is not specified."""
    assert refusal_of(AUTH.check, encoded("service:invented-1")) is None
    assert refusal_of(AUTH.check, encoded("service:invented-2")) is None
    auth = CallbackBasicAuth("müller", "gemäß")
    for encoding in ("utf-8", "latin-1"):
        assert refusal_of(auth.check, encoded("müller:gemäß", encoding)) is None


def short_pem() -> bytes:
    public = rsa.generate_private_key(65537, 1024).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


ADVICE: Final[tuple[tuple[Any, str], ...]] = (
    (Secret("x" * 64), "must be named"),
    ("-----BEGIN PRIVATE KEY-----\nAAAA", "only the issuer"),
    (dict(private_key("P-256").as_dict(private=True)), "only the issuer"),
    ("https://id.example.test/keys", "jwks_url"),
    ("keys.pem", "not a public key in PEM"),
    ("a shared secret", "given as a Secret"),
    (7, "neither a JWK"),
    (short_pem(), "2048"),
)


def test_what_is_wrong_with_a_key_is_said() -> None:
    for key, advice in ADVICE:
        with pytest.raises(ConfigurationError, match=advice) as caught:
            accepting(keys=[public_pem("RSA"), key])
        assert str(caught.value).startswith("keys: number 2 ")
        assert "AAAA" not in str(caught.value)


def test_a_public_key_is_not_taken_for_a_secret() -> None:
    """Its text is known to everybody, whatever the caller believes it to be."""
    pem = public_pem("RSA")
    der = load_pem_public_key(pem).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    jwks = [{"kty": "oct", "k": segment(text)} for text in (pem, b"RSA:\n" + pem, der)]
    for key in (Secret(pem.decode()), *jwks):
        with pytest.raises(ConfigurationError, match=r"^keys"):
            accepting(keys=key, algorithms=["HS256"])


def test_a_secret_is_as_long_as_its_hash() -> None:
    """Shorter secrets are refused (RFC 7518, section 3.2)."""
    for algorithm, length in (("HS256", 31), ("HS384", 47), ("HS512", 63)):
        with pytest.raises(ConfigurationError, match="too short"):
            accepting(keys=Secret("x" * length), algorithms=[algorithm])
        assert accepting(keys=Secret("x" * (length + 1)), algorithms=[algorithm]).keys


def test_without_signed_tokens_their_library_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value is made with verify where joserfc does not exist; else the extra is named."""
    for name in ("joserfc", "cryptography"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "income_client.receivers.jwt")
    monkeypatch.delattr(receivers, "jwt")
    assert CallbackBearerAuth(verify=bool).keys is None
    with pytest.raises(ConfigurationError, match=r"pip install 'income-client\[callbacks\]'"):
        accepting(keys=None, jwks_url=URL)


# Where a request came from


PROXIES = TrustedProxies(["10.0.0.0/8", "fd00::/8", UNIX_PEER])
PROXY = "10.1.2.3"


def source(peer: str | None, *forwarded: str) -> str:
    fields = tuple((b"X-Forwarded-For", one.encode("latin-1")) for one in forwarded)
    head = RequestHead(method="POST", headers=fields, peer=peer)
    refusal = refusal_of(PROXIES.source, head)
    return refusal.slug if refusal else str(PROXIES.source(head))


SOURCES: Final[tuple[tuple[str | None, list[str], str], ...]] = (
    ("198.51.100.7", [], "198.51.100.7"),
    ("::ffff:198.51.100.7", [], "198.51.100.7"),
    ("203.0.113.9", ["198.51.100.7"], "203.0.113.9"),
    ("::ffff:10.1.2.3", ["198.51.100.7"], "198.51.100.7"),
    ("fd00::1", ["2001:db8::7"], "2001:db8::7"),
    (UNIX_PEER, ["198.51.100.7"], "198.51.100.7"),
    (PROXY, [], PROXY),
    (PROXY, ["10.4.4.4, 10.5.5.5"], "10.4.4.4"),
    (PROXY, ["198.51.100.7, 203.0.113.9"], "203.0.113.9"),
    (PROXY, ["198.51.100.7", "203.0.113.9"], "203.0.113.9"),
    (PROXY, ["203.0.113.9, 198.51.100.7, 10.9.9.9"], "198.51.100.7"),
    (PROXY, ["203.0.113.9, 198.51.100.7", "10.9.9.9,10.8.8.8"], "198.51.100.7"),
    (PROXY, ["198.51.100.7:4711"], "198.51.100.7"),
    (PROXY, ["[2001:db8::7]:4711"], "2001:db8::7"),
    (PROXY, ["[2001:db8::7]"], "2001:db8::7"),
    (PROXY, ["::ffff:198.51.100.7"], "198.51.100.7"),
    (PROXY, ["  198.51.100.7\t"], "198.51.100.7"),
    ("::ffff:10.1.2.3%a", ["198.51.100.7"], "source_unknown"),
    (None, ["198.51.100.7"], "source_unknown"),
    ("testclient", ["198.51.100.7"], "source_unknown"),
    (REWRITTEN_PEER, ["127.0.0.1"], "source_rewritten"),
    (UNIX_PEER, [], "source_unreadable"),
    (PROXY, [", ".join(["198.51.100.7", *["10.0.0.1"] * 50])], "source_unreadable"),
)
UNREADABLE: Final = (
    *("", "198.51.100.7,", "unknown", "_hidden", "198.51.100.7, nonsense", "198.51.100.7:x"),
    *("198.51.100.07", "2130706433", "[198.51.100.7]", "[2001:db8::7", "[2001:db8::7]x"),
    *("fe80::1%eth0", "::ffff:198.51.100.7%a", "198.51.100.7\xa0"),
)


def test_the_chain_is_walked_from_the_right() -> None:
    """What is left of the first stranger was written by anybody; an address reads in one way."""
    for peer, forwarded, expected in SOURCES:
        assert source(peer, *forwarded) == expected
    found = {forwarded: source(PROXY, forwarded) for forwarded in UNREADABLE}
    assert found == dict.fromkeys(UNREADABLE, "source_unreadable")


@given(st.binary(max_size=300))
def test_no_forwarding_header_raises(value: bytes) -> None:
    request = RequestHead(method="POST", headers=((b"x-forwarded-for", value),), peer=PROXY)
    assert refusal_of(PROXIES.source, request) in (None, Refusal.SOURCE_UNREADABLE)


def test_only_the_networks_pass() -> None:
    """Their first and last addresses included; networks of mapped addresses are those of IPv4."""
    networks = CallbackSourceNetworks(
        ["198.51.100.0/24", "2001:db8::/32", "::ffff:192.0.2.0/120", "::ffff:203.0.113.9"]
    )
    allowed = "198.51.100.0", "198.51.100.255", "2001:db8::1", "192.0.2.7", "203.0.113.9"
    for address in (*allowed, "198.51.101.0", "2001:db9::1", "::1", "203.0.113.8"):
        refusal = refusal_of(networks.check, ipaddress.ip_address(address))
        assert refusal is (None if address in allowed else Refusal.SOURCE_NOT_ALLOWED)


def test_a_socket_of_the_file_system_is_a_proxy_only_if_it_is_named() -> None:
    for peer in ("127.0.0.1", UNIX_PEER):
        assert not TrustedProxies().is_one(peer)
    assert TrustedProxies([UNIX_PEER]).is_one(UNIX_PEER)
    assert not TrustedProxies([UNIX_PEER]).is_one("127.0.0.1")
    assert not TrustedProxies(["127.0.0.1", UNIX_PEER]).is_one(REWRITTEN_PEER)
