"""How the Anthropic Messages API writes what the journal needs to know."""

from __future__ import annotations

from typing import Any

import pytest

from core.making import answer, text, use
from midstride.core.apis import Answered, AnthropicMessages, Usage, api_named
from midstride.errors import DeclarationError, NotAResponse

API = AnthropicMessages()


@pytest.mark.parametrize(
    ("response", "found"),
    [
        ("text", "str is no response: wanted a message of the Messages API"),
        ({"role": "user", "content": []}, "role 'user', content list is no response"),
        ({"role": "assistant", "content": "x"}, "role 'assistant', content str is no response"),
        ({"role": "assistant", "content": ["x"], "stop_reason": "end_turn"}, "a content block of the response is no object"),  # noqa: E501
        ({"role": "assistant", "content": [], "stop_reason": None}, "the response has no stop reason"),
        ({"role": "assistant", "content": []}, "the response has no stop reason"),
    ],
)  # fmt: skip
def test_what_is_no_whole_response_is_refused(response: Any, found: str) -> None:
    with pytest.raises(NotAResponse, match=found):
        API.check(response)


def test_a_whole_response_is_taken() -> None:
    API.check(answer("end_turn", text("Hi.")))


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("tool_use", "calls"), ("end_turn", "final"), ("stop_sequence", "final"), ("pause_turn", "paused"),
        ("compaction", "paused"), ("max_tokens", "cut"), ("model_context_window_exceeded", "cut"),
        ("refusal", "refused"), ("something_new", "refused"),
    ],
)  # fmt: skip
def test_only_a_stop_for_tool_use_runs_tools(reason: str, stop: str) -> None:
    assert API.stop(answer(reason, use(0, "u"))) == stop


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, "refusal"), ({"stop_details": None}, "refusal"), ({"stop_details": {}}, "refusal"),
        ({"stop_details": {"category": "cyber"}}, "refusal (cyber)"),
    ],
)  # fmt: skip
def test_a_reason_is_told_with_its_category(more: dict[str, Any], reason: str) -> None:
    assert API.reason(answer("refusal", **more)) == reason


def test_only_client_calls_are_ours_to_answer() -> None:
    blocks = [text("x"), {"type": "server_tool_use", "id": "s"}, {"type": "tool_use", "toolset_name": "browser"}]
    first, second = API.calls(answer("tool_use", *blocks, use(3, "u")))
    assert (first.id, first.name, first.arguments, first.echo) == ("", "", None, {"toolset_name": "browser"})
    assert (second.id, second.name, second.arguments, second.echo) == ("t3", "u", {"n": 3}, {})


def test_a_result_gives_the_toolset_its_name_back() -> None:
    (message,) = API.results([Answered("t0", "x", True, {"toolset_name": "browser"}), Answered("t1", [], False)])
    assert message == {
        "role": "user",
        "content": [
            {
                "type": "tool_result", "tool_use_id": "t0", "content": "x", "toolset_name": "browser",
                "is_error": True,
            },
            {"type": "tool_result", "tool_use_id": "t1", "content": []},
        ],
    }  # fmt: skip


def test_the_text_of_an_answer_is_its_text_blocks_joined() -> None:
    blocks = [text("One. "), {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": None}, text("Two.")]
    assert API.text(answer("end_turn", *blocks)) == "One. Two."


def test_a_response_that_was_taken_over_may_hold_the_short_form() -> None:
    response = {"role": "assistant", "content": "Done.", "stop_reason": "end_turn"}
    assert (API.text(response), API.calls(response)) == ("Done.", ())
    assert API.joins(response) == [{"role": "assistant", "content": "Done."}]


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        (None, Usage()),
        ({"input_tokens": 1, "output_tokens": None}, Usage(1, 1, 0, 0, 0)),
        (
            {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 400},
            Usage(433, 1, 2, 30, 400),
        ),
        ({"input_tokens": 1, "output_tokens": 2, "iterations": [None]}, Usage(3, 1, 2)),
        ({"input_tokens": 1, "output_tokens": 2, "iterations": None}, Usage(3, 1, 2)),
    ],
)
def test_the_window_counts_what_was_cached_too(usage: Any, wanted: Usage) -> None:
    assert API.usage(answer("end_turn", usage=usage)) == wanted


def sample(kind: str, *counts: int) -> dict[str, Any]:
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return {"type": kind, **dict(zip(names, counts, strict=False))}


SEARCHED = (sample("message", 10, 5, 0, 100), sample("message", 20, 7, 100, 0))
ADVISED, SHRUNK, SERVED = (
    sample("advisor_message", 40, 2),
    sample("compaction", 900, 50),
    sample("fallback_message", 8, 1),
)


@pytest.mark.parametrize(
    ("iterations", "wanted"),
    [
        (SEARCHED, Usage(127, 30, 12, 100, 100)),
        ((SHRUNK, *SEARCHED), Usage(127, 930, 62, 100, 100)),
        ((*SEARCHED, SHRUNK), Usage(127, 930, 62, 100, 100)),
        ((*SEARCHED, ADVISED), Usage(127, 70, 14, 100, 100)),
        ((*SEARCHED, SERVED), Usage(9, 38, 13, 100, 100)),
        ((SHRUNK,), Usage(42, 900, 50)),
    ],
    ids=[
        "a server's tool",
        "compacted",
        "compacted at its end",
        "advised",
        "served by another model",
        "only compacted",
    ],
)
def test_what_the_server_sampled_is_all_billed_and_the_window_is_the_last_answers(
    iterations: tuple[Any, ...], wanted: Usage
) -> None:
    usage = {**sample("", 30, 12), "iterations": list(iterations)}
    assert API.usage(answer("end_turn", usage=usage)) == wanted
    assert wanted.total == wanted.input + wanted.output + wanted.cache_read + wanted.cache_write


@pytest.mark.parametrize(("cuts", "tokens"), [(0, 100), (1, 200), (2, 400)])
def test_a_cut_answer_gets_twice_the_room(cuts: int, tokens: int) -> None:
    assert API.roomier({"max_tokens": 100, "model": "m"}, cuts) == {"max_tokens": tokens, "model": "m"}
    assert API.roomier({"model": "m"}, cuts) == {"model": "m"}


def test_an_api_is_found_by_its_name() -> None:
    assert api_named("anthropic").name == "anthropic"
    with pytest.raises(DeclarationError, match="there is no api 'x'; there are: anthropic"):
        api_named("x")


def test_a_request_holds_system_and_tools_where_the_run_has_them() -> None:
    definition = {"name": "u", "description": "does", "input_schema": {"type": "object"}}
    tools, said = API.tools([definition]), API.say("Hi.")
    whole = {"model": "m", "messages": said, "system": "Be brief.", "tools": [definition]}
    assert API.request(said, "Be brief.", tools, {"model": "m"}) == whole
    assert API.request(said, None, [], {"model": "m"}) == {"model": "m", "messages": said}


def test_an_answer_goes_on_from_what_the_assistant_had_begun() -> None:
    begun = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "One. "}]
    assert API.begun([*begun, {"role": "assistant", "content": [text("Two. ")]}]) == "One. Two. "
