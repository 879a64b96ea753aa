"""What a program is told of calls, walks, records, polls and files; telling breaks nothing."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

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
from income_client.testing import JumpingClock
from income_client.wire.times import wire_time
from tests.support.clients import BASIC, call, failure, playing
from tests.support.loop_time import stay_silent
from tests.support.polling import NOW_TEXT, rest
from tests.support.server import (
    HUNG_UP,
    SILENT,
    Reply,
    Request,
    in_turn,
    reply,
    token_reply,
    token_rules,
)
from tests.support.service import NOW, until
from tests.support.tokens import Shelf

# Calls


def shapes(events: list[Event]) -> list[tuple[Any, ...]]:
    """Return what the events say without their seconds."""
    found: list[tuple[Any, ...]] = []
    for event in events:
        match event:
            case RequestSent(call=name, attempt=attempt):
                found.append(("sent", name, attempt))
            case RequestAnswered(call=name, attempt=attempt, status=status, error=error):
                found.append(("answered", name, attempt, status, error))
            case RequestRetried(call=name, attempt=attempt, status=status, error=error):
                found.append(("retried", name, attempt, status, error))
            case CallFinished(call=name, attempts=attempts, status=status, error=error):
                found.append(("finished", name, attempts, status, error))
            case TokenRenewed(is_shared=is_shared):
                found.append(("token", is_shared))
    return found


async def test_a_call_that_works_is_three_events() -> None:
    events: list[Event] = []
    async with playing(in_turn(reply()), auth=BASIC, on_event=events.append) as (session, _, _):
        await call(session)
    assert shapes(events) == [
        ("sent", "get_application", 1),
        ("answered", "get_application", 1, 200, None),
        ("finished", "get_application", 1, 200, None),
    ]


async def test_a_retry_is_told_with_its_pause() -> None:
    """Each failure stands there with the seconds until the next attempt, which count as waited."""
    events: list[Event] = []
    answers = in_turn(reply(503), reply(503, Retry_After="7"), reply())
    async with playing(answers, auth=BASIC, on_event=events.append) as (session, _, _):
        await call(session)
    assert shapes(events)[1:3] == [
        ("answered", "get_application", 1, 503, "ServerError"),
        ("retried", "get_application", 1, 503, "ServerError"),
    ]
    pauses = [event.pause for event in events if isinstance(event, RequestRetried)]
    assert len(pauses) == 2
    assert pauses[1] >= 7
    (finished,) = (event for event in events if isinstance(event, CallFinished))
    assert finished.attempts == 3
    assert finished.waited == pytest.approx(sum(pauses))
    assert finished.seconds == pytest.approx(finished.waited)


async def test_a_call_that_fails_finishes_with_its_error() -> None:
    """The class of what it raised is its last word, also where no reply came."""
    cases = ((reply(404), 404, "NotFoundError"), (HUNG_UP, None, "ConnectionFailedError"))
    for out, status, error in cases:
        events: list[Event] = []
        options: dict[str, Any] = {"auth": BASIC, "retry": RetryPolicy(max_attempts=1)}
        async with playing(in_turn(out), on_event=events.append, **options) as (session, _, _):
            assert type(await failure(session)).__name__ == error
        assert shapes(events)[1:] == [
            ("answered", "get_application", 1, status, error),
            ("finished", "get_application", 1, status, error),
        ]


def ids_in(events: list[Event]) -> list[tuple[str, str | None]]:
    """Return the request ids that events of replies and of finished calls hold."""
    found: list[tuple[str, str | None]] = []
    for event in events:
        match event:
            case RequestAnswered(request_id=request_id) | CallFinished(request_id=request_id):
                found.append((type(event).__name__, request_id))
    return found


async def test_each_reply_is_told_with_the_request_id_of_the_service() -> None:
    """Of successes as well; a call has that of its last request, and a failure its own."""
    events: list[Event] = []
    too_large = reply(body=b" " * 99, X_Request_Id="r-3")
    answers = in_turn(
        reply(503, X_Request_Id="r-1"), HUNG_UP, too_large, reply(X_Amzn_RequestId="r-4"), reply()
    )
    options: dict[str, Any] = {"auth": BASIC, "max_response_bytes": 90}
    async with playing(answers, on_event=events.append, **options) as (session, _, _):
        error = await failure(session)
        await call(session)
        await call(session)
    assert error.request_id == "r-3"
    assert ids_in(events) == [
        *(("RequestAnswered", one) for one in ("r-1", None, "r-3")),
        ("CallFinished", "r-3"),
        *(("RequestAnswered", "r-4"), ("CallFinished", "r-4")),
        *(("RequestAnswered", None), ("CallFinished", None)),
    ]


async def test_a_call_that_is_cancelled_has_no_request_id_of_an_earlier_attempt() -> None:
    """Its last request has had no reply."""
    events: list[Event] = []
    reached = asyncio.Event()

    def hang(_: Request) -> Reply:
        reached.set()
        return SILENT

    answers = in_turn(reply(503, X_Request_Id="r-1"), hang)
    async with playing(answers, auth=BASIC, on_event=events.append) as (session, _, _):
        task = asyncio.create_task(call(session))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ids_in(events) == [
        *(("RequestAnswered", one) for one in ("r-1", None)),
        ("CallFinished", None),
    ]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("r-1", "r-1"),
        ("~" * 128, "~" * 128),
        ("a" * 129, None),
        ("\x9b31m", None),
        ("two words", None),
        ("\u00e9", None),
        ("", None),
    ],
)
async def test_the_log_has_the_request_id_of_each_reply(
    given: str, shown: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """If it is short and can be printed; else the record says that there is none."""
    events: list[Event] = []
    answers = in_turn(reply(503, X_Request_Id=given), reply(X_Request_Id=given))
    with caplog.at_level(logging.DEBUG, "income_client.session"):
        async with playing(answers, auth=BASIC, on_event=events.append) as (session, _, _):
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
    events: list[Event] = []
    answers = token_rules(in_turn(reply(401), reply()))
    async with playing(answers, on_event=events.append) as (session, _, _):
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
    events: list[Event] = []
    answer = token_rules(in_turn(reply(401)), in_turn(token_reply(), reply(400)))
    async with playing(answer, on_event=events.append) as (session, server, _):
        await failure(session)
        assert (server.token_requests, len(server.calls)) == (2, 1)
    assert not [event for event in events if isinstance(event, RequestRetried)]
    (finished,) = (
        event
        for event in events
        if isinstance(event, CallFinished) and event.call == "get_application"
    )
    assert (finished.attempts, finished.status, finished.error) == (1, 401, "AuthenticationError")


async def test_a_token_of_the_store_is_shared() -> None:
    """Then none is bought."""
    events: list[Event] = []
    ends = datetime.now(UTC) + timedelta(hours=1)
    shelf = Shelf(StoredToken(access_token=Secret("invented"), expires_at=ends))
    answers = token_rules(in_turn(reply()))
    options: dict[str, Any] = {"on_event": events.append, "token_store": shelf}
    async with playing(answers, **options) as (session, server, _):
        await call(session)
        assert server.token_requests == 0
    (renewed,) = (event for event in events if isinstance(event, TokenRenewed))
    assert renewed.is_shared
    assert renewed.lifetime > 0


@pytest.mark.parametrize(
    ("ending", "error"),
    [("cancelled", "CancelledError"), ("late", "DeadlineExceededError")],
)
async def test_a_request_that_is_cut_off_has_its_end_too(ending: str, error: str) -> None:
    """Whoever counts what was sent and answered comes to the same sum."""
    events: list[Event] = []

    async def answer(request: Request) -> Reply:
        if ending == "cancelled":
            task.cancel()
        else:
            await stay_silent(60)
        return SILENT

    patient = Timeouts(read=1000, deadline=60)
    options: dict[str, Any] = {"timeouts": patient, "auth": BASIC}
    async with playing(answer, on_event=events.append, **options) as (session, _, _):
        task = asyncio.create_task(call(session))
        await asyncio.wait((task,))
        assert task.cancelled() or isinstance(task.exception(), IncomeClientError)
    assert shapes(events) == [
        ("sent", "get_application", 1),
        ("answered", "get_application", 1, None, error),
        ("finished", "get_application", 1, None, error),
    ]


@pytest.mark.parametrize("error", [ValueError("invented-secret"), asyncio.CancelledError()])
async def test_a_hook_that_raises_breaks_nothing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """It is complained of once, by the class of its error, and goes on being called."""
    events: list[Event] = []

    def hook(event: Event) -> None:
        events.append(event)
        raise error

    with caplog.at_level(logging.DEBUG, "income_client.events"):
        async with playing(in_turn(reply()), auth=BASIC, on_event=hook) as (session, _, _):
            await call(session)
            await call(session)
    assert len(events) == 6
    (line,) = caplog.records
    assert line.levelno == logging.WARNING
    assert line.getMessage().startswith(f"on_event raised {type(error).__name__};")
    assert "invented-secret" not in caplog.text + repr(vars(line))


async def test_a_view_tells_the_same_hook() -> None:
    events: list[Event] = []
    async with playing(in_turn(reply()), auth=BASIC, on_event=events.append) as (session, _, _):
        await call(session.with_options(retry=RetryPolicy(max_attempts=1)))
    assert len(events) == 3


async def test_without_a_hook_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError

    for cls in (RequestSent, RequestAnswered, CallFinished, TokenRenewed):
        monkeypatch.setattr(cls, "__init__", refuse)
    clock = JumpingClock()
    async with playing(token_rules(in_turn(reply())), clock) as (session, _, _):
        await call(session)


# Walks, records, polls, files


E = TypeVar("E", bound=Event)


class Listened:
    """A service, a client of it, and what the client told."""

    def __init__(self, service: Emulator, client: IncomeClient, events: list[Event]) -> None:
        self.service = service
        self.client = client
        self.events = events

    def of(self, cls: type[E]) -> list[E]:
        """Return the events of a class."""
        return [event for event in self.events if isinstance(event, cls)]


@contextlib.asynccontextmanager
async def listened(
    applications: Any = 20, *, look: Callable[[Event], object] | None = None, **options: Any
) -> AsyncIterator[Listened]:
    """Run a service and a client with a hook, on a clock that jumps; ``look`` is called as well."""
    clock = JumpingClock()
    events: list[Event] = []

    def hook(event: Event) -> None:
        events.append(event)
        if look is not None:
            look(event)

    usual: dict[str, Any] = {"clock": clock, "time_flows": True, "days": 30}
    async with (
        Emulator(applications, **usual | options) as service,
        IncomeClient(
            service.url,
            auth=service.oauth2,
            clock=clock,
            on_event=hook,
            downloads=service.download_policy,
        ) as client,
    ):
        yield Listened(service, client, events)


async def test_a_walk_tells_of_its_pages() -> None:
    """Their rows add up to what came, their share to the whole, and splits are as many as told."""
    async with listened(400) as scene:
        walk = scene.client.list_applications(updated_before=wire_time(NOW), limit=20)
        rows = [row async for row in walk]
        pages, splits = scene.of(PageCovered), scene.of(WindowSplit)
        assert sum(page.rows for page in pages) == len(rows) == 400
        shares = [page.covered_fraction for page in pages]
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1.0)
        assert pages[-1].requests == walk.progress.requests
        assert len(splits) == walk.progress.splits > 0
        assert all(split.rows == 20 and split.window for split in splits)


async def test_a_poller_tells_of_polls_checkpoints_and_records() -> None:
    """Its name, how far it has come, and each record once."""
    async with listened(range(NOW - 100, NOW - 80)) as scene:
        store = MemoryCheckpointStore()
        poller = scene.client.poll(store, name="mine", start=NOW_TEXT, documents=False)
        touched = scene.service.world.ids[2:5]
        for one in touched:
            scene.service.touch(one)
        scene.service.advance(60)
        records = await rest(poller)
        assert [e.application_id for e in scene.of(RecordDelivered)] == [
            record.application_id for record in records
        ]
        assert len(records) == 3
        (finished,) = scene.of(PollFinished)
        assert (finished.name, finished.polls, finished.lag) == ("mine", 1, poller.status.lag)
        committed = scene.of(CheckpointCommitted)
        reached = [each.reached for each in committed]
        assert reached[0] == NOW
        assert reached == sorted(reached)
        assert {each.name for each in committed} == {"mine"}


async def test_a_batch_tells_of_its_records_each_time() -> None:
    """One that failed and is handed out again is told of again."""
    async with listened(range(NOW - 100, NOW - 80)) as scene:
        store = MemoryCheckpointStore()
        poller = scene.client.poll(store, start="2026-06-30T11:59:00", documents=False)
        scene.service.touch(scene.service.world.ids[3])
        scene.service.advance(60)
        async for batch in poller.batches():
            with contextlib.suppress(ValueError):
                async with batch:
                    if len(scene.of(RecordDelivered)) < 2 * len(batch):
                        raise ValueError
                    poller.stop()
        ids = [event.application_id for event in scene.of(RecordDelivered)]
        half = len(ids) // 2
        assert half
        assert ids[:half] == ids[half:]


async def test_a_poll_that_fails_is_told_with_its_status() -> None:
    """The next try is planned by then; what cannot be read is told once it is kept."""
    planned: list[Any] = []

    def look(event: Event) -> None:
        if isinstance(event, PollFailed):
            planned.append(poller.status.next_poll_at)

    async with listened(range(NOW - 100, NOW - 80), look=look) as scene:
        bad, good = scene.service.world.ids[2], scene.service.world.ids[4]
        scene.service.faults.add(
            Fault("status", status=404, times=None, path=f"*/{bad}"),
        )
        store = MemoryCheckpointStore()
        poller = scene.client.poll(store, start=NOW_TEXT, documents=False)
        for one in (bad, good):
            scene.service.touch(one)
        scene.service.advance(60)
        async for batch in poller.batches():
            await batch.commit()
            if scene.of(PollFailed):
                break
            scene.service.touch(good)
            scene.service.advance(60)
            scene.service.faults.add(
                Fault("status", status=500, times=3, path="*/applications"),
            )
        (failed,) = scene.of(PollFailed)
        assert (failed.failures, failed.status, failed.error) == (1, 500, "ServerError")
        assert failed.lag is not None
        assert planned
        assert None not in planned
        (dead,) = scene.of(DeadLettered)
        assert dead.letter.application_id == bad
        assert [dead.letter] == list(await store.dead_letters("default"))


async def test_a_failure_that_ends_the_poller_says_so() -> None:
    async with listened(range(NOW - 100, NOW - 80)) as scene:
        scene.service.faults.add(Fault("status", status=401, times=None, path="/v1/*"))
        poller = scene.client.poll(MemoryCheckpointStore(), start=NOW_TEXT)
        with pytest.raises(AuthenticationError):
            await anext(poller)
        (failed,) = scene.of(PollFailed)
        assert (failed.is_last, failed.status, failed.lag) == (True, 401, None)


async def test_a_file_is_told_of_at_its_end(tmp_path: Path) -> None:
    """Its size and its requests; the second time it was there; one that fails has its error."""
    async with listened() as scene:
        documents = await scene.client.get_documents(scene.service.world.ids[0])
        document = next(document for _, document in documents.all())
        for _ in range(2):
            await scene.client.download(document, f"{tmp_path}/")
        scene.service.faults.add(Fault("status", status=403, times=None, path="/documents/*"))
        async for _ in scene.client.download_all([document], tmp_path / "b", on_error="yield"):
            pass
        first, again, failed = scene.of(FileFinished)
        assert first.size == again.size
        assert (first.was_there, again.was_there, failed.was_there) == (False, True, False)
        assert (first.error, again.error, failed.size) == (None, None, None)
        assert failed.error is not None
        assert first.document_id == document.document_id
        assert first.attempts >= 1


async def test_a_download_that_is_cancelled_has_its_end_too(tmp_path: Path) -> None:
    """Files that were begun and files that ended come to the same sum."""
    async with listened() as scene:
        documents = await scene.client.get_documents(scene.service.world.ids[0])
        document = next(document for _, document in documents.all())
        scene.service.faults.add(Fault("stall", path="/documents/*"))
        task = asyncio.ensure_future(scene.client.download(document, tmp_path / "slip"))
        await until(lambda: any(one.name == "file" for one in scene.service.requests))
        task.cancel()
        await asyncio.wait([task])
        (finished,) = scene.of(FileFinished)
        assert task.cancelled()
        assert (finished.error, finished.size, finished.attempts) == ("CancelledError", None, 1)
