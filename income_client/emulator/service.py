"""The emulated service as pure functions from request to reply; its time is the world's.

Knows the paths and the JSON of the contract; refuses to know sockets, and
imports none of the package's own wire rules.
"""

import enum
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from attrs import evolve

from income_client.settings import BasicAuth, OAuth2ClientCredentials

from .callback_orders import CONTROL_PATH, CallbackOrder, read_order
from .cases import Case, Paper, Seed, compose_case
from .content import DocumentsTemplate, application_body, documents_template
from .exchange import HttpReply, HttpRequest
from .files import storage_error
from .gate import Gate, is_loopback, json_reply
from .listing import AppliedWindow, Refused, Selection, applied_window, select_rows
from .questions import ListQuestion, read_list_question, read_pages
from .seconds import http_date, stamp
from .signing import AddressSigner, Region
from .storage import FileStorage
from .tokens import TokenMint
from .world import World

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
