"""Text that every model API takes and every store can hold: no half of a surrogate pair, no NUL, no more than fits."""

from __future__ import annotations

import re
from typing import Any

# Some 25,000 tokens, an eighth of the smallest window in use: every later request of the run carries it again.
TEXT_MAX = 100_000
# An error is read, not searched: its beginning and its end say enough.
ERROR_MAX = 4_000

_UNSAFE = re.compile("[\x00\ud800-\udfff]")
_UNDECODED = re.compile("[\udc80-\udcff]")
UNDECODED_NOTE = "bytes were not UTF-8 and stand as \ufffd]"
_ADDRESS = re.compile(r"( at 0x| with id=)[0-9a-fA-F]+")  # Python's, and pydantic's for a cycle


def text_of_error(error: BaseException, cap: int = ERROR_MAX) -> str:
    """Return class and message of *error* for the model to read; no traceback, and nothing that differs by process."""
    return safe_text(_error(error), cap)


def safe_text(text: str, cap: int = TEXT_MAX) -> str:
    """Return *text* with U+FFFD for NUL and for each half of a surrogate pair, cut to *cap* characters in its middle.

    All other control characters stay: they are valid JSON. Two halves that stand together become their character.
    """
    return cut(clean(text), cap)


def _error(error: BaseException, depth: int = 0) -> str:
    try:
        message = without_addresses(plain_str(str(error)))
        if isinstance(error, BaseExceptionGroup) and depth < 3:  # a group in a group in a group is no accident
            message += ": " + "; ".join(_error(e, depth + 1) for e in error.exceptions[:5])
    except Exception:
        message = "(its message cannot be shown)"
    name = class_name(error)[1:-1]
    return f"{name}: {message}" if message.strip() else name


def clean(text: str) -> str:
    """Return *text* with U+FFFD for NUL and for each half of a surrogate pair that stands alone."""
    text = plain_str(text)
    if not _UNSAFE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\x00", "\ufffd")


def cut(text: str, cap: int) -> str:
    """Return at most *cap* characters of *text*: its head, how much is missing, and its tail."""
    if len(text) <= cap:
        return text
    room = max(cap - len(_gap(len(text))), 0)
    head, tail = room - room // 2, room // 2
    return text[:head] + _gap(len(text) - room) + text[len(text) - tail :]


def _gap(missing: int) -> str:
    return f"\n[... {missing:,} characters were cut here ...]\n"


def decoded(data: bytes) -> str:
    """Return bytes as text; how many were no UTF-8 is said at its end."""
    text = data.decode("utf-8", "surrogateescape")
    text, bad = _UNDECODED.subn("\ufffd", text)
    return f"{text}\n[{bad:,} {UNDECODED_NOTE}" if bad else text


def plain_str(text: str) -> str:
    """Return the plain str of a str whose class may have changed every method."""
    return text if type(text) is str else str.__str__(text)


def without_addresses(text: str) -> str:
    """Return *text* without addresses of objects, which differ by process."""
    return _ADDRESS.sub(r"\1...", text)


def class_name(value: Any) -> str:
    """Return the class of a value that cannot be shown."""
    try:
        return f"<{clean(type(value).__name__)}>"
    except Exception:
        return "<object>"
