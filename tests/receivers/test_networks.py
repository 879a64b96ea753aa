"""Where a request came from, and through which proxies; nobody says it of himself."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import CallbackSourceNetworks, ConfigurationError
from income_client.receivers.exchange import UNIX_PEER, Refusal, RequestHead
from income_client.receivers.networks import TrustedProxies
from tests.support.refusals import refusal_of

PROXIES = TrustedProxies(["10.0.0.0/8", "fd00::/8", UNIX_PEER])
SERVICE = CallbackSourceNetworks(["198.51.100.0/24", "2001:db8::/32"])


def head(peer: str | None, *forwarded: str) -> RequestHead:
    """Return the head of a request that has come through proxies, or says so."""
    fields = tuple((b"X-Forwarded-For", one.encode("latin-1")) for one in forwarded)
    return RequestHead(method="POST", headers=fields, peer=peer)


def source(peer: str | None, *forwarded: str) -> str:
    """Return where it came from, or why that cannot be said."""
    request = head(peer, *forwarded)
    refusal = refusal_of(PROXIES.source, request)
    return refusal.slug if refusal else str(PROXIES.source(request))


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("198.51.100.7", [], "198.51.100.7"),
        ("::ffff:198.51.100.7", [], "198.51.100.7"),
        ("203.0.113.9", ["198.51.100.7"], "203.0.113.9"),
        ("10.1.2.3", ["198.51.100.7"], "198.51.100.7"),
        ("::ffff:10.1.2.3", ["198.51.100.7"], "198.51.100.7"),
        ("fd00::1", ["2001:db8::7"], "2001:db8::7"),
        (UNIX_PEER, ["198.51.100.7"], "198.51.100.7"),
        ("10.1.2.3", ["198.51.100.7, 203.0.113.9"], "203.0.113.9"),
        ("10.1.2.3", ["198.51.100.7", "203.0.113.9"], "203.0.113.9"),
        ("10.1.2.3", ["203.0.113.9, 198.51.100.7, 10.9.9.9"], "198.51.100.7"),
        ("10.1.2.3", ["203.0.113.9, 198.51.100.7", "10.9.9.9,10.8.8.8"], "198.51.100.7"),
        ("10.1.2.3", ["198.51.100.7:4711"], "198.51.100.7"),
        ("10.1.2.3", ["[2001:db8::7]:4711"], "2001:db8::7"),
        ("10.1.2.3", ["[2001:db8::7]"], "2001:db8::7"),
        ("10.1.2.3", ["::ffff:198.51.100.7"], "198.51.100.7"),
        ("10.1.2.3", ["  198.51.100.7\t"], "198.51.100.7"),
        ("10.1.2.3", [], "10.1.2.3"),
        ("10.1.2.3", ["10.4.4.4, 10.5.5.5"], "10.4.4.4"),
        ("10.1.2.3", [""], "source_unreadable"),
        ("10.1.2.3", ["198.51.100.7,"], "source_unreadable"),
        ("10.1.2.3", ["unknown"], "source_unreadable"),
        ("10.1.2.3", ["_hidden"], "source_unreadable"),
        ("10.1.2.3", ["198.51.100.7, nonsense"], "source_unreadable"),
        ("10.1.2.3", ["198.51.100.7:x"], "source_unreadable"),
        ("10.1.2.3", ["198.51.100.07"], "source_unreadable"),
        ("10.1.2.3", ["2130706433"], "source_unreadable"),
        ("10.1.2.3", ["[198.51.100.7]"], "source_unreadable"),
        ("10.1.2.3", ["[2001:db8::7"], "source_unreadable"),
        ("10.1.2.3", ["[2001:db8::7]x"], "source_unreadable"),
        ("10.1.2.3", ["fe80::1%eth0"], "source_unreadable"),
        ("10.1.2.3", ["::ffff:198.51.100.7%a"], "source_unreadable"),
        ("::ffff:10.1.2.3%a", ["198.51.100.7"], "source_unknown"),
        ("10.1.2.3", ["198.51.100.7\xa0"], "source_unreadable"),
        (UNIX_PEER, [], "source_unreadable"),
        (None, ["198.51.100.7"], "source_unknown"),
        ("testclient", ["198.51.100.7"], "source_unknown"),
    ],
)
def test_the_chain_is_walked_from_the_right(
    peer: str | None, forwarded: list[str], expected: str
) -> None:
    """What stands left of the first stranger was written by anybody."""
    assert source(peer, *forwarded) == expected


def test_a_long_chain_is_not_walked_for_ever() -> None:
    """Thirty-two proxies in a row are none."""
    assert source("10.1.2.3", ", ".join(["198.51.100.7", *["10.0.0.1"] * 50])) == (
        "source_unreadable"
    )


@given(st.lists(st.ip_addresses(), max_size=5))
def test_whatever_a_stranger_forwards_he_is_himself(addresses: list[object]) -> None:
    """Only a known proxy is listened to."""
    assert source("203.0.113.9", ", ".join(map(str, addresses))) == "203.0.113.9"


@given(st.binary(max_size=300))
def test_no_header_raises(value: bytes) -> None:
    """Whatever is forwarded becomes an address or a refusal."""
    request = RequestHead(method="POST", headers=((b"x-forwarded-for", value),), peer="10.1.2.3")
    assert refusal_of(PROXIES.source, request) in (None, Refusal.SOURCE_UNREADABLE)


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("198.51.100.0", True), ("198.51.100.255", True), ("198.51.101.0", False),
        ("2001:db8::1", True), ("2001:db9::1", False), ("::1", False),
    ],
)  # fmt: skip
def test_only_the_networks_pass(address: str, is_allowed: bool) -> None:
    """Their first and last addresses included."""
    refusal = refusal_of(SERVICE.check, ipaddress.ip_address(address))
    assert refusal is (None if is_allowed else Refusal.SOURCE_NOT_ALLOWED)


def test_mapped_networks_are_those_of_ipv4() -> None:
    """However an address is written, it is one."""
    networks = CallbackSourceNetworks(["::ffff:198.51.100.0/120", "::ffff:203.0.113.9"])
    assert refusal_of(networks.check, ipaddress.ip_address("198.51.100.7")) is None
    assert refusal_of(networks.check, ipaddress.ip_address("203.0.113.9")) is None
    assert (
        refusal_of(networks.check, ipaddress.ip_address("203.0.113.8"))
        is Refusal.SOURCE_NOT_ALLOWED
    )


@pytest.mark.parametrize(
    "entries",
    [
        [], "198.51.100.7", ["198.51.100.7/24"], ["0.0.0.0/0"], ["::/0"], ["callbacks.example"],
        [""], [7], 7, [None], ["198.51.100.0/33"], ["unix:"],
        ["::ffff:0:0/96"],
    ],
)  # fmt: skip
def test_networks_that_cannot_be_meant_are_refused(entries: object) -> None:
    """Host bits, names and everybody among them."""
    with pytest.raises(ConfigurationError):
        CallbackSourceNetworks(entries)  # type: ignore[arg-type]


@pytest.mark.parametrize("entries", ["10.0.0.1", ["0.0.0.0/0"], ["proxy"], 7, ["::ffff:0:0/0"]])
def test_proxies_that_cannot_be_meant_are_refused(entries: object) -> None:
    """Everybody is no proxy."""
    with pytest.raises(ConfigurationError):
        TrustedProxies(entries)  # type: ignore[arg-type]


def test_without_proxies_nobody_is_listened_to() -> None:
    """A socket of the file system is a proxy only if that is said."""
    for peer in ("127.0.0.1", UNIX_PEER):
        assert not TrustedProxies().is_one(peer)
    assert TrustedProxies([UNIX_PEER]).is_one(UNIX_PEER)
    assert not TrustedProxies([UNIX_PEER]).is_one("127.0.0.1")
