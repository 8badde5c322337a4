"""Mends of cache markers, neighbours, and how the list begins and ends."""

from __future__ import annotations

from midstride.transcript.anthropic.editing import Blocks, blocks_of, each, inner, put, role_of, text, without
from midstride.transcript.anthropic.history import lives_long
from midstride.transcript.anthropic.kinds import is_result
from midstride.transcript.anthropic.limits import MARKERS_MAX, markers_before
from midstride.transcript.anthropic.mend_shape import answered
from midstride.transcript.draft import Draft, Mends, backwards
from midstride.transcript.finding import Finding
from midstride.transcript.values import Json, field

mends = Mends(answered)

CUT = "(The beginning of this conversation was left out.)"
GO_ON = "Continue."


@mends.of("A29")
def fewer_markers(draft: Draft, findings: list[Finding]) -> None:
    """Take the oldest cache markers away."""
    left = max(0, MARKERS_MAX - len(markers_before(draft.facts)))

    def counted(block: Json) -> Blocks:
        nonlocal left
        if field(block, "cache_control") is None:
            return [block]
        left -= 1
        return [block] if left >= 0 else [without(block, ["cache_control"])]

    for at in range(len(draft.messages) - 1, -1, -1):
        finding = Finding(findings[0].rule, findings[0].level, at, (), findings[0].message)
        change = inner(counted)
        blocks = [new for block in reversed(blocks_of(draft, at)) for new in change(block)]
        put(draft, at, blocks[::-1], "An old cache marker was taken away.", finding)


@mends.of("A31")
def short_markers(draft: Draft, findings: list[Finding]) -> None:
    """Make cache markers of an hour behind one of five minutes live for five minutes."""
    for finding in findings[: len(draft.messages)]:
        each(draft, finding, inner(lambda block: [_short(block)]), "A cache marker lives for five minutes now.")


def _short(block: Json) -> Json:
    marker = field(block, "cache_control")
    return {**block, "cache_control": without(marker, ["ttl"])} if lives_long(marker) else block


@mends.of("A06", "A07")
def merge(draft: Draft, findings: list[Finding]) -> None:
    """Merge a message into the one before it, results first."""
    for finding in backwards(list({one.at: one for one in findings}.values())):
        before = finding.at - 1
        blocks = [*blocks_of(draft, before), *blocks_of(draft, finding.at)]
        blocks.sort(key=lambda block: role_of(draft, before) == "user" and not is_result(block))
        draft.drop(finding.at, "The message was merged into the one before it.", finding)
        put(draft, before, blocks, "The message behind it was merged into this one.", finding)


@mends.of("A13")
def no_trailing_space(draft: Draft, findings: list[Finding]) -> None:
    """Trim the text that the model is to continue."""
    for finding in findings:
        *blocks, last = blocks_of(draft, finding.at)
        trimmed = field(last, "text").rstrip()
        what = "The last text was trimmed at its right end."
        content = field(draft.messages[finding.at], "content")
        if isinstance(content, str) and trimmed:
            draft.change(finding.at, {**draft.messages[finding.at], "content": trimmed}, what, finding)
        else:
            put(draft, finding.at, [*blocks, *([{**last, "text": trimmed}] if trimmed else [])], what, finding)


@mends.of("A08")
def user_in_front(draft: Draft, findings: list[Finding]) -> None:
    """Let the user say that the beginning is left out."""
    for finding in findings:
        draft.insert(
            0, {"role": "user", "content": [text(CUT)]}, "A message says that the beginning is missing.", finding
        )


@mends.of("A09")
def user_at_the_end(draft: Draft, findings: list[Finding]) -> None:
    """Let the user say to go on, unless the task is finished."""
    for finding in findings:
        if not draft.facts.stopped("end_turn", "stop_sequence"):
            message = {"role": "user", "content": [text(GO_ON)]}
            draft.insert(len(draft.messages), message, "The user says to continue.", finding)
