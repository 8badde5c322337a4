"""The rules of OpenAI Chat Completions, but for those that need the facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from midstride.transcript.openai_chat.message import ROLES, History, Message
from midstride.transcript.rules import Fault, Rule, Rules
from midstride.transcript.values import LONG, Json, field, is_list, is_word, named, parsed, unique

rules: Rules[Message, History] = Rules()

PAIRING = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The "
    "following tool_call_ids did not have response messages: <ids>"
)


@rules.next(
    Rule(
        "C01-unanswered-tool-call",
        "reject",
        error=PAIRING,
        source="OpenAI function calling guide; tidyverse/ellmer#459; LangGraph INVALID_CHAT_HISTORY page",
        repair="Each call without a result gets the recorded one, or one that says honestly what is known, behind the "
        "tool messages of its group.",
    )
)
def unanswered_calls(history: History, following: Message | None) -> Iterator[Fault]:
    """Every call of an assistant message has a tool message before the next assistant message."""
    if following is None or following.role == "assistant":
        ids = unique(history.group.missing())
        at = history.group.at
        if (ids or history.group.nameless) and at < history.count:
            shown = named(ids) if ids else "something without an id"
            yield Fault(at, f"message {at} calls {shown} and no tool message of its group answers", ids)


@rules.each(
    Rule(
        "C02-orphan-tool-message",
        "reject",
        error="Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
        "'tool_calls'.",
        source="microsoft/semantic-kernel#12708; langchain-ai/langchain PR#33265",
        repair="The tool message is moved next to its call; where there is none it is dropped.",
    )
)
def orphaned_results(message: Message, history: History) -> Iterator[Fault]:
    """A tool message answers a call of the last assistant message before it."""
    if message.role == "tool" and message.answers not in history.group.asked:
        ids = (message.answers,) if message.answers else ()
        yield Fault(
            message.at, f"message {message.at} answers a call that the last assistant message does not make", ids
        )


@rules.each(
    Rule(
        "C03-one-tool-message-per-id",
        "reject",
        error="Duplicate value for 'tool_call_id' of X in message[N]",
        source="bojieli/ai-agent-book#192; microsoft/agent-framework PR#7271",
        repair="The real result is kept; another call under the same id gets an id of its own, its result with it.",
    )
)
def repeated_ids(message: Message, history: History) -> Iterator[Fault]:
    """The id of a call is used once, and has one tool message."""
    ids = message.ids
    again = [one for at, one in enumerate(ids) if one in ids[:at] or ("call", one) in history.marks]
    if message.role == "tool" and message.answers and ("tool", message.answers) in history.marks:
        again.append(message.answers)
    if again:
        what = f"message {message.at} uses {named(unique(again))} once more"
        yield Fault(message.at, what, unique(again))


@rules.each(
    Rule(
        "C04-nothing-between",
        "reject",
        error=PAIRING,
        source="osaurus-ai/osaurus PR#2653; openclaw/openclaw PR#13804",
        repair="What stands between is moved behind the group.",
    )
)
def intruders(message: Message, history: History) -> Iterator[Fault]:
    """No message of the user or the system stands between a call and the last tool message of its group."""
    between = history.group.intruder
    if message.role == "tool" and between is not None and message.answers in history.group.asked:
        yield Fault(between, f"message {between} stands between calls and their results", (message.answers,))


ID_MAX = 40


@rules.each(
    Rule(
        "C05-id-length-40",
        "reject",
        error="Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but "
        "got a string with length N instead.",
        source="vercel/ai#5171; microsoft/autogen#6377; pydantic/pydantic-ai#4389",
        repair="Each such id is shortened, in the call and its result alike; no two become equal.",
    )
)
def long_ids(message: Message, history: History) -> Iterator[Fault]:
    """The id of a call has at most 40 characters."""
    ids = unique(one for one in (*message.ids, message.answers) if len(one) > ID_MAX)
    if ids:
        yield Fault(message.at, f"message {message.at} has an id of {len(ids[0])} characters", ids)


@rules.each(
    Rule(
        "C06-no-empty-tool-calls",
        "reject",
        error="Invalid 'messages[N].tool_calls': empty array. Expected an array with minimum length 1, but got an "
        "empty array instead.",
        also=("[] is too short - 'messages.N.tool_calls'",),
        source="openai/openai-node PR#1341; NousResearch/hermes-agent PR#59110",
        repair="The key is left out.",
    )
)
def empty_calls(message: Message, history: History) -> Iterator[Fault]:
    """tool_calls is absent or has an entry."""
    if is_list(field(message.raw, "tool_calls")) and not field(message.raw, "tool_calls"):
        yield Fault(message.at, f"message {message.at} has an empty list of tool_calls")


@rules.each(
    Rule(
        "C07-assistant-content",
        "reject",
        error="Invalid value for 'content': expected a string, got null.",
        also=("invalid message content type: <nil>",),
        source="openai-openapi; docker/docker-agent#63; SAIL-Research-Lab/cheetahclaws PR#72",
        repair="The text is restored from the journal; else the message, which says nothing, is dropped.",
    )
)
def silent_assistants(message: Message, history: History) -> Iterator[Fault]:
    """An assistant message has content, text or parts; null stands beside calls only."""
    if message.role != "assistant" or isinstance(message.content, str) or is_list(message.content):
        return
    if message.content is not None or not _says_otherwise(message):
        yield Fault(message.at, f"message {message.at} of the assistant has no content")


def _says_otherwise(message: Message) -> bool:
    return bool(message.calls) or any(field(message.raw, name) for name in ("function_call", "refusal", "audio"))


# ---- calls


def functions(message: Message) -> Iterator[tuple[Json, Json]]:
    """Yield each call of a function: its entry, and what stands under `function`."""
    for call in message.calls:
        if field(call, "type") != "custom":
            yield call, field(call, "function")


def _wrong(message: Message, wrong: Callable[[Json], bool]) -> tuple[bool, tuple[str, ...]]:
    found = [field(call, "id") for call, function in functions(message) if wrong(function)]
    return bool(found), unique(one for one in found if isinstance(one, str))


@rules.each(
    Rule(
        "C08-arguments-string",
        "reject",
        error="Invalid type for 'messages[2].tool_calls[0].function.arguments': expected a string, but got an object "
        "instead.",
        also=("Invalid type for 'input[1].arguments': ...",),
        source="openai-openapi; justrach/codegraff#752",
        repair="The arguments are written as JSON text, once.",
    )
)
def wrong_arguments(message: Message, history: History) -> Iterator[Fault]:
    """The arguments of a function are a string."""
    found, ids = _wrong(message, lambda function: not isinstance(field(function, "arguments"), str))
    if found:
        yield Fault(message.at, f"message {message.at} has arguments that are no string ({named(ids)})", ids)


@rules.each(
    Rule(
        "C09-arguments-json",
        "compat",
        error="arguments must be a valid JSON object string",
        source="bojieli/ai-agent-book#192; open-webui/computer#252",
        repair="For a strict target the text is wrapped as INVALID_JSON; the call is not run.",
    )
)
def unreadable_arguments(message: Message, history: History) -> Iterator[Fault]:
    """The arguments are JSON text of an object."""
    found, ids = _wrong(message, _is_no_object)
    if found:
        yield Fault(message.at, f"message {message.at} has arguments that are no JSON object ({named(ids)})", ids)


def _is_no_object(function: Json) -> bool:
    text = field(function, "arguments")
    return isinstance(text, str) and not isinstance(parsed(text), Mapping)


NAME_MAX = 64


@rules.each(
    Rule(
        "C10-function-name",
        "reject",
        error="",
        source="openai-openapi",
        repair="Characters that are not allowed become _; a missing name becomes unknown_tool.",
    )
)
def wrong_names(message: Message, history: History) -> Iterator[Fault]:
    """The name of a function has 1 to 64 letters, digits, _ and -."""
    found, ids = _wrong(message, lambda function: not is_word(field(function, "name"), NAME_MAX))
    if found:
        yield Fault(message.at, f"message {message.at} calls a function by a name that is not allowed", ids)


# ---- content


@rules.each(
    Rule(
        "C11-tool-content-text",
        "reject",
        error="",
        source="openai-openapi",
        repair="Pictures and files go into a user message behind the whole group; the rest becomes text.",
    )
)
def more_than_text(message: Message, history: History) -> Iterator[Fault]:
    """The content of a tool message is a string or a list of text parts."""
    if message.role != "tool" or isinstance(message.content, str):
        return
    if not is_list(message.content) or any(field(part, "type") != "text" for part in message.parts):
        ids = (message.answers,) if message.answers else ()
        yield Fault(message.at, f"message {message.at} answers a call with more than text", ids)


@rules.each(
    Rule(
        "C12-roles",
        "reject",
        error="Invalid value: 'x'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and "
        "'developer'.",
        source="openai-openapi",
        repair="A role that is known by another name is renamed; a message of an unknown role is left out.",
    )
)
def unknown_roles(message: Message, history: History) -> Iterator[Fault]:
    """The role is system, developer, user, assistant, tool or function."""
    if message.role not in ROLES:
        shown = f"the unknown role {message.role[:60]!a}" if message.role else "no role"
        yield Fault(message.at, f"message {message.at} has {shown}")


PARTS = {
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
    "system": ("text",),
    "developer": ("text",),
}
"""The kinds of parts that a role may say."""


@rules.each(
    Rule(
        "G06-known-discriminator",
        "reject",
        error="Invalid value: 'x'. Supported values are: 'text', 'image_url', ...",
        source="anthropics/anthropic-sdk-go#235; deepseek-ai/awesome-deepseek-integration#639",
        repair="Parts of an unknown kind are left out of the request and stay in the store.",
    )
)
def unknown_parts(message: Message, history: History) -> Iterator[Fault]:
    """Every part of a content is of a kind that its role may say."""
    known = PARTS.get(message.role)
    odd = [part for part in message.parts if known is not None and field(part, "type") not in known]
    if odd:
        yield Fault(message.at, f"message {message.at} has a part of the type {ascii(field(odd[0], 'type'))[:60]}")


@rules.each(
    Rule(
        "C14-string-limit",
        "reject",
        error="Invalid 'messages[5].content': string too long. Expected a string with maximum length 10485760 ... "
        "(code string_above_max_length)",
        source="Shopify/roast#52; openai-openapi",
        repair="The string is cut and says so. Cut where a tool's result comes in.",
    )
)
def long_strings(message: Message, history: History) -> Iterator[Fault]:
    """A single string has at most 10,485,760 characters."""
    if message.scan.longest > LONG:
        yield Fault(message.at, f"message {message.at} holds a string of {message.scan.longest} characters")


@rules.each(
    Rule(
        "C17-content-nonempty",
        "compat",
        error="varies",
        source="tidyverse/ellmer#709; openai/openai-python#1812 (an empty list got 200)",
        repair="For a strict target the message is dropped; an empty result says that there was no output.",
    )
)
def empty_contents(message: Message, history: History) -> Iterator[Fault]:
    """A list of parts has a part, and a string a character; an assistant message with calls may say nothing."""
    empty = (is_list(message.content) or isinstance(message.content, str)) and not message.content
    if empty and message.role in ROLES and not (message.calls and isinstance(message.content, str)):
        yield Fault(message.at, f"message {message.at} has an empty content")
