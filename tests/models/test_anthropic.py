"""The Anthropic model over real HTTP, with the real SDK: what is kept, what is asked again, and what ends a run.

`run` drives an agent blocking and asynchronously; both must keep every sentence.
"""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys

import anthropic
import httpx2
import pytest

from midstride import Agent, Limits, tool
from midstride.core.journal import Failed, Requested, Responded
from midstride.core.settle import TRIES_MAX
from midstride.core.steps import Lost
from midstride.drive import Draft, Runs
from midstride.errors import AccessRefused, DeclarationError, InvalidTranscript, ModelUnavailable
from midstride.models import Anthropic
from midstride.stores import MemoryStore
from midstride.testing import (
    Answer,
    Cut,
    Fail,
    FakeModel,
    Hold,
    Refuse,
    SettableClock,
    StreamError,
    Truncate,
    calls,
)

MODEL = "claude-opus-5"
DONE = Answer("Done.")

AWKWARD = [
    {"type": "thinking", "thinking": "", "signature": "sig=="},
    {"type": "thinking", "thinking": "Let me see: é 🙂\u2028.", "signature": "abc/+="},
    {"type": "redacted_thinking", "data": "AAA="},
    {"type": "text", "text": "a", "citations": None},
    {"type": "text", "text": "b"},
    {"type": "future_block", "x": {"y": [1, None]}},
    {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "note",
        "input": {"b": 1.0, "a": {"z": 10**25, "n": None, "s": "é🙂\u2028\\n"}},
        "caller": {"type": "direct"},
        "future_field": 7,
    },
]


class Scene:
    """A store, a clock, a tool that counts, and one way to drive an agent."""

    def __init__(self, way):
        self.way, self.store, self.clock = way, MemoryStore(), SettableClock()
        self.noted, self.heard = [], []

        @tool
        def note(a: dict, b: float) -> str:
            """Write something down."""
            self.noted.append((a, b))
            return "noted"

        self.tools = [note]

    def __call__(self, server, *, task="hi", limits=None, watch=None, **params):
        url, name = (server if isinstance(server, str) else server.url), params.pop("model", MODEL)

        def agent(**client):
            model = Anthropic(name, **{"max_tokens": 100, **client, **params})
            return Agent(model, self.tools, limits=limits or Limits(), store=self.store, clock=self.clock)

        watch = watch or self.heard.append
        if self.way == "blocking":
            with anthropic.Anthropic(api_key="k", base_url=url) as client:
                return agent(client=client).run(task, "run", watch=watch)

        async def go():
            async with anthropic.AsyncAnthropic(api_key="k", base_url=url) as client:
                return await agent(async_client=client).run_async(task, "run", watch=watch)

        return asyncio.run(go())

    def bodies(self, kind):
        return [entry.body for entry in self.store.read("run") if isinstance(entry.body, kind)]


@pytest.fixture(params=["blocking", "async"])
def run(request):
    return Scene(request.param)


# ---- what is kept


def test_a_response_is_stored_as_the_wire_had_it(run):
    with FakeModel([Answer(AWKWARD, "tool_use"), DONE]) as server:
        assert run(server).status == "done"
    stored = run.bodies(Responded)[0].response
    assert stored["content"] == AWKWARD
    assert json.dumps(stored["content"][-1]["input"]) == json.dumps(AWKWARD[-1]["input"])


def test_a_response_is_sent_back_as_it_is_stored(run):
    with FakeModel([Answer(AWKWARD, "tool_use"), DONE]) as server:
        run(server)
    sent = server.requests[1]["messages"][1]["content"]
    assert json.dumps(sent) == json.dumps(run.bodies(Responded)[0].response["content"])


def test_the_arguments_of_a_call_reach_the_tool_as_the_model_wrote_them(run):
    with FakeModel([Answer(AWKWARD, "tool_use"), DONE]) as server:
        run(server)
    assert run.noted == [({"z": 10**25, "n": None, "s": "é🙂\u2028\\n"}, 1.0)]


def test_what_the_api_tells_beside_the_content_is_stored_too(run):
    usage = {"cache_read_input_tokens": 5, "cache_creation_input_tokens": 6, "input_tokens": 7, "new_count": {"x": 1}}
    told = {
        "stop_sequence": "END",
        "future": {"a": 1.0},
        "container": {"id": "c", "expires_at": "2026-12-01T00:00:00Z"},
    }
    with FakeModel([Answer("Done.", "stop_sequence", usage=usage, extra=told)]) as server:
        result = run(server)
    stored = run.bodies(Responded)[0].response
    assert {**stored, **told} == stored
    assert {**stored["usage"], **usage} == stored["usage"]
    assert result.tokens_used == 7 + 5 + 6 + stored["usage"]["output_tokens"]


def test_the_request_after_a_crash_is_byte_for_byte_the_one_that_was_lost(run):
    def crash(event):
        if isinstance(event, Draft) and len(server.requests) == 2:
            raise KeyboardInterrupt

    with FakeModel([Answer(AWKWARD, "tool_use"), DONE]) as server:
        with pytest.raises(KeyboardInterrupt):
            run(server, watch=crash)
        assert run(server).answer == "Done."
    assert server.bodies[2] == server.bodies[1]


def test_streaming_keeps_whatever_an_answer_in_one_piece_keeps():
    hi = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    reply = Answer(AWKWARD, "tool_use", usage={"input_tokens": 3, "output_tokens": 4})
    with FakeModel(lambda body, number: reply) as server:
        with anthropic.Anthropic(api_key="k", base_url=server.url) as client:
            whole = client.messages.create(**hi).to_dict(mode="json", warnings=False)
            streamed = Anthropic(MODEL, client=client).ask(hi, lambda event: None)
    # The SDK's accumulator sets stop_details, null where the wire had none; it is never sent back.
    assert streamed == {**whole, "id": streamed["id"], "stop_details": None}


# ---- events


def test_the_events_of_an_answer_come_to_watch_as_drafts_before_it_is_saved(run):
    with FakeModel([DONE]) as server:
        run(server)
    drafts = [event.event.type for event in run.heard if isinstance(event, Draft)]
    assert drafts[0] == "message_start"
    assert drafts[-1] == "message_stop"
    kinds = ["draft" if isinstance(event, Draft) else event.body.kind for event in run.heard]
    assert kinds == ["started", "taken", "requested", *["draft"] * len(drafts), "responded"]


@pytest.mark.parametrize("error", [ValueError, OSError, httpx2.ReadError, AssertionError])
def test_what_watch_raises_at_a_draft_is_the_programs_and_no_reason_to_ask_again(run, error):
    def watch(event):
        if isinstance(event, Draft):
            raise error("mine")

    with FakeModel([DONE]) as server:
        with pytest.raises(error, match="mine"):
            run(server, watch=watch)
    assert len(server.requests) == 1


# ---- refused for good


@pytest.mark.parametrize("status", [400, 404, 405, 413, 422])
def test_a_request_that_is_refused_for_good_is_sent_once_and_fails_the_run(run, status):
    with FakeModel([Fail(status, message="no such thing")]) as server:
        result = run(server)
        assert (result.status, result.why) == ("failed", f"HTTP {status}, no such thing")
        assert run(server).status == "failed"
    assert len(server.requests) == 1
    assert run.clock.waits == []


def test_a_failed_run_has_no_answer_and_says_so_without_a_new_entry(run):
    with FakeModel([Fail(400)]) as server:
        assert run(server).answer is None
        before = len(run.store.read("run"))
        run(server)
    assert [b.reason for b in run.bodies(Failed)] == ["HTTP 400, scripted failure"]
    assert len(run.store.read("run")) == before


def test_an_error_event_that_is_no_overload_fails_the_run(run):
    with FakeModel([StreamError("invalid_request_error", "bad block")]) as server:
        result = run(server)
    assert (result.status, len(server.requests)) == ("failed", 1)
    assert "bad block" in result.why


# ---- the key or the account


@pytest.mark.parametrize("status", [401, 402, 403])
def test_a_refused_key_leaves_the_run_to_be_carried_on_with_a_good_one(run, status):
    with FakeModel([calls(("note", {"a": {}, "b": 1})), Fail(status, message="who are you?")]) as server:
        with pytest.raises(AccessRefused, match=f"HTTP {status}, who are you"):
            run(server)
    with FakeModel([DONE, DONE]) as good:
        assert run(good).answer == "Done."
    assert good.bodies[0] == server.bodies[1]
    assert len(run.noted) == 1


def test_a_missing_key_is_said_in_a_sentence(tmp_path):
    program = (
        "from midstride import Agent, models\n"
        f"Agent(models.Anthropic('claude-opus-5'), store='sqlite:{tmp_path}/runs.db').run('hi', id='run')\n"
    )
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", program], env=bare, capture_output=True, text=True)
    assert ran.stderr.splitlines()[-1] == (
        "midstride.errors.AccessRefused: no API key was found: set ANTHROPIC_API_KEY and run the same program again"
    )


# ---- asked again


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_an_overload_is_asked_again_and_the_unpaid_try_is_no_turn(run, status):
    with FakeModel([[Fail(status), DONE]]) as server:
        result = run(server)
    assert (result.answer, result.turns, len(server.requests)) == ("Done.", 1, 2)
    assert len(run.clock.waits) == 1


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"retry-after": "7"}, 7, 8.75),
        ({"retry-after-ms": "3500"}, 3.5, 4.375),
        ({"retry-after-ms": "3500", "retry-after": "90"}, 3.5, 4.375),
        ({"retry-after": "soon"}, 1, 1.25),
        ({"retry-after": "-5"}, 0, 0),
        ({}, 1, 1.25),
    ],
)
def test_the_wait_is_what_the_api_asks_for(run, headers, least, most):
    with FakeModel([[Fail(429, headers=headers), DONE]]) as server:
        run(server)
    assert least <= run.clock.waits[0] <= most


@pytest.mark.parametrize("said", ["nan", "inf", "1e400"])
def test_a_wait_that_is_no_time_is_as_if_nothing_was_said(run, said):
    with FakeModel([[Fail(429, headers={"retry-after": said}), DONE]]) as server:
        assert run(server).answer == "Done."
    assert 1 <= run.clock.waits[0] <= 1.25


def test_the_waits_grow_and_after_six_tries_the_run_is_left_resumable(run):
    with FakeModel([Fail(529)]) as server:
        with pytest.raises(ModelUnavailable, match="no answer in 6 tries: HTTP 529, scripted failure; nothing is lost"):
            run(server)
    assert len(server.requests) == TRIES_MAX
    assert [int(wait) for wait in run.clock.waits[:3]] == [1, 2, 4]
    assert len(run.clock.waits) == TRIES_MAX - 1
    with FakeModel([DONE]) as better:
        assert run(better).answer == "Done."
    assert better.bodies[0] == server.bodies[0]


def test_an_api_that_forbids_to_ask_again_is_obeyed(run):
    with FakeModel([Fail(503, headers={"x-should-retry": "false"})]) as server:
        with pytest.raises(ModelUnavailable, match="asks not to be asked again"):
            run(server)
    assert len(server.requests) == 1
    with FakeModel([DONE]) as better:
        assert run(better).answer == "Done."


@pytest.mark.parametrize("events", [0, 1, 2, 4, -2])
@pytest.mark.parametrize("kind", [Cut, Truncate, StreamError])
def test_a_broken_stream_is_asked_again_and_counts_as_a_turn(run, kind, events):
    with FakeModel([[kind(after_events=events), DONE]]) as server:
        result = run(server)
    assert (result.answer, result.turns, len(server.requests)) == ("Done.", 2, 2)
    assert len(run.bodies(Requested)) == 2
    assert server.bodies[0] == server.bodies[1]


def test_the_text_of_a_broken_stream_is_not_doubled(run):
    overload = StreamError(after_events=-2, answer=Answer("Part one"))
    with FakeModel([[overload, Answer("Part one and two")]]) as server:
        assert run(server).answer == "Part one and two"
    assert [len(b.response["content"]) for b in run.bodies(Responded)] == [1]


def test_a_whole_call_in_a_stream_without_an_end_is_not_run(run):
    with FakeModel([[Truncate(-2, calls(("note", {"a": {}, "b": 1}))), DONE]]) as server:
        assert run(server).answer == "Done."
    assert run.noted == []


def test_streams_that_break_for_ever_are_bounded_by_the_limit_of_turns(run):
    with FakeModel([Truncate()]) as server:
        assert run(server, limits=Limits(turns=3)).status == "capped"
        assert run(server, limits=Limits(turns=3)).status == "capped"
    assert len(server.requests) == 3


def test_broken_streams_are_given_up_after_six_tries_and_resumable(run):
    with FakeModel([Cut()]) as server:
        with pytest.raises(ModelUnavailable, match="connection broke in the middle of the answer"):
            run(server)
    with FakeModel([DONE]) as better:
        assert (run(better).answer, run.bodies(Requested).__len__()) == ("Done.", TRIES_MAX + 1)


def test_a_connection_that_is_reset_without_a_word_is_tried_again(run):
    with FakeModel([[Refuse(), DONE]]) as server:
        result = run(server)
    assert (result.answer, result.turns) == ("Done.", 1)


def test_a_server_that_is_not_there_leaves_the_run_resumable(run):
    with socket.socket() as silent:  # bound and not listening: nobody else gets the port, and nobody answers
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(ModelUnavailable, match="no connection to the API"):
            run(f"http://127.0.0.1:{silent.getsockname()[1]}")
    with FakeModel([DONE]) as server:
        assert run(server).answer == "Done."


# ---- how an answer ends


def test_a_cut_answer_is_asked_for_twice_more_with_double_the_room(run):
    cut = calls(("note", {"a": {}, "b": 1}), stop_reason="max_tokens")
    with FakeModel([cut]) as server:
        result = run(server)
        assert run(server).status == "cut"
    assert [body["max_tokens"] for body in server.requests] == [100, 200, 400]
    assert (result.status, result.answer, run.noted) == ("cut", None, [])


def test_room_is_doubled_for_a_cut_answer_only(run):
    with FakeModel([[Answer("Do", "max_tokens"), calls(("note", {"a": {}, "b": 1}))], DONE]) as server:
        assert run(server).answer == "Done."
    assert [body["max_tokens"] for body in server.requests] == [100, 200, 100]


def test_a_refusal_runs_nothing_and_its_words_are_no_answer(run):
    refusal = Answer(
        [{"type": "text", "text": "I will"}, {"type": "tool_use", "name": "note", "input": {"a": {}, "b": 1}}],
        "refusal",
        extra={"stop_details": {"type": "refusal", "category": "cyber", "explanation": None}},
    )
    with FakeModel([refusal]) as server:
        result = run(server)
        assert run(server) == result
    assert (result.status, result.answer, run.noted) == ("failed", None, [])
    assert result.why == "the model's answer ended with refusal (cyber), which runs nothing and is no answer"
    assert len(server.requests) == 1


def test_a_full_window_is_not_reported_as_done(run):
    with FakeModel([Answer("Half of the rep", "model_context_window_exceeded")]) as server:
        result = run(server)
    assert (result.status, result.answer) == ("cut", None)


def test_a_stop_reason_that_nobody_knows_stops_the_run_and_does_not_loop(run):
    new = calls(("note", {"a": {}, "b": 1}), text="?", stop_reason="brand_new_reason")
    with FakeModel([new]) as server:
        assert [run(server).status for _ in range(3)] == ["failed"] * 3
    assert (len(server.requests), run.noted) == (1, [])
    assert run.bodies(Responded)[0].response["stop_reason"] == "brand_new_reason"


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tide"}}


FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


@pytest.mark.parametrize("behind", [[], [FOUND]], ids=len)
def test_a_paused_turn_is_sent_back_as_it_is(run, behind):
    with FakeModel([Answer([SEARCH, *behind], "pause_turn"), DONE]) as server:
        result = run(server)
    assert server.requests[1]["messages"][-1] == {"role": "assistant", "content": [SEARCH, *behind]}
    assert (result.status, result.answer, result.turns) == ("done", "Done.", 2)


def test_pauses_without_end_are_given_up_after_ten(run):
    def search(number):
        return {**SEARCH, "id": f"srvtoolu_{number}"}

    with FakeModel(lambda body, number: Answer([search(number)], "pause_turn")) as server:
        result = run(server)
        assert run(server).status == "failed"
    assert (result.status, len(server.requests)) == ("failed", 11)
    assert result.why == "the answer was paused too many times in a row"


def test_the_calls_of_a_final_answer_are_settled_and_not_started(run):
    final = calls(("note", {"a": {}, "b": 1}), text="Done.", stop_reason="end_turn")
    with FakeModel([final, Answer("Again.")]) as server:
        assert (run(server).answer, run.noted) == ("Done.", [])
        Runs(run.store).say("run", "and now?")
        assert run(server).answer == "Again."
    settled = server.requests[1]["messages"][2]["content"]
    assert [(block["tool_use_id"], block["is_error"]) for block in settled] == [("toolu_0_1", True)]
    assert settled[0]["content"].startswith("Not started: ")


# ---- what a request holds


def test_parameters_go_into_every_request(run):
    thinking = {"type": "adaptive"}
    with FakeModel([DONE]) as server:
        run(server, thinking=thinking, metadata={"user_id": "u"}, extra_headers={"x-mine": "1"})
    body = server.requests[0]
    assert (body["model"], body["max_tokens"], body["stream"]) == (MODEL, 100, True)
    assert (body["thinking"], body["metadata"]) == (thinking, {"user_id": "u"})
    assert server.headers[0]["x-mine"] == "1"


def test_betas_go_to_the_beta_endpoint(run):
    with FakeModel([DONE]) as server:
        assert run(server, betas=["compact-2026-01-12"]).answer == "Done."
    assert server.headers[0]["anthropic-beta"] == "compact-2026-01-12"
    assert "betas" not in server.requests[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *((name, "is the run's own: give it to the Agent instead") for name in ("messages", "system", "tools")),
        ("stream", "is set for each request by midstride: leave it out of models.Anthropic"),
        ("base_url", "belongs to the client: models.Anthropic(..., client=anthropic.Anthropic(..., base_url=...))"),
    ],
)
def test_what_belongs_to_the_run_or_the_client_is_no_parameter_of_the_model(name, said):
    with pytest.raises(DeclarationError, match=re.escape(f"{name} {said}")):
        Anthropic(MODEL, **{name: []})


def test_a_transcript_that_the_api_would_refuse_is_not_sent(run):
    with FakeModel([DONE]) as server:
        with pytest.raises(InvalidTranscript, match=r"A12.* in message 0"):
            run(server, task=[{"type": "text", "text": " "}])
    assert server.requests == []


def test_an_answer_that_is_held_is_waited_for(run, tmp_path):
    gate = tmp_path / "gate"

    def watch(event):
        if isinstance(event, Draft) and event.event.type == "message_start":
            gate.touch()

    with FakeModel([Hold(gate, DONE, after_events=2)]) as server:
        assert run(server, watch=watch).answer == "Done."


# ---- the prefill table


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("claude-instant-1.2", True),
        ("claude-2.1", True),
        ("claude-3-haiku-20240307", True),
        ("claude-3-7-sonnet-latest", True),
        ("claude-opus-4-20250514", True),
        ("claude-sonnet-4-0", True),
        ("claude-opus-4-1", True),
        ("claude-opus-4-1-20250805", True),
        ("claude-sonnet-4-5-20250929", True),
        ("claude-haiku-4-5", True),
        ("claude-opus-4-5", True),
        ("claude-opus-4-6", False),
        ("claude-sonnet-4-6", False),
        ("claude-opus-4-10", False),
        ("claude-opus-5", False),
        ("claude-mythos-preview", False),
        ("some-other-model", False),
    ],
)
def test_a_model_takes_a_prefill_by_its_name(name, takes):
    assert Anthropic(name).takes_prefill is takes


def test_a_word_on_prefill_wins_over_the_name_and_thinking_over_both():
    assert Anthropic("my-proxy", prefill=True).takes_prefill
    assert not Anthropic("claude-opus-4-5", prefill=False).takes_prefill
    assert not Anthropic("claude-opus-4-5", thinking={"type": "enabled", "budget_tokens": 1024}).takes_prefill
    assert Anthropic("claude-opus-4-5", thinking={"type": "disabled"}).takes_prefill


# ---- a model on its own


def test_a_model_without_a_client_makes_the_sdks_own(monkeypatch):
    with FakeModel([DONE]) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        model = Anthropic(MODEL)
        request = {**model.params, "messages": [{"role": "user", "content": "hi"}]}
        assert model.ask(request, lambda event: None)["stop_reason"] == "end_turn"
        model._clients._made.close()


def test_a_lost_answer_says_what_was_found():
    with FakeModel([Truncate(0)]) as server:
        with anthropic.Anthropic(api_key="k", base_url=server.url) as client:
            model = Anthropic(MODEL, client=client)
            request = {**model.params, "messages": [{"role": "user", "content": "hi"}]}
            lost = model.ask(request, lambda event: None)
    assert lost == Lost("the stream ended before the answer began", paid=True)
