"""What the provider sent, against what is sent back: opaque parts are kept to the byte, and blocks in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from midstride.transcript.anthropic import kinds
from midstride.transcript.anthropic.history import History
from midstride.transcript.anthropic.kinds import id_of, is_call, kind
from midstride.transcript.anthropic.message import Message, blocks_in
from midstride.transcript.facts import Facts
from midstride.transcript.rules import Fault, Rule, Rules
from midstride.transcript.values import Json, all_in, field, is_list, named, same, unique

rules: Rules[Message, History] = Rules()


def in_common(
    ours: tuple[Json, ...], theirs: tuple[Json, ...], wanted: Callable[[Json], bool]
) -> tuple[list[Json], list[Json]]:
    """Return both lists with the *wanted* blocks whole, and of the others only which they are, if they are in both.

    So the wanted ones can be compared together with their places, whatever was done to the rest.
    """
    both = {which(block) for block in ours} & {which(block) for block in theirs}
    return _outline(ours, both, wanted), _outline(theirs, both, wanted)


def which(block: Json) -> tuple[str, str]:
    """Return what tells a block from its neighbours: its kind, and its text or id."""
    text = field(block, "text")
    return kind(block), text if isinstance(text, str) else id_of(block)


def _outline(blocks: tuple[Json, ...], both: set[tuple[str, str]], wanted: Callable[[Json], bool]) -> list[Json]:
    return [
        _bare(block) if wanted(block) else list(which(block))
        for block in blocks
        if wanted(block) or which(block) in both
    ]


def _bare(block: Json) -> Json:
    # A cache marker is ours and no part of what was received.
    return {name: value for name, value in block.items() if name != "cache_control"}


def compared(history: History, facts: Facts) -> Iterator[tuple[Message, tuple[Json, ...]]]:
    """Yield each assistant message whose content the journal holds, with the blocks that were received."""
    for at in facts.remembered():
        message, received = history.assistant(at), facts.received(at)
        if message is not None and is_list(received):
            yield message, blocks_in(received)


def _changed_inside(message: Message, received: tuple[Json, ...], name: str) -> tuple[str, ...]:
    """Return the ids of server results in which what stands under *name* differs from what was received."""
    theirs = {id_of(block): all_in(block, name) for block in received if kinds.is_server_result(block)}
    ours = [(id_of(block), all_in(block, name)) for block in message.blocks if kinds.is_server_result(block)]
    return tuple(one for one, found in ours if one in theirs and not same(found, theirs[one]))


@rules.end(
    Rule(
        "G05-opaque-bytes",
        "reject",
        error="Invalid `signature` in `thinking` block",
        also=(
            "The encrypted content ... could not be verified. (code invalid_encrypted_content)",
            "Invalid encrypted_content in search_result block",
        ),
        source="openclaw/openclaw#90093; code-yeongyu/senpi PR#150; docs: thinking",
        repair="The message is restored from the journal; else the damaged block is dropped, a result with its call.",
    )
)
def changed_bytes(history: History, facts: Facts) -> Iterator[Fault]:
    """Encrypted output, and the redacted thinking of older messages, are sent back to the byte."""
    for message, received in compared(history, facts):
        ids = _changed_inside(message, received, "encrypted_stdout")
        known = _redacted(received)
        redacted = message is not history.last_assistant and any(
            not any(same(one, other) for other in known) for one in _redacted(message.blocks)
        )
        if ids or redacted:
            yield Fault(message.at, f"message {message.at} holds opaque data that differs from what was received", ids)


def _redacted(blocks: tuple[Json, ...]) -> list[Json]:
    return [field(block, "data") for block in blocks if kind(block) == "redacted_thinking"]


@rules.end(
    Rule(
        "A37-search-payload-intact",
        "reject",
        error="Invalid encrypted_content in search_result block",
        source="docs: web-search-tool; code-yeongyu/senpi PR#150; BerriAI/litellm PR#36228",
        repair="The message is restored from the journal; else call, result and the citations of it are dropped.",
    )
)
def changed_searches(history: History, facts: Facts) -> Iterator[Fault]:
    """The encrypted_content of a search and the encrypted_index of a citation are sent back to the byte."""
    for message, received in compared(history, facts):
        ids = _changed_inside(message, received, "encrypted_content")
        known = all_in(received, "encrypted_index")
        cited = all_in(message.blocks, "encrypted_index")
        if ids or any(not any(same(one, other) for other in known) for one in cited):
            yield Fault(message.at, f"message {message.at} holds a search that differs from what was received", ids)


COMPACTION = Rule(
    "A48-compaction-block",
    "reject",
    error="",
    source="docs: compaction; unslothai/unsloth PR#5686; BerriAI/litellm#41456",
    repair="A lost block is restored from the journal; an empty summary becomes null, which says that it failed.",
)


@rules.each(COMPACTION)
def empty_compaction(message: Message, history: History) -> Iterator[Fault]:
    """The summary of a compaction block is not an empty string."""
    if message.role == "assistant" and any(
        kind(b) == "compaction" and field(b, "content") == "" for b in message.blocks
    ):
        yield Fault(message.at, f"message {message.at} holds a compaction block with an empty summary")


@rules.end(COMPACTION)
def changed_compaction(history: History, facts: Facts) -> Iterator[Fault]:
    """A compaction block that took effect is sent back, whole."""
    for message, received in compared(history, facts):
        theirs = [_bare(b) for b in received if kind(b) == "compaction" and field(b, "content")]
        ours = [_bare(b) for b in message.blocks if kind(b) == "compaction" and field(b, "content")]
        if not same(ours, theirs):
            yield Fault(message.at, f"message {message.at} has lost or changed its compaction block")


FALLBACK = Rule(
    "A49-fallback-block",
    "reject",
    error="messages.N.content.M: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
    "modified.",
    source="docs: refusals-and-fallback; code-yeongyu/senpi PR#99",
    repair="The block is restored from the journal; calls in front of it that were never run are left out.",
)


@rules.each(FALLBACK)
def calls_before_fallback(message: Message, history: History) -> Iterator[Fault]:
    """No call stands in front of the last fallback block of its message, unless a server has answered it there."""
    ids = before_fallback(message.blocks) if message.role == "assistant" else []
    if ids:
        names = unique(one for one in ids if one)
        yield Fault(
            message.at, f"message {message.at} has the call {named(names)} in front of its fallback block", names
        )


def before_fallback(blocks: tuple[Json, ...]) -> list[str]:
    """Return the ids of the calls without a result in front of the last fallback block."""
    places = [at for at, block in enumerate(blocks) if kind(block) == "fallback"]
    front = blocks[: places[-1]] if places else ()
    answered = {id_of(block) for block in front if kinds.is_server_result(block)}
    open_calls = [b for b in front if is_call(b) or (kind(b) in kinds.SERVER_CALLS and id_of(b) not in answered)]
    return [id_of(block) for block in open_calls]


@rules.end(FALLBACK)
def moved_fallback(history: History, facts: Facts) -> Iterator[Fault]:
    """A fallback block stays where it was in the response."""
    for message, received in compared(history, facts):
        if not same(_fronts(message.blocks, received), _fronts(received, message.blocks)):
            yield Fault(message.at, f"message {message.at} has lost or moved its fallback block")


def _fronts(blocks: tuple[Json, ...], others: tuple[Json, ...]) -> list[Json]:
    """Return each fallback block with which of the blocks in front of it are in the other list too."""
    both = {which(block) for block in others} - {("fallback", "")}
    places = [at for at, block in enumerate(blocks) if kind(block) == "fallback"]
    return [[_bare(blocks[at]), sorted({which(b) for b in blocks[:at]} & both)] for at in places]
