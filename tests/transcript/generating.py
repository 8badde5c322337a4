"""Whole transcripts of every provider, and what can happen to them: made from any source of choices.

A source of choices is a `random.Random`, or what Hypothesis and a fuzzer give in its place. Every call and every result
bears a mark of its own, so that a test can ask whether one was lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

Json = Any
PROVIDERS = ("anthropic", "openai-chat", "openai-responses")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mNQcEgAAAFEAME1cEXuAAAAAElFTkSuQmCC"

# ---- whole ones


def transcript(random: Random, provider: str) -> tuple[list[Json], dict[str, Json], dict[str, Json]]:
    """Make a valid list of messages, facts of its request, and its journal."""
    return {"anthropic": _anthropic, "openai-chat": _chat, "openai-responses": _responses}[provider](random)


def _anthropic(random: Random) -> tuple[list[Json], dict[str, Json], dict[str, Json]]:
    messages: list[Json] = [{"role": "user", "content": "Begin."}]
    journal: dict[str, Json] = {}
    for turn in range(random.randint(0, 4)):
        thinks = random.random() < 0.5
        content: list[Json] = []
        if thinks:
            content.append({"type": "thinking", "thinking": "", "signature": f"sig-{turn}"})
        if random.random() < 0.3:
            content += _searched(turn)
        calls = [_call(turn, index) for index in range(random.randint(0, 3))]
        if not calls or random.random() < 0.5:
            content.append({"type": "text", "text": f"Turn {turn}."})
        content += calls
        if random.random() < 0.5:
            journal[f"assistant_{len(messages)}"] = {"content": json.loads(json.dumps(content)), "model": "m"}
        messages.append({"role": "assistant", "content": content})
        answers: list[Json] = [_result(random, call) for call in calls]
        if not calls or random.random() < 0.3:
            answers.append({"type": "text", "text": "Go on."})
        messages.append({"role": "user", "content": answers})
    return messages, {}, journal


def _call(turn: int, index: int) -> Json:
    return {"type": "tool_use", "id": f"toolu_{turn}_{index}", "name": "act", "input": {"mark": f"call-{turn}-{index}"}}


def _result(random: Random, call: Json) -> Json:
    words = call["input"]["mark"].replace("call", "result")
    content = [words, [{"type": "text", "text": words}], [{"type": "text", "text": words}, _picture()]]
    return {"type": "tool_result", "tool_use_id": call["id"], "content": random.choice(content)}


def _picture() -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


def _searched(turn: int) -> list[Json]:
    one = f"srvtoolu_{turn}"
    found = {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": f"enc-{turn}"}
    return [
        {"type": "server_tool_use", "id": one, "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": one, "content": [found]},
    ]


def _chat(random: Random) -> tuple[list[Json], dict[str, Json], dict[str, Json]]:
    messages: list[Json] = [{"role": "system", "content": "Help."}, {"role": "user", "content": "Begin."}]
    journal: dict[str, Json] = {}
    for turn in range(random.randint(0, 4)):
        calls = [_chat_call(turn, index) for index in range(random.randint(0, 3))]
        message: dict[str, Json] = {"role": "assistant", "content": f"Turn {turn}."}
        if calls:
            message = {"role": "assistant", "content": random.choice([None, "Calling."]), "tool_calls": calls}
        if random.random() < 0.4:
            journal[f"assistant_{len(messages)}"] = {"content": message["content"], "reasoning_content": "so"}
        messages.append(message)
        answers = [
            {"role": "tool", "tool_call_id": call["id"], "content": f"result-{turn}-{index}"}
            for index, call in enumerate(calls)
        ]
        random.shuffle(answers)
        messages += answers
        if not calls or random.random() < 0.3:
            messages.append({"role": "user", "content": "Go on."})
    return messages, {}, journal


def _chat_call(turn: int, index: int) -> Json:
    arguments = json.dumps({"mark": f"call-{turn}-{index}"})
    return {"id": f"call_{turn}_{index}", "type": "function", "function": {"name": "act", "arguments": arguments}}


def _responses(random: Random) -> tuple[list[Json], dict[str, Json], dict[str, Json]]:
    items: list[Json] = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Begin."}]}]
    responses = []
    for turn in range(random.randint(0, 4)):
        output: list[Json] = []
        if random.random() < 0.5:
            output.append({"type": "reasoning", "id": f"rs_{turn}", "summary": [], "encrypted_content": f"enc-{turn}"})
        calls = [_item_call(random, turn, index) for index in range(random.randint(0, 3))]
        if not calls or random.random() < 0.3:
            said = {"type": "output_text", "text": f"Turn {turn}.", "annotations": []}
            output.append({"type": "message", "role": "assistant", "id": f"msg_{turn}", "content": [said]})
        output += calls
        if random.random() < 0.5:
            responses.append({"id": f"resp_{turn}", "output": json.loads(json.dumps(output))})
        items += output
        items += [_item_output(call, f"result-{turn}-{index}") for index, call in enumerate(calls)]
        if not calls or random.random() < 0.3:
            items.append({"role": "user", "content": "Go on."})
    return items, {}, {"responses": responses}


def _item_call(random: Random, turn: int, index: int) -> Json:
    call = {"call_id": f"call_{turn}_{index}", "id": f"fc_{turn}_{index}", "name": "act"}
    arguments = json.dumps({"mark": f"call-{turn}-{index}"})
    if random.random() < 0.2:
        return {"type": "custom_tool_call", **call, "id": f"ctc_{turn}_{index}", "input": arguments}
    if random.random() < 0.1:
        return {"type": "shell_call", "call_id": call["call_id"], "action": {"commands": [arguments]}}
    return {"type": "function_call", **call, "arguments": arguments}


def _item_output(call: Json, words: str) -> Json:
    output = [{"stdout": words, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    shaped: Json = output if call["type"] == "shell_call" else words
    return {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": shaped}


# ---- what can happen to them

ODD = [
    None,
    "",
    " ",
    "\n",
    0,
    7,
    True,
    1.5,
    [],
    {},
    "x",
    "\ud800",
    "a\0b",
    float("inf"),
    "a.b:c",
    "y" * 70,
    ["x"],
    {"a": 1},
]
ROLES = ["user", "assistant", "system", "tool", "developer", "ai", "human", "robot", ""]
KINDS = [
    *("text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"),
    *("web_search_tool_result", "compaction", "fallback", "container_upload", "mcp_tool_use", "search_result", "odd"),
    *("input_text", "output_text", "image_url", "function_call", "function_call_output", "custom_tool_call_output"),
    *("reasoning", "item_reference", "computer_call", "message", "shell_call", "local_shell_call_output"),
    *("compaction_trigger", "mcp_approval_response", "apply_patch_call", "tool_reference", "browser_state"),
]
FIELDS = [
    *("content", "role", "type", "id", "tool_use_id", "call_id", "tool_call_id", "input", "arguments", "is_error"),
    *("signature", "thinking", "name", "extra", "cache_control", "toolset_name", "caller", "output", "tool_calls"),
    *("status", "encrypted_content", "source", "citations", "data", "file_id", "reasoning_content", "text", "function"),
]
CACHE = {"type": "ephemeral", "ttl": "1h"}
CODE = {"type": "code_execution_20260120", "tool_id": "srvtoolu_0"}


def mutated(random: Random, messages: list[Json]) -> list[Json]:
    """Let something happen to a list of messages; the list given stays as it is."""
    made: list[Json] = json.loads(json.dumps(messages))
    for _ in range(random.choice([1, 1, 1, 2, 3, 5, 8])):
        random.choice(MUTATIONS)(random, made)
    return made


def _rows(messages: list[Json]) -> list[list[Json]]:
    """Return every list inside: of messages, blocks, parts, calls."""
    found: list[list[Json]] = [messages]
    for message in messages:
        for inner in message.values() if isinstance(message, dict) else ():
            if isinstance(inner, list):
                found.append(inner)
                found += [
                    one["content"] for one in inner if isinstance(one, dict) and isinstance(one.get("content"), list)
                ]
    return found


def _objects(messages: list[Json]) -> list[dict[str, Json]]:
    found, waiting = [], list(messages)
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            found.append(one)
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return found


def _place(random: Random, messages: list[Json]) -> tuple[list[Json], int] | None:
    rows = [row for row in _rows(messages) if row]
    row = random.choice(rows) if rows else None
    return None if row is None else (row, random.randint(0, len(row) - 1))


def _drop(random: Random, messages: list[Json]) -> None:
    if (place := _place(random, messages)) is not None:
        del place[0][place[1]]


def _repeat(random: Random, messages: list[Json]) -> None:
    if (place := _place(random, messages)) is not None:
        row, at = place
        row.insert(random.randint(at, len(row)), json.loads(json.dumps(row[at])))


def _move(random: Random, messages: list[Json]) -> None:
    if (place := _place(random, messages)) is not None:
        one = place[0].pop(place[1])
        row = random.choice(_rows(messages))
        row.insert(random.randint(0, len(row)), one)


def _swap(random: Random, messages: list[Json]) -> None:
    if (place := _place(random, messages)) is not None:
        row, at = place
        other = random.randint(0, len(row) - 1)
        row[at], row[other] = row[other], row[at]


def _cut(random: Random, messages: list[Json]) -> None:
    del messages[random.randint(0, len(messages)) :]


def _behead(random: Random, messages: list[Json]) -> None:
    del messages[: random.randint(0, len(messages))]


def _set(random: Random, messages: list[Json]) -> None:
    objects = _objects(messages)
    if objects:
        one = random.choice(objects)
        name = random.choice([*one, random.choice(FIELDS)])
        values = [*ODD, random.choice(KINDS), random.choice(ROLES), CACHE, {"type": "ephemeral"}, CODE]
        one[name] = json.loads(json.dumps(random.choice(values)))


def _unset(random: Random, messages: list[Json]) -> None:
    objects = [one for one in _objects(messages) if one]
    if objects:
        one = random.choice(objects)
        del one[random.choice(list(one))]


def _retype(random: Random, messages: list[Json]) -> None:
    objects = [one for one in _objects(messages) if "type" in one]
    if objects:
        random.choice(objects)["type"] = random.choice(KINDS)


def _reassign(random: Random, messages: list[Json]) -> None:
    message = random.choice(messages) if messages else None
    if isinstance(message, dict):
        message["role"] = random.choice(ROLES)


def _rename(random: Random, messages: list[Json]) -> None:
    names = ("id", "tool_use_id", "call_id", "tool_call_id")
    found = [(one, name) for one in _objects(messages) for name in names if name in one]
    if found:
        one, name = random.choice(found)
        other, its = random.choice(found)
        one[name] = random.choice([other[its], "a.b", "", "z" * 65, "srvtoolu_9", "fresh"])


def _say(random: Random, messages: list[Json]) -> None:
    role = random.choice(ROLES)
    content = random.choice(
        ["Say.", "", [], [{"type": "text", "text": "Say."}], None, [{"type": "input_text", "text": "x"}]]
    )
    message = random.choice([{"role": role, "content": content}, {"type": "message", "role": role, "content": content}])
    messages.insert(random.randint(0, len(messages)), message)


def _junk(random: Random, messages: list[Json]) -> None:
    row = random.choice(_rows(messages))
    row.insert(random.randint(0, len(row)), json.loads(json.dumps(random.choice(ODD))))


MUTATIONS: list[Callable[[Random, list[Json]], None]] = [
    *(_drop, _drop, _repeat, _repeat, _move, _move, _swap, _cut, _behead),
    *(_set, _set, _unset, _retype, _reassign, _rename, _rename, _say, _junk),
]

REQUESTS: dict[str, list[Json]] = {
    "profile": ["strict", "strict-alternation", "bedrock", "deepseek-thinking", "gemini-3", "odd", None],
    "model": ["m", "n", None],
    "model_class": ["prefill-capable", "manual-thinking", "no-prefill", "system-role-supported", 3],
    "thinking": [{"type": "enabled"}, {"type": "adaptive"}, {"type": "disabled"}, "on"],
    "tool_choice": [{"type": "any"}, {"type": "auto"}],
    "tools": [
        [],
        ["act"],
        ["act", "web_search"],
        ["act", "act"],
        [{"name": "act", "cache_control": {"type": "ephemeral"}}],
        4,
    ],
    "system": [[{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}] * n for n in (1, 4, 5)],
    "betas": [[], ["mcp-client-2025-11-20"], ["compact-2026-01-12", "server-side-fallback-2026-06-01"], "x"],
    "container": [None, "c1"],
    "gone": [["c1", "srvtoolu_0", "rs_0", "resp_0"], ["file_1"], "x"],
    "last_stop_reason": ["end_turn", "max_tokens", "pause_turn", "refusal", "length", "tool_use", None, "odd"],
    "input_tokens": [10, "x"],
    "max_tokens": [10],
    "context_window": [15, 100],
    "store": [True, False],
    "previous_response_id": ["resp_0", "resp_9"],
    "conversation": ["conv_1"],
}


def facts(random: Random) -> dict[str, Json]:
    """Make facts of a request."""
    names = random.sample(sorted(REQUESTS), random.choice([0, 0, 1, 1, 2, 3, 6]))
    return {name: random.choice(REQUESTS[name]) for name in names}


def recorded(random: Random) -> dict[str, Json]:
    """Make recorded results for some calls."""
    ids = [f"{kind}_{turn}_{index}" for kind in ("toolu", "call") for turn in range(4) for index in range(3)]
    values = [
        "recorded",
        {"content": "recorded", "is_error": True},
        {"state": "not started"},
        {"state": "denied"},
        3,
        {},
    ]
    return {one: random.choice(values) for one in random.sample(ids, random.choice([0, 0, 3, 12]))}
