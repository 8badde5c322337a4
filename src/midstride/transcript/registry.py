"""All rules with what is said about each: for pages about them, and for whoever shows a finding."""

from __future__ import annotations

from dataclasses import dataclass

from midstride.transcript.check import PROVIDERS
from midstride.transcript.finding import Finding, Level
from midstride.transcript.repair import UNMENDABLE


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule of one provider: what must hold (*says*), what the API answers, what mends it, and where it is from.

    *unless* says when no change of the messages mends it, "" if one always does.
    """

    name: str
    level: Level
    says: tuple[str, ...]
    errors: tuple[str, ...]
    repair: str
    unless: str
    source: str


def entries(provider: str) -> list[Entry]:
    """Return the rules of a provider by name."""
    return [
        Entry(
            rule.name,
            rule.level,
            tuple(says),
            tuple(error for error in (rule.error, *rule.also) if error),
            rule.repair,
            UNMENDABLE.get(rule.name, ""),
            rule.source,
        )
        for rule, says in PROVIDERS[provider].rules.stated().values()
    ]


def remedy(finding: Finding, provider: str) -> str:
    """Return what mends a finding, in a sentence or two."""
    return next(entry.repair for entry in entries(provider) if entry.name == finding.rule)
