"""What the Messages API refuses in a request: a second opinion, so that our own checks are checked by something else.

Written apart from `midstride.transcript` on purpose; it shares no code with it. Only the first fault is reported, in
the real API's words where they are known. Each check may rely on the checks before it: they are generators, asked in
order, and the first fault ends the asking.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Refusal", "Rules", "refusal", "takes_prefill"]

Faults = Iterator[str]

# The API's limit on a request (its page on errors).
BYTES_MAX = 32 * 1024 * 1024

FIELDS = frozenset(
    {"cache_control", "container", "diagnostics", "inference_geo", "max_tokens", "messages", "metadata", "model"}
    | {"output_config", "service_tier", "speed", "stop_sequences", "stream", "system", "temperature", "thinking"}
    | {"tool_choice", "tools", "top_k", "top_p", "user_profile_id", "workspace_id"}
)
BETA_FIELDS = frozenset(
    {
        "billing_policy",
        "compaction",
        "context_management",
        "fallback_credit_token",
        "fallbacks",
        "mcp_servers",
        "thread",
    }
)

SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
SERVER_RESULTS = frozenset(
    {"web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result", "bash_code_execution_tool_result"}
    | {"text_editor_code_execution_tool_result", "tool_search_tool_result", "advisor_tool_result", "mcp_tool_result"}
)
KINDS: dict[str, frozenset[str]] = {
    "assistant": frozenset(
        {"text", "tool_use", "thinking", "redacted_thinking", "container_upload", "compaction", "fallback"}
        | {"mcp_tool_listing"}
        | SERVER_CALLS
        | SERVER_RESULTS
    ),
    "user": frozenset({"text", "image", "document", "search_result", "tool_result", "container_upload"}),
    "system": frozenset({"text", "tool_addition", "tool_removal"}),
}
KINDS_IN_A_RESULT = frozenset({"text", "image", "document", "search_result", "tool_reference", "browser_state"})

# Blocks of user and system messages take no field beyond these and cache_control; other kinds are not checked.
FIELDS_OF = {
    "text": {"text", "citations"},
    "image": {"source"},
    "document": {"source", "title", "context", "citations"},
    "search_result": {"source", "title", "content", "citations"},
    "tool_result": {"tool_use_id", "content", "is_error", "toolset_name"},
    "container_upload": {"file_id"},
}
NEEDED_IN = {
    "text": ("text",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input"),
    "server_tool_use": ("id", "name", "input"),
    "mcp_tool_use": ("id", "name", "server_name", "input"),
    "tool_result": ("tool_use_id",),
    **dict.fromkeys(SERVER_RESULTS, ("tool_use_id",)),
    "image": ("source",),
    "document": ("source",),
    "search_result": ("source", "title", "content"),
}

ID_PATTERN = "^[a-zA-Z0-9_-]+$"
NAME_PATTERN = "^[a-zA-Z0-9_-]{1,64}$"
PREFILL_MODEL = re.compile(r"claude-(instant|[23])\b.*|claude-(opus|sonnet|haiku)-4(-[015])?(-\d{8}|-latest)?")
# Between those that take a prefill and those that take role system in the list: neither.
NO_SYSTEM_ROLE = re.compile(r"claude-(opus|sonnet|haiku)-4-[67]\b.*|claude-sonnet-5(-\d{8}|-latest)?")

# Half of a pair: a high surrogate without its low one behind it, or a low one alone.
ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Refusal:
    """The error that the API would answer with."""

    message: str
    type: str = "invalid_request_error"
    status: int = 400


@dataclass(frozen=True)
class Rules:
    """What of the target has a say: models that take a prefill besides those known by name, further block kinds that an
    assistant message may hold, and whether the request carries a beta header.
    """

    prefill_models: Collection[str] = ()
    further_kinds: Collection[str] = ()
    beta: bool = False


@dataclass(frozen=True)
class Turn:
    """Neighbouring messages of one role joined, as the API joins them; a block has the places it was given at."""

    role: str
    first: int
    last: int
    blocks: list[tuple[int, int, dict[str, Any]]]

    def of(self, *kinds: str) -> list[tuple[int, int, dict[str, Any]]]:
        """The blocks of these kinds."""
        return [placed for placed in self.blocks if placed[2]["type"] in kinds]

    @property
    def calls(self) -> list[str]:
        """The ids of the client tool calls."""
        return [block["id"] for _, _, block in self.of("tool_use")]


def refusal(raw: bytes, rules: Rules | None = None) -> Refusal | None:
    """What the API says against this request body, or None if it takes it."""
    if len(raw) > BYTES_MAX:
        return Refusal("Request exceeds the maximum size", "request_too_large", 413)
    try:
        body = parsed(raw)
    except (ValueError, RecursionError) as error:
        return Refusal(f"The request body is not valid JSON: {error}")
    fault = next(_faults(body, rules or Rules()), None)
    return None if fault is None else Refusal(fault)


def takes_prefill(model: str, further: Collection[str] = ()) -> bool:
    """Whether this model lets a request end with an assistant message: Claude 4.5 and earlier do."""
    return model in further or PREFILL_MODEL.fullmatch(model) is not None


def parsed(raw: bytes) -> dict[str, Any]:
    """The body as JSON of finite numbers and whole characters; ValueError says what it is instead."""
    text = raw.decode("utf-8")
    body = json.loads(text, parse_constant=_finite, parse_float=_finite)
    for escape in ESCAPE.finditer(text):
        if escape["half"]:
            line, column = text.count("\n", 0, escape.start()) + 1, escape.start() - text.rfind("\n", 0, escape.start())
            raise ValueError(f"no low surrogate in string: line {line} column {column} (char {escape.start()})")
    if not isinstance(body, dict):
        raise ValueError("expected an object")
    return body


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is not a number")
    return value


def _faults(body: dict[str, Any], rules: Rules) -> Faults:
    yield from _request_faults(body, rules)
    yield from _system_faults(body.get("system"))
    yield from _tools_faults(body.get("tools") or [])
    for place, message in enumerate(body["messages"]):
        yield from _message_faults(place, message, place == len(body["messages"]) - 1, rules)
    yield from _role_faults(body)
    turns = _turns(body["messages"])
    # What lies before a compaction is not read by the model, so its pairing is not checked.
    counted = turns[max((n for n, turn in enumerate(turns) if _compacted(turn)), default=0) :]
    yield from _pairing_faults(counted)
    yield from _server_call_faults(counted)
    yield from _ending_faults(turns[-1], body, rules)


def _request_faults(body: dict[str, Any], rules: Rules) -> Faults:
    known = FIELDS | BETA_FIELDS if rules.beta else FIELDS
    yield from (f"{field}: Extra inputs are not permitted" for field in body if field not in known)
    yield from (f"{field}: Field required" for field in ("model", "max_tokens", "messages") if field not in body)
    if not isinstance(body["model"], str):
        yield "model: Input should be a valid string"
    if not body["model"]:
        yield "model: String should have at least 1 character"
    if not isinstance(body["max_tokens"], int) or isinstance(body["max_tokens"], bool):
        yield "max_tokens: Input should be a valid integer"
    if body["max_tokens"] < 1:
        yield "max_tokens: must be greater than or equal to 1"
    if not isinstance(body.get("stream", False), bool):
        yield "stream: Input should be a valid boolean"
    if not isinstance(body.get("thinking") or {}, dict):
        yield "thinking: Input should be a valid dictionary"
    if not isinstance(body["messages"], list):
        yield "messages: Input should be a valid list"
    if not body["messages"]:
        yield "messages: at least one message is required"


def _system_faults(system: Any) -> Faults:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        yield "system: Input should be a valid list"
    for place, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            yield f"system.{place}: Input should be a text block"
        yield from _text_faults("system", f"system.{place}", block)


def _tools_faults(tools: Any) -> Faults:
    if not isinstance(tools, list):
        yield "tools: Input should be a valid list"
    for place, tool in enumerate(tools):
        if not isinstance(tool, dict):
            yield f"tools.{place}: Input should be a valid dictionary"
        if tool.get("type", "custom") == "custom":
            yield from _own_tool_faults(f"tools.{place}.custom", tool)
    names = [str(tool["name"]) for tool in tools if "name" in tool]
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."


def _own_tool_faults(where: str, tool: dict[str, Any]) -> Faults:
    yield from (f"{where}.{field}: Field required" for field in ("name", "input_schema") if field not in tool)
    if not isinstance(tool["name"], str) or re.fullmatch(NAME_PATTERN, tool["name"]) is None:
        yield f"{where}.name: String should match pattern '{NAME_PATTERN}'"
    schema = tool["input_schema"]
    if not isinstance(schema, dict):
        yield f"{where}.input_schema: Input should be a valid dictionary"
    if schema.get("type") != "object":
        yield f"{where}.input_schema.type: Input should be 'object'"


def _message_faults(place: int, message: Any, final: bool, rules: Rules) -> Faults:
    where = f"messages.{place}"
    if not isinstance(message, dict):
        yield f"{where}: Input should be a valid dictionary"
    extra = [field for field in message if field not in ("role", "content")]
    yield from (f"{where}.{field}: Extra inputs are not permitted" for field in extra)
    yield from (f"{where}.{field}: Field required" for field in ("role", "content") if field not in message)
    role, content = message["role"], message["content"]
    if not isinstance(role, str) or role not in KINDS:
        yield f"{where}.role: Input should be 'user' or 'assistant'"
    if not content and role == "user":
        yield f"{where}: user messages must have non-empty content"
    if not content and not (role == "assistant" and final):
        yield f"{where}: all messages must have non-empty content except for the optional final assistant message"
    if not isinstance(content or [], str | list):
        yield f"{where}.content: Input should be a valid list"
    if isinstance(content, str) and content.isspace():
        yield "messages: text content blocks must contain non-whitespace text"
    for index, block in enumerate(content if isinstance(content, list) else []):
        yield from _block_faults(f"{where}.content.{index}", block, where, role, rules)


def _block_faults(where: str, block: Any, message: str, role: str, rules: Rules) -> Faults:
    if not isinstance(block, dict):
        yield f"{where}: Input should be a valid dictionary"
    if not isinstance(block.get("type"), str):
        yield f"{where}.type: Field required"
    kind = block["type"]
    allowed = KINDS[role] | set(rules.further_kinds if role == "assistant" else ())
    if kind not in allowed:
        yield _wrong_kind(where, kind, message, allowed)
    yield from (f"{where}.{kind}.{field}: Field required" for field in NEEDED_IN.get(kind, ()) if field not in block)
    if role != "assistant" and kind in FIELDS_OF:
        extra = block.keys() - FIELDS_OF[kind] - {"type", "cache_control"}
        yield from (f"{where}.{kind}.{field}: Extra inputs are not permitted" for field in sorted(extra))
    if kind == "text":
        yield from _text_faults("messages", where, block)
    if kind == "tool_use":
        yield from _call_faults(f"{where}.tool_use", block)
    if kind in SERVER_CALLS | SERVER_RESULTS:
        field = "id" if kind in SERVER_CALLS else "tool_use_id"
        yield from _id_faults(f"{where}.{kind}.{field}", block[field])
    if kind == "tool_result":
        yield from _result_faults(f"{where}.tool_result", block)


def _wrong_kind(where: str, kind: str, message: str, allowed: Collection[str]) -> str:
    homes = [f"`{role}`" for role, kinds in KINDS.items() if kind in kinds]
    if homes:
        return f"{message}: `{kind}` blocks can only be in {' or '.join(homes)} messages"
    return _unknown_kind(where, kind, allowed)


def _unknown_kind(where: str, kind: str, allowed: Collection[str]) -> str:
    expected = ", ".join(f"'{known}'" for known in sorted(allowed))
    return f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {expected}"


def _text_faults(list_name: str, where: str, block: dict[str, Any]) -> Faults:
    text = block.get("text")
    if not isinstance(text, str):
        yield f"{where}.text.text: Input should be a valid string"
    elif not text:
        yield f"{list_name}: text content blocks must be non-empty"
    elif text.isspace():
        yield f"{list_name}: text content blocks must contain non-whitespace text"


def _id_faults(where: str, name: Any) -> Faults:
    if not isinstance(name, str) or re.fullmatch(ID_PATTERN, name) is None:
        yield f"{where}: String should match pattern '{ID_PATTERN}'"


def _call_faults(where: str, call: dict[str, Any]) -> Faults:
    yield from _id_faults(f"{where}.id", call["id"])
    if not isinstance(call["name"], str) or not call["name"]:
        yield f"{where}.name: String should have at least 1 character"
    if len(call["name"]) > 200:
        yield f"{where}.name: String should have at most 200 characters"
    if not isinstance(call["input"], dict):
        yield f"{where}.input: Input should be a valid dictionary"


def _result_faults(where: str, result: dict[str, Any]) -> Faults:
    yield from _id_faults(f"{where}.tool_use_id", result["tool_use_id"])
    content, failed = result.get("content"), result.get("is_error") is True
    if failed and not content:
        yield f"{where}: content cannot be empty if `is_error` is true"
    if not isinstance(content or [], str | list):
        yield f"{where}.content: Input should be a valid list"
    for index, block in enumerate(content if isinstance(content, list) else []):
        kind = str(block.get("type")) if isinstance(block, dict) else ""
        if kind not in KINDS_IN_A_RESULT:
            yield _unknown_kind(f"{where}.content.{index}", kind, KINDS_IN_A_RESULT)
        if failed and kind != "text":
            yield f"{where}: all content must be type `text` if `is_error` is true"
        if kind == "text":
            yield from _text_faults("messages", f"{where}.content.{index}", block)


def _role_faults(body: dict[str, Any]) -> Faults:
    roles = [message["role"] for message in body["messages"]]
    for place, role in enumerate(roles):
        if role == "system":
            yield from _system_role_faults(body, roles, place)
    if roles[0] != "user" and not any(block["type"] == "compaction" for block in _blocks(body["messages"][0])):
        yield 'messages: first message must use the "user" role'


def _system_role_faults(body: dict[str, Any], roles: list[str], place: int) -> Faults:
    if takes_prefill(body["model"]) or NO_SYSTEM_ROLE.fullmatch(body["model"]):
        yield (
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, '
            'not "system" as an input message role.'
        )
    if place == 0:
        yield f"messages.{place}: use the top-level 'system' parameter for the initial system prompt"
    before = _blocks(body["messages"][place - 1])
    if roles[place - 1] != "user" and not (before and before[-1]["type"] in SERVER_RESULTS):
        yield f"messages.{place}: a system message must follow a user turn"
    if roles[place + 1 : place + 2] not in ([], ["assistant"]):
        yield f"messages.{place}: a system message must be last or be followed by an assistant turn"


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"] or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _turns(messages: list[dict[str, Any]]) -> list[Turn]:
    turns: list[Turn] = []
    for place, message in enumerate(messages):
        placed = [(place, index, block) for index, block in enumerate(_blocks(message))]
        if turns and turns[-1].role == message["role"] != "system":
            first, before = turns[-1].first, turns.pop().blocks
            turns.append(Turn(message["role"], first, place, before + placed))
        else:
            turns.append(Turn(message["role"], place, place, placed))
    return turns


def _compacted(turn: Turn) -> bool:
    # A compaction without content failed, and has no effect.
    return any(block.get("content") is not None for _, _, block in turn.of("compaction"))


def _pairing_faults(turns: Sequence[Turn]) -> Faults:
    seen: set[str] = set()
    nothing = Turn("none", 0, 0, [])
    for before, turn, after in zip([nothing, *turns], turns, [*turns[1:], nothing], strict=False):
        for place, index, call in turn.of("tool_use"):
            if call["id"] in seen:
                yield f"messages.{place}.content.{index}: `tool_use` ids must be unique"
            seen.add(call["id"])
        yield from _unanswered_faults(turn, after)
        yield from _unasked_faults(before, turn)


def _unanswered_faults(turn: Turn, after: Turn) -> Faults:
    answered = _leading_results(after)
    missing = [name for name in turn.calls if name not in answered]
    if missing:
        place = turn.last if after.role == "none" else after.first
        yield (
            f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. "
            "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        )


def _leading_results(turn: Turn) -> set[str]:
    """The ids answered before any other block of a user turn; a result behind other content does not count."""
    answered: set[str] = set()
    for _, _, block in turn.blocks if turn.role == "user" else []:
        if block["type"] != "tool_result":
            break
        answered.add(block["tool_use_id"])
    return answered


def _unasked_faults(before: Turn, turn: Turn) -> Faults:
    answered: set[str] = set()
    for place, index, result in turn.of("tool_result"):
        name = result["tool_use_id"]
        if name not in before.calls:
            yield (
                f"messages.{place}.content.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if name in answered:
            yield (
                f"messages.{place}.content.{index}: each tool_use must have a single result. "
                f"Found multiple `tool_result` blocks with id: {name}"
            )
        answered.add(name)


def _server_call_faults(turns: Sequence[Turn]) -> Faults:
    waiting: dict[str, str] = {}
    for turn in turns:
        for place, index, block in turn.blocks:
            kind = block["type"]
            if kind in SERVER_CALLS:
                waiting[block["id"]] = block["name"]
            elif kind in SERVER_RESULTS and waiting.pop(block["tool_use_id"], None) is None:
                yield _unasked_server_result(f"messages.{place}.content.{index}", kind, block["tool_use_id"])
            elif waiting and turn.role == "user" and kind != "tool_result":
                name, tool = next(iter(waiting.items()))
                yield (
                    f"messages.{place}: `{tool}` tool use with id `{name}` was found without a corresponding "
                    f"`{tool}_tool_result` block"
                )


def _unasked_server_result(where: str, kind: str, name: str) -> str:
    return (
        f"{where}: unexpected `tool_use_id` found in `{kind}` blocks: {name}. "
        f"Each `{kind}` block must have a corresponding `server_tool_use` block before it."
    )


def _ending_faults(turn: Turn, body: dict[str, Any], rules: Rules) -> Faults:
    if turn.role != "assistant" or _paused(turn):
        return
    thinks = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    if thinks or not takes_prefill(body["model"], rules.prefill_models):
        yield ("This model does not support assistant message prefill. The conversation must end with a user message.")
    last = turn.blocks[-1][2] if turn.blocks else {}
    if last.get("type") == "text" and last["text"] != last["text"].rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"


def _paused(turn: Turn) -> bool:
    """A turn of server tools that the API paused, sent back as it is: a call is open, or its result stands last."""
    answered = {block.get("tool_use_id") for _, _, block in turn.of(*SERVER_RESULTS)}
    is_open = any(block["id"] not in answered for _, _, block in turn.of(*SERVER_CALLS))
    return is_open or (bool(turn.blocks) and turn.blocks[-1][2]["type"] in SERVER_RESULTS)
