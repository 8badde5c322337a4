"""What OpenAI's two APIs refuse in a request: a second opinion, as `fake_validator` is for the Messages API.

Written apart from `midstride.transcript` on purpose; it shares no code with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .fake_validator import Refusal, parsed

Faults = Iterator[str]
Body = dict[str, Any]

STRING_MAX = 10_485_760
NAME = re.compile("[a-zA-Z0-9_-]{1,64}")
ROLES = ("system", "developer", "user", "assistant", "tool")


def bearer_missing(headers: Mapping[str, str]) -> Refusal | None:
    """The refusal of a request without a key."""
    if headers.get("authorization", "").startswith("Bearer "):
        return None
    return Refusal("You didn't provide an API key.", "invalid_request_error", 401)


def chat_refusal(raw: bytes) -> Refusal | None:
    """The first fault of a request to Chat Completions."""
    return _first(raw, _chat_faults)


def responses_refusal(raw: bytes) -> Refusal | None:
    """The first fault of a request to Responses."""
    return _first(raw, _responses_faults)


def _first(raw: bytes, faults: Any) -> Refusal | None:
    try:
        body = parsed(raw)
    except (ValueError, RecursionError) as error:
        return Refusal(f"We could not parse the JSON body of your request. ({error})")
    fault = next(faults(body), None)
    return None if fault is None else Refusal(fault)


def _shared_faults(body: Body, listed: str) -> Faults:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "you must provide a model parameter"
    if not isinstance(body.get("stream") or False, bool):
        yield "Invalid type for 'stream': expected a boolean."
    if not isinstance(body.get(listed), list):
        yield f"Missing required parameter: '{listed}'."
    for place, one in enumerate(body[listed]):
        if not isinstance(one, dict):
            yield f"Invalid type for '{listed}[{place}]': expected an object."
        if any(len(text) > STRING_MAX for text in _strings(one)):
            yield f"Invalid '{listed}[{place}]': string too long. Expected a string with maximum length {STRING_MAX}."


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _tool_faults(where: str, function: Any) -> Faults:
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        yield f"Missing required parameter: '{where}.name'."
    if NAME.fullmatch(function["name"]) is None:
        yield f"Invalid '{where}.name': string does not match pattern."
    schema = function.get("parameters")
    if schema is not None and (not isinstance(schema, dict) or schema.get("type") != "object"):
        yield f"Invalid schema for function '{function['name']}': schema must be a JSON Schema of 'type: \"object\"'."


# ---- Chat Completions


def _chat_faults(body: Body) -> Faults:
    yield from _shared_faults(body, "messages")
    for place, tool in enumerate(body.get("tools") or ()):
        if tool.get("type") == "function":
            yield from _tool_faults(f"tools[{place}].function", tool.get("function"))
    if body.get("tools") == []:
        yield "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
    for place, message in enumerate(body["messages"]):
        yield from _message_faults(f"messages[{place}]", message)
    yield from _chat_pairing(body["messages"])


def _message_faults(where: str, message: Body) -> Faults:
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        yield f"Invalid value: '{role}'. Supported values are: {', '.join(repr(one) for one in ROLES)}."
    if content is None and not (role == "assistant" and (message.get("tool_calls") or message.get("refusal"))):
        yield f"Invalid value for 'content': expected a string, got null. ({where})"
    if not isinstance(content, str | list | None):
        yield f"Invalid type for '{where}.content': expected one of a string or array of objects."
    kinds = {"tool": {"text"}, "assistant": {"text", "refusal"}, "user": {"text", "image_url", "file", "input_audio"}}
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict) or part.get("type") not in kinds.get(str(role), {"text"}):
            yield f"Invalid '{where}.content': a message of role {role} holds no such part."
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield f"Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'. ({where})"
    yield from _calls_faults(where, message.get("tool_calls"))


def _calls_faults(where: str, calls: Any) -> Faults:
    if calls is None:
        return
    if not isinstance(calls, list) or not calls:
        yield f"Invalid '{where}.tool_calls': empty array. Expected an array with minimum length 1."
    for place, call in enumerate(calls):
        at = f"{where}.tool_calls[{place}]"
        if not isinstance(call, dict) or not isinstance(call.get("id"), str):
            yield f"Missing required parameter: '{at}.id'."
        if "index" in call:
            yield f"Unknown parameter: '{at}.index'."
        if len(call["id"]) > 40:
            yield f"Invalid '{at}.id': string too long. Expected a string with maximum length 40."
        if call.get("type") == "function":
            yield from _function_faults(at, call.get("function"))


def _function_faults(at: str, function: Any) -> Faults:
    if not isinstance(function, dict) or NAME.fullmatch(str(function.get("name"))) is None:
        yield f"Invalid '{at}.function.name': string does not match pattern."
    if not isinstance(function.get("arguments"), str):
        yield f"Invalid type for '{at}.function.arguments': expected a string."


def _chat_pairing(messages: list[Body]) -> Faults:
    open_calls: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                yield (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    f"'tool_calls'. (messages[{place}])"
                )
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            yield _unanswered(open_calls)
        for call in message.get("tool_calls") or ():
            if call["id"] in seen:
                yield f"Duplicate value for 'tool_call_id' of {call['id']} in message[{place}]"
            seen.add(call["id"])
            open_calls.append(call["id"])
    if open_calls:
        yield _unanswered(open_calls)


def _unanswered(calls: list[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(calls)}"
    )


# ---- Responses

OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
}
PARTS = {"assistant": {"output_text", "refusal"}}
USER_PARTS = {"input_text", "input_image", "input_file"}
PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs", "custom_tool_call": "ctc"}


def _responses_faults(body: Body) -> Faults:
    if isinstance(body.get("input"), str):
        body = {**body, "input": [{"role": "user", "content": body["input"]}]}
    yield from _shared_faults(body, "input")
    if body.get("background") and body.get("store") is False:
        yield "Background mode requires 'store' to be true."
    for place, tool in enumerate(body.get("tools") or ()):
        if tool.get("type") == "function":
            yield from _tool_faults(f"tools[{place}]", tool)
            if tool.get("strict") is not False and tool["parameters"].get("additionalProperties") is not False:
                yield f"Invalid schema for function '{tool['name']}': 'additionalProperties' is required to be false."
    for place, item in enumerate(body["input"]):
        yield from _item_faults(f"input[{place}]", item)
    yield from _state_faults(body)
    yield from _call_pairing(body["input"])


def _item_faults(where: str, item: Body) -> Faults:
    kind = item.get("type", "message")
    if kind == "message":
        yield from _input_message_faults(where, item)
    if kind == "function_call" and not isinstance(item.get("arguments"), str):
        yield f"Invalid type for '{where}.arguments': expected a string, but got an object instead."
    if kind in OUTPUTS and not 1 <= len(str(item.get("call_id") or "")) <= 64:
        yield f"Invalid '{where}.call_id': expected a string of 1 to 64 characters."
    if kind == "function_call_output" and not isinstance(item.get("output"), str):
        parts = item.get("output")
        if not isinstance(parts, list) or any(part.get("type") not in USER_PARTS for part in parts):
            yield f"Invalid type for '{where}.output': expected a string or an array of input parts."
    prefix = PREFIXES.get(kind)
    if prefix and item.get("id") is not None and not str(item["id"]).startswith(prefix):
        yield f"Invalid '{where}.id': '{item['id']}'. Expected an ID that begins with '{prefix}'."


def _input_message_faults(where: str, item: Body) -> Faults:
    role, content = item.get("role"), item.get("content")
    if role not in ("user", "assistant", "system", "developer"):
        yield f"Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
    if not isinstance(content, str | list):
        yield f"Invalid type for '{where}.content': expected one of a string or array of objects."
    wanted = PARTS.get(str(role), USER_PARTS)
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict) or part.get("type") not in wanted:
            yield f"Invalid value: '{part.get('type')}'. Supported values are: {' and '.join(sorted(wanted))}."


def _state_faults(body: Body) -> Faults:
    items, ids = body["input"], [str(item["id"]) for item in body["input"] if item.get("id")]
    for one in ids:
        if ids.count(one) > 1:
            yield f"Duplicate item found with id {one}. Remove duplicate items from your input and try again."
    for place, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        if body.get("store") is False and not item.get("encrypted_content"):
            yield f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false."
        behind = items[place + 1] if place + 1 < len(items) else {"role": "nobody"}
        if behind.get("role") not in (None, "assistant") or str(behind.get("type", "")).endswith("_output"):
            yield f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."


def _call_pairing(items: list[Body]) -> Faults:
    waiting: dict[str, str] = {}
    answered: set[str] = set()
    for item in items:
        kind, name = str(item.get("type", "message")), str(item.get("call_id"))
        if kind in OUTPUTS:
            waiting[name] = OUTPUTS[kind]
        elif kind in OUTPUTS.values():
            if name in answered:
                yield f"Duplicate output for call_id {name}."
            if waiting.pop(name, None) != kind:
                yield f"No tool call found for {kind.replace('_', ' ')} with call_id {name}."
            answered.add(name)
    for name, kind in waiting.items():
        yield f"No tool output found for {kind.removesuffix('_output').replace('_', ' ')} {name}."
