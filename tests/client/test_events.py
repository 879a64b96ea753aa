"""What a program is told of calls, walks, records, polls and files; telling breaks nothing."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from income_client import (
    AuthenticationError,
    CallFinished,
    CheckpointCommitted,
    DeadLettered,
    Event,
    FileFinished,
    IncomeClient,
    IncomeClientError,
    MemoryCheckpointStore,
    PageCovered,
    PollFailed,
    PollFinished,
    RecordDelivered,
    RequestAnswered,
    RequestRetried,
    RequestSent,
    RetryPolicy,
    Secret,
    StoredToken,
    Timeouts,
    TokenRenewed,
    WindowSplit,
)
from income_client.emulator import Emulator, Fault
from income_client.http.session import SessionManager
from income_client.wire.times import wire_time
from tests.support.clients import BASIC, OAUTH, Shelf, call, failure, playing
from tests.support.loop_time import stay_silent
from tests.support.polling import NOW_TEXT, rest
from tests.support.server import (
    HUNG_UP,
    SILENT,
    Answer,
    Reply,
    Request,
    in_turn,
    reply,
    token_reply,
    token_rules,
)
from tests.support.service import NOW, served, until

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


def one_attempt(status: int | None, error: str | None) -> list[tuple[Any, ...]]:
    """Return the shapes of a call of one attempt that ends like this."""
    return [
        ("sent", "get_application", 1),
        ("answered", "get_application", 1, status, error),
        ("finished", "get_application", 1, status, error),
    ]


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (reply(), 200, None),
        (reply(404), 404, "NotFoundError"),
        (HUNG_UP, None, "ConnectionFailedError"),
    ],
    ids=["works", "fails", "hung up"],
)
async def test_a_call_is_three_events(answer: Reply, status: int | None, error: str | None) -> None:
    """The class of what it raised is its last word, also where no reply came."""
    async with heard(in_turn(answer), retry=ONCE) as (session, events):
        if error is None:
            await call(session)
        else:
            assert type(await failure(session)).__name__ == error
    assert shapes(events) == one_attempt(status, error)


@pytest.mark.parametrize(
    ("ending", "error"),
    [("cancelled", "CancelledError"), ("late", "DeadlineExceededError")],
)
async def test_a_request_that_is_cut_off_has_its_end_too(ending: str, error: str) -> None:
    """Whoever counts what was sent and answered comes to the same sum."""

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
    """Of successes as well; a call has that of its last request, and a failure its own.

    A call that is cancelled has none of an earlier attempt: its last request has had no reply.
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


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("r-1", "r-1"),
        ("~" * 128, "~" * 128),
        *((unfit, None) for unfit in ("a" * 129, "\x9b31m", "two words", "\u00e9", "")),
    ],
)
async def test_the_log_has_the_request_id_of_each_reply(
    given: str, shown: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """If it is short and can be printed; else the record says that there is none."""
    answers = in_turn(reply(503, X_Request_Id=given), reply(X_Request_Id=given))
    with caplog.at_level(logging.DEBUG, "income_client.session"):
        async with heard(answers) as (session, events):
            await call(session)
    lines = [line for line in caplog.records if line.levelno == logging.DEBUG]
    lines = [line for line in lines if line.name == "income_client.session"]
    assert [vars(line)["request_id"] for line in lines] == [shown, shown]
    behind = "" if shown is None else f" (request id {shown})"
    said = [line.getMessage() for line in lines]
    assert said == [f"get_application(a/1): {status}{behind}" for status in (503, 200)]
    assert {one for _, one in ids_in(events)} == {shown}


async def test_tokens_are_told_of() -> None:
    """The purchase is a call of its own; the first refused token is a retry without a pause."""
    answers = token_rules(in_turn(reply(401), reply()))
    async with heard(answers, auth=OAUTH) as (session, events):
        await call(session)
    bought = [
        ("sent", "token", 1),
        ("answered", "token", 1, 200, None),
        ("finished", "token", 1, 200, None),
        ("token", False),
    ]
    assert shapes(events) == [
        *bought,
        ("sent", "get_application", 1),
        ("answered", "get_application", 1, 401, "AuthenticationError"),
        *bought,
        ("retried", "get_application", 1, 401, "AuthenticationError"),
        ("sent", "get_application", 2),
        ("answered", "get_application", 2, 200, None),
        ("finished", "get_application", 2, 200, None),
    ]


async def test_a_repetition_that_never_goes_out_is_not_told() -> None:
    """A refused token that cannot be replaced is no retry: whoever counts them counts requests."""
    answer = token_rules(in_turn(reply(401)), in_turn(token_reply(), reply(400)))
    async with heard(answer, auth=OAUTH) as (session, events):
        await failure(session)
    sent = [event.call for event in of(RequestSent, events)]
    assert sent == ["token", "get_application", "token"]
    assert of(RequestRetried, events) == []
    (finished,) = (one for one in of(CallFinished, events) if one.call == "get_application")
    assert (finished.attempts, finished.status, finished.error) == (1, 401, "AuthenticationError")


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


@pytest.mark.parametrize("error", [ValueError("invented-secret"), asyncio.CancelledError()])
async def test_a_hook_that_raises_breaks_nothing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """It is complained of once, by the class of its error; it is called on, for views too."""
    events: list[Event] = []

    def hook(event: Event) -> None:
        events.append(event)
        raise error

    with caplog.at_level(logging.DEBUG, "income_client.events"):
        async with playing(in_turn(reply()), auth=BASIC, on_event=hook) as (session, _, _):
            await call(session)
            await call(session.with_options(retry=ONCE))
    assert len(events) == 6
    (line,) = caplog.records
    assert line.levelno == logging.WARNING
    assert line.getMessage().startswith(f"on_event raised {type(error).__name__};")
    assert "invented-secret" not in caplog.text + repr(vars(line))


async def test_without_a_hook_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError

    for cls in (RequestSent, RequestAnswered, CallFinished, TokenRenewed):
        monkeypatch.setattr(cls, "__init__", refuse)
    async with playing(token_rules(in_turn(reply()))) as (session, _, _):
        await call(session)


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
    """Their rows add up to what came, their share to the whole, and splits are as many as told."""
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
    """Its name, how far it has come, and each record once."""
    async with listened() as (service, client, events):
        store = MemoryCheckpointStore()
        poller = client.poll(store, name="mine", start=NOW_TEXT, documents=False)
        touched = service.world.ids[2:5]
        for one in touched:
            service.touch(one)
        service.advance(60)
        records = await rest(poller)
        assert [e.application_id for e in of(RecordDelivered, events)] == [
            record.application_id for record in records
        ]
        assert len(records) == 3
        (finished,) = of(PollFinished, events)
        assert (finished.name, finished.polls, finished.lag) == ("mine", 1, poller.status.lag)
        committed = of(CheckpointCommitted, events)
        reached = [each.reached for each in committed]
        assert reached[0] == NOW
        assert reached == sorted(reached)
        assert {each.name for each in committed} == {"mine"}


async def test_a_batch_tells_of_its_records_each_time() -> None:
    """One that failed and is handed out again is told of again."""
    async with listened() as (service, client, events):
        store = MemoryCheckpointStore()
        poller = client.poll(store, start="2026-06-30T11:59:00", documents=False)
        service.touch(service.world.ids[3])
        service.advance(60)
        async for batch in poller.batches():
            with contextlib.suppress(ValueError):
                async with batch:
                    if len(of(RecordDelivered, events)) < 2 * len(batch):
                        raise ValueError
                    poller.stop()
        ids = [event.application_id for event in of(RecordDelivered, events)]
        half = len(ids) // 2
        assert half
        assert ids[:half] == ids[half:]


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
    """One that was cancelled, one that came, the same when it was there, and one that failed."""
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
