"""Requests and replies of the emulated service as values, and which addresses are local."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from attrs import field, frozen

from income_client.errors import ConfigurationError
from income_client.system.hosts import is_this_machine, plain_host

_LOCAL_URL: Final = re.compile(
    r"https?://(localhost|127(\.(0|[1-9][0-9]{0,2})){3}|\[::1\])"
    r"(:(?P<port>[1-9][0-9]{0,4}))?(/[!-~]*)?"
)
_NEVER_IN_A_URL: Final = frozenset('#\\<>"{}|^`')
_HIGHEST_PORT: Final = 65535


@frozen(kw_only=True)
class HttpRequest:
    """A request as it was received."""

    method: str
    """HTTP method, in capitals."""
    path: str
    """Raw path, percent-encoding untouched."""
    query: str = field(default="", repr=False)
    """Raw query without the question mark."""
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    """Header fields; names in lower case, repeated ones joined by a comma."""
    body: bytes = field(default=b"", repr=False)
    """Body of the request."""
    peer: str = field(default="127.0.0.1", repr=False)
    """IP address of the client."""


@frozen(kw_only=True)
class ListedPage:
    """The content of a list page, for the journal."""

    after: int
    """``updated_after`` as applied, in service seconds."""
    before: int
    """``updated_before`` as applied, in service seconds."""
    rows: int
    """Number of applications."""
    limit: int
    """Largest possible number of applications."""


@frozen(kw_only=True)
class HttpReply:
    """A reply before it is sent."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str] = field(factory=dict)
    """Header fields, the length aside."""
    body: bytes = field(default=b"", repr=False)
    """Body of the reply."""
    listed: ListedPage | None = field(default=None, repr=False)
    """Content of the page; None unless the reply is a page of the list."""


@frozen(kw_only=True)
class RecordedRequest:
    """A recorded request to the emulator, without its credentials."""

    name: str
    """The call: list_applications, get_application, get_documents, token, file, index, control,
    unknown."""
    method: str
    """HTTP method."""
    path: str
    """Raw path, the first 2,000 characters of it."""
    query: str = field(repr=False)
    """Raw query, its first 2,000 characters."""
    headers: Mapping[str, str] = field(repr=False)
    """Header fields, shortened too, without Authorization, Proxy-Authorization and Cookie."""
    authorized: bool
    """Whether the request had an Authorization header, valid or not."""
    status: int
    """Status of the reply; 0 without a reply."""
    fault: str | None
    """Kind of the fault that was played, None for a true reply."""
    time: int
    """Service second at which the request arrived."""


class RefusedError(Exception):
    """A request is answered with an error reply."""

    def __init__(self, reply: HttpReply) -> None:
        super().__init__(reply.status)
        self.reply: HttpReply = reply
        """The answer."""


def json_reply(status: int, content: Any, **headers: str) -> HttpReply:
    """Return a JSON reply; underscores in header names stand for hyphens."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpReply(
        status=status,
        headers={"Content-Type": "application/json", **fields},
        body=msgspec.json.encode(content),
    )


def error_reply(status: int, code: str, message: str, **headers: str) -> HttpReply:
    """Return a JSON reply with an error's code and its sentence."""
    return json_reply(status, {"error": code, "message": message}, **headers)


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Return whether a host, with or without a port, can only mean this machine."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    plain = plain_host(f"[{name}]" if ":" in name else name) or ""
    return is_this_machine(plain) or plain.endswith(".localhost")


def check_local_address(name: str, url: object) -> None:
    """Raise unless every reader of an address takes it as this machine's.

    The error does not repeat the address, whose query may hold a secret.
    """
    parts = _LOCAL_URL.fullmatch(url) if isinstance(url, str) else None
    if parts is None or _NEVER_IN_A_URL & set(parts.string):
        raise ConfigurationError(
            f"{name} must be an http or https address of this machine, "
            "such as http://127.0.0.1:9000/callbacks"
        )
    if int(parts["port"] or 1) > _HIGHEST_PORT:
        raise ConfigurationError(f"{name} must have a port up to {_HIGHEST_PORT}")
