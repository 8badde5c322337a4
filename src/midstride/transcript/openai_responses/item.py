"""An item of OpenAI Responses as the rules read it, and what they need to know about all before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from midstride.transcript.generic import Scan
from midstride.transcript.growing import Index
from midstride.transcript.openai_responses import kinds
from midstride.transcript.openai_responses.kinds import call_id_of, id_of, kind
from midstride.transcript.values import Json, is_list
from midstride.transcript.values import field as value_of


@dataclass(frozen=True, slots=True)
class Item:
    """Item *at* of the list: as given (*raw*), and what the rules ask of it. *id* and *call* are "" when untold."""

    at: int
    raw: Json
    kind: str
    role: str
    id: str
    call: str
    scan: Scan

    @classmethod
    def read(cls, at: int, raw: Json) -> Item:
        """Read any JSON value as item *at*."""
        role = value_of(raw, "role")
        name = kind(raw)
        paired = name in kinds.ANSWERED_BY or name in kinds.OUTPUTS
        return cls(
            at,
            raw,
            name,
            role if name == "message" and isinstance(role, str) else "",
            id_of(raw),
            call_id_of(raw) if paired else "",
            Scan.of(raw),
        )

    @property
    def calls(self) -> bool:
        """Whether it is a call that is ours to answer."""
        return self.kind in kinds.ANSWERED_BY

    @property
    def answers(self) -> bool:
        """Whether it is the output of such a call."""
        return self.kind in kinds.OUTPUTS

    @property
    def parts(self) -> tuple[Json, ...]:
        """The parts of its content."""
        content = value_of(self.raw, "content")
        return tuple(content) if is_list(content) else ()


@dataclass(frozen=True, slots=True)
class History:
    """All items up to here; the first *count* of the list. Only the newest history may grow."""

    count: int = 0
    last: Item | None = None
    items: Index[Item] = field(default_factory=Index)  # by id, and under the topics of `_topics`
    open: Mapping[str, int] = field(default_factory=dict)  # the calls without output so far
    reasoning: tuple[tuple[int, str], ...] = ()  # the reasoning items at the end of the list

    @classmethod
    def empty(cls) -> History:
        """Return the history of no item."""
        return cls()

    def after(self, item: Item) -> History:
        """Return the history with one more item."""
        for topic in _topics(item, self):
            self.items.add(topic, item)
        opened = self.open
        if item.calls and item.call and ("paired", item.call) not in self.items:
            opened = {**self.open}
            opened.setdefault(item.call, item.at)
        elif item.answers and item.call in self.open:
            opened = {one: at for one, at in self.open.items() if one != item.call}
        run = (*self.reasoning, (item.at, item.id)) if item.kind == "reasoning" else ()
        return History(item.at + 1, item, self.items, opened, run)

    def branch(self) -> History:
        """Return a history that grows without changing this one."""
        return replace(self, items=Index(self.items))

    def first(self, topic: object) -> Item | None:
        """Return the first item of a topic."""
        return next(self.items.all(topic), None)


def _topics(item: Item, before: History) -> Iterator[object]:
    asked = ("call", item.call) in before.items or ("approval", item.call) in before.items
    if item.answers and item.call:
        yield ("paired", item.call) if asked else "orphan"
    if item.kind == "mcp_approval_response" and not _asked(value_of(item.raw, "approval_request_id"), before):
        yield "approved"
    if item.id:
        yield "id", item.id
    if item.call:
        yield ("call" if item.calls else "answered"), item.call
    if item.kind == "message":
        yield "message"
    if item.kind == "mcp_approval_request" and item.id:
        yield "approval", item.id
    if item.kind == "item_reference":
        yield "reference"
    bare = item.kind == "reasoning" and not isinstance(value_of(item.raw, "encrypted_content"), str)
    if item.id and (bare or item.kind == "item_reference"):
        yield "by id alone"
    if item.kind == "code_interpreter_call":
        yield "container"


def _asked(one: Json, before: History) -> bool:
    return isinstance(one, str) and ("approval", one) in before.items
