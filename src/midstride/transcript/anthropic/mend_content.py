"""Mends of server calls, emptiness, results, and what a request may hold of pictures, files and references."""

from __future__ import annotations

from collections.abc import Mapping

from midstride.transcript.anthropic import kinds
from midstride.transcript.anthropic.content import failed, of_toolset
from midstride.transcript.anthropic.editing import Blocks, blocks_of, each, inner, put, role_of, text, without
from midstride.transcript.anthropic.history import WIDE, citations, pictures, side_of
from midstride.transcript.anthropic.kinds import id_of, is_call, is_other, is_result, is_server_result, kind
from midstride.transcript.anthropic.limits import PICTURES_MAX, is_locked, picture_fault
from midstride.transcript.anthropic.mend_shape import answered, restore
from midstride.transcript.anthropic.message import Message, inside
from midstride.transcript.draft import Draft, Mends, backwards
from midstride.transcript.finding import Finding
from midstride.transcript.media import picture
from midstride.transcript.values import Json, field, holds, is_list, written
from midstride.transcript.words import failed as failed_words

mends = Mends(answered)

# ---- server tools


@mends.of("A35", "A38")
def results_alone(draft: Draft, findings: list[Finding]) -> None:
    """Hold back what is no result while a server call is open; where the model went on, leave the open call out."""
    for finding in backwards(findings):
        blocks = blocks_of(draft, finding.at)
        if finding.at < answered(draft.messages):
            _leave_out_open_calls(draft, finding)
            continue
        other = [block for block in blocks if is_other(block)]
        made = [_only_text(b) if id_of(b) in finding.ids else b for b in blocks if not is_other(b)]
        put(draft, finding.at, made, "What is no result is held back until the turn has ended.", finding)
        if other:
            draft.held.insert(0, {"role": "user", "content": other})


def _only_text(block: Json) -> Json:
    parts = inside(block)
    if all(kind(part) == "text" for part in parts):
        return block
    left_out = text("[What is no text was left out here: code takes text only.]")
    return {**block, "content": [*(part for part in parts if kind(part) == "text"), left_out]}


def _leave_out_open_calls(draft: Draft, finding: Finding) -> None:
    # The call was opened behind the last message that says more than results; in front of that one nothing is open.
    for at in range(finding.at - 1, -1, -1):
        if role_of(draft, at) == "assistant":
            done = {id_of(block) for block in blocks_of(draft, at) if is_server_result(block)}
            kept = [b for b in blocks_of(draft, at) if kind(b) not in kinds.SERVER_CALLS or id_of(b) in done]
            put(draft, at, kept, "An open server call was left out: the turn went on without it.", finding)
        elif any(is_other(block) for block in blocks_of(draft, at)):
            return


@mends.of("A32", "A36")
def leave_out_calls(draft: Draft, findings: list[Finding]) -> None:
    """Leave out server calls that nobody will answer."""
    for finding in backwards(findings):
        kept = [
            block
            for block in blocks_of(draft, finding.at)
            if not (kind(block) in kinds.SERVER_CALLS and id_of(block) in finding.ids)
        ]
        put(draft, finding.at, kept, "An open server call was left out: its turn cannot be continued.", finding)


@mends.of("A33")
def leave_out_results(draft: Draft, findings: list[Finding]) -> None:
    """Leave out results of server tools whose call is not there."""
    for finding in backwards(findings):
        earlier = [block for at in range(finding.at) for block in blocks_of(draft, at)]
        called = {id_of(block) for block in earlier if kind(block) in kinds.SERVER_CALLS} - {""}
        kept = []
        for block in blocks_of(draft, finding.at):
            if kind(block) in kinds.SERVER_CALLS and id_of(block):
                called.add(id_of(block))
            if not is_server_result(block) or id_of(block) in called:
                kept.append(block)
        put(draft, finding.at, kept, "A server's result was left out: its call is not in the list.", finding)


@mends.of("A23")
def leave_out_betas(draft: Draft, findings: list[Finding]) -> None:
    """Leave out blocks of a beta that is not sent, and their partners."""
    sent = {one.rstrip("0123456789-") for one in draft.facts.request["betas"] if isinstance(one, str)}
    refused = {name for name, beta in kinds.BETAS.items() if beta not in sent}
    for finding in backwards(findings):
        blocks = blocks_of(draft, finding.at)
        partners = {id_of(block) for block in blocks if kind(block) in refused} - {""}
        kept = [b for b in blocks if kind(b) not in refused and not _is_partner(b, partners)]
        put(draft, finding.at, kept, "Blocks of a beta that is not sent were left out.", finding)


def _is_partner(block: Json, partners: set[str]) -> bool:
    return id_of(block) in partners and not is_call(block) and not is_result(block)


@mends.of("A43")
def name_references(draft: Draft, findings: list[Finding]) -> None:
    """Name a tool that is not declared in words, where it was referred to."""
    known = set(draft.facts.tool_names)
    for finding in backwards(findings):
        what = "A reference to a tool that is not declared became words."
        each(draft, finding, lambda block: _dereferenced(block, known), what)


def _dereferenced(block: Json, known: set[str]) -> Blocks:
    if all(name in known for name in kinds.references(block)):
        return [block]
    content = field(block, "content")
    if kind(block) == "tool_search_tool_result":
        kept = [part for part in content["tool_references"] if _is_known(part, known)]
        return [{**block, "content": {**content, "tool_references": kept}}]
    if is_result(block):
        return [{**block, "content": [part if _is_known(part, known) else _gone_tool(part) for part in content]}]
    return []


def _gone_tool(part: Json) -> Json:
    return text(f"[The tool {part['tool_name']} is gone.]")


def _is_known(part: Json, known: set[str]) -> bool:
    return kind(part) != "tool_reference" or not isinstance(part.get("tool_name"), str) or part["tool_name"] in known


# ---- emptiness


@mends.of("A11", "A12")
def drop_blank_texts(draft: Draft, findings: list[Finding]) -> None:
    """Remove texts without a character that is not white space."""
    for finding in backwards(findings):
        each(draft, finding, inner(_no_blank), "A text without words was removed.")


def _no_blank(block: Json) -> Blocks:
    words = field(block, "text")
    blank = words in ("", None) or (isinstance(words, str) and words.isspace())
    return [] if kind(block) == "text" and blank else [block]


@mends.of("A10")
def drop_empty_messages(draft: Draft, findings: list[Finding]) -> None:
    """Restore messages without content, or drop them."""
    for finding in backwards(findings):
        if _came_empty(draft, finding.at) and restore(draft, finding, "content"):
            continue
        draft.drop(finding.at, "The message was dropped: it is empty.", finding)


def _came_empty(draft: Draft, at: int) -> bool:
    # What a mend emptied is not brought back.
    origin = draft.origins[at]
    return origin is not None and not holds(field(draft.given[origin], "content"))


# ---- results


@mends.of("A17")
def fill_errors(draft: Draft, findings: list[Finding]) -> None:
    """Say that a call failed, where its error has no words."""
    words = failed_words("the call ended with an error and gave no reason.")
    for finding in backwards(findings):
        what = "An error without words says now that the call failed."
        each(draft, finding, lambda b: [{**b, "content": words} if _is_bare_error(b) else b], what)


def _is_bare_error(block: Json) -> bool:
    return is_result(block) and failed(block) and not holds(field(block, "content"))


@mends.of("A18")
def errors_in_words(draft: Draft, findings: list[Finding]) -> None:
    """Say in words that a call failed, where its result holds more than text."""
    for finding in backwards(findings):
        each(draft, finding, _in_words, "An error with more than text says in words that the call failed.")


def _in_words(block: Json) -> Blocks:
    if not is_result(block) or not failed(block) or all(kind(part) == "text" for part in inside(block)):
        return [block]
    first = text(failed_words("the call ended with an error."))
    return [{**without(block, ["is_error"]), "content": [first, *inside(block)]}]


@mends.of("A19")
def show_odd_kinds(draft: Draft, findings: list[Finding]) -> None:
    """Show as JSON what a result may not hold."""
    for finding in backwards(findings):
        asked = {id_of(b): b for at in range(finding.at) for b in blocks_of(draft, at) if is_call(b)}
        what = "What a result may not hold is shown as JSON text."
        each(draft, finding, lambda block, asked=asked: [_shown(block, asked)], what)  # type: ignore[misc]


def _shown(block: Json, asked: Mapping[str, Json]) -> Json:
    content = field(block, "content")
    if not is_result(block) or content is None or isinstance(content, str):
        return block
    if not is_list(content):
        return {**block, "content": written(content)}
    toolset = of_toolset(block, asked)
    allowed = set(kinds.INSIDE_TOOLSET if toolset else kinds.INSIDE)
    parts = []
    for part in content:
        parts.append(part if kind(part) in allowed else text(part if isinstance(part, str) else written(part)))
        allowed -= {"browser_state"} & {kind(part)}
    return {**block, "content": parts}


@mends.of("A40")
def echo_toolsets(draft: Draft, findings: list[Finding]) -> None:
    """Copy toolset_name from the call to its result."""
    for finding in backwards(findings):
        calls = [b for at in range(finding.at) for b in blocks_of(draft, at) if is_call(b) and id_of(b) in finding.ids]
        sets = {id_of(block): field(block, "toolset_name") for block in calls}
        each(draft, finding, lambda block, sets=sets: [_echoing(block, sets)], "toolset_name was copied.")  # type: ignore[misc]


def _echoing(block: Json, sets: Mapping[str, Json]) -> Json:
    return {**block, "toolset_name": sets[id_of(block)]} if is_result(block) and id_of(block) in sets else block


@mends.of("A41")
def sort_search_results(draft: Draft, findings: list[Finding]) -> None:
    """Put text into the search result that it stands beside; beside other kinds they become text."""
    for finding in backwards(findings):
        each(draft, finding, _of_one_kind, "Search results stand alone now, and hold text only.")


def _of_one_kind(block: Json) -> Blocks:
    if kind(block) == "search_result":
        return [_textual(block)]
    parts = [_textual(part) for part in inside(block)]
    found = [part for part in parts if kind(part) == "search_result"]
    if not found:
        return [block]
    if any(kind(part) not in ("text", "search_result") for part in parts):
        content = [text(written(part)) if kind(part) == "search_result" else part for part in parts]
    else:
        texts = [part for part in parts if kind(part) == "text"]
        content = [{**found[0], "content": [*found[0]["content"], *texts]} if texts else found[0], *found[1:]]
    return [{**block, "content": content}]


def _textual(part: Json) -> Json:
    content = field(part, "content")
    if kind(part) != "search_result" or (is_list(content) and all(kind(one) == "text" for one in content)):
        return part
    parts = content if is_list(content) else [content]
    return {**part, "content": [one if kind(one) == "text" else text(written(one)) for one in parts]}


@mends.of("A42")
def same_citations(draft: Draft, findings: list[Finding]) -> None:
    """Give all documents and search results the citations flag of the first."""
    flags = (flag for at, message in enumerate(draft.messages) for flag in citations(Message.read(at, message)))
    first = next(flags)
    for finding in backwards(findings):
        what = f"Citations are {'on' if first else 'off'}, as for the first document."
        each(draft, finding, inner(lambda block: [_flagged(block, first)]), what)


def _flagged(block: Json, first: bool) -> Json:
    cites = kind(block) in ("document", "search_result")
    if not cites or (field(field(block, "citations"), "enabled") is True) is first:
        return block
    return {**block, "citations": {"enabled": first}}


# ---- pictures, documents, files


@mends.of("A44")
def mend_pictures(draft: Draft, findings: list[Finding]) -> None:
    """Name a picture by its bytes; leave out what cannot be sent."""
    read = [pictures(Message.read(at, message)) for at, message in enumerate(draft.messages)]
    count = sum(map(len, read))
    wide = [finding for finding in findings if any(side > WIDE for _, side in read[finding.at])]
    for finding in backwards(findings):
        narrow = finding in wide and count > 20
        what = "A picture was named by its bytes, or left out with a word."
        each(draft, finding, inner(lambda block, narrow=narrow: [_sendable(block, narrow)]), what)  # type: ignore[misc]
    over = count - PICTURES_MAX
    for at, found in enumerate(read):
        if over > 0 and found:
            why = Finding(findings[0].rule, findings[0].level, at, (), findings[0].message)
            each(
                draft,
                why,
                inner(lambda b: [_stub("is one too many") if kind(b) == "image" else b]),
                "Old pictures left.",
            )
            over -= len(found)


def _sendable(block: Json, narrow: bool) -> Json:
    why = picture_fault(block) if kind(block) == "image" else ""
    if not why:
        too_wide = narrow and kind(block) == "image" and side_of(block) > WIDE
        return _stub("is too wide beside so many") if too_wide else block
    data = field(field(block, "source"), "data")
    seen = picture(data) if isinstance(data, str) else None
    source = {**block["source"], "media_type": seen.media_type} if seen else {}
    named = {**block, "source": source}
    return named if seen and not picture_fault(named) else _stub(why)


def _stub(why: str) -> Json:
    return text(f"[A picture was left out here: it {why}.]")


@mends.of("A45")
def leave_out_locked(draft: Draft, findings: list[Finding]) -> None:
    """Leave out documents that cannot be read."""
    stub = text("[A document was left out here: it is encrypted.]")
    for finding in backwards(findings):
        what = "An encrypted document became a word about it."
        each(draft, finding, inner(lambda block: [stub if is_locked(block) else block]), what)


@mends.of("A54")
def leave_out_files(draft: Draft, findings: list[Finding]) -> None:
    """Name a file that is gone in words."""
    gone = draft.facts.gone
    for finding in backwards(findings):
        what = "A file that is gone became a word about it."
        each(draft, finding, inner(lambda block: [_unless_gone(block, gone)]), what)


def _unless_gone(block: Json, gone: tuple[str, ...]) -> Json:
    file = field(block if kind(block) == "container_upload" else field(block, "source"), "file_id")
    is_gone = isinstance(file, str) and file in gone
    return text(f"[The file {file} was left out here: it is gone.]") if is_gone else block
