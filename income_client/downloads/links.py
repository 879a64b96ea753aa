"""May this download address be used, and is its host where it may be.

Knows the text of an address and the ranges of IP addresses; opens no connection
and resolves no name. What is refused is told by its reason and its host, never
by its path or query, which open the file to whoever reads them.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from attrs import field, frozen
from yarl import URL

from income_client.errors import LinkRefusal, UnsafeLinkError
from income_client.hosts import HostPattern, is_ip, plain_host, read_host_pattern
from income_client.settings import DownloadPolicy

from .peers import peer_refusal

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


def read_link(address: object, policy: DownloadPolicy) -> Link | UnsafeLinkError:
    """Check the address of a document's file (contract section 2.3).

    Args:
        address: as the service gave it.
        policy: where files may come from.

    Returns:
        The address with what was found in it, or the reason against it.
    """
    if not isinstance(address, str):
        return _malformed("the download address is missing")
    fault = next((fault for is_wrong, fault in _TEXT_FAULTS if is_wrong(address)), None)
    link = _parsed(address) if fault is None else fault
    if isinstance(link, str):
        return _malformed(f"the download address {link}")
    return _refusal(link, policy) or link


def redirected(link: Link, location: object, policy: DownloadPolicy) -> Link | UnsafeLinkError:
    """Check where a redirect leads, as strictly as the address itself.

    Args:
        link: the address that was asked.
        location: the Location field of the reply, absolute or relative.
        policy: where files may come from.

    Returns:
        The next address, or the reason against it.
    """
    if not isinstance(location, str) or not location:
        return _malformed("the redirect leads nowhere")
    return read_link(_joined(link.address, location), policy)


_TEXT_FAULTS: Final[Sequence[tuple[Callable[[str], bool], str]]] = (
    (lambda text: not text, "is empty"),
    (lambda text: len(text) > _LONGEST, f"is longer than {_LONGEST} characters"),
    (lambda text: _PRINTABLE.fullmatch(text) is None, "is not printable ASCII without spaces"),
    (lambda text: "\\" in text, "holds a backslash"),
    (lambda text: "#" in text, "holds a fragment"),
)


def _parsed(address: str) -> Link | str:
    """Return what an address says, or what is wrong with it."""
    parts = _LINK.fullmatch(address)
    scheme = "" if parts is None else parts["scheme"].lower()
    if parts is None or scheme not in _DEFAULT_PORTS:
        return "is neither https nor http"
    if "@" in parts["authority"]:
        return "holds a user name or a password"
    authority = _AUTHORITY.fullmatch(parts["authority"])
    if authority is None:
        return "has an odd port, or no plain host"
    host = plain_host(authority["host"])
    if host is None:
        return "names no host, or spells it oddly"
    port = int(authority["port"] or _DEFAULT_PORTS[scheme])
    link = Link(address=address, host=host, port=port, is_https=scheme == "https")
    if port > _HIGHEST_PORT or not _is_sent_as_checked(link, parts["target"]):
        return "would not be sent as it is"
    return link


def _is_sent_as_checked(link: Link, target: str) -> bool:
    """Compare with the parser that the request is made with: two that differ are an open door."""
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


def _refusal(link: Link, policy: DownloadPolicy) -> UnsafeLinkError | None:
    if policy.require_https and not link.is_https:
        return UnsafeLinkError(
            f"{link.host}: not https, which DownloadPolicy requires", reason=LinkRefusal.PLAIN_HTTP
        )
    default_port = _DEFAULT_PORTS["https" if link.is_https else "http"]
    patterns = _patterns(policy.allowed_hosts)
    if any(pattern.allows(link.host, link.port, default_port) for pattern in patterns):
        return peer_refusal(link.host, policy) if is_ip(link.host) else None
    shown = link.host if link.port == default_port else f"{link.host}, port {link.port}"
    return UnsafeLinkError(
        f"{shown}: not a host that DownloadPolicy allows", reason=LinkRefusal.HOST
    )


def _malformed(message: str) -> UnsafeLinkError:
    return UnsafeLinkError(message, reason=LinkRefusal.ADDRESS)


def _joined(address: str, location: str) -> str:
    """Resolve a reference (RFC 3986 section 5.2) without touching its bytes."""
    parts = _LINK.fullmatch(address)
    if parts is None or _ABSOLUTE.match(location):
        return location
    origin = f"{parts['scheme']}://{parts['authority']}"
    path = parts["target"].partition("?")[0]
    if location.startswith("//"):
        return f"{parts['scheme']}:{location}"
    if location.startswith("/"):
        # Keys may hold dot segments, and the signature is over the bytes.
        return origin + location
    if location.startswith("?"):
        return origin + path + location
    return origin + _merged(path, location)


def _merged(path: str, location: str) -> str:
    relative, mark, query = location.partition("?")
    segments = path.split("/")[:-1]
    steps = relative.split("/")
    for step in steps:
        if step == "..":
            segments = segments[:-1] or segments
        elif step != ".":
            segments.append(step)
    if steps[-1] in (".", ".."):
        segments.append("")
    return "/".join(segments) + mark + query
