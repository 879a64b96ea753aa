"""Calls leak nothing private, however they end: every public call, and every fault.

What is looked for is in secrets, tokens, signed addresses, names, SSNs and bodies. Where it is
looked for: in errors with all that hangs on them, results, events, logs, warnings, output, files.
"""

import asyncio
import base64
import gc
import inspect
import json
import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final, NoReturn, cast
from urllib.parse import parse_qsl

import pytest
from attrs import evolve, frozen
from nats.js.api import StorageType, StreamConfig

from income_client import (
    Application,
    ApplicationRecord,
    BasicAuth,
    ConfigurationError,
    DecodeError,
    Document,
    IncomeClient,
    IncomeClientError,
    MemoryCheckpointStore,
    OAuth2ClientCredentials,
    RetryPolicy,
    Secret,
    SQLiteCheckpointStore,
    StoredToken,
    SyncIncomeClient,
    Timeouts,
    from_json,
    to_json,
)
from income_client.emulator import CallbackTarget, RemoteEmulator
from income_client.engines.nats import NatsCheckpointStore, NatsTokenStore, nats_publisher
from income_client.engines.relay import UpdateEvent, faststream_publisher, relay
from income_client.exporting import ParquetTables
from income_client.http.endpoints import ListFilter, Response, list_applications
from income_client.receivers import (
    CallbackBasicAuth,
    CallbackBearerAuth,
    CallbackReceiver,
    CallbackTokenIssuer,
    RequestHead,
)
from income_client.receivers.adapters import endpoint_of
from income_client.receivers.asgi import Receiver
from income_client.receivers.tls import callback_ssl_context
from income_client.settings import Auth
from income_client.testing import JumpingClock, make_document
from tests.support.canaries import CANARY, held_by, private_in
from tests.support.clients import HERE, client_reading
from tests.support.clocks import pass_time, silence, stay_silent
from tests.support.payloads import APPLICATION, DOCUMENTS, PAGE
from tests.support.server import (
    HUNG_UP,
    SILENT,
    Answer,
    Reply,
    Request,
    ScriptedServer,
    in_turn,
    json_reply,
    reply,
    token_reply,
    token_rules,
)
from tests.support.service import served as emulated

OAUTH: Final = OAuth2ClientCredentials("partner", f"{CANARY}-client-secret")
BASIC: Final = BasicAuth("user", f"{CANARY}-password")
TOKEN: Final = f"{CANARY}-token"


@pytest.fixture(autouse=True)
def _at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    """Let the watch over all tests see what any library logs."""
    caplog.set_level(logging.DEBUG)


# Calls of a client


@frozen
class Place:
    """A client of a scripted server, and what a call may need."""

    client: IncomeClient
    folder: Path
    document: Document
    """One whose file is on the server."""
    events: list[object]

    def kept(self) -> str:
        """Return all that is in files."""
        files = [one for one in sorted(self.folder.rglob("*")) if one.is_file()]
        return "".join(one.read_bytes().decode("latin-1") for one in files if one.suffix == ".db")


async def all_of(results: AsyncIterable[object]) -> list[object]:
    """Iterate to the end."""
    return [one async for one in results]


async def polled(at: Place) -> object:
    """Poll once."""
    store = SQLiteCheckpointStore(at.folder / "polls.db")
    poller = at.client.poll(store, start="2024-01-01", once=True)
    at.events.append(dict(vars(poller)))
    delivered: list[object] = []
    async for batch in poller.batches():
        async with batch:
            delivered += [batch, batch.checkpoint, *batch]
    return delivered, poller.status, await store.dead_letters("default")


Call = Callable[[Place], Awaitable[object]]
CALLS: Final[dict[str, Call]] = {
    "check": lambda at: at.client.check(),
    "service_time": lambda at: at.client.service_time(),
    "page": lambda at: at.client.get_application_page(application_reference_id=f"{CANARY}-loan"),
    "find": lambda at: at.client.find_application("loan-1"),
    "application": lambda at: at.client.get_application("app-1"),
    "documents": lambda at: at.client.get_documents("app-1"),
    "json": lambda at: at.client.get_json("/v1/reports", {"ssn": CANARY}),
    "list": lambda at: all_of(at.client.list_applications("2024-01-01", "2024-02-01")),
    "pages": lambda at: all_of(at.client.list_applications("2024-01-01", "2024-02-01").pages()),
    "records": lambda at: all_of(at.client.fetch_records(["app-1", "app-1"])),
    "yielded": lambda at: all_of(at.client.fetch_records(["app-1"], on_error="yield")),
    "all documents": lambda at: all_of(at.client.fetch_documents(["app-1"])),
    "poll": polled,
    "download": lambda at: at.client.download(
        at.document, at.folder / "slip", on_progress=at.events.append
    ),
    "downloads": lambda at: all_of(at.client.download_all([at.document], at.folder)),
    "downloads yielded": lambda at: all_of(
        at.client.download_all([at.document], at.folder, on_error="yield")
    ),
}


FILES: Final = frozenset({"download", "downloads", "downloads yielded"})
YIELDING: Final = frozenset({"yielded", "downloads yielded"})
OF_EACH_KIND: Final = ("check", "list", "poll", "records")
"""A request, an iterator, a poller, and many requests at once: all ask for tokens in one place."""


@asynccontextmanager
async def place(answer: Answer, folder: Path, **options: Any) -> AsyncIterator[Place]:
    """Run a server and a client of it."""
    events: list[object] = []
    async with ScriptedServer(answer) as server:
        usual: dict[str, Any] = {
            "auth": OAUTH,
            "clock": JumpingClock(),
            "retry": RetryPolicy(max_attempts=2),
            "timeouts": Timeouts(read=30, deadline=10_000),
            "on_event": events.append,
            "downloads": evolve(HERE, max_bytes=10_000),
        }
        document = make_document(url=f"{server.url}/file?X-Amz-Signature={CANARY}")
        async with client_reading(10_000, server.url, **usual | options) as client:
            yield Place(client, folder, document, events)


async def error_of(call: str, at: Place) -> BaseException | None:
    """Make a call; return the error that it ends with, and which shows nothing private."""
    error: BaseException | None = None
    try:
        shown = repr(await CALLS[call](at))
    except (Exception, asyncio.CancelledError) as caught:  # noqa: BLE001 - looked at
        error, shown = caught, held_by(caught)
    assert private_in("\n".join([shown, repr(at), at.kept()])) is None, call
    return error


# Faults of the service

PRIVATE: Final[dict[str, object]] = {
    **{name: f"{CANARY}-{name}" for name in ("first_name", "last_name", "email", "employer_name")},
    **{name: f"{CANARY}-{name}" for name in ("street_address", "city", "file_reference_id")},
    **dict.fromkeys(("phone", "ssn", "zip"), "90817263002"),
    **dict.fromkeys(("calculated_income_amount", "current", "ytd"), 90817263.43),
    "date_of_birth": "1913-02-03",
    "url": f"https://{CANARY}.s3.amazonaws.com/a?X-Amz-Signature={CANARY}",
}


def poisoned(value: Any, key: str = "") -> Any:
    """Return JSON of the same shape whose private values are all known to the watch."""
    match value:
        case dict():
            return {name: poisoned(one, name) for name, one in value.items()}
        case list():
            return [poisoned(one, key) for one in value]
        case _:
            return PRIVATE.get(key, value) if value not in ("", None) else value


def encoded(value: Any) -> bytes:
    """Return JSON as it is sent."""
    return json.dumps(value).encode()


BODIES: Final = [encoded(poisoned(payload)) for payload in (PAGE, APPLICATION, DOCUMENTS)]
ECHO: Final[dict[str, Any]] = {
    "X_Echo": f"Bearer {TOKEN}",
    "Location": f"https://x.example/?key={CANARY}",
    "ETag": CANARY,
}


def served(page: bytes, application: bytes, documents: bytes) -> Answer:
    """Answer as a good service would, with these bodies; a page echoes the bounds asked for."""

    def answer(request: Request) -> Reply:
        if request.path == "/token":
            return token_reply(TOKEN)
        if request.path == "/v1/income/applications":
            body = json.loads(page) | {
                name: value
                for name, value in parse_qsl(request.query)
                if name.startswith("updated")
            }
            return json_reply(body, Date="Thu, 01 Feb 2024 00:00:00 GMT")
        return reply(body=documents if request.path.endswith("/documents") else application)

    return answer


GOOD: Final = served(*BODIES)
BODY: Final = BODIES[1]


CUT: Final = reply(body=BODY * 9, cut=-20, **ECHO)


def raw_head(line: bytes) -> Answer:
    """Answer with a head that has this line."""
    return in_turn(Reply(raw=b"HTTP/1.1 200 X\r\n" + line + b"\r\n\r\n"))


FAULTS: Final[dict[str, Answer]] = {
    **{
        f"status {status}": in_turn(reply(status, BODY, **ECHO))
        for status in (201, 302, 400, 401, 403, 404, 408, 429, 500, 503, 999)
    },
    "login page": in_turn(reply(body=BODY + b"<html>", content_type="text/html")),
    "not whole": in_turn(reply(body=BODY[:-3])),
    "wrong shape": in_turn(reply(body=b"[" + BODY + b"]")),
    "not unicode": in_turn(reply(body=b'{"ssn": "\xff' + BODY)),
    "bad gzip": in_turn(reply(body=BODY, Content_Encoding="gzip")),
    "code": in_turn(reply(400, f"<Error><Code>{CANARY} x</Code></Error>".encode())),
    "encoded": in_turn(reply(body=BODY[:-3], Content_Encoding=CANARY)),
    "sent nowhere": in_turn(reply(302, Location=f"gopher://{CANARY}/")),
    "part": in_turn(reply(206, BODY, Content_Range=CANARY, ETag=CANARY)),
    "not HTTP": in_turn(Reply(raw=b"HTTP/9 " + CANARY.encode() + b"\r\n\r\n")),
    "bad header": raw_head(b"X-\x00: " + CANARY.encode()),
    "long header": raw_head(b"X: " + CANARY.encode() * 20_000),
    "too large": in_turn(reply(body=BODY * 1000, **ECHO)),
    "closed": in_turn(HUNG_UP),
    "cut": in_turn(CUT),
    "reset": in_turn(evolve(CUT, reset=True)),
    "hang": in_turn(evolve(CUT, slow=partial(silence, 31))),
}
WHOLE: Final = frozenset({"login page", "not whole", "wrong shape", "not unicode", "encoded"})
"""Replies that count as complete files, since a file may have any content.

A Content-Encoding that names no coding says nothing about it.
"""
ANY_SHAPE: Final = ("json", "wrong shape")
"""The call that takes whatever is JSON."""
OF_TOKENS: Final[dict[str, Answer]] = FAULTS | {
    "no bearer": in_turn(token_reply(TOKEN, token_type=CANARY)),
    "no lifetime": in_turn(token_reply(TOKEN, expires_in=CANARY)),
    "bad token": in_turn(token_reply(f"{CANARY}\r\n")),
}


def failing(of_others: Answer, of_tokens: Answer | None = None) -> Answer:
    """Answer requests for tokens in one way, and others in another."""
    return token_rules(of_others, of_tokens or GOOD)


@pytest.mark.shows_private("file", reason="a downloaded file is what was served")
async def test_a_good_service(tmp_path: Path) -> None:
    """Records are neither printed nor logged, and a poller's file has nothing of them."""
    async with place(GOOD, tmp_path) as at:
        for call in CALLS:
            assert await error_of(call, at) is None, call


def note_objects(shown: dict[str, set[str]]) -> None:
    """Note what the objects of the package that are alive now show of themselves, by class."""
    objects = gc.get_objects()
    kinds = {
        kind for kind in set(map(type, objects)) if str(kind.__module__).startswith("income_client")
    }
    for one in objects:
        if type(one) in kinds:
            with suppress(AttributeError):  # one that was not made to its end
                shown.setdefault(type(one).__name__, set()).add(f"{one!r} {one}")


@pytest.mark.shows_private("file", reason="a downloaded file is what was served")
@pytest.mark.parametrize("auth", [BASIC, lambda: OAUTH])
async def test_no_object_shows_what_it_holds(auth: Auth, tmp_path: Path) -> None:
    """Objects count that are alive while a call waits for its reply, or once it has its result."""
    shown: dict[str, set[str]] = {}

    def looked_at(request: Request) -> Reply | Awaitable[Reply]:
        note_objects(shown)
        return GOOD(request)

    async with place(looked_at, tmp_path, auth=auth) as at:
        results = [await CALLS[call](at) for call in CALLS]
        note_objects(shown)
    assert len(results) == len(CALLS)
    assert {"Application", "FixedCredentials", "Link", "Paystub"} <= shown.keys()
    assert [text for texts in shown.values() for text in texts if private_in(text)] == []


async def test_no_object_of_an_endpoint_shows_what_it_holds() -> None:
    """Neither a callback, nor what is configured for it, nor a token that is issued."""
    made = [  # here, since what was made before the first test is hidden from the collector
        OAuth2ClientCredentials("partner", LONG),
        StoredToken(access_token=TOKEN, expires_at=NOW),
        receiver := CallbackReceiver(print, auth=CallbackBasicAuth("u", LONG)),
        issuer := CallbackTokenIssuer("u", LONG),
        CallbackTarget(f"http://127.0.0.1/?key={CANARY}", auth=BASIC),
        CallbackBearerAuth(keys=Secret(LONG), issuer="i", audience="a", algorithms=["HS256"]),
        CallbackBearerAuth(jwks_url=f"https://id.example/?{CANARY}", issuer="i", audience="a"),
    ]
    request = head(Content_Type="application/x-www-form-urlencoded")
    issued = issuer.answer(request, b"grant_type=client_credentials", now=0, nonce=bytes(16))
    body = json.dumps({"event_type": "x", "application_id": "a", "ssn": CANARY}).encode()
    received = await receiver.verify(head(), body)
    shown: dict[str, set[str]] = {}
    note_objects(shown)
    assert b"access_token" in issued.body
    assert received.payload["ssn"] == CANARY
    assert {type(one).__name__ for one in (*made, issued, received, request)} <= shown.keys()
    assert [text for texts in shown.values() for text in texts if private_in(text)] == []


@pytest.mark.shows_private("file", reason="a downloaded file is what was served")
@pytest.mark.parametrize(("number", "fault"), [*enumerate(FAULTS)])
async def test_a_fault_of_the_service(number: int, fault: str, tmp_path: Path) -> None:
    """Neither header, body, query, address nor token comes out, however it fails.

    Each fault meets every second call, and each call every second fault.
    """
    async with place(failing(FAULTS[fault]), tmp_path, auth=(OAUTH, BASIC)[number // 2 % 2]) as at:
        for call in list(CALLS)[number % 2 :: 2]:
            error = await error_of(call, at)
            is_whole = (call in FILES and fault in WHOLE) or (call, fault) == ANY_SHAPE
            assert (error is None) is (is_whole or call in YIELDING), call


@pytest.mark.parametrize(("fault", "call"), [*zip(OF_TOKENS, cycle(OF_EACH_KIND), strict=False)])
async def test_a_fault_of_the_token_endpoint(fault: str, call: str, tmp_path: Path) -> None:
    """Neither the client's secret nor what the endpoint said comes out."""
    async with place(failing(GOOD, OF_TOKENS[fault]), tmp_path) as at:
        assert await error_of(call, at) is not None


async def fail_with_canary() -> Auth:
    """Fail as the client of a vault may, with what it was to return at hand."""
    secret = f"{CANARY}-client-secret"
    raise OSError(f"http://vault.example/?{secret}") from ValueError(secret)


def fail_plainly_with_canary() -> Auth:
    """Do the same in a thread."""
    secret = f"{CANARY}-client-secret"
    raise ConfigurationError(f"http://vault.example/?{secret}", argument=secret)


async def hang_with_canary() -> NoReturn:
    """Never return."""
    _secret = f"{CANARY}-client-secret"
    await stay_silent(10_001)


@pytest.mark.parametrize("function", [fail_with_canary, fail_plainly_with_canary, hang_with_canary])
async def test_a_function_for_credentials(function: Any, tmp_path: Path) -> None:
    """Neither what it raises comes out, nor what it held as it did."""
    async with place(GOOD, tmp_path, auth=function) as at:
        for call in OF_EACH_KIND:
            assert isinstance(await error_of(call, at), IncomeClientError), call


# Faults on the way


@pytest.mark.parametrize("end", ["cancelled", "deadline"])
async def test_an_interrupted_call(end: str, tmp_path: Path) -> None:
    """The frames that waited with the header in their hands do not come out."""
    reached = asyncio.Event()

    def hang(_: Request) -> Reply:
        reached.set()
        return SILENT

    seconds = 60 if end == "deadline" else 10_000
    timeouts = Timeouts(read=seconds, deadline=seconds)
    async with place(failing(hang), tmp_path, timeouts=timeouts, retry=ONCE) as at:
        for call in CALLS:
            reached.clear()
            task = asyncio.create_task(error_of(call, at))
            await reached.wait()
            if end == "cancelled":
                task.cancel()
            else:
                pass_time(60)
            await task


ONCE: Final = RetryPolicy(max_attempts=1)


def raise_with_canary(*given: object, **_: object) -> NoReturn:
    """Fail in a frame with something private: as is given, or by a bug."""
    held = {"ssn": CANARY}
    error = next((one for one in given if isinstance(one, Exception)), None)
    raise error or ZeroDivisionError(len(held))


def replies_in_memory() -> int:
    """Count the replies that are held, those of earlier tests of this process included."""
    return sum(isinstance(one, Response) for one in gc.get_objects())


@pytest.mark.parametrize("fault", ["not whole", "wrong shape", "status 503"])
async def test_a_failed_call_leaves_no_reply_in_memory(fault: str, tmp_path: Path) -> None:
    """Neither until its next attempt nor at its end, though the collector has not run."""
    found: list[int] = []

    def counted(request: Request) -> Reply | Awaitable[Reply]:
        found.append(replies_in_memory())
        return FAULTS[fault](request)

    gc.collect()
    of_others = replies_in_memory()
    gc.disable()
    try:
        async with place(counted, tmp_path, auth=BASIC) as at:
            assert await error_of("application", at) is not None
        found.append(replies_in_memory())
    finally:
        gc.enable()
    assert found == [of_others] * (2 if fault == "wrong shape" else 3)


# What is refused at once

NOW: Final = datetime(2026, 1, 2, tzinfo=UTC)
LONG: Final = f"{CANARY}-secret-that-is-long-enough"
EVENT: Final = {"id": "1", "application_id": "app-2", "updated_at": "2026-01-02T00:00:00Z"}
RECORD: Final = {"application": json.loads(BODIES[1]), "documents": json.loads(BODIES[2])}
READ: Final = from_json(ApplicationRecord, json.dumps(RECORD))
UPDATE: Final = UpdateEvent(id="1", application_id="app-1", updated_at=NOW, record=READ)
WRONG_TYPE: Final[Any] = 7
LARGE: Final = json.dumps(RECORD).replace("90817263.43", "908172634343434343434343")


async def fetched(applications: Any) -> object:
    """Fetch what cannot be fetched."""
    async with IncomeClient("https://income.example", auth=BASIC) as client:
        return await all_of(client.fetch_records(applications))


RECEIVER: Final = CallbackReceiver(print, auth=CallbackBasicAuth("u", LONG))
ISSUER: Final = CallbackTokenIssuer("u", LONG)
SIGNING: Final = "income_client.receivers.jwt.jwt.encode"
DIGEST: Final = "income_client.receivers.issuer.pair_digest"


def head(**fields: str) -> RequestHead:
    """Return the head of a callback with the right password."""
    pair = base64.b64encode(f"u:{LONG}".encode()).decode()
    usual = {"Authorization": f"Basic {pair}", "Content-Type": "application/json"}
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return RequestHead(method="POST", headers=usual | named)


def key_value(content: bytes) -> Any:
    """Return a bucket of NATS whose keys all hold this."""

    async def found(*_: object, **__: object) -> Any:
        return SimpleNamespace(value=content, revision=1, data=content, seq=1)

    async def status() -> Any:
        config = StreamConfig(max_age=0, storage=StorageType.FILE, max_msgs=0, max_bytes=0)
        return SimpleNamespace(stream_info=SimpleNamespace(config=config))

    stream = SimpleNamespace(get_msg=found)
    return SimpleNamespace(get=found, status=status, _js=stream, _pre="", _stream="")


def closed_client() -> SyncIncomeClient:
    """Return a client that refuses every call."""
    with SyncIncomeClient("https://income.example", auth=BASIC) as client:
        return client


class Failing:
    """A broker that raises an error from a frame with something private."""

    _nc = SimpleNamespace(max_payload=1_000_000)

    async def find_stream_name_by_subject(self, _: str) -> str:
        raise TimeoutError

    async def publish(self, *_: object, **__: object) -> None:
        raise_with_canary(OSError("away"))


async def relayed() -> None:
    """Relay one update to a broker that fails."""
    async with emulated(1) as (_, asked):
        poller = asked.poll(MemoryCheckpointStore(), start="2020-01-01", once=True)
        await relay(poller, Failing().publish, payload="record", attempts=1)


async def with_bug(name: str, work: Callable[[], Any]) -> None:
    """Do something while a function has a bug."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(name, raise_with_canary)
        left = work()
        if inspect.isawaitable(left):
            await left


def written(record: ApplicationRecord) -> None:
    """Write a record to Parquet."""
    with TemporaryDirectory() as folder, ParquetTables(Path(folder, "tables")) as tables:
        tables.write(record)


NEVER: Final[Any] = None
REFUSED: Final[dict[str, Callable[[], Any]]] = {
    # Records and messages
    "among ids": partial(fetched, [RECORD]),
    "JSON": lambda: from_json(ApplicationRecord, json.dumps(RECORD)[:-1]),
    "not of a record": lambda: from_json(Application, json.dumps(RECORD)),
    "of a record by hand": lambda: to_json(evolve(READ, documents=WRONG_TYPE)),
    "an event without a record": lambda: UpdateEvent.from_json(
        json.dumps(EVENT | {"record": {"application": {"ssn": CANARY}, "documents": None}})
    ),
    "about another": lambda: UpdateEvent.from_json(json.dumps(EVENT | {"record": RECORD})),
    # Tables
    "Parquet": lambda: written(from_json(ApplicationRecord, LARGE)),
    # Callbacks
    "a callback's body": lambda: RECEIVER.verify(head(), BODIES[1][:-1]),
    "its password": lambda: RECEIVER.verify(head(Authorization=TOKEN), BODIES[1]),
    "token for callbacks": lambda: with_bug(SIGNING, lambda: ISSUER.issue(now=0, nonce=bytes(16))),
    "ASGI": lambda: Receiver(RECEIVER)(
        {"type": "webtransport", "headers": [(b"authorization", TOKEN.encode())]}, NEVER, NEVER
    ),
    "password of a key": lambda: callback_ssl_context("no.pem", "no.key", None, password=CANARY),
    # Secrets
    "bytes as a secret": lambda: Secret(cast("Any", CANARY.encode())),
    "line end in a password": lambda: BasicAuth("u", f"{CANARY}\n"),
    "password in a user name": lambda: BasicAuth(f"u:{CANARY}", "p"),
    "line end in a client secret": lambda: OAuth2ClientCredentials("u", f"{CANARY}\n"),
    "line end in a callback's password": lambda: CallbackBasicAuth("u", f"{CANARY}\n"),
    "passwords as pairs": lambda: CallbackBasicAuth("u", "p", also=cast("Any", {"u": CANARY})),
    "short secret of an issuer": lambda: CallbackTokenIssuer("u", CANARY),
    "secrets as pairs": lambda: CallbackTokenIssuer("u", LONG, also=cast("Any", [("u", LONG)])),
    "short key for tokens": lambda: CallbackBearerAuth(
        keys=CANARY, issuer="i", audience="a", algorithms=["HS256"]
    ),
    "blank in a control token": lambda: RemoteEmulator("http://127.0.0.1:1", f"{CANARY} x"),
    # The client that is not asynchronous
    "session of another loop": lambda: SyncIncomeClient(
        "https://income.example",
        auth=BASIC,
        proxy=f"http://u:{CANARY}@proxy.example",
        session=cast("Any", "x"),  # type: ignore[call-arg]
    ),
    "call after closing": lambda: closed_client().get_json("/v1/reports", {"ssn": CANARY}),
    # Stores and brokers
    "token in NATS": lambda: NatsTokenStore(key_value(CANARY.encode())).load(),
    "checkpoint in NATS": lambda: NatsCheckpointStore(key_value(CANARY.encode())).load("x"),
    "publisher to NATS": lambda: nats_publisher(Failing(), "x")(UPDATE),  # type: ignore[arg-type]
    "publisher of FastStream": lambda: faststream_publisher(Failing())(UPDATE),
    "relay": relayed,
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_is_refused(what: str) -> None:
    """The caller's own frames hold what it passed, and no frame below them does."""
    with pytest.raises(Exception) as caught:  # noqa: PT011, PT012 - any, and it may be awaited
        left = REFUSED[what]()
        if inspect.isawaitable(left):
            await left
    error = caught.value
    assert isinstance(error, IncomeClientError)
    assert private_in(held_by(error)) is None
    assert (error.__cause__, error.__context__) == (None, None)


BUGS: Final = ("income_client.receivers.receiver.read_body", SIGNING, DIGEST)


@pytest.mark.parametrize("bug", BUGS)
async def test_a_bug_in_an_endpoint_is_answered_with_503(
    bug: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No exception reaches the server, whose crash reporter would send the request."""
    is_callback = bug == BUGS[0]
    endpoint = endpoint_of(RECEIVER if is_callback else ISSUER)
    form = head(Content_Type="application/x-www-form-urlencoded")
    request = (head(), BODIES[1]) if is_callback else (form, b"grant_type=client_credentials")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bug, raise_with_canary)
        answer = await endpoint.answer(*request)
    assert answer.status == 503
    assert ("ZeroDivisionError in " in caplog.text) == (bug != SIGNING)
    assert private_in(f"{answer!r}{answer.body!r}{caplog.text}") is None


def test_what_a_test_could_see_of_values_on_the_way() -> None:
    response = Response(status=200, headers={"a": CANARY}, body=BODY)
    request = list_applications(list_filter=ListFilter(application_reference_id=CANARY))
    secret = Secret(CANARY)
    assert private_in(f"{response!r} {request!r} {secret!r} {secret} {OAUTH!r} {BASIC!r}") is None


def test_a_leak_would_be_noticed() -> None:
    """Messages, attributes, notes, causes, contexts, pickles and frames below the test's own."""
    noted, caused, chained = ValueError("x"), ValueError("x"), ValueError("x")
    noted.add_note(CANARY)
    caused.__cause__ = chained.__context__ = ValueError(TOKEN)
    leaks = [DecodeError((), request_id=CANARY), ValueError(CANARY), noted, caused, chained]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        json.loads(f"[{CANARY}")
    for error in (*leaks, caught.value):
        assert private_in(held_by(error))
