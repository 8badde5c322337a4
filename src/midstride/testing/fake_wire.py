"""What every dialect of the fake model has to tell, and the few things that all of them need."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .fake_replies import Answer, StreamError
from .fake_validator import Refusal, Rules


@dataclass(frozen=True)
class Exchange:
    """One request: parsed and as it came, the count of answers in it, and whether it asks for a stream."""

    request: dict[str, Any]
    raw: bytes
    turn: int
    request_id: str
    streams: bool


class Dialect(Protocol):
    """One model API on the wire."""

    path: str
    id_header: str

    def refusal(self, raw: bytes, headers: Mapping[str, str], rules: Rules) -> Refusal | None:
        """What the API refuses in a request, or None."""

    def turn_of(self, request: dict[str, Any]) -> int:
        """How many answers of the model a request holds."""

    def message(self, answer: Answer, asked: Exchange) -> dict[str, Any]:
        """The response; the same request gets the same bytes, ids and usage included."""

    def events(self, message: dict[str, Any], asked: Exchange) -> Sequence[bytes]:
        """The response as the events of a stream, in the API's order."""

    def error(self, status: int, kind: str | None, message: str, request_id: str) -> dict[str, Any]:
        """The body of an error."""

    def stream_error(self, reply: StreamError, request_id: str) -> bytes:
        """The event of an error inside a stream."""


def text(value: object) -> str:
    """JSON as the API writes it, characters as they are; escaped only where half a surrogate pair leaves no choice."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        written.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return written


def encoded(value: object) -> bytes:
    """The same as bytes."""
    return text(value).encode("utf-8")


def event(value: object, name: str | None = None) -> bytes:
    """A server-sent event."""
    return (b"" if name is None else b"event: " + name.encode() + b"\n") + b"data: " + encoded(value) + b"\n\n"


def pieces(whole: str) -> list[str]:
    """The text in at most five pieces, however long it is."""
    size = -(-len(whole) // 5) or 1
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def tokens(value: object) -> int:
    """How many tokens a value is about: four characters make one."""
    return (len(value) if isinstance(value, bytes) else len(text(value))) // 4 + 1
