"""A Claude Code session file: the conversation that its newest line ends, and the file again with it repaired.

Each line is an object; those of a conversation name their parent, so a file holds a tree. The newest line is followed
up its parents. Lines of one answer (the same message id) are one message, and so are user lines in a row. The results
of parallel calls hang on the lines of their calls, beside the branch, and belong to it.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Json = Any

_DECODER = json.JSONDecoder()
_ENVELOPE = re.compile(r'\{"(?:parentUuid|type|uuid|isSidechain|sessionId)"')
_BLANK = "\0 \t\r\n\ufeff"
TRIES_MAX = 1_000
"""Places at which a whole object is looked for in a torn line; it may be long, and each try reads on from there."""


@dataclass(eq=False)
class Record:
    """An object of the file: of line *line*; *blocks* are what its message holds, *message* whether it is one."""

    line: int
    found: dict[str, Json]
    blocks: list[Json] = field(default_factory=list)

    @property
    def uuid(self) -> Json:
        """The name of this line."""
        return self.found.get("uuid")

    @property
    def parent(self) -> Json:
        """The name of the line before it."""
        return self.found.get("parentUuid")

    @property
    def role(self) -> str:
        """Whose message it is."""
        return str(self.found["type"])

    @property
    def aside(self) -> bool:
        """Whether it belongs to a side chain."""
        return self.found.get("isSidechain") is True

    @property
    def spoken(self) -> bool:
        """Whether it is a message that goes to the API."""
        message = self.found.get("message")
        whole = isinstance(message, dict) and isinstance(message.get("content"), str | list)
        return whole and self.found.get("type") in ("user", "assistant") and not self.found.get("isApiErrorMessage")


@dataclass
class Session:
    """A session file: its lines as bytes, what each holds, the messages of its newest branch and their records."""

    lines: list[bytes]
    held: list[list[Record]]
    damage: list[str] = field(default_factory=list)
    damaged: set[int] = field(default_factory=set)
    messages: list[Json] = field(default_factory=list)
    sources: list[list[Record]] = field(default_factory=list)
    facts: dict[str, Json] = field(default_factory=dict)
    branches: int = 0

    def rewritten(self, messages: Sequence[Json]) -> bytes:
        """Return the file with *messages* as its conversation; lines that are not concerned stay as they are."""
        return Rewriting(self, messages).written()


def parsed(data: bytes) -> Session:
    """Read a session file; lines that are torn, fused or full of zeros are read as far as they can be."""
    session = Session(data.splitlines(keepends=True) if b"\r" not in data else _lines(data), [])
    for number, line in enumerate(session.lines):
        objects, problem = _objects_in(line)
        if problem:
            session.damage.append(f"line {number + 1}: {problem}")
            session.damaged.add(number)
        session.held.append([Record(number, _kept(one)) for one in objects if isinstance(one, dict)])
    _gather(session)
    return session


def _lines(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.split(b"\n")[:-1]] + (
        [data.rpartition(b"\n")[2]] if data[-1:] != b"\n" else []
    )


def _kept(found: dict[str, Json]) -> dict[str, Json]:
    # What is no message is only a link of the tree here; its line is written back as it is.
    if isinstance(found.get("message"), dict) and found.get("type") in ("user", "assistant"):
        return found
    return {name: found[name] for name in ("uuid", "parentUuid", "type", "isSidechain") if name in found}


def _objects_in(line: bytes) -> tuple[list[Json], str | None]:
    """Return the objects of a line, and what is wrong with it."""
    text = line.decode("utf-8", "surrogateescape").strip(_BLANK)
    try:
        return ([json.loads(text)] if text else []), _zeros(line, text)
    except (ValueError, RecursionError):
        found, torn = _salvaged(text)
    if torn:
        return found, f"{torn} characters are no whole object: torn, and left out"
    return found, f"{len(found)} objects stand on one line"


def _zeros(line: bytes, text: str) -> str | None:
    return "zeros stand in it, as after a crash" if b"\0" in line else None


def _salvaged(text: str) -> tuple[list[Json], int]:
    """Return the whole objects of a line, and how many characters belong to none."""
    found, at, torn, tries = [], 0, 0, 0
    while at < len(text):
        try:
            one, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            one, end = None, at
        if isinstance(one, dict) and ("uuid" in one or "sessionId" in one or "message" in one or at == 0):
            found.append(one)
            at = end + len(text[end:]) - len(text[end:].lstrip(_BLANK)) if tries < TRIES_MAX else end
            continue
        tries += 1
        following = _ENVELOPE.search(text, max(end, at + 1)) if tries < TRIES_MAX else None
        torn += (following.start() if following else len(text)) - at
        at = following.start() if following else len(text)
    return found, torn


# ---- the newest branch


def _gather(session: Session) -> None:
    records = [record for row in session.held for record in row]
    spoken = [record for record in records if record.spoken]
    for record in spoken:
        content = record.found["message"]["content"]
        record.blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    spoken = [record for record in spoken if not record.aside] or spoken
    if not spoken:
        return
    branch = _branch(session, records, spoken) if any("parentUuid" in one.found for one in records) else spoken
    for record in branch:
        _join(session, record)
    last = branch[-1]
    stop = last.found["message"].get("stop_reason")
    if last.role == "assistant" and isinstance(stop, str):
        session.facts["last_stop_reason"] = stop


def _branch(session: Session, records: list[Record], spoken: list[Record]) -> list[Record]:
    by_id = {record.uuid: record for record in records if isinstance(record.uuid, str)}
    seen: dict[int, Record] = {}
    at: Record | None = spoken[-1]
    while at is not None and id(at) not in seen:
        seen[id(at)] = at
        if at.parent is not None and at.parent not in by_id:
            session.damage.append(f"line {at.line + 1}: its parent is not in the file, so nothing stands before it")
        at = by_id.get(at.parent) if isinstance(at.parent, str) else None
    chain = [record for record in reversed(list(seen.values())) if record.spoken]
    whole = _with_parallel(chain, spoken)
    inside = {id(record) for record in whole}
    parents = {record.parent for record in records}
    session.branches = sum(one.uuid not in parents for one in spoken if id(one) not in inside)
    return whole


def _with_parallel(chain: list[Record], spoken: list[Record]) -> list[Record]:
    """Return the branch with the other lines of its answers, and the results of its calls that hang beside it."""
    inside = {id(record) for record in chain}
    answers = {_answer_of(record) for record in chain} - {None}
    beside = [one for one in spoken if id(one) not in inside and _answer_of(one) in answers]
    calls = {b.get("id") for r in (*chain, *beside) for b in _of_kind(r, "tool_use")}
    told = {b.get("tool_use_id") for r in chain for b in _of_kind(r, "tool_result")}
    homes = {record.uuid for record in (*chain, *beside)}
    for one in spoken:
        ids = {block.get("tool_use_id") for block in _of_kind(one, "tool_result")}
        if id(one) not in inside and one.parent in homes and ids and ids <= calls - told:
            beside.append(one)
            told |= ids
    if not beside:
        return chain
    if all(a.line <= b.line for a, b in pairwise(chain)):
        return sorted([*chain, *beside], key=lambda record: record.line)
    places = {record.uuid: place for place, record in enumerate(chain)}
    return sorted(
        [*chain, *beside], key=lambda one: (places.get(one.uuid, places.get(one.parent, len(chain))), one.line)
    )


def _answer_of(record: Record) -> Json:
    made = record.found["message"].get("id") if record.role == "assistant" else None
    return made if isinstance(made, str) else None


def _of_kind(record: Record, kind: str) -> Iterator[Mapping[str, Json]]:
    return (block for block in record.blocks if isinstance(block, dict) and block.get("type") == kind)


def _join(session: Session, record: Record) -> None:
    before = session.sources[-1] if session.sources else []
    same = bool(before) and before[-1].role == record.role
    if same and (record.role == "user" or (_answer_of(record) or 0) == _answer_of(before[-1])):
        before.append(record)
        session.messages[-1] = {"role": record.role, "content": [block for one in before for block in one.blocks]}
        return
    content = record.found["message"]["content"]
    session.sources.append([record])
    session.messages.append({"role": record.role, "content": content if isinstance(content, str) else record.blocks})


# ---- written again


ENVELOPE = ("isSidechain", "userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug", "timestamp")


@dataclass(eq=False)
class Link:
    """One line of the repaired branch: an old *record*, or None for a new one, and the blocks that it is to hold."""

    record: Record | None
    role: str
    blocks: list[Json]


class Rewriting:
    """The repaired branch laid over the lines of a file."""

    def __init__(self, session: Session, messages: Sequence[Json]) -> None:
        self.session = session
        self.texts: dict[int, str | None] = {}  # by record: its new line, None when it goes
        self.behind: dict[int, list[str]] = {}  # by line: new lines behind it
        self.end = b"\r\n" if session.lines[0].endswith(b"\r\n") else b"\n"
        old = [record for row in session.sources for record in row]
        chain = list(self._links(messages))
        kept = {id(link.record) for link in chain}
        self._gone = {one.uuid: one.parent for one in old if id(one) not in kept}
        self.texts |= {id(one): None for one in old if id(one) not in kept}
        self._by_id = {record.uuid: record for row in session.held for record in row}
        self._near = self._touched(messages)
        self._write(chain, {id(b): a for a, b in pairwise(old)})
        self._adopt(chain)

    def written(self) -> bytes:
        """Return the whole file."""
        out: list[bytes] = []
        for number, line in enumerate(self.session.lines):
            row = self.session.held[number]
            touched = number in self.session.damaged or any(id(record) in self.texts for record in row)
            new = self.behind.get(number, [])
            if not touched and not new:
                out.append(line)
                continue
            out += self._again(line, row) if touched else [line if line.endswith(b"\n") else line + self.end]
            out += [text.encode("ascii") + self.end for text in new]
        return b"".join(out)

    def _again(self, line: bytes, row: list[Record]) -> Iterator[bytes]:
        objects, _ = _objects_in(line)
        whole = [one for one in objects if isinstance(one, dict)]
        for record, found in zip(row, whole, strict=True):
            text = self.texts.get(id(record), _dumped(found) if len(whole) > 1 or _torn(line) else _kept_text(line))
            if text is not None:
                yield text.encode("utf-8", "surrogateescape") + self.end

    def _links(self, messages: Sequence[Json]) -> Iterator[Link]:
        """Return the lines of the repaired branch: blocks go back to where they came from."""
        places = {id(message): place for place, message in enumerate(self.session.messages)}
        homes = {id(b): r for row in self.session.sources for r in row for b in r.blocks}
        used: set[int] = set()
        given = {places[id(message)] for message in messages if id(message) in places}
        at = 0  # messages up to here are behind us
        for message in messages:
            place = places.get(id(message))
            if place is not None:
                at = place + 1
                used |= {id(record) for record in self.session.sources[place]}
                yield from (Link(record, record.role, record.blocks) for record in self.session.sources[place])
                continue
            role, content = str(message.get("role")), message.get("content")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])
            links = _grouped(role, blocks, homes, used)
            spare = self._spare(at, given, role)
            if all(link.record is None for link in links) and spare is not None and id(spare[0]) not in used:
                at += 1
                used.add(id(spare[0]))
                links = [Link(spare[0], role, blocks)]
            yield from links

    def _spare(self, at: int, given: set[int], role: str) -> list[Record] | None:
        """Return the records of the next message that is not kept whole, if it has the same role."""
        if at < len(self.session.messages) and at not in given and self.session.messages[at]["role"] == role:
            return self.session.sources[at]
        return None

    def _write(self, chain: list[Link], before: Mapping[int, Record]) -> None:
        last: Record | None = None
        fresh = False  # a new line stands before this one
        last_id, line = None, chain[0].record.line if chain and chain[0].record else 0
        for link in chain:
            record = link.record
            if record is None:
                pattern = (last or next((one.record for one in chain if one.record), None) or self._first()).found
                made = _made(link, last_id, pattern)
                self.behind.setdefault(line, []).append(_dumped(made))
                last_id, fresh = made["uuid"], True
                continue
            beside = id(record) in self._near and self._above(record) is not last
            moved = fresh or before.get(id(record)) is not last or beside
            if moved or not _same(link.blocks, record.blocks):
                found = dict(record.found)
                if moved:
                    found["parentUuid"] = last_id
                if not _same(link.blocks, record.blocks):
                    found["message"] = {**found["message"], "content": link.blocks}
                self.texts[id(record)] = _dumped(found)
            last, last_id, line, fresh = record, record.uuid, record.line, False

    def _touched(self, messages: Sequence[Json]) -> set[int]:
        """Return the lines of messages that change, and of their neighbours: there one line leads to the next."""
        kept = {id(message) for message in messages}
        changed = {at for at, message in enumerate(self.session.messages) if id(message) not in kept}
        near = {at + step for at in changed for step in (-1, 0, 1)}
        return {id(one) for at, row in enumerate(self.session.sources) if at in near for one in row}

    def _above(self, record: Record) -> Record | None:
        """Return the message that a line hangs on, past lines that are none."""
        at, seen = self._by_id.get(record.parent), set()
        while at is not None and not at.spoken and id(at) not in seen:
            seen.add(id(at))
            at = self._by_id.get(at.parent)
        return at

    def _first(self) -> Record:
        return self.session.sources[0][0]

    def _adopt(self, chain: list[Link]) -> None:
        """Let the children of lines that are gone, on other branches too, hang on what stood before these."""
        inside = {id(link.record) for link in chain}
        for row in self.session.held:
            for record in row:
                if (
                    record.parent in self._gone
                    and id(record) not in inside
                    and self.texts.get(id(record), "") is not None
                ):
                    self._reparent(record)

    def _reparent(self, record: Record) -> None:
        parent, seen = record.parent, set()
        while parent in self._gone and parent not in seen:
            seen.add(parent)
            parent = self._gone[parent]
        objects, _ = _objects_in(self.session.lines[record.line])
        found = next(one for one in objects if isinstance(one, dict) and one.get("uuid") == record.uuid)
        self.texts[id(record)] = _dumped({**found, "parentUuid": parent})


def _grouped(role: str, blocks: list[Json], homes: Mapping[int, Record], used: set[int]) -> list[Link]:
    """Return lines for the blocks of a message: each block with the record that it came from, new ones behind it."""
    links: list[Link] = []
    waiting: list[Json] = []
    for block in blocks:
        home = homes.get(id(block))
        if home is not None and home.role != role:
            home = None
        if links and (home is None or home is links[-1].record):
            links[-1].blocks.append(block)
        elif home is None or id(home) in used:
            waiting.append(block)
        else:
            used.add(id(home))
            links.append(Link(home, role, [*waiting, block]))
            waiting = []
    if waiting:
        links = (
            [Link(None, role, waiting), *links]
            if not links
            else [Link(links[0].record, role, [*waiting, *links[0].blocks]), *links[1:]]
        )
    return links or [Link(None, role, [])]


def _same(one: list[Json], other: list[Json]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _made(link: Link, parent: Json, pattern: Mapping[str, Json]) -> dict[str, Json]:
    message: dict[str, Json] = {"role": link.role, "content": link.blocks}
    if link.role == "assistant":
        message = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "model": "<synthetic>", **message}
    envelope = {name: pattern[name] for name in ENVELOPE if name in pattern}
    return {"parentUuid": parent, "type": link.role, "message": message, "uuid": str(uuid.uuid4()), **envelope}


def _dumped(found: Json) -> str:
    return json.dumps(found, separators=(",", ":"))


def _torn(line: bytes) -> bool:
    try:
        json.loads(line.decode("utf-8", "surrogateescape").strip(_BLANK))
    except (ValueError, RecursionError):
        return True
    return False


def _kept_text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape").strip(_BLANK)
