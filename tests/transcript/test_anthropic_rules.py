"""What each further rule of Anthropic Messages takes for a fault, and what not."""

from __future__ import annotations

from typing import Any

import pytest

from midstride.transcript import check
from midstride.transcript.media import picture, piece
from transcript.writing import (
    GO,
    assistant,
    call,
    compaction,
    result,
    searched,
    searching,
    system,
    text,
    thinking,
    user,
)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mNQcEgAAAFEAME1cEXuAAAAAElFTkSuQmCC"
SHORT, LONG = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
ASK = assistant(call("a"))
MANUAL = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
CODE = {"type": "server_tool_use", "id": "srvtoolu_c", "name": "code_execution", "input": {}}
BY_CODE = call("p", caller={"type": "code_execution_20260120", "tool_id": "srvtoolu_c"})
DONE = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_c", "content": {}}


def encoded(data: bytes) -> str:
    import base64

    return base64.b64encode(data).decode()


def image(data: str, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def png(width: int, height: int) -> str:
    return encoded(
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08" * 20
    )


def document(cited: Any = None, **source: Any) -> dict[str, Any]:
    made = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"} | source}
    return made if cited is None else made | {"citations": {"enabled": cited}}


def hit(content: Any, cited: bool = False) -> dict[str, Any]:
    return {"type": "search_result", "source": "s", "title": "t", "content": content, "citations": {"enabled": cited}}


def marked(marker: Any = SHORT, **fields: Any) -> dict[str, Any]:
    return text() | {"cache_control": marker} | fields


def found(messages: list[Any], rule: str, request: Any = None, journal: Any = None) -> list[str]:
    """The places of one rule, with the level where it is not the rule's own: "2", "2 quality"."""
    every = check(messages, provider="anthropic", request=request, journal=journal)
    own = (
        "compat"
        if rule in ("G02", "A07", "A53")
        else "quality"
        if rule in ("A06", "A56")
        else "harness"
        if rule == "A55"
        else "reject"
    )
    return [f"{one.at}" if one.level == own else f"{one.at} {one.level}" for one in every if one.rule.startswith(rule)]


def sent(content: list[Any], at: int = 1, **more: Any) -> dict[str, Any]:
    return {f"assistant_{at}": {"content": content, **more}}


# ---- rules that the messages alone decide: rule, messages, places

PLAIN: list[tuple[str, list[Any], list[str]]] = [
    ("G02", [user(text("a\0b"))], ["0"]),
    ("G02", [user(text("a"))], []),
    ("G03", [GO, assistant(call("a", input={"n": float("nan")})), user(result("a"))], ["1"]),
    ("G03", [GO, assistant(call("a", input={"n": float("inf")})), user(result("a"))], ["1"]),
    ("G03", [GO, assistant(call("a", input={"n": 1e300})), user(result("a"))], []),
    ("G04", [{**GO, "id": 7}], ["0"]),
    ("G04", [user({**text(), "at": 1})], ["0"]),
    ("G04", [GO, {**assistant(text()), "model": "m"}, GO], ["1"]),
    ("G04", [GO, ASK, user(result("a", [{**text(), "at": 1}]))], ["2"]),
    ("G04", [GO, ASK, user(result("a", [{"type": "odd", "at": 1}]))], []),
    ("G04", [GO, assistant({**text(), "at": 1}), GO], []),
    ("G04", [system({"type": "tool_addition", "anything": 1})], []),
    ("A22", [GO, assistant({**text(), "at": 1}), GO], ["1"]),
    ("A22", [GO, assistant({**text(), "citations": [], "cache_control": SHORT}), GO], []),
    ("A22", [{**GO, "at": 1}], []),
    ("G06", [{"role": "robot", "content": "x"}], ["0"]),
    ("G06", [{"content": "x"}], ["0"]),
    ("G06", ["x"], ["0"]),
    ("G06", [user({"type": "odd"})], ["0"]),
    ("G06", [user("bare")], ["0"]),
    ("G06", [{"role": "user", "content": 7}], ["0"]),
    ("G06", [{"role": "user", "content": {"type": "text", "text": "x"}}], ["0"]),
    ("G06", [{"role": "user", "content": None}, {"role": "system", "content": "x"}], []),
    ("A06", [GO, assistant(call("a"), call("b")), user(result("a")), user(result("b"))], ["3"]),
    ("A06", [GO, assistant(call("a"), call("b")), user(result("a")), user(text())], []),
    ("A06", [GO, ASK, user(result("a")), user(result("z"))], []),
    ("A14", [GO, assistant(call("a.b")), user(result("a.b"))], ["1", "2"]),
    ("A14", [GO, assistant(call("")), user(result(None))], ["1", "2"]),
    ("A14", [GO, assistant(call("a-B_9")), user(result("a-B_9"))], []),
    ("A14", [user(call("a.b")), assistant(result("a.b"))], []),
    ("A16", [GO, assistant(call("a", name="")), user(result("a"))], ["1"]),
    ("A16", [GO, assistant(call("a", name="n" * 201)), user(result("a"))], ["1"]),
    ("A16", [GO, assistant(call("a", name=None)), user(result("a"))], ["1"]),
    ("A16", [GO, assistant(call("a", name="n" * 200)), user(result("a"))], []),
    ("A17", [GO, ASK, user(result("a", "", is_error=True))], ["2"]),
    ("A17", [GO, ASK, user(result("a", [], is_error=True))], ["2"]),
    ("A17", [GO, ASK, user(result("a", "", is_error=False))], []),
    ("A18", [GO, ASK, user(result("a", [text(), image(PNG)], is_error=True))], ["2"]),
    ("A18", [GO, ASK, user(result("a", [text()], is_error=True))], []),
    ("A19", [GO, ASK, user(result("a", 7))], ["2"]),
    ("A19", [GO, ASK, user(result("a", {"ok": 1}))], ["2"]),
    ("A19", [GO, ASK, user(result("a", ["bare"]))], ["2"]),
    ("A19", [GO, ASK, user(result("a", [{"type": "browser_state"}]))], ["2"]),
    ("A19", [GO, ASK, user(result("a", [text(), document(), hit([]), {"type": "tool_reference"}]))], []),
    ("A19", [GO, assistant(call("a", toolset_name="b")), user(result("a", [{"type": "browser_state"}]))], []),
    ("A19", [GO, ASK, user(result("a", [{"type": "browser_state"}] * 2, toolset_name="b"))], ["2"]),
    ("A20", [GO, assistant(document(), text()), GO], ["1"]),
    ("A20", [user(call("a"), thinking(), searched("s"))], ["0"]),
    ("A20", [GO, system(result("a"))], ["1"]),
    ("A20", [GO, system(searching("s"))], ["1"]),
    ("A20", [{"role": "robot", "content": [call("a")]}], []),
    ("A21", [system(text()), GO], ["0"]),
    ("A21", [GO, assistant(text()), system(text())], ["2"]),
    ("A21", [GO, system(text()), GO], ["1"]),
    ("A21", [GO, system(text()), system(text())], ["1", "2"]),
    ("A21", [GO, system(text()), assistant(text())], []),
    ("A21", [GO, assistant(searching("srvtoolu_1"), searched("srvtoolu_1")), system(text())], []),
    ("A25", [GO, assistant(thinking(signature=""), text())], ["1"]),
    ("A25", [GO, assistant({"type": "redacted_thinking", "data": "x"}, text())], []),
    ("A30", [GO, assistant(thinking() | {"cache_control": SHORT}, text())], ["1"]),
    ("A30", [GO, assistant({"type": "fallback", "cache_control": SHORT}, text())], ["1"]),
    ("A30", [user(text("") | {"cache_control": SHORT})], ["0"]),
    ("A30", [GO, assistant(text() | {"citations": [{"cache_control": SHORT}]})], ["1"]),
    ("A30", [user(marked()), assistant(thinking() | {"cache_control": None}, text() | {"citations": [7]})], []),
    ("A29", [user(*[marked()] * 5)], ["0"]),
    ("A29", [user(*[marked()] * 4), assistant(text())], []),
    ("A31", [user(marked(SHORT)), assistant(text()), user(marked(LONG))], ["2"]),
    ("A31", [user(marked(SHORT), marked(LONG))], ["0"]),
    ("A31", [user(marked(LONG), marked(SHORT))], []),
    ("A32", [GO, assistant(searching("srvtoolu_1")), GO], ["1"]),
    ("A32", [GO, assistant(searching("srvtoolu_1"), searching("srvtoolu_2")), GO], ["1"]),
    ("A32", [GO, assistant({"type": "mcp_tool_use", "id": "mcptoolu_1"}), GO], ["1"]),
    ("A32", [GO, assistant(searching("srvtoolu_1"), call("a")), user(result("a"))], []),
    ("A32", [GO, assistant(searching("srvtoolu_1"), searched("srvtoolu_1")), GO], []),
    (
        "A32",
        [GO, assistant(searching("srvtoolu_1"), call("a")), user(result("a")), assistant(searched("srvtoolu_1")), GO],
        [],
    ),
    ("A33", [GO, assistant(searched("srvtoolu_1")), GO], ["1"]),
    ("A33", [GO, assistant(searched("srvtoolu_1"), searching("srvtoolu_1")), GO], ["1"]),
    ("A33", [GO, assistant({"type": "web_search_tool_result"}), GO], ["1"]),
    ("A33", [user(searched("srvtoolu_1"))], []),
    ("A34", [GO, assistant(searching("srvtoolu_1")), user(result("srvtoolu_1"))], ["2"]),
    ("A34", [GO, assistant(searching("odd")), user(result("odd"))], ["2"]),
    ("A34", [GO, assistant(call("srvtoolu_1")), user(result("srvtoolu_1"))], []),
    ("A35", [GO, assistant(searching("srvtoolu_1"), call("a")), user(result("a"), text())], ["2"]),
    ("A35", [GO, assistant(searching("srvtoolu_1"), call("a")), user(result("a")), user(text())], ["3"]),
    ("A35", [GO, assistant(searching("srvtoolu_1")), GO], []),
    ("A38", [GO, assistant(CODE, BY_CODE), user(result("p"), text())], ["2"]),
    ("A38", [GO, assistant(CODE, BY_CODE), user(result("p", [image(PNG)]))], ["2"]),
    ("A38", [GO, assistant(CODE, BY_CODE), user(result("p"))], []),
    ("A38", [GO, assistant(CODE, DONE, BY_CODE), user(result("p"), text())], []),
    ("A32", [GO, assistant(CODE, BY_CODE), user(result("p"), text())], []),
    ("A35", [GO, assistant(CODE, BY_CODE), user(result("p"), text())], []),
    ("A40", [GO, assistant(call("a", toolset_name="b")), user(result("a"))], ["2"]),
    ("A40", [GO, assistant(call("a", toolset_name="b")), user(result("a", toolset_name="b"))], []),
    ("A41", [GO, ASK, user(result("a", [text(), hit([])]))], ["2"]),
    ("A41", [user(hit("words"))], ["0"]),
    ("A41", [GO, ASK, user(result("a", [hit([image(PNG)])]))], ["2"]),
    ("A41", [GO, ASK, user(result("a", [hit([text()]), hit([])]))], []),
    ("A42", [user(document(True), document())], ["0"]),
    ("A42", [user(document(False)), assistant(text()), user(hit([], cited=True))], ["2"]),
    ("A42", [user(document(True)), assistant(text()), user(hit([], cited=True))], []),
    ("A44", [user(image(PNG, "image/jpeg"))], ["0"]),
    ("A44", [user(image(""))], ["0"]),
    ("A44", [user(image("no base64!"))], ["0"]),
    ("A44", [user(image(encoded(b"BM" + b"\0" * 40)))], ["0"]),
    ("A44", [user(image(png(8001, 1)))], ["0"]),
    ("A44", [user(image(png(8000, 8000)))], []),
    ("A44", [user(image("A" * 10_485_761))], ["0"]),
    ("A44", [user(image(png(2001, 1)), *[image(PNG)] * 19)], []),
    ("A44", [user(image(png(2001, 1)), *[image(PNG)] * 20)], ["0"]),
    ("A44", [GO, ASK, user(result("a", [image(png(2001, 1))])), assistant(text()), user(*[image(PNG)] * 20)], ["2"]),
    ("A44", [user(*[image(PNG)] * 601)], ["0"]),
    ("A44", [user({"type": "image", "source": {"type": "url", "url": "u"}}), assistant(image(""))], []),
    ("A45", [user(document(type="base64", media_type="application/pdf", data=encoded(b"%PDF /Encrypt 5 0 R")))], ["0"]),
    ("A45", [user(document(type="base64", media_type="application/pdf", data=encoded(b"%PDF /Enc rypt")))], []),
    ("A46", [user(text("x" * 34_000_000))], ["0"]),
    ("A48", [GO, assistant(compaction(""), text()), GO], ["1"]),
    ("A48", [GO, assistant(compaction(None), text()), GO], []),
    ("A49", [GO, assistant(call("a"), {"type": "fallback"}, text()), user(result("a"))], ["1"]),
    ("A49", [GO, assistant(searching("srvtoolu_1"), {"type": "fallback"}, searched("srvtoolu_1"))], ["1"]),
    ("A49", [GO, assistant(searching("srvtoolu_1"), searched("srvtoolu_1"), {"type": "fallback"}, call("a"))], []),
    ("A58", [GO, assistant({"type": "thinking", "signature": "s"}, text())], ["1"]),
    ("A58", [GO, assistant(text(), thinking(), text())], []),
    ("A59", [GO, assistant(text(), thinking())], ["1"]),
    ("A59", [GO, assistant({"type": "redacted_thinking", "data": "x"}), GO], ["1"]),
    ("A59", [GO, assistant(thinking(), text())], []),
]


@pytest.mark.parametrize(("rule", "messages", "places"), PLAIN)
def test_a_rule_that_the_messages_decide(rule: str, messages: list[Any], places: list[str]) -> None:
    assert found(messages, rule) == places


# ---- rules that need facts: rule, messages, request, places

SAID = [GO, assistant(text()), GO]
OPEN = [GO, assistant(text(), call("a")), user(result("a"))]
THOUGHT = [GO, assistant(thinking(), call("a")), user(result("a"))]
SEARCH = [GO, assistant(searching("srvtoolu_1"))]
FILE = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
UPLOAD = {"type": "container_upload", "file_id": "file_1"}
REFERS = [GO, ASK, user(result("a", [{"type": "tool_reference", "tool_name": "t"}]))]
BETA = [
    GO,
    assistant({"type": "mcp_tool_use", "id": "mcptoolu_1"}, {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1"}),
]
CODED = [GO, assistant(CODE, BY_CODE), user(result("p"))]
LISTED = {
    "type": "tool_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {"tool_references": [{"type": "tool_reference", "tool_name": "t"}, 7]},
}

FACTS: list[tuple[str, list[Any], dict[str, Any], list[str]]] = [
    ("A07", [GO, GO], {}, []),
    ("A07", [GO, GO], {"profile": "odd"}, []),
    ("A07", [GO, GO], {"profile": ["strict"]}, []),
    ("A07", [GO, GO, assistant(text()), assistant(text())], {"profile": "strict-alternation"}, ["1", "3"]),
    ("A07", [GO, system(text()), GO], {"profile": "bedrock"}, []),
    ("A13", [GO, assistant(text("x "))], {"model_class": "prefill-capable"}, ["1"]),
    ("A13", [GO, assistant(text("x"))], {"model_class": "prefill-capable"}, []),
    ("A13", [GO, assistant(text("x "))], {}, []),
    ("A13", [GO, assistant(text("x "), call("a"))], {"model_class": "prefill-capable"}, []),
    ("A13", [GO, assistant(text("x "))], {"model_class": "manual-thinking", **MANUAL}, []),
    (
        "A13",
        [GO, assistant(text("x ")), assistant(call("a"))],
        {"model_class": "prefill-capable", "last_stop_reason": "max_tokens"},
        [],
    ),
    ("A21", [GO, system(text()), assistant(text()), GO], {"model_class": "manual-thinking"}, ["1"]),
    ("A21", [GO, system(text()), assistant(text()), GO], {"model_class": "system-role-supported"}, []),
    ("A21", [GO, system(text()), assistant(text()), GO], {"model_class": "no-prefill"}, []),
    ("A23", BETA, {"betas": []}, ["1"]),
    ("A23", BETA, {"betas": ["mcp-client-2024-01-01"]}, []),
    ("A23", BETA, {"betas": "mcp"}, []),
    ("A23", [GO, assistant(compaction(), text()), GO], {"betas": [3]}, ["1"]),
    ("A26", OPEN, MANUAL, ["1"]),
    ("A26", [GO, assistant(text())], MANUAL, ["1"]),
    ("A26", OPEN, {"thinking": {"type": "adaptive"}}, []),
    ("A26", SAID, MANUAL, []),
    ("A26", THOUGHT, MANUAL, []),
    ("A26", [*THOUGHT, assistant(call("b")), user(result("b"))], MANUAL, []),
    ("A28", SAID, {"model_class": "prefill-capable", "thinking": {"type": "adaptive"}}, ["0"]),
    ("A28", SAID, {"model_class": "manual-thinking", "thinking": {"type": "adaptive"}}, ["0"]),
    ("A28", SAID, {"model_class": "system-role-supported", **MANUAL}, ["0"]),
    ("A28", SAID, {"model_class": "no-prefill", **MANUAL}, []),
    ("A28", SAID, {"tool_choice": {"type": "any"}, **MANUAL}, ["0"]),
    ("A28", SAID, {"tool_choice": {"type": "auto"}, **MANUAL}, []),
    ("A28", SAID, {"model_class": [1], "tool_choice": {"type": "any"}}, []),
    ("A29", [user(*[marked()] * 3)], {"tools": [{"name": "t", "cache_control": SHORT}], "system": [marked()]}, ["0"]),
    ("A29", [GO], {"system": [marked()] * 5}, ["0"]),
    ("A29", [GO, assistant(text()), user(marked())], {"system": [marked()] * 4}, ["2"]),
    ("A30", [GO], {"tools": [{"name": "t", "defer_loading": True, "cache_control": SHORT}]}, ["0"]),
    ("A30", [GO], {"tools": [{"name": "t", "cache_control": SHORT}, "x"]}, []),
    ("A31", [GO, assistant(text()), user(marked(LONG))], {"system": [marked(SHORT)]}, ["2"]),
    ("A31", [GO], {"tools": [{"cache_control": SHORT}], "system": [marked(LONG)]}, ["0"]),
    ("A31", [user(marked(LONG))], {"system": [marked(LONG)]}, []),
    ("A36", SEARCH, {"tools": []}, ["1"]),
    ("A36", SEARCH, {"tools": [{"name": "web_search", "type": "web_search_20250305"}]}, []),
    ("A36", SEARCH, {}, []),
    ("A36", [GO, assistant(CODE | {"name": "bash_code_execution"})], {"tools": ["code_execution"]}, []),
    ("A36", [GO, assistant(CODE | {"name": None})], {"tools": ["x"]}, ["1"]),
    ("A36", [GO, assistant({"type": "mcp_tool_use", "id": "m", "name": "x"})], {"tools": []}, []),
    ("A38", CODED, {"container": None}, ["2"]),
    ("A38", CODED, {"container": "c"}, []),
    ("A38", CODED, {}, []),
    ("A38", OPEN, {"container": None}, []),
    ("A39", SAID, {"container": "c", "gone": ["c"]}, ["0"]),
    ("A39", SAID, {"container": "c", "gone": ["d"]}, []),
    ("A43", REFERS, {"tools": ["x"]}, ["2"]),
    ("A43", REFERS, {"tools": ["t"]}, []),
    ("A43", REFERS, {}, []),
    ("A43", [GO, assistant(searching("srvtoolu_1"), LISTED)], {"tools": ["web_search"]}, ["1"]),
    (
        "A43",
        [GO, system({"type": "tool_addition", "tool": {"type": "tool_reference", "tool_name": "t"}})],
        {"tools": ["x"]},
        ["1"],
    ),
    ("A47", SAID, {"input_tokens": 90, "max_tokens": 11, "context_window": 100}, ["0"]),
    ("A47", SAID, {"input_tokens": 90, "max_tokens": 10, "context_window": 100}, []),
    ("A47", SAID, {"input_tokens": True, "max_tokens": 10, "context_window": 1}, []),
    ("A53", OPEN, {"tools": []}, ["1"]),
    ("A53", SAID, {"tools": []}, []),
    ("A53", OPEN, {"tools": ["look"]}, []),
    ("A54", [user(FILE)], {"gone": ["file_1"]}, ["0"]),
    ("A54", [user(UPLOAD)], {"gone": ["file_1"]}, ["0"]),
    ("A54", [GO, ASK, user(result("a", [FILE]))], {"gone": ["file_1"]}, ["2"]),
    ("A54", [user(FILE)], {"gone": ["file_2"]}, []),
    ("A54", [user(UPLOAD), assistant(text()), GO], {"container": None}, ["0 quality"]),
    ("A54", [user(UPLOAD), ASK, user(result("a"))], {"container": None}, []),
    ("A54", [user(UPLOAD), assistant(text()), GO], {"container": "c"}, []),
    ("A55", [GO, assistant()], {"last_stop_reason": "end_turn"}, ["1"]),
    ("A55", [GO, assistant(), GO], {"last_stop_reason": "end_turn"}, []),
    ("A55", [GO, assistant(text())], {"last_stop_reason": "end_turn"}, []),
    ("A56", THOUGHT, {"thinking": {"type": "disabled"}}, ["1"]),
    ("A56", THOUGHT, {"thinking": {"type": "adaptive"}}, []),
    ("A56", OPEN, {"thinking": {"type": "disabled"}}, []),
    ("A57", SAID, {"tools": ["a", "b", "a"]}, ["0"]),
    ("A57", SAID, {"tools": ["a b"]}, ["0"]),
    ("A57", SAID, {"tools": [{"name": "n" * 65}]}, ["0"]),
    ("A57", SAID, {"tools": [{"name": "a", "defer_loading": True}]}, ["0"]),
    ("A57", SAID, {"tools": [{"name": "a", "defer_loading": True}, {"name": "b"}, {"type": "mcp_toolset"}]}, []),
    ("A58", [GO, assistant(text(), thinking(), text()), GO], MANUAL, ["1"]),
    ("A58", THOUGHT, MANUAL, []),
]


@pytest.mark.parametrize(("rule", "messages", "request_facts", "places"), FACTS)
def test_a_rule_that_facts_decide(
    rule: str, messages: list[Any], request_facts: dict[str, Any], places: list[str]
) -> None:
    assert found(messages, rule, request_facts) == places


# ---- rules that the journal decides: rule, content of message 1, content received, request, places

FALL = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
FOUND = searched("srvtoolu_1") | {"content": [{"type": "web_search_result", "encrypted_content": "e"}]}
CITED = text() | {"citations": [{"encrypted_index": "i"}]}
RAN = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_c", "content": {"encrypted_stdout": "o"}}
CUT = {**RAN, "content": {"encrypted_stdout": "..."}}
HID = {"type": "redacted_thinking", "data": "d"}
MORE = [assistant(call("z")), user(result("z"))]

JOURNAL: list[tuple[str, list[Any], list[Any], dict[str, Any], list[str]]] = [
    ("A24", [thinking("a"), text()], [thinking("b"), text()], {}, ["1"]),
    ("A24", [thinking("a"), text()], [thinking("a"), text()], {}, []),
    ("A24", [thinking("a") | {"cache_control": SHORT}, text()], [thinking("a"), text()], {}, []),
    ("A24", [text("t"), thinking("a"), call("q")], [thinking("a"), text("t"), call("q")], {}, ["1"]),
    ("A24", [thinking("a"), text("changed")], [thinking("a"), text("words")], {}, []),
    ("A24", [text()], [thinking("a"), text()], {}, ["1 quality"]),
    ("A24", [text(), call("q")], [thinking("a"), text(), call("q")], MANUAL, []),
    ("A24", [thinking("b"), FALL, text()], [thinking("a"), FALL, text()], {}, []),
    ("A24", [thinking("a"), text()], [thinking("b"), text()], {"model": "n"}, []),
    ("A37", [searching("srvtoolu_1"), FOUND, CITED], [searching("srvtoolu_1"), FOUND, CITED], {}, []),
    ("A37", [searching("srvtoolu_1"), searched("srvtoolu_1")], [searching("srvtoolu_1"), FOUND], {}, ["1"]),
    ("A37", [CITED], [text() | {"citations": [{"encrypted_index": "j"}]}], {}, ["1"]),
    ("A37", [text()], [searching("srvtoolu_1"), FOUND], {}, []),
    ("A48", [text()], [compaction(), text()], {}, ["1"]),
    ("A48", [compaction("other"), text()], [compaction(), text()], {}, ["1"]),
    ("A48", [compaction(), text()], [compaction(), text()], {}, []),
    ("A48", [text()], [compaction(None), text()], {}, []),
    ("A49", [text("a"), text("b")], [text("a"), FALL, text("b")], {}, ["1"]),
    ("A49", [text("a"), text("b"), FALL], [text("a"), FALL, text("b")], {}, ["1"]),
    ("A49", [text("a"), FALL, text("b")], [text("a"), FALL, text("b")], {}, []),
    ("A49", [text("a")], [text("b")], {}, []),
    ("G05", [CODE, CUT], [CODE, RAN], {}, ["1"]),
    ("G05", [CODE, RAN], [CODE, RAN], {}, []),
]


@pytest.mark.parametrize(("rule", "content", "received", "request_facts", "places"), JOURNAL)
def test_a_rule_that_the_journal_decides(
    rule: str, content: Any, received: Any, request_facts: Any, places: list[str]
) -> None:
    answers = [result(block["id"]) for block in content if block["type"] == "tool_use"]
    messages = [GO, assistant(*content), user(*answers) if answers else GO]
    assert found(messages, rule, request_facts, sent(received, model="m")) == places


@pytest.mark.parametrize(
    ("rule", "content", "received", "places"),
    [
        ("A24", [thinking("a"), text()], [thinking("b"), text()], []),
        ("A25", [thinking("a", "s"), text()], [thinking("a", "other"), text()], ["1"]),
        ("A25", [thinking("b", "s"), text()], [thinking("a", "s"), text()], []),
        ("A25", [text()], [thinking("a", "s"), text()], []),
        ("G05", [HID, text()], [HID | {"data": "other"}, text()], ["1"]),
        ("G05", [HID, text()], [HID, text()], []),
        ("G05", [text()], [HID, text()], []),
    ],
)
def test_of_older_messages_thinking_may_be_gone_but_not_changed(
    rule: str, content: Any, received: Any, places: list[str]
) -> None:
    assert found([GO, assistant(*content), GO, *MORE], rule, {}, sent(received)) == places


def test_thinking_of_another_model_is_foreign() -> None:
    journal = sent([thinking(), text()], model="m")
    messages = [GO, assistant(thinking(), text()), GO]
    assert found(messages, "A27", {"model": "n"}, journal) == ["1"]
    assert found(messages, "A27", {"model": "m"}, journal) == []
    assert found(messages, "A27", {}, journal) == []
    assert found(SAID, "A27", {"model": "n"}, journal) == []
    assert found(messages, "A27", {"model": "n"}, {"assistant_x": {}, "assistant_7": {"model": "m"}, 3: 4}) == []


def test_a_hundred_thousand_messages_are_the_most() -> None:
    from midstride.transcript.anthropic.history import History
    from midstride.transcript.anthropic.limits import too_large
    from midstride.transcript.facts import Facts

    assert list(too_large(History(count=100_000), Facts({}, {}))) == []
    assert len(list(too_large(History(count=100_001), Facts({}, {})))) == 1


# ---- pictures

JPEG = (
    b"\xff\xd8\xff\xe0\x00\x04xx"
    + b"\xff\xc0\x00\x11\x08"
    + (300).to_bytes(2, "big")
    + (400).to_bytes(2, "big")
    + b"\0" * 9
)
WEBP = b"RIFF\0\0\0\0WEBP"


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"GIF89a" + (5).to_bytes(2, "little") + (6).to_bytes(2, "little"), ("image/gif", 5, 6)),
        (JPEG, ("image/jpeg", 400, 300)),
        (b"\xff\xd8\xff\xe0\x00\x04", ("image/jpeg", 0, 0)),
        (b"\xff\xd8\xff" + b"\0" * 40, ("image/jpeg", 0, 0)),
        (WEBP + b"VP8X" + b"\0" * 8 + (9).to_bytes(3, "little") + (19).to_bytes(3, "little"), ("image/webp", 10, 20)),
        (WEBP + b"VP8L" + b"\0" * 5 + (4 | 7 << 14).to_bytes(4, "little"), ("image/webp", 5, 8)),
        (WEBP + b"VP8 " + b"\0" * 10 + (7).to_bytes(2, "little") + (9).to_bytes(2, "little"), ("image/webp", 7, 9)),
        (b"RIFF\0\0\0\0WAVE", None),
    ],
)
def test_a_picture_is_known_by_its_bytes(data: bytes, seen: Any) -> None:
    assert picture(encoded(data)) == seen


def test_a_jpeg_of_nothing_but_segments_ends_the_search() -> None:
    assert picture(encoded(b"\xff\xd8" + b"\xff\xe0\x00\x02" * 1100 + b"\0" * 9)) == ("image/jpeg", 0, 0)


def test_a_piece_of_base64_is_that_of_the_bytes() -> None:
    data = bytes(range(50))
    assert all(piece(encoded(data), a, b) == data[a:b] for a in range(50) for b in range(a, 50))
