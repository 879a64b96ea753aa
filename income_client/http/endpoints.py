"""Describe requests and replies, one function per endpoint, and the hosts that requests go to.

Invalid arguments and addresses are refused here, before anything is sent. Imports no HTTP library
and resolves no name.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec
from attrs import frozen
from yarl import URL

from income_client.hosts import is_ip, is_this_machine, plain_host
from income_client.settings import Secret, invalid, wrong

LARGEST_LIMIT: Final = 1000
"""Most rows that one page may hold (contract section 8)."""

_APPLICATIONS: Final = "/v1/income/applications"
LONGEST_ID: Final = 512
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_~-]{1,512}")
_PLAIN_BUT_COLONS: Final = re.compile(r"[A-Za-z0-9_.~:-]*")
_FIRST_PRINTABLE: Final = 0x20
_C1_CONTROLS: Final = range(0x7F, 0xA0)
_SURROGATES: Final = range(0xD800, 0xE000)

_TEXT: Final = re.compile(r"[!-\[\]-~]{1,2048}")
"""Printable ASCII but the backslash, which some parsers read as a slash."""
_PATH: Final = re.compile(r"(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)*")
_SCHEMES: Final = ("https", "http")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request, without the credentials that will go with it."""

    name: str
    """The call, for logs and errors: ``get_application``."""
    path: str
    """Absolute and percent-encoded, below the address that it is for."""
    query: str = ""
    """Percent-encoded, without the question mark."""
    form: bytes | None = None
    """What is posted to the token endpoint; None for every other request, a GET of the API."""
    subject: str | None = None
    """The application id that the request is about, for logs and errors."""

    def __repr__(self) -> str:
        return f"<Request {self.name} {self.path}>"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One reply, read to its end."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str]
    """Header fields, found by their names in lower case."""
    body: bytes
    """The content, decompressed."""
    kept: bytes | None = None
    """What an error made of it keeps of the content; None unless the client keeps error bodies."""

    def __repr__(self) -> str:
        return f"<Response {self.status}>"


def token_request() -> Request:
    """Ask for an access token with the client's credentials (contract section 5.1)."""
    return Request(name="token", path="/token", form=b"grant_type=client_credentials")


def list_applications(
    *,
    updated_after: str | None = None,
    updated_before: str | None = None,
    limit: int | None = None,
    application_reference_id: str | None = None,
) -> Request:
    """Ask for one page of applications (contract section 4.1)."""
    if application_reference_id is not None:
        _check_id("application_reference_id", application_reference_id)
    if limit is not None:
        check_limit(limit)
    parameters = {
        "updated_after": updated_after,
        "updated_before": updated_before,
        "limit": None if limit is None else str(limit),
        "application_reference_id": application_reference_id,
    }
    query = "&".join(
        [f"{name}={_quoted(value)}" for name, value in parameters.items() if value is not None]
    )
    return Request(name="list_applications", path=_APPLICATIONS, query=query)


def get_application(application_id: str) -> Request:
    """Ask for one application with its income calculations (contract section 4.2)."""
    return Request(
        name="get_application",
        path=_application_path(application_id),
        subject=application_id,
    )


def get_documents(application_id: str, pages: bool = False) -> Request:
    """Ask for the documents of one application (contract section 4.3)."""
    return Request(
        name="get_documents",
        path=_application_path(application_id) + "/documents",
        query="pages=true" if pages else "",
        subject=application_id,
    )


def check_application_id(application_id: object) -> None:
    """Refuse an id that no application can have."""
    _application_path(application_id)


def check_limit(limit: object) -> None:
    """Refuse a limit that the service would not take (contract section 8)."""
    if type(limit) is not int or not 1 <= limit <= LARGEST_LIMIT:
        raise invalid("limit", f"a whole number from 1 to {LARGEST_LIMIT}", limit)


def _application_path(application_id: Any) -> str:
    if isinstance(application_id, str) and _PLAIN_ID.fullmatch(application_id):
        return f"{_APPLICATIONS}/{application_id}"
    _check_id("application_id", application_id)
    if application_id in {".", ".."}:
        raise wrong("application_id", "must not be a step in a path, such as ..")
    return f"{_APPLICATIONS}/{_quoted(application_id)}"


def _quoted(text: str) -> str:
    if _PLAIN_BUT_COLONS.fullmatch(text):
        # Times and most ids are like this, and quote() takes longer.
        return text.replace(":", "%3A")
    return quote(text, safe="")


def _check_id(name: str, text: object) -> None:
    if not isinstance(text, str) or not text:
        found = "an empty one" if text == "" else type(text).__name__
        raise wrong(name, f"must be a non-empty str, found {found}")
    if len(text) > LONGEST_ID:
        raise wrong(name, f"must not be longer than {LONGEST_ID} characters")
    if not text.isprintable() and any(_is_unprintable(ord(char)) for char in text):
        raise wrong(name, "holds a control character or half a character")


def _is_unprintable(code: int) -> bool:
    return code < _FIRST_PRINTABLE or code in _C1_CONTROLS or code in _SURROGATES


@frozen(kw_only=True)
class Addresses:
    """Where the API and the token endpoint are."""

    api: str
    """Origin and path prefix of the API, without a slash at the end."""
    token: str
    """The same of the token endpoint."""


def addresses(base_url: str, auth_url: str | None = None) -> Addresses:
    """Check both addresses of a client; the origin of the first is for tokens too by default.

    An address that is refused is not shown: it may hold a password.
    """
    name, fault = "base_url", _address_fault(base_url)
    if fault is None and auth_url is not None:
        name, fault = "auth_url", _address_fault(auth_url)
    if fault is not None:
        raise wrong(name, fault)
    api = URL(base_url, encoded=True)
    return Addresses(
        api=_root(api),
        token=_origin(api) if auth_url is None else _root(URL(auth_url, encoded=True)),
    )


def proxy_address(proxy: str) -> Secret:
    """Check the address of an HTTP proxy, which may hold the proxy's own credentials."""
    url = _parsed(proxy)
    if url is None or url.scheme not in _SCHEMES or _host_in(url) is None:
        raise wrong("proxy", "must be an http or https address in printable ASCII")
    return Secret(proxy)


def check_route(found: Addresses, proxy: Secret) -> None:
    """Refuse a proxy that credentials would be sent to outside of TLS.

    Over http the proxy itself gets each request, with its Authorization header. So an http
    address of this machine can be combined only with a proxy on this machine.
    """
    is_here = _is_loopback(URL(proxy.reveal(), encoded=True))
    for name, address in (("base_url", found.api), ("auth_url", found.token)):
        if not is_here and address.startswith("http:"):
            raise wrong(
                name,
                "is http, and proxy is on another machine; "
                "credentials go through a proxy only inside TLS",
            )


def _parsed(address: object) -> URL | None:
    """Parse an address, or return None if its text or port is invalid."""
    if not isinstance(address, str) or _TEXT.fullmatch(address) is None:
        return None
    try:
        url = URL(address, encoded=True)
        port = url.port
    except ValueError:
        return None
    # yarl reads a port as int() does, which takes 1_0 and +80 as well.
    written = url.raw_authority.rpartition("@")[2].rpartition("]")[2].partition(":")[2]
    return url if port != 0 and (not written or written.isdigit()) else None


def _address_fault(address: object) -> str | None:
    if not isinstance(address, str):
        return f"must be a str, found {type(address).__name__}"
    url = _parsed(address)
    if url is None:
        return "must be an address in printable ASCII"
    # Looked for in the text, since yarl forgets an empty query.
    if "?" in address or "#" in address:
        return "holds a query or a fragment"
    return next((fault for is_wrong, fault in _FAULTS if is_wrong(url)), None)


def _host_in(url: URL) -> str | None:
    """Return the host of an address as `plain_host` spells it; None if it is not one."""
    raw = url.raw_host or ""
    if ":" in raw:
        return plain_host(f"[{raw}]")
    host = plain_host(raw.removesuffix("."))
    # Only a name may end with a dot.
    return None if host is not None and raw.endswith(".") and is_ip(host) else host


def _is_loopback(url: URL) -> bool:
    host = _host_in(url)
    return host is not None and is_this_machine(host)


def _is_plain_path(path: str) -> bool:
    path = path.rstrip("/")
    return _PATH.fullmatch(path) is not None and not {".", ".."} & set(path.split("/"))


_FAULTS: Final[Sequence[tuple[Callable[[URL], bool], str]]] = (
    (lambda url: url.scheme not in _SCHEMES, "is neither https nor http"),
    (lambda url: "@" in url.raw_authority, "holds a user name or a password; these go into auth"),
    (lambda url: _host_in(url) is None, "names no host"),
    (lambda url: not _is_plain_path(url.raw_path), "holds a path that is not plain"),
    (
        lambda url: url.scheme == "http" and not _is_loopback(url),
        "is http; credentials go over https, or over http to loopback",
    ),
)


def _origin(url: URL) -> str:
    return str(URL.build(scheme=url.scheme, host=url.raw_host or "", port=url.port))


def _root(url: URL) -> str:
    return _origin(url) + url.raw_path.rstrip("/")
