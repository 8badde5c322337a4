"""What a repair makes of each kind of fault in lists for OpenAI, as literal messages."""

from __future__ import annotations

from typing import Any

import pytest

from midstride.transcript import repair, words
from transcript.test_openai_rules import (
    APPROVAL,
    ASKED,
    CHAINED,
    CHECKED,
    COMPACTED,
    DEEP,
    GEMINI,
    GO,
    LONGEST,
    NOTE,
    SAID,
    SHOT,
    SIGNED,
    STRICT,
    TRIGGER,
    asks,
    calls,
    function,
    message,
    output,
    reasoning,
    says,
    tool,
)

DONE = "[What is no text follows behind the results.]"
UNKNOWN = words.unknown("f({})")
FUNCTION = {"name": "f", "arguments": "{}"}
CUSTOM = {"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}
PICTURE = {"type": "image_url", "image_url": {"url": "u"}}


def part(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


CHAT: list[tuple[list[Any], dict[str, Any], list[Any]]] = [
    (
        [{"role": "human", "content": "x"}, {"role": "robot", "content": "y"}, "z"],
        {},
        [{"role": "user", "content": "x"}],
    ),
    ([GO, asks("a", "b")], {"request": {"last_stop_reason": "length"}}, [GO]),
    (
        [GO, asks("a", "b")],
        {"request": {"last_stop_reason": "length"}, "results": {"b": "ran"}},
        [GO, asks("b"), tool("b", "ran")],
    ),
    ([GO, says() | {"tool_calls": []}], {}, [GO, says()]),
    ([GO, says(None), GO], {}, [GO, GO]),
    ([GO, says(None)], {"journal": {"assistant_1": {"content": "was"}}}, [GO, says("was")]),
    ([GO, says({"x": 1})], {}, [GO, says('{"x": 1}')]),
    ([GO, says() | {"content": None, "tool_calls": "odd"}], {}, [GO, says("") | {"tool_calls": "odd"}]),
    ([GO, function(arguments={"a": 1}), tool("a")], {}, [GO, function(arguments='{"a": 1}'), tool("a")]),
    ([GO, function(arguments=None), tool("a")], {}, [GO, function(arguments="{}"), tool("a")]),
    (
        [GO, function(arguments="{"), tool("a")],
        {"request": STRICT},
        [GO, function(arguments='{"INVALID_JSON": "{"}'), tool("a")],
    ),
    ([GO, function(name="a b"), tool("a")], {}, [GO, function(name="a_b"), tool("a")]),
    ([GO, function(name=""), tool("a")], {}, [GO, function(name="unknown_tool"), tool("a")]),
    ([GO, asks("a") | {"tool_calls": [*asks("a")["tool_calls"], CUSTOM | {"id": "b"}, 7]}], {}, None),
    ([GO, asks("a"), GO], {}, [GO, asks("a"), tool("a", UNKNOWN), GO]),
    ([GO, asks("a"), says(), tool("a", "late")], {}, [GO, asks("a"), tool("a", "late"), says()]),
    ([GO, asks("a"), NOTE, GO, tool("a")], {}, [GO, asks("a"), tool("a"), NOTE, GO]),
    ([GO, tool("z"), asks("a"), tool("a")], {}, [GO, asks("a"), tool("a")]),
    ([GO, asks("a", "a"), tool("a")], {}, [GO, asks("a"), tool("a")]),
    (
        [GO, asks("a"), tool("a", "1"), asks("a"), tool("a", "2")],
        {},
        [GO, asks("a"), tool("a", "1"), asks("a_2"), tool("a_2", "2")],
    ),
    ([GO, asks("a"), tool("a", "1"), asks("a"), tool("a", "1"), GO], {}, [GO, asks("a"), tool("a", "1"), GO]),
    ([GO, asks("a"), tool("a", "Interrupted."), tool("a", "real")], {}, [GO, asks("a"), tool("a", "real")]),
    ([GO, asks("x" * 41), tool("x" * 41)], {}, [GO, asks("x" * 32), tool("x" * 32)]),
    (
        [GO, says(None) | {"tool_calls": [CUSTOM]}],
        {},
        [GO, says(None) | {"tool_calls": [CUSTOM]}, tool("a", words.unknown("f(x)"))],
    ),
    ([GO, asks("a")], {"results": {"a": {"b": 1}}}, [GO, asks("a"), tool("a", None)]),
    ([GO, asks("a")], {"results": {"a": [part("x")]}}, [GO, asks("a"), tool("a", [part("x")])]),
    ([GO, asks("a")], {"results": {"a": 7}}, [GO, asks("a"), tool("a", "7")]),
    ([GO, asks("a"), tool("a", None)], {}, [GO, asks("a"), tool("a", "(no output)")]),
    ([GO, asks("a"), tool("a", {"x": 1})], {}, [GO, asks("a"), tool("a", '{"x": 1}')]),
    (
        [GO, asks("a", "b"), tool("a", [part("x"), PICTURE]), tool("b"), GO],
        {},
        [GO, asks("a", "b"), tool("a", [part("x"), part(DONE)]), tool("b"), {"role": "user", "content": [PICTURE]}, GO],
    ),
    (
        [GO, asks("a"), tool("a", ["bare", {"type": "odd"}])],
        {},
        [GO, asks("a"), tool("a", [part("bare"), part('{"type": "odd"}')])],
    ),
    ([{"role": "user", "content": ["bare", {"type": "odd"}]}], {}, [{"role": "user", "content": [part("bare")]}]),
    ([{"role": "user", "content": []}, says(""), GO], {"request": STRICT}, [GO]),
    ([GO, asks("a") | {"content": []}, tool("a", "")], {"request": STRICT}, [GO, asks("a"), tool("a", "(no output)")]),
    (
        [GO, says()],
        {"request": DEEP, "journal": {"assistant_1": {"reasoning_content": "so"}}},
        [GO, says() | {"reasoning_content": "so"}],
    ),
    ([GO, says()], {"request": DEEP}, [GO, says() | {"reasoning_content": ""}]),
    ([GO, asks("a"), tool("a")], {"request": GEMINI}, [GO, asks("a"), tool("a")]),
    (
        [GO, asks("a") | {"extra_content": {"thought_signature": "x"}}, tool("a")],
        {"journal": {"assistant_1": SIGNED}},
        [GO, asks("a") | {"tool_calls": [asks("a")["tool_calls"][0] | SIGNED]}, tool("a")],
    ),
    (
        [GO, asks("a", "b") | {"tool_calls": [asks("a")["tool_calls"][0], {"type": "function", "function": FUNCTION}]}],
        {"results": {"a": "x"}},
        [
            GO,
            asks("a", "call"),
            tool("a", "x"),
            tool("call", UNKNOWN),
        ],
    ),
]
CHAT[24] = ([GO, asks("a")], {"results": {"a": {"content": "b"}}}, [GO, asks("a"), tool("a", "b")])


@pytest.mark.parametrize(("messages", "facts", "wanted"), CHAT)
def test_a_fault_in_chat_is_mended(messages: list[Any], facts: dict[str, Any], wanted: Any) -> None:
    made = repair(messages, provider="openai-chat", **facts)
    assert [one for one in made.findings if one.level == "reject"] == []
    assert wanted is None or made.messages == wanted


def test_a_signature_goes_back_to_the_first_call() -> None:
    journal = {"assistant_1": SIGNED}
    [_, made, _] = repair([GO, asks("a"), tool("a")], provider="openai-chat", request=GEMINI, journal=journal).messages
    assert made["tool_calls"][0]["extra_content"] == SIGNED["extra_content"]
    made["tool_calls"][0]["extra_content"] = {"thought_signature": "other"}
    odd = made | {"extra_content": {"thought_signature": "other"}, "tool_calls": "odd"}
    [_, again] = repair([GO, odd], provider="openai-chat", journal=journal).messages
    assert again["extra_content"] == SIGNED["extra_content"]
    [_, again, _] = repair([GO, made, tool("a")], provider="openai-chat", journal=journal).messages
    assert again["tool_calls"][0]["extra_content"] == SIGNED["extra_content"]


def test_a_string_that_is_too_long_is_cut_and_says_so() -> None:
    long = {"role": "user", "content": "x" * (LONGEST + 1)}
    [made] = repair([long], provider="openai-chat").messages
    assert len(made["content"]) == LONGEST
    assert made["content"].endswith("... [cut here: it was longer than is taken]")
    made = repair([ASKED, calls("a"), output("a", "x" * (LONGEST + 1))], provider="openai-responses").messages[2]
    assert len(made["output"]) == LONGEST


# ---- Responses

KNOWN = {"responses": [{"id": "resp_1", "output": [reasoning("rs_1"), calls("a", id="fc_1")]}]}
BARE = {"responses": [{"id": "resp_1", "output": [reasoning("rs_1", None), calls("a", id="fc_1")]}]}
KEPT = {"responses": [{"id": "resp_1", "output": [COMPACTED, SAID | {"id": "msg_2"}]}]}
SHELL = {"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}}
PATCH = {"type": "apply_patch_call", "call_id": "a", "operation": {"type": "delete_file"}}
REFERENCE = {"type": "item_reference", "id": "fc_1"}


PROGRAM = {"type": "program", "id": "prog_1", "fingerprint": "f"}
OTHER = PROGRAM | {"fingerprint": "x"}


def said(words: str, role: str = "user") -> dict[str, Any]:
    return message(role, [{"type": "output_text" if role == "assistant" else "input_text", "text": words}])


RESPONSES: list[tuple[list[Any], dict[str, Any], list[Any]]] = [
    ([message("human"), {"type": "odd"}, 7], {}, [message("user")]),
    ([ASKED, calls("a", id="call_1"), output("a")], {}, [ASKED, calls("a"), output("a")]),
    ([ASKED, {"type": "item_reference", "id": "x y"}], {}, [ASKED]),
    ([ASKED, SAID | {"id": "msg_1"}, SAID | {"id": "msg_1"}], {}, [ASKED, SAID | {"id": "msg_1"}]),
    (
        [ASKED, SAID | {"id": "msg_1"}, message("assistant", "other", id="msg_1")],
        {},
        [ASKED, SAID | {"id": "msg_1"}, message("assistant", "other")],
    ),
    ([ASKED, calls("a", id="fc_1"), output("a")], {"request": CHAINED, "journal": KNOWN}, [ASKED, output("a")]),
    ([ASKED, calls("a", status="incomplete")], {}, [ASKED]),
    ([ASKED, calls("a", status="incomplete"), output("a")], {}, [ASKED, calls("a", status="incomplete"), output("a")]),
    ([ASKED, calls("a", arguments={"b": 1}), output("a")], {}, [ASKED, calls("a", arguments='{"b": 1}'), output("a")]),
    ([ASKED, calls("a", arguments=None), output("a")], {}, [ASKED, calls("a", arguments="{}"), output("a")]),
    ([message(content=[{"type": "text", "text": "x"}])], {}, [said("x")]),
    ([message(content=["bare"])], {}, [said("bare")]),
    (
        [message("assistant", [{"type": "input_text", "text": "x"}, {"type": "refusal"}])],
        {},
        [message("assistant", [{"type": "output_text", "text": "x"}, {"type": "refusal"}])],
    ),
    ([message(content=[{"type": "refusal", "refusal": "No."}])], {}, [said("No.")]),
    ([message(content=[{"type": "odd"}])], {}, [said('{"type": "odd"}')]),
    (
        [ASKED, calls("a"), output("a", [{"type": "text", "text": "x"}])],
        {},
        [ASKED, calls("a"), output("a", [{"type": "input_text", "text": "x"}])],
    ),
    ([ASKED, calls("a"), output("a", None)], {}, [ASKED, calls("a"), output("a", "(no output)")]),
    ([ASKED, calls("a"), output("a", {"b": 1})], {}, [ASKED, calls("a"), output("a", '{"b": 1}')]),
    # pairing
    ([ASKED, calls("a"), ASKED], {}, [ASKED, calls("a"), output("a", UNKNOWN), ASKED]),
    ([ASKED, output("a"), calls("a")], {}, [ASKED, calls("a"), output("a")]),
    ([ASKED, output("a")], {}, [ASKED]),
    ([ASKED, output("a")], {"journal": KNOWN}, [ASKED, reasoning("rs_1"), calls("a", id="fc_1"), output("a")]),
    (
        [ASKED, calls(""), calls(""), output("", "L"), output("", "R")],
        {},
        [ASKED, calls("call"), calls("call_2"), output("call", "L"), output("call_2", "R")],
    ),
    ([ASKED, calls("x" * 65), output("x" * 65)], {}, [ASKED, calls("x" * 56), output("x" * 56)]),
    (
        [ASKED, calls("x" * 65), calls("x" * 65), output("x" * 65)],
        {},
        [ASKED, calls("x" * 56), calls("x" * 56), output("x" * 56)],
    ),
    ([ASKED, calls("a"), output("a", "No result"), output("a", "real")], {}, [ASKED, calls("a"), output("a", "real")]),
    ([ASKED, calls("a"), output("a", "1"), output("a", "2")], {}, [ASKED, calls("a"), output("a", "1")]),
    ([ASKED], {"request": CHAINED, "journal": KNOWN}, [output("a", UNKNOWN), ASKED]),
    (
        [ASKED, output("b"), output("b"), calls("c")],
        {"request": {"conversation": "c"}},
        [ASKED, output("b"), calls("c"), output("c", UNKNOWN)],
    ),
    (
        [ASKED, SHELL],
        {},
        [
            ASKED,
            SHELL,
            {
                "type": "shell_call_output",
                "call_id": "a",
                "output": [
                    {
                        "stdout": "",
                        "stderr": words.unknown('shell_call({"commands": ["ls"]})'),
                        "outcome": {"type": "timeout"},
                    }
                ],
            },
        ],
    ),
    (
        [ASKED, SHELL],
        {"results": {"a": [{"stdout": "x"}]}},
        [ASKED, SHELL, {"type": "shell_call_output", "call_id": "a", "output": [{"stdout": "x"}]}],
    ),
    (
        [ASKED, PATCH],
        {"results": {"a": "ok"}},
        [ASKED, PATCH, {"type": "apply_patch_call_output", "call_id": "a", "status": "completed", "output": "ok"}],
    ),
    (
        [ASKED, {"type": "local_shell_call", "call_id": "a"}],
        {"results": {"a": 7}},
        [ASKED, {"type": "local_shell_call", "call_id": "a"}, output("a", "7", "local_shell_call_output")],
    ),
    (
        [ASKED, {"type": "computer_call", "call_id": "a"}],
        {"results": {"a": {"content": SHOT["output"]}}},
        [ASKED, {"type": "computer_call", "call_id": "a"}, SHOT],
    ),
    ([ASKED, calls("a"), output("a", kind="custom_tool_call_output")], {}, [ASKED, calls("a"), output("a")]),
    (
        [ASKED, SHELL, output("a", "x")],
        {},
        [
            ASKED,
            SHELL,
            {
                "type": "shell_call_output",
                "call_id": "a",
                "output": [{"stdout": "x", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
            },
        ],
    ),
    (
        [ASKED, PATCH, output("a", ["x"])],
        {},
        [ASKED, PATCH, {"type": "apply_patch_call_output", "call_id": "a", "output": '["x"]', "status": "completed"}],
    ),
    (
        [ASKED, {"type": "computer_call", "call_id": "a"}, output("a", SHOT["output"])],
        {},
        [ASKED, {"type": "computer_call", "call_id": "a"}, SHOT],
    ),
    ([ASKED, APPROVAL, output("mcpr_1")], {}, [ASKED, APPROVAL]),
    ([ASKED, {"type": "mcp_approval_response"}], {}, [ASKED]),
    (
        [ASKED, calls("a"), ASKED, calls("b"), output("a"), output("b")],
        {"request": STRICT},
        [ASKED, calls("a"), output("a"), ASKED, calls("b"), output("b")],
    ),
    (
        [ASKED, calls("a"), calls("a"), output("a", "1"), output("a", "2")],
        {},
        [ASKED, calls("a"), calls("a_2"), output("a", "1"), output("a_2", "2")],
    ),
    (
        [ASKED, calls("a"), calls("a"), output("a", "1"), output("a", "1")],
        {},
        [ASKED, calls("a"), calls("a"), output("a", "1")],
    ),
    # state
    ([ASKED, reasoning("rs_1"), ASKED], {}, [ASKED, ASKED]),
    (
        [ASKED, reasoning("rs_1", "..."), calls("a", id="fc_1"), output("a")],
        {"journal": KNOWN},
        [ASKED, reasoning("rs_1"), calls("a", id="fc_1"), output("a")],
    ),
    (
        [ASKED, calls("a", id="fc_1"), output("a")],
        {"journal": KNOWN},
        [ASKED, reasoning("rs_1"), calls("a", id="fc_1"), output("a")],
    ),
    ([ASKED, calls("a", id="fc_1"), output("a")], {"journal": BARE}, [ASKED, calls("a"), output("a")]),
    ([ASKED, REFERENCE, output("a")], {"journal": BARE, "request": {"store": False}}, [ASKED, calls("a"), output("a")]),
    ([ASKED, {"type": "item_reference", "id": "msg_1"}], {"request": {"store": False}}, [ASKED]),
    ([ASKED, reasoning("rs_9", None), SAID], {"request": {"store": False}}, [ASKED, SAID]),
    (
        [ASKED, {"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1"}, SAID],
        {"request": {"gone": ["cntr_1"]}},
        [ASKED, SAID],
    ),
    ([TRIGGER, ASKED], {}, [ASKED, TRIGGER]),
    ([TRIGGER, TRIGGER], {}, [TRIGGER]),
    (
        [ASKED, calls("a", id="fc_1"), {"type": "program", "id": "prog_1", "fingerprint": "x"}, output("a")],
        {"journal": {"responses": [{"id": "r", "output": [{"type": "program", "id": "prog_1", "fingerprint": "f"}]}]}},
        [ASKED, calls("a", id="fc_1"), {"type": "program", "id": "prog_1", "fingerprint": "f"}, output("a")],
    ),
    ([SAID | {"id": "msg_2"}, ASKED], {"journal": KEPT}, [COMPACTED, SAID | {"id": "msg_2"}, ASKED]),
    ([COMPACTED | {"encrypted_content": "x" * 20_971_521}, ASKED], {}, [ASKED]),
    (
        [COMPACTED | {"encrypted_content": "..."}, SAID | {"id": "msg_2"}],
        {"journal": KEPT},
        [COMPACTED, SAID | {"id": "msg_2"}],
    ),
    ([ASKED, SAID | {"id": "msg_2"}, COMPACTED], {"journal": KEPT}, [ASKED, COMPACTED, SAID | {"id": "msg_2"}]),
]


@pytest.mark.parametrize(("items", "facts", "wanted"), RESPONSES)
def test_a_fault_in_responses_is_mended(items: list[Any], facts: dict[str, Any], wanted: list[Any]) -> None:
    made = repair(items, provider="openai-responses", **facts)
    assert made.messages == wanted
    assert [one for one in made.findings if one.level == "reject"] == []


@pytest.mark.parametrize(
    ("items", "facts", "left"),
    [
        ([ASKED, CHECKED, SHOT], {}, "R16"),
        ([ASKED, {"type": "computer_call", "call_id": "a"}], {}, "R01"),
        ([ASKED, {"type": "computer_call", "call_id": "a"}], {"results": {"a": "words"}}, "R01"),
        ([ASKED], {"request": {"previous_response_id": "r", "gone": ["r"]}}, "R06"),
        ([ASKED], {"request": {"previous_response_id": "r", "conversation": "c"}}, "R11"),
    ],
)
def test_what_a_person_or_the_program_must_mend_is_left(items: list[Any], facts: dict[str, Any], left: str) -> None:
    made = repair(items, provider="openai-responses", **facts)
    assert [one.rule[:3] for one in made.findings] == [left]
    assert made.messages is items


def test_the_id_of_a_local_shells_output_becomes_its_call_id() -> None:
    call = {"type": "local_shell_call", "call_id": "a b", "id": "lsh_1"}
    answer = {"type": "local_shell_call_output", "id": "a b", "output": "x"}
    made = repair([ASKED, call, answer], provider="openai-responses")
    assert made.messages[2]["call_id"] == "a b"
    twice = [ASKED, SAID | {"id": "msg_1"}, {"type": "local_shell_call", "call_id": "msg_1"}, answer | {"id": "msg_1"}]
    assert repair(twice, provider="openai-responses").messages[3]["call_id"] == "msg_1"


def test_an_empty_id_that_is_answered_stays_as_it_was_taken() -> None:
    ask = {"role": "assistant", "content": None, "tool_calls": [{"id": "", "type": "function", "function": FUNCTION}]}
    answer = {"role": "tool", "tool_call_id": "", "content": "done"}
    messages = [{"role": "user", "content": "x"}, ask, answer, {"role": "user", "content": "y"}]
    made = repair([*messages, {"role": "tool", "content": "of no call"}], provider="openai-chat").messages
    assert made == messages
    assert made[1] is ask
