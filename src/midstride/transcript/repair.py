"""The repair of a transcript: the smallest honest changes after which the API takes it.

In order of strength: restored from the journal; a recorded result; an honest result of our own; moved; dropped with a
note. Nothing valid is touched, no real result is lost, no call that may have had an effect is deleted, and no success
is invented.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from midstride.transcript import anthropic, openai_chat, openai_responses
from midstride.transcript.check import check
from midstride.transcript.draft import Change, Draft, Mends
from midstride.transcript.facts import Facts
from midstride.transcript.finding import Finding
from midstride.transcript.values import Json, is_list

MENDS: dict[str, Mends] = {
    "anthropic": anthropic.MENDS,
    "openai-chat": openai_chat.MENDS,
    "openai-responses": openai_responses.MENDS,
}

PASSES_MAX = 100
"""Rounds of check and mend; a list with every fault at once takes some thirty."""

UNMENDABLE = {
    "A09-no-prefill": "The task is finished: return the stored answer and do not ask again.",
    "A26-thinking-leads": "The thinking is lost: send this turn with thinking disabled.",
    "A28-thinking-config": "The fault is in the request's thinking setting.",
    "A29-cache-max-4": "The fault is in the markers of tools and system.",
    "A30-cache-placement": "The fault is in the marker of a deferred tool.",
    "A31-cache-ttl-order": "The fault is in the markers of tools and system.",
    "A38-programmatic-reply": "The container's id has to be sent.",
    "A39-container-alive": "The fault is in the request's container.",
    "A46-request-size": "What can go is for the program to say: compact.",
    "A47-context-window": "What can go is for the program to say: compact.",
    "A57-tool-definitions": "The fault is in the request's tools.",
    "R01-unanswered-call": "A computer call wants a real screenshot: take one.",
    "R06-stored-items-only": "The chain is lost: send the full list.",
    "R11-one-state-source": "The request names two sources of state: choose one.",
    "R16-paired-kinds": "A person has to acknowledge the safety check.",
}
"""Rules that no change of the messages may mend, in the case that the sentence names: do not send, tell it."""


@dataclass(frozen=True, slots=True)
class Repair:
    """The repaired *messages*, the very list that was given if nothing was changed, and the *changes*.

    *findings* are what is still to be said of the result; with one of level reject among them it must not be sent.
    *held* are messages to be sent once the open turn has ended, *system* is what belongs into the top-level system
    prompt. *made* has the ids of the calls that were answered with *unknown*, since nobody recorded their results.
    *request* and *journal* are the facts as they hold for the result.
    """

    messages: Json
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]
    held: tuple[Json, ...]
    system: tuple[Json, ...]
    made: frozenset[str]
    request: Mapping[str, Json]
    journal: Mapping[str, Json]


def repair(
    messages: Json, *, provider: str, request: Json = None, journal: Json = None, results: Json = None
) -> Repair:
    """Return a transcript that the API takes, and what was changed for that.

    *results* maps the id of a call to its recorded result: the content, or an object with `content` and `is_error`, or
    {"state": "not started" | "unknown" | "denied" | "lost"}. A call of which nothing is recorded gets the result
    *unknown*. The facts are those of `check`. Any JSON value can be given. Raises ValueError for a provider without
    rules.
    """
    given = messages if is_list(messages) else _listed(messages)
    draft = Draft(given, request, journal, results)
    found = check(given, provider=provider, request=request, journal=journal)
    facts = draft.facts
    while draft.passes < PASSES_MAX and _mended(draft, found, facts, MENDS[provider]):
        facts = draft.facts
        found = check(draft.messages, provider=provider, request=facts.request, journal=facts.journal)
    return Repair(
        draft.messages if draft.changes else given,
        tuple(draft.changes),
        tuple(found),
        tuple(draft.held),
        tuple(draft.system),
        frozenset(draft.made),
        facts.request,
        facts.journal,
    )


def _listed(value: Json) -> Json:
    # A lone message is a list of one; anything else is no transcript and holds nothing that could be kept.
    return [value] if isinstance(value, Mapping) else []


CHEAP = ("A06", "A24")
"""Rules of level quality that are mended in the part that the model has not answered yet."""


def wanted(finding: Finding, facts: Facts, answered: int) -> bool:
    """Tell whether a finding is to be mended: a fault is, a loss only where nothing *answered* is rewritten for it."""
    if finding.level in ("reject", "harness") or facts.asks(finding.rule, finding.level):
        return True
    return finding.level == "quality" and finding.rule[:3] in CHEAP and finding.at >= answered


def _mended(draft: Draft, found: list[Finding], facts: Facts, mends: Mends) -> bool:
    answered = mends.answered(draft.messages)
    findings = [one for one in found if wanted(one, facts, answered)]
    before = draft.moves
    draft.passes += 1
    for rules, mend in mends.rows:
        mine = [one for one in findings if one.rule[:3] in rules]
        if mine:
            mend(draft, mine)
        if draft.moves > before:
            return True
    return False
