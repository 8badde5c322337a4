"""How a request of each model API is read by whoever judges a run from outside: its answers, its calls and results.

It shares no code with what writes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from midstride.testing.fake_openai_validator import chat_refusal, responses_refusal
from midstride.testing.fake_validator import Refusal, Rules, refusal

Json = Any

ERRORS = ("Error: ", "Failed: ", "Not started: ", "Outcome unknown: ", "Denied: ")
"""How a result begins that is an error, where the API has no field for it."""


@dataclass(frozen=True)
class Asked:
    """One call in a request."""

    id: str
    name: str
    input: Json


@dataclass(frozen=True)
class Result:
    """One result in a request."""

    id: str
    content: Json
    is_error: bool


Read = tuple[list[Asked], list[Result]]
"""The calls of one answer, and the results that stand in the place for them."""


@dataclass(frozen=True)
class Reading:
    """How one API is read: where its messages are, what it refuses, its answers, and its counts of tokens."""

    messages: str
    refusal: Callable[[bytes], Refusal | None]
    answers: Callable[[Sequence[Json]], Iterator[Read]]
    counts: tuple[str, str]
    needs: Mapping[str, Json]
    """What a request also holds that the run does not know."""


def _anthropic(messages: Sequence[Json]) -> Iterator[Read]:
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            following = messages[at + 1] if at + 1 < len(messages) else {"content": ""}
            calls = [b for b in _blocks(message) if b["type"] == "tool_use"]
            results = [b for b in _blocks(following) if b["type"] == "tool_result"]
            yield (
                [Asked(b["id"], b["name"], b["input"]) for b in calls],
                [Result(b["tool_use_id"], b.get("content", ""), b.get("is_error", False)) for b in results],
            )


def _blocks(message: Json) -> list[Json]:
    return [] if isinstance(message["content"], str) else message["content"]


def _chat(messages: Sequence[Json]) -> Iterator[Read]:
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            calls = [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
            results = takewhile(lambda one: one["role"] == "tool", messages[at + 1 :])
            yield (
                [Asked(name, f["name"], json.loads(f["arguments"])) for name, f in calls],
                [_result(one["tool_call_id"], one["content"]) for one in results],
            )


def _responses(items: Sequence[Json]) -> Iterator[Read]:
    at = 0
    while at < len(items):
        made = list(takewhile(_is_made, items[at:]))
        if made:
            behind = items[at + len(made) :]
            results = takewhile(lambda one: one.get("type") == "function_call_output", behind)
            calls = [one for one in made if one.get("type") == "function_call"]
            yield (
                [Asked(one["call_id"], one["name"], json.loads(one["arguments"])) for one in calls],
                [_result(one["call_id"], one["output"]) for one in results],
            )
        at += len(made) or 1


def _is_made(item: Json) -> bool:
    return item.get("role") == "assistant" or item.get("type") in ("function_call", "reasoning")


def _result(name: str, content: Json) -> Result:
    return Result(name, content, isinstance(content, str) and content.startswith(ERRORS))


READINGS = {
    "anthropic": Reading(
        "messages",
        lambda raw: refusal(raw, Rules()),
        _anthropic,
        ("input_tokens", "output_tokens"),
        {"model": "claude-opus-5", "max_tokens": 1_024},
    ),
    "openai-chat": Reading(
        "messages", chat_refusal, _chat, ("prompt_tokens", "completion_tokens"), {"model": "gpt-next"}
    ),
    "openai-responses": Reading(
        "input", responses_refusal, _responses, ("input_tokens", "output_tokens"), {"model": "gpt-next"}
    ),
}
