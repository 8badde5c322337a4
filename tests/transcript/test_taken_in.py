"""What holds when any broken transcript is mended and taken in as a run: nothing is lost, nothing is made up."""

from __future__ import annotations

import json
from functools import partial
from random import Random
from typing import Any

import pytest

from midstride.core.apis import api_named
from midstride.core.fold import fold
from midstride.core.imports import Foreign, imported
from midstride.core.journal import Recorded, Requested, Settled, Started, seal
from midstride.core.run import NEW, CallState, Run, State
from midstride.transcript import Repair, check, repair
from transcript import generating

FACTS = {"openai-responses": {"store": False}}
MARK = "the run settled it"


def taken_in(provider: str, made: Repair) -> Run:
    foreign = Foreign("go", list(made.messages), 1, api=provider, made=made.made)
    start = partial(Started, "go", provider, nonce="n", imported=True)
    return fold(seal(imported(foreign, frozen=start, record=lambda call: Recorded(), prefill=False), NEW.head, 0.0))


def gone_on(run: Run) -> Run:
    """Return the run with every open call settled, and its next request made where one is owed."""
    open_calls = [call for call in run.calls if call.state in (CallState.INTENDED, CallState.NEW)]
    run = fold(seal([Settled(call.turn, call.index, "ok", MARK) for call in open_calls], run.head, 1.0), run)
    return fold(seal([Requested()], run.head, 2.0), run) if run.state is State.DUE else run


def parts(provider: str, messages: list[Any], made: frozenset[str] = frozenset()) -> list[str]:
    """Return what a model sees of the messages, piece by piece and sorted; results in *made* and marks are left out."""
    pieces: list[Any] = []
    for message in messages:
        blocks = message.get("content")
        if provider == "anthropic" and isinstance(blocks, list):
            pieces += [[message["role"], _plain(block)] for block in blocks if not _is_made(block, made)]
        elif not _is_made(message, made):
            pieces.append(_plain(message))
    return sorted(json.dumps(piece, sort_keys=True) for piece in pieces)


def _is_made(piece: Any, made: frozenset[str]) -> bool:
    names = [piece.get(name) for name in ("tool_use_id", "tool_call_id", "call_id")]
    answers = piece.get("type") == "tool_result" or piece.get("role") == "tool" or "output" in piece
    return answers and (MARK in json.dumps(piece) or any(str(name) in made for name in names if name is not None))


def _plain(piece: Any) -> Any:
    # Names that the server gave, and the words for a result without any, are no difference to a model.
    kept = {name: value for name, value in piece.items() if name not in ("id", "status", "cache_control")}
    kept = {name: value for name, value in kept.items() if (name, value) != ("type", "message")}
    if piece.get("type") == "tool_result":
        kept = {"content": "(no result)", **kept}
        kept.pop("is_error", None)
    return {name: "(empty)" if name in ("output", "content") and not value else value for name, value in kept.items()}


@pytest.mark.parametrize("batch", range(4))
@pytest.mark.parametrize("provider", generating.PROVIDERS)
def test_a_broken_transcript_that_is_taken_in_loses_nothing(provider: str, batch: int) -> None:
    taken = 0
    for seed in range(batch * 100, batch * 100 + 100):
        random = Random(f"{provider} {seed}")
        messages, _, _ = generating.transcript(random, provider)
        made = repair(generating.mutated(random, messages), provider=provider, request=FACTS.get(provider))
        if any(one.level in ("reject", "harness") for one in made.findings):
            continue
        taken += 1
        run = taken_in(provider, made)
        opened = {call.id for call in run.calls if call.state is CallState.INTENDED}
        assert all(call.state is not CallState.NEW for call in run.calls), seed
        last = api_named(provider).last_answer(made.messages, made.made)
        assert last is not None or not run.calls, seed
        run = gone_on(run)
        if run.state is State.STOPPED:
            continue  # a refusal, which joins no transcript
        there = parts(provider, run.request, made.made & opened)
        assert there == parts(provider, list(made.messages), made.made & opened), seed
        found = check(run.request, provider=provider, request=FACTS.get(provider))
        assert [one.rule for one in found if one.level in ("reject", "harness")] == [], seed
    assert taken > 60
