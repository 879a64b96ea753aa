"""Spelling of hosts and URLs, and the patterns of a list of allowed hosts.

A host has one spelling here, `plain_host`, in which two are compared: a name in
lower case, or an IP address in its shortest form, without brackets. Nothing is resolved.
"""

import ipaddress
import re
from typing import Final

from attrs import frozen

from income_client.errors import ConfigurationError, InvalidArgumentError

_LABEL: Final = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_BRACKETED: Final = re.compile(r"\[(?P<inner>[0-9a-f:.]+)\]")
_ENTRY: Final = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(:(?P<port>[^:]*))?")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_SHOWABLE: Final = re.compile(r"[A-Za-z0-9.*:\[\]_-]{1,100}")
_LONGEST_NAME: Final = 253
_HIGHEST_PORT: Final = 65535
_TEXT: Final = re.compile(r"[!-\[\]-~]{1,2048}")
"""Pattern of printable ASCII without the backslash, which some parsers read as a slash."""
_ADDRESS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://((?P<user>[^/?#]*)@)?"
    r"(?P<name>\[[^\[\]]*\]|[^:/?#\[\]@]*)(:(?P<port>[0-9]*))?"
    r"(?P<path>(/[^?#]*)?)(?P<query>(\?[^#]*)?)(?P<fragment>(#.*)?)"
)
"""Pattern that splits a URL into its parts, after RFC 3986, appendix B."""
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


@frozen(kw_only=True)
class HostPattern:
    """A parsed entry of `DownloadPolicy.allowed_hosts`."""

    host: str
    """Host as `plain_host` spells it, or the domain after ``*.``."""
    is_wildcard: bool = False
    """Whether the entry allows every host below the domain, but not the domain itself."""
    port: int | None = None
    """Allowed port; None if the entry names none."""
    is_any_port: bool = False
    """Whether the entry ends with ``:*``, which allows every port."""

    @property
    def is_this_machine(self) -> bool:
        """Whether the entry names this machine itself."""
        return not self.is_wildcard and is_this_machine(self.host)

    def allows(self, host: str, port: int, default_port: int) -> bool:
        """Return whether the entry allows a host, as `plain_host` spells it, and a port.

        ``default_port`` is that of the address's scheme.
        """
        if self.is_wildcard:
            is_meant = not is_ip(host) and host.endswith(f".{self.host}")
        else:
            is_meant = host == self.host
        if self.port is not None:
            return is_meant and port == self.port
        return is_meant and (self.is_any_port or self.is_this_machine or port == default_port)


def read_host_pattern(text: object) -> HostPattern:
    """Parse an entry: ``name``, ``*.domain``, IPv4 or ``[IPv6]``, perhaps ``:port`` or ``:*``."""
    if not isinstance(text, str):
        raise _address_error("allowed_hosts", "an entry is not a str", ": ")
    for is_wrong, fault in (
        (not text, "is empty"),
        (not text.isascii() or not text.isprintable() or " " in text, "is not plain ASCII"),
        ("@" in text, "holds a user name or a password"),
        (any(char in text for char in "/?#\\"), "is an address; name only a host and a port"),
        (text == "*" or text.startswith("*:"), "allows every host; name them"),
    ):
        if is_wrong:
            raise _entry_error(text, fault)
    parts = _ENTRY.fullmatch(text)
    if parts is None:
        raise _entry_error(text, "is not a host; an IPv6 address must be in brackets")
    port = parts["port"]
    is_port = port is None or port == "*" or _PORT.fullmatch(port) is not None
    if not is_port or (port not in (None, "*") and int(port) > _HIGHEST_PORT):
        raise _entry_error(text, "has a port that is neither a number from 1 to 65535 nor *")
    is_wildcard = parts["host"].startswith("*.")
    host = plain_host(parts["host"].removeprefix("*."))
    if host is None:
        raise _entry_error(text, "is not a host name and not an IP address")
    if is_wildcard and (is_ip(host) or "." not in host):
        raise _entry_error(text, "needs a domain of two labels or more behind *.")
    return HostPattern(
        host=host,
        is_wildcard=is_wildcard,
        port=None if port in (None, "*") else int(port),
        is_any_port=port == "*",
    )


def _entry_error(text: str, fault: str) -> ConfigurationError:
    # What somebody takes for an entry may be a whole address.
    entry = f" {text!r}" if _SHOWABLE.fullmatch(text) else ""
    return _address_error("allowed_hosts", f"the entry{entry} {fault}", ": ")


def plain_host(text: str) -> str | None:
    """Return the canonical spelling of a host, an IPv6 address in brackets; None if invalid.

    Numbers that only old parsers take for an IPv4 address (``127.1``, ``0x7f.0.0.1``,
    ``2130706433``), zones of IPv6 addresses, percent signs and a dot at the end are not accepted.
    """
    text = text.lower() if text.isascii() else ""
    bracketed = _BRACKETED.fullmatch(text)
    try:
        if bracketed is not None:
            address = ipaddress.IPv6Address(bracketed["inner"])
            # Python spells these in two ways, by its version.
            return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)
        if len(text) > _LONGEST_NAME or _NAME.fullmatch(text) is None:
            return None
        if _NUMBER.fullmatch(text.rpartition(".")[2]):
            return str(ipaddress.IPv4Address(text))
    except ValueError:
        return None
    return text


@frozen(kw_only=True)
class HttpAddress:
    """A parsed http or https URL that a user configured."""

    scheme: str
    """``https`` or ``http``."""
    host: str
    """Host as `plain_host` spells it."""
    origin: str
    """Scheme, host and, unless it is the scheme's default, port."""
    path: str
    """Path as the user wrote it; may be empty."""
    has_user: bool
    """Whether the URL contains a user name or a password."""
    has_query: bool
    """Whether the URL contains a query, even an empty one."""
    has_fragment: bool
    """Whether the URL contains a fragment, even an empty one."""

    @property
    def is_exposed(self) -> bool:
        """Whether requests can be read on the way: plain http to another machine."""
        return self.scheme == "http" and not is_this_machine(self.host)


def read_address(name: str, text: object) -> HttpAddress:
    """Parse an http or https URL; the error about an invalid one does not show it.

    Args:
        name: the argument that it is, for errors.
        text: the address.

    Raises:
        ConfigurationError: it is not http or https, names no host, or can be read in two ways.
    """
    if not isinstance(text, str):
        raise _address_error(name, f"must be a str, found {type(text).__name__}")
    parts = _ADDRESS.fullmatch(text) if _TEXT.fullmatch(text) else None
    if parts is None:
        raise _address_error(name, "must be an address in printable ASCII")
    scheme, written = parts["scheme"].lower(), parts["name"].lower()
    if scheme not in _DEFAULT_PORTS:
        raise _address_error(name, "is neither https nor http")
    # A name may end with a dot, an IP address may not.
    host = plain_host(written.removesuffix("."))
    if host is None or (written.endswith(".") and is_ip(host)):
        raise _address_error(name, "names no host")
    port = int(parts["port"] or _DEFAULT_PORTS[scheme])
    if not 0 < port <= _HIGHEST_PORT:
        raise _address_error(name, "has a port that is not a number from 1 to 65535")
    return HttpAddress(
        scheme=scheme,
        host=host,
        origin=f"{scheme}://{written}" + (f":{port}" if port != _DEFAULT_PORTS[scheme] else ""),
        path=parts["path"],
        has_user=parts["user"] is not None,
        has_query=bool(parts["query"]),
        has_fragment=bool(parts["fragment"]),
    )


def _address_error(name: str, detail: str, between: str = " ") -> ConfigurationError:
    return InvalidArgumentError(f"{name}{between}{detail}", argument=name, detail=detail)


def is_this_machine(host: str) -> bool:
    """Return whether a host, as `plain_host` spells it, names this machine itself."""
    return host in ("localhost", "::1") or (is_ip(host) and host.startswith("127."))


def is_ip(host: str) -> bool:
    """Return whether a host, as `plain_host` spells it, is an IP address."""
    return ":" in host or host.rpartition(".")[2].isdigit()
