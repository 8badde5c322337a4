"""G01 to G03: what every value of a message must satisfy before its meaning counts, for any provider.

Of the other generic rules G04 to G06 stand with each provider's kinds. G07 (the journal keeps responses verbatim) and
G08 (an answer 400 is never simply sent again) are promises of the loop; no transcript shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from midstride.transcript.rules import Fault, Rule, Rules
from midstride.transcript.values import Json, half_pair, leaves_in, unique


@dataclass(frozen=True, slots=True)
class Scan:
    """What one walk through a value has seen.

    *half* is what is around half of a surrogate pair, *nul* and *endless* (NaN, Infinity) tell whether there is one,
    *longest* is the length of the longest string, *size* less than what the value takes as JSON text.
    """

    half: str | None = None
    nul: bool = False
    endless: bool = False
    longest: int = 0
    size: int = 0

    @classmethod
    def of(cls, value: Json) -> Scan:
        """Walk through a value."""
        half, nul, endless, longest, size = None, False, False, 0, 2
        for leaf in leaves_in(value):
            if isinstance(leaf, str):
                size += 3 + len(leaf)
                longest = max(longest, len(leaf))
                nul = nul or "\0" in leaf
                half = half or half_pair(leaf)
            else:
                size += 2
                endless = endless or (isinstance(leaf, float) and not _finite(leaf))
        return cls(half, nul, endless, longest, size)


def _finite(number: float) -> bool:
    return number - number == 0


class Scanned(Protocol):
    """A message as the rules of this file read it."""

    @property
    def at(self) -> int:
        """Its place in the list."""

    @property
    def scan(self) -> Scan:
        """What a walk through it has seen."""


HALF = Rule(
    "G01-valid-json-utf8",
    "reject",
    error="The request body is not valid JSON: no low surrogate in string: line 1 column N (char N)",
    source="anthropics/claude-code#69927, #68325; RFC 8259 sec. 8",
    repair="Each half of a surrogate pair becomes U+FFFD. Cut text between code points only.",
)
NUL = Rule(
    "G02-nul-in-text",
    "compat",
    error="unsupported Unicode escape sequence",
    also=("\\u0000 cannot be converted to text",),
    source="Autumn-27/ARTEX#112",
    repair="For a strict target U+0000 becomes U+FFFD. Replace it where a tool's result comes in.",
)
ENDLESS = Rule(
    "G03-finite-numbers",
    "reject",
    error="",
    source="RFC 8259 sec. 6",
    repair="NaN and Infinity become strings. Refuse them where a tool's result comes in.",
)


def rules_for(parts: Callable[[Any], list[tuple[str, Json]]]) -> Rules[Any, Any]:
    """Return the rules of this file for messages whose *parts* are known by an id."""
    rules: Rules[Scanned, object] = Rules()

    def where(message: Scanned, seen: Callable[[Scan], object]) -> tuple[str, ...]:
        return unique(one for one, value in parts(message) if one and seen(Scan.of(value)))

    @rules.each(HALF)
    def half_surrogate_pairs(message: Scanned, history: object) -> Iterator[Fault]:
        """No string, key or value, holds half of a surrogate pair."""
        if message.scan.half:
            ids = where(message, lambda scan: scan.half)
            what = f"message {message.at} holds half of a surrogate pair, in {message.scan.half}"
            yield Fault(message.at, what, ids)

    @rules.each(NUL)
    def nul_characters(message: Scanned, history: object) -> Iterator[Fault]:
        """No string holds U+0000: it is legal JSON, but databases, C tools and some gateways refuse it."""
        if message.scan.nul:
            ids = where(message, lambda scan: scan.nul)
            yield Fault(message.at, f"message {message.at} holds the character U+0000", ids)

    @rules.each(ENDLESS)
    def endless_numbers(message: Scanned, history: object) -> Iterator[Fault]:
        """No number is NaN or Infinity: JSON has neither."""
        if message.scan.endless:
            ids = where(message, lambda scan: scan.endless)
            yield Fault(message.at, f"message {message.at} holds a number that is no number or infinite", ids)

    return rules
