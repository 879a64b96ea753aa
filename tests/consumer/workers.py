# pyright: strict
"""A lender's code that handles events; type checkers read it, nobody runs it."""

from collections.abc import Sequence
from typing import assert_type

from income_client import Poller
from income_client.engines.relay import Payload, UpdateEvent, faststream_decoder, relay
from income_client.engines.worker import (
    DeadReason,
    Delivery,
    EventSource,
    Worker,
    WorkerStatus,
)
from income_client.engines.worker_nats import nats_events


class Message:
    """A message of a broker of one's own."""

    body = b""
    attempt = 1

    async def acknowledge(self) -> None:
        """Take it."""

    async def give_back(self, seconds: float) -> None:
        """Take it back."""

    async def extend(self) -> None:
        """Wait longer."""

    async def bury(self, reason: DeadReason, error: str) -> None:
        """Keep it apart."""


class Queue:
    """A broker of one's own."""

    extend_seconds = 10.0

    async def receive(self, most: int) -> Sequence[Delivery]:
        """Return a message."""
        return [Message()][:most]

    async def aclose(self) -> None:
        """Give back nothing."""


async def handle(event: UpdateEvent) -> str:
    """Handle an event."""
    return event.application_id


async def work() -> None:
    """Work until a signal comes."""
    source: EventSource = nats_events(
        "nats://127.0.0.1:4222",
        durable="incomes",
        subject="income.updates",
        stream="UPDATES",
        dead_subject="income.dead",
        dead_stream="DEAD",
        ack_wait=30.0,
    )
    worker = Worker(handle, source, attempts=3, concurrency=5, timeout=60.0, stop_timeout=10)
    await worker.run(until_signal=True)
    worker.stop()
    status = assert_type(worker.status, WorkerStatus)
    assert_type(status.handled + status.failed + status.dead + status.in_hand, int)
    assert_type(status.is_connected, bool)
    assert_type(status.last_error, str | None)
    await Worker(handle, Queue()).run()


async def publish(poller: Poller, payload: Payload) -> None:
    """Publish what a poller delivers."""
    await relay(poller, handle, payload=payload)


async def decode() -> None:
    """Decode a message of FastStream."""
    assert_type(await faststream_decoder(Message()), UpdateEvent)
