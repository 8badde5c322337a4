"""Spans of time as programs give them: seconds, or a timedelta."""

from __future__ import annotations

import math
from datetime import timedelta
from numbers import Real
from typing import Any

from midstride.errors import DeclarationError

Seconds = float | timedelta


def span_of(name: str, value: Any, what: str, wanted: str = ",") -> float:
    """Return an option *name* of *what* in seconds, whatever its sign; DeclarationError for what is no span of time."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or not math.isfinite(seconds):
        raise _wrong(name, value, what, wanted)
    return float(seconds)


def seconds_of(name: str, value: Any, what: str) -> float | None:
    """Return an option *name* of *what*, which has to be more than 0, or of `settle` no less, in seconds."""
    if value is None:
        return None
    wanted = f", {'0 or more' if name == 'settle' else 'more than 0'}"
    seconds = span_of(name, value, what, wanted)
    if seconds < 0 or (seconds == 0 and name != "settle"):
        raise _wrong(name, value, what, wanted)
    return seconds


def _wrong(name: str, value: Any, what: str, wanted: str) -> DeclarationError:
    return DeclarationError(f"{what} has {name}={value!r}: wanted seconds or a timedelta{wanted} and finite")
