"""A01 to A05: calls and their results."""

from __future__ import annotations

import pytest

from midstride.transcript import Finding
from midstride.transcript.anthropic.history import History
from midstride.transcript.anthropic.message import Message
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
    system,
    text,
    user,
)

# ---- A01


def test_a_call_without_a_result_is_found_at_the_call() -> None:
    assert findings(GO, assistant(call("a"))) == [
        Finding(
            "A01-unanswered-tool-use",
            "reject",
            1,
            ("a",),
            "message 1 calls 'a' and the next message holds no result for it; the API answers: "
            "messages.N: `tool_use` ids were found without `tool_result` blocks immediately after: <ids>. Each "
            "`tool_use` block must have a corresponding `tool_result` block in the next message.",
        )
    ]


def test_a_call_with_its_result_is_no_fault() -> None:
    assert broken(GO, assistant(call("a")), user(result("a"))) == []


def test_each_unanswered_call_of_a_batch_is_named() -> None:
    [finding] = findings(GO, assistant(call("a"), call("b"), call("c")), user(result("b")))
    assert finding.ids == ("a", "c")


def test_a_sentence_names_three_ids_at_most() -> None:
    [finding] = findings(GO, assistant(*[call(one) for one in "abcde"]))
    assert "calls 'a', 'b', 'c' and 2 more and" in finding.message
    assert finding.ids == ("a", "b", "c", "d", "e")


def test_calls_of_joined_messages_are_found_each_at_its_own_message() -> None:
    messages = GO, assistant(call("a")), assistant(call("b"), call("c"))
    assert broken(*messages) == ["A01@1", "A01@2"]
    assert broken(*messages, user(result("a")), user(result("c"))) == ["A01@2"]
    assert broken(*messages, user(result("c")), user(result("a"), result("b"))) == []


def test_a_result_behind_an_answer_comes_too_late() -> None:
    late = GO, assistant(call("a")), GO, assistant(text()), user(result("a"))
    assert broken(*late) == ["A01@1", "A02@4"]


@pytest.mark.parametrize("between", [system(text()), {"role": "ai", "content": "x"}, {"content": "x"}])
def test_a_message_of_another_role_ends_a_turn(between: object) -> None:
    assert broken(GO, assistant(call("a")), between, user(result("a"))) == ["A01@1", "A02@3"]


def test_only_messages_of_the_user_or_the_assistant_are_joined() -> None:
    joined = {}
    for role in ("user", "assistant", "system", ""):
        message = Message.read(0, {"role": role})
        joined[role] = History.empty().after(message).joins(message)
    assert joined == {"user": True, "assistant": True, "system": False, "": False}


def test_one_result_is_enough_for_both_copies_of_a_call() -> None:
    assert broken(GO, assistant(call("a"), call("a")), user(result("a"))) == ["A04@1"]


def test_both_copies_of_an_unanswered_call_are_one_id() -> None:
    finding, _ = findings(GO, assistant(call("a"), call("a")))
    assert finding.ids == ("a",)


def test_a_server_call_wants_no_result_of_ours() -> None:
    assert broken(GO, assistant(searching("s"), searched("s"), {"type": "mcp_tool_use", "id": "m"}), GO) == []


@pytest.mark.parametrize("one", [None, 7, ["a"], {"a": 1}])
def test_an_id_that_is_no_string_is_not_paired(one: object) -> None:
    assert broken(GO, assistant(call(one)), user(result(one))) == []


def test_an_empty_id_is_paired_as_any_other() -> None:
    assert broken(GO, assistant(call("")), user(result(""))) == []
    assert broken(GO, assistant(call(""))) == ["A01@1"]


def test_blocks_in_the_wrong_role_take_no_part() -> None:
    assert broken(user(call("a")), assistant(result("a")), system(call("b")), GO) == []
    assert broken(GO, assistant(call("a"), result("a")), GO) == ["A01@1"]


# ---- A02


def test_a_result_without_a_call_in_the_previous_turn_is_an_orphan() -> None:
    [finding] = findings(user(text(), result("a"), result("b"), result("a")), assistant(text()), GO)[:-1]
    assert (finding.rule, finding.at, finding.ids) == ("A02-orphan-tool-result", 0, ("a", "b"))


def test_results_of_one_turn_may_stand_in_several_messages() -> None:
    assert broken(GO, assistant(call("a")), assistant(call("b")), user(result("b")), user(result("a"))) == []


def test_an_exchange_of_results_is_seen_in_both_turns() -> None:
    swapped = GO, assistant(call("a")), user(result("b")), assistant(call("b")), user(result("a"))
    assert broken(*swapped) == ["A01@1", "A02@2", "A01@3", "A02@4"]


# ---- A03


def test_a_result_behind_another_block_is_late() -> None:
    [finding] = findings(GO, assistant(call("a"), call("b")), user(result("a"), text(), result("b")))
    assert (finding.rule, finding.at, finding.ids) == ("A03-results-first", 2, ("b",))


def test_a_text_in_front_of_a_result_may_stand_in_an_earlier_message_of_the_turn() -> None:
    assert broken(GO, assistant(call("a")), {"role": "user", "content": "Wait."}, user(result("a"))) == ["A03@3"]


def test_a_text_behind_the_results_is_no_fault() -> None:
    assert broken(GO, assistant(call("a"), call("b")), user(result("a")), user(result("b"), text())) == []


def test_neither_an_orphan_nor_a_block_in_the_wrong_role_makes_a_result_late() -> None:
    odd = {"type": "thinking"}, {"type": "code_execution_tool_result"}, result("x"), result(3)
    assert broken(GO, assistant(call("a")), user(*odd, result("a"))) == ["A02@2"]


def test_an_orphan_is_not_late_as_well() -> None:
    assert broken(GO, assistant(text()), user(text(), result("a"))) == ["A02@2"]


# ---- A04, A05


def test_an_id_is_used_for_one_call() -> None:
    twice = GO, assistant(call("a")), user(result("a")), assistant(call("b"), call("a")), user(result("b"), result("a"))
    assert broken(*twice) == ["A04@3", "A05@4"]
    assert [one.ids for one in findings(*twice)] == [("a",), ("a",)]


def test_the_same_id_again_is_one_finding_a_message() -> None:
    assert findings(GO, assistant(call("a"), call("a"), call("a")), user(result("a")))[0].ids == ("a",)


def test_a_second_result_is_found_at_the_later_copy() -> None:
    assert broken(GO, assistant(call("a")), user(result("a"), result("a"))) == ["A05@2"]
    assert broken(GO, assistant(call("a")), user(result("a")), user(result("a"))) == ["A05@3"]


def test_a_second_result_in_a_later_turn_is_an_orphan_too() -> None:
    again = GO, assistant(call("a")), user(result("a")), assistant(text()), user(result("a"))
    assert broken(*again) == ["A02@4", "A05@4"]


# ---- in front of a compaction block (A48)


def test_a_pairing_fault_in_front_of_a_compaction_block_is_of_level_quality() -> None:
    old = assistant(text()), assistant(call("a")), GO, user(text(), result("b"))
    new = assistant(compaction(), text()), user(result("c"))
    assert [(one.rule[:3], one.at, one.level) for one in findings(*old, *new)] == [
        ("A08", 0, "quality"),
        ("A01", 1, "quality"),
        ("A02", 3, "quality"),
        ("A02", 5, "reject"),
    ]


def test_the_finding_says_that_the_api_does_not_read_it() -> None:
    [finding] = findings(GO, assistant(call("a")), GO, assistant(compaction()), GO)
    assert finding.message == (
        "message 1 calls 'a' and the next message holds no result for it; "
        "the API ignores what stands before the compaction block of message 3."
    )


def test_other_faults_keep_their_level_in_front_of_a_compaction_block() -> None:
    assert [one.level for one in findings(user(), assistant(compaction()), GO)] == ["reject"]


@pytest.mark.parametrize("summary", [None, "", 5])
def test_a_compaction_that_failed_hides_nothing(summary: object) -> None:
    found = findings(GO, assistant(call("a")), GO, assistant(compaction(summary), text()), GO)
    assert [one.level for one in found] == ["reject"]


def test_a_compaction_block_of_the_user_hides_nothing() -> None:
    assert findings(GO, assistant(call("a")), GO, user(compaction()), assistant(text()), GO)[0].level == "reject"
