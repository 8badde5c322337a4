"""What a request may hold: cache markers, pictures, documents, and how much of everything."""

from __future__ import annotations

from collections.abc import Iterator

from midstride.transcript.anthropic.history import History, citations, lives_long, markers
from midstride.transcript.anthropic.kinds import kind
from midstride.transcript.anthropic.message import Message
from midstride.transcript.facts import Facts
from midstride.transcript.media import is_encrypted, picture
from midstride.transcript.rules import Fault, Rule, Rules
from midstride.transcript.values import LONG, Json, field, is_list, is_word, unique

rules: Rules[Message, History] = Rules()

# ---- cache markers

MARKERS_MAX = 4


@rules.end(
    Rule(
        "A29-cache-max-4",
        "reject",
        error="A maximum of 4 blocks with cache_control may be provided. Found 5.",
        source="docs: prompt-caching; griffinmartin/opencode-claude-auth#121",
        repair="The oldest markers are taken away. Place them anew for each request, and store none.",
    )
)
def too_many_markers(history: History, facts: Facts) -> Iterator[Fault]:
    """Tools, system and messages bear four cache markers at most."""
    before = len(markers_before(facts))
    if before + len(history.markers) > MARKERS_MAX:
        at = history.markers[MARKERS_MAX - before] if before <= MARKERS_MAX else 0
        yield Fault(at, f"message {at} has the fifth cache marker")


def markers_before(facts: Facts) -> list[Json]:
    """Return the cache markers of the tools and the system, which stand in front of all messages."""
    system = field(facts.request, "system")
    blocks = [*(facts.tools or ()), *(system if is_list(system) else ())]
    found = [field(block, "cache_control") for block in blocks]
    return [one for one in found if one is not None]


LIVES = Rule(
    "A31-cache-ttl-order",
    "reject",
    error="a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.",
    source="docs: prompt-caching",
    repair="The later markers become markers of five minutes.",
)


@rules.each(LIVES)
def long_behind_short(message: Message, history: History) -> Iterator[Fault]:
    """No cache marker of an hour comes after one of five minutes."""
    short = history.short_lived
    for marker in markers(message):
        if short and lives_long(marker):
            yield Fault(message.at, f"message {message.at} has a cache marker of 1h behind one of 5m")
            return
        short = short or not lives_long(marker)


@rules.end(LIVES)
def long_behind_short_ones_before(history: History, facts: Facts) -> Iterator[Fault]:
    """The order of the markers is tools, system, messages."""
    long = [lives_long(marker) for marker in markers_before(facts)]
    if False not in long:
        return
    if True in long[long.index(False) :]:
        yield Fault(0, "the request has a cache marker of 1h behind one of 5m in tools or system")
    for at, _ in history.marked("long lived"):
        yield Fault(at, f"message {at} has a cache marker of 1h behind one of 5m")


# ---- pictures and documents


IMAGES = Rule(
    "A44-image-limits",
    "reject",
    error="The image was specified using the image/png media type, but the image appears to be a image/jpeg image",
    also=(
        "At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
        "image.source.base64: image cannot be empty",
        "Could not process image",
    ),
    source="docs: vision; anthropics/claude-code#53228, #18528, #34120; vybestack/llxprt-code#2130; "
    "earendil-works/pi#401",
    repair="The media type becomes that of the bytes; a picture that cannot be sent becomes a text that says so.",
)
SIDE_MAX = 8000
MANY = 20
"""Pictures from which on a side may have 2000 pixels only."""
PICTURES_MAX = 600
"""Pictures that any model takes in one request; some take 100."""


@rules.each(IMAGES)
def wrong_pictures(message: Message, history: History) -> Iterator[Fault]:
    """A picture in base64 is what its media type says: jpeg, png, gif or webp, 8000 pixels a side, 10 MB at most."""
    if message.role != "user":
        return
    wrong = [(one, why) for _, block, one in message.parts if kind(block) == "image" and (why := picture_fault(block))]
    if wrong:
        ids = unique(one for one, _ in wrong if one)
        yield Fault(message.at, f"message {message.at} holds a picture that {wrong[0][1]}", ids)


def picture_fault(block: Json) -> str:
    """Return what is wrong with a picture in base64; "" if nothing is, or it stands elsewhere."""
    source = field(block, "source")
    if field(source, "type") != "base64":
        return ""
    data, told = field(source, "data"), field(source, "media_type")
    if not isinstance(data, str) or not data:
        return "is empty"
    if len(data) > LONG:
        return "is larger than 10 MB"
    seen = picture(data)
    if seen is None:
        return "is no jpeg, png, gif or webp"
    if seen.side > SIDE_MAX:
        return f"is {seen.width} x {seen.height} pixels, and a side has 8000 at most"
    return "" if seen.media_type == told else f"is {seen.media_type} and called {ascii(told)[:40]}"


@rules.end(IMAGES)
def many_pictures(history: History, facts: Facts) -> Iterator[Fault]:
    """With more than 20 pictures none has a side of more than 2000 pixels; there are 600 at most."""
    if history.pictures > MANY:
        for at, one in history.marked("wide picture"):
            what = f"message {at} holds a picture of more than 2000 pixels, and there are {history.pictures} pictures"
            yield Fault(at, what, (one,) if one else ())
    if history.pictures > PICTURES_MAX and history.last is not None:
        yield Fault(history.last.at, f"the list holds {history.pictures} pictures, and {PICTURES_MAX} are taken")


@rules.each(
    Rule(
        "A45-document-limits",
        "reject",
        error="A maximum of 600 PDF pages may be provided.",
        also=("A maximum of 100 PDF pages may be provided.",),
        source="docs: pdf-support",
        repair="A document that cannot be read becomes a text that says so.",
    )
)
def locked_documents(message: Message, history: History) -> Iterator[Fault]:
    """A PDF document is not encrypted. How many pages it has is not looked at."""
    locked = [one for _, block, one in message.parts if message.role == "user" and is_locked(block)]
    if locked:
        yield Fault(
            message.at, f"message {message.at} holds an encrypted document", unique(one for one in locked if one)
        )


def is_locked(block: Json) -> bool:
    """Tell whether a block is an encrypted PDF document in base64."""
    source = field(block, "source")
    data = field(source, "data")
    is_pdf = kind(block) == "document" and field(source, "media_type") == "application/pdf"
    return is_pdf and isinstance(data, str) and is_encrypted(data)


@rules.each(
    Rule(
        "A42-citations-all-or-none",
        "reject",
        error="",
        source="docs: citations, search-results; UKGovernmentBEIS/inspect_ai PR#4527",
        repair="All documents and search results get the flag of the first.",
    )
)
def mixed_citations(message: Message, history: History) -> Iterator[Fault]:
    """Citations are enabled for all documents and search results of a request, or for none."""
    flags = citations(message)
    first = history.cited if history.cited is not None else next(iter(flags), None)
    if any(flag != first for flag in flags):
        yield Fault(
            message.at, f"message {message.at} has citations {'off' if first else 'on'}, unlike the first document"
        )


# ---- the request

REQUEST_MAX = 32 * 1024 * 1024
"""Bytes of a request."""
MESSAGES_MAX = 100_000


@rules.end(
    Rule(
        "A46-request-size",
        "reject",
        error="413 request_too_large",
        source="docs: errors, messages/create",
        repair="Compact, and cut single results where they come in: which ones can go is for the program to say.",
    )
)
def too_large(history: History, facts: Facts) -> Iterator[Fault]:
    """A request has 32 MB and 100,000 messages at most."""
    if history.size > REQUEST_MAX or history.count > MESSAGES_MAX:
        yield Fault(0, f"the list has {history.count} messages and more than {history.size} bytes")


@rules.end(
    Rule(
        "A47-context-window",
        "reject",
        error="prompt is too long: N tokens > M maximum",
        source="docs: context-windows",
        repair="Compact before sending; the request that compacts must fit too.",
    )
)
def no_room(history: History, facts: Facts) -> Iterator[Fault]:
    """The prompt and the room for the answer fit the window."""
    told = [field(facts.request, name) for name in ("input_tokens", "max_tokens", "context_window")]
    if all(isinstance(one, int) and not isinstance(one, bool) for one in told) and told[0] + told[1] > told[2]:
        yield Fault(0, f"the prompt has {told[0]} tokens and the answer may have {told[1]}; the window has {told[2]}")


@rules.end(
    Rule(
        "A53-tools-declared",
        "compat",
        error="The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        source="strands-agents/harness-sdk#998; zed-industries/zed PR#48863",
        repair="Send the tools with tool_choice none.",
    )
)
def no_tools(history: History, facts: Facts) -> Iterator[Fault]:
    """Where the list holds calls or results, tools are declared; Bedrock and several gateways demand it."""
    if facts.tools is not None and not facts.tools:
        for at, _ in history.marked("tool block"):
            yield Fault(at, f"message {at} holds a call or result, and no tools are sent")
            return


@rules.end(
    Rule(
        "A57-tool-definitions",
        "reject",
        error="tools: Tool names must be unique.",
        also=(
            "tools.0.custom.name: String should have at most 64 characters",
            "tools.0.custom.name: String should match pattern ...",
        ),
        source="docs: define-tools; anthropics/claude-code#14199; liliMozi/openhanako#789",
        repair="Declare each tool once, under a name of letters, digits, _ and -.",
    )
)
def wrong_tools(history: History, facts: Facts) -> Iterator[Fault]:
    """The names of tools are unique and have 1 to 64 letters, digits, _ and -; one tool at least is not deferred."""
    names = facts.tool_names
    odd = [name for name in names if not is_word(name, 64)]
    if odd:
        yield Fault(0, f"the request declares a tool with the name {odd[0][:80]!a}")
    elif len(set(names)) < len(names):
        twice = unique(name for at, name in enumerate(names) if name in names[:at])
        yield Fault(0, f"the request declares {', '.join(ascii(name) for name in twice[:3])} more than once")
    elif facts.tools and all(field(tool, "defer_loading") is True for tool in facts.tools):
        yield Fault(0, "the request declares deferred tools only")
