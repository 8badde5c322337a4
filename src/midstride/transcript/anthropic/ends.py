"""How a list may begin and end, and what the stop reason of its last response says about that.

A response that was cut off or refused counts as removed for all other rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from midstride.transcript.anthropic.history import History
from midstride.transcript.anthropic.kinds import SERVER_CALLS, id_of, is_server_result, kind
from midstride.transcript.anthropic.message import Message, blocks_in, ids_in
from midstride.transcript.facts import Facts
from midstride.transcript.rules import Fault, Rule, Rules
from midstride.transcript.values import field, is_list, named, same, unique

rules: Rules[Message, History] = Rules()


@rules.each(
    Rule(
        "A08-first-message-user",
        "reject",
        error='messages: first message must use the "user" role',
        source="docs: messages/create; posit-dev/py-shiny PR#1530",
        repair="A short user message is put in front, which says that the beginning is left out.",
        pairing=True,
    )
)
def first_is_not_the_users(message: Message, history: History) -> Iterator[Fault]:
    """The first message is the user's, or holds the compaction block with which the list starts."""
    # A system message in front has another fault (A21), and another answer from the API.
    if message.at == 0 and message.role not in ("user", "system") and not message.compacts:
        yield Fault(0, f"message 0 is not the user's but has {_role(message)}")


def _role(message: Message) -> str:
    return f"the role {message.role!a}" if message.role else "no role"


@rules.end(
    Rule(
        "A09-no-prefill",
        "reject",
        error="This model does not support assistant message prefill. The conversation must end with a user message.",
        source="docs: working-with-messages, handling-stop-reasons; cortexkit/magic-context#511",
        repair="After end_turn the task is finished and nothing is to be sent; else the user says to continue.",
    )
)
def prefill(history: History, facts: Facts) -> Iterator[Fault]:
    """The list does not end with the assistant, where the model or its thinking takes no prefill."""
    last = history.last
    # Where the last response counts as removed, A50 or A52 has said what is wrong with this end.
    if last is None or last.role != "assistant" or facts.removed or not _refuses_prefill(facts):
        return
    if last.at in history.unanswered() or _ended_empty(last, facts) or _sent_back(history, last, facts):
        return
    yield Fault(last.at, f"the list ends with message {last.at} of the assistant, and the model continues none")


def _refuses_prefill(facts: Facts) -> bool:
    return facts.thinking_on or facts.model_class in ("no-prefill", "system-role-supported")


def _ended_empty(last: Message, facts: Facts) -> bool:
    # This is A55, and the message should not be kept at all.
    return last.empty and facts.stopped("end_turn")


def _sent_back(history: History, last: Message, facts: Facts) -> bool:
    # A paused response is continued by sending it back unchanged, one that only compacted likewise. Where nobody says
    # how it ended, an open call of a server tool tells that it is paused.
    if facts.stop_untold:
        return bool(_open_server_calls(last))
    return facts.stopped("compaction") or (facts.stopped("pause_turn") and not _differs(history, facts))


def _open_server_calls(message: Message) -> set[str]:
    asked = {id_of(block) for block in message.blocks if kind(block) in SERVER_CALLS}
    return asked - {id_of(block) for block in message.blocks if is_server_result(block)}


@rules.removal(
    Rule(
        "A50-truncated-call",
        "harness",
        error="",
        source="docs: handling-stop-reasons; earendil-works/pi#6284; DataDog/integrations-core PR#24260",
        repair="The response is dropped and asked for again with more room; its calls are not run.",
    )
)
def truncated_call(history: History, facts: Facts) -> Iterator[Fault]:
    """A response that was cut off does not end with a call: its input is not complete, even if it parses."""
    last = history.last
    if last is None or last.role != "assistant" or not last.blocks or kind(last.blocks[-1]) != "tool_use":
        return
    if facts.stopped("max_tokens", "model_context_window_exceeded", None):
        ids = ids_in(last.blocks[-1:], "tool_use", "id")
        yield Fault(
            last.at, f"message {last.at} was cut off inside its last call ({named(ids)}), which must not run", ids
        )


@rules.end(
    Rule(
        "A51-pause-turn",
        "harness",
        error="",
        source="docs: handling-stop-reasons; gsd-build/gsd-2 PR#3248",
        repair="The response is restored from the journal and sent back with the same tools.",
    )
)
def changed_pause(history: History, facts: Facts) -> Iterator[Fault]:
    """A paused response is sent back as it came."""
    last = history.last_assistant
    if last is not None and facts.stopped("pause_turn") and _differs(history, facts):
        yield Fault(last.at, f"message {last.at} is a paused response and differs from what was received")


def _differs(history: History, facts: Facts) -> bool:
    last = history.last_assistant
    received = None if last is None else facts.received(last.at)
    if last is None or not (isinstance(received, str) or is_list(received)):
        return False
    return not same(last.blocks, blocks_in(received))


@rules.removal(
    Rule(
        "A52-refusal",
        "harness",
        error="",
        source="docs: refusals-and-fallback; griffinwork40/agent-afk PR#290",
        repair="The response is dropped. Mark the run as refused and do not ask again as it is.",
    )
)
def refused_response(history: History, facts: Facts) -> Iterator[Fault]:
    """A refused response is not kept, nor are its calls run."""
    last = history.last
    if last is not None and last.role == "assistant" and facts.stopped("refusal"):
        yield Fault(last.at, f"message {last.at} is a refused response, which must not be used", unique(last.calls))


@rules.end(
    Rule(
        "A13-final-assistant-no-trailing-space",
        "reject",
        error="messages: final assistant content cannot end with trailing whitespace",
        source="docs: working-with-messages",
        repair="The text is trimmed at its right end.",
    )
)
def trailing_space(history: History, facts: Facts) -> Iterator[Fault]:
    """Where the model takes a prefill, the text that it continues does not end with white space."""
    last = history.last
    if last is None or last.role != "assistant" or facts.removed or facts.thinking_on or not last.blocks:
        return
    text = field(last.blocks[-1], "text") if kind(last.blocks[-1]) == "text" else None
    if facts.model_class in ("prefill-capable", "manual-thinking") and isinstance(text, str) and text != text.rstrip():
        yield Fault(last.at, f"the list ends with message {last.at} of the assistant, and that with white space")


@rules.end(
    Rule(
        "A55-empty-end-turn",
        "harness",
        error="",
        also=("messages.N: all messages must have non-empty content except for the optional final assistant message",),
        source="docs: handling-stop-reasons (empty responses)",
        repair="The message is dropped. The task is done, or the user asks once more.",
    )
)
def empty_end(history: History, facts: Facts) -> Iterator[Fault]:
    """A response that ended the turn without content is not kept."""
    last = history.last
    if last is not None and last.role == "assistant" and not facts.removed and _ended_empty(last, facts):
        yield Fault(last.at, f"message {last.at} ended the turn without content")


# ---- messages of the system in the list


SYSTEM = Rule(
    "A21-system-role-position",
    "reject",
    error='Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system" as an input '
    "message role.",
    also=("messages.0: use the top-level 'system' parameter for the initial system prompt; ...",),
    source="docs: mid-conversation-system-messages; LeenHawk/gproxy#209",
    repair="The message is moved behind the next user turn where the model takes it, else into the top-level system.",
)


@rules.each(SYSTEM)
def system_out_of_place(message: Message, history: History) -> Iterator[Fault]:
    """A system message stands behind a user turn, or an assistant turn that ends with a server's result."""
    if message.role == "system" and not _may_follow(history.last):
        yield Fault(message.at, f"message {message.at} of the system stands in the wrong place")


def _may_follow(last: Message | None) -> bool:
    if last is None:
        return False
    ends_served = last.role == "assistant" and bool(last.blocks) and is_server_result(last.blocks[-1])
    return last.role == "user" or ends_served


@rules.next(SYSTEM)
def system_before_the_user(history: History, following: Message | None) -> Iterator[Fault]:
    """A system message is the last, or an assistant message follows."""
    last = history.last
    if last is not None and last.role == "system" and following is not None and following.role != "assistant":
        yield Fault(last.at, f"message {last.at} of the system is not followed by the assistant")


@rules.end(SYSTEM)
def system_not_taken(history: History, facts: Facts) -> Iterator[Fault]:
    """Only models that support it take a system message inside the list."""
    if facts.model_class in ("prefill-capable", "manual-thinking"):
        for at, _ in history.marked("system"):
            yield Fault(at, f"message {at} has the role system, which this model does not take in the list")
