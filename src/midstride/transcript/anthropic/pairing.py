"""Calls and their results: every tool_use is answered, once, in the next turn, in front of everything else.

The rules compare bare ids, as the API does. Who mends a transcript identifies a call by message, index and id.
"""

from __future__ import annotations

from collections.abc import Iterator

from midstride.transcript.anthropic import kinds
from midstride.transcript.anthropic.history import History
from midstride.transcript.anthropic.kinds import is_call, is_other, is_result
from midstride.transcript.anthropic.message import Message
from midstride.transcript.facts import Facts
from midstride.transcript.rules import Fault, Rule, Rules
from midstride.transcript.values import field, is_word, named, unique

rules: Rules[Message, History] = Rules()


@rules.next(
    Rule(
        "A01-unanswered-tool-use",
        "reject",
        error="messages.N: `tool_use` ids were found without `tool_result` blocks immediately after: <ids>. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message.",
        also=("Did not find 1 `tool_result` block(s) at the beginning of this message",),
        source="docs: handle-tool-calls, parallel-tool-use, troubleshooting-tool-use; "
        "anthropics/claude-code#2039, #5989",
        repair="Each call without a result gets the recorded one, or one that says honestly what is known, in front of "
        "the next user message, which is made if there is none.",
        pairing=True,
    )
)
def unanswered_calls(history: History, following: Message | None) -> Iterator[Fault]:
    """Every call of an assistant turn has a result in the user turn right behind it."""
    if following is not None and _still_open(history, following):
        return
    for at, missing in history.unanswered().items():
        ids = unique(missing)
        yield Fault(at, f"message {at} calls {named(ids)} and the next message holds no result for it", ids)


def _still_open(history: History, following: Message) -> bool:
    answers = history.turn.role == "assistant" and following.role == "user"
    return answers or history.joins(following)


@rules.each(
    Rule(
        "A02-orphan-tool-result",
        "reject",
        error="messages.N.content.M: unexpected `tool_use_id` found in `tool_result` blocks: <id>. Each `tool_result` "
        "block must have a corresponding `tool_use` block in the previous message.",
        source="anthropics/claude-code#13460, #18947; OpenHands/OpenHands#7512",
        repair="The call is restored from the journal, or the result is moved next to its call; where there is no such "
        "call it is dropped. It is never made a text, which would have the user's authority.",
        pairing=True,
    )
)
def orphaned_results(message: Message, history: History) -> Iterator[Fault]:
    """Every result answers a call of the assistant turn right before it."""
    asked = history.asked_before(message)
    ids = unique(one for one in message.results if one not in asked and not _of_server(one, history))
    if ids:
        what = f"message {message.at} holds a result for {named(ids)}, which the previous message does not call"
        yield Fault(message.at, what, ids)


def _of_server(one: str, history: History) -> bool:
    return one.startswith(kinds.SERVER_IDS) or ("server", one) in history.marks


@rules.each(
    Rule(
        "A34-no-client-result-for-server-call",
        "reject",
        error="messages.N.content.M: unexpected `tool_use_id` found in `tool_result` blocks: srvtoolu_...",
        source="docs: server-tools; vellum-ai/vellum-assistant PR#15911",
        repair="The result is dropped: the server answers its own calls when the response is sent back.",
    )
)
def results_for_the_server(message: Message, history: History) -> Iterator[Fault]:
    """No result of ours answers a call of a server tool (srvtoolu_, mcptoolu_)."""
    asked = history.asked_before(message)
    ids = unique(one for one in message.results if one not in asked and _of_server(one, history))
    if ids:
        yield Fault(message.at, f"message {message.at} answers {named(ids)}, a call that the server answers", ids)


@rules.each(
    Rule(
        "A03-results-first",
        "reject",
        error="messages.N: `tool_use` ids were found without `tool_result` blocks immediately after",
        source="docs: handle-tool-calls (formatting requirements)",
        repair="The results are moved in front of the other blocks, all in their old order.",
        pairing=True,
    )
)
def late_results(message: Message, history: History) -> Iterator[Fault]:
    """In a user turn the results that answer its calls come before any other block."""
    asked = history.asked_before(message)
    other = history.joins(message) and history.turn.other
    late = []
    for block in message.blocks if message.results else ():
        one = field(block, "tool_use_id") if is_result(block) else None
        if other and isinstance(one, str) and one in asked:
            late.append(one)
        other = other or is_other(block)
    if late:
        ids = unique(late)
        yield Fault(message.at, f"message {message.at} holds the result for {named(ids)} behind another block", ids)


@rules.each(
    Rule(
        "A04-unique-tool-use-id",
        "reject",
        error="messages.N.content.M: `tool_use` ids must be unique",
        source="anthropics/claude-code#28515, #20901; QwenLM/qwen-code#8382; echoVic/orca-agent#67",
        repair="A copy of a whole message is dropped with its results, a copy of a block within a message too. Another "
        "call under the same id gets an id of its own, and its result with it.",
    )
)
def repeated_calls(message: Message, history: History) -> Iterator[Fault]:
    """The id of a call is used once in the whole request; the first use is right."""
    ids = _repeated(message.calls, "call", history)
    if ids:
        yield Fault(message.at, f"message {message.at} uses {named(ids)} for a call once more", ids)


@rules.each(
    Rule(
        "A05-one-result-per-call",
        "reject",
        error="each tool_use must have a single result. Found multiple `tool_result` blocks with id: <id>",
        source="anthropics/claude-code#29779; CopilotKit/CopilotKit#6201",
        repair="The real result is kept, placeholders and repeats are dropped; of two real ones the first is kept.",
        pairing=True,
    )
)
def repeated_results(message: Message, history: History) -> Iterator[Fault]:
    """An id has one result in the whole request; the first is right."""
    ids = _repeated(message.results, "result", history)
    if ids:
        yield Fault(message.at, f"message {message.at} holds one more result for {named(ids)}", ids)


def _repeated(ids: tuple[str, ...], topic: str, history: History) -> tuple[str, ...]:
    seen: set[str] = set()
    again = []
    for one in ids:
        if one in seen or (topic, one) in history.marks:
            again.append(one)
        seen.add(one)
    return unique(again)


@rules.each(
    Rule(
        "A06-results-in-one-message",
        "quality",
        error="",
        also=("strict servers: the texts of A01 or A07",),
        source="docs: parallel-tool-use; MoonshotAI/kosong#45; agentscope-ai/agentscope#1892",
        repair="The messages are merged, where a strict target asks for it or the model has not answered them yet.",
    )
)
def split_results(message: Message, history: History) -> Iterator[Fault]:
    """All results of one assistant turn travel in one user message."""
    if not history.joins(message):
        return
    asked = history.before.asked
    ids = unique(one for one in message.results if one in asked)
    if ids and not history.turn.answered.isdisjoint(asked):
        yield Fault(message.at, f"message {message.at} holds {named(ids)} apart from the results before it", ids)


NEIGHBOURS = "A07-role-alternation"


@rules.end(
    Rule(
        NEIGHBOURS,
        "compat",
        error='messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row',
        source="docs: messages/create (consecutive turns are combined); microsoft/amplifier#217",
        repair="For a strict target neighbours of one role are merged, results first.",
    )
)
def neighbours_of_one_role(history: History, facts: Facts) -> Iterator[Fault]:
    """For a strict target the roles user and assistant alternate; the first-party API joins neighbours."""
    if facts.asks(NEIGHBOURS, "compat"):
        for at, role in history.marked("neighbour"):
            yield Fault(at, f"message {at} has the role of the message before it, {role!a}")


PATTERN = Rule(
    "A14-id-pattern",
    "reject",
    error="messages.N.content.M.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    also=("tool_result.tool_use_id: Field required",),
    source="OpenSecretCloud/maple-proxy#18; huggingface/tau#385; lidge-jun/opencodex PR#1780",
    repair="Each such id is replaced by one of its own, in the call and its result alike; no two become equal.",
)


@rules.each(PATTERN)
def wrong_ids(message: Message, history: History) -> Iterator[Fault]:
    """The id of a call and of a result is a string of letters, digits, _ and -, and not empty."""
    found = [field(block, "id") for block in message.blocks if message.role == "assistant" and is_call(block)]
    found += [field(block, "tool_use_id") for block in message.blocks if message.role == "user" and is_result(block)]
    wrong = [one for one in found if not is_word(one)]
    if wrong:
        ids = unique(one for one in wrong if isinstance(one, str))
        yield Fault(message.at, f"message {message.at} holds a call or result with the id {_shown(wrong[0])}", ids)


def _shown(one: object) -> str:
    return ascii(one[:80]) if isinstance(one, str) else f"(none: a {type(one).__name__})"
