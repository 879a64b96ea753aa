"""Workers on Redis streams and RabbitMQ, on real servers that are killed, emptied and cut off."""

import asyncio
import signal

import pytest

from income_client.engines.relay import UpdateEvent
from income_client.engines.worker import Worker
from tests.support.brokers import (
    Broker,
    Handling,
    OnRabbit,
    OnRedis,
    events,
    publish,
    received,
    until,
    worker_process,
    working,
)
from tests.support.cli import Cli, cli, shell
from tests.support.rabbit_server import needs_rabbit
from tests.support.redis_server import needs_redis
from tests.support.telemetry import collecting, ids_of

__all__ = ["cli", "shell"]


@pytest.fixture(
    params=[
        pytest.param("redis", marks=needs_redis),
        pytest.param("rabbit", marks=needs_rabbit),
    ]
)
def broker(request: pytest.FixtureRequest) -> Broker:
    """Return events of this test on one of the servers."""
    if request.param == "redis":
        return OnRedis(request.getfixturevalue("redis_server"))
    return OnRabbit(request.getfixturevalue("rabbit_server"))


async def test_an_event_comes_again_until_it_is_acknowledged(broker: Broker) -> None:
    """At once or after a pause, each time with its attempt."""
    [one] = events(1)
    await publish(broker, [one])
    source = broker.source()
    for attempt, pause in ((1, 0.0), (2, 0.01), (3, 0.0), (4, 0.01)):
        delivery = await received(source)
        assert delivery.attempt == attempt
        assert UpdateEvent.from_json(delivery.body) == one
        await delivery.give_back(pause)
    await (await received(source)).acknowledge()
    await source.aclose()
    await broker.pass_time()
    again = broker.source()
    assert not await again.receive(1)
    await again.aclose()


async def test_relay_and_worker_are_one_trace(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the event comes again after a pause, whose copy keeps the trace on RabbitMQ."""
    monkeypatch.setattr("income_client.engines.worker._pause_after", lambda _: 0.01)
    tries: list[UpdateEvent] = []

    async def handle(one: UpdateEvent) -> None:
        tries.append(one)
        if len(tries) == 1:
            raise ValueError

    with collecting() as exported:
        await publish(broker, events(1))
        async with working(Worker(handle, broker.source())):
            await until(lambda: len(tries) == 1)
            await broker.pass_time()
            await until(lambda: len(exported.named(f"process {broker.name}")) == 2)
    (sent,) = exported.named(f"send {broker.name}")
    system = "redis" if isinstance(broker, OnRedis) else "rabbitmq"
    assert (sent.attributes or {})["messaging.system"] == system
    for span in exported.named(f"process {broker.name}"):
        assert ids_of(span)[2] == ids_of(sent)[1]
        assert (span.attributes or {})["messaging.system"] == system


async def test_a_dead_letter_is_kept_with_its_reason(broker: Broker) -> None:
    """As it was, also what is no event; nothing else comes of it."""
    handling = Handling()
    [one] = events(1)

    async def handle(found: UpdateEvent) -> None:
        await handling(found)
        raise ValueError

    await publish(broker, [one])
    worker = Worker(handle, broker.source(), attempts=1)
    async with working(worker):
        await until(lambda: worker.status.dead)
    assert await broker.dead_letters() == [(one.to_json(), "failed", "ValueError", 1)]
    assert handling.times == {one.id: 1}


@pytest.mark.income_service(applications=9)
def test_the_relay_command_publishes_there(broker: Broker, shell: Cli) -> None:
    """By the address alone; what was published is not published again."""
    broker.dead = "income.dead"
    where = ("relay", "--to", broker.server.url, "--subject", broker.name, "--store", "relay.db")
    for more in (("--start", "beginning"), ()):
        ran = shell(*where, *more, "--once")
        assert ran.status == 0, ran.stderr

    async def published() -> list[UpdateEvent]:
        source = broker.source()
        found = []
        while deliveries := await source.receive(20):
            for delivery in deliveries:
                found.append(UpdateEvent.from_json(delivery.body))
                await delivery.acknowledge()
        await source.aclose()
        return found

    found = asyncio.run(published())
    assert sorted(one.application_id for one in found) == sorted(shell.service.ids)


async def test_a_worker_that_comes_later_gets_all_events(broker: Broker) -> None:
    """The relay has published before there was one."""
    handling = Handling()
    await publish(broker, early := events(300))
    async with working(Worker(handling, broker.source(), concurrency=100)):
        await until(lambda: handling.has(early))
    assert set(handling.times.values()) == {1}


async def test_no_event_is_lost_when_the_server_is_killed(broker: Broker) -> None:
    """Killed without a word while events are published and handled, and started again."""
    handling = Handling()
    await publish(broker, events(1))
    worker = Worker(handling, broker.source())
    async with working(worker) as running:
        await until(lambda: handling.has(events(1)))
        await broker.settle()
        publishing = asyncio.create_task(publish(broker, all_events := events(200)))
        await until(lambda: handling.has(events(50)))
        await asyncio.to_thread(broker.server.kill)
        await until(lambda: not worker.status.is_connected)
        await asyncio.to_thread(broker.server.start)
        await publishing
        await until(lambda: handling.has(all_events))
        assert not running.done()
    assert worker.status.dead == 0


async def test_an_event_that_kills_its_workers_becomes_a_dead_letter(broker: Broker) -> None:
    """After as many deaths as there are attempts, without being tried once more."""
    [one] = events(1)
    await publish(broker, [one])
    for _ in range(3):
        process = await worker_process(broker, "die")
        assert await process.wait() == -signal.SIGKILL
        await broker.pass_time()
    handling = Handling()
    worker = Worker(handling, broker.source(), attempts=3)
    async with working(worker):
        await until(lambda: worker.status.dead)
        await publish(broker, later := events(1, first=1))
        await until(lambda: handling.has(later))
    assert await broker.dead_letters() == [(one.to_json(), "failed", "Unfinished", 4)]
    assert one.id not in handling.times


async def test_a_worker_that_is_stopped_gives_its_events_back(broker: Broker) -> None:
    """By SIGTERM: the next worker has them at once."""
    await publish(broker, some := events(10))
    process = await worker_process(broker, "wait")
    assert process.stdout is not None
    for _ in some:
        assert await process.stdout.readline() == b"in hand\n"
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
    handling = Handling()
    async with working(Worker(handling, broker.source())):
        await until(lambda: handling.has(some))


async def test_what_is_deleted_is_made_again(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so; later events are handled."""
    handling = Handling()
    worker = Worker(handling, broker.source())
    await publish(broker, early := events(2))
    async with working(worker):
        await until(lambda: handling.has(early))
        await broker.delete()
        await until(lambda: "deleted" in caplog.text)
        await publish(broker, later := events(2, first=2))
        await until(lambda: handling.has(later))


# RabbitMQ 3.10 can lose a quorum queue that is made within a second of its deletion.
@pytest.mark.parametrize("broker", [pytest.param("redis", marks=needs_redis)], indirect=True)
async def test_what_is_deleted_and_made_at_once_is_read_again(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """By a relay, before the worker has noticed."""
    handling = Handling()
    await publish(broker, early := events(2))
    async with working(Worker(handling, broker.source())):
        await until(lambda: handling.has(early))
        await broker.delete()
        await publish(broker, later := events(2, first=2))
        await until(lambda: handling.has(later))
    assert "deleted" in caplog.text


async def test_an_event_in_hand_is_not_given_to_another_worker(broker: Broker) -> None:
    """As long as its worker says that it lives."""
    await publish(broker, events(1))
    first, second = broker.source(), broker.source()
    delivery = await received(first)
    await broker.pass_time()
    await delivery.extend()
    assert not await second.receive(1)
    await delivery.acknowledge()
    await first.aclose()
    await second.aclose()
