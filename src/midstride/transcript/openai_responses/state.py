"""Reasoning, references and what the server holds: an item with an id is one that the server made."""

from __future__ import annotations

from collections.abc import Iterator

from midstride.transcript.facts import Facts
from midstride.transcript.openai_responses import kinds
from midstride.transcript.openai_responses.item import History, Item
from midstride.transcript.openai_responses.kinds import id_of, kind, succeeds_reasoning
from midstride.transcript.openai_responses.pairing import chained
from midstride.transcript.rules import Fault, Rule, Rules
from midstride.transcript.values import Json, all_in, field, same

rules: Rules[Item, History] = Rules()


@rules.next(
    Rule(
        "R03-reasoning-needs-successor",
        "reject",
        error="Item 'rs_...' of type 'reasoning' was provided without its required following item.",
        source="openai/openai-node#1567; vercel/ai#7099; continuedev/continue#11994",
        repair="The reasoning item is dropped.",
    )
)
def lonely_reasoning(history: History, following: Item | None) -> Iterator[Fault]:
    """What follows a reasoning item is a message of the assistant or a call."""
    if following is not None and (following.kind == "reasoning" or succeeds_reasoning(following.raw)):
        return
    for at, one in history.reasoning:
        yield Fault(at, f"item {at} is reasoning, and what it belongs to does not follow", (one,) if one else ())


def sent(history: History, facts: Facts) -> Iterator[tuple[Item, Json]]:
    """Yield each item of the list that a response held, with the item as it was received."""
    newest = {id_of(received): received for _, output in facts.responses() for received in output if id_of(received)}
    for one, received in newest.items():
        yield from ((item, received) for item in history.items.all(("id", one)) if item.kind == kind(received))


@rules.end(
    Rule(
        "R04-item-needs-reasoning",
        "reject",
        error="Item 'fc_...' of type 'function_call' was provided without its required 'reasoning' item: 'rs_...'.",
        source="0xPlaygrounds/rig#751; anomalyco/opencode#7724",
        repair="The reasoning item is restored from the journal; else the item loses its id and counts as fresh input.",
    )
)
def bare_items(history: History, facts: Facts) -> Iterator[Fault]:
    """An item that came behind a reasoning item, and is sent with its id, has that item in front."""
    for item, reasoning in needing(facts, history):
        before = [one.at for one in history.items.all(("id", id_of(reasoning)))]
        if not any(at < item.at for at in before):
            yield Fault(item.at, f"item {item.at} stands without its reasoning item {id_of(reasoning)!a}", (item.id,))


def needing(facts: Facts, history: History) -> Iterator[tuple[Item, Json]]:
    """Yield each message and call of the list with the reasoning item that it came behind."""
    for _, output in facts.responses() if not chained(facts) else ():
        reasoning = None
        for received in output:
            if kind(received) == "reasoning":
                reasoning = received
            elif reasoning is not None and id_of(reasoning) and id_of(received) and succeeds_reasoning(received):
                found = history.items.all(("id", id_of(received)))
                yield from ((item, reasoning) for item in found if succeeds_reasoning(item.raw))


STORED = Rule(
    "R06-stored-items-only",
    "reject",
    error="Item with id 'rs_...' not found. Items are not persisted when `store` is set to false. ...",
    also=("Previous response with id 'resp_...' not found.",),
    source="langchain-ai/langchain PR#38372; agno-agi/agno#9240; SamSaffron/term-llm PR#251",
    repair="The whole item is restored from the journal, else left out. A lost chain is replaced by the full list.",
)


@rules.end(STORED)
def lost_items(history: History, facts: Facts) -> Iterator[Fault]:
    """An item that is named by its id alone is one that the server holds."""
    for item in history.items.all("by id alone"):
        if field(facts.request, "store") is False or item.id in facts.gone:
            yield Fault(
                item.at, f"item {item.at} is {item.id!a} by name only, and the server does not hold it", (item.id,)
            )


@rules.end(STORED)
def lost_chain(history: History, facts: Facts) -> Iterator[Fault]:
    """The response that the list goes on from is one that the server holds."""
    one = field(facts.request, "previous_response_id")
    if isinstance(one, str) and one in facts.gone:
        yield Fault(0, f"the list goes on from the response {one!a}, which is gone", (one,))


@rules.end(
    Rule(
        "R07-encrypted-content",
        "reject",
        error="The encrypted content ... could not be verified. (code invalid_encrypted_content)",
        source="openai/codex#8128; openclaw/openclaw#90093",
        repair="The item is restored from the journal.",
    )
)
def changed_reasoning(history: History, facts: Facts) -> Iterator[Fault]:
    """The encrypted content of a reasoning item is sent back to the byte."""
    for item, received in sent(history, facts):
        ours, theirs = field(item.raw, "encrypted_content"), field(received, "encrypted_content")
        if item.kind == "reasoning" and ours is not None and theirs is not None and not same(ours, theirs):
            yield Fault(
                item.at, f"item {item.at} has encrypted reasoning that differs from what was received", (item.id,)
            )


@rules.end(
    Rule(
        "R11-one-state-source",
        "reject",
        error="",
        source="openai-openapi; agno-agi/agno#9372",
        repair="Items that the server holds are left out. Of previous_response_id and conversation send one.",
    )
)
def sent_twice(history: History, facts: Facts) -> Iterator[Fault]:
    """The server is told where to go on by one name only, and the list then holds what is new."""
    told = [field(facts.request, name) for name in ("previous_response_id", "conversation")]
    if all(isinstance(one, str) for one in told):
        yield Fault(0, "the request names both a previous response and a conversation")
    for item, _ in sent(history, facts) if chained(facts) else ():
        yield Fault(item.at, f"item {item.at} ({item.id!a}) is held by the server and sent again", (item.id,))


WHOLE = Rule(
    "R15-compaction-item",
    "reject",
    error="",
    source="openai-openapi",
    repair="The item is restored from the journal, in its place; a trigger is moved to the end.",
)
COMPACTION_MAX = 20_971_520
"""Characters of the encrypted content of a compaction item."""


@rules.end(WHOLE)
def changed_compaction(history: History, facts: Facts) -> Iterator[Fault]:
    """A compaction item is sent back whole."""
    for item, received in sent(history, facts):
        ours, theirs = field(item.raw, "encrypted_content"), field(received, "encrypted_content")
        if item.kind == "compaction" and theirs is not None and not same(ours, theirs):
            yield Fault(item.at, f"item {item.at} is a compaction that differs from what was received", (item.id,))


@rules.end(WHOLE)
def lost_compaction(history: History, facts: Facts) -> Iterator[Fault]:
    """The last compaction item stands in front of what came behind it in its response."""
    for at, received in lost_compactions(history, facts):
        yield Fault(at, f"item {at} stands without the compaction item that came before it", (id_of(received),))


def lost_compactions(history: History, facts: Facts) -> list[tuple[int, Json]]:
    """Return where the last compaction item that was received should stand, and that item; nothing if it does."""
    outputs = [output for _, output in facts.responses() if any(kind(item) == "compaction" for item in output)]
    if not outputs or chained(facts):
        return []
    places = [at for at, item in enumerate(outputs[-1]) if kind(item) == "compaction"]
    behind = outputs[-1][places[-1] + 1 :]
    ids = [one for one in map(id_of, behind) if one]
    found = [item.at for one in ids for item in history.items.all(("id", one))]
    received = outputs[-1][places[-1]]
    before = [item.at for item in history.items.all(("id", id_of(received)))]
    if not found or not id_of(received) or any(at < min(found) for at in before):
        return []
    return [(min(found), received)]


@rules.each(WHOLE)
def large_compaction(item: Item, history: History) -> Iterator[Fault]:
    """The encrypted content of a compaction item has at most 20,971,520 characters."""
    content = field(item.raw, "encrypted_content")
    if item.kind == "compaction" and isinstance(content, str) and len(content) > COMPACTION_MAX:
        yield Fault(item.at, f"item {item.at} is a compaction of {len(content)} characters")


@rules.next(WHOLE)
def early_trigger(history: History, following: Item | None) -> Iterator[Fault]:
    """A compaction trigger is the last item."""
    if history.last is not None and history.last.kind == "compaction_trigger" and following is not None:
        yield Fault(history.last.at, f"item {history.last.at} is a compaction trigger and not the last item")


@rules.end(
    Rule(
        "R17-container-alive",
        "reject",
        error="Container is expired.",
        also=("Expected container_id: cntr_...",),
        source="pydantic/pydantic-ai#7461; openai-openapi",
        repair="The item is left out; a new container begins empty.",
    )
)
def lost_containers(history: History, facts: Facts) -> Iterator[Fault]:
    """The container of a code interpreter's call is alive."""
    for item in history.items.all("container") if facts.gone else ():
        if field(item.raw, "container_id") in facts.gone:
            yield Fault(item.at, f"item {item.at} ran in a container that is gone", (item.id,) if item.id else ())


@rules.end(
    Rule(
        "R18-preserve-phase",
        "quality",
        error="",
        source="openai-openapi",
        repair="Store the items of a response as they came.",
    )
)
def lost_fields(history: History, facts: Facts) -> Iterator[Fault]:
    """The fields of an assistant message, such as its phase, are sent back."""
    for item, received in sent(history, facts):
        if kinds.is_assistants(received) and not same(_extras(item.raw), _extras(received)):
            yield Fault(item.at, f"item {item.at} has lost fields that were received, such as its phase", (item.id,))


def _extras(item: Json) -> Json:
    return {name: value for name, value in item.items() if name not in ("id", "type", "role", "content", "status")}


@rules.end(
    Rule(
        "G05-opaque-bytes",
        "reject",
        error="The encrypted content ... could not be verified. (code invalid_encrypted_content)",
        source="openclaw/openclaw#90093; code-yeongyu/senpi PR#150; docs: thinking",
        repair="The item is restored from the journal.",
    )
)
def changed_fingerprints(history: History, facts: Facts) -> Iterator[Fault]:
    """The fingerprint of a program is sent back to the byte."""
    for item, received in sent(history, facts):
        if not same(all_in(item.raw, "fingerprint"), all_in(received, "fingerprint")):
            yield Fault(item.at, f"item {item.at} has a fingerprint that differs from what was received", (item.id,))
