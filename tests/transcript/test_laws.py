"""The laws of repair, over whole and broken transcripts of every provider."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midstride.transcript import check, guess_provider, repair
from midstride.transcript.repair import MENDS, UNMENDABLE
from transcript import generating, laws

patiently = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
randoms = st.randoms(use_true_random=False)
providers = st.sampled_from(generating.PROVIDERS)


@patiently
@given(randoms, providers)
def test_a_whole_transcript_has_no_fault_and_comes_back_as_it_is(random: Random, provider: str) -> None:
    messages, request, journal = generating.transcript(random, provider)
    before = json.dumps(messages)
    assert check(messages, provider=provider, request=request, journal=journal) == []
    made = repair(messages, provider=provider, request=request, journal=journal)
    assert made.messages is messages
    assert json.dumps(made.messages) == before
    assert guess_provider(messages) in (None, provider)


@patiently
@given(randoms, providers)
def test_the_laws_hold_for_a_broken_transcript(random: Random, provider: str) -> None:
    _break(random, provider)


def _break(random: Random, provider: str) -> None:
    messages, _, journal = generating.transcript(random, provider)
    broken = generating.mutated(random, messages)
    laws.hold(provider, broken, generating.facts(random), journal, generating.recorded(random))


@pytest.mark.parametrize("batch", range(3))
@pytest.mark.parametrize("provider", generating.PROVIDERS)
def test_the_laws_hold_for_the_same_broken_transcripts_every_time(provider: str, batch: int) -> None:
    for seed in range(batch * 40, batch * 40 + 40):
        _break(Random(f"{provider} {seed}"), provider)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@patiently
@given(json_values, json_values, json_values, json_values, providers)
def test_any_value_can_be_repaired(values: Any, request: Any, journal: Any, results: Any, provider: str) -> None:
    made = repair(values, provider=provider, request=request, journal=journal, results=results)
    laws.nothing_is_left(provider, made)


@pytest.mark.parametrize("provider", generating.PROVIDERS)
@pytest.mark.parametrize("place", ["input", "content", "result", "message", "list"])
def test_depth_is_no_obstacle(provider: str, place: str) -> None:
    messages, _, _ = generating.transcript(Random(7), provider)
    deep: Any = "\ud800"
    for _ in range(1_500):
        deep = [{"in": deep}]
    broken = {
        "input": [
            *messages,
            {"role": "assistant", "content": [{"type": "tool_use", "id": "d", "name": "n", "input": deep}]},
        ],
        "content": [*messages, {"role": "user", "content": deep}],
        "result": [*messages, {"role": "tool", "tool_call_id": "d", "content": deep, "output": deep}],
        "message": [*messages, deep],
        "list": deep,
    }[place]
    calls = [
        *({"type": "function_call", "call_id": "d", "name": "n", "arguments": deep},),
        *({"role": "assistant", "tool_calls": [{"id": "d", "function": {"name": "n", "arguments": deep}}]},),
    ]
    for more in ([], calls):
        made = repair(
            [*broken, *more], provider=provider, results={"d": deep}, journal={"assistant_0": {"content": deep}}
        )
        laws.nothing_is_left(provider, made)


def test_rules_that_nothing_mends_are_said_to_be_so() -> None:
    names = {rule for provider in MENDS for rules, _ in MENDS[provider].rows for rule in rules}
    assert {"A28", "A39", "A46", "A47", "A57"} & names == set()
    assert {"A28", "A39", "A46", "A47", "A57"} <= {rule[:3] for rule in UNMENDABLE}


@pytest.mark.parametrize("provider", generating.PROVIDERS)
def test_every_other_rule_has_a_mend(provider: str) -> None:
    from midstride.transcript import entries

    mended = {rule for rules, _ in MENDS[provider].rows for rule in rules}
    never = {"A28", "A39", "A46", "A47", "A53", "A56", "A57", "R18"}
    assert {entry.name[:3] for entry in entries(provider)} - mended - never == set()
    assert mended - {entry.name[:3] for entry in entries(provider)} == set()
