"""An agent with an OpenAI model against the fake server, over the real SDK: both APIs, blocking and asynchronous."""

import asyncio
import json

import openai

from midstride import Agent, Limits, tool
from midstride.models import OpenAIChat, OpenAIResponses
from midstride.stores import MemoryStore
from midstride.testing import Answer, SettableClock

MODEL = "gpt-next"
DONE = Answer("Done.")
MODELS = {"openai-chat": OpenAIChat, "openai-responses": OpenAIResponses}
WAYS = [(api, way) for api in MODELS for way in ("blocking", "async")]


def awkward(api):
    """Return an answer with a call, and with what an SDK could lose: nulls, unknown fields and kinds, big numbers."""
    call = {
        "type": "tool_use",
        "id": "call_1",
        "name": "note",
        "arguments": '{"b": 1.0,"a":{"z":10000000000000000000000000,"n":null,"s":"é🙂\u2028\\n"}}',
        "future_field": 7,
    }
    if api == "openai-chat":
        message = {
            "reasoning_content": "Let me see: é 🙂",
            "annotations": [],
            "audio": None,
            "future": {"y": [1, None]},
        }
        return Answer([{"type": "text", "text": "a"}, call], "tool_use", extra={"message": message})
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "é 🙂"}],
        "content": None,
        "encrypted_content": "gAAA/+=",
    }
    future = {"type": "future_item", "id": "fut_1", "x": {"y": [1, None]}}
    call |= {"caller": {"type": "direct"}, "async": False, "namespace": None}
    return Answer([reasoning, {"type": "text", "text": "a", "phase": "commentary"}, future, call], "tool_use")


class Scene:
    """A store, a clock, a tool that counts, and one way to drive an agent over one API."""

    def __init__(self, api, way):
        self.api, self.way, self.store, self.clock = api, way, MemoryStore(), SettableClock()
        self.noted, self.heard = [], []

        @tool
        def note(a: dict, b: float) -> str:
            """Write something down."""
            self.noted.append((a, b))
            return "noted"

        self.tools = [note]

    def __call__(self, server, *, task="hi", limits=None, watch=None, system=None, **params):
        url = (server if isinstance(server, str) else server.url) + "/v1"

        def agent(**client):
            model = MODELS[self.api](MODEL, **client, **params)
            limit = limits or Limits()
            return Agent(model, self.tools, system=system, limits=limit, store=self.store, clock=self.clock)

        watch = watch or self.heard.append
        if self.way == "blocking":
            with openai.OpenAI(api_key="k", base_url=url) as client:
                return agent(client=client).run(task, "run", watch=watch)

        async def go():
            async with openai.AsyncOpenAI(api_key="k", base_url=url) as client:
                return await agent(async_client=client).run_async(task, "run", watch=watch)

        return asyncio.run(go())

    def bodies(self, kind):
        return [entry.body for entry in self.store.read("run") if isinstance(entry.body, kind)]

    def sent(self, request):
        """Return the messages or items of a request."""
        return request["messages" if self.api == "openai-chat" else "input"]

    def results(self, request):
        """Return what the model is told of its calls."""
        if self.api == "openai-chat":
            return [message["content"] for message in self.sent(request) if message["role"] == "tool"]
        return [item["output"] for item in self.sent(request) if item.get("type") == "function_call_output"]


def as_json(value):
    return json.dumps(value)
