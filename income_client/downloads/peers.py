"""May files come from this IP address; knows the special ranges, and nothing of names.

Of IPv6 only what is given out for the public net passes, so that a range of
tomorrow is refused today. An IPv4 address within an IPv6 one is judged as well,
since something on the way may unpack it.
"""

import enum
import ipaddress
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, TypeAlias, assert_never

from income_client.errors import LinkRefusal, UnsafeLinkError
from income_client.hosts import read_host_pattern
from income_client.settings import DownloadPolicy

_Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Net: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class Range(enum.Enum):
    """What an IP address is for; the text is for messages."""

    PUBLIC = "a public address"
    PRIVATE = "an address of a private network"
    LOOPBACK = "an address of this machine itself"
    LINK_LOCAL = "a link-local address"
    METADATA = "an address where a cloud tells its machines their secrets"
    MULTICAST = "a multicast address"
    UNSPECIFIED = "an unspecified address"
    RESERVED = "a reserved address"


_TEXTS: Final[Mapping[Range, tuple[str, ...]]] = {
    Range.METADATA: (
        "169.254.169.254/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
        "fd00:ec2::254/128", "fd20:ce::254/128",
    ),
    Range.LINK_LOCAL: ("169.254.0.0/16", "fe80::/10"),
    Range.MULTICAST: ("224.0.0.0/4", "ff00::/8"),
    Range.UNSPECIFIED: ("0.0.0.0/8", "::/128"),
    Range.LOOPBACK: ("127.0.0.0/8", "::1/128"),
    Range.RESERVED: (
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.51.100.0/24", "203.0.113.0/24",
        "240.0.0.0/4", "2001:db8::/32", "3fff::/20",
    ),
    Range.PRIVATE: (
        "10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15",
        "64:ff9b:1::/48", "fc00::/7",
    ),
    # What unpacks to an IPv4 address is as public as that one.
    Range.PUBLIC: ("0.0.0.0/0", "::ffff:0:0/96", "64:ff9b::/96", "2001::/32"),
}  # fmt: skip
"""By range, its networks; the first that holds an address decides."""

_REFUSALS: Final[Mapping[Range, LinkRefusal]] = {
    Range.PRIVATE: LinkRefusal.PRIVATE_NETWORK,
    Range.LOOPBACK: LinkRefusal.THIS_MACHINE,
}
"""Why there is none, by range; the others are never allowed."""

_NETWORKS: Final[tuple[tuple[_Net, Range], ...]] = tuple(
    (ipaddress.ip_network(text), kind) for kind, texts in _TEXTS.items() for text in texts
)
_PROTOCOL_ASSIGNMENTS: Final = ipaddress.IPv6Network("2001::/23")
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
_LAST_FOUR_BYTES: Final = tuple(
    ipaddress.IPv6Network(text) for text in ("::ffff:0:0/96", "64:ff9b::/96")
)
_NAT64_PLACES: Final = ((12, 13, 14, 15), (6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12))
"""Which bytes of a translated address hold the IPv4 one (RFC 6052), by length of prefix."""


def peer_refusal(ip: str, policy: DownloadPolicy) -> UnsafeLinkError | None:
    """Return what speaks against an IP address, None if files may come from it.

    Args:
        ip: the address to be connected to.
        policy: where files may come from.
    """
    try:
        outer: _Ip = ipaddress.ip_address(ip)
    except ValueError:
        return UnsafeLinkError(
            "the host is at an address of no known kind", reason=LinkRefusal.SPECIAL_NETWORK
        )
    for address in (outer, *_inner(outer)):
        kind = range_of(address)
        if not _may_be(kind, policy):
            reason = _REFUSALS.get(kind, LinkRefusal.SPECIAL_NETWORK)
            return UnsafeLinkError(f"the host is at {kind.value}", reason=reason)
    return None


def range_of(ip: _Ip) -> Range:
    """Return what an address is for, an IPv4 one within it aside."""
    for network, kind in _NETWORKS:
        if ip in network:
            return kind
    is_public = ip in _GLOBAL_UNICAST and ip not in _PROTOCOL_ASSIGNMENTS
    return Range.PUBLIC if is_public else Range.RESERVED


def _may_be(kind: Range, policy: DownloadPolicy) -> bool:
    match kind:
        case Range.PUBLIC:
            return True
        case Range.PRIVATE:
            return policy.allow_private_networks
        case Range.LOOPBACK:
            return policy.allow_private_networks and _names_this_machine(policy.allowed_hosts)
        case (
            Range.LINK_LOCAL | Range.METADATA | Range.MULTICAST | Range.UNSPECIFIED | Range.RESERVED
        ):
            return False
        case _:
            assert_never(kind)


@lru_cache(maxsize=64)
def _names_this_machine(allowed_hosts: tuple[str, ...]) -> bool:
    return any(read_host_pattern(entry).is_this_machine for entry in allowed_hosts)


def _inner(ip: _Ip) -> Iterator[ipaddress.IPv4Address]:
    """Yield every IPv4 address that an IPv6 address may be read as."""
    if isinstance(ip, ipaddress.IPv4Address):
        return
    octets = ip.packed
    if any(ip in network for network in _LAST_FOUR_BYTES):
        yield ipaddress.IPv4Address(octets[12:])
    if ip.sixtofour is not None:
        yield ip.sixtofour
    if ip.teredo is not None:
        yield from ip.teredo
    if ip in _LOCAL_NAT64:
        readings = (bytes(octets[place] for place in places) for places in _NAT64_PLACES)
        # Where a reading begins with 0, the address was made by another one.
        found = [ipaddress.IPv4Address(one) for one in readings if one[0]]
        yield from found or [ipaddress.IPv4Address(0)]
