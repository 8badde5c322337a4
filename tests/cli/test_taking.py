"""`import` of a transcript of each API: its open calls are settled by the run, and the next request begins with it."""

import json
import re

import pytest

from cli.using import STORE, User
from midstride.testing import Answer, FakeModel
from midstride.transcript import check

AGENTS = """
from pathlib import Path
from midstride import Agent, Happened, models, tool

def done(what):
    with open("done", "a") as file:
        print(what, file=file)

@tool.read_only
def look(name: str) -> str:
    "Look."
    done("look")
    return "seen again"

@tool
def send(to: str) -> str:
    "Send."
    done("send")
    return "sent"

@tool.verifiable(timeout=5)
def post(to: str) -> str:
    "Post."
    done("post")
    return "posted"

@post.verify
def posted(to: str):
    return Happened("found in the post")

def agent_of(model, **more):
    return Agent(model, [look, send, post], **more)

def scripted(api, **more):
    return agent_of(models.Scripted(["?", *["That is all."] * 5], api=api), **more)

anthropic, chat, responses = map(scripted, ("anthropic", "openai-chat", "openai-responses"))
chat_with_system = scripted("openai-chat", system="Be kind.")
real_anthropic = agent_of(models.Anthropic("claude-opus-5"))
real_chat = agent_of(models.OpenAIChat("gpt-next"))
real_responses = agent_of(models.OpenAIResponses("gpt-next"))
"""

CALLS = [("look", {"name": "monday"}), ("post", {"to": "bob"}), ("send", {"to": "ann"})]
SEEN = "seen \N{GRINNING FACE}"


def numbered():
    return ((f"call_{number}", name, json.dumps(given)) for number, (name, given) in enumerate(CALLS))


def anthropic():
    uses = [
        {"type": "tool_use", "id": one, "name": name, "input": json.loads(given)} for one, name, given in numbered()
    ]
    seen = {"type": "tool_result", "tool_use_id": "call_0", "content": SEEN}
    return [
        {"role": "user", "content": "Mail it"},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes."}, *uses]},
        {"role": "user", "content": [seen]},
    ]


def chat():
    made = [
        {"id": one, "type": "function", "function": {"name": name, "arguments": given}}
        for one, name, given in numbered()
    ]
    return [
        {"role": "user", "content": "Mail it"},
        {"role": "assistant", "content": "Yes.", "tool_calls": made},
        {"role": "tool", "tool_call_id": "call_0", "content": SEEN},
    ]


def responses():
    made = [
        {"type": "function_call", "id": f"fc_{one}", "call_id": one, "name": name, "arguments": given}
        for one, name, given in numbered()
    ]
    return [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Mail it"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
        *made,
        {"type": "function_call_output", "call_id": "call_0", "output": SEEN},
    ]


TRANSCRIPTS = {"anthropic": anthropic, "openai-chat": chat, "openai-responses": responses}
TARGETS = {"anthropic": "anthropic", "openai-chat": "chat", "openai-responses": "responses"}


@pytest.fixture
def user(tmp_path):
    """Somebody in a folder with one agent for each API."""
    (tmp_path / "agents.py").write_text(AGENTS)
    return User(tmp_path)


def put(user, value):
    (user.folder / "f.json").write_text(json.dumps(value))


def imported(user, target, *words):
    return user.do_forked("import", "f.json", f"agents.py:{target}", "--id", "r", *words)


def messages(user):
    return json.loads(user.do_forked("export", "r", "--as", "messages").out)


def done(user):
    path = user.folder / "done"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("api", TRANSCRIPTS)
def test_open_calls_are_settled_by_their_effects_and_nothing_is_done_again(user, api):
    given = TRANSCRIPTS[api]()
    put(user, given)
    ended = imported(user, TARGETS[api])
    assert ended.code == 0, ended.err
    opened = [line for line in ended.err.splitlines() if "left open" in line]
    assert opened == [f"  left open, for the run to settle: {one}" for one in ("call_1, post", "call_2, send")]
    assert user.kinds("r") == ["started", "requested", "responded", "settled", "intended", "intended", "taken"]
    resumed = user.do_forked("resume", "r")
    assert (resumed.code, resumed.out) == (0, "That is all.\n"), resumed.err
    assert done(user) == []
    sent = messages(user)
    before = given[:-1] if api == "anthropic" else given
    assert sent[: len(before)] == before
    assert check(sent, provider=api) == []
    told = json.dumps(sent[len(before) :])
    assert (told.count("found in the post"), told.count("Outcome unknown: send")) == (1, 1)
    assert json.loads(user.do_forked("runs", "--json").out)[0]["turns"] == 2


@pytest.mark.parametrize("api", TRANSCRIPTS)
def test_the_next_request_to_a_real_server_begins_with_the_transcript(tmp_path, api):
    (tmp_path / "agents.py").write_text(AGENTS)
    with FakeModel([Answer("?"), Answer("That is all.")]) as server:
        keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY"), "k")
        user = User(tmp_path, ANTHROPIC_BASE_URL=server.url, OPENAI_BASE_URL=f"{server.url}/v1", **keys)
        given = TRANSCRIPTS[api]()
        put(user, given)
        assert imported(user, f"real_{TARGETS[api]}").code == 0
        resumed = user.do_forked("resume", "r")
        assert (resumed.code, resumed.out) == (0, "That is all.\n"), resumed.err
        (request,) = server.requests
    sent = request["input" if api == "openai-responses" else "messages"]
    before = given[:-1] if api == "anthropic" else given
    assert sent[: len(before)] == before


@pytest.mark.parametrize("api", TRANSCRIPTS)
def test_a_transcript_that_the_mending_answered_alike_before_is_left_open_all_the_same(user, api):
    """Behind a second crash the same words stand for an earlier call, which were told to the model then."""
    first = TRANSCRIPTS[api]()
    put(user, first)
    assert user.do_forked("repair", "f.json", "--in-place").code == 0
    mended = json.loads((user.folder / "f.json").read_text())
    again = json.loads(re.sub(r"call_(?=\d)", "again_", json.dumps(TRANSCRIPTS[api]()).replace("rs_1", "rs_2")))
    put(user, [*mended, *again])
    assert imported(user, TARGETS[api]).code == 0
    doubts = json.loads(user.do_forked("doubts", "--json").out)
    assert [(call["call"], call["state"]) for call in doubts] == [("again_1", "intended"), ("again_2", "intended")]


@pytest.mark.parametrize(
    ("target", "behind"),
    [
        ("chat", lambda: [{**chat()[1], "refusal": "No."}]),
        ("responses", lambda: [{"type": "message", "role": "assistant", "content": [REFUSAL]}, *responses()[2:-1]]),
    ],
    ids=["chat", "responses"],
)
def test_calls_of_an_answer_that_runs_nothing_are_told_as_unknown_and_not_forgotten(user, target, behind):
    """Some servers run what they refused in words; the answer stays in the transcript, and its calls are answered."""
    put(user, [{"role": "user", "content": "Mail it"}, *behind()])
    assert imported(user, target).code == 0
    assert user.do_forked("resume", "r").code == 0
    assert json.dumps(messages(user)).count("Outcome unknown: send") == 1
    assert done(user) == []


GO = {"role": "user", "content": "Go"}
REFUSAL = {"type": "refusal", "refusal": "No."}


@pytest.mark.parametrize("target", ["chat", "responses"])
def test_a_list_that_could_be_of_any_api_is_of_the_agents(user, target):
    put(
        user,
        [
            {"role": "user", "content": "Go"},
            {"role": "assistant", "content": "Yes?"},
            {"role": "user", "content": "Go"},
        ],
    )
    assert imported(user, target).code == 0
    assert user.do_forked("resume", "r").out == "That is all.\n"


def test_a_final_answer_in_the_short_form_is_the_answer(user):
    put(
        user,
        {"model": "gpt-next", "input": [{"role": "user", "content": "Go"}, {"role": "assistant", "content": "Done."}]},
    )
    assert imported(user, "responses").code == 0
    assert user.do_forked("resume", "r").out == "Done.\n"


@pytest.mark.parametrize(
    ("given", "target", "said"),
    [
        ([], "chat", "holds no messages"),
        ([{"role": "developer", "content": "x"}], "chat_with_system", "holds no messages"),
        ([{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "function_call": {"name": "send"}}],
         "chat", "ends with a function_call"),
        ([{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "function_call": {"name": "send"}}],
         "anthropic", "speaks 'openai-chat'"),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_run_could_go_on_from_is_one_line_and_2(user, given, target, said):
    put(user, given)
    ended = imported(user, target, "--task", "x")
    assert (ended.code, ended.err.count("\n"), said in ended.err) == (2, 1, True), ended.err
    assert user.journals() == {}


@pytest.mark.parametrize("api", TRANSCRIPTS)
def test_a_transcript_of_another_api_than_the_agents_is_one_line_and_2(user, api):
    put(user, TRANSCRIPTS[api]())
    other = "chat" if api == "anthropic" else "anthropic"
    ended = imported(user, other)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert f"speaks '{api}', this program" in ended.err
    assert user.journals() == {}


def test_a_lessons_checkpoint_is_none_of_another_apis_agent(user):
    checkpoint = {"version": 1, "task": "go", "turns": 1, "tokensUsed": 0, "pendingToolUse": None}
    put(user, {**checkpoint, "messages": anthropic()[:2]})
    for ended in (
        imported(user, "chat"),
        user.do_forked("plan", "f.json", "agents.py:chat"),
        user.do_forked("run", "agents.py:chat", "--task", "go", "--id", "r", "--store", "checkpoint:f.json"),
    ):
        assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
        assert "speaks 'anthropic', this program 'openai-chat'" in ended.err
    assert (user.journals(), done(user)) == ({}, [])


def test_a_real_result_that_had_to_be_mended_stays_a_result(user):
    given = chat()
    given[-1]["content"] = "seen \ud83d"  # half of a pair: no server takes it
    put(user, given)
    assert imported(user, "chat").code == 0
    assert user.kinds("r")[3:6] == ["settled", "intended", "intended"]
    settled = json.loads(user.journals()["r"][3])
    assert (settled["outcome"], settled["content"]) == ("ok", "seen \ufffd")


RULES = {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize(("target", "left"), [("chat", [RULES]), ("chat_with_system", [])])
def test_a_system_prompt_in_the_messages_stays_unless_the_agent_has_its_own(user, target, left):
    put(user, [RULES, *chat()])
    ended = imported(user, target)
    assert ("left out: a system prompt in the messages" in ended.err) == (left == [])
    started = json.loads(user.journals()["r"][0])
    assert started["messages"] == [*left, chat()[0]]


@pytest.mark.parametrize("name", ["previous_response_id", "conversation"])
def test_a_body_whose_beginning_is_on_the_server_is_not_taken(user, name):
    put(user, {"model": "gpt-next", name: "x_1", "input": responses()})
    ended = imported(user, "responses")
    assert (ended.code, f"names a {name}: its beginning is on the server" in ended.err) == (2, True)
    assert not (user.folder / STORE).exists()


def test_an_item_that_only_the_server_held_is_left_out_and_told(user):
    given = responses()
    given[1].pop("encrypted_content")
    put(user, {"model": "gpt-next", "instructions": "Be brief.", "input": given})
    ended = imported(user, "responses")
    assert ended.code == 0
    assert "the server does not hold it" in ended.err
    assert "left out: its system prompt; TARGET has none" in ended.err
    assert json.loads(user.journals()["r"][0])["messages"] == given[:1]
