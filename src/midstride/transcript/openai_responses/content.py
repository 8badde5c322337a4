"""What an item must hold: ids of the right form, arguments, outputs and parts of the right kind."""

from __future__ import annotations

from collections.abc import Iterator

from midstride.transcript.openai_responses import kinds
from midstride.transcript.openai_responses.item import History, Item
from midstride.transcript.rules import Fault, Rule, Rules
from midstride.transcript.values import LONG, Json, field, is_list, is_word

rules: Rules[Item, History] = Rules()


@rules.each(
    Rule(
        "G06-known-discriminator",
        "reject",
        error="Invalid value: 'x'. Supported values are: 'message', 'function_call', ...",
        source="anthropics/anthropic-sdk-go#235; deepseek-ai/awesome-deepseek-integration#639",
        repair="A role that is known by another name is renamed; an item of an unknown kind is left out of the request "
        "and stays in the store.",
    )
)
def unknown_kinds(item: Item, history: History) -> Iterator[Fault]:
    """Every item has a known type, every message a known role."""
    if item.kind not in kinds.KINDS:
        shown = f"the unknown type {item.kind[:60]!a}" if item.kind else "no type"
        yield Fault(item.at, f"item {item.at} has {shown}")
    elif item.kind == "message" and item.role not in kinds.ROLES:
        shown = f"the unknown role {item.role[:60]!a}" if item.role else "no role"
        yield Fault(item.at, f"item {item.at} has {shown}")


@rules.each(
    Rule(
        "R05-unique-item-id",
        "reject",
        error="Duplicate item found with id fc_.... Remove duplicate items from your input and try again.",
        source="github/copilot-cli#3559; openai/openai-agents-js#701",
        repair="A copy is dropped; another item under the same id loses it and counts as fresh input.",
    )
)
def repeated_items(item: Item, history: History) -> Iterator[Fault]:
    """The id of an item occurs once."""
    if item.id and ("id", item.id) in history.items:
        yield Fault(item.at, f"item {item.at} bears the id {item.id!a} once more", (item.id,))


ID_MAX = 64


@rules.each(
    Rule(
        "R08-call-id-64",
        "reject",
        error="Invalid 'input[N].call_id': string too long. Expected a string with maximum length 64 ...",
        source="openclaw/openclaw#10640; openai-openapi",
        repair="Each such id is replaced by one of its own, in the call and its output alike; no two become equal.",
    )
)
def wrong_call_ids(item: Item, history: History) -> Iterator[Fault]:
    """A call_id has 1 to 64 characters."""
    if (item.calls or item.answers) and not 0 < len(item.call) <= ID_MAX:
        shown = f"a call_id of {len(item.call)} characters"
        yield Fault(item.at, f"item {item.at} has {shown}", (item.call,))


@rules.each(
    Rule(
        "R09-item-id-form",
        "reject",
        error="Invalid 'input[N].id': 'x'. Expected an ID that begins with 'fc'.",
        also=("... begins with 'ctc'", "... begins with 'msg'", "... begins with 'rs'", "... begins with 'ws'"),
        source="jlcodes99/cockpit-tools#2543; farion1231/cc-switch#5338",
        repair="The id is left out; the item then counts as fresh input.",
    )
)
def foreign_ids(item: Item, history: History) -> Iterator[Fault]:
    """The id of an item, if it has one, has its kind's prefix and 64 letters, digits, _ and - at most."""
    one = field(item.raw, "id")
    right = is_word(one, ID_MAX) and one.startswith(kinds.PREFIXES.get(item.kind, ""))
    if one is not None and item.kind in kinds.KINDS and not right:
        ids = (one,) if isinstance(one, str) else ()
        yield Fault(item.at, f"item {item.at}, a {item.kind}, has an id of another form", ids)


OUTPUT_PARTS = ("input_text", "input_image", "input_file")
TEXTUAL = ("function_call_output", "custom_tool_call_output")


@rules.each(
    Rule(
        "R10-output-size",
        "reject",
        error="Invalid 'input[24].output': string too long. Expected a string with maximum length 10485760 ...",
        source="earendil-works/pi#2122; openai-openapi",
        repair="The output is cut and says so; parts of another API are given their name here.",
    )
)
def wrong_outputs(item: Item, history: History) -> Iterator[Fault]:
    """An output is a string of at most 10,485,760 characters, or a list of input_text, input_image and input_file."""
    if item.kind in TEXTUAL and not is_output(field(item.raw, "output")):
        yield Fault(item.at, f"item {item.at} has an output that is too long or no text", _ids(item))


def is_output(output: Json) -> bool:
    """Tell whether a function may give an output."""
    if is_list(output):
        return all(field(part, "type") in OUTPUT_PARTS for part in output)
    return isinstance(output, str) and len(output) <= LONG


def _ids(item: Item) -> tuple[str, ...]:
    return (item.call,) if item.call else ()


@rules.each(
    Rule(
        "R12-incomplete-item",
        "harness",
        error="",
        source="openai-openapi; shiaho777/web-to-app#748",
        repair="A call that was never answered is dropped and asked for again; one that was run stays, and its cut "
        "arguments are for a person to judge.",
    )
)
def incomplete_calls(item: Item, history: History) -> Iterator[Fault]:
    """A call is complete: one that was cut off is never run."""
    if item.calls and field(item.raw, "status") == "incomplete":
        yield Fault(item.at, f"item {item.at} is a call that was cut off, which must not run", _ids(item))


SAID = ("input_text", "input_image", "input_file")
ANSWERED = ("output_text", "refusal")


@rules.each(
    Rule(
        "R20-content-part-kinds",
        "reject",
        error="Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
        source="missdeer/ace-tool-rs#11",
        repair="The parts are given the names that belong to the role.",
    )
)
def wrong_parts(item: Item, history: History) -> Iterator[Fault]:
    """The assistant's parts are output_text or refusal, all others' input_text, input_image or input_file."""
    if item.role in kinds.ROLES and any(field(part, "type") not in parts_of(item.role) for part in item.parts):
        yield Fault(item.at, f"item {item.at} of the {item.role} has a part of another kind")


def parts_of(role: str) -> tuple[str, ...]:
    """Return the kinds of parts that a role may say."""
    return ANSWERED if role == "assistant" else SAID


@rules.each(
    Rule(
        "R21-arguments-string",
        "reject",
        error="Invalid type for 'input[1].arguments': expected a string, but got an object instead.",
        source="public reports of the error text; openai-openapi",
        repair="The arguments are written as JSON text, once.",
    )
)
def wrong_arguments(item: Item, history: History) -> Iterator[Fault]:
    """The arguments of a function call are a string."""
    if item.kind == "function_call" and not isinstance(field(item.raw, "arguments"), str):
        yield Fault(item.at, f"item {item.at} has arguments that are no string", _ids(item))
