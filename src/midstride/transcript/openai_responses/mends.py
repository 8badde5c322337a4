"""The mends of OpenAI Responses that look at one item at a time, in the order of work."""

from __future__ import annotations

from collections.abc import Sequence

from midstride.transcript import sanity
from midstride.transcript.draft import Draft, Mends, backwards
from midstride.transcript.finding import Finding
from midstride.transcript.openai_responses import kinds
from midstride.transcript.openai_responses.content import OUTPUT_PARTS, is_output, parts_of
from midstride.transcript.openai_responses.item import History, Item
from midstride.transcript.openai_responses.kinds import id_of, kind
from midstride.transcript.openai_responses.state import lost_compactions, needing
from midstride.transcript.values import LONG, Json, field, is_list, same, written

CUT = "... [cut here: it was longer than is taken]"


def answered(items: Sequence[Json]) -> int:
    """Return how many items the model has answered: those before its last message or call."""
    places = [at for at, item in enumerate(items) if kinds.succeeds_reasoning(item) or kind(item) == "reasoning"]
    return places[-1] if places else 0


mends = Mends(answered)
mends.of(*sanity.RULES)(sanity.clean)


def put(draft: Draft, finding: Finding, what: str, **fields: Json) -> None:
    """Change fields of an item."""
    draft.change(finding.at, {**draft.messages[finding.at], **fields}, what, finding)


def without(draft: Draft, finding: Finding, name: str, what: str) -> None:
    """Take a field from an item."""
    bare = {key: value for key, value in draft.messages[finding.at].items() if key != name}
    draft.change(finding.at, bare, what, finding)


def received(draft: Draft, one: str) -> Json:
    """Return an item as it was received; None if the journal does not hold it."""
    found = [item for _, output in draft.facts.responses() for item in output if one and id_of(item) == one]
    return found[-1] if found else None


@mends.of("G06")
def known_kinds(draft: Draft, findings: list[Finding]) -> None:
    """Rename a role that is known by another name; leave out an item of an unknown kind."""
    for finding in backwards(findings):
        role = field(draft.messages[finding.at], "role")
        named = sanity.NAMES.get(role) if isinstance(role, str) else None
        if named and kind(draft.messages[finding.at]) == "message":
            put(draft, finding, f"The role became {named}.", role=named)
        else:
            draft.drop(finding.at, "The item is left out: its kind is not known.", finding)


@mends.of("R09")
def no_foreign_ids(draft: Draft, findings: list[Finding]) -> None:
    """Leave out an id of another form; a reference that is nothing else goes."""
    for finding in backwards(findings):
        item = draft.messages[finding.at]
        if kind(item) == "item_reference":
            draft.drop(finding.at, "The reference was dropped: the server knows no such id.", finding)
        elif kind(item) == "local_shell_call_output" and field(item, "call_id") is None:
            one = field(item, "id")
            put(draft, finding, "The id became the call_id.", call_id=one if isinstance(one, str) else "", id=None)
        else:
            without(draft, finding, "id", "The id was left out: the item counts as fresh input.")


@mends.of("R05")
def no_copies(draft: Draft, findings: list[Finding]) -> None:
    """Drop a copy of an item; take the id from another item that bears it too."""
    for finding in backwards(findings):
        item = draft.messages[finding.at]
        same_id = [one for one in draft.messages[: finding.at] if id_of(one) == id_of(item)]
        if kind(item) == "item_reference" or any(same(one, item) for one in same_id):
            draft.drop(finding.at, "The copy was dropped.", finding)
        elif kind(item) == "local_shell_call_output" and field(item, "call_id") is None:
            put(draft, finding, "The id became the call_id.", call_id=id_of(item), id=None)
        else:
            without(draft, finding, "id", "The id was left out: another item bears it.")


@mends.of("R11")
def only_new_items(draft: Draft, findings: list[Finding]) -> None:
    """Leave out what the server holds."""
    for finding in backwards(findings):
        if finding.ids:
            draft.drop(finding.at, "The item was left out: the server holds it.", finding)


@mends.of("R12")
def drop_cut_calls(draft: Draft, findings: list[Finding]) -> None:
    """Drop a call that was cut off, unless it was answered: then it was run, and what it did may not be hidden."""
    answers = {kinds.call_id_of(item) for item in draft.messages if kind(item) in kinds.OUTPUTS}
    for finding in backwards(findings):
        one = kinds.call_id_of(draft.messages[finding.at])
        if one not in answers and one not in draft.results:
            draft.drop(finding.at, "The call was dropped: it was cut off and never ran.", finding)


@mends.of("R21")
def string_arguments(draft: Draft, findings: list[Finding]) -> None:
    """Write arguments as JSON text."""
    for finding in findings:
        given = field(draft.messages[finding.at], "arguments")
        text = "{}" if given is None else written(given)
        put(draft, finding, "The arguments were written as JSON text.", arguments=text)


# ---- parts


@mends.of("R20")
def parts_of_the_role(draft: Draft, findings: list[Finding]) -> None:
    """Give parts the names that belong to the role; show as text what has none."""
    for finding in findings:
        item = draft.messages[finding.at]
        named = parts_of(field(item, "role"))
        parts = [
            _named(part, named, "output_text" if "output_text" in named else "input_text") for part in item["content"]
        ]
        put(draft, finding, "The parts got the names that belong to the role.", content=parts)


def _named(part: Json, known: tuple[str, ...], textual: str) -> Json:
    if field(part, "type") in known:
        return part
    words = part if isinstance(part, str) else field(part, "text")
    if isinstance(words, str):
        return {"type": textual, "text": words}
    refusal = field(part, "refusal")
    return {"type": textual, "text": refusal if isinstance(refusal, str) else written(part)}


@mends.of("R10")
def textual_outputs(draft: Draft, findings: list[Finding]) -> None:
    """Give the parts of an output their names here; show as text what has none, and cut what is too long."""
    for finding in findings:
        output = field(draft.messages[finding.at], "output")
        if is_list(output):
            output = [_named(part, OUTPUT_PARTS, "input_text") for part in output]
        elif not isinstance(output, str):
            output = "(no output)" if output is None else written(output)
        short = output if is_output(output) else output[: LONG - len(CUT)] + CUT
        put(draft, finding, "The output became text that is taken.", output=short)


# ---- reasoning and what the server holds


@mends.of("R07", "R15", "G05")
def received_bytes(draft: Draft, findings: list[Finding]) -> None:
    """Restore an item as it was received; move a trigger to the end; put a lost compaction back in its place."""
    for finding in backwards(findings):
        item = draft.messages[finding.at] if finding.at < len(draft.messages) else None
        whole = received(draft, id_of(item))
        if kind(item) == "compaction_trigger" and any(map(_is_trigger, draft.messages[finding.at + 1 :])):
            draft.drop(finding.at, "The trigger was dropped: another one follows.", finding)
        elif kind(item) == "compaction_trigger":
            draft.move(finding.at, len(draft.messages) - 1, "The trigger was moved to the end.", finding)
        elif whole is not None and not same(whole, item):
            draft.change(finding.at, whole, "The item was restored from the journal.", finding)
        elif kind(item) == "compaction":
            draft.drop(finding.at, "The item was dropped: it is larger than is taken.", finding)
        else:
            _put_back(draft, finding)


def _is_trigger(item: Json) -> bool:
    return kind(item) == "compaction_trigger"


def _put_back(draft: Draft, finding: Finding) -> None:
    for at, item in lost_compactions(_history(draft), draft.facts):
        later = [place for place in range(at + 1, len(draft.messages)) if id_of(draft.messages[place]) == id_of(item)]
        for place in reversed(later):
            draft.drop(place, "The compaction item was moved to its place.", finding)
        draft.insert(at, item, "The compaction item was put back.", finding)


def _history(draft: Draft) -> History:
    history = History.empty()
    for at, item in enumerate(draft.messages):
        history = history.after(Item.read(at, item))
    return history


@mends.of("R06")
def whole_items(draft: Draft, findings: list[Finding]) -> None:
    """Restore an item that is named only; else leave it out."""
    for finding in backwards(findings):
        item = draft.messages[finding.at] if draft.messages else None
        if id_of(item) not in finding.ids:
            continue  # it is the chain that is lost
        whole = received(draft, id_of(item))
        usable = whole is not None and (kind(whole) != "reasoning" or field(whole, "encrypted_content") is not None)
        if usable and kind(whole) != "item_reference":
            draft.change(finding.at, whole, "The item was restored from the journal.", finding)
        else:
            draft.drop(finding.at, "The item was left out: the server does not hold it.", finding)


@mends.of("R04")
def with_reasoning(draft: Draft, findings: list[Finding]) -> None:
    """Put the reasoning item back in front; else the item loses its id."""
    needs = {item.at: reasoning for item, reasoning in needing(draft.facts, _history(draft))}
    for finding in backwards(findings):
        reasoning = needs.get(finding.at)
        there = [at for at, item in enumerate(draft.messages) if id_of(item) == id_of(reasoning)]
        usable = isinstance(field(reasoning, "encrypted_content"), str) and not there
        if usable and draft.first_try(f"reasoning {id_of(reasoning)}", finding.at):
            draft.insert(finding.at, reasoning, "The reasoning item was put back.", finding)
            return  # those behind it may be content with it
        without(draft, finding, "id", "The id was left out: the item counts as fresh input.")


@mends.of("R03")
def no_lonely_reasoning(draft: Draft, findings: list[Finding]) -> None:
    """Drop reasoning that led to nothing."""
    for finding in backwards(findings):
        draft.drop(finding.at, "The reasoning was dropped: what it belongs to is not there.", finding)


@mends.of("R17")
def no_lost_containers(draft: Draft, findings: list[Finding]) -> None:
    """Leave out what ran in a container that is gone."""
    for finding in backwards(findings):
        draft.drop(finding.at, "The item was left out: its container is gone.", finding)
