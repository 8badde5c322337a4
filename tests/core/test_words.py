"""The honest words: four states told apart, and what an unknown one says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.making import go, with_calls
from midstride.core import words
from midstride.core.journal import Intended
from midstride.core.run import Call

CALL: Call = go(with_calls("u"), Intended(1, 0)).calls[0]


@given(st.floats(0, 253_402_300_799, allow_nan=False))
@example(0.0)
@example(951_782_400.0)  # 29 February 2000
@example(951_868_800.0)
@example(4_107_456_000.0)  # 28 February 2100, and no 29th
@example(4_107_542_400.0)
@example(253_402_300_799.0)  # the last second of 9999
def test_a_time_is_told_in_utc(at: float) -> None:
    wanted = datetime.fromtimestamp(int(at), UTC)
    assert words.utc(at) == f"{wanted.year:04}{wanted:-%m-%d %H:%M:%S} UTC"


@given(st.integers(0, 3_000_000))
def test_every_day_is_told_as_the_calendar_has_it(day: int) -> None:
    at = day % 2_932_896 * 86_400
    wanted = datetime.fromtimestamp(at, UTC)
    assert words.utc(at).startswith(f"{wanted.year:04}{wanted:-%m-%d} 00:00:00")


def test_a_time_that_nobody_knows_is_told_so() -> None:
    assert words.utc(None) == "an unknown time"


def test_a_call_is_told_in_one_line() -> None:
    assert words.asked_for(CALL) == 'u({"n": 0})'
    assert words.asked_for(replace(CALL, arguments={"to": "é\n"})) == 'u({"to": "\\u00e9\\n"})'


def test_long_arguments_are_shortened() -> None:
    shown = words.asked_for(replace(CALL, arguments="x" * 1000))
    assert shown == 'u("' + "x" * 299 + "...)"
    assert words.asked_for(replace(CALL, arguments="x" * 298)) == 'u("' + "x" * 298 + '")'


def test_the_four_states_are_told_apart_by_their_first_words() -> None:
    told = [
        words.not_started("it was late."), words.failed("no paper."), words.denied("no", started=False),
        words.unknown(CALL, "It raised."), words.denied("no", started=True), words.cannot_tell("hm"),
    ]  # fmt: skip
    assert [text.split(":")[0] for text in told] == [
        "Not started", "Failed", "Denied", "Outcome unknown", "Outcome unknown", "Outcome unknown",
    ]  # fmt: skip


def test_an_unknown_outcome_says_what_when_and_what_may_be_done() -> None:
    assert words.unknown(CALL, "Its process ended.") == (
        'Outcome unknown: u({"n": 0}) may or may not have taken effect (it started 1970-01-01 00:16:44 UTC). '
        "Its process ended. It was not run again. Do not assume either outcome and do not simply repeat it: check in "
        "another way whether it took effect, or ask a person."
    )


def test_an_unknown_import_says_where_it_came_from() -> None:
    imported = replace(CALL, imported=True)
    assert "(it came from a file or a backup that was taken over 1970-01-01 00:16:44 UTC)" in words.unknown(
        imported, ""
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (words.not_started("the run was cancelled."), "Not started: the run was cancelled. It had no effect."),
        (words.failed("no paper."), "Failed: no paper."),
        (
            words.denied("", started=False),
            "Denied: a person decided that this call is not to be run. It had no effect.",
        ),
        (
            words.denied("too dear", started=False),
            "Denied: a person decided that this call is not to be run. It had no effect. The person said: too dear",
        ),
        (
            words.denied("", started=True),
            "Outcome unknown: a person decided that this call is not to be run again; it may have happened.",
        ),
        (words.told(""), "Done: a person confirmed that this call took effect."),
        (words.told("I saw it."), "Done: a person confirmed that this call took effect. I saw it."),
        (
            words.cannot_tell("no trace"),
            "Outcome unknown: a person looked and cannot tell whether this call took effect. The person said: no trace",
        ),
        (
            words.cannot_tell(""),
            "Outcome unknown: a person looked and cannot tell whether this call took effect.",
        ),
        (
            words.late_truth(CALL, "happened", "I saw it.", "ann"),
            'About the earlier call u({"n": 0}) with id t0, whose outcome was unknown: '
            "ann reports that it took effect. I saw it.",
        ),
        (
            words.late_truth(CALL, "unknown", "", "ann"),
            'About the earlier call u({"n": 0}) with id t0, whose outcome was unknown: '
            "ann looked and cannot tell whether it took effect.",
        ),
    ],
)
def test_the_words_are_these(text: str, wanted: str) -> None:
    assert text == wanted


def test_a_recorded_result_of_blocks_is_shown_as_it_was() -> None:
    blocks = [{"type": "image", "source": {}}]
    shown = words.already_done(replace(CALL, content=blocks))
    assert [block["type"] for block in shown] == ["text", "image"]
    assert "at an unknown time" in shown[0]["text"]


def test_work_that_goes_on_elsewhere_is_not_to_be_begun_again() -> None:
    told = words.going_on(replace(CALL, again_at=0.0, failures=2, failure="It raised."))
    assert "from 1970-01-01 00:00:00 UTC on" in told
    assert "The last time it was asked, that told nothing: It raised." in told
    assert "Do not begin it again: make this very call again to be told" in words.going_on(CALL)
