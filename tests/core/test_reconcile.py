"""Every cell of the reconcile table, with the move it gives, and each rule that stands beside the table."""

from __future__ import annotations

from typing import Any

import pytest

from core.making import ASK, ASKED, KILLED, LETTERS, START, asks, go, made, terms, with_calls
from midstride.core.fold import never_happened
from midstride.core.journal import (
    Accepted,
    Asked,
    Body,
    Cancelled,
    Decided,
    Intended,
    Recorded,
    Settled,
    Terms,
)
from midstride.core.reconcile import (
    COLUMN,
    EFFECTS,
    NOTHING_LIVE,
    RECONCILE,
    CallMove,
    Death,
    Execute,
    Later,
    Live,
    Look,
    Poll,
    Program,
    Seen,
    Wait,
    Write,
    after_look,
    call_move,
    changed,
    effective,
    intent,
    sinks,
)
from midstride.core.run import CallState, Run

INTENT = Intended(1, 0)
IMPORTED = Intended(1, 0, imported=True)
UNKNOWN = Settled(1, 0, "unknown", "nobody knows")
NOW = 2000.0


def move(run: Run, *, key: tuple[int, int] = (1, 0), sunk: bool = False, live: Live = NOTHING_LIVE,
         now: float = NOW, program: Program = None) -> CallMove:  # fmt: skip
    call = run.call(key)
    assert call is not None
    return call_move(run, call, sunk=sunk, live=live, now=now, program=program)


def plain(found: CallMove) -> tuple[Any, ...]:
    """Return a move as a short literal."""
    match found:
        case Write():
            return tuple(("settled", b.outcome) if isinstance(b, Settled) else ("asked", b.why) for b in found.bodies)  # type: ignore[union-attr]
        case Execute():
            return ("run", "intent" if found.intend else "no intent")
        case Later():
            return ("later", found.until)
        case Wait():
            return ("wait", found.on)
    return (type(found).__name__.lower(),)


def text_of(found: CallMove) -> str:
    assert isinstance(found, Write)
    body = found.bodies[0]
    assert isinstance(body, Settled)
    return str(body.content)


# ---- the table

ROWS: dict[str, tuple[tuple[Body, ...], ...]] = {
    "new": ((), (Asked(1, 0, "approval"), Decided(1, 0, "allow"))),
    "asking": ((Asked(1, 0, "approval"),), (INTENT, Asked(1, 0, "doubt"))),
    "dead": ((INTENT, KILLED),),
    "accepted": ((INTENT, Accepted(1, 0, "job")),),
}
MOVES: dict[str, dict[str, tuple[Any, ...]]] = {
    "r": {"new": ("run", "no intent"), "dead": ("run", "intent"), "accepted": ("poll",)},
    "i": {"new": ("run", "intent"), "dead": ("run", "intent"), "accepted": ("poll",)},
    "x": {"new": ("run", "intent"), "dead": ("run", "intent")},
    "v": {"new": ("run", "intent"), "dead": ("look",), "accepted": ("poll",)},
    "u": {"new": ("run", "intent"), "dead": (("settled", "unknown"),), "accepted": ("poll",)},
}
CELLS = [(letter, column, row) for letter in MOVES for column in MOVES[letter] for row in ROWS[column]]


@pytest.mark.parametrize(("letter", "column", "row"), CELLS)
def test_each_cell_gives_its_move(letter: str, column: str, row: tuple[Body, ...]) -> None:
    assert plain(move(go(with_calls(letter), *row))) == MOVES[letter][column]


@pytest.mark.parametrize("letter", MOVES)
@pytest.mark.parametrize(("row", "on"), [*zip(ROWS["asking"], ("asking approval", "asking doubt"), strict=True)])
def test_a_call_that_a_person_is_asked_about_waits(letter: str, row: tuple[Body, ...], on: str) -> None:
    assert plain(move(go(with_calls(letter), *row))) == ("wait", on)


def test_a_transaction_cannot_be_accepted() -> None:
    assert "accepted" not in RECONCILE["transactional"]
    with pytest.raises(KeyError):
        move(go(with_calls("x"), *ROWS["accepted"][0]))


def test_the_table_has_a_row_for_each_effect_and_a_column_for_each_open_state() -> None:
    assert sorted(RECONCILE) == sorted(EFFECTS) == sorted(LETTERS.values())
    assert set(COLUMN) == set(CallState) - {CallState.SETTLED, CallState.UNKNOWN}
    assert set(COLUMN.values()) == set(ROWS)


# ---- reads


def test_a_reads_first_attempt_belongs_to_the_process_that_saw_the_response() -> None:
    assert plain(move(go(with_calls("r"), KILLED))) == ("run", "intent")


def test_a_read_that_ends_its_process_three_times_is_unknown() -> None:
    run = go(with_calls("r"), KILLED, INTENT, KILLED)
    assert plain(move(run)) == ("run", "intent")
    found = move(go(run, INTENT, KILLED))
    assert plain(found) == (("settled", "unknown"),)
    assert "It was tried 3 times, and each time it ended its process." in text_of(found)


# ---- keys


def test_an_idempotent_call_is_tried_three_times() -> None:
    run = go(with_calls("i"), INTENT, INTENT)
    assert plain(move(run)) == ("run", "intent")
    found = move(go(run, INTENT, KILLED))
    assert plain(found) == (("settled", "unknown"),)
    assert "It was tried 3 times with the same idempotency key." in text_of(found)


@pytest.mark.parametrize(("now", "moves"), [(1093.9, "run"), (1094.0, "settled")])
def test_an_attempt_must_be_able_to_end_within_the_life_of_its_key(now: float, moves: str) -> None:
    run = go(with_calls("i", key_life=100.0, timeout=10.0), INTENT)
    assert run.calls[0].first_at == 1004.0
    found = plain(move(run, now=now))
    assert moves in (found[0], found[0][0])


def test_a_key_without_an_end_is_never_too_old() -> None:
    assert plain(move(go(with_calls("i"), INTENT), now=10.0**12)) == ("run", "intent")


# ---- looking


def test_a_look_waits_until_the_attempt_can_no_longer_come() -> None:
    run = go(go(with_calls("v", settle=30.0), INTENT), KILLED, at=1500.0)
    assert plain(move(run, now=1529.9)) == ("later", 1530.0)
    assert plain(move(run, now=1530.0)) == ("look",)


def test_a_death_that_was_seen_counts_from_then() -> None:
    run = go(with_calls("v", settle=30.0), INTENT)
    live = Live(deaths={(1, 0): Death(1100.0, "It raised.")})
    assert plain(move(run, live=live, now=1110.0)) == ("later", 1130.0)


def test_where_the_death_is_not_known_the_timeout_counts_too() -> None:
    run = go(with_calls("v", settle=30.0, timeout=60.0), IMPORTED)
    assert plain(move(run, now=1010.0)) == ("later", 1094.0)
    assert "1970-01-01 00:18:14 UTC" in move(run, now=1010.0).why


@pytest.mark.parametrize(
    ("answer", "attempts", "doubt", "wanted"),
    [
        ("happened", 1, "report", (("settled", "ok"),)),
        ("did not", 1, "report", ("run", "intent")),
        ("did not", 2, "ask", ("run", "intent")),
        ("did not", 3, "report", (("settled", "unknown"),)),
        ("did not", 3, "ask", (("asked", "doubt"),)),
        ("cannot", 1, "report", (("settled", "unknown"),)),
        ("cannot", 1, "ask", (("asked", "doubt"),)),
    ],
)
def test_what_was_seen_decides(answer: str, attempts: int, doubt: str, wanted: tuple[Any, ...]) -> None:
    run = go(with_calls("v", doubt=doubt), *[INTENT] * attempts)
    assert plain(after_look(run, Look(run.calls[0], ""), Seen(answer, "seen"), None)) == wanted


def test_what_was_looked_at_is_told() -> None:
    run = go(with_calls("v"), INTENT, INTENT, INTENT)
    look = Look(run.calls[0], "")
    assert text_of(after_look(run, look, Seen("happened", "seen"), None)) == "seen"
    assert "not found, but 3 attempts ended badly." in text_of(after_look(run, look, Seen("did not"), None))
    told = text_of(after_look(run, look, Seen("cannot", why="It is down."), None))
    assert "which did not tell whether it happened. It is down. It was not run again." in told


def test_a_look_of_an_unapproved_import_asks_before_it_runs() -> None:
    run = go(with_calls("v", approval=True), IMPORTED)
    assert plain(after_look(run, Look(run.calls[0], ""), Seen("did not"), None)) == (("asked", "approval"),)


# ---- doubt


def test_an_unsafe_call_in_doubt_is_asked_about_where_its_tool_says_so() -> None:
    assert plain(move(go(with_calls("u", doubt="ask"), INTENT))) == (("asked", "doubt"),)


def test_the_word_to_run_again_is_obeyed_once() -> None:
    run = go(with_calls("u", doubt="ask"), INTENT, Asked(1, 0, "doubt"), Decided(1, 0, "allow"))
    assert plain(move(run)) == ("run", "intent")
    assert plain(move(go(run, INTENT, KILLED))) == (("asked", "doubt"),)


def test_a_doubt_says_how_it_came_to_be() -> None:
    run = go(with_calls("u"), INTENT)
    assert "Its process ended before the result was recorded. Nothing tells" in text_of(move(run))
    live = Live(deaths={(1, 0): Death(1.0, "It raised ValueError.")})
    assert "It raised ValueError. Nothing tells" in text_of(move(run, live=live))
    assert "not recorded by the program that made the call." in text_of(move(go(with_calls("u"), IMPORTED)))


# ---- live attempts


@pytest.mark.parametrize("letter", MOVES)
def test_a_live_attempt_is_reported_and_never_repeated(letter: str) -> None:
    live = Live(alive=frozenset({(1, 0)}), deaths={(1, 0): Death(1.0, "It took longer than 1 s.")})
    found = move(go(with_calls(letter), INTENT), live=live)
    assert plain(found) == (("settled", "unknown"),)
    assert "It took longer than 1 s." in text_of(found)


def test_a_live_attempt_that_may_be_run_again_is_waited_for() -> None:
    run = go(with_calls("u"), INTENT, Asked(1, 0, "doubt"), Decided(1, 0, "allow"))
    assert plain(move(run, live=Live(alive=frozenset({(1, 0)})))) == ("wait", "alive")


# ---- approval


@pytest.mark.parametrize("letter", MOVES)
def test_a_call_that_needs_approval_is_asked_first(letter: str) -> None:
    run = with_calls(letter, approval=True)
    assert plain(move(run)) == (("asked", "approval"),)
    allowed = go(run, Asked(1, 0, "approval"), Decided(1, 0, "allow"))
    assert plain(move(allowed))[0] == "run"


@pytest.mark.parametrize("letter", "rix")
def test_an_attempt_that_nobody_approved_is_asked_about_before_the_next(letter: str) -> None:
    run = go(with_calls(letter, approval=True), INTENT)
    assert plain(move(run)) == (("asked", "approval"),)


def test_the_word_to_run_again_is_an_approval_too() -> None:
    run = go(with_calls("i", approval=True), INTENT, Asked(1, 0, "doubt"), Decided(1, 0, "allow"), INTENT)
    assert plain(move(run)) == ("run", "intent")


# ---- imports


@pytest.mark.parametrize(
    ("letter", "wanted", "why"),
    [
        ("r", ("run", "intent"), None),
        ("i", (("settled", "unknown"),), "Whether the other side still knows its idempotency key is not known."),
        ("x", (("settled", "unknown"),), "Whether it was rolled back is not known."),
        ("v", ("look",), None),
        ("u", (("settled", "unknown"),), "Its result was not recorded by the program that made the call."),
    ],
)
def test_an_import_proves_nothing_by_silence(letter: str, wanted: tuple[Any, ...], why: str | None) -> None:
    found = move(go(with_calls(letter), IMPORTED))
    assert plain(found) == wanted
    assert why is None or why in text_of(found)


@pytest.mark.parametrize("letter", "rixv")
def test_an_import_behind_one_in_doubt_is_not_run(letter: str) -> None:
    found = move(go(with_calls(letter), IMPORTED), sunk=True)
    assert plain(found) == (("settled", "unknown"),)
    assert "An earlier call of this answer is in doubt." in text_of(found)


def test_an_unsafe_import_behind_one_in_doubt_is_in_doubt_itself() -> None:
    assert plain(move(go(with_calls("u", doubt="ask"), IMPORTED), sunk=True)) == (("asked", "doubt"),)


def test_an_import_of_no_known_tool_goes_by_the_programs() -> None:
    run = go(with_calls("v", recorded=Recorded()), IMPORTED)
    assert plain(move(run)) == (("settled", "unknown"),)
    assert plain(move(run, program={"v": terms("v")})) == ("look",)


def test_an_imported_read_is_tried_three_times_in_all() -> None:
    run = go(with_calls("r"), IMPORTED, INTENT)
    assert plain(move(run)) == ("run", "intent")
    assert plain(move(go(run, INTENT))) == (("settled", "unknown"),)


# ---- sinking: decision 16


@pytest.mark.parametrize(
    ("outcome", "wanted"),
    [
        ("ok", False), ("already done", False), ("not started", False), ("failed", True), ("denied", True),
        ("in doubt elsewhere", True), ("unknown", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("letter", MOVES)
def test_an_effect_that_went_wrong_sinks_the_later_ones(letter: str, outcome: str, wanted: bool) -> None:
    run = go(with_calls(letter), Settled(1, 0, outcome, "x"))
    assert sinks(run.calls[0], None) is (wanted and letter != "r")


def test_a_call_that_is_not_settled_sinks_nothing() -> None:
    assert not sinks(go(with_calls("u"), INTENT).calls[0], None)


def test_a_sunk_call_says_behind_which_it_was_to_run() -> None:
    run = go(with_calls("ui"), Settled(1, 0, "failed", "x"))
    found = move(run, key=(1, 1), sunk=True)
    assert text_of(found) == (
        "Not started: an earlier call of the same answer, u (t0), ended as 'failed'. It had no effect."
    )


# ---- cancelling


@pytest.mark.parametrize(
    ("letter", "row", "outcome"),
    [
        ("u", (), "not started"), ("u", (INTENT,), "unknown"), ("i", (INTENT,), "unknown"), ("v", (INTENT,), "unknown"),
        ("r", (INTENT,), "not started"), ("x", (INTENT,), "not started"), ("x", (IMPORTED,), "unknown"),
        ("u", (Asked(1, 0, "approval"),), "not started"), ("u", (INTENT, Asked(1, 0, "doubt")), "unknown"),
        ("u", (INTENT, Asked(1, 0, "doubt"), Decided(1, 0, "allow")), "unknown"),
        ("u", (INTENT, Accepted(1, 0)), "unknown"),
    ],
)  # fmt: skip
def test_a_cancelled_call_is_told_as_it_is(letter: str, row: tuple[Body, ...], outcome: str) -> None:
    found = move(go(with_calls(letter, doubt="ask"), *row, Cancelled()))
    assert plain(found) == (("settled", outcome),)


def test_a_doubt_of_a_cancelled_run_is_reported_and_not_asked() -> None:
    run = go(with_calls("v", doubt="ask"), INTENT, Cancelled())
    assert plain(after_look(run, Look(run.calls[0], ""), Seen("cannot"), None)) == (("settled", "unknown"),)


# ---- arguments and tools


def test_a_call_that_cannot_start_is_a_definite_failure() -> None:
    run = with_calls("u", recorded=Recorded(problem="There is no tool u."))
    found = move(run)
    assert (plain(found), text_of(found)) == ((("settled", "failed"),), "Failed: There is no tool u.")


@pytest.mark.parametrize("program", [{}, {"u": Terms("unsafe", "s2")}])
def test_a_tool_that_has_changed_is_not_run_silently(program: Program) -> None:
    found = move(with_calls("u"), program=program)
    assert plain(found) == (("settled", "failed"),)
    assert text_of(found).startswith("Failed: the tool u ")
    assert text_of(found).endswith("The call was not run; make it again as the tool is now.")


@pytest.mark.parametrize(
    ("letter", "row", "wanted"),
    [
        ("u", (INTENT,), (("asked", "doubt"),)),
        ("i", (INTENT,), (("asked", "doubt"),)),
        ("r", (INTENT,), (("settled", "failed"),)),
        ("x", (INTENT,), (("settled", "failed"),)),
        ("x", (IMPORTED,), (("asked", "doubt"),)),
        ("u", (INTENT, Asked(1, 0, "doubt"), Decided(1, 0, "allow")), (("settled", "unknown"),)),
        ("u", (Asked(1, 0, "approval"), Decided(1, 0, "allow")), (("settled", "failed"),)),
        ("u", (INTENT, Asked(1, 0, "doubt")), ("wait", "asking doubt")),
    ],
)
def test_what_a_changed_tool_means_for_an_attempt(letter: str, row: tuple[Body, ...], wanted: tuple[Any, ...]) -> None:
    assert plain(move(go(with_calls(letter, doubt="ask"), *row), program={})) == wanted


def test_what_has_changed_is_said() -> None:
    run = go(with_calls("u"))
    call = run.calls[0]
    assert changed(call, None) is None
    assert changed(call, {"u": terms("u")}) is None
    assert changed(call, {}) == "the tool u is not there any more."
    assert changed(call, {"u": Terms("unsafe", "s2")}) == (
        "the tool u takes other arguments now than when this call was made."
    )


def test_a_call_of_a_tool_that_never_was_has_not_changed() -> None:
    call = with_calls("u", recorded=Recorded()).calls[0]
    assert changed(call, {}) is None
    imported = go(with_calls("u", recorded=Recorded()), IMPORTED).calls[0]
    assert changed(imported, {}) == "the tool u is not there any more."
    assert changed(imported, {"u": terms("u")}) is None


# ---- the stricter terms count: decision 14


@pytest.mark.parametrize(
    ("recorded", "now", "wanted"),
    [
        ("r", "r", "read_only"), ("r", "u", "unsafe"), ("u", "r", "unsafe"), ("i", "v", "verifiable"),
        ("x", "x", "transactional"), ("x", "r", "transactional"), ("r", "x", "transactional"), ("x", "i", "unsafe"),
        ("v", "x", "unsafe"), ("i", "r", "idempotent"),
    ],
)  # fmt: skip
def test_the_stricter_effect_counts(recorded: str, now: str, wanted: str) -> None:
    call = with_calls(recorded).calls[0]
    assert effective(call, {recorded: terms(now)}).effect == wanted


def test_the_stricter_of_all_terms_counts() -> None:
    recorded = terms("i", doubt="report", approval=False, timeout=5.0, settle=1.0, key_life=None)
    call = with_calls("i", recorded=Recorded(recorded)).calls[0]
    now = terms("i", doubt="ask", approval=True, timeout=None, settle=2.0, key_life=9.0)
    assert effective(call, {"i": now}) == terms("i", doubt="ask", approval=True, timeout=5.0, settle=2.0, key_life=9.0)


def test_terms_that_nobody_knows_are_unsafe() -> None:
    call = with_calls("u", recorded=Recorded()).calls[0]
    assert effective(call, None) == effective(call, {}) == Terms("unsafe", "")
    assert effective(call, {"u": terms("r")}) == terms("r")


def test_a_program_without_the_tool_goes_by_what_was_recorded() -> None:
    assert effective(with_calls("v").calls[0], {}) == terms("v")


# ---- business keys


def met(letter: str, *row: Body, **more: Any) -> Run:
    """Return a run whose second turn asks for the deed of its first, which went as *row* says."""
    recorded = Recorded(terms(letter, **more), key="deed")
    first = made(*ASKED, asks(letter, recorded=recorded))
    return go(go(first, *row), ASK, asks(letter, recorded=recorded))


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ((INTENT, Settled(1, 0, "ok", "sent")), (("settled", "already done"),)),
        ((INTENT, Asked(1, 0, "doubt"), Decided(1, 0, "happened", "sent")), (("settled", "already done"),)),
        ((INTENT, UNKNOWN, Decided(1, 0, "happened", "sent")), (("settled", "already done"),)),
        ((INTENT, UNKNOWN), (("settled", "in doubt elsewhere"),)),
        ((INTENT, UNKNOWN, Decided(1, 0, "deny")), (("settled", "in doubt elsewhere"),)),
        ((INTENT, UNKNOWN, Decided(1, 0, "unknown", "?")), (("settled", "in doubt elsewhere"),)),
        ((INTENT, UNKNOWN, Decided(1, 0, "allow")), ("run", "intent")),
        ((INTENT, Settled(1, 0, "failed", "no")), ("run", "intent")),
        ((Settled(1, 0, "not started", "no"),), ("run", "intent")),
        ((Asked(1, 0, "approval"), Decided(1, 0, "deny", "no")), ("run", "intent")),
    ],
)  # fmt: skip
def test_the_same_deed_goes_by_what_came_of_the_first(row: tuple[Body, ...], wanted: tuple[Any, ...]) -> None:
    assert plain(move(met("u", *row), key=(2, 0))) == wanted


def test_the_words_of_a_deed_that_is_done_hold_its_result() -> None:
    found = move(met("u", INTENT, Settled(1, 0, "ok", "sent")), key=(2, 0))
    assert isinstance(found, Write)
    assert found.bodies[0].content == [  # type: ignore[union-attr]
        {
            "type": "text",
            "text": "Already done: the same deed was done by call t0 of turn 1 at 1970-01-01 00:16:45 UTC. "
            "It was not done a second time. Its recorded result was:",
        },
        {"type": "text", "text": "sent"},
    ]


def test_a_deed_that_was_told_as_happened_later_shows_that_word() -> None:
    found = move(met("u", INTENT, UNKNOWN, Decided(1, 0, "happened", "it was sent")), key=(2, 0))
    assert "it was sent" in str(found)
    assert "nobody knows" not in str(found)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ((INTENT, UNKNOWN), "its outcome is unknown: a person must decide"),
        ((INTENT, UNKNOWN, Decided(1, 0, "deny")), "a person has decided that it is not to be done again"),
    ],
)
def test_the_words_of_a_deed_in_doubt_name_the_first_call(row: tuple[Body, ...], why: str) -> None:
    assert text_of(move(met("u", *row), key=(2, 0))) == (
        "Not started: the same deed was asked for before, by call t0 of turn 1 (1970-01-01 00:16:44 UTC), "
        f"and {why}. It was not begun a second time."
    )


def test_a_deed_whose_thread_is_still_alive_is_in_doubt_elsewhere() -> None:
    run = met("u", INTENT, UNKNOWN)
    found = move(run, key=(2, 0), live=Live(alive=frozenset({(1, 0)})))
    assert "it is still running" in text_of(found)


def test_a_verifiable_deed_in_doubt_is_looked_at_when_it_is_due() -> None:
    run = met("v", INTENT, UNKNOWN, settle=100.0, timeout=50.0)
    assert plain(move(run, key=(2, 0), now=1153.9)) == ("later", 1154.0)
    found = move(run, key=(2, 0), now=1154.0)
    assert isinstance(found, Look)
    assert (found.call.key, found.asker and found.asker.key) == ((1, 0), (2, 0))


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("happened", (("settled", "already done"),)),
        ("did not", ("run", "intent")),
        ("cannot", (("settled", "in doubt elsewhere"),)),
    ],
)
def test_what_was_seen_of_the_first_decides_about_the_new(answer: str, wanted: tuple[Any, ...]) -> None:
    run = met("v", INTENT, UNKNOWN)
    look = move(run, key=(2, 0))
    assert isinstance(look, Look)
    found = after_look(run, look, Seen(answer, "sent"), None)
    assert plain(found) == wanted
    assert not isinstance(found, Execute) or found.call.key == (2, 0)


def test_the_first_calls_own_terms_say_when_it_is_due() -> None:
    run = made(*ASKED, asks("v", recorded=Recorded(terms("v", settle=100.0), key="deed")), INTENT, UNKNOWN, ASK)
    run = go(run, asks("v", recorded=Recorded(terms("v", settle=1.0), key="deed")))
    assert plain(move(run, key=(2, 0), now=1050.0)) == ("later", 1104.0)


@pytest.mark.parametrize("later_turn", [True, False])
def test_a_deed_in_doubt_whose_process_died_late_is_looked_at_when_that_is_settled(later_turn: bool) -> None:
    if later_turn:
        run = go(met("v", INTENT, UNKNOWN, settle=100.0, timeout=50.0), KILLED, at=5000.0)
    else:
        recorded = Recorded(terms("v", settle=100.0, timeout=50.0), key="deed")
        run = go(go(made(*ASKED, asks("v", recorded=recorded)), INTENT, UNKNOWN), KILLED, at=5000.0)
        run = go(run, ASK, asks("v", recorded=recorded))
    assert plain(move(run, key=(2, 0), now=5050.0)) == ("later", 5100.0)


def test_the_newest_call_with_the_key_is_the_first() -> None:
    recorded = Recorded(terms("u"), key="deed")
    run = met("u", INTENT, Settled(1, 0, "failed", "no"))
    run = go(run, Intended(2, 0), Settled(2, 0, "ok", "sent"), ASK, asks("u", recorded=recorded))
    assert "by call t0 of turn 2" in str(move(run, key=(3, 0)))


def test_another_key_is_another_deed() -> None:
    run = made(*ASKED, asks("u", recorded=Recorded(terms("u"), key="one")), INTENT, UNKNOWN, ASK)
    run = go(run, asks("u", recorded=Recorded(terms("u"), key="two")))
    assert plain(move(run, key=(2, 0))) == ("run", "intent")


def test_a_call_is_not_its_own_first() -> None:
    run = made(*ASKED, asks("i", recorded=Recorded(terms("i"), key="one")), INTENT, Asked(1, 0, "doubt"))
    assert plain(move(go(run, Decided(1, 0, "allow")))) == ("run", "intent")


def test_an_approval_comes_before_the_key() -> None:
    run = met("u", INTENT, UNKNOWN, approval=True)
    assert plain(move(run, key=(2, 0))) == (("asked", "approval"),)


def test_a_key_of_a_call_that_never_started_is_free() -> None:
    assert plain(move(met("u", Settled(1, 0, "not started", "x")), key=(2, 0))) == ("run", "intent")


def test_an_intent_is_the_calls_and_names_the_effect_that_is_not_the_recorded_one() -> None:
    call = with_calls("v").calls[0]
    assert intent(call, terms("v")) == Intended(1, 0)
    assert intent(call, terms("u")) == Intended(1, 0, effect="unsafe")


@pytest.mark.parametrize("recorded", "xivr")
def test_an_attempt_that_went_by_a_stricter_effect_counts_for_ever(recorded: str) -> None:
    run = go(with_calls(recorded), Intended(1, 0, effect="unsafe"), KILLED)
    (settled,) = plain(move(run, program={recorded: terms(recorded)}))
    assert settled[:2] == ("settled", "unknown")


def test_what_was_tried_outside_a_transaction_and_inside_one_tells_nothing() -> None:
    call = go(with_calls("i"), Intended(1, 0, effect="transactional")).calls[0]
    assert effective(call, None).effect == "unsafe"


@pytest.mark.parametrize(("recorded", "tried", "never"), [("x", "unsafe", False), ("r", "transactional", True)])
def test_a_call_never_happened_when_no_effect_that_it_went_by_leaves_something(
    recorded: str, tried: str, never: bool
) -> None:
    assert never_happened(go(with_calls(recorded), Intended(1, 0, effect=tried), KILLED).calls[0]) is never


def test_the_poll_of_accepted_work_is_before_all_else() -> None:
    run = go(with_calls("v"), INTENT, Accepted(1, 0))
    assert isinstance(move(run, program={}), Poll)
    assert START.task == "do it"


def test_the_life_of_a_key_begins_with_the_first_attempt() -> None:
    run = go(with_calls("i", key_life=100.0, timeout=10.0), INTENT, INTENT)
    assert (run.calls[0].first_at, run.calls[0].last_at) == (1004.0, 1005.0)
    assert plain(move(run, now=1094.5)) == (("settled", "unknown"),)


def test_a_read_that_may_have_begun_as_an_effect_is_not_sunk_as_not_started() -> None:
    run = go(with_calls("ur"), INTENT, UNKNOWN, KILLED)
    assert plain(move(run, key=(1, 1), sunk=True, program={"u": terms("u"), "r": terms("u")})) == (
        ("settled", "unknown"),
    )


def test_a_doubt_about_a_call_without_an_intent_is_not_denied_as_if_it_never_happened() -> None:
    run = go(with_calls("r"), KILLED, Asked(1, 0, "doubt"), Decided(1, 0, "deny", "no"))
    assert run.calls[0].outcome == "unknown"
