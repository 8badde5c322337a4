"""How the Messages API writes an answer: whole, as events, and its errors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .fake_replies import Answer, Block, StreamError, blocks_of
from .fake_validator import Refusal, Rules, refusal
from .fake_wire import Exchange, event, pieces, text, tokens

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
STATUSES = {kind: status for status, kind in TYPES.items()}


class Messages:
    """The Messages API."""

    path = "/v1/messages"
    id_header = "request-id"

    def refusal(self, raw: bytes, headers: Mapping[str, str], rules: Rules) -> Refusal | None:
        """What the validator says, once the headers are there."""
        if "x-api-key" not in headers and not headers.get("authorization", "").startswith("Bearer "):
            return Refusal("x-api-key header is required", "authentication_error", 401)
        if "anthropic-version" not in headers:
            return Refusal("anthropic-version: header is required")
        return refusal(raw, rules)

    def turn_of(self, request: dict[str, Any]) -> int:
        """The count of assistant messages."""
        listed = request.get("messages")
        messages = listed if isinstance(listed, list) else []
        return sum(isinstance(message, dict) and message.get("role") == "assistant" for message in messages)

    def message(self, answer: Answer, asked: Exchange) -> dict[str, Any]:
        """The message."""
        return _message(answer, asked)

    def events(self, message: dict[str, Any], asked: Exchange) -> Sequence[bytes]:
        """From message_start to message_stop."""
        return [event(one, str(one["type"])) for one in _events(message)]

    def error(self, status: int, kind: str | None, message: str, request_id: str) -> dict[str, Any]:
        """An error with the type that goes with its status."""
        error = {"type": kind or TYPES.get(status, "api_error"), "message": message}
        return {"type": "error", "error": error, "request_id": request_id}

    def stream_error(self, reply: StreamError, request_id: str) -> bytes:
        """An error event."""
        return event(self.error(200, reply.type, reply.message, request_id), "error")


def _message(answer: Answer, asked: Exchange) -> dict[str, Any]:
    content = [_with_id(block, asked.turn, place) for place, block in enumerate(blocks_of(answer))]
    usage = {"input_tokens": tokens(asked.raw), "output_tokens": tokens(content)}
    return {
        "id": "msg_" + hashlib.sha256(asked.raw).hexdigest()[:24],
        "type": "message",
        "role": "assistant",
        "model": asked.request["model"],
        "content": content,
        "stop_reason": answer.stop_reason,
        "stop_sequence": None,
        "usage": {**usage, **answer.usage},
        **answer.extra,
    }


def _with_id(block: Mapping[str, Any], turn: int, place: int) -> Block:
    if block["type"] == "tool_use" and "id" not in block:
        return {"type": "tool_use", "id": f"toolu_{turn}_{place}", **block}
    return dict(block)


IN_MESSAGE_DELTA = ("stop_reason", "stop_sequence", "stop_details", "container")
USAGE_IN_MESSAGE_DELTA = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens_details",
    "server_tool_use",
)


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The response as the events of a stream, in the API's order."""
    late = {name: message[name] for name in IN_MESSAGE_DELTA if name in message}
    usage = {name: message["usage"][name] for name in USAGE_IN_MESSAGE_DELTA if name in message["usage"]}
    start = {**message, "content": [], "usage": {**message["usage"], "output_tokens": 1}, **dict.fromkeys(late)}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(message["content"]):
        opened, deltas = _streamed(block)
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        if index == 0:
            yield {"type": "ping"}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": late, "usage": usage}
    yield {"type": "message_stop"}


def _streamed(block: Block) -> tuple[Block, list[Block]]:
    """How a block starts and the deltas that complete it; kinds that are not streamed in pieces start whole."""
    match block:
        case {"type": "text", "text": str(words)}:
            return _streamed_text(block, words)
        case {"type": "thinking", "thinking": str(words)}:
            signed = [{"type": "signature_delta", "signature": block["signature"]}] if block.get("signature") else []
            empty = {"thinking": "", **({"signature": ""} if signed else {})}
            return block | empty, [{"type": "thinking_delta", "thinking": piece} for piece in pieces(words)] + signed
        case {"type": "tool_use" | "server_tool_use", "input": given}:
            parts = ["", *pieces(text(given))] if given else [""]
            return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in parts]
        case _:
            return block, []


def _streamed_text(block: Block, words: str) -> tuple[Block, list[Block]]:
    cited = block.get("citations") or []
    started = block | {"text": ""} | ({"citations": []} if cited else {})
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces(words)]
    return started, deltas + [{"type": "citations_delta", "citation": citation} for citation in cited]
