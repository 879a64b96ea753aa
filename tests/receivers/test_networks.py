"""Where a request came from, and through which proxies."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import CallbackSourceNetworks
from income_client.receivers.exchange import REWRITTEN_PEER, UNIX_PEER, Refusal, RequestHead
from income_client.receivers.networks import TrustedProxies
from tests.support.callbacks import refusal_of

PROXIES = TrustedProxies(["10.0.0.0/8", "fd00::/8", UNIX_PEER])
PROXY = "10.1.2.3"


def source(peer: str | None, *forwarded: str) -> str:
    fields = tuple((b"X-Forwarded-For", one.encode("latin-1")) for one in forwarded)
    head = RequestHead(method="POST", headers=fields, peer=peer)
    refusal = refusal_of(PROXIES.source, head)
    return refusal.slug if refusal else str(PROXIES.source(head))


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
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
        pytest.param(
            PROXY,
            [", ".join(["198.51.100.7", *["10.0.0.1"] * 50])],
            "source_unreadable",
            id="more proxies than 32",
        ),
    ],
)
def test_the_chain_is_walked_from_the_right(
    peer: str | None, forwarded: list[str], expected: str
) -> None:
    """What is left of the first stranger was written by anybody."""
    assert source(peer, *forwarded) == expected


@pytest.mark.parametrize(
    "forwarded",
    [
        *("", "198.51.100.7,", "unknown", "_hidden", "198.51.100.7, nonsense", "198.51.100.7:x"),
        *("198.51.100.07", "2130706433", "[198.51.100.7]", "[2001:db8::7", "[2001:db8::7]x"),
        *("fe80::1%eth0", "::ffff:198.51.100.7%a", "198.51.100.7\xa0"),
    ],
)
def test_a_forwarded_address_that_cannot_be_read_is_refused(forwarded: str) -> None:
    """It might be read in two ways."""
    assert source(PROXY, forwarded) == "source_unreadable"


@given(st.lists(st.ip_addresses(), max_size=5))
def test_a_stranger_s_header_counts_for_nothing(addresses: list[object]) -> None:
    assert source("203.0.113.9", ", ".join(map(str, addresses))) == "203.0.113.9"


@given(st.binary(max_size=300))
def test_no_header_raises(value: bytes) -> None:
    request = RequestHead(method="POST", headers=((b"x-forwarded-for", value),), peer=PROXY)
    assert refusal_of(PROXIES.source, request) in (None, Refusal.SOURCE_UNREADABLE)


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        *((one, True) for one in ("198.51.100.0", "198.51.100.255", "2001:db8::1", "192.0.2.7")),
        *((one, False) for one in ("198.51.101.0", "2001:db9::1", "::1", "203.0.113.8")),
        ("203.0.113.9", True),
    ],
)
def test_only_the_networks_pass(address: str, is_allowed: bool) -> None:
    """Their first and last addresses included; networks of mapped addresses are those of IPv4."""
    networks = CallbackSourceNetworks(
        ["198.51.100.0/24", "2001:db8::/32", "::ffff:192.0.2.0/120", "::ffff:203.0.113.9"]
    )
    refusal = refusal_of(networks.check, ipaddress.ip_address(address))
    assert refusal is (None if is_allowed else Refusal.SOURCE_NOT_ALLOWED)


def test_a_socket_of_the_file_system_is_a_proxy_only_if_it_is_named() -> None:
    for peer in ("127.0.0.1", UNIX_PEER):
        assert not TrustedProxies().is_one(peer)
    assert TrustedProxies([UNIX_PEER]).is_one(UNIX_PEER)
    assert not TrustedProxies([UNIX_PEER]).is_one("127.0.0.1")
    assert not TrustedProxies(["127.0.0.1", UNIX_PEER]).is_one(REWRITTEN_PEER)
