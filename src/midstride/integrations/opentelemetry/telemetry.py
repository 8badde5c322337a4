"""`Telemetry`: what a program configures once, and gives to its agents and runs."""

from __future__ import annotations

import importlib.metadata
from functools import cached_property

from opentelemetry import trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Tracer, TracerProvider

from midstride.drive.observing import NOBODY, Observed, Taking
from midstride.errors import DeclarationError
from midstride.integrations.opentelemetry.metrics import Instruments
from midstride.integrations.opentelemetry.quiet import Quiet
from midstride.integrations.opentelemetry.spans import ObservedRun
from midstride.redaction import use_environment


class Telemetry:
    """Draws a span for each process that carries a run on, each request to the model, and each attempt of a tool.

    Without providers the global ones are used, whenever they are set. *content* adds what was said: messages,
    arguments, results and the texts of errors, with what looks like a secret redacted (`midstride.redact` says of what
    else); without it no span holds any of them. Telemetry that fails is logged
    once, and the run goes on.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool = False,
    ) -> None:
        use_environment()
        for name, provider, gives in (
            ("tracer_provider", tracer_provider, "get_tracer"),
            ("meter_provider", meter_provider, "get_meter"),
        ):
            if provider is not None and not callable(getattr(provider, gives, None)):
                raise DeclarationError(f"Telemetry has {name}={provider!r}, which has no {gives}: give OpenTelemetry's")
        self._tracer_provider, self._meter_provider, self._content = tracer_provider, meter_provider, content
        self._quiet = Quiet()

    def begin(self, taking: Taking) -> Observed:
        """Begin the span of a run that is taken up."""
        return self._quiet(self._begun, taking) or NOBODY

    def _begun(self, taking: Taking) -> Observed:
        return ObservedRun(self._tracer, self._instruments, self._quiet, taking, content=self._content)

    @cached_property
    def _tracer(self) -> Tracer:
        return trace.get_tracer("midstride", _version(), self._tracer_provider)

    @cached_property
    def _instruments(self) -> Instruments:
        return Instruments(_version(), self._meter_provider)


def _version() -> str:
    try:
        return importlib.metadata.version("midstride")
    except importlib.metadata.PackageNotFoundError:  # it runs from a checkout
        return ""
