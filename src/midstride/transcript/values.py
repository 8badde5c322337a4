"""JSON values of unknown origin, read without trust: no type, key or depth makes anything here raise.

What walks through a whole value is a loop and not a recursion: data may be nested deeper than Python recurses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

Json = Any
"""A value that JSON can hold."""


def is_list(value: Json) -> TypeGuard[Sequence[Json]]:
    """Tell whether a value is a JSON array."""
    return isinstance(value, (list, tuple))


def field(value: Json, name: str) -> Json:
    """Return one field of an object; None where there is no such field, or no object."""
    # The rules ask this hundreds of times a message, and to ask whether something is a Mapping takes its time.
    if type(value) is dict:
        return value.get(name)
    return value.get(name) if value is not None and isinstance(value, Mapping) else None


def unique(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids without repeats, in their order."""
    return tuple(dict.fromkeys(ids))


def named(ids: Sequence[str]) -> str:
    """Return ids as a sentence shows them: escaped, three of them at most."""
    shown = ", ".join(ascii(one) for one in ids[:3])
    return f"{shown} and {len(ids) - 3} more" if len(ids) > 3 else shown


def same(one: Json, other: Json) -> bool:
    """Tell whether two JSON values are equal; true is not 1."""
    waiting = [(one, other)]
    while waiting:
        a, b = waiting.pop()
        if a is b:
            continue
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            if a.keys() != b.keys():
                return False
            waiting.extend((a[key], b[key]) for key in a)
        elif is_list(a) and is_list(b):
            if len(a) != len(b):
                return False
            waiting.extend(zip(a, b, strict=True))
        elif isinstance(a, bool) != isinstance(b, bool) or a != b:
            return False
    return True


LONG = 10_485_760
"""Characters that OpenAI takes in one string; also the 10 MB that Anthropic takes of one picture, in base64."""

WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
"""The characters of an id or a tool's name."""


def is_word(value: Json, longest: int | None = None) -> TypeGuard[str]:
    """Tell whether a value is a string of letters, digits, _ and -, at least one and at most *longest*."""
    if not isinstance(value, str) or not value or value.strip(WORD):
        return False
    return longest is None or len(value) <= longest


def strings_of(value: Json) -> tuple[str, ...]:
    """Return the strings of a list; of anything else none."""
    return tuple(one for one in value if isinstance(one, str)) if is_list(value) else ()


def holds(value: Json) -> bool:
    """Tell whether a content holds anything: it is not absent, null, an empty string or an empty list."""
    return value is not None and not ((isinstance(value, str) or is_list(value)) and not value)


def parsed(text: Json) -> Json:
    """Return what a string of strict JSON means; None if it is no such string."""
    if not isinstance(text, str):
        return None
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> Json:
    raise ValueError(name)


def written(value: Json) -> str:
    """Return a value as ASCII JSON text; what is nested too deep for that is said to be so."""
    try:
        return json.dumps(value, allow_nan=False)
    except RecursionError:
        return '"nested too deep to be shown"'


def leaves_in(value: Json) -> Iterator[Json]:
    """Yield every value inside that is neither object nor array, and every key."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            waiting.extend(one.keys())
            waiting.extend(one.values())
        elif is_list(one):
            waiting.extend(one)
        else:
            yield one


def objects_in(value: Json) -> Iterator[Mapping[str, Json]]:
    """Yield every object inside a value, and the value itself if it is one, in the order of the text."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            yield one
            waiting.extend(reversed(list(one.values())))
        elif is_list(one):
            waiting.extend(reversed(one))


def all_in(value: Json, name: str) -> list[Json]:
    """Return what stands under one name anywhere inside a value, in the order of the text."""
    return [one[name] for one in objects_in(value) if name in one]


def half_pair(text: str) -> str | None:
    """Return, escaped and with a little of what is around it, the first half of a surrogate pair; None if all whole."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return ascii(text[max(error.start - 10, 0) : error.start + 10])
    return None


def rebuilt(value: Json, leaf: Callable[[Json], Json]) -> Json:
    """Return a copy in which every key and every value that is neither object nor array went through *leaf*."""
    root: list[Json] = [None]
    waiting: list[tuple[Any, Any, Json]] = [(root, 0, value)]
    while waiting:
        target, key, one = waiting.pop()
        if isinstance(one, Mapping):
            made: dict[Json, Json] = {}
            target[key] = made
            for name, inner in one.items():
                made[leaf(name)] = None
                waiting.append((made, leaf(name), inner))
        elif is_list(one):
            target[key] = row = [None] * len(one)
            waiting.extend((row, at, inner) for at, inner in enumerate(one))
        else:
            target[key] = leaf(one)
    return root[0]


def sane(leaf: Json) -> Json:
    """Return a string without halves of pairs and U+0000, a number that is one; NaN and Infinity become words."""
    if isinstance(leaf, str):
        return leaf.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(leaf, float) and leaf - leaf != 0:
        return str(leaf)
    return leaf
