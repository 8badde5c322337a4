"""What a rule is, and the table in which a provider's rules stand, by the moment at which each can be decided.

A rule is one small function below a decorator that gives its name, its level, what the API answers, the source, and
what mends it; its docstring says what must hold. A function yields at most one fault for a message. The moments:

    each     when a message is added: what the message and all before it tell; never looked at again
    next     when the message behind it is known (None: there is none yet): what a later message may still mend
    end      before a request: how the list ends, and what the facts say
    removal  the same, and before all others: the last message counts as taken out of the list for every other rule
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from midstride.transcript.facts import Facts
from midstride.transcript.finding import Finding, Level
from midstride.transcript.values import Json

M = TypeVar("M")
"""A provider's message as its rules read it."""
H = TypeVar("H")
"""What a provider's rules need to know about all messages up to here."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule broken at message *at*: *what* is wrong and where, as the first half of a sentence.

    *level* is given where it is not the rule's own.
    """

    at: int
    what: str
    ids: tuple[str, ...] = ()
    level: Level | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """What is said about a rule: *error* is what the API answers, "" if it cannot see the fault.

    *also* are other wordings of the answer, *repair* is what mends the fault, in a sentence. *pairing*: a fault in
    front of a compaction block counts less.
    """

    name: str
    level: Level
    error: str
    source: str
    repair: str
    also: tuple[str, ...] = ()
    pairing: bool = False

    def finding(self, fault: Fault, hidden_before: int) -> Finding:
        """Return the finding for a fault; in front of a compaction block a pairing fault is level quality (A48).

        *hidden_before* is the message with that block, or 0.
        """
        if self.pairing and fault.at < hidden_before:
            after = f"the API ignores what stands before the compaction block of message {hidden_before}"
            return Finding(self.name, "quality", fault.at, fault.ids, f"{fault.what}; {after}.")
        level = fault.level or self.level
        return Finding(self.name, level, fault.at, fault.ids, f"{fault.what}; {self._answer(level)}.")

    def _answer(self, level: Level) -> str:
        if level == "quality":
            return "the API accepts this, at a loss"
        if not self.error:
            return "the API cannot see this" if level == "harness" else "the API refuses this"
        return f"{'strict servers answer' if level == 'compat' else 'the API answers'}: {self.error.rstrip('.')}"


Faults = Iterable[Fault]
Each = Callable[[M, H], Faults]
Next = Callable[[H, M | None], Faults]
End = Callable[[H, Facts], Faults]
F = TypeVar("F", bound=Callable[..., Faults])


class Rules(Generic[M, H]):
    """A table of rules, one list a moment; each method is the decorator that enters a function.

    A rule that can be decided at several moments has one function for each.
    """

    def __init__(self, *tables: Rules[M, H]) -> None:
        self.at_each: list[tuple[Rule, Each[M, H]]] = [row for table in tables for row in table.at_each]
        self.at_next: list[tuple[Rule, Next[H, M]]] = [row for table in tables for row in table.at_next]
        self.at_end: list[tuple[Rule, End[H]]] = [row for table in tables for row in table.at_end]
        self.at_removal: list[tuple[Rule, End[H]]] = [row for table in tables for row in table.at_removal]

    def each(self, rule: Rule) -> Callable[[Each[M, H]], Each[M, H]]:
        """Enter a rule that a message and those before it decide for good."""
        return _entered(self.at_each, rule)

    def next(self, rule: Rule) -> Callable[[Next[H, M]], Next[H, M]]:
        """Enter a rule that waits for the message behind."""
        return _entered(self.at_next, rule)

    def end(self, rule: Rule) -> Callable[[End[H]], End[H]]:
        """Enter a rule about the end of the list, or about what the facts say."""
        return _entered(self.at_end, rule)

    def removal(self, rule: Rule) -> Callable[[End[H]], End[H]]:
        """Enter a rule by which the last message counts as removed."""
        return _entered(self.at_removal, rule)

    def stated(self) -> dict[str, tuple[Rule, list[str]]]:
        """Return the rules by name, each with the sentences of its functions."""
        found: dict[str, tuple[Rule, list[str]]] = {}
        for table in (self.at_each, self.at_next, self.at_end, self.at_removal):
            for rule, function in table:
                found.setdefault(rule.name, (rule, []))[1].append(function.__doc__ or "")
        return dict(sorted(found.items()))


def _entered(rows: list[tuple[Rule, F]], rule: Rule) -> Callable[[F], F]:
    def enter(function: F) -> F:
        rows.append((rule, function))
        return function

    return enter


@dataclass(frozen=True, slots=True)
class Provider(Generic[M, H]):
    """What the check needs from a provider: how its messages are read and remembered, and its rules.

    *after* returns the history with one more message; *branch* one that can grow without changing its origin.
    """

    read: Callable[[int, Json], M]
    begin: Callable[[], H]
    after: Callable[[H, M], H]
    branch: Callable[[H], H]
    hidden_before: Callable[[H], int]
    rules: Rules[M, H]
