"""What a message and its blocks must hold: something, and of the right kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from midstride.transcript.anthropic import kinds
from midstride.transcript.anthropic.history import History
from midstride.transcript.anthropic.kinds import id_of, is_call, is_result, kind
from midstride.transcript.anthropic.message import Message, inside
from midstride.transcript.rules import Fault, Rule, Rules
from midstride.transcript.values import Json, field, holds, is_list, named, unique

rules: Rules[Message, History] = Rules()


@rules.next(
    Rule(
        "A10-nonempty-content",
        "reject",
        error="messages.N: all messages must have non-empty content except for the optional final assistant message",
        also=("messages.N: user messages must have non-empty content",),
        source="docs: errors; anthropics/claude-code#23142, #24662",
        repair="It is restored from the journal; else the message is dropped, and the API joins its neighbours.",
    )
)
def empty_messages(history: History, following: Message | None) -> Iterator[Fault]:
    """A message holds something, unless it is the assistant's and the last."""
    last = history.last
    if last is None or not last.empty:
        return
    if last.role != "assistant" or following is not None:
        yield Fault(last.at, f"message {last.at} has no content")


@rules.each(
    Rule(
        "A11-nonempty-text",
        "reject",
        error="messages: text content blocks must be non-empty",
        source="anthropics/claude-code#41992; tidyverse/ellmer#709",
        repair="The block is removed; a message or a result that is then empty is dealt with by its own rule.",
    )
)
def empty_texts(message: Message, history: History) -> Iterator[Fault]:
    """A text block has a character."""
    places = [place for place, block in message.texts() if field(block, "text") in ("", None)]
    if places:
        yield Fault(message.at, f"message {message.at} holds an empty text (block {', '.join(places)})")


@rules.each(
    Rule(
        "A12-nonblank-text",
        "reject",
        error="messages: text content blocks must contain non-whitespace text",
        source="NousResearch/hermes-agent PR#41985; coder/xum PR#2192",
        repair="The block is removed. Padding with a blank does not help.",
    )
)
def blank_texts(message: Message, history: History) -> Iterator[Fault]:
    """A text block that has characters has one that is not white space; no character at all is A10 or A11."""
    places = [place for place, block in message.texts() if _blank(field(block, "text"))]
    if places:
        yield Fault(message.at, f"message {message.at} holds a text of white space (block {', '.join(places)})")


def _blank(text: object) -> bool:
    return isinstance(text, str) and text.isspace()


# ---- calls


def _calls(message: Message, wrong: Callable[[Json], bool]) -> list[Json]:
    return [block for block in message.blocks if is_call(block) and wrong(block)]


@rules.each(
    Rule(
        "A15-input-object",
        "reject",
        error="tool_use.input: Input should be a valid dictionary",
        also=("tool_use.input: Field required",),
        source="chethandvg/krutaka#181; agentscope-ai/agentscope-java#1147",
        repair="An object that was written as a string is read once; anything else is wrapped as INVALID_JSON and is "
        "not run.",
    )
)
def wrong_inputs(message: Message, history: History) -> Iterator[Fault]:
    """The input of a call is there, and an object."""
    wrong = _calls(message, lambda block: not isinstance(field(block, "input"), Mapping))
    if wrong:
        ids = _ids(wrong)
        yield Fault(message.at, f"message {message.at} holds a call without an object as input ({named(ids)})", ids)


def _ids(blocks: list[Json]) -> tuple[str, ...]:
    # An empty id is one too: A14 speaks of it.
    found = (field(block, "tool_use_id" if is_result(block) else "id") for block in blocks)
    return unique(one for one in found if isinstance(one, str))


NAME_MAX = 200
"""Characters of a tool's name in a call; its definition has 64 at most (A57)."""


@rules.each(
    Rule(
        "A16-tool-use-name",
        "reject",
        error="tool_use.name: String should have at least 1 character",
        also=("tool_use.name: String should have at most 200 characters",),
        source="Hmbown/Codewhale#6138; docs: handle-tool-calls (invalid tool name)",
        repair="The call is named unknown_tool, or its name is cut to 200 characters: dropping it "
        "would drop its result.",
    )
)
def wrong_names(message: Message, history: History) -> Iterator[Fault]:
    """The name of a call has 1 to 200 characters; a tool that is not known is answered all the same."""
    wrong = _calls(message, lambda block: not is_name(field(block, "name")))
    if wrong:
        ids = _ids(wrong)
        yield Fault(message.at, f"message {message.at} holds a call without a name, or a too long one", ids)


def is_name(name: Json) -> bool:
    """Tell whether a call may bear a name."""
    return isinstance(name, str) and 0 < len(name) <= NAME_MAX


# ---- results


def _results(message: Message, wrong: Callable[[Json], bool]) -> list[Json]:
    mine = message.blocks if message.role == "user" else ()
    return [block for block in mine if is_result(block) and wrong(block)]


def failed(block: Json) -> bool:
    """Tell whether a result says that the call failed."""
    return field(block, "is_error") is True


@rules.each(
    Rule(
        "A17-error-result-nonempty",
        "reject",
        error="content cannot be empty if `is_error` is true",
        source="aws-samples/sample-multi-agent-orchestration-chat-on-agentcore#15",
        repair="A text says that the call failed and nothing more is known.",
    )
)
def empty_errors(message: Message, history: History) -> Iterator[Fault]:
    """A result that is an error holds something."""
    wrong = _results(message, lambda block: failed(block) and not holds(field(block, "content")))
    if wrong:
        ids = _ids(wrong)
        yield Fault(message.at, f"message {message.at} holds an error without a word ({named(ids)})", ids)


@rules.each(
    Rule(
        "A18-error-result-text-only",
        "reject",
        error="all content must be type `text` if `is_error` is true",
        source="vellum-ai/vellum-assistant PR#18387",
        repair="The result keeps all its blocks and says in words that the call failed; is_error is taken away.",
    )
)
def errors_with_pictures(message: Message, history: History) -> Iterator[Fault]:
    """A result that is an error holds text only."""
    wrong = _results(message, lambda block: failed(block) and any(kind(part) != "text" for part in inside(block)))
    if wrong:
        ids = _ids(wrong)
        yield Fault(message.at, f"message {message.at} holds an error with more than text ({named(ids)})", ids)


@rules.each(
    Rule(
        "A19-result-content-kinds",
        "reject",
        error="tool_result.content: Input tag ... does not match any of the expected tags",
        source="docs: handle-tool-calls, browser-use-tool",
        repair="What is of another kind becomes a text that shows it as JSON.",
    )
)
def wrong_kinds_inside(message: Message, history: History) -> Iterator[Fault]:
    """The content of a result is a string, or a list of text, image, document, search_result or tool_reference."""
    asked = history.asked_before(message)
    wrong = _results(message, lambda block: _odd_content(block, of_toolset(block, asked)))
    if wrong:
        ids = _ids(wrong)
        yield Fault(message.at, f"message {message.at} holds a result with content of a wrong kind ({named(ids)})", ids)


def of_toolset(block: Json, asked: Mapping[str, Json]) -> bool:
    """Tell whether a result is that of a member of the computer or browser toolset."""
    return bool(field(block, "toolset_name") or field(asked.get(id_of(block)), "toolset_name"))


def _odd_content(block: Json, toolset: bool) -> bool:
    content = field(block, "content")
    if not is_list(content):
        return not (content is None or isinstance(content, str))
    allowed = kinds.INSIDE_TOOLSET if toolset else kinds.INSIDE
    found = [kind(part) for part in content]
    return any(name not in allowed for name in found) or found.count("browser_state") > 1


@rules.each(
    Rule(
        "A20-block-role",
        "reject",
        error="messages.N: `tool_use` blocks can only be in `assistant` messages",
        also=("messages.N: `tool_result` blocks can only be in `user` messages",),
        source="docs: messages/create, search-results; public reports of the error text",
        repair="The message is split where the role changes.",
    )
)
def blocks_in_the_wrong_role(message: Message, history: History) -> Iterator[Fault]:
    """Calls, thinking, server tools and compaction are the assistant's; results, pictures and documents the user's."""
    wrong = [block for block in message.blocks if not in_place(block, message.role)]
    if wrong:
        shown = ", ".join(unique(kind(block) for block in wrong))
        ids = unique(id_of(block) for block in wrong if id_of(block))
        yield Fault(message.at, f"message {message.at} of the {message.role} holds {shown}", ids)


def in_place(block: Json, role: str) -> bool:
    """Tell whether a block may stand in a message of that role; an unknown role has another fault."""
    name = kind(block)
    if role == "assistant":
        return name not in kinds.USERS
    return role not in ("user", "system") or (
        name not in kinds.ASSISTANTS and (role == "user" or name not in kinds.USERS)
    )


@rules.each(
    Rule(
        "A40-toolset-name",
        "reject",
        error="",
        source="docs: browser-use-tool, computer-use-tool",
        repair="toolset_name is copied from the call.",
    )
)
def results_without_toolset(message: Message, history: History) -> Iterator[Fault]:
    """The result of a member of the computer or browser toolset echoes the toolset_name of its call."""
    asked = history.asked_before(message)
    wrong = _results(message, lambda block: _echoes_not(block, asked))
    if wrong:
        ids = _ids(wrong)
        yield Fault(message.at, f"message {message.at} leaves out the toolset_name of {named(ids)}", ids)


def _echoes_not(block: Json, asked: Mapping[str, Json]) -> bool:
    wanted = field(asked.get(id_of(block)), "toolset_name")
    return isinstance(wanted, str) and field(block, "toolset_name") != wanted


@rules.each(
    Rule(
        "A41-search-result-block",
        "reject",
        error="",
        source="docs: search-results",
        repair="Text beside search results goes into the first of them; beside other kinds they become text.",
    )
)
def mixed_search_results(message: Message, history: History) -> Iterator[Fault]:
    """In a result all blocks are search results or none, and a search result holds text only."""
    mixed = _results(message, lambda block: len({kind(part) == "search_result" for part in inside(block)}) > 1)
    odd = [
        (one, block)
        for _, block, one in message.parts
        if message.role == "user" and kind(block) == "search_result" and not _only_text(field(block, "content"))
    ]
    if mixed or odd:
        ids = unique([*_ids(mixed), *(one for one, _ in odd if one)])
        yield Fault(message.at, f"message {message.at} mixes search results with something else", ids)


def _only_text(content: Json) -> bool:
    return is_list(content) and all(kind(part) == "text" for part in content)
