"""How Chat Completions write what the journal needs to know."""

from __future__ import annotations

from typing import Any

import pytest

from midstride.core.apis import Answered, ModelCall, OpenAIChat, Usage
from midstride.core.apis.neutral import arguments_in
from midstride.errors import NotAResponse

API = OpenAIChat()


def call(name: str = "u", arguments: Any = '{"n":0}', **more: Any) -> dict[str, Any]:
    return {"id": "c0", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def completion(finish: Any = "stop", *, usage: Any = None, **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi.", **message}, "finish_reason": finish}
    return {"id": "x", "choices": [choice], "usage": usage}


@pytest.mark.parametrize(
    ("response", "found"),
    [
        ("text", "str is no response: wanted a chat completion with one choice"),
        ({"choices": []}, "0 choices is no response"),
        ({"choices": [{}, {}]}, "2 choices is no response"),
        ({"choices": [7]}, "1 choices is no response"),
        ({"choices": [{"message": None}]}, "role None is no response: wanted a message of the assistant"),
        ({"choices": [{"message": {"role": "user"}}]}, "role 'user' is no response"),
        (completion(tool_calls={"a": 1}), "tool_calls of the response is no list of calls"),
        (completion(tool_calls=["a"]), "tool_calls of the response is no list of calls"),
        (completion(None), "the response has no finish reason: its stream ended too early"),
    ],
)
def test_what_is_no_whole_response_is_refused(response: Any, found: str) -> None:
    with pytest.raises(NotAResponse, match=found):
        API.check(response)


def test_a_whole_response_is_taken() -> None:
    API.check(completion(tool_calls=[call()]))


@pytest.mark.parametrize(
    ("response", "stop", "reason"),
    [
        (completion("stop"), "final", "stop"),
        (completion("tool_calls", tool_calls=[call()]), "calls", "tool_calls"),
        (completion("stop", tool_calls=[call()]), "calls", "stop"),
        (completion("function_call", tool_calls=[call()]), "calls", "function_call"),
        (completion("function_call", function_call={"name": "u"}), "refused",
         "function_call (a function_call of the old kind)"),
        (completion("stop", function_call={"name": "u"}), "refused", "stop (a function_call of the old kind)"),
        (completion("length", tool_calls=[call()]), "cut", "length"),
        (completion("content_filter", tool_calls=[call()]), "refused", "content_filter"),
        (completion("something_new", tool_calls=[call()]), "refused", "something_new"),
        (completion("stop", refusal="No."), "refused", "stop (refusal: No.)"),
    ],
)  # fmt: skip
def test_only_a_stop_that_asks_for_calls_runs_them(response: Any, stop: str, reason: str) -> None:
    assert (API.stop(response), API.reason(response)) == (stop, reason)


def test_calls_are_read_and_what_cannot_be_read_or_run_says_so() -> None:
    custom = {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select"}}
    made = API.calls(completion(tool_calls=[call(), custom, {}, call(arguments="{")]))
    problem = "this program runs function tools only, and this is a call of a custom tool"
    assert made[0] == ModelCall("c0", "u", {"n": 0})
    assert made[1] == ModelCall("c1", "sql", "select", problem=problem)
    assert made[2] == ModelCall("", "", None)
    assert (made[3].arguments, str(made[3].problem)[:29]) == ("{", "the arguments are no JSON (Ex")
    assert API.calls(completion(tool_calls=None)) == ()


@pytest.mark.parametrize(
    ("text", "arguments", "problem"),
    [
        ('{"a": 1.0, "a": 2}', {"a": 2}, None),
        ("", {}, None),
        (" \n", {}, None),
        ({"a": 1}, {"a": 1}, None),
        (None, None, None),
        ("NaN", "NaN", "the arguments are no JSON (JSON has no NaN): give one JSON object"),
        ("[" * 100_000, "[" * 100_000, "the arguments are no JSON (maximum recursion depth exceeded"),
    ],
)
def test_arguments_are_read_without_an_exception(text: Any, arguments: Any, problem: str | None) -> None:
    read, found = arguments_in(text)
    assert read == arguments
    assert found == problem if problem is None else str(found).startswith(problem)


def test_a_response_joins_as_its_message_verbatim() -> None:
    response = completion("tool_calls", content=None, tool_calls=[call(more={"x": None})], reasoning_content="hm")
    assert API.joins(response) == [response["choices"][0]["message"]]
    assert API.begun([*API.joins(response)]) == ""


@pytest.mark.parametrize(
    ("content", "text"),
    [("Hi.", "Hi."), (None, ""), ([{"type": "text", "text": "a"}, {"type": "x"}, {"type": "text", "text": "b"}], "ab")],
)
def test_the_text_of_an_answer_is_its_content(content: Any, text: str) -> None:
    assert API.text(completion(content=content)) == text


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        (None, Usage()),
        ({"prompt_tokens": 100, "completion_tokens": 7}, Usage(107, 100, 7, 0, 0)),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
            },
            Usage(107, 10, 7, 60, 30),
        ),
    ],
)
def test_prompt_tokens_hold_the_cached_ones(usage: Any, wanted: Usage) -> None:
    assert API.usage(completion(usage=usage)) == wanted


def source(kind: str, data: str, **more: Any) -> dict[str, Any]:
    return {"type": "base64", "media_type": kind, "data": data, **more}


IMAGE = {"type": "image", "source": source("image/png", "iVBO")}
PDF = {"type": "document", "source": source("application/pdf", "JVBE"), "title": "Plan"}
NOTE = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}, "title": "Note"}
BARE = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "bare"}}
LINK = {"type": "document", "source": {"type": "url", "url": "https://e.org/a.pdf"}}
ODD = {"type": "search_result", "title": "é"}


def test_each_result_is_a_message_that_says_itself_whether_it_is_an_error() -> None:
    results = API.results(
        [
            Answered("a", "fine", False),
            Answered("b", "boom", True),
            Answered("c", "Failed: boom", True),
            Answered("d", "", False),
            Answered("e", [{"type": "text", "text": "one"}, NOTE, BARE, LINK, ODD], False),
            Answered("f", "Denied: no", False),
        ]
    )
    assert [message["content"] for message in results] == [
        "fine",
        "Error: boom",
        "Failed: boom",
        "(empty)",
        'one\nNote\nwords\nbare\n(a document at https://e.org/a.pdf)\n{"type":"search_result","title":"é"}',
        "Denied: no",
    ]
    assert results[0] == {"role": "tool", "tool_call_id": "a", "content": "fine"}


def test_images_and_files_come_behind_all_results_and_are_no_words_of_the_users() -> None:
    first, second, shown = API.results([Answered("a", [IMAGE, PDF], False), Answered("b", "fine", False)])
    behind = "(shown in the message behind the results: a tool message holds text only)"
    assert first == {"role": "tool", "tool_call_id": "a", "content": f"{behind}\n{behind}"}
    assert second == {"role": "tool", "tool_call_id": "b", "content": "fine"}
    assert shown == {
        "role": "user",
        "content": [
            {"type": "text", "text": "From the result of call a, not from the user:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
            {"type": "file", "file": {"filename": "Plan.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
        ],
    }


def test_what_the_user_says_is_put_into_the_apis_parts() -> None:
    linked = {"type": "image", "source": {"type": "url", "url": "https://e.org/a.png"}}
    lost = {"type": "image", "source": {"type": "file", "file_id": "f"}}
    own = {"type": "input_audio", "input_audio": {}}
    assert API.say("Hi.") == [{"role": "user", "content": "Hi."}]
    (message,) = API.say([{"type": "text", "text": "Look"}, linked, lost, own, LINK, "bare"])
    assert message["content"] == [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": "https://e.org/a.png"}},
        lost,
        own,
        {"type": "text", "text": "(a document at https://e.org/a.pdf)"},
        "bare",
    ]


def test_a_request_holds_the_system_prompt_as_its_first_message() -> None:
    tools = API.tools([{"name": "u", "description": "does", "input_schema": {"type": "object"}}])
    function = {"name": "u", "description": "does", "parameters": {"type": "object"}}
    assert tools == [{"type": "function", "function": function}]
    said = API.say("Hi.")
    assert API.request(said, "Be brief.", tools, {"model": "m"}) == {
        "model": "m", "messages": [{"role": "system", "content": "Be brief."}, *said], "tools": tools,
    }  # fmt: skip
    assert API.request(said, None, [], {"model": "m"}) == {"model": "m", "messages": said}
    parts = [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}]
    assert API.request([], parts, [], {})["messages"] == [{"role": "system", "content": "Be\nbrief."}]
    odd = [{"type": "other"}]
    assert API.request([], odd, [], {})["messages"] == [{"role": "system", "content": odd}]


def test_whichever_limit_is_set_is_doubled_for_a_cut_answer() -> None:
    assert API.roomier({"max_tokens": 10, "max_completion_tokens": None}, 2) == {
        "max_tokens": 40, "max_completion_tokens": None,
    }  # fmt: skip
    assert API.roomier({"max_completion_tokens": 10}, 1) == {"max_completion_tokens": 20}
    assert API.roomier({"max_completion_tokens": 10}, 0) == {"max_completion_tokens": 10}
