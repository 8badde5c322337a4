"""With the real Anthropic SDK over real HTTP: one span a request, whoever draws it."""

import asyncio

import anthropic
import pytest
from opentelemetry import trace

from integrations.seeing import is_below
from midstride import Agent, models
from midstride.stores import MemoryStore
from midstride.testing import Answer, Fail, FakeModel, SettableClock


@pytest.fixture
def everywhere(seen, monkeypatch):
    """The provider is the global one, as a program sets it; the SDK draws spans there by itself."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", seen.provider)
    return seen


class Way:
    """Drives an agent over the SDK, with a client that is closed again."""

    def __init__(self, name):
        self.name = name

    def __call__(self, server, telemetry, **options):
        made = {"base_url": server.url, "api_key": "k", **options}
        if self.name == "blocking":
            with anthropic.Anthropic(**made) as client:
                return self._agent(telemetry, client=client).run("go", "r")

        async def main():
            async with anthropic.AsyncAnthropic(**made) as client:
                return await self._agent(telemetry, async_client=client).run_async("go", "r")

        return asyncio.run(main())

    def _agent(self, telemetry, **client):
        model = models.Anthropic("claude-opus-5", max_tokens=99, **client)
        return Agent(model, store=MemoryStore(), telemetry=telemetry, clock=SettableClock())


@pytest.fixture(params=["blocking", "async"])
def way(request):
    return Way(request.param)


def names(seen):
    return [span.name for span in seen.spans()]


def test_a_request_has_one_span_where_the_sdk_would_draw_a_second(everywhere, way):
    with FakeModel([Answer("Done.")]) as server:
        assert way(server, everywhere.telemetry).answer == "Done."
    assert names(everywhere) == ["invoke_agent", "chat claude-opus-5"]
    chat = everywhere.only("chat").attributes
    assert (chat["gen_ai.request.stream"], chat["gen_ai.request.max_tokens"]) == (True, 99)
    assert 0 < chat["gen_ai.response.time_to_first_chunk"] < 30
    assert chat["gen_ai.response.finish_reasons"] == ("end_turn",)
    assert "gen_ai.client.inference.time_to_first_chunk" in everywhere.points()


def test_without_telemetry_the_sdk_draws_its_own(everywhere, way):
    with FakeModel([Answer("Done.")]) as server:
        way(server, None)
    assert names(everywhere) == ["anthropic.messages.create"]


def test_an_sdk_that_was_set_up_to_draw_keeps_to_it(everywhere, way):
    with FakeModel([Answer("Done.")]) as server:
        way(server, everywhere.telemetry, open_telemetry={"tracer_provider": everywhere.provider})
    assert is_below(everywhere.only("anthropic.messages.create"), everywhere.only("chat"))


def test_a_status_is_the_errors_type(everywhere, way):
    with FakeModel([[Fail(529), Answer("Done.")]]) as server:
        assert way(server, everywhere.telemetry).answer == "Done."
    lost, answered = everywhere.spans("chat")
    assert (lost.attributes["error.type"], "error.type" in answered.attributes) == ("529", False)
