"""The program's own client of an SDK: it says where requests go, so none is sent through another."""

import asyncio
import contextlib
from unittest.mock import AsyncMock, MagicMock

import anthropic
import openai
import pytest

from midstride import Agent, models
from midstride.errors import DeclarationError
from midstride.stores import MemoryStore
from midstride.testing import Answer, FakeModel

KINDS = {
    "Anthropic": (models.Anthropic, anthropic.Anthropic, anthropic.AsyncAnthropic),
    "OpenAIChat": (models.OpenAIChat, openai.OpenAI, openai.AsyncOpenAI),
    "OpenAIResponses": (models.OpenAIResponses, openai.OpenAI, openai.AsyncOpenAI),
}


@pytest.fixture(params=KINDS)
def kind(request, monkeypatch):
    """A kind of model, and a server that its SDK finds by the environment."""
    with FakeModel([Answer("Done.")]) as server:
        for name, path in (("ANTHROPIC", ""), ("OPENAI", "/v1")):
            monkeypatch.setenv(f"{name}_BASE_URL", server.url + path)
            monkeypatch.setenv(f"{name}_API_KEY", "k")
        yield request.param, *KINDS[request.param], server


def test_a_client_in_the_others_place_is_refused(kind):
    name, model, blocking, asynchronous, _ = kind
    with contextlib.closing(blocking()) as client:
        with pytest.raises(DeclarationError, match=f"models.{name} has a blocking client as async_client="):
            model("m", async_client=client)
    with pytest.raises(DeclarationError, match=f"models.{name} has an asynchronous client as client="):
        model("m", client=asynchronous())


def test_a_model_with_one_client_alone_sends_nothing_when_it_is_driven_the_other_way(kind):
    name, model, blocking, asynchronous, server = kind
    with contextlib.closing(blocking()) as client:
        with pytest.raises(DeclarationError, match=rf"models.{name} has client= alone, .* give async_client= too"):
            asyncio.run(Agent(model("m", client=client), store=MemoryStore()).run_async("go", "run"))

    async def with_async_client():
        async with asynchronous() as client:
            return Agent(model("m", async_client=client), store=MemoryStore()).run("go", "run")

    with pytest.raises(DeclarationError, match=f"models.{name} has async_client= alone, .* give client= too"):
        asyncio.run(with_async_client())
    assert server.requests == []


def test_a_model_with_both_is_driven_either_way(kind):
    _, model, blocking, asynchronous, _ = kind

    async def both():
        with contextlib.closing(blocking()) as client:
            async with asynchronous() as other:
                agent = Agent(model("m", client=client, async_client=other), store=MemoryStore())
                result = await agent.run_async("go", "one")
                return result.answer, await asyncio.to_thread(lambda: agent.run("go", "two").answer)

    assert asyncio.run(both()) == ("Done.", "Done.")


def test_a_model_without_clients_is_driven_one_way_and_then_the_other(kind):
    _, model, *_ = kind
    made = model("m")
    agent = Agent(made, store=MemoryStore())
    assert agent.run("go", "one").answer == "Done."
    assert asyncio.run(agent.run_async("go", "two")).answer == "Done."
    assert agent.run("go", "three").answer == "Done."
    made._clients._made.close()


def test_a_refusal_comes_before_anything_is_recorded(kind):
    _, model, blocking, *_ = kind
    store = MemoryStore()
    with contextlib.closing(blocking()) as client:
        agent = Agent(model("m", client=client), store=store)
        with pytest.raises(DeclarationError):
            asyncio.run(agent.run_async("go", "run"))
        assert (store.read("run"), store.holder("run")) == ([], None)
        assert agent.run("go", "run").answer == "Done."
        assert asyncio.run(agent.run_async("go", "run")).answer == "Done.", "a run that is done asks nobody"


class StandIn:
    """What a test or a wrapper gives: it has neither way's methods."""


@pytest.mark.parametrize("client", [StandIn(), MagicMock(), AsyncMock()])
def test_a_stand_in_may_stand_in_for_either(kind, client):
    _, model, *_ = kind
    model("m", client=client)
    model("m", async_client=client)
