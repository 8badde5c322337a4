"""How the Responses API writes an answer: whole, as events, and its errors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .fake_chat import openai_error
from .fake_openai_validator import bearer_missing, responses_refusal
from .fake_replies import Answer, StreamError, blocks_of
from .fake_validator import Refusal, Rules
from .fake_wire import Exchange, event, pieces, text, tokens

INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
"""The words of an `Answer` for what makes a response incomplete."""

ENDS = ("completed", "incomplete", "failed", "cancelled")
ENCRYPTED = "reasoning.encrypted_content"


class Responses:
    """The Responses API.

    Of an answer, a text block is a message and a tool_use block a function call, whose `arguments` stand for its
    `input` as it is on the wire; any other block is an item as it is. A stop reason that is a status of this API is
    the response's status. `extra` is put over the response.
    """

    path = "/v1/responses"
    id_header = "x-request-id"

    def refusal(self, raw: bytes, headers: Mapping[str, str], rules: Rules) -> Refusal | None:
        """What the validator says, once the key is there."""
        return bearer_missing(headers) or responses_refusal(raw)

    def turn_of(self, request: dict[str, Any]) -> int:
        """The count of answers: of stretches of items that a model makes."""
        given = request.get("input")
        made = [_made_by_a_model(item) for item in given] if isinstance(given, list) else []
        return sum(here and not before for before, here in zip([False, *made], made, strict=False))

    def message(self, answer: Answer, asked: Exchange) -> dict[str, Any]:
        """The response."""
        seed = hashlib.sha256(asked.raw).hexdigest()[:24]
        output = [_item(block, asked, seed, place) for place, block in enumerate(blocks_of(answer))]
        status = {"end_turn": "completed", "tool_use": "completed", **dict.fromkeys(INCOMPLETE, "incomplete")}
        reason = INCOMPLETE.get(str(answer.stop_reason))
        counts = {"input_tokens": tokens(asked.raw), "output_tokens": tokens(output)}
        usage = {
            **counts,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": sum(counts.values()),
        }
        request = asked.request
        return {
            "id": f"resp_{seed}",
            "object": "response",
            "created_at": 1_790_000_000,
            "status": status.get(str(answer.stop_reason), answer.stop_reason or "in_progress"),
            "background": bool(request.get("background")),
            "error": None,
            "incomplete_details": None if reason is None else {"reason": reason},
            "instructions": request.get("instructions"),
            "model": request["model"],
            "output": output,
            "parallel_tool_calls": True,
            "store": request.get("store", True),
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": request.get("tools", []),
            "top_p": 1.0,
            "usage": {**usage, **answer.usage},
            **answer.extra,
        }

    def events(self, message: dict[str, Any], asked: Exchange) -> Sequence[bytes]:
        """From response.created to the event that is called as the response ended."""
        numbered = enumerate(_events(message))
        return [event({**one, "sequence_number": number}, str(one["type"])) for number, one in numbered]

    def under_way(self, message: dict[str, Any]) -> dict[str, Any]:
        """The response as it is before its end."""
        return {**message, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}

    def error(self, status: int, kind: str | None, message: str, request_id: str) -> dict[str, Any]:
        """An error."""
        return {"error": openai_error(status, kind, message)}

    def stream_error(self, reply: StreamError, request_id: str) -> bytes:
        """An error event."""
        kind = "server_error" if reply.type == "overloaded_error" else reply.type
        told = {"code": kind, "message": reply.message, "param": None, "sequence_number": 0}
        return event({"type": "error", **told}, "error")


def _made_by_a_model(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    kind = str(item.get("type", "message"))
    if kind == "message":
        return item.get("role") == "assistant"
    return not kind.endswith(("_output", "_response"))


def _item(block: Mapping[str, Any], asked: Exchange, seed: str, place: int) -> dict[str, Any]:
    if block["type"] == "text":
        part = {"type": "output_text", "text": block["text"], "annotations": [], "logprobs": []}
        rest = {name: value for name, value in block.items() if name not in ("type", "text")}
        message = {"id": f"msg_{seed}_{place}", "type": "message", "role": "assistant", "status": "completed"}
        return {**message, "content": [part], **rest}
    if block["type"] == "tool_use":
        known = ("type", "id", "name", "input", "arguments")
        rest = {name: value for name, value in block.items() if name not in known}
        call = {"id": f"fc_{seed}_{place}", "type": "function_call", "status": "completed"}
        named = {"call_id": block.get("id", f"call_{asked.turn}_{place}"), "name": block["name"]}
        return {**call, **named, "arguments": block.get("arguments", text(block.get("input", {}))), **rest}
    hidden = block["type"] == "reasoning" and ENCRYPTED not in (asked.request.get("include") or ())
    return {name: value for name, value in block.items() if not (hidden and name == "encrypted_content")}


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    early = Responses().under_way(message)
    yield {
        "type": "response.created",
        "response": {**early, "status": "queued" if early["background"] else "in_progress"},
    }
    yield {"type": "response.in_progress", "response": early}
    for index, item in enumerate(message["output"]):
        yield from _item_events(index, item)
    if message["status"] in ENDS:
        yield {"type": f"response.{message['status']}", "response": message}


def _item_events(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    at = {"output_index": index, "item_id": item.get("id", "")}
    match item:
        case {"type": "message", "content": [{"type": "output_text", "text": str(words)} as part]}:
            yield _opened(index, {**item, "content": []})
            yield {"type": "response.content_part.added", **at, "content_index": 0, "part": {**part, "text": ""}}
            for piece in pieces(words):
                delta = {"content_index": 0, "delta": piece, "logprobs": []}
                yield {"type": "response.output_text.delta", **at, **delta}
            done = {"content_index": 0, "text": words, "logprobs": []}
            yield {"type": "response.output_text.done", **at, **done}
            yield {"type": "response.content_part.done", **at, "content_index": 0, "part": part}
        case {"type": "function_call", "arguments": str(given)}:
            yield _opened(index, {**item, "arguments": ""})
            for piece in pieces(given):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
            yield {"type": "response.function_call_arguments.done", **at, "name": item["name"], "arguments": given}
        case _:
            yield _opened(index, item)
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _opened(index: int, item: dict[str, Any]) -> dict[str, Any]:
    started = {**item, "status": "in_progress"} if "status" in item else item
    return {"type": "response.output_item.added", "output_index": index, "item": started}
