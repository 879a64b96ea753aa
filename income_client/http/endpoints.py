"""Describe requests and replies, one function per endpoint, and the hosts that requests go to.

Invalid arguments and addresses are refused here, before anything is sent. Imports no HTTP library
and resolves no name.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import msgspec
from attrs import asdict, frozen

from income_client.records.documents import ApplicationKey
from income_client.settings import Secret, invalid, wrong
from income_client.system.hosts import HttpAddress, is_this_machine, read_address
from income_client.system.texts import has_surrogate

LARGEST_LIMIT: Final = 1000
"""Largest number of rows of one page (contract section 8)."""

_TOKEN: Final = "/token"  # noqa: S105 - a path
_APPLICATIONS: Final = "/v1/income/applications"
_APPLICATION: Final = f"{_APPLICATIONS}/{{application_id}}"
LONGEST_ID: Final = 512
_DIGEST_BYTES: Final = 8
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_~-]{1,512}")
_PLAIN_BUT_COLONS: Final = re.compile(r"[A-Za-z0-9_.~:-]*")
_DELETE_AND_C1: Final = range(0x7F, 0xA0)

_PATH: Final = re.compile(r"(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)*")
_STEP: Final = re.compile(r"[/\\]\.{1,2}([/\\;?#]|$)")
"""Pattern of ``.`` and ``..`` in a path, also where a server reads a backslash as a slash."""

QueryValue: TypeAlias = str | int | Sequence[str | int]
"""A value in a query; several of them repeat its name."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request without credentials."""

    name: str
    """The call, for logs and errors: ``get_application``."""
    path: str
    """Absolute path below the base URL, percent-encoded."""
    query: str = ""
    """Percent-encoded, without the question mark."""
    template: str | None = None
    """The path with names in place of values, which a trace may show; None if it is the caller's
    own."""
    form: bytes | None = None
    """Body of a request to the token endpoint; None for every other request, which is a GET."""
    subject: str | None = None
    """The application id that the request is about, for logs and errors."""
    place: str = "base_url"
    """The argument that is wrong where nothing is served, for errors."""

    @property
    def method(self) -> str:
        """The HTTP method."""
        return "GET" if self.form is None else "POST"

    def __repr__(self) -> str:
        return f"<Request {self.name} {self.path}>"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A reply, read to its end."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str]
    """Header fields, found by their names in lower case."""
    body: bytes
    """The content, decompressed."""
    kept: bytes | None = None
    """Part of the content that an error keeps; None unless the client keeps error bodies."""

    def __repr__(self) -> str:
        return f"<Response {self.status}>"


def token_request() -> Request:
    """Ask for an access token with the client's credentials (contract section 5.1)."""
    return Request(
        name="token",
        path=_TOKEN,
        template=_TOKEN,
        form=b"grant_type=client_credentials",
        place="auth_url",
    )


@frozen(kw_only=True)
class ListFilter:
    """The applications that a list call is about, whenever they were updated (section 4.1).

    Each field is a parameter of the call, which is sent unless it is None. Walks and polls pass
    the filter on as a whole, and their checkpoints contain its digest.
    """

    application_reference_id: str | None = None
    """The partner's own reference of an application."""

    def __attrs_post_init__(self) -> None:
        for name, value in self.parameters.items():
            check_id(name, value)

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters that are sent, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def digest(self) -> str | None:
        """A digest that tells filters apart without their values; None for no parameters."""
        if not self.parameters:
            return None
        content = msgspec.json.encode(self.parameters, order="deterministic")
        return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


EVERY_APPLICATION: Final = ListFilter()
"""The filter without parameters."""


def list_applications(
    *,
    updated_after: str | None = None,
    updated_before: str | None = None,
    limit: int | None = None,
    list_filter: ListFilter = EVERY_APPLICATION,
) -> Request:
    """Ask for one page of applications (contract section 4.1)."""
    if limit is not None:
        check_limit(limit)
    parameters = {
        "updated_after": updated_after,
        "updated_before": updated_before,
        "limit": None if limit is None else str(limit),
        **list_filter.parameters,
    }
    query = "&".join(
        [
            f"{name}={_quote_segment(value)}"
            for name, value in parameters.items()
            if value is not None
        ]
    )
    return Request(
        name="list_applications", path=_APPLICATIONS, query=query, template=_APPLICATIONS
    )


def get_application(application_id: str) -> Request:
    """Ask for one application with its income calculations (contract section 4.2)."""
    return Request(
        name="get_application",
        path=_application_path(application_id),
        template=_APPLICATION,
        subject=application_id,
    )


def get_documents(application_id: str, pages: bool = False) -> Request:
    """Ask for the documents of one application (contract section 4.3)."""
    return Request(
        name="get_documents",
        path=_application_path(application_id) + "/documents",
        query="pages=true" if pages else "",
        template=f"{_APPLICATION}/documents",
        subject=application_id,
    )


def get_json(path: str, params: Mapping[str, QueryValue] | None = None) -> Request:
    """Send a GET to a path that has no function here."""
    if not isinstance(path, str):
        raise invalid("path", "a str", path)
    if not path.startswith("/") or path.startswith("//"):
        raise wrong("path", "must begin with a single slash: it is below base_url, not an address")
    if _PATH.fullmatch(path.removesuffix("/")) is None:
        raise wrong("path", "must be plain and percent-encoded; a query goes into params")
    _check_decoded_path(path)
    query = "&".join(
        f"{_quote_segment(name)}={_quote_segment(value)}" for name, value in _query_items(params)
    )
    return Request(name="get_json", path=path, query=query, place="path")


def _check_decoded_path(path: str) -> None:
    """Refuse a path that a server could read as another one, however often it decodes it."""
    while True:
        if _STEP.search(path):
            raise wrong("path", "must not hold a step such as ..")
        if any(map(_is_control, path)):
            raise wrong("path", "holds a control character")
        try:
            decoded = unquote(path, errors="strict")
        except UnicodeDecodeError:
            raise wrong("path", "holds an escape that is not UTF-8") from None
        if decoded == path:
            return
        path = decoded


def _query_items(params: Any) -> Iterator[tuple[str, str]]:
    if params is None:
        return
    if not isinstance(params, Mapping):
        raise invalid("params", "a mapping of names to values", params)
    for name, param in params.items():
        if not isinstance(name, str) or not name:
            raise wrong("params", "must have names that are a str and not empty")
        is_several = isinstance(param, Sequence) and not isinstance(param, str | bytes | bytearray)
        for value in param if is_several else (param,):
            text = _query_text(value)
            if any(has_surrogate(part) or any(map(_is_control, part)) for part in (name, text)):
                raise wrong("params", "holds a control character or half a character")
            yield name, text


def _query_text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value:d}"
        case str():
            return value
        case _:
            raise wrong(
                "params", "must have values that are a str, an int, a bool, or lists of these"
            )


def application_id_of(application: object, name: str = "application_id") -> str:
    """Return the id of an application, which may be given as a record that has it."""
    if isinstance(application, ApplicationKey):
        return application if isinstance(application, str) else application.application_id
    fault = invalid(name, "an id, a summary or a record", application)
    del application  # a record as plain data: crash reporters send the variables of frames
    raise fault


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
    check_id("application_id", application_id)
    if application_id in {".", ".."}:
        raise wrong("application_id", "must not be a step in a path, such as ..")
    return f"{_APPLICATIONS}/{_quote_segment(application_id)}"


def _quote_segment(text: str) -> str:
    if _PLAIN_BUT_COLONS.fullmatch(text):
        # Times and most ids are like this, and quote() takes longer.
        return text.replace(":", "%3A")
    return quote(text, safe="")


def check_id(name: str, text: object) -> None:
    """Refuse a text that the service cannot use as an id or a reference."""
    if not isinstance(text, str) or not text:
        kind = "an empty one" if text == "" else type(text).__name__
        raise wrong(name, f"must be a non-empty str, found {kind}")
    if len(text) > LONGEST_ID:
        raise wrong(name, f"must not be longer than {LONGEST_ID} characters")
    if not text.isprintable() and (has_surrogate(text) or any(map(_is_control, text))):
        raise wrong(name, "holds a control character or half a character")


def _is_control(char: str) -> bool:
    return char < " " or ord(char) in _DELETE_AND_C1


@frozen(kw_only=True)
class Addresses:
    """URLs of the API and of the token endpoint."""

    api: str
    """Origin and path prefix of the API, without a slash at the end."""
    token: str
    """Origin and path prefix of the token endpoint, without a slash at the end."""


def addresses(base_url: str, auth_url: str | None = None) -> Addresses:
    """Check both addresses of a client; the origin of the first is for tokens too by default.

    An address that is refused is not shown: it may hold a password.
    """
    api = _checked_address("base_url", base_url)
    token = None if auth_url is None else _checked_address("auth_url", auth_url)
    return Addresses(api=_root_of(api), token=api.origin if token is None else _root_of(token))


def proxy_address(proxy: str) -> Secret:
    """Check the address of an HTTP proxy, which may hold the proxy's own credentials."""
    read_address("proxy", proxy)
    if ":" in unquote(urlsplit(proxy).username or ""):
        raise wrong("proxy", "holds a user name with a colon, which HTTP cannot send")
    return Secret(proxy)


def check_route(addresses: Addresses, proxy: Secret) -> None:
    """Refuse a proxy that credentials would be sent to outside of TLS.

    Over http the proxy itself gets each request, with its Authorization header. So an http
    address of this machine can be combined only with a proxy on this machine.
    """
    is_here = is_this_machine(read_address("proxy", proxy.reveal()).host)
    for name, address in (("base_url", addresses.api), ("auth_url", addresses.token)):
        if not is_here and address.startswith("http:"):
            raise wrong(
                name,
                "is http, and proxy is on another machine; "
                "credentials go through a proxy only inside TLS",
            )


def _checked_address(name: str, text: object) -> HttpAddress:
    """Read an address that credentials may be sent to."""
    address = read_address(name, text)
    for is_wrong, fault in (
        (address.has_query or address.has_fragment, "holds a query or a fragment"),
        (address.has_user, "holds a user name or a password; these go into auth"),
        (not _is_plain_path(address.path), "holds a path that is not plain"),
        (address.is_exposed, "is http; credentials go over https, or over http to loopback"),
    ):
        if is_wrong:
            raise wrong(name, fault)
    return address


def _is_plain_path(path: str) -> bool:
    path = path.rstrip("/")
    return _PATH.fullmatch(path) is not None and not {".", ".."} & set(path.split("/"))


def _root_of(address: HttpAddress) -> str:
    return address.origin + address.path.rstrip("/")
