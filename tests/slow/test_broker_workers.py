"""Workers on Redis streams and RabbitMQ, on real servers that are killed, emptied and cut off.

Then what only one of them has: settings of a server, what is removed, queues of pauses.
"""

import asyncio
import signal
from typing import Any

import pytest

pytest.importorskip("faststream", reason="brokers need the extra 'full'")

from faststream.rabbit import RabbitBroker
from faststream.redis import RedisBroker

from income_client import IncomeClientError
from income_client.engines.relay import UpdateEvent, faststream_publisher
from income_client.engines.worker import Worker
from tests.support.brokers import (
    Broker,
    Handling,
    OnRabbit,
    OnRedis,
    events,
    publish,
    rabbit_channel,
    received,
    until,
    worker_process,
    working,
)
from tests.support.cli import Cli, cli, shell
from tests.support.rabbit_server import RabbitServer, needs_rabbit
from tests.support.redis_server import RedisServer, changed_settings, needs_redis, redis_client
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


# Redis


@needs_redis
async def test_settings_that_cost_events_are_refused_or_logged(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """By workers, and by what a relay publishes with before it has published anything."""
    broker = OnRedis(redis_server)
    async with redis_client(redis_server) as redis:
        evicting = {"maxmemory": "100mb", "maxmemory_policy": "allkeys-lru"}
        async with changed_settings(redis, **evicting), broker.publisher() as send:
            with pytest.raises(IncomeClientError, match=r"allkeys-lru.*noeviction") as refused:
                await Worker(Handling(), broker.source()).run()
            assert not refused.value.retryable
            with pytest.raises(IncomeClientError, match="noeviction"):
                await send(events(1)[0])
        assert not await redis.exists(broker.name)
        async with changed_settings(redis, appendfsync="everysec"):
            source = broker.source()
            for _ in range(2):
                assert not await source.receive(1)
            await source.aclose()
    (warning,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "a power failure loses events: set appendonly yes and appendfsync always" in warning


@needs_redis
async def test_what_every_group_has_acknowledged_is_removed(redis_server: RedisServer) -> None:
    """Nothing before: neither what another group has in hand nor what it has not read."""
    broker = OnRedis(redis_server)
    first, second = broker.source("first"), broker.source("second")
    assert not await first.receive(1)
    assert not await second.receive(1)
    await publish(broker, events(2))
    async with redis_client(redis_server) as redis:
        for _ in range(2):
            await (await received(first)).acknowledge()
        in_hand = await received(second)
        for kept in (2, 1, 0):
            for _ in range(2):
                assert not await first.receive(1)  # it removes what it can every second
            assert await redis.xlen(broker.name) == kept
            await in_hand.acknowledge()
            in_hand = await received(second) if kept > 1 else in_hand
    await first.aclose()
    await second.aclose()


@needs_redis
async def test_no_new_events_are_read_while_a_thousand_are_pending(
    redis_server: RedisServer,
) -> None:
    """Those that wait for their next attempt do not fill the memory of the server's group."""
    broker = OnRedis(redis_server)
    source = broker.source()
    await publish(broker, events(1_001))
    some: Any = await source.receive(1_000)
    assert len(some) == 1_000
    assert not await source.receive(1)
    await some[0].acknowledge()
    assert len(await source.receive(10)) == 1
    await source.aclose()


@needs_redis
async def test_workers_read_what_faststream_publishes(redis_server: RedisServer) -> None:
    """In an envelope, with the trace in it, and before there was a worker."""
    handling = Handling()
    broker = OnRedis(redis_server)
    with collecting() as exported:
        async with RedisBroker(redis_server.url) as faststream:
            publisher = faststream_publisher(faststream.publisher(stream=broker.name))
            await faststream.start()
            for one in events(3):
                await publisher(one)
        async with working(Worker(handling, broker.source())):
            await until(lambda: handling.has(events(3)))
    sent = [ids_of(span)[0] for span in exported.named(f"send {broker.name}")]
    done = [ids_of(span)[0] for span in exported.named(f"process {broker.name}")]
    assert sorted(sent) == sorted(done)
    assert len(sent) == 3


@needs_redis
async def test_an_entry_that_is_no_event_becomes_a_dead_letter(redis_server: RedisServer) -> None:
    """With the fields that it has."""
    broker = OnRedis(redis_server)
    async with redis_client(redis_server) as redis:
        await redis.xadd(broker.name, {"other": "content"})
        worker = Worker(Handling(), broker.source())
        async with working(worker):
            await until(lambda: worker.status.dead)
        letters: Any = await redis.xrange(broker.dead)
    [(_, fields)] = letters
    assert fields == {
        b"other": b"content",
        b"reason": b"unreadable",
        b"error": b"DecodeError",
        b"attempt": b"1",
    }


# RabbitMQ


@needs_rabbit
async def test_a_rabbit_queue_with_other_settings_ends_the_worker(
    rabbit_server: RabbitServer,
) -> None:
    """One that does not count deliveries, such as FastStream makes."""
    broker = OnRabbit(rabbit_server)
    async with rabbit_channel(rabbit_server.url) as channel:
        await channel.declare_queue(broker.name, durable=True)
    with pytest.raises(IncomeClientError, match="exists with other settings") as refused:
        await Worker(Handling(), broker.source()).run()
    assert not refused.value.retryable
    async with broker.publisher() as send:
        with pytest.raises(IncomeClientError, match="exists with other settings"):
            await send(events(1)[0])


@needs_rabbit
async def test_in_a_pause_rabbit_has_an_event_in_a_queue_of_its_own(
    rabbit_server: RabbitServer,
) -> None:
    """With that time to live: it is in nobody's hands meanwhile."""
    broker = OnRabbit(rabbit_server)
    await publish(broker, events(1))
    source = broker.source()
    await (await received(source)).give_back(600.0)
    async with rabbit_channel(rabbit_server.url) as channel:
        queue = await channel.get_queue(f"{broker.name}.wait.600")
        waiting = await queue.get()
        assert waiting.headers["income-attempts"] == 1
        assert waiting.body == events(1)[0].to_json()
    await source.aclose()


@needs_rabbit
async def test_what_rabbit_has_sent_ahead_is_given_back_at_the_end(
    rabbit_server: RabbitServer,
) -> None:
    broker = OnRabbit(rabbit_server)
    await publish(broker, events(10))
    first: Any = broker.source()
    assert await first.receive(10)
    await first.aclose()
    handling = Handling()
    async with working(Worker(handling, broker.source())):
        await until(lambda: handling.has(events(10)))


@needs_rabbit
async def test_an_event_that_no_rabbit_queue_takes_is_not_published(
    rabbit_server: RabbitServer,
) -> None:
    """By FastStream's publisher, which does not make the queue."""
    broker = OnRabbit(rabbit_server)
    async with RabbitBroker(rabbit_server.url) as faststream:
        publisher = faststream_publisher(faststream.publisher(broker.name, persist=True))
        await faststream.start()
        with pytest.raises(IncomeClientError, match="no queue") as refused:
            await publisher(events(1)[0])
        assert refused.value.retryable
        source = broker.source()
        assert not await source.receive(1)
        await source.aclose()
        await publisher(events(1)[0])
    handling = Handling()
    async with working(Worker(handling, broker.source())):
        await until(lambda: handling.has(events(1)))
