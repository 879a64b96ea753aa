"""The source of a request: its peer, or the sender named by trusted proxies."""

import ipaddress
from collections.abc import Iterable
from typing import Final, TypeAlias

from attrs import frozen

from income_client.errors import ConfigurationError, InvalidArgumentError

from .exchange import (
    REWRITTEN_PEER,
    UNIX_PEER,
    Refusal,
    RefusedError,
    RequestHead,
)

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_MOST_HOPS: Final = 32
_LONGEST_HOP: Final = 64
_MAPPED_PREFIX: Final = 96
"""Bits before the IPv4 address in an IPv6 address that represents one."""


def ip_address(text: str) -> IPAddress | None:
    """Return an IP address, with an IPv4-mapped one as IPv4; None for other text."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        return None if address.scope_id is not None else address.ipv4_mapped or address
    return address


def _list_entries(name: str, entries: Iterable[str]) -> tuple[str, ...]:
    if isinstance(entries, str) or not isinstance(entries, Iterable):
        raise InvalidArgumentError(
            f"{name} are several, such as ['198.51.100.7', '2001:db8::/32']", argument=name
        )
    return tuple(entries)


def _parse_network(name: str, entry: object) -> IPNetwork:
    try:
        network = ipaddress.ip_network(entry) if isinstance(entry, str) else None
    except ValueError:
        network = None
    if network is None:
        raise InvalidArgumentError(
            f"{name}: {entry!r} is neither an IP address nor a network; the host bits of a "
            "network are zero",
            argument=name,
        )
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is not None and network.prefixlen >= _MAPPED_PREFIX:
        network = ipaddress.ip_network((mapped, network.prefixlen - _MAPPED_PREFIX))
    if network.prefixlen == 0:
        raise InvalidArgumentError(f"{name}: {entry!r} means every address", argument=name)
    return network


@frozen(init=False)
class CallbackSourceNetworks:
    """Networks from which callbacks are accepted (contract section 5.2).

    Others may share an address, so this needs another method beside it, unless
    ``is_enough`` says otherwise.

    Args:
        networks: IP addresses and networks, such as ``198.51.100.0/24``.
        is_enough: whether it may be the only check.

    Raises:
        ConfigurationError: an entry is neither an address nor a network, or means every address.
    """

    networks: tuple[IPNetwork, ...]
    is_enough: bool

    def __init__(self, networks: Iterable[str], *, is_enough: bool = False) -> None:
        entries = _list_entries("source networks", networks)
        if not entries:
            raise ConfigurationError("source networks: none are given, so nothing could pass")
        parsed = tuple(_parse_network("source networks", entry) for entry in entries)
        self.__attrs_init__(parsed, bool(is_enough))

    def check(self, source: IPAddress) -> None:
        """Refuse a request whose ``source`` is in none of the networks."""
        if not any(source in network for network in self.networks):
            raise RefusedError(Refusal.SOURCE_NOT_ALLOWED)


@frozen(init=False)
class TrustedProxies:
    """The proxies whose forwarding headers count.

    Args:
        proxies: their addresses or networks; ``unix:`` for one on a socket of this
            machine's file system.

    Raises:
        ConfigurationError: an entry is neither an address nor a network, or means every address.
    """

    networks: tuple[IPNetwork, ...]
    has_unix: bool

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        entries = _list_entries("trusted_proxies", proxies)
        networks = tuple(
            _parse_network("trusted_proxies", entry) for entry in entries if entry != UNIX_PEER
        )
        self.__attrs_init__(networks, UNIX_PEER in entries)

    @property
    def are_any(self) -> bool:
        """Whether any proxy is trusted."""
        return self.has_unix or bool(self.networks)

    def is_one(self, peer: str | None) -> bool:
        """Return whether a connection's other end is a trusted proxy."""
        if peer == UNIX_PEER:
            return self.has_unix
        return self._holds(None if peer is None else ip_address(peer))

    def source(self, head: RequestHead) -> IPAddress:
        """Return the address that a request came from.

        ``X-Forwarded-For`` is walked from its right end, which the nearest proxy has
        written, to the first address that is not a proxy's. Anybody may have written what
        is left of it.
        """
        if head.peer == REWRITTEN_PEER:
            raise RefusedError(Refusal.SOURCE_REWRITTEN)
        address = None if head.peer is None else ip_address(head.peer)
        if not self.is_one(head.peer):
            if address is None:
                raise RefusedError(Refusal.SOURCE_UNKNOWN)
            return address
        forwarded = head.values(b"x-forwarded-for")
        for hop in reversed(b",".join(forwarded).rsplit(b",", _MOST_HOPS) if forwarded else ()):
            address = _hop_address(hop.strip(b" \t"))
            if not self._holds(address):
                break
        if address is None:
            raise RefusedError(Refusal.SOURCE_UNREADABLE)
        return address

    def _holds(self, address: IPAddress | None) -> bool:
        return address is not None and any(address in network for network in self.networks)


def _hop_address(hop: bytes) -> IPAddress | None:
    """Return the address of a hop, which may contain a port."""
    if len(hop) > _LONGEST_HOP or not hop.isascii():
        return None
    text = hop.decode()
    if text.startswith("["):
        text, closed, port = text[1:].partition("]")
        is_whole = bool(closed) and (not port or (port[0] == ":" and _is_port(port[1:])))
        return ip_address(text) if is_whole and ":" in text else None
    if text.count(":") == 1:
        text, _, port = text.partition(":")
        return ip_address(text) if _is_port(port) else None
    return ip_address(text)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit()
