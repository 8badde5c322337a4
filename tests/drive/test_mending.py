"""A request that the API would refuse is mended once, on the record, and sent; what cannot be mended is told."""

import asyncio

import anthropic
import pytest

from drive.scenes import Killed, agent_of, kinds
from midstride import Agent, Runs, models, tool
from midstride.core.journal import Compacted, Entry
from midstride.core.steps import Start
from midstride.errors import InvalidTranscript
from midstride.stores import MemoryStore, SqliteStore
from midstride.testing import Answer, Fail, FakeModel, SettableClock, calls

DONE = Answer("Done.")
ASKED, TWICE = (
    Answer([{"type": "tool_use", "id": "call_1", "name": "note", "input": {"n": n}}], "tool_use") for n in "ab"
)
BY_NAME = {"type": "tool_use", "id": "toolu_x", "name": "note", "input": '{"n": "x"}'}


class Scene:
    """A store, a tool that notes, and one way to drive an agent; each call is a program that is started again."""

    def __init__(self, way):
        self.way, self.store, self.clock, self.noted = way, MemoryStore(), SettableClock(), []

    def __call__(self, server, task="go", watch=None):
        @tool
        def note(n: str) -> str:
            """Note a word."""
            self.noted.append(n)
            return f"noted {n}"

        def agent(**client):
            return Agent(models.Anthropic("claude-opus-5", **client), [note], store=self.store, clock=self.clock)

        async def go():
            async with anthropic.AsyncAnthropic(api_key="k", base_url=server.url) as client:
                return await agent(async_client=client).run_async(task, "run", watch=watch)

        if self.way == "async":
            return asyncio.run(go())
        with anthropic.Anthropic(api_key="k", base_url=server.url) as client:
            return agent(client=client).run(task, "run", watch=watch)


@pytest.fixture(params=["blocking", "async"])
def run(request):
    return Scene(request.param)


def bodies(store, kind):
    return [entry.body for entry in store.read("run") if isinstance(entry.body, kind)]


def killed_when(found):
    def watch(event):
        if found(event):
            raise Killed

    return watch


def is_compacted(event):
    return isinstance(event, Entry) and event.body.kind == "compacted"


# ---- before it is sent


def test_an_id_that_the_model_repeats_is_told_apart_and_the_run_goes_on(run):
    with FakeModel([ASKED, TWICE, DONE]) as server:
        assert run(server).answer == "Done."
    sent = server.requests[-1]["messages"]
    ids = [block["id"] for message in sent[1::2] for block in message["content"]]
    assert (len(server.requests), len(set(ids)), run.noted) == (3, 2, ["a", "b"])
    assert [block["content"] for message in sent[2::2] for block in message["content"]] == ["noted a", "noted b"]
    assert kinds(run.store)[-3:] == ["requested", "compacted", "responded"]


def test_what_was_mended_is_in_the_journal_and_the_answer_as_it_came_too(run):
    with FakeModel([ASKED, TWICE, DONE]) as server:
        run(server)
    (mended,) = bodies(run.store, Compacted)
    assert (mended.upto, list(mended.messages)) == (5, server.requests[-1]["messages"])
    answers = [entry.body.response["content"] for entry in run.store.read("run") if entry.body.kind == "responded"]
    assert [blocks[0]["id"] for blocks in answers[:2]] == ["call_1", "call_1"]


def test_arguments_that_are_no_object_are_mended_too(drive):
    store = MemoryStore()
    message = {"role": "assistant", "content": [BY_NAME], "stop_reason": "tool_use", "usage": {}}
    agent = agent_of([message, "Done."], store=store)
    assert drive(agent).status == "done"
    assert isinstance(agent.model.requests[-1]["messages"][1]["content"][0]["input"], dict)


def test_a_mended_run_is_not_mended_again(run):
    with FakeModel([ASKED, TWICE, calls(("note", {"n": "c"})), DONE]) as server:
        run(server)
    assert (len(server.requests), kinds(run.store).count("compacted")) == (4, 1)
    assert server.requests[3]["messages"][:5] == server.requests[2]["messages"]


def test_who_dies_behind_the_mending_sends_the_same_request(run):
    with FakeModel([ASKED, TWICE, DONE]) as server:
        with pytest.raises(Killed):
            run(server, watch=killed_when(is_compacted))
        assert len(server.requests) == 2
        assert run(server).answer == "Done."
    (mended,) = bodies(run.store, Compacted)
    assert server.requests[-1]["messages"] == list(mended.messages)


def test_the_words_of_the_program_itself_are_for_the_program_to_mend(run):
    with FakeModel([DONE]) as server, pytest.raises(InvalidTranscript, match="A12"):
        run(server, task=[{"type": "text", "text": " "}])
    assert server.requests == []


def test_who_cannot_be_mended_is_told_the_rule_the_remedy_and_how_to_see_it(drive, tmp_path):
    store = SqliteStore(tmp_path / "runs.db")
    agent = agent_of(["Done."], store=store)
    with pytest.raises(InvalidTranscript) as refused:
        drive(agent, task=[{"type": "text", "text": " "}], id="my run")
    store.close()
    said = str(refused.value)
    assert "A12-nonblank-text in message 0" in said
    assert "What mends it: " in said
    shown = said.rpartition("See it with: midstride ")[2]
    assert shown == f"export 'my run' --as messages --store sqlite:{tmp_path}/runs.db | midstride check -"


# ---- after the API has refused it


def said_while_it_stood(run, server):
    """A run whose next request has two user messages in a row, as only a strict server refuses."""
    with pytest.raises(Killed):
        run(server, watch=killed_when(lambda event: isinstance(event, Start)))
    runs = Runs(run.store)
    runs.say("run", "Be brief.")


def test_what_a_strict_server_refuses_is_mended_and_sent_once_more(run):
    with FakeModel([calls(("note", {"n": "a"})), [Fail(400), DONE]]) as server:
        said_while_it_stood(run, server)
        assert run(server).answer == "Done."
    roles = [[message["role"] for message in request["messages"]] for request in server.requests]
    assert roles[1:] == [["user", "assistant", "user", "user"], ["user", "assistant", "user"]]
    assert kinds(run.store)[-4:] == ["requested", "compacted", "requested", "responded"]


def test_a_second_refusal_fails_the_run_and_no_start_asks_the_same_again(run):
    with FakeModel([calls(("note", {"n": "a"})), Fail(400, message="no")]) as server:
        said_while_it_stood(run, server)
        assert [run(server).status for _ in range(3)] == ["failed"] * 3
    sent = server.requests[1:]
    assert (len(sent), sent[0] == sent[1]) == (2, False)


def test_who_dies_between_the_mending_and_the_next_request_asks_it_once(run):
    with FakeModel([calls(("note", {"n": "a"})), [Fail(400), DONE]]) as server:
        said_while_it_stood(run, server)
        with pytest.raises(Killed):
            run(server, watch=killed_when(is_compacted))
        assert kinds(run.store)[-1] == "compacted"
        assert run(server).answer == "Done."
    assert len(server.requests) == 3
    assert len(server.requests[-1]["messages"]) == 3


@pytest.mark.parametrize("status", [404, 413, 422])
def test_a_refusal_of_another_kind_changes_nothing(run, status):
    with FakeModel([calls(("note", {"n": "a"})), Fail(status)]) as server:
        said_while_it_stood(run, server)
        assert run(server).status == "failed"
    assert len(server.requests) == 2
    assert "compacted" not in kinds(run.store)


def test_blocks_that_are_newer_than_the_rules_are_neither_refused_nor_dropped(run):
    newer = Answer([{"type": "future_block", "x": 1}, ASKED.content[0]], "tool_use")
    with FakeModel([newer, [Fail(400), DONE]]) as server:
        assert run(server).status == "failed"
    assert server.requests[1]["messages"][1]["content"][0] == {"type": "future_block", "x": 1}
    assert len(server.requests) == 2
