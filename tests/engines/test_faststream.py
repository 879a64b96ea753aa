"""A FastStream subscriber to a relay's events: pauses, dead letters, logs and metrics."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final

import pytest
from attrs import define, field
from faststream import BaseMiddleware, FastStream
from faststream.exceptions import NackMessage, RejectMessage
from faststream.nats import ConsumerConfig, JStream, NatsBroker
from faststream.nats.annotations import NatsMessage as CurrentMessage
from faststream.nats.message import NatsMessage
from faststream.nats.opentelemetry import NatsTelemetryMiddleware
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from income_client import DecodeError, NotFoundError
from income_client.engines.faststream import update_subscriber
from income_client.engines.nats import nats_publisher
from income_client.engines.relay import UpdateEvent, faststream_publisher
from income_client.errors import PayloadFault
from income_client.testing import make_record
from tests.support.nats_server import NOW, NatsServer, event
from tests.support.processes import eventually
from tests.support.telemetry import Collected, ids_of

SECRET: Final = "S3CRET"
_NUMBERS: Final = count(1)


@define
class Place:
    """Streams that no other test has, and the pauses and outcomes of their messages."""

    server: NatsServer
    streams: JetStreamContext
    number: int = field(factory=lambda: next(_NUMBERS))
    pauses: list[float | None] = field(factory=list)
    outcomes: list[type[BaseException] | None] = field(factory=list)

    async def make(self, *names: str) -> None:
        for name in names or ("updates", "dead"):
            subjects = [f"{name}{self.number}"] if name == "updates" else [f"{name}{self.number}.>"]
            await self.streams.add_stream(name=f"{name}{self.number}", subjects=subjects)

    async def publish(self, *events: UpdateEvent) -> None:
        publish = nats_publisher(self.streams, f"updates{self.number}")
        for one in events:
            await publish(one)

    @asynccontextmanager
    async def working(
        self, handle: Callable[..., Any], *middlewares: Any, **options: Any
    ) -> AsyncIterator[None]:
        """Run a subscriber."""
        outcomes = self.outcomes

        class Noting(BaseMiddleware):
            async def after_processed(
                self, exc_type: type[BaseException] | None = None, *_: object
            ) -> bool:
                outcomes.append(exc_type)
                return False

        broker = NatsBroker(self.server.url, middlewares=[*middlewares, Noting])
        names: dict[str, Any] = {
            "durable": "incomes",
            "stream": f"updates{self.number}",
            "subject": f"updates{self.number}",
            "dead_stream": f"dead{self.number}",
            "dead_subject": f"dead{self.number}",
        }
        update_subscriber(broker, **names, **options)(handle)
        async with broker:
            await broker.start()
            yield

    async def letters(self, number: int = 1) -> list[tuple[str, str, bytes]]:
        """Wait for some dead letters; return reason, error and body of each."""
        name = f"dead{self.number}"
        async with asyncio.timeout(30):
            while (await self.streams.stream_info(name)).state.messages < number:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        found = [await self.streams.get_msg(name, one + 1) for one in range(number)]
        return [
            (str(one.subject).partition(".")[2], (one.headers or {})["error"], one.data or b"")
            for one in found
        ]


@pytest.fixture
async def place(nats_server: NatsServer, client: Client, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(nats_server, client.jetstream(timeout=30))
    give_back = NatsMessage.nack

    async def give_back_at_once(message: NatsMessage, delay: float | None = None) -> None:
        place.pauses.append(delay)
        await give_back(message)

    monkeypatch.setattr(NatsMessage, "nack", give_back_at_once)
    await place.make()
    return place


def failing(error: BaseException) -> Callable[[UpdateEvent], Any]:
    async def handle(event: UpdateEvent) -> None:
        raise error

    return handle


async def test_an_event_that_fails_comes_again_and_becomes_a_dead_letter(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """After growing pauses; logs hold no more of the error than its class and its place."""
    await place.publish(event())
    async with place.working(failing(KeyError(SECRET))):
        letters = await place.letters()
        await eventually(lambda: len(place.outcomes) == 8)
    assert letters == [("failed", "KeyError", event().to_json())]
    assert place.pauses == [10, 20, 40, 80, 160, 320, 600]
    assert place.outcomes == [NackMessage] * 7 + [RejectMessage]
    assert SECRET not in caplog.text
    *tries, letter = [vars(one) for one in caplog.records if one.name == "income_client.worker"]
    facts = {"application_id": "app-1", "error": "KeyError"}.items()
    assert all(record.items() >= facts for record in (*tries, letter))
    assert [record["attempt"] for record in tries] == [1, 2, 3, 4, 5, 6, 7]
    assert letter["reason"] == "failed"
    not_handled = r"application 'app-1' was not handled \(KeyError, .* > test_faststream\.py:\d+\)"
    assert len(re.findall(not_handled, caplog.text)) == 7
    assert "an event of application 'app-1' became a dead letter (failed, KeyError)" in caplog.text


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NotFoundError("gone", status=404), "deleted"),
        (DecodeError((PayloadFault("$", "not a record"),)), "unreadable"),
    ],
)
async def test_an_error_that_no_retry_changes_makes_a_dead_letter_at_once(
    place: Place, error: Exception, reason: str
) -> None:
    """An application that is gone, a record that cannot be read."""
    await place.publish(event())
    async with place.working(failing(error)):
        assert await place.letters() == [(reason, type(error).__name__, event().to_json())]
        await eventually(lambda: place.outcomes)
    assert (place.pauses, place.outcomes) == ([], [RejectMessage])


async def test_a_stream_that_deletes_dead_letters_is_a_warning(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"dead{place.number}"
    await place.streams.update_stream(name=name, subjects=[f"{name}.>"], max_msgs=100)
    await place.publish(event("app-1", "1"), event("app-2", "2"))
    async with place.working(failing(NotFoundError("gone", status=404))):
        await eventually(lambda: len(place.outcomes) == 2)
    said = f"the stream '{name}' of dead letters deletes its oldest messages once it is full"
    assert caplog.messages.count(said) == 1


async def test_a_handler_gets_the_event_and_what_faststream_fills_in(place: Place) -> None:
    """Amounts of a record keep their digits."""
    record = make_record()
    sent = UpdateEvent(id="1", application_id=record.application_id, updated_at=NOW, record=record)
    handled: list[tuple[UpdateEvent, bytes]] = []

    async def handle(event: UpdateEvent, message: CurrentMessage) -> None:
        handled.append((event, message.body))

    await place.publish(sent)
    async with place.working(handle):
        await eventually(lambda: place.outcomes)
    assert handled == [(sent, sent.to_json())]
    assert place.outcomes == [None]


async def test_an_id_that_was_handled_long_ago_is_handled_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker remembers a bounded number of ids."""
    monkeypatch.setattr("income_client.engines.faststream._REMEMBERED_IDS", 10)
    handled: list[str] = []

    async def handle(event: UpdateEvent) -> None:
        handled.append(event.id)

    async with place.working(handle):
        for number in range(11):
            await place.publish(event(f"app-{number}", str(number)))
        await eventually(lambda: len(place.outcomes) == 11)
        for number in (10, 0):
            content = event(f"app-{number}", str(number)).to_json()
            await place.streams.publish(f"updates{place.number}", content)
        await eventually(lambda: len(place.outcomes) == 13)
    assert sorted(handled, key=int) == ["0", "0", *map(str, range(1, 11))]


async def test_events_of_one_application_are_handled_one_after_the_other(place: Place) -> None:
    """Events of other applications are handled at the same time, up to the concurrency."""
    at_once: list[str] = []
    most: list[list[str]] = []

    async def handle(event: UpdateEvent) -> None:
        at_once.append(event.application_id)
        most.append(sorted(at_once))
        await asyncio.sleep(0.02)
        at_once.remove(event.application_id)

    await place.publish(*(event(f"app-{number % 2}", str(number)) for number in range(8)))
    async with place.working(handle, concurrency=4):
        await eventually(lambda: len(place.outcomes) == 8)
    assert ["app-0", "app-1"] in most
    assert all(len(set(applications)) == len(applications) for applications in most)


async def test_an_attempt_that_takes_too_long_has_failed(place: Place) -> None:
    """The handler is cancelled. Until then, ack_wait is renewed, so that it runs only once."""
    cancelled: list[str] = []

    async def handle(event: UpdateEvent) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(event.id)
            raise

    await place.publish(event())
    async with place.working(handle, attempts=1, timeout=0.9, ack_wait=0.3):
        assert await place.letters() == [("failed", "TimeoutError", event().to_json())]
    assert cancelled == [event().id]


async def test_an_existing_consumer_is_taken_over(place: Place) -> None:
    """With its ack_wait; the server no longer gives up an event, which leaves no dead letter."""
    name = f"updates{place.number}"
    consumer = ConsumerConfig(durable_name="incomes", ack_wait=0.3, max_deliver=3)
    await place.streams.add_consumer(name, consumer)
    handled: list[str] = []

    async def handle(event: UpdateEvent) -> None:
        handled.append(event.id)
        await asyncio.sleep(0.9)

    await place.publish(event())
    async with place.working(handle):
        await eventually(lambda: place.outcomes)
        found = (await place.streams.consumer_info(name, "incomes")).config
    assert (handled, place.outcomes) == ([event().id], [None])
    assert (found.max_deliver, found.ack_wait) == (-1, 0.3)


async def test_a_handler_that_exits_stops_its_worker(place: Place) -> None:
    """The event is not acknowledged, and comes again to another worker."""
    await place.publish(event())
    async with place.working(failing(SystemExit())):
        await eventually(lambda: place.outcomes)
        found = await place.streams.consumer_info(f"updates{place.number}", "incomes")
    assert place.outcomes == [SystemExit]
    assert found.num_ack_pending == 1


@pytest.mark.parametrize("fault", ["ack_sync", "dead"])
async def test_what_the_server_does_not_learn_comes_again(
    place: Place, fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The event is not handled again, and an error of the client is a line without its text."""
    handled: list[str] = []
    acknowledge = NatsMessage.ack_sync
    faults = [NatsError(SECRET)] if fault == "ack_sync" else []

    async def handle(event: UpdateEvent) -> None:
        handled.append(event.id)
        if fault == "dead":
            raise NotFoundError(SECRET, status=404)

    async def acknowledge_later(message: NatsMessage) -> None:
        if faults:
            raise faults.pop()
        await acknowledge(message)

    monkeypatch.setattr(NatsMessage, "ack_sync", acknowledge_later)
    if fault == "dead":
        await place.streams.delete_stream(f"dead{place.number}")
    await place.publish(event())
    async with place.working(handle, ack_wait=0.2):
        await eventually(lambda: "it comes again" in caplog.text)
        if fault == "dead":
            await place.make("dead")
            assert [reason for reason, *_ in await place.letters()] == ["deleted"]
        await eventually(lambda: len(place.outcomes) >= 2)
    assert SECRET not in caplog.text
    said = f"the stream 'dead{place.number}' has not taken the dead letter of an event ("
    assert (said in caplog.text) == (fault == "dead")
    assert ("the server was not told of an event" in caplog.text) == (fault == "ack_sync")
    assert (len(handled) == 1) == (fault == "ack_sync")


async def test_a_worker_without_its_stream_ends(place: Place) -> None:
    """At its start, by the client's error."""
    await place.streams.delete_stream(f"updates{place.number}")
    with pytest.raises(NatsError):
        async with place.working(failing(KeyError())):
            pass


async def test_a_worker_whose_connection_is_closed_ends(place: Place) -> None:
    """By an error: nats-py may close a connection for good whose credentials are revoked."""
    name = f"updates{place.number}"
    broker = NatsBroker(place.server.url, max_reconnect_attempts=-1)
    update_subscriber(broker, durable="incomes", stream=name, subject=name)(failing(KeyError()))
    app = FastStream(broker)

    @app.after_startup
    async def close() -> None:
        await broker.connection.close()

    with pytest.raises((NatsError, ExceptionGroup)) as caught:
        await app.run()
    error = caught.value  # in a group by newer versions of FastStream
    errors = error.exceptions if isinstance(error, ExceptionGroup) else [error]
    assert all(isinstance(one, NatsError) for one in errors)


async def test_publishing_and_handling_are_one_trace(place: Place, exported: Collected) -> None:
    """By FastStream's own middleware, which shows no id of an application."""
    record = make_record()

    async def handle(_: UpdateEvent) -> None:
        with trace.get_tracer("program").start_as_current_span("handled"):
            pass

    telemetry, name = NatsTelemetryMiddleware(), f"updates{place.number}"
    async with (
        place.working(handle, telemetry),
        NatsBroker(place.server.url, middlewares=[telemetry]) as broker,
    ):
        publisher = broker.publisher(name, stream=JStream(name, declare=False))
        await broker.start()
        await faststream_publisher(publisher)(event(record.application_id))
        await eventually(lambda: place.outcomes)
    (handled,) = exported.named("handled")
    sent = {ids_of(span)[0] for span in exported.spans if span.kind is SpanKind.PRODUCER}
    assert sent == {ids_of(handled)[0]}
    assert record.application_id not in exported.shown()
