"""OpenTelemetry is told of calls where it is set up, and nothing that is private."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from yarl import URL

from income_client import IncomeClient, MemoryCheckpointStore, RetryPolicy, telemetry
from income_client.emulator import Emulator, Fault
from income_client.telemetry import Telemetry
from income_client.testing import JumpingClock
from tests.support.clients import BASIC, OAUTH, call, failure, playing, session_to
from tests.support.polling import rest
from tests.support.server import SILENT, Reply, Request, ScriptedServer, in_turn, reply, token_rules
from tests.support.telemetry import Collected, collecting, ids_of

APPLICATION = "income_client get_application"
REQUEST = "GET /v1/income/applications/{application_id}"


@pytest.fixture
def exported() -> Iterator[Collected]:
    """What OpenTelemetry is told during a test."""
    with collecting() as found:
        yield found


async def test_a_call_is_a_span_and_so_is_each_attempt(exported: Collected) -> None:
    """Within the program's own span, with the conventional attributes of HTTP, and no address."""
    events: list[object] = []
    tracer = trace.get_tracer("program")
    answers = in_turn(reply(503), reply())
    async with playing(answers, auth=BASIC, on_event=events.append) as (session, server, _):
        with tracer.start_as_current_span("program's") as outer:
            await call(session)
            assert trace.get_current_span() is outer
    assert len(events) == 6  # of the hook, which is told as well
    (span,) = exported.named(APPLICATION)
    assert span.kind is SpanKind.INTERNAL
    assert span.parent is not None
    assert span.parent.span_id == outer.get_span_context().span_id
    assert span.status.status_code is StatusCode.UNSET
    attributes: dict[str, Any] = dict(span.attributes or {})
    assert attributes.pop("income_client.waited") > 0
    assert attributes == {
        "income_client.call": "get_application",
        "server.address": "127.0.0.1",
        "income_client.attempts": 2,
        "http.response.status_code": 200,
    }
    assert [event.name for event in span.events] == ["pause"]
    first, second = exported.named(REQUEST)
    always = {
        "http.request.method": "GET",
        "server.address": "127.0.0.1",
        "server.port": URL(server.url).port,
        "url.template": "/v1/income/applications/{application_id}",
    }
    failed = {"http.response.status_code": 503, "error.type": "ServerError"}
    assert dict(first.attributes or {}) == {**always, **failed}
    resent = {"http.request.resend_count": 1, "http.response.status_code": 200}
    assert dict(second.attributes or {}) == {**always, **resent}
    statuses = [StatusCode.ERROR, StatusCode.UNSET]
    assert [one.status.status_code for one in (first, second)] == statuses
    for one in (first, second):
        assert one.kind is SpanKind.CLIENT
        assert ids_of(one)[2] == ids_of(span)[1]


async def test_a_call_that_fails_has_its_error_in_the_span(exported: Collected) -> None:
    """By its class: its message would name the application."""
    async with playing(in_turn(reply(404)), auth=BASIC) as (session, _, _):
        await failure(session)
    for span in (*exported.named(REQUEST), *exported.named(APPLICATION)):
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description is None
        assert span.attributes is not None
        assert span.attributes["error.type"] == "NotFoundError"
        assert span.attributes["http.response.status_code"] == 404
        assert span.events == ()


async def test_a_cancelled_call_ends_its_span(exported: Collected) -> None:
    """It is no failure, as whoever leaves a walk early cancels; the task has its span back."""

    def answer(_: Request) -> Reply:
        task.cancel()
        return SILENT

    async def cancelled() -> None:
        before = trace.get_current_span()
        with pytest.raises(asyncio.CancelledError):
            await call(session)
        assert trace.get_current_span() is before

    async with playing(answer, auth=BASIC) as (session, _, _):
        task = asyncio.create_task(cancelled())
        await task
    assert [span.name for span in exported.spans] == [REQUEST, APPLICATION]
    for span in exported.spans:
        assert (span.attributes or {})["error.type"] == "CancelledError"
        assert span.status.status_code is StatusCode.UNSET


async def test_the_token_is_requested_within_the_call_that_needed_it(exported: Collected) -> None:
    """Its purchase is a span of its own, below the call's."""
    async with playing(token_rules(in_turn(reply()))) as (session, _, _):
        await call(session)
    request, token, _, application = exported.spans
    assert (request.name, token.name) == ("POST /token", "income_client token")
    assert application.name == APPLICATION
    assert token.parent is not None
    assert application.context is not None
    assert token.parent.span_id == application.context.span_id
    assert exported.points("income_client.tokens") == [
        ({"income_client.token.source": "requested"}, 1)
    ]


async def test_counts_tell_what_was_done(exported: Collected) -> None:
    """Calls, requests, retries, pages, records, polls, lag and dead letters are counted."""
    clock = JumpingClock()
    async with Emulator(30, clock=clock, time_flows=True) as service:
        ids = service.world.ids
        service.faults.add(Fault("status", status=404, times=None, path=f"*/{ids[4]}"))
        service.faults.add(Fault("status", status=500, path=f"*/{ids[5]}"))
        async with IncomeClient(service.url, auth=service.oauth2, clock=clock) as client:
            walked = [row async for row in client.list_applications()]
            store = MemoryCheckpointStore()
            records = await rest(client.poll(store, name="mine", start="2026-01-01"))
            service.advance(300)  # after which the dead letter is tried again
            assert await rest(client.poll(store, name="mine")) == []
    # First, since older SDKs give a gauge to one collection only.
    ((_, lag),) = exported.points("income_client.poll.lag")
    assert 0 <= lag < 60
    assert sum(value for _, value in exported.points("income_client.walk.rows")) == len(walked)
    assert exported.points("income_client.walk.pages")
    assert exported.points("income_client.records") == [({}, len(records))]
    mine = {"income_client.poller": "mine"}
    assert exported.points("income_client.polls") == [(mine, 2)]
    assert exported.points("income_client.dead_letters") == [(mine, 1)]
    requests = exported.points("income_client.requests")
    assert sum(value for _, value in requests) == len(service.requests)
    ((retried, count),) = exported.points("income_client.retries")
    assert (retried["error.type"], count) == ("ServerError", 1)
    calls = exported.points("income_client.call.duration")
    assert sum(count for _, count in calls) + len(service.requests) == len(exported.spans)


async def test_nothing_private_is_exported(exported: Collected) -> None:
    """No id of an application, no address, no secret and no token, whatever comes of a call."""
    clock = JumpingClock()
    async with Emulator(5, clock=clock) as service:
        ids = service.world.ids
        service.faults.add(Fault("status", status=404, times=None, path=f"*/{ids[1]}"))
        service.faults.add(Fault("body", body=b"{}", times=None, path=f"*/{ids[2]}"))
        async with IncomeClient(service.url, auth=service.oauth2, clock=clock) as client:
            async for _ in client.fetch_records(ids, on_error="yield"):
                pass
            await client.find_application(service.world.reference_of(0))
            await client.get_json(f"/v1/income/applications/{ids[0]}")
        shown = exported.shown()
        secret = service.oauth2.client_secret.reveal()
    assert APPLICATION in shown
    assert "http://" not in shown
    assert "url.full" not in shown
    assert "Bearer" not in shown
    assert secret not in shown
    assert [one for one in (*ids, *map(service.world.reference_of, range(5))) if one in shown] == []


async def test_a_provider_set_before_the_first_call_is_found() -> None:
    """One that is made at import counts as well; without a provider, or off, nobody is told."""
    async with ScriptedServer(in_turn(reply())) as server:
        early, silent = session_to(server.url, auth=BASIC), session_to(server.url, auth=BASIC)
        off = session_to(server.url, auth=BASIC, telemetry=False)
        await call(silent)
        assert silent.instrumentation.emit is None
        with collecting() as exported:
            for session in (early, silent, off):
                await call(session)
        assert off.instrumentation.emit is None
        for session in (early, silent, off):
            await session.aclose()
    assert [span.name for span in exported.spans] == [REQUEST, APPLICATION]


@pytest.mark.parametrize(
    ("of", "broken"),
    [
        *((Telemetry, name) for name in ("begin_call", "found", "count_event", "_count_call")),
        (telemetry, "_set_ending"),
    ],
)
async def test_telemetry_that_raises_breaks_nothing(
    of: object,
    broken: str,
    exported: Collected,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An SDK is foreign code: it is complained of once, by the class of its error."""

    def fail(*_: object, **__: object) -> None:
        raise ValueError("invented-secret")

    monkeypatch.setattr(of, broken, fail)
    options: dict[str, Any] = {"auth": OAUTH, "retry": RetryPolicy(max_attempts=1)}
    with caplog.at_level(logging.WARNING, "income_client.events"):
        async with playing(token_rules(in_turn(reply())), **options) as (session, _, _):
            await call(session)
            await call(session)
    said = [line.getMessage() for line in caplog.records]
    assert len(said) == 1
    assert said[0].startswith("telemetry raised ValueError;")
    assert "invented-secret" not in caplog.text
