"""Reports to hooks and OpenTelemetry about calls, walks, records, polls and files."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from yarl import URL

from income_client import (
    AuthenticationError,
    IncomeClient,
    IncomeClientError,
    MemoryCheckpointStore,
    RetryPolicy,
    Secret,
    StoredToken,
    Timeouts,
    telemetry,
)
from income_client.emulator import Emulator, Fault
from income_client.events import (
    CallFinished,
    CheckpointCommitted,
    DeadLettered,
    Event,
    FileFinished,
    PageCovered,
    PollFailed,
    PollFinished,
    RecordDelivered,
    RequestAnswered,
    RequestRetried,
    RequestSent,
    TokenRenewed,
    WindowSplit,
)
from income_client.http.session import SessionManager
from income_client.settings import Auth
from income_client.telemetry import Telemetry
from income_client.testing import JumpingClock
from income_client.wire.times import wire_time
from tests.support.clients import BASIC, OAUTH, Shelf, call, failure, playing, session_to
from tests.support.clocks import stay_silent
from tests.support.polling import NOW_TEXT, one_poll, rest, take
from tests.support.server import (
    HUNG_UP,
    SILENT,
    Answer,
    Reply,
    Request,
    ScriptedServer,
    in_turn,
    reply,
    token_reply,
    token_rules,
)
from tests.support.service import NOW, served, until
from tests.support.telemetry import Collected, collecting, ids_of

E = TypeVar("E", bound=Event)


def of(cls: type[E], events: list[Event]) -> list[E]:
    """Return the events of a class."""
    return [event for event in events if isinstance(event, cls)]


# Calls

ONCE: Final = RetryPolicy(max_attempts=1)


@contextlib.asynccontextmanager
async def heard(
    answers: Answer, **options: Any
) -> AsyncIterator[tuple[SessionManager, list[Event]]]:
    """Run a session, and collect what it tells."""
    events: list[Event] = []
    usual: dict[str, Any] = {"auth": BASIC, "on_event": events.append}
    async with playing(answers, **usual | options) as (session, _, _):
        yield session, events


def shapes(events: list[Event]) -> list[tuple[Any, ...]]:
    """Return what the events say without their seconds."""
    found: list[tuple[Any, ...]] = []
    for event in events:
        match event:
            case RequestSent():
                found.append(("sent", event.call, event.attempt))
            case RequestAnswered():
                found.append(("answered", event.call, event.attempt, event.status, event.error))
            case RequestRetried():
                found.append(("retried", event.call, event.attempt, event.status, event.error))
            case CallFinished():
                found.append(("finished", event.call, event.attempts, event.status, event.error))
            case TokenRenewed():
                found.append(("token", event.is_shared))
    return found


CALL: Final = "get_application"
REFUSED: Final = (CALL, 1, 401, "AuthenticationError")


def one_attempt(status: int | None, error: str | None, of: str = CALL) -> list[tuple[Any, ...]]:
    """Return the shapes of a call of one attempt that ends like this."""
    ends = [(kind, of, 1, status, error) for kind in ("answered", "finished")]
    return [("sent", of, 1), *ends]


BOUGHT: Final = [*one_attempt(200, None, "token"), ("token", False)]


@pytest.mark.parametrize(
    ("auth", "answer", "told"),
    [
        (BASIC, in_turn(reply()), one_attempt(200, None)),
        (BASIC, in_turn(reply(404)), one_attempt(404, "NotFoundError")),
        (BASIC, in_turn(HUNG_UP), one_attempt(None, "ConnectionFailedError")),
        # The purchase is a call of its own; the first refused token is a retry without a pause.
        (
            OAUTH,
            token_rules(in_turn(reply(401), reply())),
            [
                *(*BOUGHT, ("sent", CALL, 1), ("answered", *REFUSED)),
                *(*BOUGHT, ("retried", *REFUSED), ("sent", CALL, 2)),
                *(("answered", CALL, 2, 200, None), ("finished", CALL, 2, 200, None)),
            ],
        ),
        # One that cannot be replaced is no retry: a count of retries counts requests.
        (
            OAUTH,
            token_rules(in_turn(reply(401)), in_turn(token_reply(), reply(400))),
            [
                *(*BOUGHT, ("sent", CALL, 1), ("answered", *REFUSED)),
                *(*one_attempt(400, "AuthenticationError", "token"), ("finished", *REFUSED)),
            ],
        ),
    ],
    ids=["works", "fails", "hung up", "another token", "no other token"],
)
async def test_a_call_is_told_from_its_first_request_to_its_end(
    auth: Auth, answer: Answer, told: list[tuple[Any, ...]]
) -> None:
    """The class of what it raised is its last word, also where no reply came."""
    async with heard(answer, auth=auth, retry=ONCE) as (session, events):
        with contextlib.suppress(IncomeClientError):
            await call(session)
    assert shapes(events) == told


@pytest.mark.parametrize(
    ("ending", "error"),
    [("cancelled", "CancelledError"), ("late", "DeadlineExceededError")],
)
async def test_a_request_that_is_cut_off_has_its_end_too(ending: str, error: str) -> None:
    """Requests sent and requests answered add up to the same number."""

    async def answer(request: Request) -> Reply:
        if ending == "cancelled":
            task.cancel()
        else:
            await stay_silent(60)
        return SILENT

    patient = Timeouts(read=1000, deadline=60)
    async with heard(answer, timeouts=patient) as (session, events):
        task = asyncio.create_task(call(session))
        await asyncio.wait((task,))
        assert task.cancelled() or isinstance(task.exception(), IncomeClientError)
    assert shapes(events) == one_attempt(None, error)


async def test_a_retry_is_told_with_its_pause() -> None:
    """Each failure stands there with the seconds until the next attempt, which count as waited."""
    answers = in_turn(reply(503), reply(503, Retry_After="7"), reply())
    async with heard(answers) as (session, events):
        await call(session)
    assert shapes(events)[1:3] == [
        ("answered", "get_application", 1, 503, "ServerError"),
        ("retried", "get_application", 1, 503, "ServerError"),
    ]
    pauses = [event.pause for event in of(RequestRetried, events)]
    assert len(pauses) == 2
    assert pauses[1] >= 7
    (finished,) = of(CallFinished, events)
    assert finished.attempts == 3
    assert finished.waited == pytest.approx(sum(pauses))
    assert finished.seconds == pytest.approx(finished.waited)


def ids_in(events: list[Event]) -> list[tuple[str, str | None]]:
    """Return the request ids that events of replies and of finished calls hold."""
    return [
        (type(event).__name__, event.request_id)
        for event in events
        if isinstance(event, RequestAnswered | CallFinished)
    ]


async def test_each_reply_is_told_with_the_request_id_of_the_service() -> None:
    """Successes have an id too; a call has the id of its last request.

    A cancelled call has no id of an earlier attempt: its last request has had no reply.
    """
    too_large = reply(body=b" " * 99, X_Request_Id="r-3")

    def hang(_: Request) -> Reply:
        task.cancel()
        return SILENT

    answers = in_turn(
        *(reply(503, X_Request_Id="r-1"), HUNG_UP, too_large),
        *(reply(X_Amzn_RequestId="r-4"), reply()),
        *(reply(503, X_Request_Id="r-5"), hang),
    )
    async with heard(answers, max_response_bytes=90) as (session, events):
        assert (await failure(session)).request_id == "r-3"
        await call(session)
        await call(session)
        task = asyncio.create_task(call(session))
        await asyncio.wait((task,))
        assert task.cancelled()
    assert ids_in(events) == [
        *(("RequestAnswered", one) for one in ("r-1", None, "r-3")),
        ("CallFinished", "r-3"),
        *(("RequestAnswered", "r-4"), ("CallFinished", "r-4")),
        *(("RequestAnswered", None), ("CallFinished", None)),
        *(("RequestAnswered", "r-5"), ("RequestAnswered", None), ("CallFinished", None)),
    ]


async def test_the_log_has_the_request_id_of_each_reply(caplog: pytest.LogCaptureFixture) -> None:
    """If it can be printed; else the record says that there is none."""
    answers = in_turn(reply(503, X_Request_Id="r-1"), reply(X_Request_Id="\x9b31m"))
    with caplog.at_level(logging.DEBUG, "income_client.session"):
        async with heard(answers) as (session, events):
            await call(session)
    lines = [line for line in caplog.records if line.levelno == logging.DEBUG]
    lines = [line for line in lines if line.name == "income_client.session"]
    assert [vars(line)["request_id"] for line in lines] == ["r-1", None]
    said = [line.getMessage() for line in lines]
    assert said == ["get_application(a/1): 503 (request id r-1)", "get_application(a/1): 200"]
    assert [one for _, one in ids_in(events)] == ["r-1", None, None]


async def test_a_token_of_the_store_is_shared() -> None:
    """Then none is bought."""
    ends = datetime.now(UTC) + timedelta(hours=1)
    shelf = Shelf(StoredToken(access_token=Secret("invented"), expires_at=ends))
    answers = token_rules(in_turn(reply()))
    async with heard(answers, auth=OAUTH, token_store=shelf) as (session, events):
        await call(session)
    assert [event.call for event in of(RequestSent, events)] == ["get_application"]
    (renewed,) = of(TokenRenewed, events)
    assert renewed.is_shared
    assert renewed.lifetime > 0


# Walks, records, polls, files


@contextlib.asynccontextmanager
async def listened(
    applications: int | Sequence[int] = range(NOW - 100, NOW - 80),
    look: Callable[[Event], object] = id,
) -> AsyncIterator[tuple[Emulator, IncomeClient, list[Event]]]:
    """Run a service and a client, and collect what it tells; ``look`` is called with each event."""
    events: list[Event] = []

    def hook(event: Event) -> None:
        events.append(event)
        look(event)

    async with served(applications, on_event=hook) as (service, client):
        yield service, client, events


async def test_a_walk_tells_of_its_pages() -> None:
    """Rows of the events add up to the rows received, shares to 1, and splits to their number."""
    async with listened(400) as (_, client, events):
        walk = client.list_applications(updated_before=wire_time(NOW), limit=20)
        rows = [row async for row in walk]
        pages, splits = of(PageCovered, events), of(WindowSplit, events)
        assert sum(page.rows for page in pages) == len(rows) == 400
        shares = [page.covered_fraction for page in pages]
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1.0)
        assert pages[-1].requests == walk.progress.requests
        assert len(splits) == walk.progress.splits > 0
        assert all(split.rows == 20 and split.window for split in splits)


async def test_a_poller_tells_of_polls_checkpoints_and_records() -> None:
    """The events have the poller's name, its progress, and each record as often as delivered."""
    async with listened() as (service, client, events):
        poller = client.poll(MemoryCheckpointStore(), name="mine", start=NOW_TEXT, documents=False)
        poller.stop(after_poll=True)
        for one in service.world.ids[2:5]:
            service.touch(one)
        service.advance(60)
        ids: list[str] = []
        async for batch in poller.batches():
            ids += [record.application_id for record in batch]
            with contextlib.suppress(ValueError):
                async with batch:
                    if len(ids) == 3:
                        raise ValueError
        assert [event.application_id for event in of(RecordDelivered, events)] == ids
        assert ids == ids[:3] * 2
        (finished,) = of(PollFinished, events)
        assert (finished.name, finished.polls, finished.lag) == ("mine", 1, poller.status.lag)
        committed = of(CheckpointCommitted, events)
        reached = [each.reached for each in committed]
        assert reached[0] == NOW
        assert reached == sorted(reached)
        assert {each.name for each in committed} == {"mine"}


async def test_a_poll_that_fails_is_told_with_its_status() -> None:
    """The next try is planned by then; what cannot be read is told once it is kept."""
    planned: list[Any] = []

    def look(event: Event) -> None:
        if isinstance(event, PollFailed):
            planned.append(poller.status.next_poll_at)

    async with listened(look=look) as (service, client, events):
        bad, good = service.world.ids[2], service.world.ids[4]
        service.faults.add(Fault("status", status=404, times=None, path=f"*/{bad}"))
        store = MemoryCheckpointStore()
        poller = client.poll(store, start=NOW_TEXT, documents=False)
        for one in (bad, good):
            service.touch(one)
        service.advance(60)
        async for batch in poller.batches():
            await batch.commit()
            if of(PollFailed, events):
                break
            service.touch(good)
            service.advance(60)
            service.faults.add(Fault("status", status=500, times=3, path="*/applications"))
        (failed,) = of(PollFailed, events)
        assert (failed.failures, failed.status, failed.error) == (1, 500, "ServerError")
        assert failed.lag is not None
        assert planned
        assert None not in planned
        (dead,) = of(DeadLettered, events)
        assert dead.letter.application_id == bad
        assert [dead.letter] == list(await store.dead_letters("default"))


async def test_a_failure_that_ends_the_poller_says_so() -> None:
    async with listened() as (service, client, events):
        service.faults.add(Fault("status", status=401, times=None, path="/v1/*"))
        poller = client.poll(MemoryCheckpointStore(), start=NOW_TEXT)
        with pytest.raises(AuthenticationError):
            await anext(poller)
        (failed,) = of(PollFailed, events)
        assert (failed.is_last, failed.status, failed.lag) == (True, 401, None)


async def test_a_file_is_told_of_at_its_end(tmp_path: Path) -> None:
    """The files are cancelled, downloaded, already there, or failed."""
    async with listened(5) as (service, client, events):
        documents = await client.get_documents(service.world.ids[0])
        document = next(document for _, document in documents.all())
        service.faults.add(Fault("stall", path="/documents/*"))
        task = asyncio.ensure_future(client.download(document, tmp_path / "slip"))
        await until(lambda: any(one.name == "file" for one in service.requests))
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        for _ in range(2):
            await client.download(document, f"{tmp_path}/")
        service.faults.add(Fault("status", status=403, times=None, path="/documents/*"))
        async for _ in client.download_all([document], tmp_path / "b", on_error="yield"):
            pass
        cut, first, again, failed = of(FileFinished, events)
        assert (cut.error, cut.size, cut.attempts) == ("CancelledError", None, 1)
        assert first.size == again.size
        assert (first.was_there, again.was_there, failed.was_there) == (False, True, False)
        assert (first.error, again.error, failed.size) == (None, None, None)
        assert failed.error is not None
        assert first.document_id == document.document_id
        assert first.attempts >= 1


# OpenTelemetry


APPLICATION = "income_client get_application"
REQUEST = "GET /v1/income/applications/{application_id}"


async def test_a_call_is_a_span_and_so_is_each_attempt(exported: Collected) -> None:
    """Within the program's own span, with the conventional attributes of HTTP, and no address."""
    events: list[object] = []
    tracer = trace.get_tracer("program")
    answers = in_turn(reply(503), reply())
    async with playing(answers, auth=BASIC, on_event=events.append) as (session, server, _):
        with tracer.start_as_current_span("program's") as outer:
            await call(session)
            assert trace.get_current_span() is outer
    assert len(events) == 6  # of the hook, which gets them as well
    (span,) = exported.named(APPLICATION)
    assert span.kind is SpanKind.INTERNAL
    assert span.parent is not None
    assert span.parent.span_id == outer.get_span_context().span_id
    assert span.status.status_code is StatusCode.UNSET
    attributes: dict[str, Any] = dict(span.attributes or {})
    assert attributes.pop("income_client.waited") > 0
    assert attributes == {
        "income_client.call": "get_application",
        "server.address": "127.0.0.1",
        "income_client.attempts": 2,
        "http.response.status_code": 200,
    }
    assert [event.name for event in span.events] == ["pause"]
    first, second = exported.named(REQUEST)
    always = {
        "http.request.method": "GET",
        "server.address": "127.0.0.1",
        "server.port": URL(server.url).port,
        "url.template": "/v1/income/applications/{application_id}",
    }
    failed = {"http.response.status_code": 503, "error.type": "ServerError"}
    assert dict(first.attributes or {}) == {**always, **failed}
    resent = {"http.request.resend_count": 1, "http.response.status_code": 200}
    assert dict(second.attributes or {}) == {**always, **resent}
    statuses = [StatusCode.ERROR, StatusCode.UNSET]
    assert [one.status.status_code for one in (first, second)] == statuses
    for one in (first, second):
        assert one.kind is SpanKind.CLIENT
        assert ids_of(one)[2] == ids_of(span)[1]


async def test_the_error_of_a_call_is_in_its_spans(exported: Collected) -> None:
    """By its class: its message would name the application. A cancellation is no failure."""

    def cancel(_: Request) -> Reply:
        task.cancel()
        return SILENT

    async with playing(in_turn(reply(404), cancel), auth=BASIC) as (session, _, _):
        await failure(session)
        task = asyncio.create_task(call(session))
        await asyncio.wait((task,))
    assert [span.name for span in exported.spans] == [REQUEST, APPLICATION] * 2
    names = ["NotFoundError"] * 2 + ["CancelledError"] * 2
    assert [(span.attributes or {})["error.type"] for span in exported.spans] == names
    codes = [StatusCode.ERROR] * 2 + [StatusCode.UNSET] * 2
    assert [span.status.status_code for span in exported.spans] == codes
    assert {(span.status.description, span.events) for span in exported.spans} == {(None, ())}


async def test_the_token_is_requested_within_the_call_that_needed_it(exported: Collected) -> None:
    """The token request is a span of its own, below the call's."""
    async with playing(token_rules(in_turn(reply()))) as (session, _, _):
        await call(session)
    request, token, _, application = exported.spans
    assert (request.name, token.name) == ("POST /token", "income_client token")
    assert application.name == APPLICATION
    assert token.parent is not None
    assert application.context is not None
    assert token.parent.span_id == application.context.span_id
    assert exported.points("income_client.tokens") == [
        ({"income_client.token.source": "requested"}, 1)
    ]


async def test_counts_tell_what_was_done(exported: Collected) -> None:
    """Calls, requests, retries, pages, records, polls, lag and dead letters are counted."""
    clock = JumpingClock()
    async with Emulator(30, clock=clock, time_flows=True) as service:
        ids = service.world.ids
        service.faults.add(Fault("status", status=404, times=None, path=f"*/{ids[4]}"))
        service.faults.add(Fault("status", status=500, path=f"*/{ids[5]}"))
        async with IncomeClient(service.url, auth=service.oauth2, clock=clock) as client:
            walked = [row async for row in client.list_applications()]
            store = MemoryCheckpointStore()
            records = await rest(client.poll(store, name="mine", start="2026-01-01"))
            service.advance(300)  # after which the dead letter is tried again
            poller = client.poll(store, name="mine")
            assert await rest(poller) == []
    ((_, lag),) = exported.points("income_client.poll.lag")
    assert 0 <= lag < 120
    assert sum(value for _, value in exported.points("income_client.walk.rows")) == len(walked)
    assert exported.points("income_client.walk.pages")
    assert exported.points("income_client.records") == [({}, len(records))]
    mine = {"income_client.poller": "mine"}
    assert exported.points("income_client.polls") == [(mine, 2)]
    assert exported.points("income_client.dead_letters") == [(mine, 1)]
    requests = exported.points("income_client.requests")
    assert sum(value for _, value in requests) == len(service.requests)
    ((retried, count),) = exported.points("income_client.retries")
    assert (retried["error.type"], count) == ("ServerError", 1)
    calls = exported.points("income_client.call.duration")
    assert sum(count for _, count in calls) + len(service.requests) == len(exported.spans)


async def test_gauges_are_a_poller_s_status_at_the_time_of_each_collection(
    exported: Collected,
) -> None:
    """Also where nothing happens for long; none is shown of a poller that the program dropped."""
    clock, mine = JumpingClock(), {"income_client.poller": "mine"}

    def gauges() -> dict[str, float]:
        values: dict[str, float] = {}
        for name in ("lag", "late", "failures", "dead_letters", "is_leader"):
            ((attributes, values[name]),) = exported.points(f"income_client.poll.{name}")
            assert attributes == mine
        return values

    async with Emulator(5, clock=clock, time_flows=True) as service:
        service.faults.add(
            Fault("status", status=404, times=None, path=f"*/{service.world.ids[4]}")
        )
        async with IncomeClient(service.url, auth=service.oauth2, clock=clock) as client:
            await client.service_time()
            assert exported.points("income_client.poll.failures") == []
            poller = client.poll(MemoryCheckpointStore(), name="mine", start="2026-01-01")
            await (await take(poller)).commit()
            await one_poll(poller)
            leading = gauges()
            await clock.sleep(100)
            later = gauges()
            await poller.aclose()
            ended = gauges()
            del poller
            assert exported.points("income_client.poll.failures") == []
    lag = leading.pop("lag")
    assert leading == {"late": 0, "failures": 0, "dead_letters": 1, "is_leader": 1}
    assert later["lag"] == pytest.approx(lag + 100, abs=1)
    assert ended["is_leader"] == 0


async def test_nothing_private_is_exported(exported: Collected) -> None:
    """No id of an application, no address, no secret and no token, whatever comes of a call."""
    clock = JumpingClock()
    async with Emulator(5, clock=clock) as service:
        ids = service.world.ids
        service.faults.add(Fault("status", status=404, times=None, path=f"*/{ids[1]}"))
        service.faults.add(Fault("body", body=b"{}", times=None, path=f"*/{ids[2]}"))
        async with IncomeClient(service.url, auth=service.oauth2, clock=clock) as client:
            async for _ in client.fetch_records(ids, on_error="yield"):
                pass
            await client.find_application(service.world.reference_of(0))
            await client.get_json(f"/v1/income/applications/{ids[0]}")
        shown = exported.shown()
        secret = service.oauth2.client_secret.reveal()
    assert APPLICATION in shown
    assert "http://" not in shown
    assert "url.full" not in shown
    assert "Bearer" not in shown
    assert secret not in shown
    assert [one for one in (*ids, *map(service.world.reference_of, range(5))) if one in shown] == []


async def test_a_provider_set_before_the_first_call_is_found() -> None:
    """A provider set at import counts too; without one, or switched off, nothing is recorded."""
    async with ScriptedServer(in_turn(reply())) as server:
        early, silent = session_to(server.url, auth=BASIC), session_to(server.url, auth=BASIC)
        off = session_to(server.url, auth=BASIC, telemetry=False)
        await call(silent)
        assert silent.instrumentation.emit is None
        with collecting() as exported:
            for session in (early, silent, off):
                await call(session)
        assert off.instrumentation.emit is None
        for session in (early, silent, off):
            await session.aclose()
    assert [span.name for span in exported.spans] == [REQUEST, APPLICATION]


@pytest.mark.parametrize(
    ("of", "broken", "error"),
    [
        (None, "on_event", ValueError("invented-secret")),
        (None, "on_event", asyncio.CancelledError()),
        *(
            (Telemetry, name, ValueError("invented-secret"))
            for name in ("begin_call", "if_configured", "count_event", "_count_call")
        ),
        (telemetry, "_set_ending", ValueError("invented-secret")),
    ],
)
async def test_a_listener_that_raises_breaks_nothing(
    of: object,
    broken: str,
    error: BaseException,
    exported: Collected,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A failing hook is logged once, by the class of its error, and is called again."""
    failed: list[None] = []

    def fail(*_: object, **__: object) -> None:
        failed.append(None)
        raise error

    options: dict[str, Any] = {"auth": OAUTH, "retry": ONCE}
    if of is None:
        options["on_event"] = fail
    else:
        monkeypatch.setattr(of, broken, fail)
    with caplog.at_level(logging.WARNING, "income_client.events"):
        async with playing(token_rules(in_turn(reply())), **options) as (session, _, _):
            await call(session)
            await call(session.with_options(retry=ONCE))
    (line,) = caplog.records
    name = "on_event" if of is None else "telemetry"
    assert line.getMessage().startswith(f"{name} raised {type(error).__name__};")
    assert "invented-secret" not in caplog.text + repr(vars(line))
    assert of is not None or len(failed) == 10
