"""The rules of OpenAI Chat Completions that need to know about the request or the last response."""

from __future__ import annotations

from collections.abc import Iterator

from midstride.transcript.facts import Facts
from midstride.transcript.openai_chat.message import History, Message
from midstride.transcript.rules import Fault, Rule, Rules
from midstride.transcript.values import all_in, field, named

rules: Rules[Message, History] = Rules()


@rules.removal(
    Rule(
        "C13-length-stop",
        "harness",
        error="",
        source="OpenRouterTeam/typescript-agent PR#125; ahwurm/localharness#77",
        repair="The response is dropped and asked for again with more room; its calls are not run.",
    )
)
def truncated_calls(history: History, facts: Facts) -> Iterator[Fault]:
    """A response that was cut off for its length makes no calls: their arguments may not be complete."""
    last = history.last
    if last is not None and last.calls and facts.stopped("length"):
        what = f"message {last.at} was cut off, and its calls ({named(last.ids)}) must not run"
        yield Fault(last.at, what, last.ids)


REASONING = "C15-reasoning-content"


@rules.end(
    Rule(
        REASONING,
        "compat",
        error="Missing `reasoning_content` field in the assistant message at message index N.",
        source="deepseek-ai/DeepSeek-V3#1053; continuedev/continue#10193",
        repair="The field is restored from the journal; else it is an empty string.",
    )
)
def lost_reasoning(history: History, facts: Facts) -> Iterator[Fault]:
    """For DeepSeek's thinking each assistant message of the current turn keeps its reasoning_content."""
    if not facts.asks(REASONING, "compat"):
        return
    for at in history.marked("no reasoning"):
        if _for(facts, "deepseek-thinking") or isinstance(field(facts.told_of(at), "reasoning_content"), str):
            yield Fault(at, f"message {at} has lost its reasoning_content")


def _for(facts: Facts, profile: str) -> bool:
    # A strict target is not known to think: there only what was received can be missing.
    return bool(field(facts.request, "profile") == profile)


SIGNATURE = "C16-thought-signature"


@rules.end(
    Rule(
        SIGNATURE,
        "compat",
        error="Function call is missing a thought_signature in functionCall parts.",
        source="google-gemini/gemini-cli PR#28607; microsoft/agent-framework#6963",
        repair="The signature is restored from the journal; without it nothing can be done here.",
    )
)
def lost_signatures(history: History, facts: Facts) -> Iterator[Fault]:
    """For Gemini 3 the calls of the current turn keep their thought signature."""
    if not facts.asks(SIGNATURE, "compat"):
        return
    for at in history.marked("no signature"):
        if _for(facts, "gemini-3") or all_in(field(facts.told_of(at), "extra_content"), "thought_signature"):
            yield Fault(at, f"message {at} has lost the thought signature of its calls")


@rules.end(
    Rule(
        "G05-opaque-bytes",
        "reject",
        error="Invalid `signature` in `thinking` block",
        source="openclaw/openclaw#90093; code-yeongyu/senpi PR#150; docs: thinking",
        repair="The signature is restored from the journal.",
    )
)
def changed_signatures(history: History, facts: Facts) -> Iterator[Fault]:
    """A thought signature is sent back to the byte."""
    for at in facts.remembered():
        known = all_in(field(facts.told_of(at), "extra_content"), "thought_signature")
        for message in history.signed.all(at) if known and at < history.count else ():
            if any(one not in known for one in message):
                yield Fault(at, f"message {at} has a thought signature that differs from what was received")
