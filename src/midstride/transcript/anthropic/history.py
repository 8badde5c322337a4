"""What the rules need to know about all messages up to one: joined turns, used ids, and how the list ends.

Neighbouring messages of one role, user or assistant, are one turn: the API joins them. A message of any other role is
a turn of its own and takes no part in pairing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from midstride.transcript.anthropic import kinds
from midstride.transcript.anthropic.kinds import id_of, is_call, is_other, is_result, kind
from midstride.transcript.anthropic.message import Message
from midstride.transcript.growing import Index
from midstride.transcript.media import picture
from midstride.transcript.values import Json
from midstride.transcript.values import field as value_of


@dataclass(slots=True)
class Turn:
    """Neighbouring messages of one role; *other*: a block that is no result stands in this user turn."""

    role: str = ""
    first: int = 0
    calls: list[tuple[int, str]] = field(default_factory=list)  # (index of the message, id)
    asked: dict[str, Json] = field(default_factory=dict)  # the call blocks by id
    by_code: dict[str, str] = field(default_factory=dict)  # calls that code makes: id, and that of its execution
    answered: set[str] = field(default_factory=set)
    other: bool = False
    plain: bool = False  # a user message without results stands in it

    def take(self, message: Message) -> None:
        """Join a message to the turn."""
        self.calls.extend((message.at, one) for one in message.calls)
        self.answered.update(message.results)
        for block in message.blocks:
            if message.calls and is_call(block):
                self.asked.setdefault(id_of(block), block)
                if kinds.caller_of(block):
                    self.by_code.setdefault(id_of(block), kinds.caller_of(block))
            self.other = self.other or is_other(block)
        self.plain = self.plain or not any(is_result(block) for block in message.blocks)

    def copy(self) -> Turn:
        """Return a turn that grows by itself."""
        asked, by_code = dict(self.asked), dict(self.by_code)
        return replace(self, calls=list(self.calls), asked=asked, by_code=by_code, answered=set(self.answered))


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A call of a server tool that has no result yet."""

    id: str
    at: int
    kind: str
    name: str


Marks = Index[tuple[int, str]]
"""Where things were seen: under a topic, or a topic and an id, the places with the id of the block concerned."""


@dataclass(frozen=True, slots=True)
class History:
    """All messages up to here; the first *count* of the list.

    For the sake of speed a history hands its turn and marks on to the next one: only the newest may grow. An older one
    still tells how the list ended there, if no more than one message was added and that one was the assistant's.
    """

    count: int = 0
    last: Message | None = None
    last_assistant: Message | None = None
    turn: Turn = field(default_factory=Turn)
    before: Turn = field(default_factory=Turn)  # the turn in front of it
    marks: Marks = field(default_factory=Index)
    assistants: Index[Message] = field(default_factory=Index)
    hidden_before: int = 0  # the message with the last compaction block that took effect
    opened: int = 0  # where the last user turn begins that is more than results
    loop: Message | None = None  # the first assistant message behind it
    open: Mapping[str, ServerCall] = field(default_factory=dict)
    cited: bool | None = None  # the first citations flag of the list
    pictures: int = 0
    markers: tuple[int, ...] = ()  # the messages of the first five cache markers
    short_lived: bool = False  # a marker of five minutes was seen
    size: int = 0

    @classmethod
    def empty(cls) -> History:
        """Return the history of no message."""
        return cls()

    def after(self, message: Message) -> History:
        """Return the history with one more message."""
        joined = self.joins(message)
        turn = self.turn if joined else Turn(message.role, message.at)
        turn.take(message)
        opens = message.role == "user" and turn.plain
        assistants = message.role == "assistant"
        if assistants:
            self.assistants.add(message.at, message)
        for topic, one in marks_of(message, self):
            self.marks.add(topic, (message.at, one))
        return History(
            count=message.at + 1,
            last=message,
            last_assistant=message if assistants else self.last_assistant,
            turn=turn,
            before=self.before if joined else self.turn,
            marks=self.marks,
            assistants=self.assistants,
            hidden_before=message.at if message.compacts else self.hidden_before,
            opened=turn.first if opens else self.opened,
            loop=self._loop(message, opens),
            open=self._still_open(message),
            cited=next(iter([self.cited] if self.cited is not None else citations(message)), None),
            pictures=self.pictures + len(pictures(message)),
            markers=(*self.markers, *[message.at] * len(markers(message)))[:5],
            short_lived=self.short_lived or any(not lives_long(one) for one in markers(message)),
            size=self.size + message.scan.size,
        )

    def _loop(self, message: Message, opens: bool) -> Message | None:
        if opens:
            return None
        return message if self.loop is None and message.role == "assistant" else self.loop

    def _still_open(self, message: Message) -> Mapping[str, ServerCall]:
        if message.role == "user":
            return {} if any(is_other(block) for block in message.blocks) else self.open
        if message.role != "assistant":
            return self.open
        opened = dict(self.open)
        for block in message.blocks:
            if kinds.is_server_result(block):
                opened.pop(id_of(block), None)
            elif kind(block) in kinds.SERVER_CALLS and id_of(block):
                name = value_of(block, "name")
                named = name if isinstance(name, str) else ""
                opened[id_of(block)] = ServerCall(id_of(block), message.at, kind(block), named)
        return opened

    def branch(self) -> History:
        """Return a history that grows without changing this one."""
        return replace(self, turn=self.turn.copy(), marks=Index(self.marks), assistants=Index(self.assistants))

    def joins(self, message: Message) -> bool:
        """Tell whether a message behind these belongs to their last turn."""
        return message.role == self.turn.role and message.role in ("user", "assistant")

    def asked_before(self, message: Message) -> Mapping[str, Json]:
        """Return the calls that a user message behind these may answer: those of the assistant turn right before it."""
        return self.turn_before(message).asked

    def turn_before(self, message: Message) -> Turn:
        """Return the turn right before the one that a message behind these belongs to."""
        return self.before if self.joins(message) else self.turn

    def unanswered(self) -> dict[int, list[str]]:
        """Return the calls of the last assistant turn that have no result in the turn behind it, by message."""
        asking, answered = (self.before, self.turn.answered) if self.turn.role == "user" else (self.turn, set[str]())
        missing: dict[int, list[str]] = {}
        for at, one in asking.calls:
            if at < self.count and one not in answered:
                missing.setdefault(at, []).append(one)
        return missing

    def marked(self, topic: object, *, newest: bool = False) -> Iterator[tuple[int, str]]:
        """Yield what was seen of a topic: message, and the id or name concerned."""
        found = self.marks.newest(topic) if newest else self.marks.all(topic)
        return (mark for mark in found if mark[0] < self.count)

    def assistant(self, at: int) -> Message | None:
        """Return message *at* if it is the assistant's."""
        return next((one for one in self.assistants.all(at) if at < self.count), None)

    @property
    def ends_with_results(self) -> bool:
        """Whether the last message is the user's and holds results."""
        return self.last is not None and self.last.role == "user" and any(is_result(b) for b in self.last.blocks)


def marks_of(message: Message, history: History) -> Iterator[tuple[object, str]]:
    """Yield what later rules ask for: under a topic, an id or a name."""
    yield from ((("call", one), one) for one in message.calls)
    yield from ((("result", one), one) for one in message.results)
    yield from (("tool block", id_of(block)) for block in message.blocks if is_call(block) or is_result(block))
    if history.joins(message):
        yield "neighbour", message.role
    if message.role == "system" and history.last is not None:
        yield "system", ""
    for block in message.blocks:
        name = kind(block)
        if message.role == "assistant" and name in kinds.SERVER_CALLS:
            yield ("server", id_of(block)), id_of(block)
        if name in kinds.BETAS:
            yield f"beta {kinds.BETAS[name]}", id_of(block)
        if name == "container_upload":
            yield "upload", ""
    if message.thinks and not kinds.is_thinking(message.blocks[0]):
        yield "thinking behind", ""
    yield from _named_inside(message)
    yield from (("long lived", "") for one in markers(message) if lives_long(one))
    yield from (("wide picture", one) for one, seen in pictures(message) if seen > WIDE)


WIDE = 2000
"""Pixels that a side may have when a request holds more than 20 pictures."""


def _named_inside(message: Message) -> Iterator[tuple[object, str]]:
    for block in message.blocks:
        yield from (("reference", name) for name in kinds.references(block))
    for _, block, one in message.parts:
        file = value_of(block if kind(block) == "container_upload" else value_of(block, "source"), "file_id")
        if isinstance(file, str):
            yield ("file", file), one


def citations(message: Message) -> list[bool]:
    """Return whether citations are enabled, for each document and search result of a user message."""
    if message.role != "user":
        return []
    cited = [block for _, block, _ in message.parts if kind(block) in ("document", "search_result")]
    return [value_of(value_of(block, "citations"), "enabled") is True for block in cited]


def markers(message: Message) -> list[Json]:
    """Return the cache markers of a message that count."""
    found = [value_of(block, "cache_control") for _, block, _ in message.parts]
    return [one for one in found if one is not None]


def lives_long(marker: Json) -> bool:
    """Tell whether a cache marker is one of an hour; without a ttl it is one of five minutes."""
    return bool(value_of(marker, "ttl") == "1h")


def pictures(message: Message) -> list[tuple[str, int]]:
    """Return each picture of a user message: the id of the result that holds it, and its longer side if known."""
    if message.role != "user":
        return []
    return [(one, side_of(block)) for _, block, one in message.parts if kind(block) == "image"]


def side_of(block: Json) -> int:
    """Return the longer side of a picture in base64, 0 where it is not known."""
    source = value_of(block, "source")
    data = value_of(source, "data") if value_of(source, "type") == "base64" else None
    seen = picture(data) if isinstance(data, str) else None
    return seen.side if seen else 0
