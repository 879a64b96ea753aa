"""A worker of NATS JetStream, with real servers: nothing is lost, and it is never deaf."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

from income_client import IncomeClientError
from income_client.engines.nats import nats_publisher
from income_client.engines.relay import UpdateEvent
from income_client.engines.worker import Worker
from income_client.engines.worker_nats import nats_events
from tests.support.brokers import until, working
from tests.support.event_source import event
from tests.support.loop_time import pass_time
from tests.support.nats_server import NatsServer, connected, running_server

_NUMBERS: Final = count(1)
_SECONDS: Final = 200.0


async def ignore(_: UpdateEvent) -> None:
    """Handle an event."""


class Place:
    """Streams that no other test has, and a connection to their server."""

    def __init__(self, server: NatsServer, client: Client) -> None:
        number = next(_NUMBERS)
        self.server, self.client = server, client
        self.js = client.jetstream(timeout=30)
        self.names: dict[str, Any] = {
            "stream": f"UPDATES{number}",
            "subject": f"updates{number}",
            "dead_stream": f"DEAD{number}",
            "dead_subject": f"dead{number}",
            "durable": "incomes",
        }
        self.handled: list[str] = []

    async def make(self, *streams: str) -> None:
        for name in streams or ("stream", "dead_stream"):
            subject = self.names["subject" if name == "stream" else "dead_subject"]
            subjects = [subject if name == "stream" else f"{subject}.>"]
            await self.js.add_stream(StreamConfig(name=self.names[name], subjects=subjects))

    async def publish(self, *events: UpdateEvent) -> None:
        for one in events:
            await nats_publisher(self.js, self.names["subject"])(one)

    async def handle(self, one: UpdateEvent) -> None:
        self.handled.append(one.id)

    def worker(self, handle: Any = None, connection: Any = None, **options: Any) -> Worker:
        """Return a worker, on this connection unless another is given."""
        settings = {"ack_wait": options.pop("ack_wait", 60.0)}
        source = nats_events(connection or self.client, **self.names, **settings)
        return Worker(handle or self.handle, source, **options)

    async def dead(self, number: int = 1) -> list[tuple[str, dict[str, str], bytes]]:
        """Wait for some dead letters, and return them: reason, headers, body."""
        name = self.names["dead_stream"]
        async with asyncio.timeout(_SECONDS):
            while (await self.js.stream_info(name)).state.messages < number:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        found = [await self.js.get_msg(name, one + 1) for one in range(number)]
        return [
            (str(one.subject).rpartition(".")[2], one.headers or {}, one.data or b"")
            for one in found
        ]

    async def unsettled(self) -> tuple[int, int]:
        """Return how many events wait, and how many are in somebody's hands."""
        info = await self.js.consumer_info(self.names["stream"], self.names["durable"])
        return info.num_pending or 0, info.num_ack_pending or 0


pytestmark = pytest.mark.usefixtures("fast_loop")


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's time does not jump, so pauses are short."""
    monkeypatch.setattr("income_client.engines.worker._pause_after", lambda _: 0.01)
    monkeypatch.setattr("income_client.engines.worker._BROKER_PAUSES", (0.05, 0.1))
    monkeypatch.setattr("income_client.engines.worker_nats._TELL_SECONDS", 2.5)
    monkeypatch.setattr("income_client.engines.worker_nats._LOOK_SECONDS", 0.1)


@pytest.fixture
async def place(nats_server: NatsServer, client: Client) -> Place:
    place = Place(nats_server, client)
    await place.make()
    return place


@pytest.fixture
async def lost(lost_server: NatsServer, lost_client: Client) -> Place:
    """Make streams on a server that a test may kill."""
    place = Place(lost_server, lost_client)
    await place.make()
    return place


async def test_each_event_is_handled_once_by_one_of_several_workers(place: Place) -> None:
    """On connections of the caller's and of their own; the caller's stays open."""
    ids = [str(one) for one in range(100)]
    async with working(place.worker()), working(place.worker(connection=place.server.url)):
        await place.publish(*(event(f"app-{one}", one) for one in ids))
        await until(lambda: len(place.handled) == len(ids))
    assert sorted(place.handled, key=int) == ids
    assert await place.unsettled() == (0, 0)
    assert place.client.is_connected


async def test_what_cannot_be_handled_becomes_a_dead_letter(place: Place) -> None:
    """With its reason, the class of the error, the attempt, and the body as it came.

    One message has headers that look like the server's own; one event has killed its workers,
    who never said what has come of it; one always fails.
    """
    calls = count(1)

    async def handle(_: UpdateEvent) -> None:
        next(calls)
        raise ValueError("S3CRET")

    killed, failing = event("app-1", "1"), event("app-2", "2")
    await place.publish(killed)
    source = nats_events(place.client, **place.names)
    for _ in range(8):
        [delivery] = await source.receive(1)
        await delivery.give_back(0)
    await place.publish(failing)
    headers = {"Status": "404", "Description": "No Messages"}
    await place.js.publish(place.names["subject"], b"not an event", headers=headers)
    async with working(place.worker(handle)):
        found = await place.dead(3)
    await source.aclose()
    assert next(calls) == 9
    assert await place.unsettled() == (0, 0)
    assert "S3CRET" not in str(found)
    assert {reason == headers["Dead-Letter-Reason"] for reason, headers, _ in found} == {True}
    assert sorted(
        (body, reason, headers["Dead-Letter-Error"], headers["Dead-Letter-Attempt"])
        for reason, headers, body in found
    ) == [
        (b"not an event", "unreadable", "DecodeError", "1"),
        (killed.to_json(), "failed", "Unfinished", "9"),
        (failing.to_json(), "failed", "ValueError", "8"),
    ]


async def test_what_takes_longer_than_the_ack_wait_is_not_delivered_meanwhile(place: Place) -> None:
    began = count()

    async def handle(_: UpdateEvent) -> None:
        next(began)
        await asyncio.sleep(5)  # a second of the server's time

    await place.publish(event())
    first, second = (place.worker(handle, ack_wait=0.6) for _ in range(2))
    async with working(first), working(second):
        await until(lambda: first.status.handled + second.status.handled)
    assert next(began) == 1


@pytest.mark.parametrize("how", ["own", "the caller's"])
async def test_a_server_that_is_killed_loses_no_event(lost: Place, how: str) -> None:
    """While events are handled; the worker goes on once the server is there again."""
    ids = [str(one) for one in range(50)]
    await lost.publish(*(event(f"app-{one}", one) for one in ids))

    async def handle(one: UpdateEvent) -> None:
        if len(lost.handled) == 20:
            lost.server.kill()
            asyncio.get_running_loop().call_later(0.3, lost.server.start)
        await lost.handle(one)

    connection = lost.server.url if how == "own" else lost.client
    async with working(lost.worker(handle, connection, ack_wait=2.0)):
        await until(lambda: set(lost.handled) == set(ids))
        await lost.publish(event("app-x", "x"))
        await until(lambda: "x" in lost.handled)


async def test_a_worker_asks_again_on_a_new_connection(
    lost: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had asked on the old one has no answer, however long it waits."""
    monkeypatch.setattr("income_client.engines.worker_nats._ANSWER_SECONDS", 600.0)
    async with working(lost.worker()):
        await lost.publish(event(event_id="1"))
        await until(lambda: lost.handled)
        lost.server.kill()
        lost.server.start()
        await until(lambda: lost.client.is_connected and lost.client.stats["reconnects"])
        await lost.publish(event(event_id="2"))
        await until(lambda: lost.handled == ["1", "2"])


async def test_a_worker_that_starts_before_its_server_waits_for_it(lost: Place) -> None:
    """Its status shows that it is not connected."""
    await lost.publish(event())
    lost.server.kill()
    worker = lost.worker(connection=lost.server.url)
    async with working(worker):
        await asyncio.sleep(0.1)
        connected_before = worker.status.is_connected
        lost.server.start()
        await until(lambda: lost.handled)
        await until(lambda: worker.status.is_connected)
    assert not connected_before


async def test_a_consumer_or_a_stream_that_is_made_again_is_read_again(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker makes the consumer; what it had not delivered is not lost."""
    stream, durable = place.names["stream"], place.names["durable"]
    async with working(place.worker()) as task:
        await place.publish(event(event_id="1"))
        await until(lambda: place.handled)
        await place.js.delete_consumer(stream, durable)
        await place.publish(event(event_id="2"))
        await until(lambda: place.handled == ["1", "2"])
        await place.js.delete_stream(stream)
        await until(lambda: "there is no stream" in caplog.text)
        assert not task.done()
        await place.make("stream")
        await place.publish(event(event_id="3"))
        await until(lambda: place.handled == ["1", "2", "3"])


async def test_a_worker_ends_once_the_callers_connection_is_closed_for_good(lost: Place) -> None:
    """With an error that says what to do."""
    async with connected(lost.server, max_reconnect_attempts=2) as client:
        worker = lost.worker(connection=client)
        task = asyncio.create_task(worker.run())
        await lost.publish(event())
        await until(lambda: lost.handled)
        lost.server.kill()
        async with asyncio.timeout(_SECONDS):
            with pytest.raises(IncomeClientError, match="max_reconnect_attempts=-1"):
                await task
    assert not worker.status.is_connected


async def test_a_worker_does_not_start_with_wrong_credentials(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The password is not in the error."""
    caplog.set_level("DEBUG", "income_client.nats")
    config = "authorization {user: worker, password: right}"
    for server in running_server(tmp_path, config):
        address = server.url.replace("//", "//worker:S3CRET@")
        running = asyncio.create_task(Worker(ignore, nats_events(address, durable="incomes")).run())
        await until(lambda: "NATS: Error" in caplog.text)
        pass_time(10)
        with pytest.raises(IncomeClientError, match="refused the credentials"):
            await running


async def test_a_worker_does_not_start_with_an_invalid_address() -> None:
    worker = Worker(ignore, nats_events("nats://127.0.0.1:99999", durable="incomes"))
    with pytest.raises(IncomeClientError, match="this address"):
        await worker.run()


@pytest.mark.parametrize("missing", ["stream", "dead_stream"])
async def test_a_worker_does_not_start_without_its_streams(place: Place, missing: str) -> None:
    """Without one for the dead letters, those would be lost."""
    await place.js.delete_stream(place.names[missing])
    with pytest.raises(IncomeClientError, match=place.names[missing]):
        await place.worker().run()


async def test_the_dead_letters_cannot_be_in_the_stream_of_the_events(place: Place) -> None:
    """Both would be deleted at the same age."""
    stream, dead = place.names["stream"], place.names["dead_stream"]
    await place.js.delete_stream(dead)
    subjects = [place.names["subject"], f"{place.names['dead_subject']}.>"]
    await place.js.update_stream(StreamConfig(name=stream, subjects=subjects))
    place.names["dead_stream"] = stream
    with pytest.raises(IncomeClientError, match="apart from the events"):
        await place.worker().run()


async def test_a_consumer_whose_server_would_give_up_is_changed(place: Place) -> None:
    """Events that the server gives up are in no dead letters; the rest of it stays."""
    stream, durable = place.names["stream"], place.names["durable"]
    config = ConsumerConfig(ack_wait=150, max_deliver=9, max_ack_pending=100)
    await place.js.add_consumer(stream, config, durable_name=durable, ack_policy=AckPolicy.EXPLICIT)
    async with working(place.worker()):
        await place.publish(event())
        await until(lambda: place.handled)
    kept = (await place.js.consumer_info(stream, durable)).config
    assert (kept.max_deliver, kept.ack_wait, kept.max_ack_pending) == (-1, 150, 100)


async def test_another_kind_of_consumer_is_refused(place: Place) -> None:
    """Its messages would count as handled once they were sent."""
    stream, durable = place.names["stream"], place.names["durable"]
    config = ConsumerConfig(durable_name=durable, ack_policy=AckPolicy.NONE)
    await place.js.add_consumer(stream, config)
    with pytest.raises(IncomeClientError, match="not a pull consumer with explicit acks"):
        await place.worker().run()


async def test_a_worker_waits_while_too_many_events_are_pending(place: Place) -> None:
    """The server is asked no more often than otherwise, and the rest comes once there is room."""
    stream, durable = place.names["stream"], place.names["durable"]
    config = ConsumerConfig(max_ack_pending=1, ack_wait=60, ack_policy=AckPolicy.EXPLICIT)
    await place.js.add_consumer(stream, config, durable_name=durable)
    go_on = asyncio.Event()

    async def handle(one: UpdateEvent) -> None:
        await place.handle(one)
        await go_on.wait()

    await place.publish(event("app-1", "1"), event("app-2", "2"))
    worker = place.worker(handle)
    async with working(worker):
        await until(lambda: place.handled)
        before = place.client.stats["out_msgs"]
        await asyncio.sleep(1)
        assert place.client.stats["out_msgs"] - before < 3
        assert worker.status.is_connected
        go_on.set()
        await until(lambda: place.handled == ["1", "2"])


async def test_what_was_received_and_not_returned_is_given_back(place: Place) -> None:
    """A worker may be stopped just then; the next one has it at once."""
    await place.publish(event())
    source: Any = nats_events(place.client, **place.names)
    client, _ = await source._open_connection()
    await source._fetch_messages(client, 1)
    await source.aclose()
    async with working(place.worker()):
        await until(lambda: place.handled)
