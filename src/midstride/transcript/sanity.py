"""The mends of G01 to G03, for any provider."""

from __future__ import annotations

from midstride.transcript.draft import Draft, backwards
from midstride.transcript.finding import Finding
from midstride.transcript.values import rebuilt, sane

RULES = ("G01", "G02", "G03")


def clean(draft: Draft, findings: list[Finding]) -> None:
    """Replace what no JSON text may hold."""
    for finding in backwards(findings):
        made = rebuilt(draft.messages[finding.at], sane)
        what = "Halves of surrogate pairs and U+0000 became U+FFFD, and numbers that are none became words."
        draft.change(finding.at, made, what, finding)


NAMES = {
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "human": "user",
    "Human": "user",
    "Assistant": "assistant",
    "User": "user",
    "System": "system",
}
"""Roles by other names, as other stores write them."""
