"""Transcripts in which long-running agents broke: each shows the faults it is known for, and is mended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import toolrepair

from midstride.transcript import check, guess_provider, repair
from transcript import laws

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
REWORDED = {"001-tail-single-call", "003-partial-batch"}
"""Cases whose best repair is told in words; ours are those of the run."""


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    case = json.loads(path.read_text())
    return case, {"provider": case["provider"], **{k: v for k, v in case["input"].items() if k != "messages"}}


def test_all_cases_are_there() -> None:
    assert len(CASES) == 111


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_known_case_shows_its_faults_and_no_others(path: Path) -> None:
    case, facts = _read(path)
    found = {(one.rule, one.at): one for one in check(case["input"]["messages"], **facts)}
    wanted = {(one["rule"], one["at"]): one for one in case["expected"]["violations"]}
    also = {(one["rule"], one["at"]) for one in case["expected"].get("may_also_report", [])}
    assert wanted.keys() <= found.keys()
    assert found.keys() - wanted.keys() <= also
    assert {key: found[key].level for key in wanted} == {key: one["level"] for key, one in wanted.items()}
    assert all(list(found[key].ids) == one["ids"] for key, one in wanted.items() if "ids" in one)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_known_case_is_mended(path: Path) -> None:
    case, facts = _read(path)
    messages, expected = case["input"]["messages"], case["expected"]
    made = repair(messages, **facts)
    beyond = set(expected.get("unrepairable", []))
    left = check(made.messages, **facts)
    assert [one for one in left if one.level == "reject" and one.rule not in beyond] == []
    assert repair(made.messages, **facts).changes == ()
    if not expected["violations"]:
        assert made.messages is messages
    if "repaired_messages" in expected and path.stem not in REWORDED:
        assert made.messages == expected["repaired_messages"]
    if path.stem in REWORDED:
        assert made.messages[:-1] == expected["repaired_messages"][:-1]


HIDDEN = "106-compaction-hides-old-fault"
"""The second opinion does not know that the API ignores what stands before a compaction block."""


@pytest.mark.parametrize("path", [path for path in CASES if path.stem != HIDDEN], ids=lambda path: path.stem)
def test_another_checker_agrees_that_a_case_is_mended(path: Path) -> None:
    case, facts = _read(path)
    if facts["provider"] != "openai-responses":  # which it does not know
        made = repair(case["input"]["messages"], **facts)
        assert toolrepair.validate(made.messages, format=SECOND[facts["provider"]]) == []


SECOND = {"anthropic": "anthropic", "openai-chat": "openai"}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_laws_hold_for_a_known_case(path: Path) -> None:
    case, facts = _read(path)
    laws.hold(facts["provider"], case["input"]["messages"], facts.get("request"), facts.get("journal"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_is_not_taken_for_another_providers(path: Path) -> None:
    case, facts = _read(path)
    assert guess_provider(case["input"]["messages"]) in (None, facts["provider"])
