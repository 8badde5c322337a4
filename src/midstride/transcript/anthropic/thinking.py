"""Thinking: signed by the model that thought it, sent back whole, and in its place."""

from __future__ import annotations

from collections.abc import Iterator

from midstride.transcript.anthropic.compared import in_common
from midstride.transcript.anthropic.history import History
from midstride.transcript.anthropic.kinds import is_thinking, kind
from midstride.transcript.anthropic.message import Message, blocks_in
from midstride.transcript.facts import Facts
from midstride.transcript.rules import Fault, Rule, Rules
from midstride.transcript.values import Json, field, is_list, same

rules: Rules[Message, History] = Rules()


@rules.end(
    Rule(
        "A24-thinking-unmodified",
        "reject",
        error="messages.N.content.M: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot "
        "be modified. These blocks must remain as they were in the original response.",
        source="docs: thinking, thinking-troubleshooting; anthropics/claude-code#19539, #63203",
        repair="The message is restored from the journal; if that cannot be, all its thinking is left out.",
    )
)
def changed_thinking(history: History, facts: Facts) -> Iterator[Fault]:
    """The thinking of the latest assistant message comes back complete, in order and unchanged."""
    last = history.last_assistant
    received = None if last is None else facts.received(last.at)
    if last is None or not is_list(received) or is_foreign(facts, last.at):
        return
    ours, theirs = _behind_fallback(last.blocks), _behind_fallback(blocks_in(received))
    if same(*in_common(ours, theirs, is_thinking)):
        return
    if any(is_thinking(block) for block in ours):
        yield Fault(last.at, f"message {last.at} is the latest of the assistant, and its thinking was changed")
    elif last.at not in [fault.at for fault in bare_turn(history, facts)]:
        yield Fault(last.at, f"message {last.at} has lost all its thinking", level="quality")


def _behind_fallback(blocks: tuple[Json, ...]) -> tuple[Json, ...]:
    # What stands before the last fallback block may be filtered (A49), so nothing is said of the thinking there.
    places = [at for at, block in enumerate(blocks) if kind(block) == "fallback"]
    return blocks[places[-1] + 1 :] if places else blocks


SIGNED = Rule(
    "A25-thinking-signed",
    "reject",
    error="thinking.signature: Field required",
    also=("Invalid `signature` in `thinking` block",),
    source="anthropics/claude-code#21726; openclaw/openclaw#91501, #101836; docs: thinking",
    repair="The block is restored from the journal or dropped; it is never signed again and never kept as it is.",
)


@rules.each(SIGNED)
def unsigned_thinking(message: Message, history: History) -> Iterator[Fault]:
    """Each thinking block bears a signature."""
    if message.role == "assistant" and any(not signed(block) for block in message.blocks):
        yield Fault(message.at, f"message {message.at} holds thinking without a signature")


def signed(block: Json) -> bool:
    """Tell whether a block is no thinking, or has a signature."""
    signature = field(block, "signature")
    return kind(block) != "thinking" or (isinstance(signature, str) and signature != "")


@rules.end(SIGNED)
def changed_signatures(history: History, facts: Facts) -> Iterator[Fault]:
    """In older messages the signatures are those that were received."""
    for message, received in older(history, facts):
        known = _signatures(blocks_in(received))
        if any(one not in known for one in _signatures(message.blocks)):
            yield Fault(message.at, f"message {message.at} holds thinking with another signature than was received")


def older(history: History, facts: Facts) -> Iterator[tuple[Message, Json]]:
    """Yield the assistant messages before the latest whose content the journal holds, with that content."""
    for at in facts.remembered():
        message, received = history.assistant(at), facts.received(at)
        if message is not None and message is not history.last_assistant and is_list(received):
            yield message, received


def _signatures(blocks: tuple[Json, ...]) -> list[str]:
    return [field(b, "signature") for b in blocks if kind(b) == "thinking" and signed(b)]


@rules.end(
    Rule(
        "A26-thinking-leads",
        "reject",
        error="Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final "
        "`assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and "
        "`tool_result` blocks).",
        source="docs: extended-thinking; anthropics/claude-code#20705",
        repair="The block is restored from the journal; else send this turn with thinking disabled.",
    )
)
def bare_turn(history: History, facts: Facts) -> Iterator[Fault]:
    """With manual thinking the assistant turn that is still open starts with a thinking block."""
    first, last = history.loop, history.last
    if not facts.manual or first is None or last is None or first.thinks:
        return
    if last.role == "assistant" or history.ends_with_results:
        yield Fault(first.at, f"message {first.at} opens the turn without thinking, and thinking is manual")


@rules.end(
    Rule(
        "A27-thinking-foreign-model",
        "reject",
        error="Invalid `signature` in `thinking` block",
        source="docs: thinking (switching models); vybestack/llxprt-code#2335; anomalyco/opencode#6418; "
        "can1357/oh-my-pi#6379",
        repair="The thinking of the other model is left out.",
    )
)
def foreign_thinking(history: History, facts: Facts) -> Iterator[Fault]:
    """Thinking is that of the model which is asked next."""
    for at in facts.remembered():
        message = history.assistant(at)
        if message is not None and message.thinks and is_foreign(facts, at):
            yield Fault(at, f"message {at} holds thinking of another model than is asked")


def is_foreign(facts: Facts, at: int) -> bool:
    """Tell whether another model than the one that is asked next made a message."""
    model, made_by = field(facts.request, "model"), field(facts.told_of(at), "model")
    return isinstance(model, str) and isinstance(made_by, str) and made_by != model


SETTINGS = {
    "prefill-capable": "adaptive",
    "manual-thinking": "adaptive",
    "system-role-supported": "enabled",
}
"""The thinking type that a class of models does not know."""


@rules.end(
    Rule(
        "A28-thinking-config",
        "reject",
        error='"thinking.type.enabled" is not supported for this model. ...',
        also=(
            "adaptive thinking is not supported on this model",
            "Thinking may not be enabled when tool_choice forces tool use.",
        ),
        source="docs: thinking-troubleshooting, errors",
        repair="Derive the setting from the model that is asked, not from a stored request.",
    )
)
def wrong_setting(history: History, facts: Facts) -> Iterator[Fault]:
    """The thinking setting is one that the model knows, and manual thinking is not joined with a forced tool."""
    known = facts.model_class if isinstance(facts.model_class, str) else ""
    if facts.thinking is not None and facts.thinking == SETTINGS.get(known):
        yield Fault(0, f"the request sets thinking to {facts.thinking!a}, which this model does not take")
    elif facts.manual and field(field(facts.request, "tool_choice"), "type") in ("any", "tool"):
        yield Fault(0, "the request forces a tool, which manual thinking excludes")


@rules.end(
    Rule(
        "A56-thinking-constant-in-loop",
        "quality",
        error="",
        source="docs: thinking",
        repair="Keep the thinking setting of the turn until it ends.",
    )
)
def setting_changed(history: History, facts: Facts) -> Iterator[Fault]:
    """Thinking is not switched off between a call and its result."""
    last = history.last_assistant
    if facts.thinking == "disabled" and history.ends_with_results and last is not None and last.thinks:
        yield Fault(last.at, f"message {last.at} was thought about, and thinking is off for its results")


LEADS = Rule(
    "A58-thinking-first-in-message",
    "reject",
    error="messages.N.content.0: If an assistant message contains any thinking blocks, the first block must be "
    "`thinking` or `redacted_thinking`. Found `text`.",
    also=("messages.9.content.0.thinking.thinking: Field required",),
    source="anthropics/claude-code#20705; docs: extended-thinking",
    repair="The order is restored from the journal; else the thinking is left out. Blocks are never sorted.",
)


@rules.each(LEADS)
def thinking_without_text(message: Message, history: History) -> Iterator[Fault]:
    """A thinking block has its field `thinking`, which may be empty."""
    if message.role == "assistant" and any(not worded(block) for block in message.blocks):
        yield Fault(message.at, f"message {message.at} holds thinking without its field thinking")


def worded(block: Json) -> bool:
    """Tell whether a block is no thinking, or has its text."""
    return kind(block) != "thinking" or isinstance(field(block, "thinking"), str)


@rules.end(LEADS)
def thinking_behind(history: History, facts: Facts) -> Iterator[Fault]:
    """With manual thinking a message that holds thinking starts with it."""
    if facts.manual:
        for at, _ in history.marked("thinking behind"):
            yield Fault(at, f"message {at} holds thinking, and not in front")


@rules.each(
    Rule(
        "A59-thinking-not-last",
        "reject",
        error="messages.N: The final block in an assistant message cannot be `thinking`.",
        source="tailcallhq/forgecode#2107 and PR#3073; anthropics/claude-code#63374; tontinton/maki PR#807",
        repair="The turn was cut there: the thinking at its end is dropped.",
    )
)
def thinking_last(message: Message, history: History) -> Iterator[Fault]:
    """A message of the assistant does not end with thinking."""
    if message.thinks and is_thinking(message.blocks[-1]):
        yield Fault(message.at, f"message {message.at} ends with thinking")
