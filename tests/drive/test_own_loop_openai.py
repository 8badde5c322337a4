"""A loop of one's own with OpenAI's client: the request is ready to be sent, whatever the API calls its parts."""

import asyncio

import openai
import pydantic
import pytest

from midstride import Agent, AsyncRun, Run, models, tool
from midstride.core.journal import Responded
from midstride.errors import DeclarationError, NotAResponse, TaskDiffers
from midstride.stores import MemoryStore
from midstride.testing import Answer, FakeModel, SettableClock, calls

APIS = ("openai-chat", "openai-responses")
SCRIPT = [calls(("read", {"path": "a"})), Answer("Done.")]


@tool.read_only
def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


class Note(pydantic.BaseModel):
    path: str


@pytest.fixture
def store():
    return MemoryStore()


def parts(store, api, **more):
    return {
        "store": store, "id": "run", "task": "go", "api": api, "tools": [read], "system": "Be brief.",
        "clock": SettableClock(), **more,
    }  # fmt: skip


def asked(client, api, request, **more):
    create = client.chat.completions.create if api == "openai-chat" else client.responses.create
    stateless = {} if api == "openai-chat" else {"store": False}
    return create(model="gpt-next", **stateless, **request, **more)


@pytest.mark.parametrize("api", APIS)
def test_the_request_is_sent_as_it_is(store, api):
    with FakeModel(SCRIPT) as server, openai.OpenAI(api_key="k", base_url=server.url + "/v1") as client:
        with Run(**parts(store, api)) as run:
            for turn in run:
                turn.respond(asked(client, api, turn.request))
    assert (run.answer, run.result.turns) == ("Done.", 2)
    told = server.requests[1]["messages" if api == "openai-chat" else "input"][-1]
    assert told["content" if api == "openai-chat" else "output"] == "text of a"


@pytest.mark.parametrize("api", APIS)
def test_the_asynchronous_loop_is_the_same(store, api):
    async def go():
        async with openai.AsyncOpenAI(api_key="k", base_url=server.url + "/v1") as client:
            async with AsyncRun(**parts(store, api)) as run:
                async for turn in run:
                    await turn.respond(await asked(client, api, turn.request))
                return run.answer

    with FakeModel(SCRIPT) as server:
        assert asyncio.run(go()) == "Done."


@pytest.mark.parametrize("api", APIS)
def test_what_the_sdk_parses_for_itself_is_not_stored(store, api):
    said = Answer('{"path": "a"}')
    with FakeModel([said]) as server, openai.OpenAI(api_key="k", base_url=server.url + "/v1") as client:
        with Run(**parts(store, api, tools=[])) as run:
            turn = next(run)
            if api == "openai-chat":
                parsed = client.chat.completions.parse(model="gpt-next", response_format=Note, **turn.request)
                assert parsed.choices[0].message.parsed == Note(path="a")
            else:
                parsed = client.responses.parse(model="gpt-next", text_format=Note, **turn.request)
                assert parsed.output_parsed == Note(path="a")
            turn.respond(parsed)
    (body,) = [entry.body for entry in store.read("run") if isinstance(entry.body, Responded)]
    assert "parsed" not in str(body.response)


@pytest.mark.parametrize("api", APIS)
def test_a_response_of_another_api_is_none(store, api):
    with Run(**parts(store, api)) as run:
        turn = next(run)
        with pytest.raises(NotAResponse):
            turn.respond({"role": "assistant", "content": [], "stop_reason": "end_turn"})
        assert turn.answered is False


def test_a_run_stays_with_the_api_that_it_began_with(store):
    with Run(**parts(store, "openai-chat")) as run:
        next(run)
    with pytest.raises(TaskDiffers, match="speaks 'openai-chat', this program 'openai-responses'"):
        Run(**parts(store, "openai-responses")).__enter__()


def test_an_api_that_nobody_speaks_is_named(store):
    with pytest.raises(DeclarationError, match="there is no api 'openai'; there are: anthropic, openai-chat,"):
        with Run(**parts(store, "openai")):
            pass


def test_the_loop_hears_of_an_answer_that_is_under_way_elsewhere(store):
    def crash(event):
        if getattr(getattr(event, "body", None), "kind", "") == "accepted":
            raise KeyboardInterrupt

    model = models.Scripted(["Done."], api="openai-responses", background=True)
    with pytest.raises(KeyboardInterrupt):
        Agent(model, [read], system="Be brief.", store=store).run("go", "run", watch=crash)
    with Run(**parts(store, "openai-responses")) as run:
        turn = next(run)
        assert (turn.handle, turn.number) == ({"response": "resp_1"}, 1)
        turn.respond(model.ask(turn.request, print, turn.handle))
    assert (run.answer, run.result.turns) == ("Done.", 1)


@pytest.mark.parametrize("api", ["anthropic", *APIS])
def test_the_same_agent_works_on_each_api(store, api):
    model = models.Scripted([[("read", {"path": "a"})], "Done."], api=api)
    result = Agent(model, [read], system=[{"type": "text", "text": "Be brief."}], store=store).run("go", "run")
    assert (result.answer, result.turns, result.tokens_used) == ("Done.", 2, 210)
