"""Events for updates: all of them are published before the checkpoint moves over them."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from income_client import CheckpointConflictError, CheckpointError, ConfigurationError, DecodeError
from income_client.engines.relay import UpdateEvent, faststream_publisher, relay
from tests.support.polling import FailingStore, Scene, scene


class Broker:
    """Keeps what is published; fails a given number of times."""

    def __init__(self, failures: int = 0, error: BaseException | None = None) -> None:
        self.events: list[UpdateEvent] = []
        self.failures = failures
        self.error = error or ConnectionError("S3CRET")
        self.published: Callable[[], object] = bool

    async def publish(self, event: UpdateEvent) -> None:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise self.error
        self.events.append(event)
        self.published()


async def relayed(place: Scene, broker: Broker, poll: Any = None, **options: Any) -> None:
    poller = place.poll(**(poll or {}))
    poller.stop(after_poll=True)
    await relay(poller, broker.publish, **options)


@pytest.mark.parametrize(
    ("failures", "error"),
    [(0, None), (1, asyncio.CancelledError()), (5, ConnectionError("S3CRET"))],
    ids=repr,
)
async def test_each_update_is_published_before_the_checkpoint_moves_over_it(
    failures: int, error: BaseException | None
) -> None:
    """Failures and cancellations by the broker are retried; the events keep their ids."""
    async with scene() as place:
        broker = Broker(failures, error)
        await relayed(place, broker)
        updated = place.touch(1, 2, 3)
        await relayed(place, broker)
        assert {event.application_id for event in broker.events} == set(updated)
        ids = Counter(event.application_id for event in set(broker.events))
        assert set(ids.values()) == {1}
        await relayed(place, again := Broker())
        assert again.events == []


async def test_a_crash_before_the_commit_publishes_the_same_ids_again() -> None:
    """A broker can then drop the repetition; a content that comes back later has another id."""
    async with scene() as place:
        store = FailingStore()
        place.store = store
        await relayed(place, Broker())
        place.touch(1, 2)
        first, second = Broker(), Broker()
        store.error = ZeroDivisionError()
        first.published = lambda: setattr(store, "failures", 1)
        with pytest.raises(CheckpointError, match="mistake"):
            await relayed(place, first)
        await relayed(place, second)
        assert {event.id for event in first.events} == {event.id for event in second.events}
        place.touch(1)
        await relayed(place, second)
        assert len({event.id for event in second.events}) == 3


async def test_a_reference_holds_no_personal_data_and_a_record_all() -> None:
    """Both are read back from their JSON."""
    async with scene() as place:
        events = []
        for payload in ("reference", "record"):
            broker = Broker()
            poll = {"name": payload, "start": "2020-01-01"}
            await relayed(place, broker, poll, payload=payload)
            assert [UpdateEvent.from_json(event.to_json()) for event in broker.events] == (
                broker.events
            )
            events.append(broker.events[0])
        reference, full = events
        members = {"id", "application_id", "updated_at", "sequence"}
        assert set(json.loads(reference.to_json())) == members
        assert full.record is not None
        surname = next(iter(full.record.application.applicants.values())).last_name
        assert surname.encode() in full.to_json()
        assert surname.encode() not in reference.to_json()
        assert surname not in repr(full)


async def test_a_later_event_has_a_greater_number() -> None:
    """Also after a takeover; events with one number do not concern the same application."""
    async with scene() as place:
        broker = Broker()
        for numbers in ((1, 2), (1,), (2, 1)):
            place.touch(*numbers)
            await relayed(place, broker, payload="record")
    found: dict[str, list[int]] = {}
    for event in broker.events:
        found.setdefault(event.application_id, []).append(event.sequence or 0)
    assert [len(numbers) for numbers in found.values()] == [3, 2]
    assert all(numbers == sorted(set(numbers)) for numbers in found.values())


def test_a_message_of_earlier_versions_has_no_number() -> None:
    """The message is read like any other, and written as it was."""
    text = b'{"id":"1","application_id":"app-1","updated_at":"2026-01-01T00:00:00Z"}'
    event = UpdateEvent.from_json(text)
    assert event.sequence is None
    assert event.to_json() == text


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"null", b"[]", b"{}", b"\xff", b"[" * 100_000),
        b'{"id":"1","application_id":"a","updated_at":"2026-01-01T00:00:00"}',
        b'{"id":1,"application_id":"a","updated_at":"2026-01-01T00:00:00Z"}',
        b'{"id":"","application_id":"a","updated_at":"2026-01-01T00:00:00Z"}',
        b'{"id":"%b","application_id":"a","updated_at":"2026-01-01T00:00:00Z"}' % (b"1" * 257),
        b'{"id":"1","application_id":"a","updated_at":"2026-01-01T00:00:00Z","record":{}}',
        b'{"id":"1","application_id":"a","updated_at":"2026-01-01T00:00:00Z","sequence":"1"}',
        b'{"id":"1","application_id":"a","updated_at":"0001-01-01T00:00:00+05:00"}',
        b'{"id":"1","application_id":"..","updated_at":"2026-01-01T00:00:00Z"}',
    ],
)
def test_an_unreadable_message_is_a_decode_error(text: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        UpdateEvent.from_json(text)
    assert not caught.value.retryable


async def test_mistakes_of_the_publisher_are_raised() -> None:
    """A retry would make them again; nothing is committed."""
    async with scene() as place:
        with pytest.raises(TypeError, match="bug"):
            await relayed(place, Broker(1, TypeError("bug")), {"start": "2020-01-01"})
        await relayed(place, again := Broker(), {"start": "2020-01-01"})
        assert len(again.events) == len(place.ids)


async def test_a_relay_that_another_has_replaced_ends() -> None:
    """Instead of publishing the same events for ever."""
    async with scene() as place:
        poller = place.poll(start="2020-01-01")
        replaced = asyncio.Event()

        async def publish(_event: UpdateEvent) -> None:
            if not replaced.is_set():
                replaced.set()
                await anext(place.poll(start="2020-01-01").batches())

        with pytest.raises(CheckpointConflictError):
            await relay(poller, publish, concurrency=1)


@pytest.mark.parametrize("options", [{"payload": "all"}, {"concurrency": 0}, {"attempts": 0}])
async def test_invalid_arguments_are_named(options: dict[str, Any]) -> None:
    async with scene() as place:
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            await relayed(place, Broker(), **options)


async def test_faststream_publishes_the_json_under_the_id() -> None:
    """With what any of its brokers takes."""
    sent: list[tuple[Any, dict[str, Any]]] = []

    class Publisher:
        async def publish(self, message: Any, /, **options: Any) -> None:
            sent.append((message, options))

    async with scene() as place:
        broker = Broker()
        await relayed(place, broker, {"start": "2020-01-01"})
        await faststream_publisher(Publisher())(broker.events[0])
        message, options = sent[0]
        assert UpdateEvent.from_json(message) == broker.events[0]
        assert options["correlation_id"] == options["headers"]["Nats-Msg-Id"] == broker.events[0].id


async def test_a_relay_that_is_cancelled_ends() -> None:
    """Also while its publisher fails, and turns the cancellation into an error of its own."""
    async with scene() as place:
        began = asyncio.Event()

        async def publish(_event: UpdateEvent) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ConnectionError from None

        task = asyncio.create_task(relay(place.poll(start="2020-01-01"), publish))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
