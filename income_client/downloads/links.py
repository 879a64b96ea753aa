"""Which addresses files are downloaded from: the text of an address, and the IP behind its host.

Nothing is connected to or resolved here. A refusal names its reason and the host, never the path
or the query, which open the file to anyone who reads them. Of IPv6 only what is assigned to the
public internet passes, so that a range assigned tomorrow is refused today; an IPv4 address inside
an IPv6 one is checked too, since a translator on the way may unpack it.
"""

import enum
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from attrs import field, frozen
from yarl import URL

from income_client.errors import LinkRefusal, UnsafeLinkError
from income_client.hosts import HostPattern, is_ip, plain_host, read_host_pattern
from income_client.settings import DownloadPolicy

_Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Net: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_LONGEST: Final = 8192
_PRINTABLE: Final = re.compile(r"[!-~]+")
_LINK: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?]*)(?P<target>[/?].*|)"
)
_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(:(?P<port>[1-9][0-9]{0,4}))?")
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_HIGHEST_PORT: Final = 65535


@frozen(kw_only=True)
class Link:
    """An address that may be used."""

    address: str = field(repr=False)
    """The text as it came; it opens the file."""
    host: str
    """Its host, as `plain_host` spells it."""
    port: int
    """The port to connect to."""
    is_https: bool
    """Whether TLS is spoken."""


def read_link(address: object, policy: DownloadPolicy) -> Link:
    """Check the address of a file (contract section 2.3); raise `UnsafeLinkError` if refused."""
    if not isinstance(address, str):
        raise _malformed("the download address is missing")
    _check_text(address)
    link = _parsed(address)
    _check_policy(link, policy)
    return link


def redirected(link: Link, location: object, policy: DownloadPolicy) -> Link:
    """Check where a redirect leads, as strictly as the address itself."""
    if not isinstance(location, str) or not location:
        raise _malformed("the redirect leads nowhere")
    _check_text(location)
    return read_link(_resolved(link.address, location), policy)


def _resolved(address: str, location: str) -> str:
    """Resolve a redirect; what may name another host is left to `read_link`, byte by byte."""
    scheme, _, rest = address.partition("://")
    if _ABSOLUTE.match(location):
        return location
    if location.startswith("//"):
        return f"{scheme}:{location}"
    if location.startswith("/"):
        # Keys may hold dot segments, and the signature is over the bytes.
        return f"{scheme}://{rest.partition('/')[0]}{location}"
    return str(URL(address, encoded=True).join(URL(location, encoded=True)))


_TEXT_FAULTS: Final[Sequence[tuple[Callable[[str], bool], str]]] = (
    (lambda text: not text, "is empty"),
    (lambda text: len(text) > _LONGEST, f"is longer than {_LONGEST} characters"),
    (lambda text: _PRINTABLE.fullmatch(text) is None, "is not printable ASCII without spaces"),
    (lambda text: "\\" in text, "holds a backslash"),
    (lambda text: "#" in text, "holds a fragment"),
)


def _check_text(address: str) -> None:
    for is_wrong, fault in _TEXT_FAULTS:
        if is_wrong(address):
            raise _malformed(f"the download address {fault}")


def _parsed(address: str) -> Link:
    parts = _LINK.fullmatch(address)
    scheme = "" if parts is None else parts["scheme"].lower()
    if parts is None or scheme not in _DEFAULT_PORTS:
        raise _malformed("the download address is neither https nor http")
    if "@" in parts["authority"]:
        raise _malformed("the download address holds a user name or a password")
    authority = _AUTHORITY.fullmatch(parts["authority"])
    if authority is None:
        raise _malformed("the download address has an odd port, or no plain host")
    host = plain_host(authority["host"])
    if host is None:
        raise _malformed("the download address names no host, or spells it oddly")
    port = int(authority["port"] or _DEFAULT_PORTS[scheme])
    link = Link(address=address, host=host, port=port, is_https=scheme == "https")
    if port > _HIGHEST_PORT or not _is_sent_as_checked(link, parts["target"]):
        raise _malformed("the download address would not be sent as it is")
    return link


def _is_sent_as_checked(link: Link, target: str) -> bool:
    """Say whether yarl, with which the request is made, reads the address in the same way."""
    try:
        url = URL(link.address, encoded=True)
        raw_host = url.raw_host or ""
        host = plain_host(f"[{raw_host}]" if ":" in raw_host else raw_host)
        is_same_host = host == link.host and url.port == link.port and url.raw_user is None
    except ValueError:
        return False
    return is_same_host and (url.scheme == "https") is link.is_https and url.raw_path_qs == target


@lru_cache(maxsize=64)
def _patterns(allowed_hosts: tuple[str, ...]) -> tuple[HostPattern, ...]:
    return tuple(read_host_pattern(entry) for entry in allowed_hosts)


def _check_policy(link: Link, policy: DownloadPolicy) -> None:
    if policy.require_https and not link.is_https:
        raise UnsafeLinkError(
            f"{link.host}: not https, which DownloadPolicy requires", reason=LinkRefusal.PLAIN_HTTP
        )
    default_port = _DEFAULT_PORTS["https" if link.is_https else "http"]
    patterns = _patterns(policy.allowed_hosts)
    if not any(pattern.allows(link.host, link.port, default_port) for pattern in patterns):
        shown = link.host if link.port == default_port else f"{link.host}, port {link.port}"
        raise UnsafeLinkError(
            f"{shown}: not a host that DownloadPolicy allows", reason=LinkRefusal.HOST
        )
    if is_ip(link.host):
        check_peer(link.host, policy)


def _malformed(message: str) -> UnsafeLinkError:
    return UnsafeLinkError(message, reason=LinkRefusal.ADDRESS)


class _Range(enum.Enum):
    """What an IP address is for; the text is for messages."""

    PUBLIC = "a public address"
    PRIVATE = "an address of a private network"
    LOOPBACK = "an address of this machine itself"
    LINK_LOCAL = "a link-local address"
    METADATA = "an address where a cloud tells its machines their secrets"
    MULTICAST = "a multicast address"
    UNSPECIFIED = "an unspecified address"
    RESERVED = "a reserved address"


_TEXTS: Final[Mapping[_Range, tuple[str, ...]]] = {
    _Range.METADATA: (
        "169.254.169.254/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
        "fd00:ec2::254/128", "fd20:ce::254/128",
    ),
    _Range.LINK_LOCAL: ("169.254.0.0/16", "fe80::/10"),
    _Range.MULTICAST: ("224.0.0.0/4", "ff00::/8"),
    _Range.UNSPECIFIED: ("0.0.0.0/8", "::/128"),
    _Range.LOOPBACK: ("127.0.0.0/8", "::1/128"),
    _Range.RESERVED: (
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.51.100.0/24", "203.0.113.0/24",
        "240.0.0.0/4", "2001:db8::/32", "3fff::/20",
    ),
    _Range.PRIVATE: (
        "10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15",
        "64:ff9b:1::/48", "fc00::/7",
    ),
    # What unpacks to an IPv4 address is as public as that one.
    _Range.PUBLIC: ("0.0.0.0/0", "::ffff:0:0/96", "64:ff9b::/96", "2001::/32"),
}  # fmt: skip
"""By range, its networks; the first that holds an address decides."""

_REFUSALS: Final[Mapping[_Range, LinkRefusal]] = {
    _Range.PRIVATE: LinkRefusal.PRIVATE_NETWORK,
    _Range.LOOPBACK: LinkRefusal.THIS_MACHINE,
}
"""Why there is none, by range; the others are never allowed."""

_NETWORKS: Final[tuple[tuple[_Net, _Range], ...]] = tuple(
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


def check_peer(ip: str, policy: DownloadPolicy) -> None:
    """Raise `UnsafeLinkError` if files may not come from this IP address."""
    try:
        outer: _Ip = ipaddress.ip_address(ip)
    except ValueError:
        raise UnsafeLinkError(
            "the host is at an address of no known kind", reason=LinkRefusal.SPECIAL_NETWORK
        ) from None
    for address in (outer, *_inner(outer)):
        kind = _range_of(address)
        if not _may_be(kind, policy):
            reason = _REFUSALS.get(kind, LinkRefusal.SPECIAL_NETWORK)
            raise UnsafeLinkError(f"the host is at {kind.value}", reason=reason)


def _range_of(ip: _Ip) -> _Range:
    """Return what an address is for, an IPv4 one within it aside."""
    for network, kind in _NETWORKS:
        if ip in network:
            return kind
    is_public = ip in _GLOBAL_UNICAST and ip not in _PROTOCOL_ASSIGNMENTS
    return _Range.PUBLIC if is_public else _Range.RESERVED


def _may_be(kind: _Range, policy: DownloadPolicy) -> bool:
    match kind:
        case _Range.PUBLIC:
            return True
        case _Range.PRIVATE:
            return policy.allow_private_networks
        case _Range.LOOPBACK:
            return policy.allow_private_networks and _names_this_machine(policy.allowed_hosts)
        case _:
            return False


def _names_this_machine(allowed_hosts: tuple[str, ...]) -> bool:
    return any(pattern.is_this_machine for pattern in _patterns(allowed_hosts))


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
