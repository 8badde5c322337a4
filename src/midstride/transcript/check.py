"""The check of a transcript: whether the next request would be accepted, and whether it should be sent.

A message is read once, when it is added; what it costs does not depend on how many stand before it. What a later
message may mend is judged anew before each request, and that is only the open end of the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from midstride.transcript import anthropic, openai_chat, openai_responses
from midstride.transcript.facts import Facts
from midstride.transcript.finding import Finding
from midstride.transcript.rules import End, Fault, Provider, Rule
from midstride.transcript.values import Json, is_list, unique

PROVIDERS: dict[str, Provider[Any, Any]] = {
    "anthropic": anthropic.PROVIDER,
    "openai-chat": openai_chat.PROVIDER,
    "openai-responses": openai_responses.PROVIDER,
}

Found = list[tuple[Rule, Fault]]


def check(messages: Json, *, provider: str, request: Json = None, journal: Json = None) -> list[Finding]:
    """Return what is wrong with a transcript, by place; an empty list means that every rule holds.

    *request* and *journal* hold the facts that some rules need; where one is absent these rules are silent. Any JSON
    value can be checked. Raises ValueError for a provider without rules.
    """
    checker = Checker(provider)
    for message in _listed(messages):
        checker.add(message)
    return checker.findings(request, journal)


class Checker:
    """A transcript that is checked while it grows: each message once, when it is added.

    A message must not be changed after that. Raises ValueError for a provider without rules.
    """

    def __init__(self, provider: str) -> None:
        if provider not in PROVIDERS:
            raise ValueError(f"there are no rules for provider {provider!r}; there are for {', '.join(PROVIDERS)}")
        self._name = provider
        self._provider = PROVIDERS[provider]
        self._now = self._before = self._provider.begin()  # of all messages; of all but the last
        self._settled: Found = []  # faults of all messages but the last: nothing that is added mends them
        self._newest: Found = []  # faults that came with the last message, and would go with it
        self._count = 0

    def add(self, message: Json) -> None:
        """Add a message at the end and check it."""
        read = self._provider.read(self._count, message)
        self._settled += self._newest
        self._newest = self._waiting(self._now, read)
        self._newest += [
            (rule, fault) for rule, holds in self._provider.rules.at_each for fault in holds(read, self._now)
        ]
        self._before, self._now = self._now, self._provider.after(self._now, read)
        self._count += 1

    def findings(self, request: Json = None, journal: Json = None, *, tail: Json = ()) -> list[Finding]:
        """Return what is wrong with all messages so far, and with those of *tail* behind them, by place.

        The tail is checked for this answer only and forgotten. The facts are those of `check`.
        """
        extra = _listed(tail)
        if extra:
            longer = self._branch()
            for message in extra:
                longer.add(message)
            return longer.findings(request, journal)
        facts = Facts.told(request, journal)
        removed = self._ending(self._now, facts, self._provider.rules.at_removal)
        if removed:
            return self._judged(self._before, replace(facts, removed=True), self._settled + removed)
        return self._judged(self._now, facts, self._settled + self._newest)

    def _judged(self, history: Any, facts: Facts, found: Found) -> list[Finding]:
        found = found + self._waiting(history, None) + self._ending(history, facts, self._provider.rules.at_end)
        hidden_before = self._provider.hidden_before(history)
        told: dict[tuple[int, str], Finding] = {}  # a rule that two moments decide is told once
        for rule, fault in found:
            finding = rule.finding(fault, hidden_before)
            first = told.setdefault((fault.at, rule.name), finding)
            told[fault.at, rule.name] = replace(first, ids=unique((*first.ids, *fault.ids)))
        return [told[place] for place in sorted(told)]

    def _waiting(self, history: Any, following: Any) -> Found:
        rows = self._provider.rules.at_next
        return [(rule, fault) for rule, holds in rows for fault in holds(history, following)]

    def _ending(self, history: Any, facts: Facts, rows: Sequence[tuple[Rule, End[Any]]]) -> Found:
        return [(rule, fault) for rule, holds in rows for fault in holds(history, facts)]

    def _branch(self) -> Checker:
        branch = Checker(self._name)
        branch._now = self._provider.branch(self._now)
        branch._settled = self._settled + self._newest
        branch._count = self._count
        return branch


def _listed(messages: Json) -> Json:
    # What is no list is read as one message that is none, so that a lone message is not taken for a transcript.
    return messages if is_list(messages) else [[messages]]
