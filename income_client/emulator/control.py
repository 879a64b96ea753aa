"""Control of an emulator over HTTP: what other processes, in any language, ask it to do.

All of it is below ``/emulator/`` and is JSON, both ways. ``GET /emulator/`` lists the calls with
their parameters; `ROUTES` is that list. The names of fields are the service's where it has one.

- A time is service time, ``YYYY-MM-DDTHH:MM:SS``; a duration has its unit in its name.
- A success is 200, or 201 where something was added; its body is always an object.
- An error is 400 (wrong parameter or body), 401 or 403 (who may control it: `access`), 404 (no
  such path, application or document), 405, 409 (a callback without a target), 413 (more than
  1 MiB), 415 (a body as a web form sends it), 421 (``Host``), 431 (more than 32 KiB of header
  fields) or 503 (too many streams). Its body is ``{"error": "a_code", "message": "A sentence."}``;
  programs read the code only.
- A body has ``Content-Type: application/json``, and no fields but those that are listed.
- Lists are read piece by piece: ``/emulator/requests`` behind a number (``after``), the
  applications from a place (``offset``). ``next`` is what to ask for next.

The forms of what is returned: `journal.JournalEntry` for a request, ``state_of`` for the state,
`callbacks.CallbackDelivery` for a callback. The journal never holds a secret, a token, a signed
address or a body, and neither does any other reply.

``GET /emulator/events`` is the journal as server-sent events. An event ``request`` has a
`journal.JournalEntry` as its data and its number as its id, so that a browser resumes behind the
``Last-Event-ID`` that it had; ``?after=N`` does the same, and ``after=0`` begins with the oldest
that is kept. An event ``reset`` says that the journal was cleared.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from http import HTTPStatus
from typing import Annotated, Any, Final, Protocol, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from attrs import asdict, frozen

from income_client.errors import ConfigurationError
from income_client.settings import BasicAuth, OAuth2ClientCredentials

from .access import SECURITY_HEADERS
from .api import MOST_ROWS, USUAL_ROWS, Service
from .callback_orders import CallbackOrder
from .callbacks import CallbackDelivery, CallbackTarget
from .event_streams import EventStream, EventStreams
from .exchange import HttpReply, HttpRequest, RefusedError, error_reply, json_reply
from .fault_player import Faults
from .faults import Fault
from .journal import Journal
from .service_rules import ServiceRules, changed_rules
from .times import parse_bound, stamp
from .world import Contents, World

T = TypeVar("T")
Answer: TypeAlias = HttpReply | EventStream

_USUAL_LIMIT: Final = 100
_MOST_LISTED: Final = 1000
_USUAL_BUCKETS: Final = 60
_MOST_BUCKETS: Final = 1000
_MOST_FAULTS: Final = 1000
_LONGEST_NUMBER: Final = 15
_LONGEST_ADVANCE: Final = 100 * 366 * 86_400
"""Seconds: a hundred years, so that service time stays a time that can be written."""
_SIMPLE_TYPES: Final = frozenset(
    {"", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}
)
"""What a page of another origin can send without asking first."""
_NULL: Final = msgspec.Raw(b"null")
_EXACT: Final = msgspec.json.Decoder(float_hook=Decimal)
_JSON: Final = msgspec.json.Encoder(decimal_format="number")


class Controlled(Protocol):
    """What of an `Emulator` is controlled."""

    faults: Faults
    journal: Journal
    url: str
    files_url: str
    max_in_flight: int
    token_requests: int
    basic: BasicAuth
    oauth2: OAuth2ClientCredentials
    world: World
    rules: ServiceRules

    @property
    def service(self) -> Service:
        """The service without sockets."""
        ...

    @property
    def seed(self) -> int:
        """What decides the invented data."""
        ...

    @property
    def time_flows(self) -> bool:
        """Whether service time passes by itself."""
        ...

    @property
    def in_flight(self) -> int:
        """API requests that are being answered."""
        ...

    @property
    def now(self) -> int:
        """The present service second."""
        ...

    @property
    def callbacks(self) -> CallbackTarget | None:
        """Where callbacks go."""
        ...

    def advance(self, seconds: float) -> None:
        """Move service time forward."""
        ...

    def touch(self, application_id: str) -> int:
        """Update an application."""
        ...

    def replace_file(self, document_id: str) -> None:
        """Put another file in the place of a document's."""
        ...

    def revoke_tokens(self) -> None:
        """Refuse all access tokens."""
        ...

    def reset(self) -> None:
        """Begin anew."""
        ...

    async def fire_callback(
        self, application_id: str | None = None, event_type: str | None = None, *, update: bool
    ) -> CallbackDelivery:
        """Send a callback."""
        ...


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    """A body with no fields but its own."""


class AdvanceBody(_Body):
    """Of ``POST /emulator/clock``."""

    advance_seconds: Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_ADVANCE)]


class FaultsBody(_Body):
    """Of ``POST /emulator/faults``."""

    faults: str


class ApplicationBody(_Body):
    """Of ``POST /emulator/applications``, and of ``PUT``, which ignores ``now``."""

    application: msgspec.Raw
    documents: msgspec.Raw = _NULL
    now: bool = False


class _NeededOfApplication(msgspec.Struct):
    """The fields that the emulator itself reads of an application response."""

    application_id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    application_reference_id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    application_date: str
    last_updated_at: str = ""


class _NeededOfDocument(msgspec.Struct):
    document_id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    url: str | None = None
    file_ids: list[str] = []
    file_reference_ids: list[str] = []


class _NeededOfDocuments(msgspec.Struct):
    documents: dict[str, list[_NeededOfDocument]]


@frozen
class Call:
    """One request to the control, taken to pieces."""

    request: HttpRequest
    name: str
    """The part of the path that names an application or a document."""
    parameters: Mapping[str, str]
    connection: asyncio.Transport | None


@frozen
class Route:
    """A path below ``/emulator/``, and what it does."""

    method: str
    path: str
    summary: str
    answer: Callable[["Control", Call], "Answer | Awaitable[Answer]"]
    query: Mapping[str, str] = {}
    body: Mapping[str, str] = {}

    @property
    def pattern(self) -> re.Pattern[str]:
        """What a path must be."""
        return re.compile(re.sub(r"\{\w+\}", r"(?P<name>[^/]+)", self.path))


class Control:
    """Answers the calls that control an emulator.

    Args:
        emulator: what is controlled.
        streams: the readers of its journal.
    """

    def __init__(self, emulator: Controlled, streams: EventStreams) -> None:
        self._emulator = emulator
        self._streams = streams

    async def answer(self, request: HttpRequest, connection: asyncio.Transport | None) -> Answer:
        """Answer a request from somebody who may control it."""
        try:
            route, name = _route_of(request)
            _check_body(request, route)
            parameters = _read_query(request.query, route.query)
            answer = route.answer(self, Call(request, name, parameters, connection))
            return await answer if isinstance(answer, Awaitable) else answer
        except RefusedError as refused:
            return refused.reply
        except ConfigurationError as error:
            return error_reply(HTTPStatus.BAD_REQUEST, "invalid_value", error.message)

    def index(self, _: Call) -> Answer:
        """List the calls."""
        calls = [
            {
                "method": route.method,
                "path": route.path,
                "summary": route.summary,
                "query": route.query,
                "body": route.body,
            }
            for route in ROUTES
        ]
        return json_reply(HTTPStatus.OK, {"calls": calls})

    def environment(self, call: Call) -> Answer:
        """Return the variables that lead a client here, with invented credentials."""
        oauth2 = self._emulator.oauth2
        content = {
            "INCOME_BASE_URL": f"http://{call.request.headers['host']}",
            "INCOME_CLIENT_ID": oauth2.client_id,
            "INCOME_CLIENT_SECRET": oauth2.client_secret.reveal(),
        }
        return json_reply(HTTPStatus.OK, content)

    def state(self, _: Call) -> Answer:
        """Return settings, clock and counts."""
        return json_reply(HTTPStatus.OK, state_of(self._emulator))

    def change_rules(self, call: Call) -> Answer:
        """Change single rules."""
        given = _decode(call.request.body, dict[str, Any])
        self._emulator.rules = changed_rules(self._emulator.rules, given)
        return self.rules(call)

    def rules(self, _: Call) -> Answer:
        """Return the rules."""
        return json_reply(HTTPStatus.OK, asdict(self._emulator.rules))

    def clock(self, _: Call) -> Answer:
        """Return service time."""
        return json_reply(HTTPStatus.OK, _clock_of(self._emulator))

    def advance(self, call: Call) -> Answer:
        """Move service time forward."""
        self._emulator.advance(_decode(call.request.body, AdvanceBody).advance_seconds)
        return self.clock(call)

    def applications(self, call: Call) -> Answer:
        """Return applications, the latest update first."""
        offset = _number_of(call, "offset", 0)
        limit = _number_of(call, "limit", _USUAL_LIMIT, least=1, most=_MOST_LISTED)
        found: list[dict[str, Any]] = []
        following = None
        for place, number in enumerate(
            self._emulator.world.search(call.parameters.get("search", ""))
        ):
            if place < offset:
                continue
            if len(found) == limit:
                following = place
                break
            found.append(_summary_of(self._emulator.world, number))
        content = {
            "applications": found,
            "total": len(self._emulator.world),
            "next": following,
        }
        return json_reply(HTTPStatus.OK, content)

    def application(self, call: Call) -> Answer:
        """Return one application, with its documents but without their signed addresses."""
        number = self._number_in(call)
        service = self._emulator.service
        content = {
            **_summary_of(self._emulator.world, number),
            "application": msgspec.Raw(service.application_body(number)),
            "documents": _documents_of(service.contents_of(number)),
        }
        return HttpReply(
            status=HTTPStatus.OK,
            headers={"Content-Type": "application/json"},
            body=_JSON.encode(content),
        )

    def add_application(self, call: Call) -> Answer:
        """Add an application."""
        body = _decode(call.request.body, ApplicationBody)
        application, documents = _contents_in(body)
        if body.now or "last_updated_at" not in application:
            application["last_updated_at"] = f"{stamp(self._emulator.now)}Z"
        world = self._emulator.world
        added = world.add(application, documents)
        number = world.number_of(added)
        content = {} if number is None else _summary_of(world, number)
        return json_reply(HTTPStatus.CREATED, content)

    def replace_application(self, call: Call) -> Answer:
        """Put another version in the place of an application that was added."""
        number = self._number_in(call)
        application, documents = _contents_in(_decode(call.request.body, ApplicationBody))
        if application["application_id"] != call.name:
            raise ConfigurationError("application_id differs from that in the path")
        application.setdefault("last_updated_at", f"{stamp(self._emulator.now)}Z")
        self._emulator.world.replace(application, documents)
        return json_reply(HTTPStatus.OK, _summary_of(self._emulator.world, number))

    def remove_application(self, call: Call) -> Answer:
        """Remove an application."""
        self._number_in(call)
        self._emulator.world.remove(call.name)
        return json_reply(HTTPStatus.OK, {"application_id": call.name})

    def touch(self, call: Call) -> Answer:
        """Update an application."""
        number = self._number_in(call)
        self._emulator.touch(call.name)
        return json_reply(HTTPStatus.OK, _summary_of(self._emulator.world, number))

    def replace_file(self, call: Call) -> Answer:
        """Put another file in the place of a document's."""
        try:
            self._emulator.replace_file(call.name)
        except ConfigurationError as error:
            raise _refused(HTTPStatus.NOT_FOUND, "no_such_document", error.message)
        return json_reply(HTTPStatus.OK, {"document_id": call.name})

    def requests(self, call: Call) -> Answer:
        """Return a piece of the journal."""
        journal = self._emulator.journal
        after = _number_of(call, "after", 0)
        entries = journal.after(
            after, _number_of(call, "limit", _USUAL_LIMIT, least=1, most=_MOST_LISTED)
        )
        content = {
            "requests": [asdict(entry) for entry in entries],
            "first": journal.first,
            "last": journal.last,
            "next": entries[-1].id if entries else min(after, journal.last),
        }
        return json_reply(HTTPStatus.OK, content)

    def clear_requests(self, _: Call) -> Answer:
        """Forget the journal."""
        self._emulator.journal.clear()
        return json_reply(HTTPStatus.OK, {"last": self._emulator.journal.last})

    def events(self, call: Call) -> Answer:
        """Return the journal as server-sent events."""
        if self._streams.is_full:
            raise _refused(
                HTTPStatus.SERVICE_UNAVAILABLE, "too_many_streams", "too many read events already"
            )
        # Of both, the header is the newer: a browser that reconnects asks for the same address.
        seen = call.request.headers.get("last-event-id") or call.parameters.get("after")
        after = None if seen is None else _whole_number("after, or Last-Event-ID,", seen)
        abort = call.connection.abort if call.connection is not None else lambda: None
        return EventStream(
            pieces=self._streams.pieces(after, abort),
            headers={**SECURITY_HEADERS, "Content-Type": "text/event-stream"},
        )

    def histogram(self, call: Call) -> Answer:
        """Return how many updates the list has, by time."""
        buckets = _number_of(call, "buckets", _USUAL_BUCKETS, least=1, most=_MOST_BUCKETS)
        world = self._emulator.world
        span = world.span() or (world.now, world.now)
        first = _second_in(call, "updated_after", span[0])
        end = _second_in(call, "updated_before", span[1] + 1)
        if end <= first:
            raise ConfigurationError("updated_before must lie behind updated_after")
        width = -(-(end - first) // buckets)
        counts = world.counts(first, width, -(-(end - first) // width))
        content = {
            "updated_after": stamp(first),
            "updated_before": stamp(end),
            "bucket_seconds": width,
            "rows": sum(counts),
            "buckets": [
                {"start": stamp(first + width * n), "rows": rows} for n, rows in enumerate(counts)
            ],
        }
        return json_reply(HTTPStatus.OK, content)

    def faults(self, _: Call) -> Answer:
        """Return the faults that are left."""
        return json_reply(HTTPStatus.OK, _faults_of(self._emulator.faults))

    def add_faults(self, call: Call) -> Answer:
        """Add faults behind those that are there."""
        faults = self._emulator.faults
        before = len(faults)
        if before >= _MOST_FAULTS:
            raise ConfigurationError(f"there are {_MOST_FAULTS} faults already")
        faults.add(_decode(call.request.body, FaultsBody).faults)
        if len(faults) == before:
            raise ConfigurationError("faults: it names no fault")
        return json_reply(HTTPStatus.CREATED, _faults_of(faults))

    def clear_faults(self, _: Call) -> Answer:
        """Forget all faults."""
        self._emulator.faults.clear()
        return json_reply(HTTPStatus.OK, _faults_of(self._emulator.faults))

    def revoke_tokens(self, _: Call) -> Answer:
        """Refuse the access tokens given out so far."""
        self._emulator.revoke_tokens()
        return json_reply(HTTPStatus.OK, {})

    async def fire_callback(self, call: Call) -> Answer:
        """Send a callback, and return what became of it."""
        try:
            order = msgspec.json.decode(call.request.body, type=CallbackOrder)
        except (ValueError, RecursionError) as error:
            raise _refused(HTTPStatus.BAD_REQUEST, "invalid_order", str(error))
        if self._emulator.callbacks is None:
            message = "the emulator has nowhere to send callbacks to; start it with --callbacks"
            raise _refused(HTTPStatus.CONFLICT, "no_callback_target", message)
        name = order.application_id
        if name is not None and self._emulator.world.number_of(name) is None:
            raise _no_such_application()
        delivery = await self._emulator.fire_callback(name, order.event_type, update=order.update)
        return json_reply(HTTPStatus.OK, _delivery_of(delivery))

    def reset(self, call: Call) -> Answer:
        """Begin anew."""
        self._emulator.reset()
        return self.state(call)

    def _number_in(self, call: Call) -> int:
        number = self._emulator.world.number_of(call.name)
        if number is None:
            raise _no_such_application()
        return number


_PAGED: Final = {"limit": f"most of them, {_USUAL_LIMIT} unless given, at most {_MOST_LISTED}"}
_APPLICATION: Final = {
    "application": "the content of the service's application response",
    "documents": "of its documents response; those without url have a file here; null for none",
}
_APPLICATIONS: Final = "/emulator/applications"
_ONE: Final = f"{_APPLICATIONS}/{{application_id}}"
_OPTIONS: Final = (
    "of emulate, --bounds is lower_closed and upper_closed, --expiry is url_lifetime, "
    "--file-size is file_bytes, and every other option has the name of its rule"
)
ROUTES: Final = (
    Route("GET", "/emulator/", "This list", Control.index),
    Route(
        "GET", "/emulator/environment", "Variables that lead a client here", Control.environment
    ),
    Route("GET", "/emulator/state", "Clock, counts, span of the data, rules", Control.state),
    Route("GET", "/emulator/rules", "How the service behaves", Control.rules),
    Route(
        "PATCH", "/emulator/rules", "Change single rules", Control.change_rules,
        body={"ANY_RULE": f"its value, as GET shows it; {_OPTIONS}"},
    ),
    Route("GET", "/emulator/clock", "Service time", Control.clock),
    Route(
        "POST", "/emulator/clock", "Move service time forward", Control.advance,
        body={"advance_seconds": "how far"},
    ),
    Route(
        "GET", _APPLICATIONS, "Applications, the latest update first", Control.applications,
        query={
            "search": "part of an id or of a reference",
            "offset": "how many to leave out first",
            **_PAGED,
        },
    ),
    Route(
        "POST", _APPLICATIONS, "Add an application", Control.add_application,
        body={**_APPLICATION, "now": "true: updated now; false: at its last_updated_at"},
    ),
    Route("GET", _ONE, "One application with its incomes and documents", Control.application),
    Route(
        "PUT", _ONE, "Replace an application that was added, as updated now",
        Control.replace_application, body=_APPLICATION,
    ),
    Route("DELETE", _ONE, "Remove an application", Control.remove_application),
    Route("POST", f"{_ONE}/touch", "Update an application: an amount changes", Control.touch),
    Route(
        "POST", "/emulator/documents/{document_id}/replace-file",
        "Put another file in the place of a document's", Control.replace_file,
    ),
    Route(
        "GET", "/emulator/requests", "The journal, the oldest first", Control.requests,
        query={"after": "the number behind which to begin, 0 unless given", **_PAGED},
    ),
    Route("DELETE", "/emulator/requests", "Forget the journal", Control.clear_requests),
    Route(
        "GET", "/emulator/events", "The journal as server-sent events", Control.events,
        query={"after": "the number behind which to begin; the next one unless given"},
    ),
    Route(
        "GET", "/emulator/histogram", "Number of updates in the list by time", Control.histogram,
        query={
            "buckets": f"most spans, {_USUAL_BUCKETS} unless given, at most {_MOST_BUCKETS}",
            "updated_after": "begin here, inclusive; with the first update unless given",
            "updated_before": "end here, exclusive; behind the last update unless given",
        },
    ),
    Route("GET", "/emulator/faults", "Faults that are left, in their order", Control.faults),
    Route(
        "POST", "/emulator/faults", "Add faults", Control.add_faults,
        body={"faults": "as in emulate --faults: 'any: 503 rate=20%; file: cut'"},
    ),
    Route("DELETE", "/emulator/faults", "Forget all faults", Control.clear_faults),
    Route("POST", "/emulator/tokens/revoke", "Refuse all access tokens", Control.revoke_tokens),
    Route(
        "POST", "/emulator/callbacks", "Send a callback", Control.fire_callback,
        body={
            "application_id": "what it is about; one after the other unless given",
            "event_type": "what has happened",
            "update": "true: the application changes first",
        },
    ),
    Route("POST", "/emulator/reset", "Begin anew, as when it was started", Control.reset),
)  # fmt: skip
"""Every call, in the order in which the index shows them."""
_PATTERNS: Final = tuple((route.pattern, route) for route in ROUTES)


def state_of(emulator: Controlled) -> dict[str, Any]:
    """Return the state of an emulator as ``GET /emulator/state`` shows it."""
    journal, faults, world = emulator.journal, emulator.faults, emulator.world
    clock = _clock_of(emulator)
    span = world.span()
    target = emulator.callbacks
    return {
        "clock": clock,
        "seed": emulator.seed,
        "url": emulator.url,
        "files_url": emulator.files_url,
        "applications": {
            "count": len(world),
            "first_update": None if span is None else stamp(span[0]),
            "last_update": None if span is None else stamp(span[1]),
        },
        "limits": {"usual": USUAL_ROWS, "maximum": MOST_ROWS},
        "requests": {
            "count": journal.by_call.total(),
            "by_call": dict(journal.by_call),
            "full_pages": journal.full_pages,
            "first": journal.first,
            "last": journal.last,
            "in_flight": emulator.in_flight,
            "max_in_flight": emulator.max_in_flight,
            "token_requests": emulator.token_requests,
        },
        "faults": {"count": len(faults), "played": dict(faults.played)},
        "callbacks_url": None if target is None else target.url.partition("?")[0],
        "rules": asdict(emulator.rules),
    }


def _clock_of(emulator: Controlled) -> dict[str, Any]:
    return {"service_time": stamp(emulator.now), "time_flows": emulator.time_flows}


def _summary_of(world: World, number: int) -> dict[str, Any]:
    return {
        "application_id": world.id_of(number),
        "application_reference_id": world.reference_of(number),
        "application_date": stamp(world.applied_at(number)),
        "updated_at": stamp(world.updated_second(number)),
        "updates": world.history(number).version,
        "added": world.added(number) is not None,
    }


def _documents_of(contents: Contents) -> dict[str, Any]:
    kinds = contents.documents["documents"].items()
    without = {
        kind: [{name: each[name] for name in each if name != "url"} for each in documents]
        for kind, documents in kinds
    }
    return {**contents.documents, "documents": without}


def _delivery_of(delivery: CallbackDelivery) -> dict[str, Any]:
    return {
        **asdict(delivery),
        "delivered": delivery.delivered,
        # The attempts as texts, for languages in which a list has one type.
        "answers": [str(each) for each in delivery.attempts],
    }


def _faults_of(faults: Faults) -> dict[str, Any]:
    left = [_fault_of(fault, skip, times) for fault, skip, times in faults.left()]
    return {"faults": left, "played": dict(faults.played)}


def _fault_of(fault: Fault, skip: int, times: int | None) -> dict[str, Any]:
    return {
        "kind": fault.kind,
        "status": fault.status,
        "call": fault.call,
        "application_id": fault.named,
        "rate": fault.rate,
        "seed": fault.seed,
        "after_seconds": fault.after,
        "seconds": fault.seconds,
        "requests_to_skip": skip,
        "requests_left": times,
    }


def _route_of(request: HttpRequest) -> tuple[Route, str]:
    path = "/emulator/" if request.path == "/emulator" else request.path
    found = [(route, match) for pattern, route in _PATTERNS if (match := pattern.fullmatch(path))]
    for route, match in found:
        if route.method == request.method:
            return route, unquote(match.groupdict().get("name", ""))
    if not found:
        raise _refused(HTTPStatus.NOT_FOUND, "no_such_path", "GET /emulator/ lists the paths")
    allowed = ", ".join(route.method for route, _ in found)
    message = f"this path takes {allowed}"
    raise RefusedError(error_reply(405, "method_not_allowed", message, Allow=allowed))


def _check_body(request: HttpRequest, route: Route) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.body and media_type in _SIMPLE_TYPES:
        message = "a body is sent with the header Content-Type: application/json"
        raise _refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not_json", message)
    if not route.body and request.body.strip() not in (b"", b"{}"):
        raise _refused(HTTPStatus.BAD_REQUEST, "invalid_body", "this call takes no body")


def _read_query(query: str, known: Mapping[str, str]) -> dict[str, str]:
    names = f"parameters are {', '.join(known)}" if known else "this call takes no parameters"
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict"
        )
    except ValueError:
        raise _bad_parameter("the query must be name=value pairs in UTF-8")
    found = dict(pairs)
    if not found.keys() <= known.keys():
        raise _bad_parameter(names)
    if len(found) < len(pairs):
        raise _bad_parameter("each parameter is given once")
    return found


def _number_of(
    call: Call, name: str, usual: int, *, least: int = 0, most: int | None = None
) -> int:
    text = call.parameters.get(name)
    return usual if text is None else _whole_number(name, text, least=least, most=most)


def _whole_number(name: str, text: str, *, least: int = 0, most: int | None = None) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER
    if not is_number or int(text) < least or (most is not None and int(text) > most):
        span = f"{least} or more" if most is None else f"{least} to {most}"
        raise _bad_parameter(f"{name} must be a whole number, {span}")
    return int(text)


def _second_in(call: Call, name: str, usual: int) -> int:
    text = call.parameters.get(name)
    second = usual if text is None else parse_bound(text)
    if second is None:
        raise _bad_parameter(f"{name} must be YYYY-mm-dd or YYYY-mm-ddTHH:MM:SS")
    return second


def _decode(body: bytes, form: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=form)
    except (ValueError, RecursionError) as error:
        raise _refused(HTTPStatus.BAD_REQUEST, "invalid_body", str(error))


def _contents_in(body: ApplicationBody) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return application and documents, of which the emulator can read what it needs."""
    application = _decode_part("application", body.application, _NeededOfApplication)
    if body.documents == _NULL:
        return application, None
    documents = _decode_part("documents", body.documents, _NeededOfDocuments)
    for name in ("application_id", "application_reference_id"):
        if documents.setdefault(name, application[name]) != application[name]:
            raise ConfigurationError(f"documents: {name} is that of another application")
    return application, documents


def _decode_part(name: str, content: msgspec.Raw, needed: type) -> dict[str, Any]:
    try:
        read = _EXACT.decode(content)
        msgspec.convert(read, needed)
    except (ValueError, RecursionError) as error:
        raise _refused(HTTPStatus.BAD_REQUEST, "invalid_body", f"{name}: {error}")
    return dict(read)


def _refused(status: HTTPStatus, code: str, message: str) -> RefusedError:
    return RefusedError(error_reply(status, code, message))


def _bad_parameter(message: str) -> RefusedError:
    return _refused(HTTPStatus.BAD_REQUEST, "invalid_parameter", message)


def _no_such_application() -> RefusedError:
    message = "the emulator has no application of this id"
    return _refused(HTTPStatus.NOT_FOUND, "no_such_application", message)
