"""The fake model server as the real SDK sees it, and what its validator refuses.

What the SDK makes of each failure is the basis of our model layer, so it is pinned here too.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import anthropic
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstride.testing.fake_model import (
    Answer,
    Cut,
    Fail,
    FakeModel,
    Hold,
    Refuse,
    Slow,
    StreamError,
    Truncate,
    calls,
    script_from,
)
from midstride.testing.fake_validator import Rules, refusal, takes_prefill
from patience import SECONDS

HI = [{"role": "user", "content": "hi"}]
MODEL = "claude-opus-5"

CONTENT = [
    {"type": "thinking", "thinking": "", "signature": "sig=="},
    {"type": "thinking", "thinking": "Let me see: é 🙂\u2028.", "signature": "abc/+="},
    {"type": "redacted_thinking", "data": "AAA="},
    {"type": "text", "text": "a", "citations": None},
    {"type": "text", "text": "Ünïcode 🙂 and\u0085lines\u2028\n\n"},
    {
        "type": "text",
        "text": "cited",
        "citations": [
            {
                "type": "char_location",
                "cited_text": "x",
                "document_index": 0,
                "document_title": None,
                "start_char_index": 0,
                "end_char_index": 1,
            }
        ],
    },
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "E==", "page_age": None}
        ],
    },
    {"type": "future_block", "x": {"y": [1, None]}},
    {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "f",
        "caller": {"type": "direct"},
        "input": {"b": 1.0, "a": {"z": 10**25, "n": None, "s": "é🙂\u2028\u0000\\n"}},
    },
    {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}, "future_field": 7},
]


@contextmanager
def client_of(server: FakeModel, **options: object) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0, **options) as client:
        yield client


@asynccontextmanager
async def async_client_of(server: FakeModel) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as client:
        yield client


def create(server, messages=HI, **more):
    with client_of(server) as client:
        return client.messages.create(**{"model": MODEL, "max_tokens": 9, "messages": messages} | more)


def stream(server, messages=HI, **more):
    with client_of(server) as client:
        with client.messages.stream(model=MODEL, max_tokens=9, messages=messages, **more) as running:
            return running.get_final_message()


async def create_async(server):
    async with async_client_of(server) as client:
        return await client.messages.create(model=MODEL, max_tokens=9, messages=HI)


async def stream_async(server):
    async with async_client_of(server) as client:
        async with client.messages.stream(model=MODEL, max_tokens=9, messages=HI) as running:
            return await running.get_final_message()


WAYS = {
    "create": create,
    "stream": stream,
    "create_async": lambda server: asyncio.run(create_async(server)),
    "stream_async": lambda server: asyncio.run(stream_async(server)),
}
every_way = pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS.keys())
both_streams = pytest.mark.parametrize("ask", [WAYS["stream"], WAYS["stream_async"]], ids=["stream", "stream_async"])
both_creates = pytest.mark.parametrize("ask", [WAYS["create"], WAYS["create_async"]], ids=["create", "create_async"])


def wire(message):
    return message.to_dict(mode="json", warnings=False)


def raw_request(server, data, method="POST", path="/v1/messages", **headers):
    """Status and parsed body of a request that the SDK would not send."""
    request = urllib.request.Request(server.url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null")


# Answers


@every_way
def test_every_block_reaches_the_sdk_as_it_was_scripted(ask):
    with FakeModel([Answer(CONTENT, "tool_use")]) as server:
        assert wire(ask(server))["content"] == CONTENT


def test_a_scripted_unknown_block_is_taken_back():
    with FakeModel([Answer(CONTENT, "tool_use"), Answer("on")]) as server:
        answers = [{"type": "tool_result", "tool_use_id": name, "content": "ok"} for name in ("toolu_1", "toolu_2")]
        history = [*HI, {"role": "assistant", "content": CONTENT}, {"role": "user", "content": answers}]
        assert create(server, history).content[0].text == "on"


@every_way
def test_an_answer_carries_its_stop_reason_and_details(ask):
    details = {"type": "refusal", "category": "cyber", "explanation": None}
    with FakeModel([Answer("", "refusal", extra={"stop_details": details})]) as server:
        message = wire(ask(server))
    assert (message["content"], message["stop_reason"], message["stop_details"]) == ([], "refusal", details)


@every_way
def test_usage_can_be_told(ask):
    usage = {"input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 2}
    with FakeModel([Answer("a", usage=usage)]) as server:
        assert wire(ask(server))["usage"] == usage


def test_the_same_request_gets_the_same_message():
    with FakeModel([Answer("a")]) as server:
        assert wire(create(server)) == wire(create(server))


def test_a_stream_and_a_plain_answer_agree():
    with FakeModel([calls(("f", {"a": 1}), text="I call.")]) as server:
        plain, streamed = wire(create(server)), wire(stream(server))
        assert streamed.pop("stop_details") is None
    for made_from_the_body in ("id", "usage"):
        plain.pop(made_from_the_body), streamed.pop(made_from_the_body)
    assert plain == streamed


def test_text_and_inputs_come_in_several_pieces():
    with FakeModel([calls(("f", {"path": "a/b/c"}), text="several pieces")]) as server, client_of(server) as client:
        with client.messages.stream(model=MODEL, max_tokens=9, messages=HI) as running:
            kinds = [event.type for event in running]
    assert (kinds.count("text"), kinds.count("input_json")) == (5, 5)


def test_calls_get_ids_from_turn_and_place():
    with FakeModel([calls(("f", {}), ("g", {"a": 1})), calls(("f", {}))]) as server:
        first = wire(create(server))["content"]
        answers = [{"type": "tool_result", "tool_use_id": block["id"], "content": "ok"} for block in first]
        second = create(server, [*HI, {"role": "assistant", "content": first}, {"role": "user", "content": answers}])
    assert [block["id"] for block in first] == ["toolu_0_0", "toolu_0_1"]
    assert [block.id for block in second.content] == ["toolu_1_0"]


def test_a_lone_surrogate_in_a_streamed_input_reaches_the_sdk_as_an_escape():
    with FakeModel([calls(("f", {"a": "\ud800"}))]) as server:
        with pytest.raises(ValueError, match="Unable to parse tool parameter JSON"):
            stream(server)


def test_a_message_of_a_megabyte_is_streamed_whole():
    with FakeModel([Answer("ü" * 500_000)]) as server:
        assert stream(server).content[0].text == "ü" * 500_000


# Scripts


def test_a_list_is_read_by_turn_so_a_repeated_request_gets_the_same_reply():
    with FakeModel([Answer("one"), Answer("two")]) as server:
        later = [*HI, {"role": "assistant", "content": "one"}, {"role": "user", "content": "on"}]
        texts = [create(server, messages).content[0].text for messages in (HI, HI, later, later, HI)]
    assert texts == ["one", "one", "two", "two", "one"]


def test_a_list_within_a_list_is_read_by_request_and_stays_at_its_end():
    with FakeModel([[Fail(529), Answer("a"), Answer("b")]]) as server:
        with pytest.raises(anthropic.OverloadedError):
            create(server)
        assert [create(server).content[0].text for _ in range(3)] == ["a", "b", "b"]


def test_a_script_can_count_requests():
    with FakeModel([Fail(429), Fail(500), Answer("ok")], by="request") as server:
        with pytest.raises(anthropic.RateLimitError):
            create(server)
        with pytest.raises(anthropic.InternalServerError):
            create(server)
        assert create(server).content[0].text == "ok"


def test_a_script_can_be_a_function_of_the_request():
    with FakeModel(lambda body, number: Answer(f"{body['max_tokens']} {number}")) as server:
        assert [create(server, max_tokens=size).content[0].text for size in (7, 8)] == ["7 0", "8 1"]


def test_the_end_of_a_script_is_a_refusal_that_says_so():
    with FakeModel([]) as server, pytest.raises(anthropic.BadRequestError, match="has no reply 0, only 0"):
        create(server)


def raising(body, number):
    raise LookupError("nothing planned")


@pytest.mark.parametrize(("script", "said"), [(raising, "nothing planned"), (lambda b, n: "text", "is no reply")])
def test_a_broken_script_is_told_to_the_client(script, said):
    with FakeModel(script) as server, pytest.raises(anthropic.BadRequestError, match=said):
        create(server)


# Failures


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (413, anthropic.APIStatusError, "request_too_large"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (529, anthropic.OverloadedError, "overloaded_error"),
    ],
)
@every_way
def test_a_status_becomes_the_sdks_error(ask, status, error, kind):
    with FakeModel([Fail(status, message="no", headers={"retry-after": "7"})]) as server:
        with pytest.raises(error) as caught:
            ask(server)
    told = caught.value
    assert (told.status_code, told.type, told.request_id) == (status, kind, "req_000000")
    assert told.response.headers["retry-after"] == "7"


def test_the_sdks_own_retries_are_seen_by_the_server():
    with FakeModel(
        [[Fail(429, headers={"retry-after-ms": "1"}), Fail(500, headers={"retry-after-ms": "1"}), Answer("ok")]]
    ) as server:
        with anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=2) as client:
            assert client.messages.create(model=MODEL, max_tokens=9, messages=HI).content[0].text == "ok"
        assert len(server.requests) == 3


ONE_CALL = calls(("f", {"path": "/tmp/x", "text": "abcdefgh"}))


@both_streams
def test_a_truncated_stream_looks_like_an_answer_without_a_stop_reason(ask):
    with FakeModel([Truncate(answer=ONE_CALL)]) as server:
        message = wire(ask(server))
    assert message["stop_reason"] is None
    assert message["content"][0]["input"] == {"path": "/tmp/x", "text": "abcdefgh"}


@both_streams
def test_a_truncated_input_is_completed_by_the_sdk(ask):
    """message_start, content_block_start, ping, the empty piece and three of five: `{"path":"/tmp/x","text":`"""
    with FakeModel([Truncate(7, ONE_CALL)]) as server:
        assert wire(ask(server))["content"][0]["input"] == {"path": "/tmp/x"}


@both_streams
def test_a_stream_without_its_last_event_has_a_stop_reason(ask):
    with FakeModel([Truncate(-1)]) as server:
        assert ask(server).stop_reason == "end_turn"


@both_streams
def test_a_cut_stream_is_a_read_error_of_the_transport(ask):
    with FakeModel([Cut()]) as server, pytest.raises(httpx2.ReadError):
        ask(server)


def test_the_events_before_a_cut_arrive():
    texts = []
    with FakeModel([Cut(5, Answer("abcde"))]) as server, client_of(server) as client:
        with client.messages.stream(model=MODEL, max_tokens=9, messages=HI) as running:
            with pytest.raises(httpx2.ReadError):
                texts.extend(running.text_stream)
    assert texts == ["a", "b"]


@both_creates
@pytest.mark.parametrize("reply", [Cut(), Truncate()])
def test_a_cut_body_is_a_connection_error(ask, reply):
    with FakeModel([reply]) as server, pytest.raises(anthropic.APIConnectionError):
        ask(server)


@both_streams
def test_an_error_in_the_stream_is_a_status_error_200_with_its_own_type(ask):
    with FakeModel([StreamError("overloaded_error")]) as server:
        with pytest.raises(anthropic.APIStatusError) as caught:
            ask(server)
    assert (caught.value.status_code, caught.value.type) == (200, "overloaded_error")


def test_a_stream_error_is_a_plain_error_where_no_stream_is_asked():
    with FakeModel([StreamError("overloaded_error")]) as server, pytest.raises(anthropic.OverloadedError):
        create(server)


@every_way
def test_a_refused_connection_is_a_connection_error(ask):
    with FakeModel([Refuse()]) as server, pytest.raises(anthropic.APIConnectionError):
        ask(server)


@every_way
def test_the_server_answers_again_after_every_failure(ask):
    with FakeModel([[Cut(), Truncate(2), Refuse(), StreamError(), Fail(500), Answer("ok")]]) as server:
        for _ in range(5):
            try:
                ask(server)
            except (anthropic.APIError, httpx2.ReadError):
                pass
        assert ask(server).content[0].text == "ok"


# Waiting


def in_background(target, *arguments):
    results = []
    thread = threading.Thread(target=lambda: results.append(target(*arguments)))
    thread.start()
    return thread, results


@pytest.mark.parametrize("after_events", [None, 4])
@pytest.mark.parametrize("ask", [create, stream])
def test_a_held_answer_comes_when_its_event_is_set(ask, after_events):
    released = threading.Event()
    with FakeModel([Hold(released, Answer("late"), after_events)]) as server:
        thread, results = in_background(ask, server)
        server.wait_for(1, SECONDS)
        assert results == []
        released.set()
        thread.join()
    assert results[0].content[0].text == "late"


def test_the_first_events_of_a_held_stream_come_at_once():
    released = threading.Event()
    with FakeModel([Hold(released, Answer("abcde"), 5)]) as server, client_of(server) as client:
        with client.messages.stream(model=MODEL, max_tokens=9, messages=HI) as running:
            texts = iter(running.text_stream)
            assert [next(texts), next(texts)] == ["a", "b"]
            released.set()
            assert list(texts) == ["c", "d", "e"]


def test_a_held_answer_comes_when_its_file_exists(tmp_path):
    with FakeModel([Hold(tmp_path / "go", Answer("late"))]) as server:
        thread, results = in_background(create, server)
        server.wait_for(1, SECONDS)
        (tmp_path / "go").touch()
        thread.join()
    assert results[0].content[0].text == "late"


def test_only_an_answer_can_be_held_in_its_middle():
    with pytest.raises(TypeError, match="holds an Answer, not a Fail"):
        Hold(threading.Event(), Fail(500), 3)


def test_a_client_may_lose_patience_with_a_held_answer():
    with FakeModel([Hold(threading.Event(), Answer("never"))]) as server, client_of(server, timeout=0.05) as client:
        with pytest.raises(anthropic.APITimeoutError):
            client.messages.create(model=MODEL, max_tokens=9, messages=HI)


@every_way
def test_a_slow_answer_is_whole(ask):
    with FakeModel([Slow(0.001, ONE_CALL)]) as server:
        assert wire(ask(server))["content"][0]["input"] == {"path": "/tmp/x", "text": "abcdefgh"}


def test_closing_gives_up_what_is_held():
    with FakeModel([Hold(threading.Event(), Answer("never"))]) as server, client_of(server) as client:

        def ask():
            with pytest.raises(anthropic.APIConnectionError):
                client.messages.create(model=MODEL, max_tokens=9, messages=HI)

        thread, _ = in_background(ask)
        server.wait_for(1, SECONDS)
        server.close()
        thread.join()


def test_closing_ends_idle_connections_and_refuses_new_ones():
    with FakeModel([Answer("a")]) as server, client_of(server) as client:
        client.messages.create(model=MODEL, max_tokens=9, messages=HI)
        port = int(server.url.rpartition(":")[2])
        server.close()
        with socket.socket() as silent:  # bound and not listening: nobody else gets the port while the client asks
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            silent.bind(("127.0.0.1", port))
            with pytest.raises(anthropic.APIConnectionError):
                client.messages.create(model=MODEL, max_tokens=9, messages=HI)


def test_a_server_leaves_no_thread_and_no_socket_behind():
    threads, sockets = set(threading.enumerate()), open_sockets()
    with FakeModel([[Cut(), Refuse(), Answer("a")]]) as server, client_of(server) as client:
        with pytest.raises(anthropic.APIConnectionError):
            client.messages.create(model=MODEL, max_tokens=9, messages=HI)
    for thread in set(threading.enumerate()) - threads:
        thread.join(SECONDS)
    assert set(threading.enumerate()) <= threads
    assert open_sockets() <= sockets


def open_sockets():
    """Return the sockets that this process has open."""
    found = set()
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # what the list itself was read by
            found.add(os.readlink(f"/dev/fd/{name}"))
    return {link for link in found if link.startswith("socket:")}


def test_many_clients_are_served_at_once():
    with FakeModel(lambda body, number: Answer(body["messages"][0]["content"])) as server:
        asked = [in_background(create, server, [{"role": "user", "content": f"{n}"}]) for n in range(12)]
        for thread, _ in asked:
            thread.join()
        assert [results[0].content[0].text for _, results in asked] == [f"{n}" for n in range(12)]
        assert len(server.wait_for(12, SECONDS)) == 12


# What is recorded


def test_requests_are_recorded_as_parsed_and_as_received():
    with FakeModel([Answer("a")]) as server:
        create(server, [{"role": "user", "content": "é"}])
        assert server.requests == [{"max_tokens": 9, "messages": [{"role": "user", "content": "é"}], "model": MODEL}]
        assert json.loads(server.bodies[0]) == server.requests[0]
        assert "é".encode() in server.bodies[0]
        assert server.headers[0]["authorization"] == "Bearer k"


def test_waiting_for_a_request_that_does_not_come_ends():
    with FakeModel([]) as server, pytest.raises(TimeoutError, match=r"0 requests came in .* 1 were awaited"):
        server.wait_for(1, timeout=0.01)


def test_a_server_that_is_not_running_has_no_url():
    with pytest.raises(RuntimeError, match="not running"):
        _ = FakeModel([]).url


def test_the_log_has_the_body_as_received_and_no_key(tmp_path):
    log = tmp_path / "log"
    body = b'{"model": "m",  "max_tokens": 1, "messages": [{"role": "user", "content": "\xc3\xa9 \\u00e9"}]}'
    key = {"x-api-key": "secret", "anthropic-version": "1"}
    with FakeModel([Answer("a")], log=log) as server:
        assert raw_request(server, body, **key)[0] == 200
        assert raw_request(server, b"\xff", **key)[0] == 400
    first, second = [json.loads(line) for line in log.read_text().splitlines()]
    assert (first["number"], first["turn"], first["body"].encode()) == (0, 0, body)
    assert second["body"].encode("utf-8", "surrogateescape") == b"\xff"
    assert "secret" not in log.read_text()


# What is refused


VERSION = {"anthropic-version": "2026-10-21"}
GOOD = json.dumps({"model": "m", "max_tokens": 1, "messages": HI}).encode()


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "kind"),
    [
        ("GET", "/v1/messages", VERSION, 404, "not_found_error"),
        ("POST", "/v1/other", VERSION, 404, "not_found_error"),
        ("POST", "/v1/messages", VERSION, 401, "authentication_error"),
        ("POST", "/v1/messages", {"authorization": "Bearer k"}, 400, "invalid_request_error"),
    ],
)
def test_a_request_to_the_wrong_place_or_without_its_headers_is_refused(method, path, headers, status, kind):
    with FakeModel([Answer("a")]) as server:
        answered, body = raw_request(server, GOOD if method == "POST" else None, method, path, **headers)
    assert (answered, body["type"], body["error"]["type"]) == (status, "error", kind)


def test_a_head_request_gets_404_and_no_body():
    with FakeModel([]) as server:
        assert raw_request(server, None, "HEAD", "/") == (404, None)


def test_a_request_cut_by_its_sender_is_not_recorded():
    with FakeModel([Answer("a")]) as server:
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as half:
            half.sendall(b"POST /v1/messages HTTP/1.1\r\ncontent-length: 100\r\n\r\n{")
        create(server)
        assert len(server.requests) == 1


def test_an_invalid_transcript_gets_the_apis_400():
    with FakeModel([Answer("a")]) as server, pytest.raises(anthropic.BadRequestError) as caught:
        create(server, [*HI, {"role": "assistant", "content": [call("t1")]}])
    assert caught.value.body == {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1. "
            "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        },
        "request_id": "req_000000",
    }


def call(called, **more):
    return {"type": "tool_use", "id": called, "name": "f", "input": {}} | more


def result(name, content="ok", **more):
    return {"type": "tool_result", "tool_use_id": name, "content": content} | more


def text(said):
    return {"type": "text", "text": said}


def search(name):
    return {"type": "server_tool_use", "id": name, "name": "web_search", "input": {}}


def found(name):
    return {"type": "web_search_tool_result", "tool_use_id": name, "content": []}


def says(*contents):
    """Messages with these contents: user, assistant, user, ..."""
    return [{"role": ("user", "assistant")[n % 2], "content": content} for n, content in enumerate(contents)]


def said_against(transcript, rules=None, **more):
    body = {"model": MODEL, "max_tokens": 9, "messages": transcript} | more
    refused = refusal(json.dumps(body).encode(), rules)
    return refused and refused.message


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}

INVALID = {
    "A01": (says("hi", [call("t1"), call("t2")], [result("t1")]), "messages.2: `tool_use` ids were found without"),
    "A01 at the end": (says("hi", [call("t1")]), "immediately after: t1. Each"),
    "A01 in the middle": (says("hi", [call("t1")], "well?", "no", "why"), "messages.2: `tool_use` ids were found"),
    "A01 over a system message": (
        [*says("hi", [call("t1")]), {"role": "system", "content": "x"}, {"role": "user", "content": [result("t1")]}],
        "messages.2: a system message must follow a user turn",
    ),
    "A02": (says("hi", "yes", [result("t1")]), "messages.2.content.0: unexpected `tool_use_id` found"),
    "A02 one turn late": (
        says("hi", [call("t1")], [result("t1")], "a", [result("t1")]),
        "messages.4.content.0: unexpect",
    ),
    "A02 for a server's call": (says("hi", [search("srvtoolu_1")], [result("srvtoolu_1")]), "unexpected `tool_use_id`"),
    "A03": (says("hi", [call("t1")], [text("wait"), result("t1")]), "messages.2: `tool_use` ids were found without"),
    "A03 over two messages": (
        [*says("hi", [call("t1")], "wait"), {"role": "user", "content": [result("t1")]}],
        "messages.2: `tool_use` ids were found without",
    ),
    "A04": (
        says("hi", [call("t1"), call("t1")], [result("t1")]),
        "messages.1.content.1: `tool_use` ids must be unique",
    ),
    "A04 across turns": (
        says("hi", [call("t1")], [result("t1")], [call("t1")], [result("t1")]),
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    "A05": (
        says("hi", [call("t1")], [result("t1"), result("t1")]),
        "messages.2.content.1: each tool_use must have a single",
    ),
    "A08": ([{"role": "assistant", "content": "hi"}], 'messages: first message must use the "user" role'),
    "A08 nothing": ([], "messages: at least one message is required"),
    "A09": (says("hi", "yes"), "This model does not support assistant message prefill."),
    "A09 finished server call": (says("hi", [search("s"), found("s"), text("so")]), "This model does not support"),
    "A10 user": (says(""), "messages.0: user messages must have non-empty content"),
    "A10 list": (says("hi", [], "on"), "messages.1: all messages must have non-empty content except"),
    "A10 null": (says("hi", None, "on"), "messages.1: all messages must have non-empty content except"),
    "A10 absent": ([{"role": "user"}], "messages.0.content: Field required"),
    "A11": (says([text("")]), "messages: text content blocks must be non-empty"),
    "A11 in a result": (says("hi", [call("t1")], [result("t1", [text("")])]), "text content blocks must be non-empty"),
    "A12": (says([text(" \n")]), "messages: text content blocks must contain non-whitespace text"),
    "A12 string": (says("\n"), "messages: text content blocks must contain non-whitespace text"),
    "A14": (
        says("hi", [call("a.b")], [result("a.b")]),
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "A14 newline": (says("hi", [call("a\n")], [result("a\n")]), "tool_use.id: String should match pattern"),
    "A14 result": (says([{"type": "tool_result"}]), "messages.0.content.0.tool_result.tool_use_id: Field required"),
    "A15 string": (
        says("hi", [call("t1", input="{}")]),
        "messages.1.content.0.tool_use.input: Input should be a valid d",
    ),
    "A15 absent": (says("hi", [{"type": "tool_use", "id": "t", "name": "f"}]), "tool_use.input: Field required"),
    "A16": (says("hi", [call("t1", name="")]), "tool_use.name: String should have at least 1 character"),
    "A16 long": (says("hi", [call("t1", name="f" * 201)]), "tool_use.name: String should have at most 200 characters"),
    "A17": (
        says("hi", [call("t1")], [result("t1", "", is_error=True)]),
        "content cannot be empty if `is_error` is true",
    ),
    "A17 absent": (
        says("hi", [call("t1")], [{"type": "tool_result", "tool_use_id": "t1", "is_error": True}]),
        "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true",
    ),
    "A18": (says("hi", [call("t1")], [result("t1", [IMAGE], is_error=True)]), "all content must be type `text` if"),
    "A19": (
        says("hi", [call("t1")], [result("t1", [call("t2")])]),
        "content.0: Input tag 'tool_use' found using 'type'",
    ),
    "A19 object": (
        says("hi", [call("t1")], [result("t1", {"a": 1})]),
        "tool_result.content: Input should be a valid list",
    ),
    "A20 call": (says([call("t1")]), "messages.0: `tool_use` blocks can only be in `assistant` messages"),
    "A20 result": (says("hi", [result("t1")]), "messages.1: `tool_result` blocks can only be in `user` messages"),
    "A20 image": (says("hi", [IMAGE]), "messages.1: `image` blocks can only be in `user` messages"),
    "A21 first": ([{"role": "system", "content": "x"}], "messages.0: use the top-level 'system' parameter"),
    "A21 behind an answer": (
        [*says("hi", "yes"), {"role": "system", "content": "x"}],
        "messages.2: a system message must follow a user turn",
    ),
    "A21 in front of a user": (
        [*HI, {"role": "system", "content": "x"}, *HI],
        "messages.1: a system message must be last or be followed by an assistant turn",
    ),
    "A25": (says("hi", [{"type": "thinking", "thinking": "x"}, text("a")], "b"), "thinking.signature: Field required"),
    "A32": (says("hi", [search("s1")], "and?"), "messages.2: `web_search` tool use with id `s1` was found without"),
    "A33": (
        says("hi", [found("s1")], "and?"),
        "unexpected `tool_use_id` found in `web_search_tool_result` blocks: s1.",
    ),
    "A35": (says("hi", [search("s1"), call("t1")], [result("t1"), text("and?")]), "`web_search` tool use with id `s1`"),
    "G04 message": ([{"role": "user", "content": "hi", "at": 1}], "messages.0.at: Extra inputs are not permitted"),
    "G04 block": (says([text("a") | {"cost": 1}]), "messages.0.content.0.text.cost: Extra inputs are not permitted"),
    "G06 role": ([{"role": "tool", "content": "hi"}], "messages.0.role: Input should be 'user' or 'assistant'"),
    "G06 kind": (says([{"type": "note"}]), "messages.0.content.0: Input tag 'note' found using 'type' does not match"),
    "no block": (says(["hi"]), "messages.0.content.0: Input should be a valid dictionary"),
    "no type": (says([{"text": "hi"}]), "messages.0.content.0.type: Field required"),
    "no message": (["hi"], "messages.0: Input should be a valid dictionary"),
    "text of another type": (says([text(7)]), "messages.0.content.0.text.text: Input should be a valid string"),
    "content of another type": (says(7), "messages.0.content: Input should be a valid list"),
}


@pytest.mark.parametrize(("messages", "said"), INVALID.values(), ids=INVALID.keys())
def test_an_invalid_transcript_is_refused(messages, said):
    assert said in said_against(messages)


OF_THE_REQUEST = {
    "unknown field": ({"run_id": "r"}, "run_id: Extra inputs are not permitted"),
    "beta field without its header": ({"thread": {}}, "thread: Extra inputs are not permitted"),
    "max_tokens zero": ({"max_tokens": 0}, "max_tokens: must be greater than or equal to 1"),
    "max_tokens text": ({"max_tokens": "9"}, "max_tokens: Input should be a valid integer"),
    "max_tokens true": ({"max_tokens": True}, "max_tokens: Input should be a valid integer"),
    "model empty": ({"model": ""}, "model: String should have at least 1 character"),
    "model number": ({"model": 5}, "model: Input should be a valid string"),
    "stream": ({"stream": 1}, "stream: Input should be a valid boolean"),
    "messages": ({"messages": "hi"}, "messages: Input should be a valid list"),
    "thinking": ({"thinking": "on"}, "thinking: Input should be a valid dictionary"),
    "system": ({"system": {"a": 1}}, "system: Input should be a valid list"),
    "system block": ({"system": [IMAGE]}, "system.0: Input should be a text block"),
    "system text": ({"system": [text("")]}, "system: text content blocks must be non-empty"),
    "tools": ({"tools": {"a": 1}}, "tools: Input should be a valid list"),
    "tool": ({"tools": ["f"]}, "tools.0: Input should be a valid dictionary"),
    "tool name": ({"tools": [{"name": "f f", "input_schema": {}}]}, "tools.0.custom.name: String should match pattern"),
    "tool schema": ({"tools": [{"name": "f"}]}, "tools.0.custom.input_schema: Field required"),
    "tool schema list": ({"tools": [{"name": "f", "input_schema": []}]}, "input_schema: Input should be a valid dict"),
    "tool schema type": ({"tools": [{"name": "f", "input_schema": {}}]}, "input_schema.type: Input should be 'object'"),
    "tool names": ({"tools": [{"name": "f", "input_schema": {"type": "object"}}] * 2}, "Tool names must be unique."),
}


@pytest.mark.parametrize(("more", "said"), OF_THE_REQUEST.values(), ids=OF_THE_REQUEST.keys())
def test_an_invalid_request_is_refused(more, said):
    assert said in said_against(HI, **more)


def test_a_request_without_max_tokens_is_refused():
    assert refusal(json.dumps({"model": "m", "messages": HI}).encode()).message == "max_tokens: Field required"


VALID = {
    "one message": HI,
    "a call and its result": says("hi", [text("a"), call("t1")], [result("t1"), text("go on")]),
    "results over two messages": [
        *says("hi", [call("t1"), call("t2")], [result("t2")]),
        {"role": "user", "content": [result("t1")]},
    ],
    "an error result": says("hi", [call("t1")], [result("t1", [text("no")], is_error=True)]),
    "a result without content": says("hi", [call("t1")], [{"type": "tool_result", "tool_use_id": "t1"}]),
    "images": says([IMAGE], [call("t1")], [result("t1", [text("a"), IMAGE]), IMAGE]),
    "two users in a row": [*HI, *HI],
    "cache markers": says([text("a") | {"cache_control": {"type": "ephemeral"}}]),
    "own fields in an answer": says("hi", [call("t1", future=1, caller={"type": "direct"})], [result("t1")]),
    "empty thinking": says("hi", [{"type": "thinking", "thinking": "", "signature": "s"}, text("a")], "on"),
    "a paused turn": says("hi", [text("let me look"), search("s1")]),
    "a paused turn that ends in a result": says("hi", [search("s1"), found("s1")]),
    "a paused turn over two messages": [*says("hi", [search("s1")]), {"role": "assistant", "content": [found("s1")]}],
    "a server call and a client call": says("hi", [search("s1"), call("t1")], [result("t1")]),
    "a server call answered a turn later": says("hi", [search("s1"), call("t1")], [result("t1")], [found("s1")], "on"),
    "a system message": [*HI, {"role": "system", "content": "x"}, *says("hi", "yes", "on")[1:]],
    "a view from a compaction on": [
        {"role": "assistant", "content": [{"type": "compaction", "content": "so far"}]},
        *HI,
    ],
    "faults before a compaction": says("hi", [call("t1")], "x", [{"type": "compaction", "content": "c"}], "on"),
}


@pytest.mark.parametrize("messages", VALID.values(), ids=VALID.keys())
def test_a_valid_transcript_is_taken(messages):
    assert said_against(messages) is None


@pytest.mark.parametrize(
    ("model", "taken"),
    [
        ("claude-3-5-sonnet-20241022", True),
        ("claude-opus-4-0", True),
        ("claude-sonnet-4-20250514", True),
        ("claude-opus-4-1-20250805", True),
        ("claude-haiku-4-5", True),
        ("claude-opus-4-6", False),
        ("claude-opus-4-50", False),
        ("claude-sonnet-5", False),
        ("claude-opus-5", False),
        ("m", False),
    ],
)
def test_only_claude_4_5_and_earlier_take_a_prefill(model, taken):
    assert takes_prefill(model) is taken
    assert (said_against(says("hi", "yes"), model=model) is None) is taken


def test_a_server_can_be_told_of_models_that_take_a_prefill():
    with FakeModel([Answer("x"), Answer("a")], prefill_models=["mine"]) as server:
        assert create(server, says("hi", "yes"), model="mine").content[0].text == "a"


def test_thinking_refuses_a_prefill_on_every_model():
    thinking = {"type": "enabled", "budget_tokens": 1024}
    said = said_against(says("hi", "yes"), model="claude-haiku-4-5", thinking=thinking)
    assert said.startswith("This model does not support assistant message prefill.")


def test_a_prefill_may_not_end_in_white_space_and_may_be_empty():
    said = [said_against(says("hi", prefill), model="claude-haiku-4-5") for prefill in ("yes ", "")]
    assert said == ["messages: final assistant content cannot end with trailing whitespace", None]


def test_the_system_role_is_refused_by_older_models():
    messages = [*HI, {"role": "system", "content": "x"}]
    assert 'Unexpected role "system"' in said_against(messages, model="claude-sonnet-4-6")


def test_beta_fields_are_taken_with_a_beta_header():
    assert said_against(HI, Rules(beta=True), thread={"type": "create"}) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (rb'"\ud800"', "no low surrogate in string: line 1 column 87 (char 86)"),
        (rb'"\udc00\ud800"', "no low surrogate in string"),
        (rb'"\\\ud83d\\ude00"', "no low surrogate in string"),
        (b'"\xed\xa0\x80"', "invalid continuation byte"),
        (b"NaN", "NaN is not a number"),
        (b"1e999", "1e999 is not a number"),
        (b"[" * 100_000, "recursion"),
        (b"", "Expecting value"),
    ],
)
def test_a_body_that_is_no_json_is_refused(content, said):
    body = b'{"model": "claude-opus-5", "max_tokens": 9, "messages": [{"role": "user", "content": ' + content + b"}]}"
    message = refusal(body).message
    assert message.startswith("The request body is not valid JSON: ")
    assert said in message


def test_a_body_that_is_no_object_is_refused():
    assert refusal(b"[]").message == "The request body is not valid JSON: expected an object"


def test_escapes_that_only_look_like_half_a_pair_are_taken():
    body = rb'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "\\ud800 \ud83d\ude00"}]}'
    assert refusal(body) is None


def test_a_body_over_32_mib_is_too_large():
    refused = refusal(b" " * (32 * 1024 * 1024 + 1))
    assert (refused.status, refused.type) == (413, "request_too_large")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "text", "tool_use", "tool_result"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "id", "tool_use_id", "input", "name", "content"]), inner)
    ),
    max_leaves=8,
)
any_messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system"]) | json_values, "content": json_values}
    )
    | json_values,
    max_size=4,
)


@given(any_messages, json_values, json_values)
def test_no_request_is_too_strange_to_be_judged(messages, tools, thinking):
    said = said_against(messages, tools=tools, thinking=thinking, system=tools)
    assert said is None or isinstance(said, str)


# The program


@contextmanager
def program(tmp_path, script):
    (tmp_path / "script.json").write_text(json.dumps(script))
    command = [
        sys.executable,
        "-m",
        "midstride.testing.fake_model",
        tmp_path / "script.json",
        "--log",
        tmp_path / "log",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def asked(url, messages=HI):
    with anthropic.Anthropic(api_key="k", base_url=url, max_retries=0) as client:
        return client.messages.create(model=MODEL, max_tokens=9, messages=messages)


def test_the_program_serves_the_script_of_a_file_and_logs_what_came(tmp_path):
    with program(tmp_path, {"by": "request", "replies": [{"fail": 429}, {"calls": [["f", {"a": 1}]]}]}) as (_, url):
        with pytest.raises(anthropic.RateLimitError):
            asked(url)
        assert asked(url).content[0].input == {"a": 1}
        lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [(line["number"], line["turn"]) for line in lines] == [(0, 0), (1, 0)]
    assert json.loads(lines[1]["body"])["messages"] == HI


def test_the_program_survives_the_death_of_its_client(tmp_path):
    """A client killed while its answer is held; the next one gets the same answer."""
    with program(tmp_path, [{"hold_file": str(tmp_path / "go"), "reply": "late"}]) as (_, url):
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as client:
            head = "POST /v1/messages HTTP/1.1\r\nx-api-key: k\r\nanthropic-version: 1\r\n"
            client.sendall(f"{head}content-length: {len(GOOD)}\r\n\r\n".encode() + GOOD)
        (tmp_path / "go").touch()
        assert asked(url).content[0].text == "late"


def test_an_interrupt_ends_the_program_quietly(tmp_path):
    with program(tmp_path, ["a"]) as (process, url):
        asked(url)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_each_form_of_a_script_means_its_reply(tmp_path):
    forms = [
        ["text", Answer("text")],
        [{"answer": [text("a")], "stop_reason": "pause_turn"}, Answer([text("a")], "pause_turn")],
        [{"calls": [["f", {"a": 1}]], "text": "x"}, calls(("f", {"a": 1}), text="x")],
        [{"fail": 429, "headers": {"retry-after": "1"}}, Fail(429, headers={"retry-after": "1"})],
        [{"cut": 3, "answer": "x"}, Cut(3, Answer("x"))],
        [{"truncate": -2}, Truncate(-2)],
        [{"stream_error": "api_error", "after_events": 1}, StreamError("api_error", after_events=1)],
        [{"hold_file": str(tmp_path), "reply": {"fail": 500}}, Hold(tmp_path, Fail(500))],
        [{"slow": 0.1, "answer": "x"}, Slow(0.1, Answer("x"))],
        [{"refuse": True}, Refuse()],
        [["a", {"refuse": True}], [Answer("a"), Refuse()]],
    ]
    assert script_from([written for written, _ in forms]) == [meant for _, meant in forms]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"replies": []}, "a script is a list of replies"),
        ([7], "this is no reply of a script: 7"),
        ([{"reply": "x"}], "it needs one of cut, truncate"),
        ([{"fail": 429, "mesage": "x"}], "unexpected keyword argument 'mesage'"),
    ],
)
def test_what_is_no_script_is_refused_by_name(written, said):
    with pytest.raises((ValueError, TypeError), match=said):
        script_from(written)
