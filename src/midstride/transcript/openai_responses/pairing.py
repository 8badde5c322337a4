"""Calls and their outputs, in the list and in the chain of responses that the server holds."""

from __future__ import annotations

from collections.abc import Iterator

from midstride.transcript.facts import Facts
from midstride.transcript.openai_responses import kinds
from midstride.transcript.openai_responses.item import History, Item
from midstride.transcript.openai_responses.kinds import call_id_of, kind
from midstride.transcript.rules import Fault, Rule, Rules
from midstride.transcript.values import Json, field, is_list, named, unique

rules: Rules[Item, History] = Rules()

NO_OUTPUT = "No tool output found for function call call_..."
UNANSWERED = Rule(
    "R01-unanswered-call",
    "reject",
    error=NO_OUTPUT,
    also=("No tool output found for custom tool call call_...", "No tool output found for apply patch call call_..."),
    source="ducks/claux#18; bolna-ai/bolna PR#979; microsoft/vscode PR#330510",
    repair="Each call without an output gets the recorded one, or one that says honestly what is known. For a computer "
    "call that has to be a real screenshot.",
)


@rules.end(UNANSWERED)
def unanswered_calls(history: History, facts: Facts) -> Iterator[Fault]:
    """Every call has its output behind it in the list."""
    for one, at in history.open.items():
        yield Fault(at, f"item {at} calls {one!a} and no item behind it is its output", (one,))


def previous(facts: Facts) -> list[Json] | None:
    """Return the output of the response that the list goes on from; None if unknown or none is named."""
    named_one = field(facts.request, "previous_response_id")
    outputs = [output for one, output in facts.responses() if one == named_one and one]
    return outputs[-1] if outputs else None


def chained(facts: Facts) -> bool:
    """Tell whether the server holds what came before the list."""
    return any(isinstance(field(facts.request, name), str) for name in ("previous_response_id", "conversation"))


def _left_open(history: History, facts: Facts) -> tuple[str, ...]:
    calls = [call_id_of(item) for item in previous(facts) or () if kind(item) in kinds.ANSWERED_BY]
    return unique(one for one in calls if one and ("answered", one) not in history.items)


@rules.end(UNANSWERED)
def unanswered_in_the_chain(history: History, facts: Facts) -> Iterator[Fault]:
    """Every call of the response that the list goes on from has its output in the list."""
    ids = _left_open(history, facts)
    if ids:
        yield Fault(0, f"the previous response calls {named(ids)}, and the list holds no output", ids)


@rules.end(
    Rule(
        "R13-chain-cursor",
        "harness",
        error="",
        also=(NO_OUTPUT,),
        source="ducks/claux#18; kernl-sdk/kernl#60; bolna-ai/bolna PR#979",
        repair="The calls are answered, or the list goes on from the last response without open calls.",
    )
)
def cursor_on_open_calls(history: History, facts: Facts) -> Iterator[Fault]:
    """A list goes on from a response only when its calls are answered."""
    ids = _left_open(history, facts)
    if ids:
        yield Fault(0, f"the list goes on from a response whose calls ({named(ids)}) are open", ids)


ORPHAN = Rule(
    "R02-orphan-output",
    "reject",
    error="No tool call found for function call output with call_id ...",
    also=("No tool call found for custom tool call output with call_id ...",),
    source="agno-agi/agno#9372; bytedance/trae-agent PR#369",
    repair="The call is restored from the journal, or the output is moved behind its call; else it is dropped.",
)


@rules.each(
    Rule(
        "R14-one-output-per-call",
        "reject",
        error="",
        source="microsoft/agent-framework PR#7304",
        repair="The real output is kept; of two real ones the first.",
    )
)
def repeated_outputs(item: Item, history: History) -> Iterator[Fault]:
    """A call has one output."""
    if item.answers and item.call and ("answered", item.call) in history.items:
        yield Fault(item.at, f"item {item.at} is one more output for {item.call!a}", (item.call,))


@rules.end(ORPHAN)
def orphaned_outputs(history: History, facts: Facts) -> Iterator[Fault]:
    """An output stands behind its call, in the list or in the chain."""
    orphans = list(history.items.all("orphan"))
    if not orphans:
        return
    known = {call_id_of(one) for _, output in facts.responses() for one in output if kind(one) in kinds.ANSWERED_BY}
    untold = chained(facts) and (previous(facts) is None)
    for item in orphans:
        referred = any(one.at < item.at for one in history.items.all("reference"))
        elsewhere = item.call in known and (chained(facts) or referred)
        if not (untold or elsewhere or (referred and not facts.responses())):
            yield Fault(item.at, f"item {item.at} is an output for {item.call!a}, which nothing calls", (item.call,))


PAIRED = Rule(
    "R16-paired-kinds",
    "reject",
    error="Computer tool has unacknowledged safety check for ['cu_sc_...']",
    source="openai/openai-agents-python#843; openai-openapi",
    repair="The kind of the output becomes that of the call. A safety check is acknowledged by a person only.",
)


@rules.each(PAIRED)
def other_kinds(item: Item, history: History) -> Iterator[Fault]:
    """The kind of an output is that of its call, and an approval answers a request for one."""
    call = history.first(("call", item.call)) if item.answers and item.call else None
    if call is not None and kinds.ANSWERED_BY[call.kind] != item.kind:
        yield Fault(item.at, f"item {item.at}, a {item.kind}, answers a {call.kind}", (item.call,))
    elif call is not None and unacknowledged(call.raw, item.raw):
        ids = (item.call,)
        yield Fault(item.at, f"item {item.at} answers a computer call whose safety check nobody has acknowledged", ids)
    elif item.answers and ("approval", item.call) in history.items:
        yield Fault(item.at, f"item {item.at}, a {item.kind}, answers a request for approval", (item.call,))


def unacknowledged(call: Json, output: Json) -> list[Json]:
    """Return the ids of the pending safety checks of a call that its output does not acknowledge."""
    pending, said = field(call, "pending_safety_checks"), field(output, "acknowledged_safety_checks")
    known = [field(check, "id") for check in (said if is_list(said) else ())]
    checks = [field(check, "id") for check in (pending if is_list(pending) else ())]
    return [one for one in checks if not isinstance(one, str) or one not in known]


@rules.end(PAIRED)
def orphaned_approvals(history: History, facts: Facts) -> Iterator[Fault]:
    """An approval answers a request that stands before it, in the list or in the chain."""
    for item in history.items.all("approved") if not chained(facts) else ():
        yield Fault(item.at, f"item {item.at} approves what nothing asks for")


@rules.each(
    Rule(
        "R19-adjacent-output",
        "compat",
        error=NO_OUTPUT,
        source="deepseek-ai/awesome-deepseek-integration#740",
        repair="For a strict target the output is moved to its call.",
    )
)
def messages_between(item: Item, history: History) -> Iterator[Fault]:
    """No message stands between a call and its output."""
    at = history.open.get(item.call) if item.answers else None
    between = [one.at for one in _since(history, at)] if at is not None else []
    if between:
        yield Fault(between[-1], f"item {between[-1]} stands between a call and its output", (item.call,))


def _since(history: History, at: int) -> Iterator[Item]:
    for message in history.items.newest("message"):
        if message.at < at:
            return
        yield message
