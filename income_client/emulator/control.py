"""Control of an emulator: commands that other processes send over HTTP.

A command is a function of this module. Over HTTP it is ``GET /emulator/NAME`` if it only reads,
with its arguments in the query, and otherwise ``POST /emulator/NAME`` with a JSON object of its
arguments. ``GET /emulator/`` lists the commands. `remote.RemoteEmulator` has a method for each.

- The reply is 200, and its body is what the function returns, as JSON. A time is service time,
  ``YYYY-MM-DDTHH:MM:SS``; a duration has its unit in its name.
- An error is 400 (wrong arguments, or what the emulator cannot do), 401 or 403 (who may control
  it: `access`), 404 (no such command), 405, 413 (more than 1 MiB), 415 (a body as a web form
  sends it), 421 (``Host``) or 431 (more than 32 KiB of header fields). Its body is
  ``{"error": "a_code", "message": "A sentence."}``; programs read the code only.

No reply holds a secret, a token, a signed address or the body of a request, but for the invented
credentials that `environment` returns.
"""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from decimal import Decimal
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from attrs import asdict, frozen

from income_client.errors import ConfigurationError

from .api import CONTROL_PATH, Service, read_parameters
from .callbacks import USUAL_EVENT, CallbackDelivery
from .exchange import HttpReply, HttpRequest, RefusedError, error_reply, json_reply
from .journal import MOST_ENTRIES, JournalEntry
from .service_rules import ServiceRules, changed_rules
from .times import moment_of, second_of, stamp
from .world import World

Emulator: TypeAlias = Any
"""`emulator.Emulator`, which imports this module and so cannot be imported here."""

_LONGEST_ADVANCE: Final = 100 * 366 * 86_400
"""Seconds: a hundred years, so that service time stays within the years that can be written."""
_LARGEST: Final = 2**53
"""Largest whole number that every language reads exactly."""
_MOST_LISTED: Final = 1000
_MOST_BUCKETS: Final = 1000
_MOST_FAULTS: Final = 1000
_SIMPLE_TYPES: Final = frozenset(
    {"", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}
)
"""Media types that a page of another origin can send without asking first."""
_JSON: Final = msgspec.json.Encoder(decimal_format="number")

_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_ADVANCE)]
_Place: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]
_Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=_MOST_LISTED)]
_Entries: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MOST_ENTRIES)]
_Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=False)]
_Buckets: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=_MOST_BUCKETS)]
_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


@frozen(kw_only=True)
class EmulatorState:
    """The settings, the clock and the counts of an emulator."""

    url: str
    """Address of the API and of the token endpoint, as the emulator's own machine knows it."""
    files_url: str
    """Address of the host of document files, as the emulator's own machine knows it."""
    seed: int
    """Number that decides the invented data and credentials."""
    service_time: datetime
    """Present of the service, without zone."""
    time_flows: bool
    """Whether service time passes by itself."""
    applications: int
    """Number of applications."""
    last_update: datetime | None
    """Time of the latest update that the list shows; None if it shows none."""
    requests: dict[str, int]
    """Number of requests since the start or the last reset, by call."""
    full_pages: int
    """Number of full pages among the requests' replies."""
    first_request: int
    """Number of the oldest request that the journal keeps."""
    last_request: int
    """Number of the latest request."""
    in_flight: int
    """Number of API requests that are being answered."""
    max_in_flight: int
    """Largest number of API requests at the same time."""
    token_requests: int
    """Number of token requests, refused ones included."""
    faults: int
    """Number of faults that are left."""
    faults_played: dict[str, int]
    """Number of requests with a fault, by status or kind."""
    callbacks_url: str | None
    """URL of the callback endpoint, without the query; None if no callbacks are sent."""
    rules: ServiceRules
    """Behaviour of the service where the contract is silent."""


@frozen(kw_only=True)
class EmulatedApplication:
    """The facts of an application for those who control the emulator."""

    application_id: str
    """Id of the application."""
    application_reference_id: str
    """The partner's own reference."""
    application_date: datetime
    """Creation of the application, in service time."""
    updated_at: datetime
    """Last update of the application, in service time; the list may show it later."""
    updates: int
    """Number of the application's updates since the start or the last reset."""
    added: bool
    """Whether the application was added by a user, rather than invented."""


class _NeededOfApplication(msgspec.Struct):
    """The fields of an application response that the emulator itself reads."""

    application_id: _Name
    application_reference_id: _Name
    application_date: str
    last_updated_at: str = ""


class _NeededOfDocument(msgspec.Struct):
    document_id: _Name
    url: str | None = None
    file_ids: list[str] = []
    file_reference_ids: list[str] = []


class _NeededOfDocuments(msgspec.Struct):
    documents: dict[str, list[_NeededOfDocument]]


# Commands that read


async def state(emulator: Emulator) -> EmulatorState:
    """Return the settings, the clock and the counts."""
    journal, faults, target = emulator.journal, emulator.faults, emulator.callbacks
    world: World = emulator.world
    span = world.span()
    return EmulatorState(
        url=emulator.url,
        files_url=emulator.files_url,
        seed=emulator.seed,
        service_time=moment_of(emulator.now),
        time_flows=emulator.time_flows,
        applications=len(world),
        last_update=None if span is None else moment_of(span[1]),
        requests=dict(journal.by_call),
        full_pages=journal.full_pages,
        first_request=journal.first,
        last_request=journal.last,
        in_flight=emulator.in_flight,
        max_in_flight=emulator.max_in_flight,
        token_requests=emulator.token_requests,
        faults=len(faults),
        faults_played=dict(faults.played),
        callbacks_url=None if target is None else target.url.partition("?")[0],
        rules=emulator.rules,
    )


async def environment(emulator: Emulator) -> dict[str, str]:
    """Return the variables with which a client of the same machine reads this emulator."""
    return {
        "INCOME_BASE_URL": emulator.url,
        "INCOME_CLIENT_ID": emulator.oauth2.client_id,
        "INCOME_CLIENT_SECRET": emulator.oauth2.client_secret.reveal(),
    }


async def now(emulator: Emulator) -> datetime:
    """Return the present of the service, without zone."""
    return moment_of(emulator.now)


async def rules(emulator: Emulator) -> ServiceRules:
    """Return the emulator's rules for behaviour that the contract leaves open."""
    service_rules: ServiceRules = emulator.rules
    return service_rules


async def applications(
    emulator: Emulator, search: str = "", offset: _Place = 0, limit: _Limit = 100
) -> list[EmulatedApplication]:
    """Return applications, the latest update first.

    Args:
        search: part of the id or of the reference.
        offset: number of applications to leave out first.
        limit: most applications, 1000 at most.
    """
    world: World = emulator.world
    numbers = islice(world.search(search), offset, offset + limit)
    return [_application_of(world, number) for number in numbers]


async def application(emulator: Emulator, application_id: str) -> dict[str, Any]:
    """Return ``application_id`` as `applications` lists it, with the replies of the service.

    These are in ``application`` and ``documents``, without signed addresses.

    Raises:
        ConfigurationError: there is no such application.
    """
    service: Service = emulator.service
    number = service.world.number_or_error(application_id)
    contents = service.contents_of(number)
    documents = {
        kind: [{name: each[name] for name in each if name != "url"} for each in of_a_kind]
        for kind, of_a_kind in contents.documents["documents"].items()
    }
    return {
        **asdict(_application_of(service.world, number)),
        "application": msgspec.Raw(service.application_body(number)),
        "documents": {**contents.documents, "documents": documents},
    }


async def requests(
    emulator: Emulator, after: _Place = 0, limit: _Entries = MOST_ENTRIES
) -> list[JournalEntry]:
    """Return the requests to the service, the oldest first.

    Args:
        after: number of the request behind which to begin.
        limit: most requests; the last 10,000 are kept.
    """
    entries: list[JournalEntry] = emulator.journal.after(after, limit)
    return entries


async def histogram(
    emulator: Emulator,
    buckets: _Buckets = 60,
    updated_after: _Time | None = None,
    updated_before: _Time | None = None,
) -> dict[str, Any]:
    """Return the number of updates in the list, by time.

    Args:
        buckets: most spans of equal length, 1000 at most.
        updated_after: begin of the first span; the first update unless given.
        updated_before: end of the last span; behind the last update unless given.

    Raises:
        ConfigurationError: the end does not lie behind the begin.
    """
    world: World = emulator.world
    span = world.span() or (world.now, world.now)
    first = span[0] if updated_after is None else second_of(updated_after)
    end = span[1] + 1 if updated_before is None else second_of(updated_before)
    if end <= first:
        raise ConfigurationError("updated_before must lie behind updated_after")
    width = -(-(end - first) // buckets)
    return {
        "updated_after": stamp(first),
        "updated_before": stamp(end),
        "bucket_seconds": width,
        "rows": world.counts(first, width, -(-(end - first) // width)),
    }


async def faults(emulator: Emulator) -> list[dict[str, Any]]:
    """Return the remaining faults, each with the requests that it still skips or affects."""
    return [
        {
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
        for fault, skip, times in emulator.faults.left()
    ]


# Commands that change something


async def advance(emulator: Emulator, seconds: _Seconds) -> datetime:
    """Move service time forward by ``seconds``; tokens and URLs expire by service time.

    Returns:
        The present of the service, without zone.

    Raises:
        ConfigurationError: that would be backward.
    """
    emulator.advance(seconds)
    return moment_of(emulator.now)


async def change_rules(emulator: Emulator, rules: Mapping[str, Any]) -> ServiceRules:
    """Change single rules of the service, and return all rules.

    Args:
        rules: values of fields of `ServiceRules`, by their names. Options of ``income-client
            emulate`` have the same names, but ``--bounds`` is ``lower_closed`` and
            ``upper_closed``, ``--expiry`` is ``url_lifetime``, ``--file-size`` is ``file_bytes``.

    Raises:
        ConfigurationError: there is no such rule, or a value is invalid.
    """
    changed = emulator.rules = changed_rules(emulator.rules, rules)
    return changed


async def add(
    emulator: Emulator,
    application: Mapping[str, Any],
    documents: Mapping[str, Any] | None = None,
    *,
    now: bool = False,
) -> EmulatedApplication:
    """Add an application, which is served as it is given.

    Args:
        application: the content of the application response (contract section 2.2).
        documents: the content of the documents response (contract section 2.3); no documents
            unless given. Documents without ``url`` have a file here.
        now: whether it was updated just now, and not at its ``last_updated_at``.

    Raises:
        ConfigurationError: its id or reference is taken, ``last_updated_at`` lies in the future,
            or a field that the service needs is missing or invalid.
    """
    world: World = emulator.world
    read, documents = _checked(application, documents)
    if now or "last_updated_at" not in read:
        read["last_updated_at"] = f"{stamp(emulator.now)}Z"
    number = world.number_or_error(world.add(read, documents))
    return _application_of(world, number)


async def replace(
    emulator: Emulator, application: Mapping[str, Any], documents: Mapping[str, Any] | None = None
) -> EmulatedApplication:
    """Replace an added application by another version, which is updated now.

    Args:
        application: the new version, as in `add`.
        documents: its documents, as in `add`.

    Raises:
        ConfigurationError: no application of this id was added, its reference differs, or a
            field is missing or invalid.
    """
    world: World = emulator.world
    read, documents = _checked(application, documents)
    read.setdefault("last_updated_at", f"{stamp(emulator.now)}Z")
    world.replace(read, documents)
    return _application_of(world, world.number_or_error(read["application_id"]))


async def remove(emulator: Emulator, application_id: str) -> None:
    """Remove the application ``application_id``: it is not listed, and reading it is 404.

    Raises:
        ConfigurationError: there is no such application.
    """
    emulator.world.remove(application_id)


async def touch(emulator: Emulator, application_id: str) -> EmulatedApplication:
    """Update the application ``application_id``: an amount and its place in the list change.

    Raises:
        ConfigurationError: there is no such application.
    """
    emulator.touch(application_id)
    world: World = emulator.world
    return _application_of(world, world.number_or_error(application_id))


async def replace_file(emulator: Emulator, document_id: str) -> None:
    """Replace the file of the document ``document_id``; its URLs stay valid.

    Raises:
        ConfigurationError: there is no such document.
    """
    emulator.replace_file(document_id)


async def revoke_tokens(emulator: Emulator) -> None:
    """Refuse every access token given out so far with 401."""
    emulator.revoke_tokens()


async def add_faults(emulator: Emulator, faults: str) -> None:
    """Add faults after the existing faults; their time begins now.

    Args:
        faults: text as in `income_client.testing.script`, such as ``any: 503 rate=20%``.

    Raises:
        ConfigurationError: the text cannot be read or names no fault, or there are 1000 already.
    """
    before = len(emulator.faults)
    if before >= _MOST_FAULTS:
        raise ConfigurationError(f"there are {_MOST_FAULTS} faults already")
    emulator.faults.add(faults)
    if len(emulator.faults) == before:
        raise ConfigurationError("faults: the text names no fault")


async def clear_faults(emulator: Emulator) -> None:
    """Forget all faults."""
    emulator.faults.clear()


async def clear_requests(emulator: Emulator) -> None:
    """Forget all requests; their numbers continue."""
    emulator.journal.clear()


async def fire_callback(
    emulator: Emulator,
    application_id: str | None = None,
    event_type: str | None = USUAL_EVENT,
    *,
    update: bool = False,
) -> CallbackDelivery:
    """Send a callback to the emulator's callback endpoint (contract sections 5.2 and 6).

    Args:
        application_id: what it is about; one after the other unless given.
        event_type: what it says has happened; None to leave it out.
        update: whether the application changes first, as `touch` does it.

    Returns:
        What became of it, attempt by attempt.

    Raises:
        ConfigurationError: callbacks go nowhere, or there is no such application.
    """
    delivery: CallbackDelivery = await emulator.fire_callback(
        application_id, event_type, update=update
    )
    return delivery


async def reset(emulator: Emulator) -> None:
    """Return to the state after the start: no faults, no requests, unchanged data."""
    emulator.reset()


def _application_of(world: World, number: int) -> EmulatedApplication:
    return EmulatedApplication(
        application_id=world.id_of(number),
        application_reference_id=world.reference_of(number),
        application_date=moment_of(world.applied_at(number)),
        updated_at=moment_of(world.updated_second(number)),
        updates=world.history(number).version,
        added=world.added(number) is not None,
    )


def _checked(
    application: Mapping[str, Any], documents: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return copies of both contents, after a check of the fields that the emulator reads."""
    try:
        msgspec.convert(application, _NeededOfApplication)
        if documents is None:
            return dict(application), None
        msgspec.convert(documents, _NeededOfDocuments)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"an application cannot be served: {error}") from None
    ids = {name: application[name] for name in ("application_id", "application_reference_id")}
    documents = {**ids, **documents}
    for name, text in ids.items():
        if documents[name] != text:
            raise ConfigurationError(f"documents: {name} is that of another application")
    return dict(application), documents


# Commands over HTTP


@frozen
class Command:
    """A command, and how it is sent over HTTP."""

    function: Callable[..., Coroutine[Any, Any, Any]]
    """Coroutine function that carries out the command, with the emulator and its arguments."""
    method: str
    """HTTP method."""
    arguments: type[msgspec.Struct]
    """Types of the command's arguments."""

    @classmethod
    def of(cls, method: str, function: Callable[..., Coroutine[Any, Any, Any]]) -> "Command":
        """Return the command for a function."""
        _, *parameters = inspect.signature(function).parameters.values()
        fields = [
            (each.name, each.annotation)
            if each.default is each.empty
            else (each.name, each.annotation, each.default)
            for each in parameters
        ]
        form = msgspec.defstruct(
            function.__name__, fields, kw_only=True, forbid_unknown_fields=True
        )
        return cls(function, method, form)

    def read(self, request: HttpRequest) -> dict[str, Any]:
        """Return the arguments in a request."""
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.body and media_type in _SIMPLE_TYPES:
            message = "a body is sent with the header Content-Type: application/json"
            raise RefusedError(error_reply(415, "not_json", message))
        try:
            if self.method == "GET":
                parameters = read_parameters(request.query, self.arguments.__struct_fields__)
                arguments = msgspec.convert(parameters, self.arguments, strict=False)
            else:
                # Amounts of applications that are added keep their digits.
                decoder = msgspec.json.Decoder(self.arguments, float_hook=Decimal)
                arguments = decoder.decode(request.body or b"{}")
        except (ValueError, ArithmeticError, RecursionError) as error:
            # An exponent that no Decimal can hold is an ArithmeticError without a text.
            text = str(error) if isinstance(error, ValueError) else "it cannot be read"
            raise RefusedError(error_reply(400, "invalid_arguments", text)) from None
        return msgspec.structs.asdict(arguments)


COMMANDS: Final[Mapping[str, Command]] = {
    function.__name__: Command.of(method, function)
    for method, functions in {
        "GET": (
            state, environment, now, rules, applications, application, requests, histogram, faults,
        ),
        "POST": (
            advance, change_rules, add, replace, remove, touch, replace_file, revoke_tokens,
            add_faults, clear_faults, clear_requests, fire_callback, reset,
        ),
    }.items()
    for function in functions
}  # fmt: skip
"""Every command by its name."""


async def answer(emulator: Emulator, request: HttpRequest) -> HttpReply:
    """Return the answer to an allowed command."""
    name = request.path.removeprefix(CONTROL_PATH).removeprefix("/")
    command = _INDEX if name == "" else COMMANDS.get(name)
    if command is None:
        message = f"GET {CONTROL_PATH}/ lists the commands"
        return error_reply(HTTPStatus.NOT_FOUND, "no_such_command", message)
    if request.method != command.method:
        message = f"this command takes {command.method}"
        return error_reply(405, "method_not_allowed", message, Allow=command.method)
    try:
        result = await command.function(emulator, **command.read(request))
    except RefusedError as refused:
        return refused.reply
    except ConfigurationError as error:
        return error_reply(HTTPStatus.BAD_REQUEST, "invalid_value", error.message)
    return json_reply(HTTPStatus.OK, msgspec.Raw(_JSON.encode(result)))


async def _list_commands(_: Emulator) -> dict[str, Any]:
    commands = [
        {
            "method": command.method,
            "path": f"{CONTROL_PATH}/{name}",
            "arguments": command.arguments.__struct_fields__,
            "about": inspect.getdoc(command.function),
        }
        for name, command in COMMANDS.items()
    ]
    return {"commands": commands}


_INDEX: Final = Command.of("GET", _list_commands)
