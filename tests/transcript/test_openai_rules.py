"""What each rule of OpenAI Chat Completions and Responses takes for a fault, and what not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midstride.transcript import check

LONGEST = 10_485_760
GO = {"role": "user", "content": "Go."}


def asks(*ids: Any, **fields: Any) -> dict[str, Any]:
    calls = [{"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls} | fields


def function(**fields: Any) -> dict[str, Any]:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"} | fields}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def tool(one: Any, content: Any = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": one, "content": content}


def says(content: Any = "words") -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def places(provider: str, messages: Any, rule: str, request: Any = None, journal: Any = None) -> list[str]:
    every = check(messages, provider=provider, request=request, journal=journal)
    return [f"{one.at}" for one in every if one.rule.startswith(rule)]


NOTE = {"role": "developer", "content": "Hurry."}
ROBOT = {"role": "robot", "content": "x"}
SIGNED = {"extra_content": {"google": {"thought_signature": "s"}}}
STRICT, DEEP, GEMINI = {"profile": "strict"}, {"profile": "deepseek-thinking"}, {"profile": "gemini-3"}

CHAT: list[tuple[str, list[Any], dict[str, Any], list[str]]] = [
    ("C01", [GO, asks("a", "b"), tool("a")], {}, ["1"]),
    ("C01", [GO, asks("a"), GO, asks("b"), tool("b")], {}, ["1"]),
    ("C01", [GO, asks("a"), says(), tool("a")], {}, ["1"]),
    ("C01", [GO, asks("a"), GO, tool("a")], {}, []),
    ("C01", [GO, asks("a"), ROBOT, tool("a")], {}, []),
    ("C01", [GO, asks(7), says()], {}, ["1"]),
    ("C02", [tool("a"), GO], {}, ["0"]),
    ("C02", [GO, asks("a"), tool("a"), tool("b")], {}, ["3"]),
    ("C02", [GO, asks("a"), tool("a"), tool(None)], {}, ["3"]),
    ("C02", [GO, {"role": "assistant", "content": "x", "tool_calls": ["odd", None]}, GO], {}, []),
    ("C03", [GO, asks("a", "a"), tool("a")], {}, ["1"]),
    ("C03", [GO, asks("a"), tool("a"), asks("a"), tool("a")], {}, ["3", "4"]),
    ("C04", [GO, asks("a", "b"), tool("a"), GO, NOTE, tool("b")], {}, ["3"]),
    ("C04", [GO, asks("a"), tool("a"), GO], {}, []),
    ("C05", [GO, asks("x" * 41), tool("x" * 41)], {}, ["1", "2"]),
    ("C05", [GO, asks("x" * 40), tool("x" * 40)], {}, []),
    ("C06", [GO, says() | {"tool_calls": []}], {}, ["1"]),
    ("C06", [GO, says() | {"tool_calls": None}], {}, []),
    ("C07", [GO, says(None)], {}, ["1"]),
    ("C07", [GO, {"role": "assistant"}], {}, ["1"]),
    ("C07", [GO, says({"text": "x"})], {}, ["1"]),
    ("C07", [GO, asks("a") | {"content": 7}, tool("a")], {}, ["1"]),
    ("C07", [GO, asks("a"), tool("a"), says(""), says([])], {}, []),
    ("C07", [GO, says(None) | {"refusal": "No."}], {}, []),
    ("C08", [GO, function(arguments={"a": 1}), tool("a")], {}, ["1"]),
    ("C08", [GO, function(arguments=None), tool("a")], {}, ["1"]),
    (
        "C08",
        [
            GO,
            says() | {"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}]},
            tool("a"),
        ],
        {},
        [],
    ),
    ("C09", [GO, function(arguments="{"), tool("a")], {}, ["1"]),
    ("C09", [GO, function(arguments='{"n": NaN}'), tool("a")], {}, ["1"]),
    ("C09", [GO, function(arguments="[]"), tool("a")], {}, ["1"]),
    ("C09", [GO, function(arguments="[" * 100_000), tool("a")], {}, ["1"]),
    ("C10", [GO, function(name="a b"), tool("a")], {}, ["1"]),
    ("C10", [GO, function(name=None), tool("a")], {}, ["1"]),
    ("C10", [GO, function(name="x" * 65), tool("a")], {}, ["1"]),
    ("C11", [GO, asks("a"), tool("a", None)], {}, ["2"]),
    ("C11", [GO, asks("a"), tool("a", [{"type": "image_url"}])], {}, ["2"]),
    ("C11", [GO, asks("a"), tool("a", [{"type": "text", "text": "x"}])], {}, []),
    ("C12", [ROBOT, {"content": "x"}, "x", {"role": "function", "content": "x"}], {}, ["0", "1", "2"]),
    ("G06", [{"role": "user", "content": [{"type": "odd"}]}, says([{"type": "image_url"}])], {}, ["0", "1"]),
    ("G06", [{"role": "user", "content": [{"type": "image_url"}]}, says([{"type": "refusal"}])], {}, []),
    ("C13", [GO, asks("a")], {"last_stop_reason": "length"}, ["1"]),
    ("C13", [GO, says("cut")], {"last_stop_reason": "length"}, []),
    ("C13", [GO, asks("a"), tool("a")], {"last_stop_reason": "length"}, []),
    ("C01", [GO, asks("b"), asks("a")], {"last_stop_reason": "length"}, ["1"]),
    ("C14", [{"role": "user", "content": "x" * (LONGEST + 1)}], {}, ["0"]),
    ("C14", [{"role": "user", "content": "x" * LONGEST}], {}, []),
    ("C15", [GO, says(), GO, asks("a"), tool("a"), says() | {"reasoning_content": ""}], DEEP, ["3"]),
    ("C15", [GO, says()], STRICT, []),
    ("C15", [GO, says(), asks("a")], {"last_stop_reason": "length", **DEEP}, ["1"]),
    ("C15", [GO, says()], {}, []),
    ("C16", [GO, asks("a"), tool("a"), asks("b") | SIGNED, tool("b")], GEMINI, ["1"]),
    ("C16", [GO, asks("a"), tool("a")], STRICT, []),
    ("C16", [GO, asks("a"), tool("a")], {}, []),
    ("C17", [{"role": "user", "content": []}, says(""), GO], {}, ["0", "1"]),
    ("C17", [GO, asks("a") | {"content": ""}, tool("a")], {}, []),
    ("G01", [GO, function(arguments="\ud800"), tool("a")], {}, ["1"]),
    ("G02", [GO, asks("a"), tool("a", "\0")], {}, ["2"]),
]


@pytest.mark.parametrize(("rule", "messages", "request_facts", "wanted"), CHAT)
def test_a_rule_of_chat(rule: str, messages: list[Any], request_facts: dict[str, Any], wanted: list[str]) -> None:
    assert places("openai-chat", messages, rule, request_facts) == wanted


def test_a_strict_target_misses_what_was_received() -> None:
    journal = {"assistant_1": {"reasoning_content": "so", **SIGNED}}
    messages = [GO, asks("a"), tool("a")]
    assert places("openai-chat", messages, "C15", STRICT, journal) == ["1"]
    assert places("openai-chat", messages, "C16", STRICT, journal) == ["1"]


def test_a_thought_signature_is_compared() -> None:
    journal = {"assistant_1": SIGNED}
    other = {"extra_content": {"thought_signature": "t"}}
    assert places("openai-chat", [GO, asks("a") | other, tool("a")], "G05", {}, journal) == ["1"]
    assert places("openai-chat", [GO, asks("a") | SIGNED, tool("a")], "G05", {}, journal) == []
    assert places("openai-chat", [GO, asks("a"), tool("a")], "G05", {}, journal) == []


# ---- Responses


def message(role: str = "user", content: Any = "Go.", **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content} | fields


def calls(one: Any, kind: str = "function_call", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": one, "name": "f", "arguments": "{}"} | fields


def output(one: Any, words: Any = "done", kind: str = "function_call_output", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": one, "output": words} | fields


def reasoning(one: Any, content: Any = "e") -> dict[str, Any]:
    return {"type": "reasoning", "id": one, "summary": [], "encrypted_content": content}


ASKED = message()
SAID = message("assistant", [{"type": "output_text", "text": "x"}])
CHECKED = {"type": "computer_call", "call_id": "a", "pending_safety_checks": [{"id": "s"}, {}]}
SHOT = output("a", {"type": "computer_screenshot"}, "computer_call_output")
APPROVAL = {"type": "mcp_approval_request", "id": "mcpr_1"}
INTERPRETER = {"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1"}
COMPACTED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "c"}
TRIGGER = {"type": "compaction_trigger"}
CHAINED = {"previous_response_id": "resp_1"}

RESPONSES: list[tuple[str, list[Any], dict[str, Any], list[str]]] = [
    ("R01", [ASKED, calls("a"), calls("b"), output("b")], {}, ["1"]),
    ("R01", [ASKED, output("a"), calls("a")], {}, ["2"]),
    ("R02", [ASKED, output("a"), calls("a")], {}, ["1"]),
    ("R01", [ASKED, calls("a"), calls("a"), output("a")], {}, []),
    (
        "R01",
        [ASKED, calls("a", "local_shell_call"), {"type": "local_shell_call_output", "id": "a", "output": ""}],
        {},
        [],
    ),
    ("R02", [ASKED, output("a")], {}, ["1"]),
    ("R02", [ASKED, {"type": "item_reference", "id": "fc_1"}, output("a")], {}, []),
    ("R02", [ASKED, output("a")], CHAINED, []),
    ("R02", [ASKED, output("a")], {"conversation": "c"}, []),
    ("R03", [ASKED, reasoning("rs_1")], {}, ["1"]),
    ("R03", [ASKED, reasoning("rs_1"), reasoning(None), ASKED], {}, ["1", "2"]),
    ("R03", [ASKED, reasoning("rs_1"), reasoning("rs_2"), calls("a"), output("a")], {}, []),
    ("R03", [ASKED, reasoning("rs_1"), SAID], {}, []),
    ("R05", [ASKED, SAID | {"id": "msg_1"}, SAID | {"id": "msg_1"}], {}, ["2"]),
    ("R06", [ASKED, {"type": "item_reference", "id": "fc_1"}], {"store": False}, ["1"]),
    ("R06", [ASKED, reasoning("rs_1", None), SAID], {"store": False}, ["1"]),
    ("R06", [ASKED, reasoning("rs_1", None), SAID], {"gone": ["rs_1"]}, ["1"]),
    ("R06", [ASKED, reasoning("rs_1", None), SAID], {}, []),
    ("R06", [ASKED, reasoning("rs_1"), SAID], {"store": False}, []),
    ("R06", [ASKED], {"previous_response_id": "resp_1", "gone": ["resp_1"]}, ["0"]),
    ("R08", [ASKED, calls(""), output("x" * 65), calls(None)], {}, ["1", "2", "3"]),
    ("R08", [ASKED, calls("x" * 64), output("x" * 64)], {}, []),
    ("R09", [ASKED, calls("a", id="call_1"), output("a", id="x y")], {}, ["1", "2"]),
    ("R09", [ASKED, calls("a", id=7), output("a", id="x" * 65)], {}, ["1", "2"]),
    ("R09", [ASKED, calls("a", id=None), output("a", id="any_1"), {"type": "odd", "id": "x y"}], {}, []),
    ("R10", [ASKED, calls("a"), output("a", None)], {}, ["2"]),
    ("R10", [ASKED, calls("a"), output("a", "x" * (LONGEST + 1))], {}, ["2"]),
    ("R10", [ASKED, calls("a"), output("a", [{"type": "text"}])], {}, ["2"]),
    ("R10", [ASKED, calls("a"), output("a", [{"type": "input_image"}])], {}, []),
    ("R11", [ASKED], {"previous_response_id": "r", "conversation": "c"}, ["0"]),
    ("R11", [ASKED], {"conversation": "c"}, []),
    ("R12", [ASKED, calls("a", status="incomplete"), output("a")], {}, ["1"]),
    ("R12", [ASKED, calls("a", status="completed"), output("a")], {}, []),
    ("R14", [ASKED, calls("a"), output("a"), output("a")], {}, ["3"]),
    ("R15", [COMPACTED | {"encrypted_content": "x" * 20_971_521}, ASKED], {}, ["0"]),
    ("R15", [TRIGGER, ASKED], {}, ["0"]),
    ("R15", [ASKED, TRIGGER], {}, []),
    ("R16", [ASKED, calls("a"), output("a", kind="custom_tool_call_output")], {}, ["2"]),
    ("R01", [ASKED, calls("a"), output("a", kind="custom_tool_call_output")], {}, []),
    ("R02", [ASKED, calls("a"), output("a", kind="custom_tool_call_output")], {}, []),
    ("R16", [ASKED, CHECKED, SHOT], {}, ["2"]),
    ("R16", [ASKED, CHECKED, SHOT | {"acknowledged_safety_checks": [{"id": "s"}]}], {}, ["2"]),
    (
        "R16",
        [
            ASKED,
            CHECKED | {"pending_safety_checks": [{"id": "s"}]},
            SHOT | {"acknowledged_safety_checks": [{"id": "s"}]},
        ],
        {},
        [],
    ),
    ("R16", [ASKED, CHECKED | {"pending_safety_checks": None}, SHOT], {}, []),
    ("R16", [ASKED, APPROVAL, output("mcpr_1")], {}, ["2"]),
    ("R02", [ASKED, APPROVAL, output("mcpr_1")], {}, []),
    ("R16", [ASKED, {"type": "mcp_approval_response", "approval_request_id": "mcpr_1"}], {}, ["1"]),
    ("R16", [ASKED, {"type": "mcp_approval_response", "approval_request_id": "mcpr_1"}], CHAINED, []),
    ("R16", [ASKED, APPROVAL, {"type": "mcp_approval_response", "approval_request_id": "mcpr_1"}], {}, []),
    ("R17", [ASKED, INTERPRETER, SAID], {"gone": ["cntr_1"]}, ["1"]),
    ("R17", [ASKED, INTERPRETER, SAID], {"gone": ["cntr_2"]}, []),
    ("R19", [ASKED, calls("a"), ASKED, SAID, output("a")], {}, ["2"]),
    ("R19", [ASKED, calls("a"), calls("b"), output("b"), output("a")], {}, []),
    (
        "R20",
        [message(content=[{"type": "output_text"}]), message("assistant", [{"type": "input_text"}, 7])],
        {},
        ["0", "1"],
    ),
    ("R20", [message(content=[{"type": "input_file"}]), SAID, message("assistant", [{"type": "refusal"}])], {}, []),
    ("R21", [ASKED, calls("a", arguments={}), output("a")], {}, ["1"]),
    (
        "R21",
        [ASKED, calls("a", "custom_tool_call", arguments=None), output("a", kind="custom_tool_call_output")],
        {},
        [],
    ),
    (
        "G06",
        [{"role": "user", "content": "x"}, {"type": "odd"}, 7, message("robot"), message(7)],
        {},
        ["1", "2", "3", "4"],
    ),
    ("G01", [ASKED, calls("a"), output("a", "\ud800")], {}, ["2"]),
]


@pytest.mark.parametrize(("rule", "items", "request_facts", "wanted"), RESPONSES)
def test_a_rule_of_responses(rule: str, items: list[Any], request_facts: dict[str, Any], wanted: list[str]) -> None:
    assert places("openai-responses", items, rule, request_facts) == wanted


RESPONSE = {
    "id": "resp_1",
    "output": [reasoning("rs_1"), calls("a", id="fc_1"), SAID | {"id": "msg_1", "phase": "final"}],
}
KEPT: list[tuple[str, list[Any], dict[str, Any], list[str]]] = [
    ("R01", [ASKED], CHAINED, ["0"]),
    ("R13", [ASKED], CHAINED, ["0"]),
    ("R01", [output("a")], CHAINED, []),
    ("R02", [output("a")], CHAINED, []),
    ("R02", [output("b")], CHAINED, ["0"]),
    ("R02", [{"type": "item_reference", "id": "fc_1"}, output("a")], {}, []),
    ("R13", [ASKED], {"previous_response_id": "resp_2"}, []),
    ("R04", [ASKED, calls("a", id="fc_1"), output("a")], {}, ["1"]),
    ("R04", [ASKED, reasoning("rs_1"), calls("a", id="fc_1"), output("a")], {}, []),
    ("R04", [ASKED, calls("a", id="fc_1"), output("a"), reasoning("rs_1"), SAID], {}, ["1"]),
    ("R04", [ASKED, calls("a"), output("a")], {}, []),
    ("R07", [ASKED, reasoning("rs_1", "other"), calls("a", id="fc_1"), output("a")], {}, ["1"]),
    ("R07", [ASKED, reasoning("rs_1", None), calls("a", id="fc_1"), output("a")], {}, []),
    ("R11", [calls("a", id="fc_1"), output("a")], CHAINED, ["0"]),
    ("R18", [ASKED, reasoning("rs_1"), SAID | {"id": "msg_1"}], {}, ["2"]),
    ("R18", [ASKED, reasoning("rs_1"), SAID | {"id": "msg_1", "phase": "final"}], {}, []),
    ("G05", [ASKED, {"type": "program", "id": "prog_1", "fingerprint": "x"}], {}, ["1"]),
]


@pytest.mark.parametrize(("rule", "items", "request_facts", "wanted"), KEPT)
def test_a_rule_about_what_was_received(rule: str, items: Any, request_facts: Any, wanted: list[str]) -> None:
    program = {
        "id": "resp_0",
        "output": [{"type": "program", "id": "prog_1", "fingerprint": "f"}, {"type": "odd", "id": "x"}],
    }
    journal = {"responses": [program, RESPONSE, {"id": 7, "output": [7]}, "odd"]}
    assert places("openai-responses", items, rule, request_facts, json.loads(json.dumps(journal))) == wanted


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        ([COMPACTED, SAID | {"id": "msg_2"}], []),
        ([SAID | {"id": "msg_2"}], ["0"]),
        ([ASKED, SAID | {"id": "msg_2"}, COMPACTED], ["1"]),
        ([COMPACTED | {"encrypted_content": "..."}, SAID | {"id": "msg_2"}], ["0"]),
        ([ASKED], []),
    ],
)
def test_a_compaction_item_is_kept_in_its_place(items: list[Any], wanted: list[str]) -> None:
    journal = {"responses": [{"id": "resp_1", "output": [COMPACTED, SAID | {"id": "msg_2"}, {"type": "odd"}]}]}
    assert places("openai-responses", items, "R15", {}, journal) == wanted
    assert places("openai-responses", items[:1], "R15", CHAINED, {"responses": []}) == []
