"""Mends of what a message is made of: strings, kinds, fields, roles, the last response, and the form of calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from midstride.transcript import sanity
from midstride.transcript.anthropic import kinds
from midstride.transcript.anthropic.content import NAME_MAX, in_place
from midstride.transcript.anthropic.editing import Blocks, blocks_of, each, inner, put, role_of, text, without
from midstride.transcript.anthropic.fields import ROLES, extra_fields, misplaced
from midstride.transcript.anthropic.kinds import id_of, is_call, kind
from midstride.transcript.anthropic.message import blocks_in
from midstride.transcript.anthropic.thinking import is_foreign
from midstride.transcript.draft import Draft, Mends, backwards
from midstride.transcript.finding import Finding
from midstride.transcript.values import Json, field, holds, is_list, parsed

UNKNOWN_TOOL = "unknown_tool"
INVALID = "INVALID_JSON"
"""The key under which an input stands that could not be read."""


def answered(messages: object) -> int:
    """Return how many messages the model has answered: those before its last message."""
    rows = messages if is_list(messages) else []
    places = [at for at, message in enumerate(rows) if field(message, "role") == "assistant"]
    return places[-1] if places else 0


mends = Mends(answered)
mends.of(*sanity.RULES)(sanity.clean)


@mends.of("G06")
def known_kinds(draft: Draft, findings: list[Finding]) -> None:
    """Rename a role that is known by another name; leave out what is of an unknown kind."""
    for finding in backwards(findings):
        role = role_of(draft, finding.at)
        named = sanity.NAMES.get(role) if isinstance(role, str) else None
        content = field(draft.messages[finding.at], "content")
        if named:
            message = {**draft.messages[finding.at], "role": named}
            draft.change(finding.at, message, f"The role became {named}.", finding)
        elif role not in ROLES:
            draft.drop(finding.at, "The message is left out: its role is not known.", finding)
        elif holds(content) and not isinstance(content, str) and not is_list(content):
            message = {**draft.messages[finding.at], "content": [content]}
            draft.change(finding.at, message, "The content became a list.", finding)
        else:
            each(draft, finding, _known, "Blocks of an unknown kind are left out, bare strings became text.")


def _known(block: Json) -> Blocks:
    if isinstance(block, str):
        return [text(block)]
    return [block] if kind(block) in kinds.KINDS else []


@mends.of("G04", "A22")
def known_fields(draft: Draft, findings: list[Finding]) -> None:
    """Leave out fields that the API does not know."""
    for finding in backwards(findings):
        message = draft.messages[finding.at]
        if any(name not in ("role", "content") for name in message):
            bare = {name: value for name, value in message.items() if name in ("role", "content")}
            draft.change(finding.at, bare, "Fields that the API does not know are left out.", finding)
        each(draft, finding, inner(_bare_inside, _bare), "Fields that the API does not know are left out.")


def _bare(block: Json) -> Blocks:
    return [without(block, extra_fields(block))] if extra_fields(block) else [block]


def _bare_inside(part: Json) -> Blocks:
    return _bare(part) if kind(part) in kinds.INSIDE else [part]


@mends.of("A30")
def place_markers(draft: Draft, findings: list[Finding]) -> None:
    """Take cache markers away where none may be."""
    for finding in backwards(findings):
        each(draft, finding, inner(_unmarked), "A cache marker was taken away.")


def _unmarked(block: Json) -> Blocks:
    if not misplaced(block):
        return [block]
    cited = field(block, "citations")
    bare = without(block, ["cache_control"])
    if is_list(cited):
        bare["citations"] = [without(one, ["cache_control"]) if isinstance(one, Mapping) else one for one in cited]
    return [bare]


# ---- the last response


@mends.of("A50", "A52")
def drop_response(draft: Draft, findings: list[Finding]) -> None:
    """Drop a response that was cut or refused, unless one of its calls is recorded as run: then keep the calls."""
    for finding in findings:
        calls = [block for block in blocks_of(draft, finding.at) if is_call(block)]
        if any(id_of(block) in draft.results for block in calls):
            kept = [block for block in calls if id_of(block) in draft.results]
            put(draft, finding.at, kept, "Only the calls are kept that are recorded as run.", finding)
        else:
            draft.drop(finding.at, "The response was dropped: it must not be used.", finding)
        draft.forget_stop()


@mends.of("A55")
def drop_empty(draft: Draft, findings: list[Finding]) -> None:
    """Drop an empty response."""
    for finding in findings:
        draft.drop(finding.at, "The empty response was dropped.", finding)


@mends.of("A51")
def resume_pause(draft: Draft, findings: list[Finding]) -> None:
    """Send a paused response back as it came."""
    for finding in findings:
        if not is_foreign(draft.facts, finding.at):
            restore(draft, finding, "paused")


def restore(draft: Draft, finding: Finding, why: str) -> bool:
    """Put the content that was received in the place of a message's, once, if no call of it would be lost."""
    received = field(draft.told_of(finding.at), "content")
    if not (is_list(received) or isinstance(received, str)) or not holds(received):
        return False
    theirs = {id_of(block) for block in blocks_in(received) if is_call(block)}
    ours = {id_of(block) for block in blocks_of(draft, finding.at) if is_call(block)}
    if not ours <= theirs or not draft.first_try(why, finding.at):
        return False
    content = list(received) if is_list(received) else received
    message = {**draft.messages[finding.at], "content": content}
    draft.change(finding.at, message, "The message was restored from the journal.", finding)
    return True


# ---- roles and calls


@mends.of("A20")
def split_roles(draft: Draft, findings: list[Finding]) -> None:
    """Split a message where the role of its blocks changes."""
    for finding in backwards(findings):
        role = str(role_of(draft, finding.at))
        blocks = blocks_of(draft, finding.at)
        if role != "assistant" and any(kind(block) in OPAQUE for block in blocks):
            kept = [block for block in blocks if kind(block) not in OPAQUE]
            put(draft, finding.at, kept, "What only the model can think was left out of the user's message.", finding)
            continue
        pieces = list(_pieces(blocks, role))
        made = [{"role": one, "content": blocks} for one, blocks in pieces]
        draft.change(finding.at, made[0], "The message was split where the role of its blocks changes.", finding)
        draft.origins[finding.at] = None  # what was received was the whole
        for more, message in enumerate(made[1:], start=1):
            draft.insert(finding.at + more, message, "A part of the message before it, with the right role.", finding)


OPAQUE = (*kinds.THINKING, "compaction", "fallback")
"""Kinds that nobody can have said for the model: in another's message they are no part of it."""


def _pieces(blocks: Blocks, role: str) -> Iterator[tuple[str, Blocks]]:
    run: Blocks = []
    now = ""
    for block in blocks:
        mine = role if in_place(block, role) else ("assistant" if kind(block) in kinds.ASSISTANTS else "user")
        if run and mine != now:
            yield now, run
            run = []
        now = mine
        run.append(block)
    yield now, run


@mends.of("A15")
def read_inputs(draft: Draft, findings: list[Finding]) -> None:
    """Read an input that was written as a string; wrap any other."""
    for finding in backwards(findings):
        received = blocks_in(field(draft.told_of(finding.at), "content"))
        known = {id_of(block): field(block, "input") for block in received if is_call(block)}
        what = "The input of a call became an object."
        each(draft, finding, lambda block, known=known: [_read(block, known)], what)  # type: ignore[misc]


def _read(block: Json, known: Mapping[str, Json]) -> Json:
    given = field(block, "input")
    if not is_call(block) or isinstance(given, Mapping):
        return block
    meant = known.get(id_of(block))
    once = meant if isinstance(meant, Mapping) else parsed(given)
    return {**block, "input": once if isinstance(once, Mapping) else {INVALID: given}}


@mends.of("A16")
def name_calls(draft: Draft, findings: list[Finding]) -> None:
    """Give a call a name that it may bear."""
    for finding in backwards(findings):
        each(draft, finding, lambda block: [_with_name(block)], "A call got a name that it may bear.")


def _with_name(block: Json) -> Json:
    name = field(block, "name")
    if not is_call(block) or (isinstance(name, str) and 0 < len(name) <= NAME_MAX):
        return block
    return {**block, "name": name[:NAME_MAX] if isinstance(name, str) and name else UNKNOWN_TOOL}
