"""How the Chat Completions API writes an answer: whole, as chunks, and its errors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .fake_openai_validator import bearer_missing, chat_refusal
from .fake_replies import Answer, StreamError, blocks_of
from .fake_validator import Refusal, Rules
from .fake_wire import Exchange, event, pieces, text, tokens

FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
"""The words of an `Answer` in this API's; any other is sent as it is."""

CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


def openai_error(status: int, kind: str | None, message: str) -> dict[str, Any]:
    """An error with the type that goes with its status; a type that was told is its code too."""
    usual = "server_error" if status >= 500 else "invalid_request_error"
    return {"message": message, "type": kind or usual, "param": None, "code": kind or CODES.get(status)}


class Chat:
    """The Chat Completions API.

    Of an answer, text blocks are the content and tool_use blocks the calls: `arguments` stands for their `input` as it
    is on the wire. What `extra` holds as `message` is put over the message, all else over the completion.
    """

    path = "/v1/chat/completions"
    id_header = "x-request-id"

    def refusal(self, raw: bytes, headers: Mapping[str, str], rules: Rules) -> Refusal | None:
        """What the validator says, once the key is there."""
        return bearer_missing(headers) or chat_refusal(raw)

    def turn_of(self, request: dict[str, Any]) -> int:
        """The count of assistant messages."""
        listed = request.get("messages")
        messages = listed if isinstance(listed, list) else []
        return sum(isinstance(message, dict) and message.get("role") == "assistant" for message in messages)

    def message(self, answer: Answer, asked: Exchange) -> dict[str, Any]:
        """The completion, with one choice."""
        blocks = blocks_of(answer)
        words = "".join(block["text"] for block in blocks if block["type"] == "text")
        calls = [_call(b, asked.turn, place) for place, b in enumerate(blocks) if b["type"] == "tool_use"]
        extra = dict(answer.extra)
        message: dict[str, Any] = {"role": "assistant", "content": words if words or not calls else None}
        message |= {"refusal": None, **({"tool_calls": calls} if calls else {}), **extra.pop("message", {})}
        finish = FINISH.get(str(answer.stop_reason), answer.stop_reason)
        counts = {"prompt_tokens": tokens(asked.raw), "completion_tokens": tokens(message)}
        return {
            "id": "chatcmpl-" + hashlib.sha256(asked.raw).hexdigest()[:24],
            "object": "chat.completion",
            "created": 1_790_000_000,
            "model": asked.request["model"],
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
            "usage": {**counts, "total_tokens": sum(counts.values()), **answer.usage},
            **extra,
        }

    def events(self, message: dict[str, Any], asked: Exchange) -> Sequence[bytes]:
        """The chunks; the last event holds the usage, if it was asked for, and the end."""
        head = {name: value for name, value in message.items() if name not in ("choices", "usage")}
        head["object"] = "chat.completion.chunk"
        told = bool((asked.request.get("stream_options") or {}).get("include_usage"))
        untold = {"usage": None} if told else {}
        choice = message["choices"][0]
        chunks = [
            {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}], **untold}
            for delta in _deltas(choice["message"])
        ]
        if choice["finish_reason"] is not None:
            end = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": choice["finish_reason"]}
            chunks.append({**head, "choices": [end], **untold})
        usage = event({**head, "choices": [], "usage": message["usage"]}) if told else b""
        return [*map(event, chunks), usage + b"data: [DONE]\n\n"]

    def error(self, status: int, kind: str | None, message: str, request_id: str) -> dict[str, Any]:
        """An error."""
        return {"error": openai_error(status, kind, message)}

    def stream_error(self, reply: StreamError, request_id: str) -> bytes:
        """An error in place of a chunk."""
        kind = "server_error" if reply.type == "overloaded_error" else reply.type
        return event({"error": openai_error(500, kind, reply.message)})


def _call(block: Mapping[str, Any], turn: int, place: int) -> dict[str, Any]:
    rest = {name: value for name, value in block.items() if name not in ("type", "id", "name", "input", "arguments")}
    function = {"name": block["name"], "arguments": block.get("arguments", text(block.get("input", {})))}
    return {"id": block.get("id", f"call_{turn}_{place}"), "type": "function", "function": function, **rest}


def _deltas(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    texts = {name: value for name, value in message.items() if isinstance(value, str) and name != "role"}
    first = {name: "" if name in texts else value for name, value in message.items() if name != "tool_calls"}
    yield first
    for name, whole in texts.items():
        yield from ({name: piece} for piece in pieces(whole))
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        yield {"tool_calls": [{"index": index, **call, "function": {**function, "arguments": ""}}]}
        for piece in pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
