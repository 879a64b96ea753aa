"""Access to an emulator: the hosts that it serves, and the clients that may control it.

A web page that somebody has open must not reach an emulator of the same machine: its requests
carry a foreign ``Origin``, or a ``Host`` that only its own name server leads here.
"""

import hmac
import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen

from income_client.settings import Secret, invalid, wrong
from income_client.system.hosts import is_this_machine, plain_host

from .exchange import HttpReply, HttpRequest, error_reply, is_loopback

SECURITY_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Header fields of every reply below ``/emulator/``; a page has a content policy of its own."""

_OWN_SITES: Final = frozenset({"none", "same-origin"})
"""Values of ``Sec-Fetch-Site`` that a browser sends for a page from here, or for a typed URL."""
_SHORTEST_TOKEN: Final = 8
_LONGEST_TOKEN: Final = 1024


@frozen
class ServedHosts:
    """The hosts that an emulator serves: this machine, and the hosts that the user allows."""

    names: frozenset[str] = frozenset()
    """Names and IP addresses, as `plain_host` spells them."""

    @classmethod
    def read(cls, entries: Iterable[str]) -> "ServedHosts":
        """Return the hosts of a list.

        Raises:
            ConfigurationError: an entry is not a host without a port.
        """
        if isinstance(entries, str) or not isinstance(entries, Iterable):
            raise invalid("allow_hosts", "several hosts, such as ['emulator']", entries)
        return cls(frozenset(map(_read_host, entries)))

    def serves(self, host: str) -> bool:
        """Return whether a ``Host`` header, with or without a port, names a served host.

        A name below ``localhost`` is another site for a browser, so it is none unless named.
        """
        name = host_name(host) or ""
        return is_this_machine(name) or name in self.names

    def with_host(self, host: str) -> "ServedHosts":
        """Return these hosts and the host that an emulator listens on, such as ``my.localhost``."""
        return ServedHosts(self.names | {host_name(host) or host})


THIS_MACHINE: Final = ServedHosts()
"""Access of this machine only."""


def _read_host(entry: object) -> str:
    name = plain_host(f"[{entry}]" if ":" in str(entry) else str(entry))
    if not isinstance(entry, str) or name is None:
        raise wrong("allow_hosts", "are host names or IP addresses, each without a port")
    return name


@lru_cache(maxsize=64)
def host_name(host: str) -> str | None:
    """Return the host of a ``Host`` header as `plain_host` spells it, None if it is invalid."""
    try:
        parts = urlsplit(f"//{host}")
    except ValueError:
        return None
    # Nothing but a host and a port: no user name before it, no path behind it.
    name = parts.hostname or "" if parts.netloc == host and "@" not in host else ""
    return plain_host(f"[{name}]" if ":" in name else name)


def check_token(token: Secret, name: str = "control_token") -> None:
    """Raise unless the text can be a control token; ``name`` names its origin in the error."""
    if not _is_control_token(token.reveal()):
        raise wrong(name, f"must be {_SHORTEST_TOKEN} or more characters, no blanks")


def _is_control_token(text: str) -> bool:
    is_plain = text.isascii() and text.isprintable() and " " not in text
    return is_plain and _SHORTEST_TOKEN <= len(text) <= _LONGEST_TOKEN


@frozen
class ControlAccess:
    """The clients that may control an emulator.

    Without a token, only clients on this machine have access. With a token, a client on any host
    has access if it sends ``Authorization: Bearer TOKEN``. A client on this machine may instead
    send the service's credentials: those of a call, or the client id and secret as Basic.
    """

    hosts: ServedHosts = THIS_MACHINE
    token: Secret | None = None

    def refusal(self, request: HttpRequest, *, has_credentials: bool) -> HttpReply | None:
        """Return the reply that refuses a request; None for an allowed request.

        Args:
            request: as it came.
            has_credentials: whether it carries valid credentials of the service.
        """
        host = request.headers.get("host", "")
        if not self.hosts.serves(host):
            message = "this host is not served; start the emulator with --allow-host"
            return error_reply(421, "misdirected_request", message)
        if not is_from_no_other_page(request):
            return error_reply(403, "forbidden", "pages of other origins may not control it")
        if self._is_token(request):
            return None
        is_local = _is_this_machine(request.peer) and is_loopback(host)
        if is_local and (has_credentials or self._may_come_bare(request)):
            return None
        if not is_local and self.token is None:
            message = (
                "control from another host needs a control token; "
                "start the emulator with INCOME_EMULATOR_TOKEN set"
            )
            return error_reply(403, "control_token_needed", message)
        is_token = request.headers.get("authorization", "").lower().startswith("bearer ")
        match is_token, self.token:
            case True, None:
                message = (
                    "the token is wrong or has expired, and there is no control token here: "
                    "send the credentials that the emulator printed"
                )
            case False, None:
                message = "send the credentials that the emulator printed, as Basic or as a token"
            case True, _:
                message = "the token is wrong: it is not the control token"
            case _:
                message = "send Authorization: Bearer with the control token"
        challenge = 'Bearer realm="income emulator control"'
        return error_reply(401, "unauthorized", message, WWW_Authenticate=challenge)

    def _is_token(self, request: HttpRequest) -> bool:
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if self.token is None or scheme.lower() != "bearer":
            return False
        token = credentials.strip().encode(errors="surrogateescape")
        return hmac.compare_digest(token, self.token.reveal().encode())

    def _may_come_bare(self, request: HttpRequest) -> bool:
        """Return whether a request needs no credentials: a read, from this machine's own page."""
        if self.token is not None or "authorization" in request.headers:
            return False
        return request.method == "GET" or "origin" in request.headers


def is_from_no_other_page(request: HttpRequest) -> bool:
    """Return whether a request comes from this address's page, or from no page in a browser."""
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return False
    return request.headers.get("sec-fetch-site", "none") in _OWN_SITES


def _is_this_machine(peer: str) -> bool:
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
