"""OpenTelemetry's SDK with exporters in memory, set for the length of a test."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from attrs import frozen
from opentelemetry import metrics, trace
from opentelemetry.metrics import _internal as metrics_globals
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once


@frozen
class Collected:
    """Exported spans and metrics."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended, in that order."""
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Return those with a name."""
        return [span for span in self.spans if span.name == name]

    def points(self, name: str) -> list[tuple[Mapping[str, Any], Any]]:
        """Return attributes and value of each point of a metric; of a histogram its count."""
        data = self.reader.get_metrics_data()
        return [
            (dict(point.attributes or {}), getattr(point, "value", getattr(point, "count", None)))
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def shown(self) -> str:
        """Return everything that was exported as one text."""
        data = self.reader.get_metrics_data()
        return "\n".join([*(span.to_json() for span in self.spans), data.to_json() if data else ""])


def ids_of(span: ReadableSpan) -> tuple[int, int, int | None]:
    """Return the trace of a span, its own id, and its parent's."""
    assert span.context is not None
    return span.context.trace_id, span.context.span_id, span.parent and span.parent.span_id


@contextlib.contextmanager
def collecting() -> Iterator[Collected]:
    """Set providers that export to memory, and afterwards what was set before."""
    found = Collected(InMemorySpanExporter(), InMemoryMetricReader())
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(found.exporter))
    meters = MeterProvider([found.reader], shutdown_on_exit=False)
    with pytest.MonkeyPatch.context() as patch:
        # They can be set once in the life of a process; a test is a life of its own.
        for module, name in ((trace, "_TRACER_PROVIDER"), (metrics_globals, "_METER_PROVIDER")):
            patch.setattr(module, name, None)
            patch.setattr(module, f"{name}_SET_ONCE", Once())
        trace.set_tracer_provider(tracers)
        metrics.set_meter_provider(meters)
        try:
            yield found
        finally:
            meters.shutdown()
            tracers.shutdown()
