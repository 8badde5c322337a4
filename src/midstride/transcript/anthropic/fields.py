"""The shape of messages and blocks: known roles and kinds, and no field that the API does not take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from midstride.transcript.anthropic import kinds
from midstride.transcript.anthropic.history import History
from midstride.transcript.anthropic.kinds import kind
from midstride.transcript.anthropic.message import Message
from midstride.transcript.facts import Facts
from midstride.transcript.rules import Fault, Rule, Rules
from midstride.transcript.values import Json, field, is_list, unique

rules: Rules[Message, History] = Rules()

ROLES = ("user", "assistant", "system")


@rules.each(
    Rule(
        "G06-known-discriminator",
        "reject",
        error="messages.N.content.M: Input tag 'X' found using 'type' does not match any of the expected tags: ...",
        also=("unknown variant `system`, expected `user` or `assistant`",),
        source="anthropics/anthropic-sdk-go#235; deepseek-ai/awesome-deepseek-integration#639",
        repair="A role that is known by another name is renamed; blocks and messages of an unknown kind are left out "
        "of the request and stay in the store.",
    )
)
def unknown_kinds(message: Message, history: History) -> Iterator[Fault]:
    """Every message has a known role, every block a known type."""
    odd = [block for block in message.blocks if kind(block) not in kinds.KINDS]
    if message.role not in ROLES:
        yield Fault(message.at, f"message {message.at} has {_shown(message.role, 'role')}")
    elif odd:
        yield Fault(message.at, f"message {message.at} holds a block of {_shown(kind(odd[0]), 'type')}")
    elif not (message.content is None or isinstance(message.content, str) or is_list(message.content)):
        yield Fault(message.at, f"message {message.at} has a content that is neither text nor a list of blocks")


def _shown(name: str, what: str) -> str:
    return f"the unknown {what} {name[:60]!a}" if name else f"no {what}"


@rules.each(
    Rule(
        "G04-wire-fields-only",
        "reject",
        error="messages.N....: Extra inputs are not permitted",
        source="anthropics/claude-code#4378, #19513",
        repair="Fields that the API does not know are left out of the request. Keep them beside the messages.",
    )
)
def unknown_fields(message: Message, history: History) -> Iterator[Fault]:
    """Messages, and blocks of the user and the system, bear documented fields only."""
    extra = [name for name in message.raw if name not in ("role", "content")] if message.role in ROLES else []
    blocks = extras(message) if message.role in ("user", "system") else []
    extra += [name for _, names in blocks for name in names]
    if extra:
        ids = unique(one for one, _ in blocks if one)
        yield Fault(message.at, f"message {message.at} bears {_list(extra)}, which the API does not know", ids)


@rules.each(
    Rule(
        "A22-no-output-only-fields",
        "reject",
        error="messages.N.content.M.tool_use.text: Extra inputs are not permitted",
        also=("thinking.valid: Extra inputs are not permitted",),
        source="anthropics/claude-code#4378, #19513",
        repair="Fields that an SDK or a store has added are left out of the request.",
    )
)
def output_only_fields(message: Message, history: History) -> Iterator[Fault]:
    """The blocks of an assistant message bear documented fields only."""
    if message.role != "assistant":
        return
    blocks = extras(message)
    if blocks:
        extra = [name for _, names in blocks for name in names]
        ids = unique(one for one, _ in blocks if one)
        yield Fault(message.at, f"message {message.at} bears {_list(extra)}, which the API does not know", ids)


def extras(message: Message) -> list[tuple[str, list[str]]]:
    """Return the unknown fields of each block, with the id concerned; of what may not stand in a result A19 speaks."""
    parts = [
        (place, block, one) for place, block, one in message.parts if "." not in place or kind(block) in kinds.INSIDE
    ]
    return [(one, names) for _, block, one in parts if (names := extra_fields(block))]


def extra_fields(block: Json) -> list[str]:
    """Return the fields of a block that its kind does not have; a misplaced cache marker is A30."""
    if kind(block) not in kinds.FIELDS:
        return []
    known = ("type", "cache_control", *kinds.FIELDS[kind(block)])
    return [name for name in block if name not in known]


def _list(names: list[str]) -> str:
    return ", ".join(ascii(name)[:60] for name in unique(names)[:3])


# ---- cache markers


PLACE = Rule(
    "A30-cache-placement",
    "reject",
    error="thinking.cache_control: Extra inputs are not permitted",
    also=("cache_control cannot be set for empty text blocks",),
    source="docs: prompt-caching; BerriAI/litellm PR#39815; anthropics/claude-code#55302",
    repair="The marker is taken away. Place markers anew for each request, and store none.",
)


@rules.each(PLACE)
def misplaced_markers(message: Message, history: History) -> Iterator[Fault]:
    """No cache marker stands on thinking, on a fallback block, on an empty text, or on a citation."""
    wrong = [one for _, block, one in message.parts if misplaced(block)]
    if wrong:
        yield Fault(
            message.at, f"message {message.at} has a cache marker where none may be", unique(filter(None, wrong))
        )


def misplaced(block: Json) -> bool:
    """Tell whether a block, or a citation of it, bears a cache marker that it may not bear."""
    cited = field(block, "citations")
    if any(field(one, "cache_control") is not None for one in (cited if is_list(cited) else ())):
        return True
    refuses = kind(block) in (*kinds.THINKING, "fallback") or (kind(block) == "text" and not field(block, "text"))
    return refuses and field(block, "cache_control") is not None


@rules.end(PLACE)
def markers_on_deferred_tools(history: History, facts: Facts) -> Iterator[Fault]:
    """No cache marker stands on a deferred tool."""
    tools = [tool for tool in facts.tools or () if isinstance(tool, Mapping)]
    if any(tool.get("defer_loading") is True and tool.get("cache_control") is not None for tool in tools):
        yield Fault(0, "a deferred tool has a cache marker")


@rules.end(
    Rule(
        "A23-beta-blocks-need-header",
        "reject",
        error="Input tag '...' found using 'type' does not match any of the expected tags",
        source="docs: mcp-connector, compaction, advisor-tool; vercel/ai#10570; BerriAI/litellm#15299",
        repair="Send the beta header that the session began with; else the blocks are left out with their partners.",
    )
)
def betas_without_header(history: History, facts: Facts) -> Iterator[Fault]:
    """Blocks of a beta feature are sent with its beta header, on every later request too."""
    sent = field(facts.request, "betas")
    if not is_list(sent):
        return
    dateless = {_dateless(one) for one in sent if isinstance(one, str)}
    for beta in unique(kinds.BETAS.values()):
        if beta not in dateless:
            for at, one in history.marked(f"beta {beta}"):
                ids = (one,) if one else ()
                yield Fault(at, f"message {at} holds a block of the beta {beta}, which is not sent", ids)


def _dateless(beta: str) -> str:
    return beta.rstrip("0123456789-")
