"""Events through the brokers of FastStream, as its own test brokers play them."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("faststream", reason="brokers need the extra 'full'")

from faststream.kafka import KafkaBroker, TestKafkaBroker
from faststream.kafka.opentelemetry import KafkaTelemetryMiddleware
from faststream.nats import JStream, NatsBroker
from faststream.rabbit import RabbitBroker, TestRabbitBroker
from faststream.rabbit.opentelemetry import RabbitTelemetryMiddleware
from faststream.redis import RedisBroker, TestRedisBroker
from faststream.redis.opentelemetry import RedisTelemetryMiddleware
from opentelemetry import trace

from income_client import IncomeClientError
from income_client.engines.relay import UpdateEvent, faststream_publisher, relay
from tests.support.nats_server import NatsServer, connected, running_server
from tests.support.polling import scene
from tests.support.telemetry import collecting, ids_of


@pytest.mark.parametrize(
    ("kind", "system"), [("kafka", "kafka"), ("rabbit", "rabbitmq"), ("redis", "redis")]
)
async def test_other_brokers_take_the_events(kind: str, system: str) -> None:
    """With the publishers that the guide names; FastStream's own telemetry continues the trace."""
    found: list[bytes] = []

    async def keep(body: Any) -> None:
        found.append(json.dumps(body).encode())
        with trace.get_tracer("program").start_as_current_span("handled"):
            pass

    broker: Any
    test: Any
    if kind == "kafka":
        broker, test = KafkaBroker(middlewares=[KafkaTelemetryMiddleware()]), TestKafkaBroker
        publisher = broker.publisher("income.updates")
        broker.subscriber("income.updates")(keep)
    elif kind == "rabbit":
        broker, test = RabbitBroker(middlewares=[RabbitTelemetryMiddleware()]), TestRabbitBroker
        publisher = broker.publisher("income.updates", persist=True)
        broker.subscriber("income.updates")(keep)
    else:
        broker, test = RedisBroker(middlewares=[RedisTelemetryMiddleware()]), TestRedisBroker
        publisher = broker.publisher(stream="income.updates")
        broker.subscriber(stream="income.updates")(keep)
    event = UpdateEvent(
        id="1", application_id="app-1", updated_at=datetime(2026, 6, 30, 12, tzinfo=UTC)
    )
    with collecting() as exported:
        async with test(broker):
            await faststream_publisher(publisher)(event)
    (sent,) = exported.named("send income.updates")
    (handled,) = exported.named("handled")
    assert (sent.attributes or {})["messaging.system"] == system
    assert ids_of(handled)[0] == ids_of(sent)[0]
    assert [UpdateEvent.from_json(one) for one in found] == [event]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """Run a NATS server that a test may kill."""
    yield from running_server(tmp_path)


async def test_a_broker_that_has_given_up_ends_the_relay(server: NatsServer) -> None:
    """It would fail for ever; the error names the setting by which it never gives up."""
    closed = asyncio.Event()

    async def note() -> None:
        closed.set()
        await asyncio.sleep(0)

    published: list[UpdateEvent] = []

    async def lose(event: UpdateEvent) -> None:
        await publish(event)
        published.append(event)
        if not closed.is_set():
            server.kill()
            await closed.wait()
            server.start()

    async with scene() as place:
        broker = NatsBroker(
            server.url, max_reconnect_attempts=1, reconnect_time_wait=0, closed_cb=note
        )
        await broker.start()
        async with connected(server) as client:
            await client.jetstream().add_stream(name="UPDATES", subjects=["income.updates"])
        stream = JStream("UPDATES", declare=False)
        publish = faststream_publisher(broker.publisher("income.updates", stream=stream))
        with pytest.raises(IncomeClientError, match="max_reconnect_attempts=-1"):
            await relay(place.poll(start="2020-01-01"), lose, concurrency=1)
    assert len(published) == 1
