"""How blocks are changed while mending: untouched blocks stay the very same, and an empty message goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from midstride.transcript.anthropic.kinds import is_result
from midstride.transcript.anthropic.message import blocks_in
from midstride.transcript.draft import Draft
from midstride.transcript.finding import Finding
from midstride.transcript.values import Json, field, is_list

Blocks = list[Json]


def blocks_of(draft: Draft, at: int) -> Blocks:
    """Return the blocks of a message."""
    return list(blocks_in(field(draft.messages[at], "content")))


def role_of(draft: Draft, at: int) -> Json:
    """Return the role of a message."""
    return field(draft.messages[at], "role")


def put(draft: Draft, at: int, blocks: Blocks, what: str, finding: Finding) -> None:
    """Give a message other blocks; without any it is dropped, and if they are the same nothing is changed."""
    old = blocks_of(draft, at)
    if len(old) == len(blocks) and all(a is b for a, b in zip(old, blocks, strict=True)):
        return
    if blocks:
        draft.change(at, {**draft.messages[at], "content": blocks}, what, finding)
    else:
        draft.drop(at, f"{what} Nothing was left of the message.", finding)


def each(draft: Draft, finding: Finding, change: Callable[[Json], Blocks], what: str) -> None:
    """Put in the place of every block of a message what *change* makes of it."""
    put(draft, finding.at, [new for block in blocks_of(draft, finding.at) for new in change(block)], what, finding)


def inner(
    inside: Callable[[Json], Blocks], outside: Callable[[Json], Blocks] | None = None
) -> Callable[[Json], Blocks]:
    """Return what changes the parts of a result with *inside*, and a block itself with *outside*, else the same."""
    change = outside or inside

    def changed(block: Json) -> Blocks:
        content = field(block, "content") if is_result(block) else None
        if not is_list(content):
            return change(block)
        parts = [new for part in content for new in inside(part)]
        if len(parts) == len(content) and all(a is b for a, b in zip(parts, content, strict=True)):
            return change(block)
        rest = {name: value for name, value in block.items() if name != "content"}
        return change({**rest, "content": parts} if parts else rest)

    return changed


def text(words: str) -> dict[str, Json]:
    """Return a text block."""
    return {"type": "text", "text": words}


def without(block: Json, names: Sequence[str]) -> Json:
    """Return a block without some fields."""
    return {name: value for name, value in block.items() if name not in names}
