"""Events through FastStream: its brokers, and handlers whose argument is an event."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve

pytest.importorskip("faststream", reason="brokers need the extra 'full'")

from faststream.kafka import KafkaBroker, TestKafkaBroker
from faststream.kafka.opentelemetry import KafkaTelemetryMiddleware
from faststream.nats import JStream, NatsBroker, TestNatsBroker
from faststream.rabbit import RabbitBroker, TestRabbitBroker
from faststream.rabbit.opentelemetry import RabbitTelemetryMiddleware
from faststream.redis import RedisBroker, TestRedisBroker
from faststream.redis.opentelemetry import RedisTelemetryMiddleware
from opentelemetry import trace
from opentelemetry.trace import SpanKind
from pydantic import TypeAdapter

from income_client import ConfigurationError, DecodeError, IncomeClientError
from income_client.engines.relay import UpdateEvent, faststream_decoder, faststream_publisher, relay
from income_client.testing import make_record
from tests.support.nats_server import NatsServer, connected, running_server
from tests.support.polling import scene
from tests.support.telemetry import collecting, ids_of

EVENT: Final = UpdateEvent(
    id="1", application_id="app-1", updated_at=datetime(2026, 6, 30, 12, tzinfo=UTC)
)


@pytest.mark.parametrize(
    ("kind", "test", "telemetry", "options"),
    [
        (KafkaBroker, TestKafkaBroker, KafkaTelemetryMiddleware, {}),
        (RabbitBroker, TestRabbitBroker, RabbitTelemetryMiddleware, {"persist": True}),
        (RedisBroker, TestRedisBroker, RedisTelemetryMiddleware, {}),
    ],
    ids=["kafka", "rabbit", "redis"],
)
async def test_other_brokers_take_the_events(
    kind: Any, test: Any, telemetry: Any, options: dict[str, bool]
) -> None:
    """With the publishers that the guide names; FastStream's own telemetry continues the trace."""
    found: list[bytes] = []

    async def keep(body: Any) -> None:
        found.append(json.dumps(body).encode())
        with trace.get_tracer("program").start_as_current_span("handled"):
            pass

    broker = kind(middlewares=[telemetry()])
    if kind is RedisBroker:
        publisher = broker.publisher(stream="income.updates")
        broker.subscriber(stream="income.updates")(keep)
    else:
        publisher = broker.publisher("income.updates", **options)
        broker.subscriber("income.updates")(keep)
    with collecting() as exported:
        async with test(broker):
            await faststream_publisher(publisher)(EVENT)
    (handled,) = exported.named("handled")
    sent = {ids_of(span)[0] for span in exported.spans if span.kind is SpanKind.PRODUCER}
    assert sent == {ids_of(handled)[0]}
    assert [UpdateEvent.from_json(one) for one in found] == [EVENT]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """Run a NATS server that a test may kill."""
    yield from running_server(tmp_path)


async def test_a_broker_that_has_given_up_ends_the_relay(server: NatsServer) -> None:
    """Each publish would fail; the error names the setting by which the broker never gives up."""
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


@pytest.mark.parametrize("options", [{}, {"decoder": faststream_decoder}], ids=["plain", "decoder"])
async def test_a_handler_of_faststream_may_take_an_event(options: dict[str, Any]) -> None:
    """The event is the type of the handler's argument."""
    found: list[UpdateEvent] = []
    broker = NatsBroker()

    async def handle(event: UpdateEvent) -> None:
        found.append(event)

    broker.subscriber("income.updates", **options)(handle)
    async with TestNatsBroker(broker):
        await faststream_publisher(broker.publisher("income.updates"))(EVENT)
        with pytest.raises(DecodeError):
            await broker.publish({"id": 1}, "income.updates")
    assert found == [EVENT]


async def test_a_record_keeps_its_digits_with_the_decoder() -> None:
    """Without it the event is refused, since FastStream has made floats of its amounts."""
    sent = evolve(EVENT, record=make_record(application_id="app-1"))
    found: list[UpdateEvent] = []
    broker = NatsBroker()

    @broker.subscriber("decoded", decoder=faststream_decoder)
    async def handle(event: UpdateEvent) -> None:
        found.append(event)

    @broker.subscriber("plain")
    async def refuse(event: UpdateEvent) -> None:
        found.append(event)

    async with TestNatsBroker(broker):
        await faststream_publisher(broker.publisher("decoded"))(sent)
        with pytest.raises(ConfigurationError, match="faststream_decoder"):
            await faststream_publisher(broker.publisher("plain"))(sent)
    assert found == [sent]


def test_pydantic_describes_an_event() -> None:
    """FastStream's documents of a broker contain the description."""
    described = TypeAdapter(UpdateEvent).json_schema()
    assert described["required"] == ["id", "application_id", "updated_at"]
