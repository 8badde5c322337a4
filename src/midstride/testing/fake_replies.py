"""What a fake model can be told to reply: answers as the model's API would give them, and every way to fail.

An answer is written once, in Anthropic's blocks; each API's server puts it into its own form.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Block = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """A response of the model: text, or blocks as the API has them.

    A tool_use block without an id is given one by turn. `usage` is put over the usage made from the lengths; `extra`
    adds to the message: stop_sequence, stop_details, container.
    """

    content: str | Sequence[Mapping[str, Any]]
    stop_reason: str | None = "end_turn"
    usage: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


SOME_TEXT = Answer("This answer does not arrive whole.")


@dataclass(frozen=True)
class Fail:
    """An HTTP error instead of an answer; `type` is the one that goes with the status unless it is told."""

    status: int
    type: str | None = None
    message: str = "scripted failure"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cut:
    """The connection is reset in the middle: whole events, half of the next one, and a TCP reset."""

    after_events: int = -2
    answer: Answer = SOME_TEXT


@dataclass(frozen=True)
class Truncate:
    """The stream ends early and cleanly, as if it were complete."""

    after_events: int = -2
    answer: Answer = SOME_TEXT


@dataclass(frozen=True)
class StreamError:
    """An error event in a stream that began with status 200; a request without a stream gets the error's own status."""

    type: str = "overloaded_error"
    message: str = "Overloaded"
    after_events: int = -2
    answer: Answer = SOME_TEXT


@dataclass(frozen=True)
class Hold:
    """The reply is held until an event is set or a file exists: all of it, or, with `after_events`, its rest."""

    until: threading.Event | Path
    reply: Reply
    after_events: int | None = None

    def __post_init__(self) -> None:
        if self.after_events is not None and not isinstance(self.reply, Answer):
            raise TypeError(f"Hold with after_events holds an Answer, not a {type(self.reply).__name__}")


@dataclass(frozen=True)
class Slow:
    """An answer whose events come one by one, with a pause before each; without a stream one pause before the body."""

    seconds: float
    answer: Answer


@dataclass(frozen=True)
class Refuse:
    """The request is read, and the connection is reset without a word."""


Reply = Answer | Fail | Cut | Truncate | StreamError | Hold | Slow | Refuse
Script = Sequence[Reply | Sequence[Reply]] | Callable[[dict[str, Any], int], Reply]


def calls(
    *named: tuple[str, Mapping[str, Any]], text: str | None = None, stop_reason: str | None = "tool_use"
) -> Answer:
    """An answer that calls these tools, in this order, with ids made from the turn and the place: toolu_2_0."""
    said: list[Block] = [] if text is None else [{"type": "text", "text": text}]
    asked: list[Block] = [{"type": "tool_use", "name": name, "input": dict(given)} for name, given in named]
    return Answer([*said, *asked], stop_reason)


def flat(script: Sequence[Reply | Sequence[Reply]]) -> Iterator[Reply]:
    """The replies of a script, those for the same turn one after the other."""
    for item in script:
        yield from item if isinstance(item, Sequence) else [item]


def kinds_in(reply: Reply) -> frozenset[str]:
    """The kinds of block in a reply: an API that sends a kind takes it back."""
    match reply:
        case Answer(content):
            return frozenset(() if isinstance(content, str) else (str(block["type"]) for block in content))
        case Cut(answer=inner) | Truncate(answer=inner) | StreamError(answer=inner) | Slow(answer=inner):
            return kinds_in(inner)
        case Hold(reply=held):
            return kinds_in(held)
        case _:
            return frozenset()


def blocks_of(answer: Answer) -> Sequence[Mapping[str, Any]]:
    """The blocks of an answer; a text is one, and no text none."""
    if not isinstance(answer.content, str):
        return answer.content
    return [{"type": "text", "text": answer.content}] if answer.content else []


# ---- from a file


def script_from(value: Any) -> list[Reply | Sequence[Reply]]:
    """The script that a JSON list of replies means; ValueError or TypeError for what it cannot mean."""
    if not isinstance(value, list):
        raise ValueError(f"a script is a list of replies, not {value!r}")
    return [[_reply_from(one) for one in item] if isinstance(item, list) else _reply_from(item) for item in value]


def _reply_from(value: Any) -> Reply:
    if isinstance(value, str):
        return Answer(value)
    form = next((name for name in FORMS if isinstance(value, dict) and name in value), None)
    if form is None:
        raise ValueError(f"this is no reply of a script: {value!r}; it needs one of {', '.join(FORMS)}")
    parts = {name: part for name, part in value.items() if name != form}
    rest = {name: _reply_from(part) if name in ("answer", "reply") else part for name, part in parts.items()}
    return FORMS[form](value[form], **rest)


# Looked for in this order: an answer may also be a part of the forms before it.
FORMS: dict[str, Callable[..., Reply]] = {
    "cut": Cut,
    "truncate": Truncate,
    "stream_error": StreamError,
    "hold_file": lambda path, **rest: Hold(Path(path), **rest),
    "slow": Slow,
    "fail": Fail,
    "calls": lambda named, **rest: calls(*((name, given) for name, given in named), **rest),
    "refuse": lambda _: Refuse(),
    "answer": Answer,
}
