"""The kinds of blocks of Anthropic Messages: the fields they may bear, and whose messages they stand in."""

from __future__ import annotations

from midstride.transcript.values import Json, field, is_list

FIELDS: dict[str, tuple[str, ...]] = {
    "text": ("text", "citations"),
    "image": ("source",),
    "document": ("source", "title", "context", "citations"),
    "search_result": ("source", "title", "content", "citations"),
    "tool_use": ("id", "name", "input", "caller", "toolset_name"),
    "tool_result": ("tool_use_id", "content", "is_error", "toolset_name"),
    "tool_reference": ("tool_name",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "server_tool_use": ("id", "name", "input", "caller"),
    "web_search_tool_result": ("tool_use_id", "content", "caller"),
    "web_fetch_tool_result": ("tool_use_id", "content", "caller"),
    "code_execution_tool_result": ("tool_use_id", "content", "caller"),
    "bash_code_execution_tool_result": ("tool_use_id", "content", "caller"),
    "text_editor_code_execution_tool_result": ("tool_use_id", "content", "caller"),
    "tool_search_tool_result": ("tool_use_id", "content", "caller"),
    "advisor_tool_result": ("tool_use_id", "content", "caller"),
    "mcp_tool_use": ("id", "name", "server_name", "input"),
    "mcp_tool_result": ("tool_use_id", "content", "is_error"),
    "container_upload": ("file_id",),
    "compaction": ("content", "encrypted_content"),
    "fallback": ("from", "to"),
}
"""The fields of a kind besides `type` and `cache_control`."""

UNLISTED = ("browser_state", "tool_addition", "tool_removal")
"""Kinds whose fields are not known."""

KINDS = {*FIELDS, *UNLISTED}

THINKING = ("thinking", "redacted_thinking")
SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
SERVER_RESULTS = tuple(name for name in FIELDS if name.endswith("_tool_result"))
ASSISTANTS = {"tool_use", *THINKING, *SERVER_CALLS, *SERVER_RESULTS, "compaction", "fallback"}
"""Kinds that live in assistant messages only."""
USERS = {"tool_result", "image", "document", "search_result", "container_upload"}
"""Kinds that live in user messages only."""

INSIDE = ("text", "image", "document", "search_result", "tool_reference")
"""Kinds inside a tool_result."""
INSIDE_TOOLSET = ("text", "image", "browser_state")
"""Kinds inside the result of a member of the computer or browser toolset."""

BETAS = {
    "mcp_tool_use": "mcp-client",
    "mcp_tool_result": "mcp-client",
    "advisor_tool_result": "advisor-tool",
    "compaction": "compact",
    "fallback": "server-side-fallback",
}
"""Kinds that need a beta header, without its date, on every request that replays them."""

SERVER_IDS = ("srvtoolu_", "mcptoolu_")
"""How the ids of server calls begin."""


def kind(block: Json) -> str:
    """Return the type of a block; "" when it has none."""
    name = block.get("type") if type(block) is dict else field(block, "type")
    return name if isinstance(name, str) else ""


def is_call(block: Json) -> bool:
    """Tell whether a block is a client's call."""
    return kind(block) == "tool_use"


def is_result(block: Json) -> bool:
    """Tell whether a block is a client's result."""
    return kind(block) == "tool_result"


def is_thinking(block: Json) -> bool:
    """Tell whether a block is thinking, in words or redacted."""
    return kind(block) in THINKING


def is_server_result(block: Json) -> bool:
    """Tell whether a block is the result of a server tool."""
    return kind(block) in SERVER_RESULTS


def id_of(block: Json) -> str:
    """Return the id of the call that a block makes or answers; "" when it has none."""
    one = field(block, "tool_use_id") or field(block, "id")
    return one if isinstance(one, str) else ""


def is_other(block: Json) -> bool:
    """Tell whether a block of a user turn is something else than a result; one in the wrong role does not count."""
    return not is_result(block) and kind(block) not in ASSISTANTS


def references(block: Json) -> list[str]:
    """Return the tools that a result, a search for tools, or an addition of tools refers to."""
    content = field(block, "content")
    if kind(block) == "tool_search_tool_result":
        content = field(content, "tool_references")
    elif kind(block) == "tool_addition":
        content = [field(block, "tool")]
    elif kind(block) != "tool_result":
        return []
    parts = content if is_list(content) else []
    named = [field(part, "tool_name") for part in parts if kind(part) == "tool_reference"]
    return [name for name in named if isinstance(name, str)]


def caller_of(call: Json) -> str:
    """Return the id of the code execution that makes a call; "" when the model makes it itself."""
    caller = field(call, "caller")
    made_by, one = field(caller, "type"), field(caller, "tool_id")
    by_code = isinstance(made_by, str) and made_by.startswith("code_execution")
    return one if by_code and isinstance(one, str) else ""
