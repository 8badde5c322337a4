"""A transcript is checked while it grows: the same findings as at once, and no message read twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midstride.transcript import Checker, Finding, check, repair
from transcript import generating
from transcript.writing import GO, assistant, broken, call, compaction, result, searching, text, user

# A machine that is busy with other things is no fault of the check.
patiently = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# ---- any value


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
ids = st.sampled_from(["a", "b", ""]) | json_values
blocks = st.one_of(
    st.builds(text, st.sampled_from(["", " ", "x", "\ud800"]) | json_values),
    st.builds(call, ids, input=st.just({}) | json_values),
    st.builds(result, ids, st.lists(st.builds(text, json_values), max_size=2) | json_values),
    st.builds(searching, st.just("s")),
    st.builds(compaction, json_values),
    json_values,
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"]) | json_values},
    optional={"content": st.lists(blocks, max_size=4) | json_values},
)
lists = st.lists(messages | json_values, max_size=8)
requests = (
    st.fixed_dictionaries(
        {},
        optional={
            "last_stop_reason": st.sampled_from(["end_turn", "max_tokens", "pause_turn", "refusal", None])
            | json_values,
            "model_class": st.sampled_from(["no-prefill", "prefill-capable"]) | json_values,
            "thinking": st.just({"type": "adaptive"}) | json_values,
        },
    )
    | json_values
)
journals = st.dictionaries(
    st.integers(0, 7).map("assistant_{}".format), st.fixed_dictionaries({"content": st.lists(blocks)}) | json_values
)


@patiently
@given(lists | json_values, requests, journals | json_values)
def test_any_value_can_be_checked(values: Any, request: Any, journal: Any) -> None:
    found = check(values, provider="anthropic", request=request, journal=journal)
    assert all(isinstance(one, Finding) and one.at >= 0 for one in found)
    assert [(one.at, one.rule) for one in found] == sorted({(one.at, one.rule) for one in found})


@pytest.mark.parametrize("value", [None, 1, "x", {"role": "user", "content": "Go."}])
def test_what_is_no_list_is_no_transcript(value: object) -> None:
    assert [(one.rule, one.at) for one in check(value, provider="anthropic")] == [
        ("A08-first-message-user", 0),
        ("A10-nonempty-content", 0),
        ("G06-known-discriminator", 0),
    ]


def test_a_message_that_is_no_object_is_found_and_ends_a_turn() -> None:
    assert broken(GO, assistant(call("a")), "x", user(result("a"))) == ["A01@1", "A10@2", "A02@3"]


def test_no_message_is_no_fault() -> None:
    assert check([], provider="anthropic") == []


# ---- at once, in steps, with a tail


@patiently
@given(lists, requests, journals, st.sets(st.integers(0, 8)))
def test_looking_in_between_changes_nothing(values: Any, request: Any, journal: Any, looks: set[int]) -> None:
    checker = Checker("anthropic")
    for at, message in enumerate(values):
        checker.add(message)
        if at in looks:
            checker.findings(request, journal, tail=[assistant(call("a"), compaction()), user(result("b"))])
    assert checker.findings(request, journal) == check(values, provider="anthropic", request=request, journal=journal)


@patiently
@given(lists, lists, requests, journals)
def test_a_tail_is_as_good_as_appended(values: Any, tail: Any, request: Any, journal: Any) -> None:
    checker = Checker("anthropic")
    for message in values:
        checker.add(message)
    at_once = check(values + tail, provider="anthropic", request=request, journal=journal)
    assert checker.findings(request, journal, tail=tail) == at_once


def test_a_tail_is_forgotten() -> None:
    checker = Checker("anthropic")
    for message in (GO, assistant(call("a")), user(result("a"))):
        checker.add(message)
    assert checker.findings(tail=[user(result("a")), assistant(call("a"))]) != []
    assert checker.findings() == []
    assert checker.findings(tail=[assistant(call("b")), user(result("b"))]) == []
    for message in (assistant(call("b")), user(result("b"))):
        checker.add(message)
    assert checker.findings() == []


def test_a_tail_that_is_no_list_is_found() -> None:
    checker = Checker("anthropic")
    checker.add(GO)
    assert [one.rule for one in checker.findings(tail=GO)] == ["A10-nonempty-content", "G06-known-discriminator"]


# ---- against the rules written down plainly


small = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "assistant", "user", "system"]),
        st.lists(st.builds(text) | st.builds(call, st.sampled_from("abc")) | st.builds(result, st.sampled_from("abc"))),
    ),
    max_size=7,
).map(lambda pairs: [{"role": role, "content": content or [text()]} for role, content in pairs])


@patiently
@given(small)
def test_pairing_agrees_with_the_rules_applied_to_the_whole_list(values: list[dict[str, Any]]) -> None:
    pairing = {"A01", "A02", "A03", "A04", "A05"}
    found = {(one.rule[:3], one.at, one.ids) for one in check(values, provider="anthropic") if one.rule[:3] in pairing}
    assert found == {(rule, at, tuple(dict.fromkeys(ids))) for (rule, at), ids in _plainly(values).items()}


def _plainly(values: list[dict[str, Any]]) -> dict[tuple[str, int], list[str]]:
    turns: list[list[int]] = []
    for at, message in enumerate(values):
        joined = at > 0 and message["role"] != "system" and message["role"] == values[at - 1]["role"]
        turns[-1].append(at) if joined else turns.append([at])
    faults: list[tuple[str, int, str]] = []
    for turn, following in zip([[], *turns], [*turns, []], strict=True):
        calls = _calls(values, turn)
        results = [(at, block["tool_use_id"]) for at, block in _blocks(values, following, "user", "tool_result")]
        faults += [("A01", at, one) for at, one in calls if one not in [name for _, name in results]]
        faults += [("A02", at, one) for at, one in results if one not in [name for _, name in calls]]
        texts = False
        for at, block in _blocks(values, following, "user", "tool_result", "text"):
            if texts and block.get("tool_use_id") in [name for _, name in calls]:
                faults.append(("A03", at, block["tool_use_id"]))
            texts = texts or block["type"] == "text"
    everything = list(range(len(values)))
    calls = _calls(values, everything)
    results = [(at, block["tool_use_id"]) for at, block in _blocks(values, everything, "user", "tool_result")]
    faults += [("A04", at, one) for i, (at, one) in enumerate(calls) if one in [name for _, name in calls[:i]]]
    faults += [("A05", at, one) for i, (at, one) in enumerate(results) if one in [name for _, name in results[:i]]]
    found: dict[tuple[str, int], list[str]] = {}
    for rule, at, one in faults:
        found.setdefault((rule, at), []).append(one)
    return found


def _calls(values: list[dict[str, Any]], turn: list[int]) -> list[tuple[int, str]]:
    return [(at, block["id"]) for at, block in _blocks(values, turn, "assistant", "tool_use")]


def _blocks(values: list[dict[str, Any]], turn: list[int], role: str, *kinds: str) -> list[tuple[int, dict[str, Any]]]:
    mine = [at for at in turn if values[at]["role"] == role]
    return [(at, block) for at in mine for block in values[at]["content"] if block["type"] in kinds]


# ---- what it costs


class Counted(Mapping[str, Any]):
    """An object that counts how often it is looked into."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = {name: self._wrapped(value) for name, value in fields.items()}
        self.reads = 0

    def _wrapped(self, value: Any) -> Any:
        return [Counted(one) for one in value] if isinstance(value, list) else value

    def __getitem__(self, name: str) -> Any:
        self.reads += 1
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        self.reads += 1
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def all_reads(self) -> int:
        inner = [one for value in self.fields.values() if isinstance(value, list) for one in value]
        return self.reads + sum(one.all_reads for one in inner)


def _turn(number: int) -> list[Counted]:
    ask, answer = assistant(text(), call(f"id-{number}")), user(result(f"id-{number}"), text())
    return [Counted(ask), Counted(answer)]


def test_a_message_is_read_when_it_is_added_and_never_again() -> None:
    checker = Checker("anthropic")
    checker.add(GO)
    costs, added = set(), []
    for number in range(300):
        turn = _turn(number)
        for message in turn:
            checker.add(message)
        assert checker.findings(tail=[]) == []
        costs.add(sum(message.all_reads for message in turn))
        added.append(turn)
    assert len(costs) == 1  # turn 300 costs what turn 1 costs
    assert {sum(message.all_reads for message in turn) for turn in added} == costs  # and nothing was read later


def test_a_tail_costs_what_it_holds() -> None:
    checker = Checker("anthropic")
    checker.add(GO)
    old = [message for number in range(50) for message in _turn(number)]
    for message in old:
        checker.add(message)
    before = sum(message.all_reads for message in old)
    assert [one.at for one in checker.findings(tail=_turn(50) + _turn(0))] == [103, 104]
    assert sum(message.all_reads for message in old) == before


def test_messages_of_one_role_in_a_row_are_read_once_too() -> None:
    checker = Checker("anthropic")
    checker.add(GO)
    calls = [Counted(assistant(call(f"id-{number}"))) for number in range(100)]
    results = [Counted(user(result(f"id-{number}"))) for number in range(100)]
    for message in calls + results:
        checker.add(message)
        checker.findings()
    assert {one.rule for one in checker.findings()} == {"A06-results-in-one-message"}
    for row in (calls, results):
        reads = [message.all_reads for message in row]
        assert max(reads) - min(reads) <= 3  # the first and the last of a turn are asked a little more


# ---- providers


@pytest.mark.parametrize("provider", ["openai", "", "Anthropic"])
def test_a_provider_without_rules_is_refused_by_name(provider: str) -> None:
    known = "anthropic, openai-chat, openai-responses"
    with pytest.raises(ValueError, match=f"no rules for provider '{provider}'; there are for {known}"):
        check([], provider=provider)
    with pytest.raises(ValueError, match=f"no rules for provider '{provider}'"):
        repair([], provider=provider)


@pytest.mark.parametrize("provider", ["anthropic", "openai-chat", "openai-responses"])
def test_a_tail_is_as_good_as_appended_for_every_provider(provider: str) -> None:
    for seed in range(40):
        random = Random(f"{provider} {seed}")
        messages, _, journal = generating.transcript(random, provider)
        broken, facts = generating.mutated(random, messages), generating.facts(random)
        cut = random.randint(0, len(broken))
        checker = Checker(provider)
        for message in broken[:cut]:
            checker.add(message)
        at_once = check(broken, provider=provider, request=facts, journal=journal)
        assert checker.findings(facts, journal, tail=broken[cut:]) == at_once
        checker.findings(facts, journal)
        for message in broken[cut:]:
            checker.add(message)
        assert checker.findings(facts, journal) == at_once
