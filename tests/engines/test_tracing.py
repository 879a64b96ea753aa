"""An event is one trace, from the relay over the broker to what its worker reads."""

import logging
import operator
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from typing import Final

import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.trace import SpanKind, StatusCode

from income_client import telemetry
from income_client.engines import tracing
from income_client.engines.nats import nats_publisher
from income_client.engines.relay import UpdateEvent, relay
from income_client.engines.worker import Worker
from income_client.engines.worker_nats import nats_events
from tests.support.brokers import until, working
from tests.support.event_source import MemoryDelivery, MemorySource, event
from tests.support.polling import scene
from tests.support.telemetry import Collected, ids_of

READING: Final = "income_client get_application"
ODD_HEADERS: Final = ({"traceparent": "00-0-0-01"}, {"traceparent": 7, "baggage": b"\xff"}, None)


async def test_relay_and_worker_are_one_trace(exported: Collected, client: Client) -> None:
    """Over a real server: what the worker's function reads is below the event's sending."""
    js = client.jetstream()
    await js.add_stream(StreamConfig(name="TRACED", subjects=["traced.updates"]))
    await js.add_stream(StreamConfig(name="TRACED_DEAD", subjects=["traced.dead.>"]))
    source = nats_events(
        client,
        durable="incomes",
        subject="traced.updates",
        stream="TRACED",
        dead_subject="traced.dead",
        dead_stream="TRACED_DEAD",
    )
    handled: list[str] = []
    async with scene(3) as place:

        async def handle(one: UpdateEvent) -> None:
            await place.client.get_application(one.application_id)
            handled.append(one.application_id)

        poller = place.poll(start="2020-01-01")
        poller.stop(after_poll=True)
        await relay(poller, nats_publisher(js, "traced.updates"), payload="record")
        async with working(Worker(handle, source)):
            await until(lambda: len(handled) == 3)
        private = [*handled, *map(place.service.world.reference_of, range(3))]
    sent = {ids_of(span)[:2]: span for span in exported.named("send traced.updates")}
    processed = {ids_of(span)[:2]: span for span in exported.named("process traced.updates")}
    reads = {(one[0], one[2]) for one in map(ids_of, exported.named(READING))}
    assert len({of_trace for of_trace, _ in sent}) == 3
    assert {(ids_of(span)[0], ids_of(span)[2]) for span in processed.values()} == set(sent)
    assert set(processed) <= reads
    for spans, kind, operation, more in (
        (sent, SpanKind.PRODUCER, "send", {}),
        (processed, SpanKind.CONSUMER, "process", {"messaging.consumer.group.name": "incomes"}),
    ):
        known = {
            "messaging.system": "nats",
            "messaging.destination.name": "traced.updates",
            "messaging.operation.type": operation,
            "messaging.operation.name": operation,
        }
        for span in spans.values():
            assert (span.kind, dict(span.attributes or {})) == (kind, known | more)
    assert [one for one in private if one in exported.shown()] == []


async def test_an_event_without_a_trace_is_handled_in_one_of_its_own(
    exported: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of an earlier relay, or whose headers are anything; a failure is its class."""
    handled: list[str] = []

    async def fail(one: UpdateEvent) -> None:
        handled.append(one.id)
        if one.id == "1":
            raise ValueError("invented-secret")

    source = MemorySource(event("app-1", "1"), event("app-2", "2"))
    async with working(Worker(fail, source, attempts=1)):
        await until(lambda: bool(source.dead and source.acknowledged))
        for number, headers in enumerate(ODD_HEADERS, 3):
            monkeypatch.setattr(MemoryDelivery, "headers", headers, raising=False)
            source.put(event("app-3", str(number)))
            await until(partial(operator.contains, handled, str(number)))
    failed, done, *others = sorted(exported.named("process"), key=lambda span: span.status.is_ok)
    assert [span.parent for span in others] == [None] * len(others)
    assert len(handled) == 5
    assert (failed.attributes or {})["error.type"] == "ValueError"
    assert (failed.status.status_code, failed.events) == (StatusCode.ERROR, ())
    assert done.status.status_code is StatusCode.UNSET
    assert failed.parent is done.parent is None
    assert "invented-secret" not in exported.shown()


async def test_baggage_neither_goes_over_a_broker_nor_comes_from_one(
    exported: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may publish would have it sent on; the trace goes on, by the program's propagator."""
    trace_id = "0123456789abcdef0123456789abcdef"
    hostile = {
        "traceparent": f"00-{trace_id}-0123456789abcdef-01",
        "baggage": f"invented=secret,x={'y' * 3000}",
    }
    found: list[tuple[Mapping[str, object], dict[str, str]]] = []

    async def handle(_: UpdateEvent) -> None:
        passed_on: dict[str, str] = {}
        propagate.inject(passed_on)
        found.append((baggage.get_all(), passed_on))

    monkeypatch.setattr(MemoryDelivery, "headers", hostile, raising=False)
    source = MemorySource(event("app-1", "1"))
    async with working(Worker(handle, source)):
        await until(source.acknowledged.__len__)
    ((carried, passed_on),) = found
    assert (carried, [*passed_on]) == ({}, ["traceparent"])
    assert trace_id in passed_on["traceparent"]
    published: dict[str, str] = {}
    held = context.attach(baggage.set_baggage("invented", "secret"))
    try:
        with tracing.EventSpan("send", None, published):
            assert baggage.get_baggage("invented") == "secret"
    finally:
        context.detach(held)
    assert [*published] == ["traceparent"]


async def test_tracing_that_raises_disturbs_no_event(
    exported: Collected, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An SDK is foreign code, and a header may be anything; it is complained of once."""

    def fail(*_: object) -> None:
        raise ValueError("invented-secret")

    tracing._log_failure.cache_clear()
    handled: list[str] = []

    async def handle(one: UpdateEvent) -> None:
        handled.append(one.id)

    for broken in ("_set_ending", "_known"):
        monkeypatch.setattr(telemetry, broken, fail)
        source = MemorySource(event("app-1", broken))
        with caplog.at_level(logging.WARNING, "income_client.events"):
            async with working(Worker(handle, source)):
                await until(source.acknowledged.__len__)
    assert handled == ["_set_ending", "_known"]
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert [line.getMessage().split(";")[0] for line in caplog.records] == [
        "telemetry raised ValueError"
    ]
    assert "invented-secret" not in caplog.text


_QUIET = """
import asyncio, sys
from income_client.engines.tracing import Destination, EventSpan
headers = {}
with EventSpan("send", Destination("nats", "updates"), headers):
    print(headers)
import income_client.engines.relay, income_client.engines.worker
print("opentelemetry" in sys.modules, "income_client.telemetry" in sys.modules)
"""


def test_a_program_without_opentelemetry_imports_nothing() -> None:
    command = [sys.executable, "-W", "error", "-c", _QUIET]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["{}", "False", "False"]
