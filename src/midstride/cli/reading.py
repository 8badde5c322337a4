"""A transcript read from a file of somebody's, whatever its form, and written back in it.

A list of messages and a request's body are read with the place of every message in the text, so that what is not
repaired stays as it was written: numbers, escapes, the order of keys.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midstride.cli import reading_sessions
from midstride.cli.exporting import entries_of_lines
from midstride.cli.reading_text import Spans, fields_of, list_of, spliced
from midstride.core.apis import Api, api_named
from midstride.core.fold import fold
from midstride.errors import DeclarationError
from midstride.models.anthropic import continues_prefill
from midstride.stores.disk import store_error
from midstride.transcript import guess_provider

Json = Any

PROVIDERS = ("anthropic", "openai-chat", "openai-responses")

FACTS = (
    "tools", "tool_choice", "thinking", "system", "instructions", "max_tokens", "model", "container", "betas", "store",
    "previous_response_id", "conversation",
)  # fmt: skip
"""The fields of a request's body that rules ask for."""

SEVERAL = "a message list, a request's body, a Claude Code session, an exported run or a checkpoint"


@dataclass(frozen=True)
class Source:
    """A transcript, where it came from, and the facts about the request that carries it.

    *damage* says what of the file could not be read as it stands, *branches* counts the other ends of a session.
    *rewritten* gives the file with other messages; None where that cannot be done honestly for its form.
    """

    name: str
    form: str
    messages: Sequence[Json]
    provider: str
    guessed: bool
    request: Mapping[str, Json] = field(default_factory=dict)
    damage: tuple[str, ...] = ()
    branches: int = 0
    rewritten: Callable[[Sequence[Json]], bytes] | None = None


def read(file: Path, provider: str | None = None) -> Source:
    """Return the transcript in *file* ("-": standard input); DeclarationError says why there is none."""
    if provider is not None and provider not in PROVIDERS:
        raise DeclarationError(f"--provider {provider} is none: wanted {', '.join(PROVIDERS)}")
    name = "standard input" if str(file) == "-" else str(file)
    data = _bytes_of(file)
    if not data.strip(b"\0 \t\r\n"):
        raise DeclarationError(f"{name} is empty: wanted {SEVERAL}")
    try:
        return _read(data, name, provider)
    except RecursionError:
        raise DeclarationError(f"{name} is nested too deep to be read") from None


def _bytes_of(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise DeclarationError(f"there is no file {file}") from None
    except IsADirectoryError:
        raise DeclarationError(f"{file} is a folder: wanted {SEVERAL}") from None
    except OSError as error:
        raise store_error(error, file, "read") from error


def _read(data: bytes, name: str, provider: str | None) -> Source:
    if data.startswith(b'{"midstride": {'):
        return _journal(data, name, provider)
    if _begins_as_lines(data):
        return _session(data, name, provider)
    try:
        return _document(data, name, provider)
    except ValueError as error:
        found = reading_sessions.parsed(data)
        if found.messages:
            return _as_session(found, name, provider)
        raise DeclarationError(f"{name} is cut, or no JSON ({error}): wanted {SEVERAL}") from None


def _source(name: str, form: str, messages: Sequence[Json], provider: str | None, **more: Any) -> Source:
    guess = provider or guess_provider(messages)
    return Source(name, form, messages, guess or "anthropic", guess is None, **more)


# ---- one JSON document


MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def _document(data: bytes, name: str, provider: str | None) -> Source:
    mark, encoding = next(((mark, code) for mark, code in MARKS if data.startswith(mark)), (b"", "utf-8"))
    # A byte that is no UTF-8 becomes half of a pair: a finding with a place, and the same byte again where it stays.
    errors = "surrogateescape" if encoding == "utf-8" else "surrogatepass"
    text = data[len(mark) :].decode(encoding, errors)
    del data

    def rewritten(spans: Spans) -> Callable[[Sequence[Json]], bytes]:
        return lambda messages: mark + spliced(text, spans, messages).encode(encoding, errors)

    start = re.compile(r"[ \t\r\n]*").match(text).end()  # type: ignore[union-attr]
    if text[start] == "[":
        spans = list_of(text, start, last=True)
        return _source(name, "list", spans.values, provider, rewritten=rewritten(spans))
    body = fields_of(text, start, ("messages", "input"))
    found = body.get("messages", body.get("input"))
    if isinstance(found, str):
        found = Spans(0, 0, [], [{"role": "user", "content": found}])
    if not isinstance(found, Spans):
        raise DeclarationError(f"{name} holds no messages: wanted {SEVERAL}")
    if "messages" not in body:
        provider = provider or "openai-responses"
    if any(name in body for name in ("turns", "tokensUsed", "pendingToolUse", "midstride")):
        return _source(name, "checkpoint", found.values, provider or _api_of(body.get("midstride"), name))
    facts = {key: body[key] for key in FACTS if key in body}
    if isinstance(facts.get("model"), str) and facts["model"].startswith("claude"):
        facts["model_class"] = "prefill-capable" if continues_prefill(facts["model"]) else "no-prefill"
    return _source(name, "body", found.values, provider, request=facts, rewritten=rewritten(found))


def _api_of(kept: Json, name: str) -> str | None:
    """Return the API that a checkpoint's own journal says it is of; None where it holds none that can be read."""
    try:
        api = api_named(json.loads(kept["entries"][0][0])["api"])
    except (LookupError, TypeError, ValueError, DeclarationError):
        return None
    return _that_loops(api, name).name


def _that_loops(api: Api, name: str) -> Api:
    if not api.loops:
        raise DeclarationError(
            f"{name} is one call of a ledger and no transcript of a model: there is nothing to check"
        )
    return api


# ---- lines


def _begins_as_lines(data: bytes) -> bool:
    """Tell whether the first line is an object of its own that holds no messages."""
    end = data.find(b"\n")
    try:
        first = json.loads(data[: end if end >= 0 else len(data)].strip(b"\0 \t\r\n").decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and "messages" not in first and "input" not in first


def _session(data: bytes, name: str, provider: str | None) -> Source:
    found = reading_sessions.parsed(data)
    if not found.messages:
        raise DeclarationError(f"{name} holds no messages: wanted {SEVERAL}")
    return _as_session(found, name, provider)


def _as_session(found: reading_sessions.Session, name: str, provider: str | None) -> Source:
    return Source(
        name,
        "session",
        found.messages,
        provider or "anthropic",
        guessed=False,
        request=found.facts,
        damage=tuple(found.damage),
        branches=found.branches,
        rewritten=found.rewritten,
    )


def _journal(data: bytes, name: str, provider: str | None) -> Source:
    _, entries = entries_of_lines(data, name)
    run = fold(entries)
    _that_loops(run.api, name)
    facts = {key: run.params[key] for key in FACTS if key in run.params}
    return _source(name, "journal", run.request, provider or run.begun.api, request=facts)
