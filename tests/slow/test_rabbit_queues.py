"""Queues of RabbitMQ: how they are made, how a pause is kept, and what FastStream publishes."""

from typing import Any

import pytest

pytest.importorskip("faststream", reason="brokers need the extra 'full'")

from faststream.rabbit import RabbitBroker

from income_client import ConfigurationError, IncomeClientError
from income_client.engines.relay import faststream_publisher
from income_client.engines.worker import Worker
from income_client.engines.worker_rabbit import rabbit_events
from tests.support.brokers import (
    Handling,
    OnRabbit,
    events,
    publish,
    rabbit_channel,
    received,
    until,
    working,
)
from tests.support.rabbit_server import RabbitServer, needs_rabbit

pytestmark = needs_rabbit


async def test_a_queue_with_other_settings_ends_the_worker(rabbit_server: RabbitServer) -> None:
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


async def test_an_event_in_a_pause_is_in_a_queue_of_its_own(rabbit_server: RabbitServer) -> None:
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


async def test_what_a_worker_has_not_begun_is_given_back_when_it_ends(
    rabbit_server: RabbitServer,
) -> None:
    """Messages that the server has sent ahead."""
    broker = OnRabbit(rabbit_server)
    await publish(broker, events(10))
    first: Any = broker.source()
    assert await first.receive(10)
    await first.aclose()
    handling = Handling()
    async with working(Worker(handling, broker.source())):
        await until(lambda: handling.has(events(10)))


async def test_an_event_that_no_queue_takes_is_not_published(rabbit_server: RabbitServer) -> None:
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


def test_an_address_of_another_kind_is_refused() -> None:
    """Before anything is sent."""
    with pytest.raises(ConfigurationError, match="amqp://"):
        rabbit_events("http://127.0.0.1:5672")
