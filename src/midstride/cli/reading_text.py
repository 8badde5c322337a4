"""A JSON text with the place of every message in it, and the text again with some of them replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Any

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class Spans:
    """A list in a text: it stands from *start* to *end*, its elements at *places*, and they mean *values*."""

    start: int
    end: int
    places: list[tuple[int, int]]
    values: list[Json]


def list_of(text: str, start: int, *, last: bool = False) -> Spans:
    """Read the list that begins at *start*; ValueError if it is none, or with *last* if anything stands behind it."""
    places, values = [], []
    at = _behind(text, start + 1)
    if text[at : at + 1] != "]":
        while True:
            value, end = _DECODER.raw_decode(text, at)
            places.append((at, end))
            values.append(value)
            at = _behind(text, end)
            if text[at : at + 1] == "]":
                break
            at = _behind(text, _past(text, at, ","))
    if last:
        _is_end(text, at + 1)
    return Spans(start, at + 1, places, values)


def fields_of(text: str, start: int, lists: tuple[str, ...]) -> dict[str, Json]:
    """Read the object that ends the text; what stands under the names in *lists* is given as `Spans`."""
    found: dict[str, Json] = {}
    at = _behind(text, _past(text, start, "{"))
    while text[at : at + 1] != "}":
        name, at = _DECODER.raw_decode(text, at)
        if not isinstance(name, str):
            raise ValueError(f"a key is no string before character {at}")
        at = _behind(text, _past(text, _behind(text, at), ":"))
        if name in lists and text[at : at + 1] == "[":
            found[name] = list_of(text, at)
            at = found[name].end
        else:
            found[name], at = _DECODER.raw_decode(text, at)
        at = _behind(text, at)
        if text[at : at + 1] != "}":
            at = _behind(text, _past(text, at, ","))
            if text[at : at + 1] != '"':
                raise ValueError(f"a key is wanted at character {at}")
    _is_end(text, at + 1)
    return found


def _behind(text: str, at: int) -> int:
    return _BLANK.match(text, at).end()  # type: ignore[union-attr]


def _past(text: str, at: int, wanted: str) -> int:
    if text[at : at + 1] != wanted:
        raise ValueError(f"{wanted!r} is wanted at character {at}, and {text[at : at + 10]!r} stands there")
    return at + 1


def _is_end(text: str, at: int) -> None:
    if _behind(text, at) != len(text):
        raise ValueError(f"more stands behind the end, at character {at}")


# ---- writing


def spliced(text: str, spans: Spans, messages: Sequence[Json]) -> str:
    """Return the text with *messages* in the place of the list; those that are the list's own stay as written."""
    own = {id(value): place for value, place in zip(spans.values, spans.places, strict=True)}
    kept = {id(message) for message in messages}
    known = _blocks_of(text, [(v, p) for v, p in zip(spans.values, spans.places, strict=True) if id(v) not in kept])
    style = Style.of(text, spans)
    pieces = [text[slice(*own[id(one)])] if id(one) in own else style.written(one, known) for one in messages]
    ends = (spans.places[0][0], spans.places[-1][1]) if spans.places else (spans.start + 1, spans.end - 1)
    return "".join((text[: ends[0]], style.between.join(pieces), text[ends[1] :]))


def _blocks_of(text: str, gone: list[tuple[Json, tuple[int, int]]]) -> dict[int, str]:
    """Return how the blocks of messages that are not kept whole were written, by identity."""
    known: dict[int, str] = {}
    for message, (start, end) in gone:
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, list) and content:
            found = fields_of(text[start:end], 0, ("content",))["content"]
            known |= {id(one): text[start + a : start + b] for one, (a, b) in zip(content, found.places, strict=True)}
    return known


@dataclass(frozen=True)
class Style:
    """How a text is laid out: what stands *between* messages, the *indent* of a level or None, and the marks."""

    between: str
    base: str
    indent: str | None
    marks: tuple[str, str]

    @classmethod
    def of(cls, text: str, spans: Spans) -> Style:
        """Read the style off a text."""
        if not spans.places:
            return cls(", ", "", None, (", ", ": "))
        (start, end), lead = spans.places[0], text[spans.start + 1 : spans.places[0][0]]
        between = text[end : spans.places[1][0]] if len(spans.places) > 1 else f",{lead or ' '}"
        base = lead.rpartition("\n")[2] if "\n" in lead else ""
        inner = re.compile(r"\{\r?\n([ \t]*)").match(text, start, end)
        indent = inner[1].removeprefix(base) if inner else None
        tight = not re.compile(r'\{"[^"]*":\s').match(text, start, end) and inner is None
        return cls(between, base, indent, (",", ":") if tight else (", ", ": "))

    def written(self, message: Json, known: Mapping[int, str]) -> str:
        """Return a message in this style, its *known* blocks as they were written."""
        content = message.get("content") if isinstance(message, Mapping) else None
        if not isinstance(content, list):
            return self._dumped(message, self.base)
        level = f"{self.base}{self.indent or ''}"
        deeper = f"{level}{self.indent or ''}"
        blocks = self._row("[", [known.get(id(one)) or self._dumped(one, deeper) for one in content], "]", level)
        fields = [
            f"{json.dumps(name)}{self.marks[1]}{blocks if value is content else self._dumped(value, level)}"
            for name, value in message.items()
        ]
        return self._row("{", fields, "}", self.base)

    def _row(self, opening: str, parts: list[str], closing: str, level: str) -> str:
        if self.indent is None or not parts:
            return f"{opening}{self.marks[0].join(parts)}{closing}"
        line = f"\n{level}{self.indent}"
        return f"{opening}{line}{f',{line}'.join(parts)}\n{level}{closing}"

    def _dumped(self, value: Json, level: str) -> str:
        if self.indent is None:
            return json.dumps(value, separators=self.marks)
        return json.dumps(value, indent=self.indent).replace("\n", f"\n{level}")
