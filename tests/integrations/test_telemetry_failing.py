"""Telemetry that fails is said once, and the run is the same with it and without."""

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from drive.scenes import Killed, agent_of, killed_at_start_of
from midstride import Run, tool
from midstride.integrations.opentelemetry import Telemetry
from midstride.stores import MemoryStore
from midstride.testing import SettableClock


@tool
def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


@tool.verifiable(timeout=5)
def issue(title: str) -> str:
    """Open an issue."""
    return "opened"


@issue.verify
def find(title: str):
    return None


class Raising(SpanProcessor):
    """Raises where it is told to, with words that are for nobody."""

    def __init__(self, *where):
        self.where = where

    def on_start(self, span, parent_context=None):
        if "start" in self.where:
            raise OSError("secret words")

    def on_end(self, span):
        if "end" in self.where:
            raise OSError("secret words")


class RaisingProvider:
    """Has no tracer to give."""

    def get_tracer(self, *given, **named):
        raise OSError("secret words")


class RaisingExporter(SpanExporter):
    def export(self, spans):
        raise OSError("secret words")


def provider_with(processor):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider


class RaisingMeters:
    def get_meter(self, *given, **named):
        raise OSError("secret words")


TELEMETRIES = {
    "no tracer": lambda: Telemetry(RaisingProvider()),
    "no meter": lambda: Telemetry(TracerProvider(shutdown_on_exit=False), RaisingMeters()),
    "at a start": lambda: Telemetry(provider_with(Raising("start"))),
    "at an end": lambda: Telemetry(provider_with(Raising("end"))),
    "anywhere": lambda: Telemetry(provider_with(Raising("start", "end"))),
}
SCRIPT = [[("send", {"to": "ann"})], [("issue", {"title": "x"})], "Done."]


def journal(store, run_id="run"):
    """Return what the run's entries say, without what is each process's own."""
    own = {"nonce", "trace", "pid"}
    return [
        (e.body.kind, {n: getattr(e.body, n) for n in e.body.__dataclass_fields__ if n not in own})
        for e in store.read(run_id)
    ]


def whole_life(drive, telemetry):
    store = MemoryStore()
    agent = agent_of(SCRIPT, [send, issue], store=store, telemetry=telemetry)
    with pytest.raises(Killed):
        drive(agent, watch=killed_at_start_of("issue"))
    assert drive(agent).answer == "Done."
    return journal(store)


@pytest.mark.parametrize("failing", TELEMETRIES)
def test_a_run_is_the_same_when_its_telemetry_raises(drive, failing, caplog):
    assert whole_life(drive, TELEMETRIES[failing]()) == whole_life(drive, None)
    said = [r.getMessage() for r in caplog.records if r.name == "midstride" and "telemetry" in r.getMessage()]
    assert len(said) == 1
    assert said[0].endswith("spans may be missing, the runs go on")
    assert "secret" not in said[0]


def test_a_run_is_the_same_when_its_exporter_raises(drive):
    assert whole_life(drive, Telemetry(provider_with(SimpleSpanProcessor(RaisingExporter())))) == whole_life(
        drive, None
    )


def test_what_a_tool_raises_goes_through_telemetry_that_raises(drive):
    error = LookupError("no")

    def script(request, number):
        raise error

    with pytest.raises(LookupError) as raised:
        drive(agent_of(script, store=MemoryStore(), telemetry=TELEMETRIES["anywhere"]()))
    assert raised.value is error


def test_a_loop_of_ones_own_goes_through_telemetry_that_raises():
    from drive.scenes import says

    with Run(MemoryStore(), "r", "go", telemetry=TELEMETRIES["anywhere"](), clock=SettableClock()) as run:
        for turn in run:
            turn.respond(says("Done."))
    assert run.answer == "Done."
