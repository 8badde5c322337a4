"""Short ways to write Anthropic messages, and to read what the check says about them."""

from __future__ import annotations

from typing import Any

from midstride.transcript import Finding, check


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def system(*blocks: Any) -> dict[str, Any]:
    return {"role": "system", "content": list(blocks)}


def text(words: Any = "words") -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(one: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": one, "name": "look", "input": {}} | fields


def result(one: Any, content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": one, "content": content} | fields


def searching(one: str) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": one, "name": "web_search", "input": {}}


def searched(one: str) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": one, "content": []}


def compaction(summary: Any = "So far so good.") -> dict[str, Any]:
    return {"type": "compaction", "content": summary}


def thinking(words: str = "", signature: Any = "sig") -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": signature}


GO = user(text("Go."))

PAIRING = ("A01", "A02", "A03", "A04", "A05", "A08", "A09", "A10", "A11", "A12", "A15", "A50", "A51", "A52", "G01")
"""What the oldest tests are about; their messages are odd in other ways too."""


def findings(*messages: Any, journal: Any = None, only: tuple[str, ...] = PAIRING, **request: Any) -> list[Finding]:
    found = check(list(messages), provider="anthropic", request=request, journal=journal)
    return [one for one in found if one.rule[:3] in only]


def broken(*messages: Any, journal: Any = None, only: tuple[str, ...] = PAIRING, **request: Any) -> list[str]:
    """The broken rules and their places, as "A01@1"."""
    found = findings(*messages, journal=journal, only=only, **request)
    return [f"{one.rule[:3]}@{one.at}" for one in found]
