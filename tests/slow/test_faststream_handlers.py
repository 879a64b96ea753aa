"""Handlers of FastStream that take an event, and a worker on the connection of its broker."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve
from nats.js.api import StreamConfig

pytest.importorskip("faststream", reason="brokers need the extra 'full'")

from faststream.nats import NatsBroker, TestNatsBroker
from pydantic import TypeAdapter

from income_client import ConfigurationError, DecodeError
from income_client.engines.relay import UpdateEvent, faststream_decoder, faststream_publisher
from income_client.engines.worker import Worker
from income_client.engines.worker_nats import nats_events
from income_client.testing import make_record
from tests.support.nats_server import running_server

EVENT: Final = UpdateEvent(
    id="1", application_id="app-1", updated_at=datetime(2026, 6, 30, 12, tzinfo=UTC)
)


@pytest.mark.parametrize("options", [{}, {"decoder": faststream_decoder}], ids=["plain", "decoder"])
async def test_a_handler_of_faststream_may_take_an_event(options: dict[str, Any]) -> None:
    """As the type of its argument."""
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
    """As FastStream's documents of a broker need it."""
    described = TypeAdapter(UpdateEvent).json_schema()
    assert described["required"] == ["id", "application_id", "updated_at"]


async def test_a_worker_reads_from_the_connection_of_a_broker(tmp_path: Path) -> None:
    """Whether it has been started or not; the connection stays the broker's."""
    handled = asyncio.Event()

    async def handle(event: UpdateEvent) -> None:
        assert event == EVENT
        handled.set()

    for server in running_server(tmp_path):
        broker = NatsBroker(server.url, max_reconnect_attempts=-1)
        streams = (await broker.connect()).jetstream()
        await streams.add_stream(StreamConfig(name="UPDATES", subjects=["income.updates"]))
        await streams.add_stream(StreamConfig(name="DEAD", subjects=["income.dead.>"]))
        publisher = broker.publisher("income.updates", stream="UPDATES")
        worker = Worker(handle, nats_events(broker, durable="incomes"))
        running = asyncio.create_task(worker.run())
        await broker.start()
        await faststream_publisher(publisher)(EVENT)
        async with asyncio.timeout(30):
            await handled.wait()
            worker.stop()
            await running
        assert await broker.ping(5)
        await broker.stop()
