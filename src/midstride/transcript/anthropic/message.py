"""A message of Anthropic Messages as the rules read it, whatever it really is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from midstride.transcript.anthropic.kinds import id_of, is_result, is_thinking, kind
from midstride.transcript.generic import Scan
from midstride.transcript.values import Json, field, holds, is_list


@dataclass(frozen=True, slots=True)
class Message:
    """Message *at* of the list: as given (*raw*), and what the rules ask of it.

    *role* is "" when there is none. *calls* are the ids of its client tool_use blocks, *results* those that its
    tool_result blocks answer: only in the right role, and only ids that are strings. Server tools are neither. *parts*
    are each block and what stands inside a tool_result: place ("1", inside "1.0"), block, and the id of its call.
    """

    at: int
    raw: Json
    role: str
    content: Json
    blocks: tuple[Json, ...]
    calls: tuple[str, ...]
    results: tuple[str, ...]
    thinks: bool
    parts: tuple[tuple[str, Json, str], ...]
    scan: Scan

    @classmethod
    def read(cls, at: int, raw: Json) -> Message:
        """Read any JSON value as message *at*."""
        role, content = field(raw, "role"), field(raw, "content")
        blocks = blocks_in(content)
        return cls(
            at,
            raw,
            role if isinstance(role, str) else "",
            content,
            blocks,
            ids_in(blocks, "tool_use", "id") if role == "assistant" else (),
            ids_in(blocks, "tool_result", "tool_use_id") if role == "user" else (),
            role == "assistant" and any(is_thinking(block) for block in blocks),
            tuple(_parts(blocks)),
            Scan.of(raw),
        )

    @property
    def empty(self) -> bool:
        """Whether the content is absent, null, an empty string or an empty list."""
        return not holds(self.content)

    @property
    def compacts(self) -> bool:
        """Whether the API ignores what stands in front: a compaction block with a summary. Null is a failed one."""
        return self.role == "assistant" and any(
            kind(block) == "compaction" and field(block, "content") and isinstance(field(block, "content"), str)
            for block in self.blocks
        )

    def texts(self) -> Iterator[tuple[str, Json]]:
        """Yield each text block, those inside tool_result too, behind its place."""
        for place, block, _ in self.parts:
            if kind(block) == "text":
                yield place, block


def _parts(blocks: tuple[Json, ...]) -> Iterator[tuple[str, Json, str]]:
    for i, block in enumerate(blocks):
        one = id_of(block)
        yield f"{i}", block, one
        for j, part in enumerate(inside(block)):
            yield f"{i}.{j}", part, one


def blocks_in(content: Json) -> tuple[Json, ...]:
    """Return the blocks of a content; a string stands for one text block."""
    if isinstance(content, str) and content:
        return ({"type": "text", "text": content},)
    return tuple(content) if is_list(content) else ()


def inside(block: Json) -> tuple[Json, ...]:
    """Return the blocks inside a tool_result; a string counts as none."""
    inner = field(block, "content") if is_result(block) else None
    return tuple(inner) if is_list(inner) else ()


def ids_in(blocks: tuple[Json, ...], of_kind: str, name: str) -> tuple[str, ...]:
    """Return the ids in field *name* of the blocks of one kind, in their order."""
    found = (field(block, name) for block in blocks if kind(block) == of_kind)
    return tuple(one for one in found if isinstance(one, str))
