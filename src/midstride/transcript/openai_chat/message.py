"""A message of OpenAI Chat Completions as the rules read it, and what they need to know about all before it.

An assistant message with tool_calls and what follows up to the next assistant message is a group: its tool messages
answer it, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from midstride.transcript.generic import Scan
from midstride.transcript.growing import Index
from midstride.transcript.values import Json, all_in, is_list
from midstride.transcript.values import field as value_of

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
INTRUDERS = ("user", "system", "developer")
"""Roles that may not stand inside a group."""


@dataclass(frozen=True, slots=True)
class Message:
    """Message *at* of the list: as given (*raw*), and what the rules ask of it; *role* is "" when there is none.

    *calls* are the entries of tool_calls that are objects, of an assistant message; *answers* is the tool_call_id of a
    tool message.
    """

    at: int
    raw: Json
    role: str
    content: Json
    calls: tuple[Json, ...]
    answers: str
    scan: Scan

    @classmethod
    def read(cls, at: int, raw: Json) -> Message:
        """Read any JSON value as message *at*."""
        role, calls = value_of(raw, "role"), value_of(raw, "tool_calls")
        answers = value_of(raw, "tool_call_id") if role == "tool" else ""
        return cls(
            at,
            raw,
            role if isinstance(role, str) else "",
            value_of(raw, "content"),
            tuple(calls) if role == "assistant" and is_list(calls) else (),
            answers if isinstance(answers, str) else "",
            Scan.of(raw),
        )

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its calls, as far as they are strings."""
        return tuple(one for call in self.calls if isinstance(one := value_of(call, "id"), str))

    @property
    def parts(self) -> tuple[Json, ...]:
        """The parts of its content; a string counts as none."""
        return tuple(self.content) if is_list(self.content) else ()


@dataclass(slots=True)
class Group:
    """The last assistant message and what follows it; *intruder*: the first message that may not stand between."""

    at: int = -1
    asked: tuple[str, ...] = ()
    nameless: bool = False  # a call has no id, so nothing can answer it
    answered: set[str] = field(default_factory=set)
    intruder: int | None = None

    def missing(self) -> list[str]:
        """Return the calls without a tool message."""
        return [one for one in self.asked if one not in self.answered]


@dataclass(frozen=True, slots=True)
class History:
    """All messages up to here; the first *count* of the list. Only the newest history may grow."""

    count: int = 0
    last: Message | None = None
    group: Group = field(default_factory=Group)
    marks: Index[int] = field(default_factory=Index)
    signed: Index[list[Json]] = field(default_factory=Index)  # the thought signatures of a message
    turn: int = 0  # behind the last user message

    @classmethod
    def empty(cls) -> History:
        """Return the history of no message."""
        return cls()

    def after(self, message: Message) -> History:
        """Return the history with one more message."""
        nameless = len(message.ids) < len(message.calls)
        group = Group(message.at, message.ids, nameless) if message.role == "assistant" else self.group
        if message.role == "tool":
            group.answered.add(message.answers)
        if message.role in INTRUDERS and group.intruder is None:
            group.intruder = message.at
        for topic in _marks(message):
            self.marks.add(topic, message.at)
        signatures = all_in(call_extras(message), "thought_signature")
        if signatures:
            self.signed.add(message.at, signatures)
        turn = message.at + 1 if message.role == "user" else self.turn
        return History(message.at + 1, message, group, self.marks, self.signed, turn)

    def branch(self) -> History:
        """Return a history that grows without changing this one."""
        group = replace(self.group, answered=set(self.group.answered))
        return replace(self, group=group, marks=Index(self.marks), signed=Index(self.signed))

    def marked(self, topic: object) -> Iterator[int]:
        """Yield the messages of the current turn in which a topic was seen, newest first."""
        for at in self.marks.newest(topic):
            if at < self.turn:
                return
            if at < self.count:
                yield at


def _marks(message: Message) -> Iterator[object]:
    yield from (("call", one) for one in message.ids)
    if message.role == "tool":
        yield ("tool", message.answers)
    if message.role == "assistant" and not isinstance(value_of(message.raw, "reasoning_content"), str):
        yield "no reasoning"
    if message.calls and not all_in(call_extras(message), "thought_signature"):
        yield "no signature"


def call_extras(message: Message) -> Json:
    """Return what may hold the thought signatures of a message."""
    return [value_of(one, "extra_content") for one in (message.raw, *message.calls)]
