"""A08, A09, A50 to A52: how a list begins and ends, and the stop reason of its last response."""

from __future__ import annotations

import json

import pytest

from transcript.writing import (
    GO,
    assistant,
    broken,
    call,
    compaction,
    findings,
    result,
    searched,
    searching,
    text,
    user,
)

SAID = assistant(text("So far."))
NO_PREFILL = {"model_class": "no-prefill"}

# ---- A08


@pytest.mark.parametrize("first", [SAID, {"role": "ai", "content": "x"}, {"content": "x"}])
def test_a_list_begins_with_the_user(first: object) -> None:
    assert broken(first, GO) == ["A08@0"]


def test_the_finding_says_who_begins() -> None:
    assert findings(SAID, GO)[0].message.startswith("message 0 is not the user's but has the role 'assistant'; the API")
    assert findings({"content": "x"}, GO)[0].message.startswith("message 0 is not the user's but has no role; the API")


def test_a_list_may_begin_with_a_compaction_block() -> None:
    assert broken(assistant(compaction(), text()), GO) == []


@pytest.mark.parametrize("summary", [None, ""])
def test_a_list_does_not_begin_with_a_failed_compaction(summary: object) -> None:
    assert broken(assistant(compaction(summary), text()), GO) == ["A08@0"]


def test_only_the_first_message_is_asked_for() -> None:
    assert broken(GO, SAID, GO) == []


def test_a_system_message_in_front_is_another_fault() -> None:
    assert broken({"role": "system", "content": "Be brief."}, GO) == []


# ---- A09


@pytest.mark.parametrize(
    "facts",
    [
        {"model_class": "no-prefill"},
        {"model_class": "system-role-supported"},
        {"thinking": {"type": "enabled"}},
        {"thinking": {"type": "adaptive"}, "model_class": "prefill-capable"},
    ],
)
def test_a_list_does_not_end_with_the_assistant(facts: dict[str, object]) -> None:
    assert broken(GO, SAID, SAID, **facts) == ["A09@2"]
    assert broken(GO, SAID, GO, **facts) == []


@pytest.mark.parametrize(
    "facts",
    [{}, {"model_class": "prefill-capable"}, {"thinking": {"type": "disabled"}}, {"thinking": 1, "model_class": []}],
)
def test_a_prefill_is_no_fault_where_it_is_taken_or_nothing_is_told(facts: dict[str, object]) -> None:
    assert broken(GO, SAID, **facts) == []


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", None, "stop_sequence", "unheard_of", ["pause_turn"]])
def test_no_stop_reason_but_a_pause_makes_a_prefill_right(reason: object) -> None:
    assert broken(GO, SAID, last_stop_reason=reason, **NO_PREFILL) == ["A09@1"]


@pytest.mark.parametrize("reason", ["pause_turn", "compaction"])
def test_a_response_that_is_to_be_continued_is_no_prefill(reason: str) -> None:
    assert broken(GO, SAID, last_stop_reason=reason, **NO_PREFILL) == []


def test_a_paused_response_that_was_changed_is_a_prefill() -> None:
    journal = {"assistant_1": {"content": [text("So far."), searching("s")]}}
    facts = NO_PREFILL | {"last_stop_reason": "pause_turn"}
    assert broken(GO, SAID, journal=journal, **facts) == ["A09@1", "A51@1"]


def test_an_open_server_call_tells_of_a_pause_where_nobody_else_does() -> None:
    assert broken(GO, assistant(searching("s")), **NO_PREFILL) == []
    assert broken(GO, assistant({"type": "mcp_tool_use", "id": "m"}), **NO_PREFILL) == []
    assert broken(GO, assistant(searching("s"), searched("s")), **NO_PREFILL) == ["A09@1"]
    assert broken(GO, assistant(searching("s")), last_stop_reason="end_turn", **NO_PREFILL) == ["A09@1"]


def test_an_open_call_at_the_end_is_its_own_fault() -> None:
    assert broken(GO, assistant(call("a")), **NO_PREFILL) == ["A01@1"]
    assert broken(GO, assistant(call("a")), SAID, **NO_PREFILL) == ["A01@1", "A09@2"]


def test_an_empty_end_turn_is_its_own_fault() -> None:
    assert broken(GO, assistant(), last_stop_reason="end_turn", **NO_PREFILL) == []
    assert broken(GO, assistant(), last_stop_reason="stop_sequence", **NO_PREFILL) == ["A09@1"]


def test_no_message_is_no_prefill() -> None:
    assert broken(last_stop_reason="refusal", **NO_PREFILL) == []


# ---- A50


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", None])
def test_a_call_that_was_cut_off_is_found_and_its_message_counts_as_removed(reason: str | None) -> None:
    cut = assistant(text(""), call("a"), call("b", input="{"))
    [finding] = findings(GO, cut, last_stop_reason=reason, **NO_PREFILL)
    assert (finding.rule, finding.level, finding.at, finding.ids) == ("A50-truncated-call", "harness", 1, ("b",))
    assert (
        finding.message
        == "message 1 was cut off inside its last call ('b'), which must not run; the API cannot see this."
    )


@pytest.mark.parametrize("facts", [{}, {"last_stop_reason": "tool_use"}, {"last_stop_reason": "pause_turn"}])
def test_a_call_that_was_not_cut_off_is_just_unanswered(facts: dict[str, object]) -> None:
    assert broken(GO, assistant(call("a")), **facts) == ["A01@1"]


def test_a_cut_behind_a_whole_call_is_no_cut_call() -> None:
    assert broken(GO, assistant(call("a"), text()), last_stop_reason="max_tokens") == ["A01@1"]


def test_a_cut_call_that_was_answered_is_no_longer_the_end() -> None:
    assert broken(GO, assistant(call("a")), user(result("a")), last_stop_reason="max_tokens") == []


def test_what_stood_before_a_cut_call_is_still_checked() -> None:
    cut = assistant(call("b"))
    facts = NO_PREFILL | {"last_stop_reason": "max_tokens"}
    assert broken(GO, assistant(call("a")), cut, **facts) == ["A01@1", "A50@2"]
    assert broken(GO, assistant(call("a")), user(text("")), cut, **facts) == ["A01@1", "A11@2", "A50@3"]
    assert broken(GO, SAID, cut, **facts) == ["A50@2"]


def test_an_empty_message_before_a_cut_call_becomes_the_last() -> None:
    assert broken(GO, assistant(), assistant(call("b")), last_stop_reason="max_tokens") == ["A50@2"]
    assert broken(GO, user(), assistant(call("b")), last_stop_reason="max_tokens") == ["A10@1", "A50@2"]


def test_a_compaction_in_a_removed_message_hides_nothing() -> None:
    old = GO, assistant(call("a")), GO
    found = findings(*old, assistant(compaction(), call("b")), last_stop_reason="max_tokens")
    assert [(one.rule[:3], one.level) for one in found] == [("A01", "reject"), ("A50", "harness")]


# ---- A51


PAUSED = assistant(text("Searching."), searching("s"))


def test_a_paused_response_is_sent_back_as_it_came() -> None:
    journal = {"assistant_1": {"content": json.loads(json.dumps(PAUSED["content"]))}}
    assert broken(GO, PAUSED, journal=journal, last_stop_reason="pause_turn") == []
    [finding] = findings(GO, assistant(text("Searching.")), journal=journal, last_stop_reason="pause_turn")
    assert (finding.rule, finding.level, finding.at) == ("A51-pause-turn", "harness", 1)


@pytest.mark.parametrize(
    "changed",
    [
        assistant(text("Searching."), searching("s") | {"input": {"q": 1}}),
        assistant(text("Searching. "), searching("s")),
        assistant(searching("s"), text("Searching.")),
        assistant(),
        {"role": "assistant", "content": [text("Searching."), "s"]},
        {"role": "assistant", "content": {"type": "text"}},
    ],
)
def test_every_change_of_a_paused_response_is_seen(changed: object) -> None:
    journal = {"assistant_1": {"content": PAUSED["content"]}}
    assert broken(GO, changed, journal=journal, last_stop_reason="pause_turn") == ["A51@1"]


def test_a_change_is_seen_behind_later_messages_too() -> None:
    journal = {"assistant_1": {"content": [searching("s")]}}
    assert broken(GO, PAUSED, GO, journal=journal, last_stop_reason="pause_turn") == ["A51@1"]


def test_a_string_stands_for_one_text() -> None:
    journal = {"assistant_1": {"content": "Searching."}}
    assert broken(GO, assistant(text("Searching.")), journal=journal, last_stop_reason="pause_turn") == []


@pytest.mark.parametrize("journal", [None, 3, {}, {"assistant_2": {"content": []}}, {"assistant_1": {"content": None}}])
def test_without_the_received_content_nothing_is_said_of_a_change(journal: object) -> None:
    assert broken(GO, PAUSED, journal=journal, last_stop_reason="pause_turn") == []


def test_only_a_paused_response_is_compared() -> None:
    journal = {"assistant_1": {"content": "Other."}}
    assert broken(GO, SAID, journal=journal, last_stop_reason="end_turn") == []
    assert broken(GO, journal=journal, last_stop_reason="pause_turn") == []


def test_numbers_and_truth_values_are_not_the_same() -> None:
    journal = {"assistant_1": {"content": [searching("s") | {"input": {"a": 1}}]}}
    sent = assistant(searching("s") | {"input": {"a": True}})
    assert broken(GO, sent, journal=journal, last_stop_reason="pause_turn") == ["A51@1"]


def test_a_deep_response_is_compared_too() -> None:
    def deep() -> object:
        value: object = 1
        for _ in range(100_000):
            value = [value]
        return value

    journal = {"assistant_1": {"content": [searching("s") | {"input": deep()}]}}
    assert (
        broken(GO, assistant(searching("s") | {"input": deep()}), journal=journal, last_stop_reason="pause_turn") == []
    )


# ---- A52


def test_a_refused_response_is_found_and_counts_as_removed() -> None:
    [finding] = findings(GO, assistant(text(""), call("a", input=1)), last_stop_reason="refusal", **NO_PREFILL)
    assert (finding.rule, finding.level, finding.at, finding.ids) == ("A52-refusal", "harness", 1, ("a",))


def test_a_refusal_that_is_not_in_the_list_is_no_fault() -> None:
    assert broken(GO, last_stop_reason="refusal") == []
    assert broken(GO, SAID, last_stop_reason="end_turn") == []
