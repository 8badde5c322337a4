"""Traces and metrics of runs for OpenTelemetry, by the conventions for generative AI (v0.1.0, in development).

Give an agent `telemetry=Telemetry()`. Only the API is needed here; the SDK and where spans go are the program's choice.
"""

from midstride.errors import DeclarationError

try:
    import opentelemetry.trace  # noqa: F401
except ImportError:
    raise DeclarationError("telemetry needs OpenTelemetry's API: pip install 'midstride[opentelemetry]'") from None

from midstride.integrations.opentelemetry.telemetry import Telemetry

__all__ = ["Telemetry"]
