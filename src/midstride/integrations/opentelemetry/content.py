"""What was said, for those who ask for it: messages in the conventions' form of roles and parts, as JSON.

A block that has no such form is kept as the API has it, which is the conventions' own way with a part they do not know.
What looks like a secret is redacted first: a collector is another system, and whoever reads it another person.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from midstride.core.apis import Api
from midstride.hidden import redacted
from midstride.integrations.opentelemetry.attributes import Attributes

Json = Any

LENGTH = 200_000
"""Characters of one attribute: about what a collector takes in one message, 4 MiB, with room for the rest of it."""


def of_request(request: Mapping[str, Json]) -> Attributes:
    """Return the system prompt and the messages of a request, the newest that have room."""
    sent = request.get("messages", request.get("input", ()))
    messages = [_message(one) for one in sent] if isinstance(sent, (list, tuple)) else []
    shown, left = _newest(messages)
    known: Attributes = {"gen_ai.input.messages": f"[{','.join(shown)}]"}
    if left:
        known["midstride.messages_left_out"] = left
    system = request.get("system", request.get("instructions"))
    if system:
        known["gen_ai.system_instructions"] = as_json(list(_parts(system)))
    return known


def of_response(api: Api, response: Mapping[str, Json]) -> Attributes:
    """Return the message of a response."""
    said = api.text(response)
    parts: list[Json] = [{"type": "text", "content": said}] if said else []
    parts += [{"type": "tool_call", "id": c.id, "name": c.name, "arguments": c.arguments} for c in api.calls(response)]
    message = {"role": "assistant", "parts": parts, "finish_reason": api.reason(response)}
    return {"gen_ai.output.messages": as_json([message])}


def of_error(error: BaseException) -> Attributes:
    """Return the message and the stack of what was raised; the stack has the message in it, and those before."""
    stack = "".join(traceback.format_exception(error))
    return {"exception.message": text(str(error)), "exception.stacktrace": text(stack)}


def text(value: str) -> str:
    """Return a text without secrets that any exporter takes: at most LENGTH, what cannot be encoded written out."""
    return _bounded(redacted(value))


def _bounded(value: str) -> str:
    return value[:LENGTH].encode("utf-8", "backslashreplace").decode("utf-8")


def as_json(value: Json) -> str:
    """Return *value* as JSON, of a long one the beginning; whatever is no JSON is shown as Python does."""
    return _bounded(json.dumps(redacted(value), ensure_ascii=False, default=lambda one: redacted(repr(one))))


def _newest(messages: Sequence[Json]) -> tuple[list[str], int]:
    """Return the newest messages that fit into LENGTH, as JSON, and how many older ones were left out."""
    shown: list[str] = []
    length = 0
    for message in reversed(messages):
        one = as_json(message)
        length += len(one)
        if shown and length > LENGTH:
            break
        shown.insert(0, one)
    return shown, len(messages) - len(shown)


def _message(message: Json) -> Json:
    if not isinstance(message, Mapping):
        return {"role": "user", "parts": [message]}
    if "role" not in message:  # an item of the Responses API stands beside messages, not in one
        role = "tool" if str(message.get("type", "")).endswith("_output") else "assistant"
        return {"role": role, "parts": [_part(message)]}
    if message["role"] == "tool":
        result = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": message.get("content")}
        return {"role": "tool", "parts": [result]}
    calls = message.get("tool_calls")
    return {
        "role": message["role"],
        "parts": [*_parts(message.get("content")), *(map(_part, calls) if isinstance(calls, list) else ())],
    }


def _parts(content: Json) -> Iterator[Json]:
    if isinstance(content, str):
        yield {"type": "text", "content": content}
    elif isinstance(content, (list, tuple)):
        yield from map(_part, content)


def _part(block: Json) -> Json:
    match block:
        case {"type": "text" | "input_text" | "output_text", "text": said}:
            return {"type": "text", "content": said}
        case {"type": "tool_use", "id": id, "name": name}:
            return {"type": "tool_call", "id": id, "name": name, "arguments": block.get("input")}
        case {"type": "function_call", "call_id": id, "name": name}:
            return {"type": "tool_call", "id": id, "name": name, "arguments": block.get("arguments")}
        case {"type": "function", "id": id, "function": {"name": name, **given}}:
            return {"type": "tool_call", "id": id, "name": name, "arguments": given.get("arguments")}
        case {"type": "tool_result", "tool_use_id": id}:
            return {"type": "tool_call_response", "id": id, "response": block.get("content")}
        case {"type": "function_call_output", "call_id": id}:
            return {"type": "tool_call_response", "id": id, "response": block.get("output")}
        case {"type": "thinking", "thinking": said}:
            return {"type": "reasoning", "content": said}
    return block
