"""The metrics of the conventions that cost nothing to know: how long, how many tokens."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry import metrics
from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider
from opentelemetry.util.types import AttributeValue

from midstride.core.apis import Usage
from midstride.integrations.opentelemetry.attributes import input_tokens

Attributes = Mapping[str, AttributeValue]

SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The conventions' buckets of a request; a tool's are the same."""

LONG_SECONDS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0)
"""Buckets of a run, from a second to a day."""


class Instruments:
    """The instruments, made once for a `Telemetry`."""

    def __init__(self, version: str, provider: MeterProvider | None) -> None:
        meter = metrics.get_meter("midstride", version, provider)
        self.request = _seconds(meter, "gen_ai.client.inference.duration", "A request to the model.", SECONDS)
        self.first_chunk = _seconds(
            meter, "gen_ai.client.inference.time_to_first_chunk", "Until an answer's first part came.", SECONDS
        )
        self.tool = _seconds(meter, "gen_ai.execute_tool.duration", "An attempt of a tool.", SECONDS)
        self.run = _seconds(meter, "gen_ai.invoke_agent.duration", "A run in one process.", LONG_SECONDS)
        self._input = _tokens(meter, "input_tokens")
        self._output = _tokens(meter, "output_tokens")
        self._read = _tokens(meter, "cache_read.input_tokens")
        self._written = _tokens(meter, "cache_write.input_tokens")

    def count(self, usage: Usage, attributes: Attributes) -> None:
        """Count the tokens of a response; those read from a cache and written to it are input too."""
        # The APIs do not tell tokens of texts from those of pictures.
        known = {**attributes, "gen_ai.token.modality": "unknown"}
        self._input.add(input_tokens(usage), known)
        self._output.add(usage.output, known)
        self._read.add(usage.cache_read, known)
        self._written.add(usage.cache_write, known)


def _seconds(meter: Meter, name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
    return meter.create_histogram(name, "s", what, explicit_bucket_boundaries_advisory=list(buckets))


def _tokens(meter: Meter, name: str) -> Counter:
    return meter.create_counter(f"gen_ai.client.inference.usage.{name}", "{token}", "Tokens of answers.")
