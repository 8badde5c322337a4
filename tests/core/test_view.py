"""A run as the lesson's checkpoint: six fields, drawn from the run."""

from __future__ import annotations

import json

import pytest

from core.making import ASK, ASKED, START, TAKEN, answer, final, go, made, text, with_calls
from midstride.core.journal import Cancelled, Responded, Settled
from midstride.core.run import NEW
from midstride.core.view import FIELDS, view
from midstride.errors import NotAllowed


def test_a_run_has_the_six_fields_of_the_lesson() -> None:
    assert view(made(START, TAKEN)) == {
        "version": 1,
        "task": "do it",
        "turns": 0,
        "tokensUsed": 0,
        "messages": [{"role": "user", "content": "do it"}],
        "pendingToolUse": None,
    }
    assert tuple(view(made(START))) == FIELDS


def test_the_pending_call_is_the_first_without_a_result() -> None:
    run = go(with_calls("ru"), Settled(1, 0, "ok", "x"))
    assert view(run)["pendingToolUse"] == {"id": "t1", "name": "u", "input": {"n": 1}}


def test_nothing_is_pending_between_the_turns() -> None:
    assert view(go(with_calls("r"), Settled(1, 0, "ok", "x")))["pendingToolUse"] is None
    assert view(go(with_calls("r"), Cancelled(), Settled(1, 0, "ok", "x")))["pendingToolUse"] is None


def test_the_tokens_are_those_of_the_window() -> None:
    run = made(*ASKED, final(usage={"input_tokens": 7, "output_tokens": 3}))
    assert (view(run)["turns"], view(run)["tokensUsed"]) == (1, 10)


def test_a_paused_answer_is_among_the_messages() -> None:
    run = made(*ASKED, Responded(answer("pause_turn", text("Wait."))), ASK)
    assert [m["role"] for m in view(run)["messages"]] == ["user", "assistant"]


def test_the_view_is_plain_json() -> None:
    found = view(with_calls("u"))
    assert json.loads(json.dumps(found)) == found


def test_a_run_that_has_not_started_has_no_view() -> None:
    with pytest.raises(NotAllowed):
        view(NEW)
