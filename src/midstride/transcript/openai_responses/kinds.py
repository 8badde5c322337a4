"""The kinds of items of OpenAI Responses: which answers which, and how their ids begin."""

from __future__ import annotations

from midstride.transcript.values import Json, field

ANSWERED_BY = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
}
"""The calls that are ours to answer, and the kind of their outputs."""
OUTPUTS = set(ANSWERED_BY.values())

SERVED = {
    "file_search_call",
    "web_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_call",
    "tool_search_call",
    "program",
}
"""What the server calls, and answers, itself."""
OTHERS = {
    "message",
    "reasoning",
    "item_reference",
    "mcp_approval_response",
    "compaction",
    "compaction_trigger",
    "tool_search_output",
    "program_output",
}
KINDS = {*ANSWERED_BY, *OUTPUTS, *SERVED, *OTHERS}

PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "reasoning": "rs",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "computer_call": "cu",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "mcp_call": "mcp",
}
"""How the ids of a kind begin, where that is known."""

ROLES = ("user", "assistant", "system", "developer")


def kind(item: Json) -> str:
    """Return the type of an item; one with a role and no type is a message."""
    name = field(item, "type")
    if name is None and isinstance(field(item, "role"), str):
        return "message"
    return name if isinstance(name, str) else ""


def id_of(item: Json) -> str:
    """Return the id of an item; "" when it has none."""
    one = field(item, "id")
    return one if isinstance(one, str) else ""


def call_id_of(item: Json) -> str:
    """Return the id by which a call is answered; "" when there is none. A local shell's output may bear it as id."""
    one = field(item, "call_id")
    if one is None and kind(item) == "local_shell_call_output":
        one = field(item, "id")
    return one if isinstance(one, str) else ""


def is_assistants(item: Json) -> bool:
    """Tell whether an item is a message of the assistant."""
    return kind(item) == "message" and field(item, "role") == "assistant"


def succeeds_reasoning(item: Json) -> bool:
    """Tell whether an item may be what a reasoning item belongs to: a message of the assistant or a call."""
    name = kind(item)
    return is_assistants(item) or name in ANSWERED_BY or name in SERVED or name == "item_reference"
