"""OpenAI's two APIs over real HTTP, with the real SDK: what is kept, what is asked again, and what ends a run.

`run` drives an agent over each API, blocking and asynchronously; all four must keep every sentence.
"""

import json
import os
import socket
import subprocess
import sys

import httpx2
import openai
import pytest

from midstride.core.journal import Failed, Requested, Responded
from midstride.core.settle import TRIES_MAX
from midstride.core.steps import Lost, Refused
from midstride.drive import Draft
from midstride.errors import AccessRefused, DeclarationError, ModelUnavailable
from midstride.models import OpenAIChat, OpenAIResponses
from midstride.testing import Answer, Cut, Fail, FakeModel, Refuse, StreamError, Truncate, calls
from models.openai_scene import DONE, MODEL, MODELS, WAYS, Scene, as_json, awkward

NOTE = ("note", {"a": {}, "b": 1})


@pytest.fixture(params=WAYS, ids=" ".join)
def run(request):
    return Scene(*request.param)


# ---- what is kept


def test_an_answer_is_sent_back_as_the_wire_had_it(run):
    with FakeModel([awkward(run.api), DONE]) as server:
        assert run(server).status == "done"
    stored = run.bodies(Responded)[0].response
    sent = run.sent(server.requests[1])
    if run.api == "openai-chat":
        assert as_json(sent[1]) == as_json(stored["choices"][0]["message"])
        assert sent[1]["tool_calls"][0]["future_field"] == 7
        assert {"content": "a", "refusal": None, "audio": None, "annotations": []}.items() <= sent[1].items()
        assert (sent[1]["reasoning_content"], sent[1]["future"]) == ("Let me see: é 🙂", {"y": [1, None]})
    else:
        assert as_json(sent[1:5]) == as_json(stored["output"])
        reasoning, text, future, call = stored["output"]
        assert (reasoning["encrypted_content"], reasoning["content"], text["phase"]) == ("gAAA/+=", None, "commentary")
        assert future == {"type": "future_item", "id": "fut_1", "x": {"y": [1, None]}}
        assert {
            "async": False,
            "namespace": None,
            "future_field": 7,
            "caller": {"type": "direct"},
        }.items() <= call.items()


def test_the_arguments_reach_the_tool_as_the_model_wrote_them_and_go_back_as_they_came(run):
    with FakeModel([awkward(run.api), DONE]) as server:
        run(server)
    assert run.noted == [({"z": 10**25, "n": None, "s": "é🙂\u2028\n"}, 1.0)]
    text = '{"b": 1.0,"a":{"z":10000000000000000000000000,"n":null,"s":"é🙂\u2028\\n"}}'
    sent = run.sent(server.requests[1])
    asked = sent[1]["tool_calls"][0]["function"] if run.api == "openai-chat" else sent[4]
    assert asked["arguments"] == text
    assert run.results(server.requests[1]) == ["noted"]


@pytest.mark.parametrize("api", MODELS)
def test_streaming_keeps_whatever_an_answer_in_one_piece_keeps(api):
    key, opened = ("messages", "chat.completions") if api == "openai-chat" else ("input", "responses")
    hi = {"model": MODEL, key: [{"role": "user", "content": "hi"}]}
    if api == "openai-responses":
        hi |= {"include": ["reasoning.encrypted_content"], "store": False}
    with FakeModel(lambda body, number: awkward(api)) as server:
        with openai.OpenAI(api_key="k", base_url=server.url + "/v1") as client:
            resource = client.chat.completions if opened == "chat.completions" else client.responses
            whole = resource.create(**hi).to_dict(mode="json", warnings=False)
            more = {"stream_options": {"include_usage": True}} if api == "openai-chat" else {}
            streamed = MODELS[api](MODEL, client=client).ask({**hi, **more}, lambda event: None)
    # The request for a stream is another one: the ids made from it differ, and so does what it is counted as.
    told = json.loads(as_json(streamed).replace(streamed["id"][-24:], whole["id"][-24:]))
    assert {**told, "usage": None} == {**whole, "usage": None}


def test_the_request_after_a_crash_is_byte_for_byte_the_one_that_was_lost(run):
    def crash(event):
        if isinstance(event, Draft) and len(server.requests) == 2:
            raise KeyboardInterrupt

    with FakeModel([awkward(run.api), DONE]) as server:
        with pytest.raises(KeyboardInterrupt):
            run(server, watch=crash, system="Be brief.")
        assert run(server, system="Be brief.").answer == "Done."
    assert server.bodies[2] == server.bodies[1]


def test_what_was_cached_counts_in_the_window(run):
    usage = (
        {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}}
        if run.api == "openai-chat"
        else {
            "input_tokens": 100,
            "output_tokens": 7,
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
        }
    )
    with FakeModel([Answer("Done.", usage=usage)]) as server:
        assert run(server).tokens_used == 107


def test_the_server_is_asked_to_keep_nothing_and_to_give_the_reasoning_away(run):
    with FakeModel([DONE]) as server:
        run(server)
    request = server.requests[0]
    if run.api == "openai-chat":
        assert request["stream_options"] == {"include_usage": True}
    else:
        assert (request["store"], request["include"]) == (False, ["reasoning.encrypted_content"])


# ---- events


def test_the_events_of_an_answer_come_to_watch_as_drafts_before_it_is_saved(run):
    with FakeModel([DONE]) as server:
        run(server)
    kinds = ["draft" if isinstance(event, Draft) else event.body.kind for event in run.heard]
    assert kinds == ["started", "taken", "requested", *["draft"] * (len(kinds) - 4), "responded"]
    assert len(kinds) > 8


@pytest.mark.parametrize("error", [ValueError, OSError, httpx2.ReadError, openai.APIError("x", None, body=None)])
def test_what_watch_raises_at_a_draft_is_the_programs_and_no_reason_to_ask_again(run, error):
    def watch(event):
        if isinstance(event, Draft):
            raise error if isinstance(error, Exception) else error("mine")

    with FakeModel([DONE]) as server:
        with pytest.raises(error if isinstance(error, type) else type(error)):
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


def test_an_error_inside_the_stream_that_no_wait_mends_fails_the_run(run):
    with FakeModel([StreamError("invalid_prompt", "bad prompt")]) as server:
        result = run(server)
    assert (result.status, len(server.requests)) == ("failed", 1)
    assert "bad prompt" in result.why


# ---- the key or the account


@pytest.mark.parametrize(("status", "kind"), [(401, None), (402, None), (403, None), (429, "insufficient_quota")])
def test_a_refused_key_or_account_leaves_the_run_to_be_carried_on(run, status, kind):
    with FakeModel([calls(NOTE), Fail(status, kind, message="who are you?")]) as server:
        with pytest.raises(AccessRefused, match=f"HTTP {status}, who are you"):
            run(server)
    with FakeModel([DONE, DONE]) as good:
        assert run(good).answer == "Done."
    assert good.bodies[0] == server.bodies[1]
    assert len(run.noted) == 1


@pytest.mark.parametrize("name", ["OpenAIChat", "OpenAIResponses"])
@pytest.mark.parametrize("way", ["run", "run_async"])
def test_a_missing_key_is_said_in_a_sentence(tmp_path, name, way):
    program = (
        "import asyncio\nfrom midstride import Agent, models\n"
        f"ran = Agent(models.{name}('gpt-next'), store='sqlite:{tmp_path}/runs.db').{way}('hi', id='run')\n"
        "asyncio.run(ran)\n"
    )
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", program], env=bare, capture_output=True, text=True)
    assert ran.stderr.splitlines()[-1] == (
        "midstride.errors.AccessRefused: no API key was found: set OPENAI_API_KEY and run the same program again"
    )


def test_a_missing_sdk_is_said_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(DeclarationError, match=r"models.OpenAIChat needs the SDK: pip install 'midstride\[openai\]'"):
        OpenAIChat(MODEL).ask({}, lambda event: None)


# ---- asked again


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_an_overload_is_asked_again_and_the_unpaid_try_is_no_turn(run, status):
    with FakeModel([[Fail(status), DONE]]) as server:
        result = run(server)
    assert (result.answer, result.turns, len(server.requests)) == ("Done.", 1, 2)
    assert len(run.clock.waits) == 1


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [({"retry-after": "7"}, 7, 8.75), ({"retry-after-ms": "3500"}, 3.5, 4.375), ({"retry-after": "150"}, 150, 187.5)],
)
def test_the_wait_is_what_the_api_asks_for(run, headers, least, most):
    with FakeModel([[Fail(429, headers=headers), DONE]]) as server:
        run(server)
    assert least <= run.clock.waits[0] <= most


def test_an_api_that_forbids_to_ask_again_is_obeyed(run):
    with FakeModel([Fail(503, headers={"x-should-retry": "false"})]) as server:
        with pytest.raises(ModelUnavailable, match="asks not to be asked again"):
            run(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize("events", [0, 1, 2, 4, -2])
@pytest.mark.parametrize("kind", [Cut, Truncate, StreamError])
def test_a_broken_stream_is_asked_again_and_counts_as_a_turn(run, kind, events):
    with FakeModel([[kind(after_events=events), DONE]]) as server:
        result = run(server)
    assert (result.answer, len(server.requests)) == ("Done.", 2)
    assert result.turns == len(run.bodies(Requested)) == 2
    assert server.bodies[0] == server.bodies[1]


def test_a_whole_call_in_a_stream_without_an_end_is_not_run(run):
    with FakeModel([[Truncate(-2, calls(NOTE)), DONE]]) as server:
        assert run(server).answer == "Done."
    assert run.noted == []


def test_broken_streams_are_given_up_after_six_tries_and_resumable(run):
    with FakeModel([Cut()]) as server:
        with pytest.raises(ModelUnavailable, match="connection broke in the middle of the answer"):
            run(server)
    with FakeModel([DONE]) as better:
        assert (run(better).answer, len(run.bodies(Requested))) == ("Done.", TRIES_MAX + 1)


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
    name = "max_completion_tokens" if run.api == "openai-chat" else "max_output_tokens"
    with FakeModel([Answer("Half", "max_tokens")]) as server:
        result = run(server, **{name: 100})
    assert (result.status, [request[name] for request in server.requests]) == ("cut", [100, 200, 400])


def test_the_calls_of_a_cut_answer_are_not_run(run):
    cut = calls(NOTE, stop_reason="max_tokens")
    with FakeModel([[cut, DONE]]) as server:
        assert run(server).answer == "Done."
    assert run.noted == []
    assert server.bodies[0] == server.bodies[1]


@pytest.mark.parametrize("reason", ["refusal", "something_new"])
def test_a_filtered_or_unknown_end_runs_nothing_and_is_no_answer(run, reason):
    with FakeModel([calls(NOTE, stop_reason=reason)]) as server:
        if run.api == "openai-responses" and reason == "something_new":
            # The event that would end it does not come either: it has not ended.
            with pytest.raises(ModelUnavailable, match="ended before the answer was whole"):
                run(server)
            return
        result = run(server)
    assert (result.status, result.answer, run.noted, len(server.requests)) == ("failed", None, [], 1)
    assert ("content_filter" if reason == "refusal" else reason) in result.why


def test_a_refusal_in_words_is_no_answer_and_is_told(run):
    said = "I can't help with that."
    if run.api == "openai-chat":
        refused = Answer("", extra={"message": {"content": None, "refusal": said}})
    else:
        part = {"type": "refusal", "refusal": said}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
        refused = Answer([item])
    with FakeModel([refused]) as server:
        result = run(server)
    assert (result.status, result.answer) == ("failed", None)
    assert said in result.why


def test_a_wrong_json_of_arguments_is_told_to_the_model_and_nothing_runs(run):
    torn = {"type": "tool_use", "name": "note", "arguments": '{"a": {}, "b": '}
    with FakeModel([Answer([torn], "tool_use"), DONE]) as server:
        assert run(server).status == "done"
    (told,) = run.results(server.requests[1])
    assert told.startswith("Failed: the arguments are no JSON (Expecting value: line 1 column 16")
    assert run.noted == []


def test_an_unknown_tool_is_told_in_words_and_what_comes_behind_it_is_not_begun(run):
    with FakeModel([calls(("nite", {}), NOTE), DONE]) as server:
        run(server)
    unknown, behind = run.results(server.requests[1])
    assert unknown.startswith("Failed: there is no tool nite; did you mean note?")
    assert behind.startswith("Not started: ")
    assert run.noted == []


def test_parallel_calls_are_answered_each_by_its_own_in_their_order(run):
    with FakeModel([calls(NOTE, NOTE, text="Two at once."), DONE]) as server:
        run(server)
    assert run.results(server.requests[1]) == ["noted", "noted"]
    assert len(run.noted) == 2


# ---- the model itself


def test_parameters_go_into_every_request(run):
    with FakeModel([calls(NOTE), DONE]) as server:
        run(server, temperature=0.5, service_tier="flex")
    assert [(r["temperature"], r["service_tier"], r["stream"]) for r in server.requests] == [(0.5, "flex", True)] * 2


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (OpenAIChat, ["messages", "tools", "stream", "n"]),
        (OpenAIResponses, ["input", "instructions", "tools", "stream", "previous_response_id", "conversation"]),
    ],
)
def test_what_belongs_to_the_run_is_no_parameter_of_the_model(model, names):
    for name in names:
        with pytest.raises(DeclarationError, match=f"{name} is (the run's own|set for each request by midstride)"):
            model(MODEL, **{name: "x"})


@pytest.mark.parametrize("model", [OpenAIChat, OpenAIResponses])
def test_what_belongs_to_the_client_is_given_to_the_client(model):
    with pytest.raises(DeclarationError, match=r"base_url belongs to the client: .*client=openai.OpenAI\("):
        model(MODEL, base_url="http://127.0.0.1:1/v1")


@pytest.mark.parametrize("tools", [None, {"type": "web_search"}, ["web_search"]])
def test_server_tools_are_a_list_of_objects(tools):
    with pytest.raises(DeclarationError, match="wanted a list of the provider's tools, each a dict"):
        OpenAIChat(MODEL, server_tools=tools)


def test_a_parameter_that_the_api_does_not_have_is_named(run):
    with FakeModel([DONE]) as server, pytest.raises(DeclarationError, match="the API has no parameter 'no_such'"):
        run(server, no_such=1)


@pytest.mark.parametrize("more", [{"background": "yes"}, {"background": True, "store": False}])
def test_background_is_a_yes_or_no_and_wants_the_answer_stored(more):
    with pytest.raises(DeclarationError, match="background="):
        OpenAIResponses(MODEL, **more)


def test_a_parameter_that_is_none_is_left_out():
    assert OpenAIChat(MODEL, stream_options=None).params == {"model": MODEL}
    assert "include" not in OpenAIResponses(MODEL, include=None).params


def test_system_tools_and_the_providers_own_tools_are_frozen_in_the_form_of_the_api(run):
    web = {"type": "web_search"}
    with FakeModel([DONE]) as server:
        run(server, system=[{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}], server_tools=[web])
    request = server.requests[0]
    mine, theirs = request["tools"]
    assert theirs == web
    if run.api == "openai-chat":
        assert run.sent(request)[0] == {"role": "system", "content": "Be\nbrief."}
        assert mine["function"]["name"] == "note"
    else:
        assert request["instructions"] == "Be\nbrief."
        assert (mine["name"], mine["strict"]) == ("note", False)


def test_a_model_without_a_client_makes_the_sdks_own(monkeypatch):
    with FakeModel([DONE]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        model = OpenAIChat(MODEL)
        hi = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
        assert model.ask(hi, lambda event: None)["choices"][0]["message"]["content"] == "Done."
        model._clients._made.close()


def test_a_failed_response_is_asked_again_where_that_may_help():
    failed = Answer("", "failed", extra={"error": {"code": "server_error", "message": "boom"}})
    refused = Answer("", "failed", extra={"error": {"code": "invalid_prompt", "message": "no"}})
    hi = {"model": MODEL, "input": [{"role": "user", "content": "hi"}]}
    with FakeModel([[failed, refused]]) as server:
        with openai.OpenAI(api_key="k", base_url=server.url + "/v1") as client:
            model = OpenAIResponses(MODEL, client=client)
            first, second = (model.ask(hi, lambda event: None) for _ in range(2))
    assert first == Lost("the response failed (server_error: boom)", paid=True)
    assert second == Refused("invalid_prompt: invalid_prompt: no")


def test_a_refused_run_holds_the_reason(run):
    with FakeModel([Fail(400)]) as server:
        run(server)
    assert [body.reason for body in run.bodies(Failed)] == ["HTTP 400, scripted failure"]
