"""Mends of what only the provider can make: it is restored from the journal or left out, and never made up."""

from __future__ import annotations

from collections.abc import Callable

from midstride.transcript.anthropic import kinds
from midstride.transcript.anthropic.compared import before_fallback, which
from midstride.transcript.anthropic.editing import blocks_of, put, without
from midstride.transcript.anthropic.kinds import id_of, is_call, is_result, is_thinking, kind
from midstride.transcript.anthropic.mend_shape import answered, restore
from midstride.transcript.anthropic.message import blocks_in
from midstride.transcript.anthropic.thinking import is_foreign, signed, worded
from midstride.transcript.draft import Draft, Mends, backwards
from midstride.transcript.finding import Finding
from midstride.transcript.values import Json, all_in, field, is_list

mends = Mends(answered)
early = Mends(answered)
"""What comes before calls and results are paired: a call that never ran is to get no result."""


def _keep(draft: Draft, finding: Finding, keeps: Callable[[Json], bool], what: str) -> None:
    put(draft, finding.at, [block for block in blocks_of(draft, finding.at) if keeps(block)], what, finding)


def _received(draft: Draft, at: int) -> tuple[Json, ...]:
    return blocks_in(field(draft.told_of(at), "content"))


def _is_no_thinking(block: Json) -> bool:
    return not is_thinking(block)


@mends.of("A24")
def whole_thinking(draft: Draft, findings: list[Finding]) -> None:
    """Restore the thinking of the latest message, or leave all of it out."""
    for finding in findings:
        if not restore(draft, finding, "thinking"):
            _keep(draft, finding, _is_no_thinking, "All thinking of the message is left out: it was changed.")


@mends.of("A25")
def signed_thinking(draft: Draft, findings: list[Finding]) -> None:
    """Restore thinking without its signature, or drop it."""
    for finding in backwards(findings):
        if restore(draft, finding, "thinking"):
            continue
        unsigned = not all(signed(block) for block in blocks_of(draft, finding.at))
        known = [field(block, "signature") for block in _received(draft, finding.at) if kind(block) == "thinking"]

        def keeps(block: Json, known: list[Json] = known, unsigned: bool = unsigned) -> bool:
            # What is signed is judged by what was received once all that is not signed is gone.
            return signed(block) if unsigned else kind(block) != "thinking" or field(block, "signature") in known

        _keep(draft, finding, keeps, "Thinking that nobody signed was dropped.")


@mends.of("A26")
def leading_thinking(draft: Draft, findings: list[Finding]) -> None:
    """Restore the thinking that the open turn begins with; it cannot be made up."""
    for finding in findings:
        received = _received(draft, finding.at)
        if received and is_thinking(received[0]) and not is_foreign(draft.facts, finding.at):
            restore(draft, finding, "leading")


@mends.of("A27")
def own_thinking(draft: Draft, findings: list[Finding]) -> None:
    """Leave out the thinking of another model."""
    for finding in backwards(findings):
        _keep(draft, finding, _is_no_thinking, "The thinking of another model is left out.")


@mends.of("A58")
def thinking_in_front(draft: Draft, findings: list[Finding]) -> None:
    """Restore the order of the response, or leave its thinking out."""
    for finding in backwards(findings):
        if restore(draft, finding, "thinking"):
            continue
        if all(worded(block) for block in blocks_of(draft, finding.at)):
            _keep(draft, finding, _is_no_thinking, "Thinking that stood behind other blocks is left out.")
        else:
            _keep(draft, finding, worded, "Thinking without its text is left out.")


@mends.of("A59")
def thinking_at_the_end(draft: Draft, findings: list[Finding]) -> None:
    """Drop the thinking with which a message ends."""
    for finding in backwards(findings):
        blocks = blocks_of(draft, finding.at)
        while blocks and is_thinking(blocks[-1]):
            blocks.pop()
        put(draft, finding.at, blocks, "The thinking at the end was dropped: what it led to is not there.", finding)


@mends.of("A37", "G05")
def opaque_parts(draft: Draft, findings: list[Finding]) -> None:
    """Restore what was damaged, or drop it: a result with its call, a citation, redacted thinking."""
    for finding in backwards(findings):
        if restore(draft, finding, "opaque"):
            continue
        received = _received(draft, finding.at)
        known = all_in(received, "encrypted_index")
        redacted = [field(block, "data") for block in received if kind(block) == "redacted_thinking"]
        kept = [
            _cited(block, known) for block in blocks_of(draft, finding.at) if not _is_damaged(block, finding, redacted)
        ]
        put(draft, finding.at, kept, "Damaged opaque data was dropped, with its call.", finding)


def _is_damaged(block: Json, finding: Finding, redacted: list[Json]) -> bool:
    pair = kind(block) in kinds.SERVER_CALLS or kinds.is_server_result(block)
    if finding.rule.startswith("G05") and kind(block) == "redacted_thinking":
        return field(block, "data") not in redacted
    return pair and id_of(block) in finding.ids


def _cited(block: Json, known: list[Json]) -> Json:
    cited = field(block, "citations")
    if not is_list(cited) or all(index in known for index in all_in(cited, "encrypted_index")):
        return block
    return without(block, ["citations"])


@mends.of("A48")
def whole_compaction(draft: Draft, findings: list[Finding]) -> None:
    """Make an empty summary null, and restore a block that was lost."""
    for finding in backwards(findings):
        blocks = blocks_of(draft, finding.at)
        empty = [kind(block) == "compaction" and field(block, "content") == "" for block in blocks]
        if any(empty):
            nulls = [{**b, "content": None} if bad else b for b, bad in zip(blocks, empty, strict=True)]
            put(draft, finding.at, nulls, "An empty summary became null: nothing was compacted.", finding)
        elif not restore(draft, finding, "compaction"):
            lost = [block for block in _received(draft, finding.at) if kind(block) == "compaction"]
            kept = [block for block in blocks if kind(block) != "compaction"]
            put(draft, finding.at, [*lost, *kept], "The compaction block was restored from the journal.", finding)


@early.of("A49")
def whole_fallback(draft: Draft, findings: list[Finding]) -> None:
    """Leave out calls in front of a fallback block that never ran, and restore a lost block."""
    for finding in backwards(findings):
        blocks = blocks_of(draft, finding.at)
        front = before_fallback(tuple(blocks))
        if not front:
            if not restore(draft, finding, "fallback"):
                put(
                    draft, finding.at, _with_fallback(blocks, _received(draft, finding.at)), "It was put back.", finding
                )
            continue
        answered = {id_of(b) for at in range(len(draft.messages)) for b in blocks_of(draft, at) if is_result(b)}
        last = max(at for at, block in enumerate(blocks) if kind(block) == "fallback")
        early = [b for b in blocks[:last] if id_of(b) in front and (is_call(b) or kind(b) in kinds.SERVER_CALLS)]
        ran = [b for b in early if is_call(b) and (id_of(b) in answered or id_of(b) in draft.results)]
        kept = [b for b in blocks[: last + 1] if not any(b is one for one in early)]
        what = "Calls in front of the fallback block were left out; those that ran stand behind it."
        put(draft, finding.at, [*kept, *ran, *blocks[last + 1 :]], what, finding)


def _with_fallback(blocks: list[Json], received: tuple[Json, ...]) -> list[Json]:
    """Return blocks with the fallback blocks that were received, each behind what stood in front of it."""
    made = [block for block in blocks if kind(block) != "fallback"]
    for at, fallback in enumerate(received):
        if kind(fallback) == "fallback":
            front = {which(block) for block in received[:at]}
            places = [place for place, block in enumerate(made) if which(block) in front]
            made.insert(places[-1] + 1 if places else 0, fallback)
    return made
