"""RabbitMQ that cannot be reached; what needs its server is among the slow tests."""

import asyncio
import gc
import logging

import pytest

from income_client.engines.worker_rabbit import rabbit_events


def test_a_connection_that_failed_needs_no_event_loop_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its error may be kept, by a log for instance, until no loop runs any more."""
    caplog.set_level(logging.CRITICAL, "aiormq.connection")  # which would keep it for longer
    kept: list[BaseException] = []

    async def fail() -> None:
        source = rabbit_events("amqp://127.0.0.1:1/")
        for _ in range(2):
            with pytest.raises(ConnectionError) as caught:
                await source.receive(1)
            kept.append(caught.value)
        await source.aclose()

    with asyncio.Runner() as runner:
        runner.run(fail())
        asyncio.set_event_loop(None)
        kept.clear()
        gc.collect()
