"""Checks of URLs from which files are downloaded: the text of a URL, and the IP of its host.

Nothing is connected to or resolved here. A refusal names its reason and the host, never the path
or the query, which open the file to anyone who reads them. An IPv4 address inside an IPv6 one is
checked in its place, since a translator on the way may unpack it.
"""

import ipaddress
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeAlias

from attrs import field, frozen
from yarl import URL

from income_client.errors import LinkRefusal, UnsafeLinkError
from income_client.settings import DownloadPolicy
from income_client.system.hosts import is_ip, plain_host, read_host_pattern

_Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Networks: TypeAlias = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]

_TEXT: Final = re.compile(r'[!"$-\[\]-~]{1,8192}')
"""Printable ASCII without spaces, backslashes and fragments."""
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_plain_host: Final = lru_cache(maxsize=64)(plain_host)  # few hosts have all the files
_UNREADABLE: Final = (ValueError, IndexError)
"""Errors that yarl raises for an invalid URL; an IndexError if the host is empty."""


@frozen
class Link:
    """A URL that the policy allows."""

    url: URL = field(repr=False)
    """The signed URL exactly as received. Anyone who has it can read the file."""
    host: str
    """Host of the URL, as `plain_host` spells it."""


def read_link(address: object, policy: DownloadPolicy) -> Link:
    """Check the address of a file (contract section 2.3); raise `UnsafeLinkError` if refused."""
    link = _parse_link(_text_of(address))
    _check_policy(link.host, link.url.scheme, link.url.port or 0, policy)
    return link


def read_redirect(link: Link, location: object, policy: DownloadPolicy) -> Link:
    """Check the target of a redirect as strictly as the first URL."""
    return read_link(_resolve_redirect(link.url, _text_of(location)), policy)


def _text_of(address: object) -> str:
    if not isinstance(address, str) or not address:
        raise _malformed_error("the download address is missing")
    if _TEXT.fullmatch(address) is None:
        raise _malformed_error(
            "the download address is longer than 8192 characters, or holds a space, a backslash,"
            " a fragment, or anything else than printable ASCII"
        )
    return address


def _resolve_redirect(url: URL, location: str) -> str:
    """Resolve the target of a redirect; leave checks of the host to `read_link`."""
    if _ABSOLUTE.match(location):
        return location
    if location.startswith("//"):
        return f"{url.scheme}:{location}"
    if location.startswith("/"):
        # Keys may hold dot segments, and the signature is over the bytes.
        return f"{url.scheme}://{url.raw_authority}{location}"
    try:
        return str(url.join(URL(location, encoded=True)))
    except _UNREADABLE:
        raise _malformed_error("the redirect is not a valid URL") from None


def _parse_link(address: str) -> Link:
    try:
        url = URL(address, encoded=True)
        port = url.explicit_port
    except _UNREADABLE:
        raise _malformed_error("the download address is not a valid URL") from None
    if url.scheme not in _DEFAULT_PORTS:
        raise _malformed_error("the download address is neither https nor http")
    if "@" in url.raw_authority:
        raise _malformed_error("the download address holds a user name or a password")
    name = url.raw_host or ""
    if ":" in name:
        name = f"[{name}]"
    host = _plain_host(name)
    if host is None:
        raise _malformed_error("the download address names no host, or spells it oddly")
    authority = name if port is None else f"{name}:{port}"
    # What was checked is what aiohttp will ask for, down to the last byte.
    if port == 0 or address[len(url.scheme) :] != f"://{authority}{url.raw_path_qs}":
        raise _malformed_error(
            "the download address would not be sent as it is, or has an odd port"
        )
    return Link(url, host)


@lru_cache(maxsize=64)
def _check_policy(host: str, scheme: str, port: int, policy: DownloadPolicy) -> None:
    if policy.require_https and scheme != "https":
        raise UnsafeLinkError(f"{host}: plain http is not allowed", reason=LinkRefusal.PLAIN_HTTP)
    default_port = _DEFAULT_PORTS[scheme]
    patterns = map(read_host_pattern, policy.allowed_hosts)
    if not any(pattern.allows(host, port, default_port) for pattern in patterns):
        place = host if port == default_port else f"{host}, port {port}"
        raise UnsafeLinkError(f"{place}: not an allowed host for files", reason=LinkRefusal.HOST)
    if is_ip(host):
        check_peer(host, policy)


def _malformed_error(message: str) -> UnsafeLinkError:
    return UnsafeLinkError(message, reason=LinkRefusal.ADDRESS)


def _parse_networks(*texts: str) -> _Networks:
    return tuple(ipaddress.ip_network(text) for text in texts)


_METADATA: Final = _parse_networks(
    "169.254.169.254/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
    "fd00:ec2::254/128", "fd20:ce::254/128",
)  # fmt: skip
"""Addresses where clouds serve their machines' secrets."""
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
_PRIVATE: Final = (
    *_parse_networks(
        "10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15",
        "fc00::/7",
    ),
    _LOCAL_NAT64,
)  # fmt: skip
"""Private networks, which ``allow_private_networks`` opens."""
_SPECIAL: Final = _parse_networks(
    "192.0.0.0/24", "192.88.99.0/24", "224.0.0.0/4", "2001::/23", "3fff::/20"
)
"""Networks that `ipaddress` calls global, by IP version, but from which no file comes."""
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""Assigned unicast addresses (IPv6); ranges outside of it are refused."""
_LAST_FOUR_BYTES: Final = _parse_networks("::ffff:0:0/96", "64:ff9b::/96")
_NAT64_PLACES: Final = ((12, 13, 14, 15), (6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12))
"""Positions of the IPv4 bytes in a NAT64 address (RFC 6052), by length of prefix."""


def check_peer(ip: str, policy: DownloadPolicy) -> None:
    """Raise `UnsafeLinkError` if files may not come from this IP address."""
    try:
        outer = ipaddress.ip_address(ip)
    except ValueError:
        raise UnsafeLinkError(
            "the host is at an address of no known kind", reason=LinkRefusal.SPECIAL_NETWORK
        ) from None
    for address in _readings_of(outer):
        _check_range(address, policy)


def _check_range(ip: _Ip, policy: DownloadPolicy) -> None:
    if _is_within(ip, _METADATA):
        kind = "an address where a cloud serves its machines' secrets"
        reason = LinkRefusal.SPECIAL_NETWORK
    elif ip.is_loopback:
        if policy.allow_private_networks and _names_this_machine(policy):
            return
        kind, reason = "an address of this machine itself", LinkRefusal.THIS_MACHINE
    elif _is_within(ip, _PRIVATE):
        if policy.allow_private_networks:
            return
        kind, reason = "an address of a private network", LinkRefusal.PRIVATE_NETWORK
    elif _is_public(ip):
        return
    else:
        kind, reason = "a reserved, link-local or multicast address", LinkRefusal.SPECIAL_NETWORK
    raise UnsafeLinkError(f"the host is at {kind}", reason=reason)


def _is_within(ip: _Ip, networks: _Networks) -> bool:
    return any(ip in network for network in networks)


def _is_public(ip: _Ip) -> bool:
    is_assigned = ip.version == 4 or ip in _GLOBAL_UNICAST  # noqa: PLR2004 - the version of IP
    return ip.is_global and is_assigned and not _is_within(ip, _SPECIAL)


def _names_this_machine(policy: DownloadPolicy) -> bool:
    return any(read_host_pattern(entry).is_this_machine for entry in policy.allowed_hosts)


def _readings_of(ip: _Ip) -> Iterator[_Ip]:
    """Yield an IP address, or each IPv4 address that it may mean."""
    if isinstance(ip, ipaddress.IPv4Address):
        yield ip
    elif ip.sixtofour is not None:
        yield ip.sixtofour
    elif ip.teredo is not None:
        yield from ip.teredo
    elif _is_within(ip, _LAST_FOUR_BYTES):
        yield ipaddress.IPv4Address(ip.packed[12:])
    elif ip in _LOCAL_NAT64:
        yield ip
        readings = (bytes(ip.packed[place] for place in places) for places in _NAT64_PLACES)
        # Where a reading begins with 0, the address was made by another one.
        addresses = [ipaddress.IPv4Address(reading) for reading in readings if reading[0]]
        yield from addresses or [ipaddress.IPv4Address(0)]
    else:
        yield ip
