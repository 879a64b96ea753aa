"""The emulated service as pure functions from request to reply; its time is the world's."""

import base64
import binascii
import enum
import hashlib
import hmac
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from attrs import evolve, frozen

from income_client.settings import BasicAuth, OAuth2ClientCredentials, Secret

from .cases import Case, Paper, Seed, compose_case
from .content import DocumentsTemplate, application_body, documents_template
from .control import CONTROL_PATH, CallbackOrder, read_order
from .exchange import HttpReply, HttpRequest, is_loopback, json_reply
from .listing import AppliedWindow, Refused, Selection, applied_window, select_rows
from .storage import AddressSigner, FileStorage, Region, storage_error
from .times import http_date, parse_bound, stamp
from .world import World

_HEADER: Final = b'{"alg":"HS256","typ":"JWT"}'


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class TokenMint:
    """Makes access tokens and recognises its own (contract section 5.1).

    Args:
        seed: what the signing key hangs on.

    Attributes:
        issued: tokens made so far.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._generation = 0
        self.issued: int = 0

    def issue(self, client_id: str, *, now: int, lifetime: int) -> str:
        """Make a token.

        Args:
            client_id: who bought it.
            now: the present service second.
            lifetime: seconds until it expires.
        """
        self.issued += 1
        claims = {
            "iss": "income-emulator",
            "sub": client_id,
            "iat": now,
            "exp": now + lifetime,
            "jti": f"{self._generation}-{self.issued}",
        }
        content = f"{_encode(_HEADER)}.{_encode(json.dumps(claims).encode())}"
        return f"{content}.{self._sign(content)}"

    def accepts(self, token: str, *, now: int) -> bool:
        """Say whether a token is one of ours, not revoked and not expired.

        Args:
            token: as it came.
            now: the present service second.
        """
        content, _, signature = token.rpartition(".")
        if not token.isascii() or not hmac.compare_digest(signature, self._sign(content)):
            return False
        claims = _claims(content)
        return claims is not None and now < claims["exp"]

    def revoke_all(self) -> None:
        """Refuse every token made so far."""
        self._generation += 1

    def _sign(self, content: str) -> str:
        key = f"invented key {self._seed} {self._generation}".encode()
        return _encode(hmac.digest(key, content.encode(), hashlib.sha256))


def _claims(content: str) -> dict[str, Any] | None:
    header, _, claims = content.partition(".")
    try:
        if _decode(header) != _HEADER:
            return None
        found = json.loads(_decode(claims))
    except (ValueError, binascii.Error):
        return None
    return found if isinstance(found, dict) else None


_REALM: Final = 'realm="income emulator"'


@frozen(kw_only=True)
class Gate:
    """Checks credentials (contract section 5.1); accepts the invented ones only."""

    basic: BasicAuth
    """User of the API."""
    oauth2: OAuth2ClientCredentials
    """Buyer of tokens."""
    mint: TokenMint
    """Maker of tokens."""

    def refusal(self, request: HttpRequest, *, now: int) -> HttpReply | None:
        """Return the 401 for an API request, None if it may pass.

        Args:
            request: the request.
            now: the present service second.
        """
        scheme, credentials = _presented(request)
        match scheme:
            case "basic" if _same(f"Basic {credentials}", self.basic.authorization()):
                return None
            case "basic":
                challenge = f"Basic {_REALM}"
            case "bearer" if self.mint.accepts(credentials, now=now):
                return None
            case "bearer":
                challenge = 'Bearer error="invalid_token"'
            case _:
                challenge = f"Bearer {_REALM}"
        error = {"error": "unauthorized", "message": "credentials are missing or not valid"}
        return json_reply(401, error, WWW_Authenticate=challenge)

    def token_reply(self, request: HttpRequest, *, now: int, lifetime: int) -> HttpReply:
        """Answer a token request.

        Args:
            request: the request.
            now: the present service second.
            lifetime: seconds that a token lives.
        """
        problem = _form_problem(request)
        if problem is not None:
            return json_reply(400, {"error": problem}, Cache_Control="no-store")
        scheme, credentials = _presented(request)
        known = _same(f"Basic {credentials}", self.oauth2.authorization())
        if scheme != "basic" or not known:
            return json_reply(
                401,
                {"error": "invalid_client"},
                WWW_Authenticate=f"Basic {_REALM}",
                Cache_Control="no-store",
            )
        token = self.mint.issue(self.oauth2.client_id, now=now, lifetime=lifetime)
        content = {"access_token": token, "token_type": "Bearer", "expires_in": lifetime}
        return json_reply(200, content, Cache_Control="no-store")


def _presented(request: HttpRequest) -> tuple[str, str]:
    """Return scheme and credentials, between which one blank stands or several (RFC 9110)."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    return scheme.lower(), credentials.lstrip(" ")


def _same(text: str, secret: Secret) -> bool:
    return hmac.compare_digest(text.encode(errors="surrogateescape"), secret.reveal().encode())


def _form_problem(request: HttpRequest) -> str | None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        return "invalid_request"
    try:
        form = parse_qsl(request.body.decode("ascii"), keep_blank_values=True)
    except UnicodeDecodeError:
        return "invalid_request"
    grants = [value for name, value in form if name == "grant_type"]
    if len(grants) != 1:
        return "invalid_request"
    return None if grants == ["client_credentials"] else "unsupported_grant_type"


DEFAULT_LIMIT: Final = 25
MOST_ROWS: Final = 1000

_LIMIT_DIGITS: Final = 4
_BOUNDS: Final = ("updated_after", "updated_before")
_LIST_NAMES: Final = frozenset((*_BOUNDS, "limit", "application_reference_id"))


@frozen(kw_only=True)
class ListQuestion:
    """What a list request asks for (contract section 4.1)."""

    after: int | None
    """``updated_after`` in service seconds, None if unset."""
    before: int | None
    """``updated_before`` in service seconds, None if unset."""
    limit: int
    """Most rows to return."""
    reference: str | None
    """The one reference to select, None for all."""


def _parameters(query: str, known: frozenset[str]) -> dict[str, str] | Refused:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        if query:
            return Refused(parameter="query", reason="must be name=value pairs in UTF-8")
        pairs = []
    for name, _ in pairs:
        if name not in known:
            return Refused(parameter="query", reason=f"may hold {', '.join(sorted(known))}")
    found = dict(pairs)
    if len(found) < len(pairs):
        return Refused(parameter="query", reason="must name each parameter once")
    return found


def _limit(found: Mapping[str, str]) -> int | Refused:
    text = found.get("limit", str(DEFAULT_LIMIT))
    digits = text.isascii() and text.isdecimal() and len(text) <= _LIMIT_DIGITS
    if not digits or not 1 <= int(text) <= MOST_ROWS:
        return Refused(parameter="limit", reason=f"must be an integer from 1 to {MOST_ROWS}")
    return int(text)


def read_list_question(query: str) -> ListQuestion | Refused:
    """Read the raw query of a list request.

    Args:
        query: raw, without the question mark.
    """
    found = _parameters(query, _LIST_NAMES)
    if isinstance(found, Refused):
        return found
    limit = _limit(found)
    if isinstance(limit, Refused):
        return limit
    bounds: dict[str, int | None] = dict.fromkeys(_BOUNDS)
    for name in _BOUNDS:
        if name in found:
            bounds[name] = parse_bound(found[name])
            if bounds[name] is None:
                return Refused(parameter=name, reason="must be YYYY-mm-dd or YYYY-mm-ddTHH:MM:SS")
    return ListQuestion(
        after=bounds["updated_after"],
        before=bounds["updated_before"],
        limit=limit,
        reference=found.get("application_reference_id"),
    )


def read_pages(query: str) -> bool | Refused:
    """Read the raw query of a documents request (contract section 4.3).

    Args:
        query: raw, without the question mark.
    """
    found = _parameters(query, frozenset({"pages"}))
    if isinstance(found, Refused):
        return found
    match found.get("pages", "false"):
        case "true":
            return True
        case "false":
            return False
        case _:
            return Refused(parameter="pages", reason="must be true or false")


_APPLICATIONS: Final = "/v1/income/applications"
_INDEX: Final = (
    b"<!doctype html><title>Income emulator</title><h1>Income emulator</h1>"
    b"<p>Every applicant, employer, amount and document here is invented. "
    b"This is a tool for tests; it holds nobody's data.</p>"
)


class Call(enum.Enum):
    """What a path asks for."""

    LIST_APPLICATIONS = "list_applications"
    GET_APPLICATION = "get_application"
    GET_DOCUMENTS = "get_documents"
    TOKEN = "token"  # noqa: S105 - the name of a call
    FILE = "file"
    INDEX = "index"
    CONTROL = "control"
    UNKNOWN = "unknown"


def call_of(path: str) -> Call:
    """Return what a raw path asks for, on either host."""
    if path == _APPLICATIONS:
        return Call.LIST_APPLICATIONS
    if path.startswith(f"{_APPLICATIONS}/"):
        _, *rest = path.removeprefix(f"{_APPLICATIONS}/").split("/")
        match rest:
            case []:
                return Call.GET_APPLICATION
            case ["documents"]:
                return Call.GET_DOCUMENTS
            case _:
                return Call.UNKNOWN
    if path.startswith("/documents/"):
        return Call.FILE
    known = {"/token": Call.TOKEN, "/": Call.INDEX, CONTROL_PATH: Call.CONTROL}
    return known.get(path, Call.UNKNOWN)


def _refusal(refused: Refused) -> HttpReply:
    message = f"{refused.parameter} {refused.reason}"
    return json_reply(400, {"error": "invalid_parameter", "message": message})


def _not_found(message: str) -> HttpReply:
    return json_reply(404, {"error": "not_found", "message": message})


class Service:
    """An income-verification service over an invented world.

    Args:
        world: its applications, its present second and its rules.

    Attributes:
        world: as given.
        basic: user name and password that it accepts.
        oauth2: client id and secret that it sells tokens to.
        mint: maker of its tokens.
        storage: the host of its files.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.basic: BasicAuth = BasicAuth("emulator-user", f"invented-password-{world.seed}")
        self.oauth2: OAuth2ClientCredentials = OAuth2ClientCredentials(
            "emulator-client", f"invented-secret-{world.seed}"
        )
        self.mint: TokenMint = TokenMint(world.seed)
        self.storage: FileStorage = FileStorage(world, self._papers)
        self._gate = Gate(basic=self.basic, oauth2=self.oauth2, mint=self.mint)
        self._replies = 0
        self._case = lru_cache(maxsize=2048)(self._compose)
        self._application = lru_cache(maxsize=2048)(self._write_application)
        self._documents = lru_cache(maxsize=2048)(self._write_documents)

    @property
    def signer(self) -> AddressSigner:
        """Maker of its download addresses."""
        return self.storage.signer

    @property
    def files_url(self) -> str:
        """Where the host of its files is."""
        return self.storage.urls[Region.FIRST]

    @files_url.setter
    def files_url(self, url: str) -> None:
        self.storage.urls[Region.FIRST] = url

    def respond(self, request: HttpRequest) -> HttpReply:
        """Return the answer to a request to the API or to the token endpoint."""
        if not is_loopback(request.headers.get("host", "")):
            reply = json_reply(421, {"error": "misdirected_request"})
        else:
            reply = self._routed(request, call_of(request.path))
        return self.stamped(reply)

    def order(self, request: HttpRequest) -> CallbackOrder | HttpReply:
        """Return which callback another process asks for, or the reply that refuses it.

        No part of the service: there are no other calls to an emulator as such.

        Args:
            request: as it came.
        """
        if not is_loopback(request.headers.get("host", "")):
            return json_reply(421, {"error": "misdirected_request"})
        if "origin" in request.headers:
            # A page in a browser; the invented credentials are no secret to it.
            return json_reply(403, {"error": "forbidden"})
        if request.method != "POST":
            return json_reply(405, {"error": "method_not_allowed"}, Allow="POST")
        refusal = self._gate.refusal(request, now=self.world.now)
        if refusal is not None:
            return refusal
        return read_order(request.body) or json_reply(400, {"error": "invalid_order"})

    def respond_file(self, request: HttpRequest, region: Region = Region.FIRST) -> HttpReply:
        """Return the answer to a request to the host of document files.

        Args:
            request: as it came.
            region: which of its regions it came to.
        """
        if not is_loopback(request.headers.get("host", "")):
            reply = storage_error(421, "MisdirectedRequest", "Only this machine is served.")
        else:
            reply = self.storage.respond(request, region)
        return self.stamped(reply)

    def stamped(self, reply: HttpReply) -> HttpReply:
        """Return a reply with service time and a request id, where it has none of its own."""
        self._replies += 1
        headers = {
            "Date": http_date(self.world.now + self.world.rules.clock_offset),
            "Server": "income-emulator",
            "X-Request-Id": f"req-{self._replies:08x}",
            **reply.headers,
        }
        return evolve(reply, headers=headers)

    def _routed(self, request: HttpRequest, call: Call) -> HttpReply:
        if call in (Call.FILE, Call.CONTROL, Call.UNKNOWN):
            return _not_found("no such path")
        method = "POST" if call is Call.TOKEN else "GET"
        if request.method != method:
            return json_reply(405, {"error": "method_not_allowed"}, Allow=method)
        if call is Call.TOKEN:
            lifetime = self.world.rules.token_lifetime
            return self._gate.token_reply(request, now=self.world.now, lifetime=lifetime)
        if call is Call.INDEX:
            return HttpReply(status=200, headers={"Content-Type": "text/html"}, body=_INDEX)
        refusal = self._gate.refusal(request, now=self.world.now)
        return refusal or self._api(request, call)

    def _api(self, request: HttpRequest, call: Call) -> HttpReply:
        if call is Call.LIST_APPLICATIONS:
            return self._list(request.query)
        application_id = unquote(request.path.removeprefix(f"{_APPLICATIONS}/").split("/")[0])
        number = self.world.number_of(application_id)
        if number is None:
            return _not_found("no application has this id")
        if call is Call.GET_DOCUMENTS:
            return self._documents_reply(request.query, number)
        body = self._application(number, self.world.history(number).version)
        return HttpReply(status=200, headers={"Content-Type": "application/json"}, body=body)

    def _list(self, query: str) -> HttpReply:
        question = read_list_question(query)
        if isinstance(question, Refused):
            return _refusal(question)
        found = self._rows(question)
        if isinstance(found, Refused):
            return _refusal(found)
        rows = ",".join(map(self._row, found.numbers))
        body = (
            f'{{"updated_after":"{stamp(found.window.after)}",'
            f'"updated_before":"{stamp(found.window.before)}","applications":[{rows}]}}'
        )
        return HttpReply(
            status=200, headers={"Content-Type": "application/json"}, body=body.encode()
        )

    def _rows(self, question: ListQuestion) -> Selection | Refused:
        world, after, before = self.world, question.after, question.before
        if question.reference is None:
            return select_rows(world, world.rules, after=after, before=before, limit=question.limit)
        window = applied_window(world.rules, after=after, before=before, now=world.now)
        if isinstance(window, Refused):
            return window
        number = world.number_by_reference(question.reference)
        found = number is not None and self._is_within(window, question, number)
        return Selection(window=window, numbers=(number,) if found and number is not None else ())

    def _is_within(self, window: AppliedWindow, question: ListQuestion, number: int) -> bool:
        # A reference is unique, so that bounds narrow it only where they are given.
        second, rules = self.world.listed_second(number), self.world.rules
        low = second - window.after if question.after is not None else 1
        high = window.before - second if question.before is not None else 1
        return low >= (not rules.lower_closed) and high >= (not rules.upper_closed)

    def _row(self, number: int) -> str:
        world = self.world
        return (
            f'{{"application_id":"{world.id_of(number)}",'
            f'"application_reference_id":"{world.reference_of(number)}",'
            f'"application_date":"{stamp(world.applied_at(number))}"}}'
        )

    def _documents_reply(self, query: str, number: int) -> HttpReply:
        pages = read_pages(query)
        if isinstance(pages, Refused):
            return _refusal(pages)
        template = self._documents(number, self.world.history(number).version, pages)
        addresses = map(self.storage.address, template.papers)
        return HttpReply(
            status=200,
            headers={"Content-Type": "application/json"},
            body=template.fill(addresses),
        )

    def _papers(self, number: int) -> tuple[Paper, ...]:
        return self._case(number, self.world.history(number).version).papers

    def _compose(self, number: int, version: int) -> Case:
        world = self.world
        return compose_case(
            Seed(
                seed=world.seed,
                number=number,
                version=version,
                application_id=world.id_of(number),
                reference=world.reference_of(number),
                applied=world.applied_at(number),
                first=world.history(number).first,
                updated=world.updated_second(number),
            )
        )

    def _write_application(self, number: int, version: int) -> bytes:
        return application_body(self._case(number, version))

    def _write_documents(self, number: int, version: int, pages: bool) -> DocumentsTemplate:
        return documents_template(self._case(number, version), pages=pages)


def respond(service: Service, request: HttpRequest) -> HttpReply:
    """Return the answer to a request to the API: the emulator's whole meaning in one pure step.

    Args:
        service: whose answer it is.
        request: as it came.
    """
    return service.respond(request)
