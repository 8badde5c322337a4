"""Puts `[redacted: NAME]` in place of what looks like a secret, in texts and in JSON."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from midstride.hidden.patterns import KEYS, Pattern, defaults

Json = Any

_NAMES = tuple(KEYS.items()) + tuple(
    (name, rf"(?:^|[_.-]){key}")
    for name, key in (("authorization", "authorization"), ("cookie", "cookie"), ("password", "pass"))
)
_FLAG = re.compile(r"--?[A-Za-z][\w-]*")
_COUNTED = ("token", "cookie")
"""Names under which a number is a count, or no secret."""


@functools.lru_cache(1_000)
def _secret_of(key: str) -> str | None:
    """Return the pattern's name for a field whose whole value is a secret; None for any other field."""
    return next((name for name, ends in _NAMES if re.search(rf"(?:{ends})$", key, re.IGNORECASE)), None)


class Redactor:
    """Puts `[redacted: NAME]` in place of what looks like a secret; *patterns* are looked for in their order."""

    def __init__(self, patterns: Iterable[Pattern] | None = None) -> None:
        self.patterns = defaults() if patterns is None else tuple(patterns)
        self._hints = frozenset(hint for pattern in self.patterns for hint in pattern.hints)

    def __call__(self, value: Json) -> Json:
        """Return a JSON value with the secrets in its texts replaced; numbers are only hidden by a field's name."""
        try:
            return self._walked(value)
        except RecursionError:
            return "[redacted: nested too deep]"

    def text(self, text: str) -> str:
        """Return *text* with the secrets in it replaced, also in the fields of a text that is JSON."""
        return self._plain(self._in_json(text))

    def _plain(self, text: str) -> str:
        low = text.lower()
        there = {hint for hint in self._hints if hint in low}
        for pattern in self.patterns:
            if not pattern.hints or not there.isdisjoint(pattern.hints):
                text = pattern.hide(text)
        return text

    def _in_json(self, text: str) -> str:
        if text.strip()[:1] not in ("{", "["):
            return text
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        walked = self._walked(value)
        return text if walked == value else json.dumps(walked, ensure_ascii=text.isascii())

    def _walked(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return self._fields_of(value)
        if isinstance(value, (list, tuple)):
            return self._items_of(value)
        return value

    def _fields_of(self, fields: Mapping[Json, Json]) -> Json:
        told = fields.get("name", fields.get("key"))
        walked = {}
        for key, value in fields.items():
            known = told if key == "value" else key  # {"name": "DB_PASSWORD", "value": "..."}
            name = _secret_of(known) if isinstance(known, str) else None
            if key == "properties" and isinstance(value, Mapping):  # a schema: its fields have no values
                walked[key] = {one: self._walked(schema) for one, schema in value.items()}
            else:
                shown = self._walked(value) if name is None else self._hidden(name, known, value)
                walked[self.text(key) if isinstance(key, str) else key] = shown
        return walked

    def _items_of(self, items: Iterable[Json]) -> list[Json]:
        walked: list[Json] = []
        flag = None
        for item in items:  # ["mysql", "--password", "..."]
            name = _secret_of(flag) if flag is not None else None
            walked.append(self._walked(item) if name is None else self._hidden(name, "", item))
            flag = item if isinstance(item, str) and _FLAG.fullmatch(item) else None
        return walked

    def _hidden(self, name: str, key: str, value: Json) -> Json:
        """Return what is shown of the value of a field that is a secret by its name."""
        if value is None or isinstance(value, bool) or value in ("", [], {}):
            return value
        if isinstance(value, (int, float)) and name in _COUNTED:
            return value
        if isinstance(value, str) and _is_folder(key, value):
            return self.text(value)
        return f"[redacted: {name}]"


def _is_folder(key: str, value: str) -> bool:
    return key.lower().endswith("pwd") and value.startswith(("/", "~"))


# ---- what this process shows


class _Ours:
    """The patterns of this process's program and file; everything is shown where a person asked for that by name."""

    patterns: tuple[Pattern, ...] = ()
    is_off = False


@functools.lru_cache(1)
def _with(own: tuple[Pattern, ...]) -> Redactor:
    return Redactor((*defaults(), *own))


def redacted(value: Json) -> Json:
    """Return *value*, a text or any JSON, with `[redacted: NAME]` in place of what looks like a secret.

    Use it for whatever you show yourself of a run: its journal, its calls and its answer hold everything.
    """
    return value if _Ours.is_off else _with(_Ours.patterns)(value)


def look_for(patterns: Iterable[Pattern]) -> None:
    """Look for *patterns* from now on, besides those that are always looked for, and behind them."""
    _Ours.patterns = tuple(patterns)


def show_everything() -> None:
    """Redact nothing in this process any more."""
    _Ours.is_off = True
