"""What OpenAI's two APIs have in common: content in our neutral form (Anthropic's blocks) put into theirs, arguments
that come as a JSON text, and errors that only words can tell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Json = Any
Block = Mapping[str, Json]

OWN_WORDS = ("Failed: ", "Not started: ", "Outcome unknown: ", "Denied: ", "Error: ")
"""How results that say what went wrong begin already (`core.words`)."""

EMPTY = "(empty)"
"""Stands for a result without a character, which some compatible servers refuse (C17)."""


def arguments_in(text: Json) -> tuple[Json, str | None]:
    """Return the arguments that a call's JSON text means, and why they cannot be read, or None.

    Nothing at all is a call without arguments. What is no text was sent as the value itself, against the API's rules.
    """
    if not isinstance(text, str):
        return text, None
    if not text.strip():
        return {}, None
    try:
        return json.loads(text, parse_constant=_refused), None
    except (ValueError, RecursionError) as error:
        return text, f"the arguments are no JSON ({error}): give one JSON object"


def _refused(constant: str) -> Json:
    raise ValueError(f"JSON has no {constant}")


def told(text: str, *, is_error: bool) -> str:
    """Return a result's *text* so that it says itself whether it is an error: these APIs have no field for it."""
    said = text or EMPTY
    return f"Error: {said}" if is_error and not said.startswith(OWN_WORDS) else said


def result_in(content: Json) -> tuple[Json, bool]:
    """Return the content of a result in a transcript, and whether it says that it is an error."""
    return content, isinstance(content, str) and content.startswith(OWN_WORDS)


def is_one_each(calls: Sequence[Json], results: Sequence[Json]) -> bool:
    """Tell whether each id names one call, and each result answers another one of them."""
    return all(calls.count(one) == 1 for one in calls) and all(
        results.count(one) == 1 and one in calls for one in results
    )


def blocks_of(content: Json) -> Sequence[Json]:
    """Return content as blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list | tuple) else [content]


def plain_text(content: Json) -> str | None:
    """Return content that is text and nothing else, its blocks one below the other; None when it is more."""
    texts = [text_in(block) for block in blocks_of(content)]
    known = [text for text in texts if text is not None]
    return "\n".join(known) if len(known) == len(texts) else None


def text_in(block: Json) -> str | None:
    """Return what a block says in words: a text, or a document of text under its title; None when it says none."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "document", "source": {"type": "text", "data": str(data)}, "title": str(title)}:
            return f"{title}\n{data}"
        case {"type": "document", "source": {"type": "text", "data": str(data)}}:
            return data
    return None


def shown(block: Json) -> str:
    """Return a block that has no form in the API as its JSON: nothing is left out."""
    return json.dumps(block, ensure_ascii=False, separators=(",", ":"))


def address(source: Json) -> str | None:
    """Return where an image or a document is: its own URL, or one that holds its bytes; None for what is neither."""
    match source:
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            return f"data:{kind};base64,{data}"
        case {"type": "url", "url": str(url)}:
            return url
    return None


def is_inline(source: Json) -> bool:
    """Tell whether the bytes travel in the block itself."""
    return isinstance(source, Mapping) and source.get("type") == "base64"


def file_name(block: Block) -> str:
    """Return a name for a document's file: these APIs want one."""
    title = block.get("title")
    name = title if isinstance(title, str) and title else "document"
    return name if name.lower().endswith(".pdf") else f"{name}.pdf"


def user_message(content: Json, part: Callable[[Json], Json]) -> list[Json]:
    """Return what the user says as one message, a list of blocks put into the API's parts by *part*."""
    parts = [part(block) for block in content] if isinstance(content, list | tuple) else content
    return [{"role": "user", "content": parts}]
