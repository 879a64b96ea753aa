"""The emulated service as pure functions from request to reply; its time is the world's.

The names of the contract are written by hand, as in `invented`.
"""

import base64
import enum
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec
from attrs import evolve

from income_client.settings import BasicAuth, OAuth2ClientCredentials, Secret

from .access import THIS_MACHINE, ServedHosts
from .exchange import HttpReply, HttpRequest, ListedPage, RefusedError, json_reply
from .invented import invent_application
from .listing import Refused, select_rows
from .storage import FileStorage, Region
from .times import http_date, parse_bound, stamp
from .world import Contents, DocumentFile, World

CONTROL_PATH: Final = "/emulator"
"""Path of the commands by which other processes control an emulator."""

REQUEST_ID: Final = "X-Request-Id"
"""Header field with the service's own id of a request."""

_APPLICATIONS: Final = "/v1/income/applications"
_JSON_TYPE: Final = {"Content-Type": "application/json"}
# Amounts of applications that were added keep their digits.
_JSON: Final = msgspec.json.Encoder(decimal_format="number")
_REALM: Final = 'realm="income emulator"'
_JWT_HEADER: Final = b'{"alg":"HS256","typ":"JWT"}'
LIST_PARAMETERS: Final = ("application_reference_id", "limit", "updated_after", "updated_before")
"""Parameters of the list call (contract section 4.1)."""
MOST_ROWS: Final = 1000
"""Largest number of rows of a page (contract section 4.1)."""
USUAL_ROWS: Final = 25
"""Rows of a page for a call without a limit (contract section 4.1)."""
_LIMIT_DIGITS: Final = 4


class Call(enum.Enum):
    """The calls of the emulated service."""

    LIST_APPLICATIONS = "list_applications"
    GET_APPLICATION = "get_application"
    GET_DOCUMENTS = "get_documents"
    TOKEN = "token"  # noqa: S105 - the name of a call
    FILE = "file"
    INDEX = "index"
    CONTROL = "control"
    UNKNOWN = "unknown"


API_CALLS: Final = (Call.LIST_APPLICATIONS, Call.GET_APPLICATION, Call.GET_DOCUMENTS)
_FIXED_PATHS: Final = {
    _APPLICATIONS: Call.LIST_APPLICATIONS,
    "/token": Call.TOKEN,
    "/": Call.INDEX,
    "/page.css": Call.INDEX,
    "/page.js": Call.INDEX,
    CONTROL_PATH: Call.CONTROL,
}


def call_of(path: str) -> Call:
    """Return the call of a raw path, on either host."""
    if path in _FIXED_PATHS:
        return _FIXED_PATHS[path]
    if path.startswith("/documents/"):
        return Call.FILE
    if path.startswith(f"{CONTROL_PATH}/"):
        return Call.CONTROL
    if path.startswith(f"{_APPLICATIONS}/"):
        match path.removeprefix(f"{_APPLICATIONS}/").split("/"):
            case [_]:
                return Call.GET_APPLICATION
            case [_, "documents"]:
                return Call.GET_DOCUMENTS
    return Call.UNKNOWN


class AccessTokens:
    """Makes access tokens, which are JWTs, and recognises its own tokens (contract section 5.1)."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._generation = 0
        self._issued = 0

    def issue(self, client_id: str, *, now: int, lifetime: int) -> str:
        """Make a token that expires after a number of service seconds."""
        self._issued += 1
        claims = {
            "iss": "income-emulator",
            "sub": client_id,
            "iat": now,
            "exp": now + lifetime,
            "jti": f"{self._generation}-{self._issued}",
        }
        content = f"{_encode_base64(_JWT_HEADER)}.{_encode_base64(json.dumps(claims).encode())}"
        return f"{content}.{self._sign_content(content)}"

    def accepts(self, token: str, *, now: int) -> bool:
        """Return whether a token was made here, and is neither revoked nor expired."""
        content, _, signature = token.rpartition(".")
        if not token.isascii() or not hmac.compare_digest(signature, self._sign_content(content)):
            return False
        # Signed here, so it is well-formed.
        claims = content.partition(".")[2]
        padding = "=" * (-len(claims) % 4)
        is_current: bool = now < json.loads(base64.urlsafe_b64decode(claims + padding))["exp"]
        return is_current

    def revoke_all(self) -> None:
        """Refuse every token made so far."""
        self._generation += 1

    def _sign_content(self, content: str) -> str:
        key = f"invented key {self._seed} {self._generation}".encode()
        return _encode_base64(hmac.digest(key, content.encode(), hashlib.sha256))


def credentials_of(seed: int) -> tuple[BasicAuth, OAuth2ClientCredentials]:
    """Return the invented credentials that an emulator of a seed accepts."""
    basic = BasicAuth("emulator-user", f"invented-password-{seed}")
    return basic, OAuth2ClientCredentials("emulator-client", f"invented-secret-{seed}")


class Service:
    """An income-verification service over an invented world.

    Args:
        world: its applications, its present second and its rules.
        hosts: for which it answers; this machine unless given.
        serves_files: whether it serves files too, at the address that a request came to.

    Attributes:
        world: as given.
        basic: user name and password that it accepts.
        oauth2: client id and secret that it gives tokens to.
        tokens: its access tokens.
        storage: the host of its files.
    """

    def __init__(
        self, world: World, hosts: ServedHosts = THIS_MACHINE, *, serves_files: bool = False
    ) -> None:
        self.world = world
        self._hosts = hosts
        self._serves_files = serves_files
        self.basic: BasicAuth
        self.oauth2: OAuth2ClientCredentials
        self.basic, self.oauth2 = credentials_of(world.seed)
        self.tokens: AccessTokens = AccessTokens(world.seed)
        self.storage: FileStorage = FileStorage(world, self._files_of, hosts)
        self._replies = 0
        self._contents = lru_cache(maxsize=2048)(self._compose_contents)

    def respond(self, request: HttpRequest) -> HttpReply:
        """Return the answer to a request to the API or to the token endpoint."""
        try:
            reply = self._answer_request(request)
        except RefusedError as refused:
            reply = refused.reply
        return self.stamped(reply)

    def respond_file(self, request: HttpRequest, region: Region = Region.FIRST) -> HttpReply:
        """Return the reply to a request to the host of document files.

        Args:
            request: as it came.
            region: which of its regions it came to.
        """
        try:
            reply = self.storage.respond(request, region)
        except RefusedError as refused:
            reply = refused.reply
        return self.stamped(reply)

    def has_credentials(self, request: HttpRequest) -> bool:
        """Return whether a request carries credentials of a call or of a token request."""
        scheme, credentials = _read_credentials(request)
        is_client = _is_same(f"Basic {credentials}", self.oauth2.authorization())
        if scheme == "basic" and is_client:
            return True
        try:
            self._check_credentials(request)
        except RefusedError:
            return False
        return True

    def contents_of(self, number: int) -> Contents:
        """Return the current contents of an application by its number."""
        return self._contents(number, self.world.history(number).version)

    def stamped(self, reply: HttpReply) -> HttpReply:
        """Return a reply with service time, and with a request id if it has none."""
        self._replies += 1
        headers = {
            "Date": http_date(self.world.now + self.world.rules.clock_offset),
            "Server": "income-emulator",
            REQUEST_ID: f"req-{self._replies:08x}",
            **reply.headers,
        }
        return evolve(reply, headers=headers)

    def _answer_request(self, request: HttpRequest) -> HttpReply:
        host = request.headers.get("host", "")
        if not self._hosts.serves(host):
            raise RefusedError(json_reply(421, {"error": "misdirected_request"}))
        call = call_of(request.path)
        if call is Call.FILE and self._serves_files:
            return self.storage.respond(request, Region.FIRST)
        if call in (Call.FILE, Call.INDEX, Call.CONTROL, Call.UNKNOWN):
            raise _not_found("no such path")
        _check_method(request, "POST" if call is Call.TOKEN else "GET")
        if call is Call.TOKEN:
            return self._token_reply(request)
        self._check_credentials(request)
        if call is Call.LIST_APPLICATIONS:
            return self._list_page(request.query)
        number = self._application_number(request.path)
        if call is Call.GET_APPLICATION:
            body = self.application_body(number)
        else:
            origin = f"http://{host}" if self._serves_files else None
            address_of = partial(self.storage.address, origin=origin)
            pages = _read_pages(request.query)
            body = _documents_body(self.contents_of(number), address_of, pages=pages)
        return HttpReply(status=200, headers=_JSON_TYPE, body=body)

    def application_body(self, number: int) -> bytes:
        """Return the application response of an application's number (contract section 2.2)."""
        version = self.world.history(number).version
        updated = self.world.updated_second(number) if version else None
        return _application_body(self.contents_of(number), updated)

    def _application_number(self, path: str) -> int:
        application_id = unquote(path.removeprefix(f"{_APPLICATIONS}/").split("/")[0])
        number = self.world.number_of(application_id)
        if number is None:
            raise _not_found("no application has this id")
        return number

    def _check_credentials(self, request: HttpRequest) -> None:
        """Refuse a request without valid credentials (contract section 5.1)."""
        scheme, credentials = _read_credentials(request)
        match scheme:
            case "basic":
                is_valid = _is_same(f"Basic {credentials}", self.basic.authorization())
                challenge = f"Basic {_REALM}"
            case "bearer":
                is_valid = self.tokens.accepts(credentials, now=self.world.now)
                challenge = 'Bearer error="invalid_token"'
            case _:
                is_valid = False
                challenge = f"Bearer {_REALM}"
        if not is_valid:
            error = {"error": "unauthorized", "message": "credentials are missing or not valid"}
            raise RefusedError(json_reply(401, error, WWW_Authenticate=challenge))

    def _token_reply(self, request: HttpRequest) -> HttpReply:
        problem = _form_problem(request)
        if problem is not None:
            return json_reply(400, {"error": problem}, Cache_Control="no-store")
        scheme, credentials = _read_credentials(request)
        if scheme != "basic" or not _is_same(f"Basic {credentials}", self.oauth2.authorization()):
            return json_reply(
                401,
                {"error": "invalid_client"},
                WWW_Authenticate=f"Basic {_REALM}",
                Cache_Control="no-store",
            )
        lifetime = self.world.rules.token_lifetime
        token = self.tokens.issue(self.oauth2.client_id, now=self.world.now, lifetime=lifetime)
        content = {"access_token": token, "token_type": "Bearer", "expires_in": lifetime}
        return json_reply(200, content, Cache_Control="no-store")

    def _list_page(self, query: str) -> HttpReply:
        parameters = read_parameters(query, LIST_PARAMETERS)
        limit = _read_limit(parameters)
        after = _read_bound(parameters, "updated_after")
        before = _read_bound(parameters, "updated_before")
        selection = select_rows(
            self.world,
            self.world.rules,
            after=after,
            before=before,
            limit=limit,
            reference=parameters.get("application_reference_id"),
        )
        if isinstance(selection, Refused):
            raise _bad_parameter(selection.parameter, selection.reason)
        low, high, numbers = selection
        body = {
            "updated_after": stamp(low),
            "updated_before": stamp(high),
            "applications": [row_of(self.world, number) for number in numbers],
        }
        page = ListedPage(after=low, before=high, rows=len(numbers), limit=limit)
        return HttpReply(status=200, headers=_JSON_TYPE, body=_JSON.encode(body), listed=page)

    def _files_of(self, number: int) -> Iterator[DocumentFile]:
        return self.contents_of(number).files()

    def _compose_contents(self, number: int, _version: int) -> Contents:
        return self.world.added(number) or invent_application(self.world, number)


def row_of(world: World, number: int) -> dict[str, object]:
    """Return the row of an application in the list (contract section 2.1)."""
    row: dict[str, object] = {
        "application_id": world.id_of(number),
        "application_reference_id": world.reference_of(number),
        "application_date": stamp(world.applied_at(number)),
    }
    added = world.added(number)
    if added is not None:
        # The application may write its date in another way.
        row |= {name: value for name, value in added.application.items() if name in row}
    return row


def respond(service: Service, request: HttpRequest) -> HttpReply:
    """Return the answer to a request to the API: the emulator's whole meaning in one pure step.

    Args:
        service: whose answer it is.
        request: as it came.
    """
    return service.respond(request)


def _application_body(contents: Contents, updated: int | None) -> bytes:
    """Write the application response, updated at a service second if it was (contract 2.2)."""
    if updated is None:
        return _JSON.encode(contents.application)
    return _JSON.encode({**contents.application, "last_updated_at": f"{stamp(updated)}Z"})


def _documents_body(
    contents: Contents, address_of: Callable[[DocumentFile], str], *, pages: bool
) -> bytes:
    """Write the documents response (contract section 2.3)."""
    files = contents.files()
    documents: dict[str, list[Mapping[str, Any]]] = {}
    for kind, of_a_kind in contents.documents["documents"].items():
        documents[kind] = []
        for document in of_a_kind:
            written = {**document, "url": document.get("url") or address_of(next(files))}
            if not pages:
                written.pop("pages", None)
            elif "pages" not in written:
                names = enumerate(document.get("file_ids", ()), 1)
                items = [{"page_number": place, "file_id": name} for place, name in names]
                written["pages"] = {"count": len(items), "items": items}
            documents[kind].append(written)
    return _JSON.encode({**contents.documents, "documents": documents})


def _not_found(message: str) -> RefusedError:
    return RefusedError(json_reply(404, {"error": "not_found", "message": message}))


def _bad_parameter(name: str, reason: str) -> RefusedError:
    error = {"error": "invalid_parameter", "message": f"{name} {reason}"}
    return RefusedError(json_reply(400, error))


def _check_method(request: HttpRequest, method: str) -> None:
    if request.method != method:
        raise RefusedError(json_reply(405, {"error": "method_not_allowed"}, Allow=method))


def read_parameters(query: str, names: tuple[str, ...]) -> dict[str, str]:
    """Read a raw query strictly: expected names only, each once."""
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict"
        )
    except ValueError:
        raise _bad_parameter("query", "must be name=value pairs in UTF-8") from None
    parameters = dict(pairs)
    if not parameters.keys() <= set(names):
        raise _bad_parameter("query", f"may hold {', '.join(names)}")
    if len(parameters) < len(pairs):
        raise _bad_parameter("query", "must name each parameter once")
    return parameters


def _read_limit(parameters: dict[str, str]) -> int:
    text = parameters.get("limit", str(USUAL_ROWS))
    is_number = text.isascii() and text.isdecimal() and len(text) <= _LIMIT_DIGITS
    if not is_number or not 1 <= int(text) <= MOST_ROWS:
        raise _bad_parameter("limit", f"must be an integer from 1 to {MOST_ROWS}")
    return int(text)


def _read_bound(parameters: dict[str, str], name: str) -> int | None:
    if name not in parameters:
        return None
    second = parse_bound(parameters[name])
    if second is None:
        raise _bad_parameter(name, "must be YYYY-mm-dd or YYYY-mm-ddTHH:MM:SS")
    return second


def _read_pages(query: str) -> bool:
    text = read_parameters(query, ("pages",)).get("pages", "false")
    if text not in ("true", "false"):
        raise _bad_parameter("pages", "must be true or false")
    return text == "true"


def _read_credentials(request: HttpRequest) -> tuple[str, str]:
    """Return scheme and credentials of a header, separated by one or more blanks (RFC 9110)."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    return scheme.lower(), credentials.lstrip(" ")


def _is_same(text: str, secret: Secret) -> bool:
    return hmac.compare_digest(text.encode(errors="surrogateescape"), secret.reveal().encode())


def _form_problem(request: HttpRequest) -> str | None:
    """Return the OAuth error of an invalid token request; None for a valid one."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded" or not request.body.isascii():
        return "invalid_request"
    form = parse_qsl(request.body.decode("ascii"), keep_blank_values=True)
    grants = [value for name, value in form if name == "grant_type"]
    if len(grants) != 1:
        return "invalid_request"
    return None if grants == ["client_credentials"] else "unsupported_grant_type"


def _encode_base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
