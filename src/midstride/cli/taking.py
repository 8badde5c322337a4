"""A transcript of somebody else's taken in as a run: mended first, its open calls left open and never just run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from midstride.agent import Agent
from midstride.cli import reading
from midstride.core.apis import api_named
from midstride.core.imports import Foreign
from midstride.drive.plan import check_api
from midstride.errors import DeclarationError, NotAllowed
from midstride.transcript import Repair, remedy, repair

Json = Any

TAKEN = ("list", "body", "session")
"""Forms that are no run yet; what is a checkpoint or a journal is taken in as it is."""

FACTS: dict[str, Mapping[str, Json]] = {"openai-responses": {"store": False}}
"""What is known of a run's own requests: it sends the whole list each time, and the server keeps nothing."""

ELSEWHERE = ("previous_response_id", "conversation")
"""Fields of a request's body that say that its beginning is on a server."""


def transcript_of(file: Path, task: str | None, agent: Agent | None) -> tuple[Foreign | None, list[str]]:
    """Return the transcript in *file* for *agent* to go on with, and what was mended; None if it is no transcript.

    Raises NotAllowed for one that cannot be mended, TaskDiffers for one of another API, DeclarationError for one that
    is not whole.
    """
    source = _read(file, agent)
    if source is None:
        return None, []
    _check_whole(file, source)
    made = repair(source.messages, provider=source.provider, request=FACTS.get(source.provider))
    for one in made.findings:
        if one.level in ("reject", "harness"):
            raise NotAllowed(
                f"{file} breaks {one.rule} in message {one.at}, and no change of the messages mends it: "
                f"{remedy(one, source.provider)}"
            )
    if not all(isinstance(message, Mapping) for message in made.messages):
        raise NotAllowed(f"{file} holds something else than messages, which no API takes: leave it out")
    front = _front(source, made.messages)
    own = agent is not None and agent.system is not None
    messages = made.messages[front:] if own else made.messages
    if front == len(made.messages):
        raise DeclarationError(f"{file} holds no messages that a run could go on from: begin one with midstride run")
    notes = [*source.damage, *(f"{change.where} {change.what}" for change in made.changes)]
    notes += [f"left out: {what}" for what, left in _left(source, made, front if own else 0, own=own) if left]
    turns = api_named(source.provider).answers(messages, made.made)
    task = task or _first_words(source.messages)
    if not task:
        raise DeclarationError(f"{file} holds no words of a user's: say with --task what the run is about")
    return Foreign(task, list(messages), turns, api=source.provider, made=made.made), notes


def _read(file: Path, agent: Agent | None) -> reading.Source | None:
    """Return what *file* holds if that is no run yet; where nothing tells its API it is taken for the agent's."""
    try:
        source = reading.read(file)
        if source.form not in TAKEN:
            return None
        if source.guessed and agent is not None:
            source = reading.read(file, agent.model.api)
    except DeclarationError:
        return None  # whoever reads checkpoints and journals says what is wrong with it
    if agent is not None:
        check_api(str(file), source.provider, agent.model.api)
    return source


def _check_whole(file: Path, source: reading.Source) -> None:
    for name in ELSEWHERE:
        if source.request.get(name) is not None:
            raise DeclarationError(f"{file} names a {name}: its beginning is on the server, so save the whole list")
    last = source.messages[-1] if source.messages else None
    if source.provider == "openai-chat" and isinstance(last, Mapping) and last.get("function_call"):
        raise DeclarationError(
            f"{file} ends with a function_call, the old kind of a call, which a run cannot settle: add its result, a "
            "message of role function"
        )


def _front(source: reading.Source, messages: Sequence[Json]) -> int:
    """Return how many messages at the front are a system prompt."""
    if source.provider == "anthropic":
        return 0
    places = (at for at, message in enumerate(messages) if message.get("role") not in ("system", "developer"))
    return next(places, len(messages))


def _left(source: reading.Source, made: Repair, front: int, *, own: bool) -> list[tuple[str, Json]]:
    counts = "TARGET's own counts" if own else "TARGET has none"
    asked = source.request
    return [
        ("a system prompt in the messages; TARGET's own counts", made.system or front),
        ("messages that the open turn has no place for; say them again", made.held),
        (f"its system prompt; {counts}", asked.get("system") or asked.get("instructions")),
        ("its tools; TARGET's own count", asked.get("tools")),
    ]


def _first_words(given: Sequence[Json]) -> str:
    """Return what the user said first; the messages are as they were given, of any shape."""
    for message in given:
        if isinstance(message, Mapping) and message.get("role") == "user":
            content = message.get("content")
            blocks = content if isinstance(content, list) else [{"text": content}]
            texts = (block.get("text") for block in blocks if isinstance(block, Mapping))
            words = "".join(text for text in texts if isinstance(text, str))
            if words.strip():
                return words
    return ""
