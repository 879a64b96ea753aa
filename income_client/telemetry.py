"""Reports to OpenTelemetry: spans of calls and of their requests; metrics.

Attributes hold names of calls and pollers, statuses, classes of errors, the service's host and
port, and paths with names in place of values; never addresses, messages or ids of applications.
Those without the prefix ``income_client`` are OpenTelemetry's semantic conventions for HTTP.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Token
from functools import partial
from operator import attrgetter
from typing import Any, Final, Self
from weakref import WeakValueDictionary

from opentelemetry import context, metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, StatusCode

from ._version import __version__
from .events.instrumentation import MeasuredPoller, OnEvent
from .events.kinds import (
    CallFinished,
    DeadLettered,
    Event,
    FileFinished,
    PageCovered,
    PollFailed,
    PollFinished,
    RecordDelivered,
    RequestAnswered,
    RequestRetried,
    RequestSent,
    TokenRenewed,
    WindowSplit,
)

Attributes = dict[str, str | int | float]
ReadGauge = Callable[[Any], float | None]
"""Function that reads a `PollerStatus`."""

_SCOPE: Final = "income_client"
_CANCELLED: Final = "CancelledError"
_NO_METER_YET: Final = "_ProxyMeterProvider"
"""Class of the meter provider before one is set; it has no public name."""
_POLLER_GAUGES: Final[Sequence[tuple[str, str, str, ReadGauge]]] = (
    ("lag", "s", "From the checkpoint to the service's present.", attrgetter("lag")),
    ("late", "s", "Lateness of an update in the list, within a day.", attrgetter("late")),
    ("failures", "{failure}", "Failures in a row.", attrgetter("failures")),
    ("dead_letters", "{letter}", "Dead letters in the store.", attrgetter("dead_letters")),
    ("is_leader", "1", "Whether the poller holds its lease.", lambda status: +status.is_leader),
)
"""Gauges of each poller: name, unit, description, and the function that reads the status."""
_POLLERS: Final[WeakValueDictionary[int, MeasuredPoller]] = WeakValueDictionary()
"""Pollers of all clients: OpenTelemetry keeps the callbacks of the first client only."""
_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Telemetry:
    """Spans and counts of one client, with the providers that the program has set."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer(_SCOPE, __version__)
        meter = metrics.get_meter(_SCOPE, __version__)
        count, time = meter.create_counter, meter.create_histogram
        self._calls = time(
            "income_client.call.duration",
            "s",
            "Calls from their beginning to their end, pauses and attempts included.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._files = time(
            "income_client.file.duration",
            "s",
            "Document files from the beginning to the end.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._requests = count("income_client.requests", "{request}", "Requests that have ended.")
        self._retries = count("income_client.retries", "{request}", "Requests made again.")
        self._tokens = count("income_client.tokens", "{token}", "New access tokens.")
        self._pages = count("income_client.walk.pages", "{page}", "Pages covered by walks.")
        self._rows = count("income_client.walk.rows", "{row}", "Applications that they gave.")
        self._splits = count("income_client.walk.splits", "{page}", "Pages that came back full.")
        self._records = count("income_client.records", "{record}", "Records handed out.")
        self._bytes = count("income_client.file.bytes", "By", "Bytes of files that came whole.")
        self._polls = count("income_client.polls", "{poll}", "Polls that ended or failed.")
        self._dead = count("income_client.dead_letters", "{letter}", "New dead letters.")
        for name, unit, description, read in _POLLER_GAUGES:
            meter.create_observable_gauge(
                f"income_client.poll.{name}", [partial(_observe_pollers, read)], unit, description
            )

    @classmethod
    def if_configured(cls) -> Self | None:
        """Return telemetry if the program has set a provider of spans or metrics; else None."""
        has_tracer = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        has_meter = type(metrics.get_meter_provider()).__name__ != _NO_METER_YET
        return cls() if has_tracer or has_meter else None

    def begin_call(
        self, name: str, *, method: str, host: str | None, port: int | None, template: str | None
    ) -> OnEvent:
        """Begin the span of a call in the running task.

        Return the function that takes the call's events.
        """
        attributes = _without_none({"income_client.call": name, "server.address": host})
        of_requests = _without_none(
            {
                "http.request.method": method,
                "server.address": host,
                "server.port": port,
                "url.template": template,
            }
        )
        spans = _CallSpans(self._tracer, name, attributes, of_requests)

        def take(event: Event) -> None:
            try:
                spans.take(event)
            finally:
                self._count_call(event, attributes)

        return take

    def count_event(self, event: Event) -> None:
        """Count an event that happened outside of calls."""
        match event:
            case TokenRenewed(is_shared=is_shared):
                source = "store" if is_shared else "requested"
                self._tokens.add(1, {"income_client.token.source": source})
            case WindowSplit():
                self._splits.add(1)
            case PageCovered(rows=rows):
                self._pages.add(1)
                self._rows.add(rows)
            case RecordDelivered():
                self._records.add(1)
            case FileFinished(seconds=seconds, size=size, error=error, was_there=was_there):
                self._files.record(seconds, _ending_attributes(None, error))
                self._bytes.add(0 if was_there else size or 0)
            case _:
                self._count_poll(event)

    def add_poller(self, poller: MeasuredPoller) -> None:
        """Show the status of a poller for as long as the program has the poller."""
        _POLLERS[id(poller)] = poller

    def _count_call(self, event: Event, attributes: Attributes) -> None:
        match event:
            case RequestAnswered(status=status, error=error):
                self._requests.add(1, attributes | _ending_attributes(status, error))
            case RequestRetried(error=error):
                self._retries.add(1, attributes | {"error.type": error})
            case CallFinished(seconds=seconds, status=status, error=error):
                self._calls.record(seconds, attributes | _ending_attributes(status, error))
            case _:
                pass

    def _count_poll(self, event: Event) -> None:
        match event:
            case PollFinished(name=name):
                self._polls.add(1, _of_poller(name))
            case PollFailed(name=name, error=error):
                self._polls.add(1, _of_poller(name) | {"error.type": error})
            case DeadLettered(name=name, is_new=True):
                self._dead.add(1, _of_poller(name))
            case _:
                pass


class _CallSpans:
    """The span of a call, current in its task, with a span below it for the request in flight."""

    def __init__(
        self, tracer: trace.Tracer, name: str, attributes: Attributes, of_requests: Attributes
    ) -> None:
        self._tracer = tracer
        self._of_requests = of_requests
        self._call = tracer.start_span(f"{_SCOPE} {name}", attributes=attributes)
        self._before_call = _make_current(self._call)
        self._request: trace.Span = trace.INVALID_SPAN
        self._before_request: Token[Context] | None = None

    def take(self, event: Event) -> None:
        match event:
            case RequestSent(attempt=attempt):
                self._begin_request(attempt)
            case RequestAnswered(status=status, error=error):
                self._end_request(status, error)
            case RequestRetried(attempt=attempt, pause=pause):
                facts: Attributes = {
                    "income_client.attempt": attempt,
                    "income_client.pause": pause,
                }
                self._call.add_event("pause", facts)
            case CallFinished():
                self._end_call(event)
            case _:
                pass

    def _begin_request(self, attempt: int) -> None:
        of_resent = {"http.request.resend_count": attempt - 1} if attempt > 1 else {}
        attributes = self._of_requests | of_resent
        words = (attributes.get(name) for name in ("http.request.method", "url.template"))
        name = " ".join(str(word) for word in words if word is not None)
        self._request = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes)
        self._before_request = _make_current(self._request)

    def _end_request(self, status: int | None, error: str | None) -> None:
        before, self._before_request = self._before_request, None
        if before is not None:
            context.detach(before)
        try:
            _set_ending(self._request, status, error)
        finally:
            self._request.end()

    def _end_call(self, event: CallFinished) -> None:
        try:
            facts: Attributes = {
                "income_client.attempts": event.attempts,
                "income_client.waited": event.waited,
            }
            self._call.set_attributes(facts)
            _set_ending(self._call, event.status, event.error)
        finally:
            context.detach(self._before_call)
            self._call.end()


def _without_none(attributes: Mapping[str, str | int | None]) -> Attributes:
    return {name: value for name, value in attributes.items() if value is not None}


def _make_current(span: trace.Span) -> Token[Context]:
    return context.attach(trace.set_span_in_context(span))


def _set_ending(span: trace.Span, status: int | None, error: str | None) -> None:
    span.set_attributes(_ending_attributes(status, error))
    # Leaving a walk early cancels what was read ahead, which is not a failure.
    if error not in {None, _CANCELLED}:
        # Without a description: an error's message names its application.
        span.set_status(StatusCode.ERROR)


def _of_poller(name: str) -> Attributes:
    return {"income_client.poller": name}


def _observe_pollers(
    read: ReadGauge, _options: metrics.CallbackOptions
) -> Iterator[metrics.Observation]:
    """Observe a gauge of each poller, in the thread that exports; skip values that are unknown."""
    for reference in _POLLERS.valuerefs():
        poller = reference()
        value = None if poller is None else read(poller.status)
        if poller is not None and value is not None:
            yield metrics.Observation(value, _of_poller(poller.name))


def _ending_attributes(status: int | None, error: str | None) -> Attributes:
    attributes: Attributes = {}
    if status is not None:
        attributes["http.response.status_code"] = status
    if error is not None:
        attributes["error.type"] = error
    return attributes
