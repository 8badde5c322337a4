"""Data of any type as dicts, lists, strings, finite numbers, booleans and None, the same in every process."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import itertools
import json
import numbers
import pathlib
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from enum import Enum
from typing import Any

from pydantic import BaseModel

from midstride.tools.media import Document, Image
from midstride.tools.text import (
    UNDECODED_NOTE,
    class_name,
    decoded,
    plain_str,
    safe_text,
    text_of_error,
    without_addresses,
)

# An iterator may have no end.
ITEMS_MAX = 1_000
# A text of TEXT_MAX characters cannot show more values than this.
NODES_MAX = 50_000
# Deeper than a reader can follow, and far from Python's own limit of 1,000.
DEPTH_MAX = 32


class Walk:
    """One walk through a value; it counts what it has seen, so that no value can be endless.

    *lossy* tells that a text was cut, or bytes were no UTF-8, *iterated* that there was an iterator: it is read now.
    """

    def __init__(self, cap: int, left: int = NODES_MAX) -> None:
        self.cap = cap
        self.left = left
        self.above: set[int] = set()
        self.lossy = self.iterated = False

    def plain(self, value: Any, depth: int = 0) -> Any:
        """Return *value* as dicts, lists, strings, finite numbers, booleans and None."""
        self.left -= 1
        try:
            if value is None or isinstance(value, bool):
                return value
            if isinstance(value, Enum):
                return self.plain(value.value, depth + 1)
            number = _number(value)
            if number is not None:
                return number
            text = _word(value)
            if text is None:
                return self.nested(value, depth)
            self.lossy = self.lossy or (not isinstance(value, str) and text.endswith(UNDECODED_NOTE))
            return self.text(text)
        except Exception:
            return class_name(value)

    def text(self, text: str) -> str:
        """Return a string made safe, with at most as many characters as the walk may show."""
        # Long strings count for more, so that one that hangs in ten thousand places cannot fill the memory.
        self.left -= min(len(text), self.cap) // 1_000
        self.lossy = self.lossy or len(text) > self.cap
        return safe_text(text, self.cap)

    def nested(self, value: Any, depth: int) -> Any:
        """Return what holds other values, or else is shown by its `repr`."""
        inside = _inside(value)
        if inside is None:
            return self.text(without_addresses(plain_str(repr(value))))
        if id(value) in self.above:
            return "<cycle>"
        if depth >= DEPTH_MAX:
            return "<too deep>"
        self.above.add(id(value))
        try:
            if isinstance(inside, dict):
                return self.fields(inside, depth)
            plain = self.items(inside, depth)
            return _sorted(plain) if isinstance(value, Set) else plain
        finally:
            self.above.discard(id(value))

    def fields(self, inside: dict[Any, Any], depth: int) -> dict[str, Any]:
        """Return named values; two names that read alike stay two."""
        plain: dict[str, Any] = {}
        for key, value in inside.items():
            if self.left <= 0:
                plain[_free("<cut>", plain)] = "<more>"
                break
            plain[_free(self.key(key, depth), plain)] = self.plain(value, depth + 1)
        return plain

    def key(self, key: Any, depth: int) -> str:
        """Return a key as a text."""
        plain = self.plain(key, depth + 1)
        return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, allow_nan=False)

    def items(self, inside: Iterable[Any], depth: int) -> list[Any]:
        """Return values in a row, as many as may be shown, and how many more there are."""
        plain: list[Any] = []
        self.iterated = self.iterated or isinstance(inside, Iterator)
        many = ITEMS_MAX if isinstance(inside, Iterator) else NODES_MAX
        try:
            for item in inside:
                if self.left <= 0 or len(plain) >= many:
                    plain.append(_rest(inside, len(plain)))
                    break
                plain.append(self.plain(item, depth + 1))
        except Exception as error:
            plain.append(f"<stopped by {text_of_error(error)}>")
        return plain


def _number(value: Any) -> int | float | str | None:
    if isinstance(value, int):
        return _whole(int.__int__(value))
    if isinstance(value, float):
        return _finite(float.__float__(value))
    if isinstance(value, numbers.Integral):  # numpy's and their like
        return _whole(int(value))
    return _finite(float(value)) if isinstance(value, numbers.Real) else None


def _whole(value: int) -> int | str:
    # Python refuses to write long integers: from 4,300 digits on, and from 640 where it is told to be strict.
    return value if value.bit_length() < 2_000 else f"<an integer of {value.bit_length():,} bits>"


def _finite(value: float) -> float | str:
    if value - value == 0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _word(value: Any) -> str | None:
    """Return *value* as one string when it is a scalar; None when it is not."""
    if isinstance(value, str):
        return plain_str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return decoded(bytes(value))
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return f"-{-value}" if value < datetime.timedelta() else str(value)
    if isinstance(value, (decimal.Decimal, uuid.UUID, pathlib.PurePath)):
        return str(value)
    if isinstance(value, BaseException):
        return text_of_error(value)
    if isinstance(value, (Image, Document)):
        return f"<{type(value).__name__}: return it alone or in a list, and the model can see it>"
    return None


def _inside(value: Any) -> dict[Any, Any] | Iterable[Any] | None:
    """Return what a container holds; None when *value* is none, and its repr must do."""
    if isinstance(value, type):
        return None
    if isinstance(value, BaseModel):
        return _dumped(value)
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
    if type(value) is dict:
        return value
    if isinstance(value, Mapping):
        return {key: value[key] for key in itertools.islice(value, NODES_MAX)}
    if hasattr(type(value), "keys") and hasattr(type(value), "__getitem__"):  # sqlite3.Row and its like
        return {key: value[key] for key in value.keys()}  # noqa: SIM118
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if isinstance(value, Set):
        return _members(value)
    return value if isinstance(value, (Sequence, deque, Iterator, ValuesView)) else None


def _dumped(model: BaseModel) -> dict[Any, Any] | None:
    try:
        # Not mode="json": that would list sets in the order of their hashes.
        fields = model.model_dump(warnings=False)
    except Exception:  # a cycle, or a serializer of the user's that fails
        return None
    return fields if isinstance(fields, dict) else {"root": fields}


def _members(items: Set[Any]) -> Iterable[Any]:
    """Return a set's members, in order where they have one, so that a set too large to show is cut alike everywhere."""
    if type(items) not in (set, frozenset):
        return iter(items)  # keys of a dict, or of a class that may have no end
    return sorted(items) if {type(item) for item in items} in ({str}, {int}) else list(items)


def _sorted(plain: list[Any]) -> list[Any]:
    if {type(item) for item in plain} <= {int}:
        return sorted(plain)
    return sorted(plain, key=lambda item: item if isinstance(item, str) else json.dumps(item, sort_keys=True))


def _rest(inside: Iterable[Any], seen: int) -> str:
    return f"<{len(inside) - seen:,} more>" if isinstance(inside, Sequence) else "<more>"


def _free(key: str, taken: Mapping[str, Any]) -> str:
    """Return *key*, marked where two keys of a dict look alike in JSON (1 and "1"): neither may be lost."""
    while key in taken:
        key += "'"
    return key
