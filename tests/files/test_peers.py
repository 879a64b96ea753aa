"""Which IP addresses files may come from."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.downloads.links import check_peer
from income_client.errors import LinkRefusal, UnsafeLinkError
from income_client.settings import DownloadPolicy

CLOSED = DownloadPolicy()
CLOSED_BUT_NAMED = DownloadPolicy(allowed_hosts=["localhost", "127.0.0.1", "[::1]"])
PRIVATE = DownloadPolicy(allow_private_networks=True)
OPEN = DownloadPolicy(allowed_hosts=["localhost:9"], allow_private_networks=True)

PUBLIC = (
    "8.8.8.8", "52.216.1.1", "172.32.0.1", "100.128.0.1", "2600:1fa0::1", "2a05:d050::1",
    "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2001:0:808:808::f7f7:f7f7",
)  # fmt: skip
PRIVATE_RANGES = (
    "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "198.18.0.1",
    "fc00::1", "fd12:3456::1", "::ffff:10.0.0.1", "64:ff9b::192.168.1.1", "2002:a00:1::1",
    "2001:0:808:808::f5ff:fffe", "2001:0:a00:1::f7f7:f7f7", "64:ff9b:1::8.8.8.8",
)  # fmt: skip
LOOPBACK = (
    "127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1",
    "2002:7f00:1::", "64:ff9b:1::127.0.0.1", "64:ff9b:1:7f00:0:100::",
)  # fmt: skip
NEVER = (
    "169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%2", "febf::1", "fd00:ec2::254",
    "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.1",
    "239.1.2.3", "ff02::1", "0.0.0.0", "0.1.2.3", "::", "240.0.0.1", "255.255.255.255",
    "192.0.0.9", "192.0.0.10", "2001:1::1", "2001:3::1", "2001:4:112::1",
    "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.88.99.1", "2001:db8::1", "3fff::1",
    "fec0::1", "100::1", "4000::1", "2001:20::1", "5f00::1", "::8.8.8.8", "::127.0.0.1",
    "::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1",
    "2001:0:808:808::5601:5601", "64:ff9b:1::169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::",
    "::ffff:0:8.8.8.8", "localhost", "", "1.2.3", "0x7f.1", "1.2.3.4:80",
)  # fmt: skip


def peer_refusal(ip: str, policy: DownloadPolicy) -> UnsafeLinkError | None:
    """Return why files may not come from an address."""
    try:
        check_peer(ip, policy)
    except UnsafeLinkError as refused:
        return refused
    return None


@pytest.mark.parametrize("ip", PUBLIC)
def test_public_addresses_pass(ip: str) -> None:
    """An IPv4 address passes in whatever it is wrapped."""
    assert peer_refusal(ip, CLOSED) is None


@pytest.mark.parametrize("ip", PRIVATE_RANGES)
def test_private_ranges_pass_if_the_policy_says_so(ip: str) -> None:
    """Wrapped ones are no way around."""
    for policy in (CLOSED, CLOSED_BUT_NAMED):
        refused = peer_refusal(ip, policy)
        assert isinstance(refused, UnsafeLinkError)
        assert refused.message == "the host is at an address of a private network"
        assert refused.reason is LinkRefusal.PRIVATE_NETWORK
        assert not refused.retryable
    assert peer_refusal(ip, PRIVATE) is None


@pytest.mark.parametrize("ip", LOOPBACK)
def test_this_machine_must_be_named_as_well(ip: str) -> None:
    """That private networks are allowed does not open this machine, nor does its name alone."""
    for policy in (CLOSED, CLOSED_BUT_NAMED, PRIVATE):
        assert isinstance(peer_refusal(ip, policy), UnsafeLinkError)
    refused = peer_refusal(ip, PRIVATE)
    assert refused is not None
    assert refused.reason is LinkRefusal.THIS_MACHINE
    assert peer_refusal(ip, OPEN) is None


@pytest.mark.parametrize("ip", NEVER)
def test_some_addresses_never_pass(ip: str) -> None:
    """Whatever the policy says: no file is there."""
    for policy in (CLOSED, CLOSED_BUT_NAMED, PRIVATE, OPEN):
        assert isinstance(peer_refusal(ip, policy), UnsafeLinkError)
    refused = peer_refusal(ip, OPEN)
    assert refused is not None
    assert refused.reason is LinkRefusal.SPECIAL_NETWORK


@given(st.ip_addresses())
def test_nothing_passes_that_python_knows_to_be_special(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    """What passes is public by the standard library's own tables, too."""
    if peer_refusal(str(ip), CLOSED) is None:
        # Releases of Python differ on what holds an IPv4 address.
        bare = getattr(ip, "ipv4_mapped", None) or getattr(ip, "sixtofour", None) or ip
        assert bare.is_global or ip in ipaddress.ip_network("2001::/32")
        assert not ip.is_multicast


PLACES_BY_PREFIX = {
    48: (6, 7, 9, 10),
    56: (7, 9, 10, 11),
    64: (9, 10, 11, 12),
    96: (12, 13, 14, 15),
}
"""Bytes of a translated address that hold the IPv4 one, by length of the prefix (RFC 6052)."""


@pytest.mark.parametrize("length", PLACES_BY_PREFIX)
@pytest.mark.parametrize("ip", ["168.63.129.16", "100.100.100.200", "169.254.169.254", "127.0.0.1"])
def test_an_address_that_is_translated_with_any_prefix_is_judged_like_the_bare_one(
    ip: str, length: int
) -> None:
    """A network's own translator may use a prefix of any length: each way to read one counts."""
    packed = bytearray(ipaddress.IPv6Address("64:ff9b:1::").packed)
    for place, number in zip(PLACES_BY_PREFIX[length], map(int, ip.split(".")), strict=True):
        packed[place] = number
    refused = peer_refusal(str(ipaddress.IPv6Address(bytes(packed))), PRIVATE)
    bare = peer_refusal(ip, PRIVATE)
    assert refused is not None
    assert bare is not None
    assert refused.reason is bare.reason


@given(st.ip_addresses(v=4))
def test_a_wrapped_address_is_judged_like_the_bare_one(ip: ipaddress.IPv4Address) -> None:
    """Mapped, translated, 6to4 and Teredo: nothing passes wrapped that does not pass bare."""
    number = int(ip)
    hidden = number ^ 0xFFFFFFFF
    wrapped = [
        0xFFFF << 32 | number,
        0x64FF9B << 96 | number,
        0x2002 << 112 | number << 80 | 1,
        0x20010000 << 96 | 0x08080808 << 64 | hidden,
        0x20010000 << 96 | number << 64 | 0xF7F7F7F7,
    ]
    for policy in (CLOSED, OPEN):
        bare = peer_refusal(str(ip), policy) is None
        found = [peer_refusal(str(ipaddress.IPv6Address(one)), policy) is None for one in wrapped]
        assert found == [bare] * len(wrapped)
