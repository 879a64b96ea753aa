"""The two origins that credentials may go to; knows no HTTP library and resolves no name.

An address that comes from the caller is checked here once, so that what the
transport joins later is an origin that was agreed to, followed by a path that
an endpoint function made.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from typing import Final, assert_never
from urllib.parse import SplitResult, urlsplit

from attrs import frozen

from income_client.errors import ConfigurationError
from income_client.settings import Secret

from .messages import Origin, Request

_TEXT: Final = re.compile(r"[!-\[\]-~]{1,2048}")
"""Printable ASCII but the backslash, which some parsers take for a slash."""
_LABEL: Final = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST_NAME: Final = re.compile(rf"(?=.{{1,254}}$){_LABEL}(\.{_LABEL})*\.?")
_PATH: Final = re.compile(r"(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)*")
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


@frozen(kw_only=True)
class Addresses:
    """Where the API and the token endpoint are."""

    api: str
    """Origin and path prefix of the API, without a slash at the end."""
    token: str
    """The same of the token endpoint."""

    def of(self, request: Request) -> str:
        """Return the whole address of a request."""
        match request.origin:
            case Origin.API:
                root = self.api
            case Origin.TOKEN:
                root = self.token
            case _:
                assert_never(request.origin)
        return f"{root}{request.path}?{request.query}" if request.query else root + request.path


def addresses(base_url: str, auth_url: str | None = None) -> Addresses:
    """Check both addresses of a client (contract section 5.1).

    Args:
        base_url: https, host, perhaps a port and a path prefix; http for loopback only.
        auth_url: the same; None stands for the origin of ``base_url``.

    Raises:
        ConfigurationError: an address is not of that form. It is not shown,
            since it may hold a password.
    """
    fault = _fault("base_url", base_url)
    if fault is None and auth_url is not None:
        fault = _fault("auth_url", auth_url)
    if fault is not None:
        # Crash reporters send the locals of the frame that raises.
        del base_url, auth_url
        raise ConfigurationError(fault)
    api = urlsplit(base_url)
    token = api if auth_url is None else urlsplit(auth_url)
    return Addresses(
        api=_origin(api) + api.path.rstrip("/"),
        token=_origin(token) + ("" if auth_url is None else token.path.rstrip("/")),
    )


def host_of(address: str) -> str | None:
    """Return the host alone of an address that was checked."""
    return urlsplit(address).hostname


def proxy_address(proxy: str) -> Secret:
    """Check the address of an HTTP proxy, which may hold the proxy's own credentials.

    Args:
        proxy: http or https, perhaps user information, host, perhaps a port.

    Raises:
        ConfigurationError: it is not of that form.
    """
    if not _is_proxy(proxy):
        # As above.
        del proxy
        raise ConfigurationError("proxy is no http or https address in printable ASCII")
    return Secret(proxy)


def check_route(found: Addresses, proxy: Secret) -> None:
    """Refuse a proxy that would be sent credentials outside of TLS.

    Over http the proxy itself gets each request, with its Authorization header. So
    an address of this machine in http goes well with a proxy on this machine only.

    Args:
        found: where the API and the token endpoint are.
        proxy: as `proxy_address` returned it.

    Raises:
        ConfigurationError: an address is http, and the proxy is on another machine.
    """
    is_here = _is_loopback(urlsplit(proxy.reveal()).hostname or "")
    for name, address in (("base_url", found.api), ("auth_url", found.token)):
        if not is_here and urlsplit(address).scheme == "http":
            raise ConfigurationError(
                f"{name} is http, and proxy is on another machine; "
                "credentials go through a proxy only inside TLS"
            )


def _is_proxy(address: object) -> bool:
    parts = _split(address) if isinstance(address, str) else None
    return parts is not None and parts.scheme in _DEFAULT_PORTS and _is_host(parts.hostname or "")


def _fault(name: str, address: object) -> str | None:
    if not isinstance(address, str):
        return f"{name} must be a str, found {type(address).__name__}"
    parts = _split(address)
    if parts is None:
        return f"{name} is no address in printable ASCII"
    for is_wrong, fault in _FAULTS:
        if is_wrong(parts):
            return f"{name} {fault}"
    return None


def _split(address: str) -> SplitResult | None:
    if _TEXT.fullmatch(address) is None:
        return None
    try:
        # A mark with nothing behind it would get lost.
        parts = urlsplit(re.sub(r"[?#]$", r"\g<0>empty", address))
        has_port_zero = parts.port == 0
    except ValueError:
        return None
    return None if has_port_zero else parts


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_host(host: str) -> bool:
    if ":" in host:
        return "%" not in host and _ip(host) is not None
    if _HOST_NAME.fullmatch(host) is None:
        return False
    # A last label of digits is one of the old ways to write an IPv4 address.
    last_label = host.removesuffix(".").rpartition(".")[2]
    is_numeric = last_label.isdigit() or last_label.startswith("0x")
    return not is_numeric or _ip(host) is not None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    ip = _ip(host)
    return ip is not None and ip.is_loopback and getattr(ip, "ipv4_mapped", None) is None


def _is_plain_path(path: str) -> bool:
    path = path.rstrip("/")
    return _PATH.fullmatch(path) is not None and not {".", ".."} & set(path.split("/"))


_FAULTS: Final[Sequence[tuple[Callable[[SplitResult], bool], str]]] = (
    (lambda parts: parts.scheme not in _DEFAULT_PORTS, "is neither https nor http"),
    (lambda parts: "@" in parts.netloc, "holds a user name or a password; these go into auth"),
    (lambda parts: bool(parts.query or parts.fragment), "holds a query or a fragment"),
    (lambda parts: not _is_host(parts.hostname or ""), "names no host"),
    (lambda parts: not _is_plain_path(parts.path), "holds a path that is not plain"),
    (
        lambda parts: parts.scheme == "http" and not _is_loopback(parts.hostname or ""),
        "is http; credentials go over https, or over http to loopback",
    ),
)


def _origin(parts: SplitResult) -> str:
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    if parts.port in (None, _DEFAULT_PORTS[parts.scheme]):
        return f"{parts.scheme}://{shown}"
    return f"{parts.scheme}://{shown}:{parts.port}"
