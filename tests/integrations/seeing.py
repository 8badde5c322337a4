"""A tracer and a meter whose spans and points are kept, and short questions about them."""

import json

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from midstride.integrations.opentelemetry import Telemetry


class Seen:
    """Keeps what `telemetry` draws; `tracer` draws spans of the user's own."""

    def __init__(self, **options):
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.provider = TracerProvider(**options)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])
        self.telemetry = self.with_content(False)
        self.tracer = self.provider.get_tracer("user")

    def with_content(self, content):
        return Telemetry(self.provider, self.meters, content=content)

    def close(self):
        self.provider.shutdown()
        self.meters.shutdown()

    def spans(self, name=""):
        """Return the spans whose name begins so, in the order in which they began."""
        found = [span for span in self.exporter.get_finished_spans() if span.name.startswith(name)]
        return sorted(found, key=lambda span: span.start_time)

    def only(self, name):
        """Return the one span whose name begins so."""
        (span,) = self.spans(name)
        return span

    def events(self, name="", at=-1):
        """Return the attributes of the events of a run's span, the last one's unless told otherwise."""
        return [dict(e.attributes) for e in self.spans("invoke_agent")[at].events if e.name.startswith(name)]

    def moves(self, at=-1):
        """Return (tool, move, outcome) of every reconciled call of a run's span."""
        told = self.events("midstride.reconcile", at)
        return [(e["gen_ai.tool.name"], e["midstride.move"], e.get("midstride.outcome")) for e in told]

    def points(self):
        """Return each metric's points, by its name."""
        metrics = self.reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
        return {metric.name: list(metric.data.data_points) for metric in metrics}

    def everything(self):
        """Return all that a collector would see, as one text."""
        return "".join(span.to_json() for span in self.spans())


class ToFile(SpanExporter):
    """Writes each span as a line of JSON, which a killed process leaves behind."""

    def __init__(self, path):
        self.path = path

    def export(self, spans):
        with open(self.path, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(json.loads(span.to_json())) + "\n" for span in spans)
        return SpanExportResult.SUCCESS


def is_below(child, parent):
    """Tell whether one span is the direct child of another."""
    return child.parent is not None and child.parent.span_id == parent.context.span_id
