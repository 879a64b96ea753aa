"""Events through the brokers of FastStream, as its own test brokers play them."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("faststream", reason="brokers need the extra 'full'")

from faststream.kafka import KafkaBroker, TestKafkaBroker
from faststream.rabbit import RabbitBroker, TestRabbitBroker
from faststream.redis import RedisBroker, TestRedisBroker

from income_client.engines.relay import UpdateEvent, faststream_publisher


@pytest.mark.parametrize("kind", ["kafka", "rabbit", "redis"])
async def test_other_brokers_take_the_events(kind: str) -> None:
    """With the publishers that the guide names."""
    found: list[bytes] = []

    async def keep(body: Any) -> None:
        found.append(json.dumps(body).encode())

    broker: Any
    test: Any
    if kind == "kafka":
        broker, test = KafkaBroker(), TestKafkaBroker
        publisher = broker.publisher("income.updates")
        broker.subscriber("income.updates")(keep)
    elif kind == "rabbit":
        broker, test = RabbitBroker(), TestRabbitBroker
        publisher = broker.publisher("income.updates", persist=True)
        broker.subscriber("income.updates")(keep)
    else:
        broker, test = RedisBroker(), TestRedisBroker
        publisher = broker.publisher(stream="income.updates")
        broker.subscriber(stream="income.updates")(keep)
    event = UpdateEvent(
        id="1", application_id="app-1", updated_at=datetime(2026, 6, 30, 12, tzinfo=UTC)
    )
    async with test(broker):
        await faststream_publisher(publisher)(event)
    assert [UpdateEvent.from_json(one) for one in found] == [event]
