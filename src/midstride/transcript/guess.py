"""Which API a list of messages is written for, told by what only one of them has."""

from __future__ import annotations

from collections.abc import Mapping

from midstride.transcript.anthropic import kinds as anthropic
from midstride.transcript.openai_responses import kinds as responses
from midstride.transcript.values import Json, field, is_list

CHAT_PARTS = {"image_url", "input_audio", "refusal"}
RESPONSES_PARTS = {"input_text", "output_text", "input_image", "input_file"}
ONLY_ANTHROPIC = anthropic.KINDS - {"text"}


def guess_provider(messages: Json) -> str | None:
    """Return "anthropic", "openai-chat" or "openai-responses", by what most messages show; None if nothing tells."""
    votes = [vote for message in (messages if is_list(messages) else ()) if (vote := _vote(message)) is not None]
    return max(votes, key=votes.count) if votes else None


def _vote(message: Json) -> str | None:
    if isinstance(field(message, "type"), str) and field(message, "type") in responses.KINDS:
        return "openai-responses"
    role = field(message, "role")
    content = field(message, "content")
    kinds = {anthropic.kind(part) for part in (content if is_list(content) else ())}
    if kinds & RESPONSES_PARTS:
        return "openai-responses"
    if kinds & ONLY_ANTHROPIC:
        return "anthropic"
    if role in ("tool", "developer", "function") or kinds & CHAT_PARTS:
        return "openai-chat"
    if is_list(field(message, "tool_calls")) or isinstance(field(message, "function_call"), Mapping):
        return "openai-chat"
    return None
