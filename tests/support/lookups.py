"""Names that lead where a test says, and sockets that reach nothing but this machine."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

import pytest
from attrs import field, frozen


@frozen
class Lookups:
    """What was looked up, and where connections were tried."""

    names: dict[str, list[str]] = field(factory=dict)
    """IP addresses by name; ``*`` stands for all names that are not there."""
    looked_up: list[tuple[str, int]] = field(factory=list)
    """Names and ports."""
    connected: list[tuple[str, int]] = field(factory=list)
    """IP addresses and ports; those outside of this machine were not reached."""

    def clear(self) -> None:
        """Forget what was looked up and tried."""
        self.looked_up.clear()
        self.connected.clear()


@contextmanager
def looking_up() -> Iterator[Lookups]:
    """Answer each lookup of this process from a table, and guard its sockets."""
    lookups = Lookups()
    lookup = socket.getaddrinfo
    connect = socket.socket.connect

    def found(host: Any, port: Any, *args: Any, **options: Any) -> list[Any]:
        if is_ip(host):
            return list(lookup(host, port, *args, **options))
        lookups.looked_up.append((host, port))
        addresses = lookups.names.get(host) or lookups.names.get("*")
        if addresses is None:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [_info(ip, port) for ip in addresses]

    def guarded(sock: socket.socket, address: Any) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            lookups.connected.append(address[:2])
            if not ip_address(address[0]).is_loopback:
                raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
        connect(sock, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", found)
        patch.setattr(socket.socket, "connect", guarded)
        yield lookups


def is_ip(host: str) -> bool:
    """Say whether a host is an IP address."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _info(ip: str, port: int) -> tuple[Any, ...]:
    is_4 = ip_address(ip).version == 4
    family = socket.AF_INET if is_4 else socket.AF_INET6
    place = (ip, port) if is_4 else (ip, port, 0, 0)
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place
