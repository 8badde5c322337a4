"""A transcript that is being mended: what stands where, where it came from, and every change with its reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from midstride.transcript.facts import Facts
from midstride.transcript.finding import Finding
from midstride.transcript.values import Json
from midstride.transcript.values import field as value_of
from midstride.transcript.words import STATES, for_state


@dataclass(frozen=True, slots=True)
class Change:
    """One change that mends a finding: what was done, where, and why, each in a sentence."""

    what: str
    where: str
    why: str


Row = tuple[int | None, Json]
"""A message and the place where it stands now; None: it is new."""


class Draft:
    """The messages as they are now; *origins* are their places in the list as *given*, None for a new message."""

    def __init__(self, messages: Sequence[Json], request: Json, journal: Json, results: Json) -> None:
        self.given = messages
        self.messages = list(messages)
        self.origins: list[int | None] = list(range(len(self.messages)))
        self._facts = Facts.told(request, journal)
        self.results: Mapping[str, Json] = results if isinstance(results, Mapping) else {}
        self.changes: list[Change] = []
        self.held: list[Json] = []
        self.system: list[Json] = []
        self.made: set[str] = set()
        self.passes = 0
        self.moves = 0  # steps towards the end, changes or not
        self._tried: set[object] = set()

    # ---- facts

    @property
    def facts(self) -> Facts:
        """The facts, with the journal told by the places of now."""
        told = self._facts.journal
        moved = {
            f"assistant_{at}": told[f"assistant_{origin}"]
            for at, origin in enumerate(self.origins)
            if f"assistant_{origin}" in told
        }
        others = {name: value for name, value in told.items() if not str(name).startswith("assistant_")}
        return Facts(self._facts.request, {**others, **moved})

    def forget_stop(self) -> None:
        """Forget how the last response ended: it is no longer in the list."""
        self.moves += 1
        kept = {name: value for name, value in self._facts.request.items() if name != "last_stop_reason"}
        self._facts = Facts(kept, self._facts.journal)

    def told_of(self, at: int) -> Json:
        """Return what the journal holds of the message that is now at *at*."""
        return self._facts.journal.get(f"assistant_{self.origins[at]}")

    def first_try(self, what: str, at: int) -> bool:
        """Tell whether something is tried for the first time on a message; what was tried once is not tried again."""
        key = (what, self.origins[at], at if self.origins[at] is None else -1)
        fresh = key not in self._tried
        self._tried.add(key)
        return fresh

    def recorded(self, one: str, what: str) -> tuple[Json, bool] | None:
        """Return what is recorded for a call: its content and whether that is an error; None if nothing is.

        A record is the content, or an object with `content` and `is_error`, or one with a `state` in words.
        """
        if one not in self.results:
            return None
        record = self.results[one]
        state = value_of(record, "state")
        if isinstance(state, str) and state in STATES:
            return for_state(state, what)
        if isinstance(record, Mapping):
            return record.get("content"), record.get("is_error") is True
        return record, False

    # ---- changes

    def change(self, at: int, message: Json, what: str, finding: Finding) -> None:
        """Put another message in the place of one."""
        self._note(what, at, finding)
        self.messages[at] = message

    def drop(self, at: int, what: str, finding: Finding) -> None:
        """Take a message out."""
        self._note(what, at, finding)
        del self.messages[at], self.origins[at]

    def insert(self, at: int, message: Json, what: str, finding: Finding) -> None:
        """Put a new message in front of the one at *at*."""
        self._new(what, at, finding)
        self.messages.insert(at, message)
        self.origins.insert(at, None)

    def move(self, at: int, to: int, what: str, finding: Finding) -> None:
        """Move a message; *to* counts without it."""
        self._note(what, at, finding)
        message, origin = self.messages.pop(at), self.origins.pop(at)
        self.messages.insert(to, message)
        self.origins.insert(to, origin)

    def rearrange(
        self, rows: Sequence[tuple[int | None, Json]], reasons: Mapping[int, Finding], other: Finding
    ) -> None:
        """Put the messages in a new order."""
        kept = {at for at, _ in rows if at is not None}
        for gone in range(len(self.messages)):
            if gone not in kept:
                self._note("It was dropped: it answers no call, or repeats one.", gone, reasons.get(gone, other))
        furthest = -1
        for at, message in rows:
            if at is None:
                self._new("A result was added for a call without one.", furthest + 1, other)
                continue
            if at < furthest:
                self._note("It was moved, so that results stand with their calls.", at, reasons.get(at, other))
            if message is not self.messages[at]:
                self._note("Its calls and results were brought together.", at, reasons.get(at, other))
            furthest = max(at, furthest)
        self.origins = [None if at is None else self.origins[at] for at, _ in rows]
        self.messages = [message for _, message in rows]

    def _new(self, what: str, at: int, finding: Finding) -> None:
        where = f"In front of message {at} of the list as it was then." if at < len(self.messages) else "At the end."
        self.moves += 1
        self.changes.append(Change(what, where, f"{finding.rule}: {finding.message}"))

    def _note(self, what: str, at: int, finding: Finding) -> None:
        origin = self.origins[at]
        where = f"Message {origin} of the list as given." if origin is not None else f"Message {at}, made before."
        self.moves += 1
        self.changes.append(Change(what, where, f"{finding.rule}: {finding.message}"))


Mend = Callable[[Draft, list[Finding]], None]
MendRow = tuple[tuple[str, ...], Mend]
"""The rules that a mend is for, by their numbers, and the mend."""


@dataclass(slots=True)
class Mends:
    """What mends which rules, in the order of work; each row names rules by their numbers."""

    answered: Callable[[Sequence[Json]], int]  # how many messages the model has answered
    rows: list[MendRow] = field(default_factory=list)

    def of(self, *rules: str) -> Callable[[Mend], Mend]:
        """Enter a function that mends these rules, named by their numbers."""

        def enter(function: Mend) -> Mend:
            self.rows.append((rules, function))
            return function

        return enter


def backwards(findings: list[Finding]) -> list[Finding]:
    """Return findings from the last place to the first, so that what is dropped moves no place still to come."""
    return sorted(findings, key=lambda finding: -finding.at)
