"""Every cell of the run's and of a call's table, full and empty; the counters; the transcript, literally."""

from __future__ import annotations

from typing import Any

import pytest

from core.making import (
    ASK,
    ASKED,
    KILLED,
    START,
    TAKEN,
    USER,
    answer,
    asks,
    entries,
    final,
    go,
    made,
    terms,
    text,
    use,
    with_calls,
)
from midstride.core.fold import call_cell, cell, fold
from midstride.core.journal import (
    Accepted,
    Asked,
    Body,
    Cancelled,
    Compacted,
    Decided,
    Extended,
    Failed,
    Intended,
    Limits,
    Recorded,
    Responded,
    Said,
    Settled,
    Started,
    Taken,
)
from midstride.core.run import CALL, NEW, RUN, Call, CallState, Run, State
from midstride.errors import DeclarationError, NotAllowed

PAUSED = Responded(answer("pause_turn", text("One moment.")))
CUT = Responded(answer("max_tokens", text("Once upon")))
REFUSED = Responded(answer("refusal", text("No.")))
INTENT = Intended(1, 0)
OK = Settled(1, 0, "ok", "did it")
UNKNOWN = Settled(1, 0, "unknown", "nobody knows")
HAPPENED = Decided(1, 0, "happened", "it happened")
SAID = Said("hello")

# ---- the run's table: the smallest journal of each row, the entry of each column

ROWS: dict[State, Run] = {
    State.NEW: NEW,
    State.DUE: made(START, TAKEN),
    State.AWAY: made(*ASKED),
    State.CALLS: with_calls("u"),
    State.DONE: made(*ASKED, final()),
    State.STOPPED: made(*ASKED, Failed("400")),
    State.CANCELLED: made(*ASKED, Cancelled()),
}
WITH_UNKNOWN: dict[State, Run] = {
    State.DUE: go(with_calls("u"), UNKNOWN),
    State.AWAY: go(with_calls("u"), UNKNOWN, ASK),
    State.CALLS: go(with_calls("u"), UNKNOWN, ASK, asks("u")),
    State.DONE: go(with_calls("u"), UNKNOWN, ASK, final()),
    State.STOPPED: go(with_calls("u"), UNKNOWN, ASK, Failed("400")),
    State.CANCELLED: go(with_calls("u"), UNKNOWN, Cancelled()),
}
"""The same rows, of a run whose call (1, 0) was settled unknown before."""

HELD_CALL = made(*ASKED, asks("u", stop="end_turn"))
"""A final answer that holds a call: not settled yet, which only its own append can be."""

ENTRIES: dict[str, Body] = {
    "started": START, "requested": ASK, "final": final(), "calls": asks("u"), "paused": PAUSED, "cut": CUT,
    "given up": CUT, "refused": REFUSED, "call": HAPPENED, "last": OK, "last, cancelling": OK, "settled by final": OK,
    "said": SAID, "extended": Extended(Limits(turns=9)), "cancelled": Cancelled(), "failed": Failed("400"),
    "kept": final(), "accepted": Accepted(1, None, "h"), "last, of a ledger": OK, "allowed again": ASK,
}  # fmt: skip
COLUMNS = tuple(ENTRIES)


def of_a_ledger(*bodies: Body) -> Run:
    """Return a run that is one call of a ledger, behind *bodies*."""
    call = {"id": "c1", "name": "u", "arguments": {}}
    begun = Started(task="u", api="ledger", messages=[], nonce="n")
    return made(begun, TAKEN, ASK, Responded({"calls": [call]}, (Recorded(terms("u")),)), *bodies)


def before(state: State, column: str) -> Run:
    """Return the run of the smallest journal in row *state* to which the entry of *column* can come."""
    if column == "call":
        return WITH_UNKNOWN.get(state, NEW)
    if column == "given up" and state is State.AWAY:
        return made(*ASKED, CUT, ASK, CUT, ASK)
    if column == "last, cancelling" and state is State.CALLS:
        return go(with_calls("u"), Cancelled())
    if column == "settled by final" and state is State.DONE:
        return HELD_CALL
    if column == "settled by final" and state is State.DUE:
        return made(*ASKED, SAID, asks("u", stop="end_turn"))
    if column == "last, of a ledger" and state is State.CALLS:
        return of_a_ledger()
    if column == "allowed again" and state is State.DONE:
        return of_a_ledger(UNKNOWN, Decided(1, 0, "allow"))
    return ROWS[state]


FULL = [(state, column) for state in State for column in RUN[state]]
EMPTY = [(state, column) for state in State for column in COLUMNS if column not in RUN[state]]


@pytest.mark.parametrize(("state", "column"), FULL)
def test_a_full_cell_of_the_run_leads_where_the_table_says(state: State, column: str) -> None:
    run, wanted = before(state, column), RUN[state][column]
    assert run.state is state
    assert go(run, ENTRIES[column]).state is (wanted if isinstance(wanted, State) else wanted[0])


@pytest.mark.parametrize("column", ["final", "given up", "refused"])
def test_what_was_said_since_the_request_is_asked_next(column: str) -> None:
    run = go(before(State.AWAY, column), SAID)
    assert (run.state, go(run, ENTRIES[column]).state) == (State.AWAY, State.DUE)


@pytest.mark.parametrize(("state", "column"), EMPTY)
def test_an_empty_cell_of_the_run_is_refused(state: State, column: str) -> None:
    with pytest.raises(NotAllowed, match="has no room for"):
        cell(ROWS[state], column)


# A settled call has no cells, so a call's entry is refused by the call's table before the run's is asked.
REFUSED_BY_THE_RUN = [
    (state, column)
    for state, column in EMPTY
    if column not in ("call", "last", "last, cancelling", "settled by final", "kept", "given up", "last, of a ledger")
    and not (column == "allowed again" and "requested" in RUN[state])
    and not (state is State.CANCELLED and isinstance(ENTRIES[column], Responded))
]


@pytest.mark.parametrize(("state", "column"), REFUSED_BY_THE_RUN)
def test_an_entry_of_an_empty_cell_leaves_the_run_as_it_was(state: State, column: str) -> None:
    run = ROWS[state]
    messages, pending = list(run.messages), run.pending
    with pytest.raises(NotAllowed):
        go(run, ENTRIES[column])
    assert (run.state, list(run.messages), run.pending) == (state, messages, pending)


@pytest.mark.parametrize("state", [s for s in State if s is not State.NEW])
def test_a_run_may_be_taken_up_at_any_time(state: State) -> None:
    assert go(ROWS[state], KILLED).state is state


def test_an_empty_journal_cannot_be_taken_up() -> None:
    with pytest.raises(NotAllowed, match="an empty journal cannot be taken up"):
        made(TAKEN)


@pytest.mark.parametrize("property_name", ["begun", "api", "request"])
def test_a_run_that_has_not_started_has_no_api(property_name: str) -> None:
    if property_name == "request":
        assert NEW.request == []
        return
    with pytest.raises(NotAllowed, match="the run has not started"):
        getattr(NEW, property_name)


def test_an_unknown_api_is_refused_when_it_is_needed() -> None:
    with pytest.raises(DeclarationError, match="there is no api 'smoke'; there are: anthropic"):
        _ = made(Started("t", "smoke", [USER], "n")).api


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        (State.DUE, State.DUE), (State.AWAY, State.AWAY), (State.CALLS, State.CALLS), (State.STOPPED, State.DUE),
        (State.NEW, None), (State.DONE, None), (State.CANCELLED, None),
    ],
)  # fmt: skip
def test_compaction_goes_by_the_column_of_extended(state: State, wanted: State | None) -> None:
    if wanted is not None:
        assert go(ROWS[state], Compacted(1, [USER])).state is wanted
        return
    with pytest.raises(NotAllowed):
        go(ROWS[state], Compacted(1, [USER]))


def test_compaction_replaces_the_oldest_messages() -> None:
    run = go(with_calls("r"), OK, Compacted(1, [{"role": "user", "content": "in short"}]))
    assert [m["role"] for m in run.messages] == ["user", "assistant", "user"]
    assert run.messages[0] == {"role": "user", "content": "in short"}


def test_a_stop_for_tool_use_without_calls_is_final() -> None:
    assert made(*ASKED, Responded(answer("tool_use", text("None.")))).state is State.DONE


def test_the_eleventh_pause_in_a_row_gives_up() -> None:
    run = made(*ASKED, *(PAUSED, ASK) * 10)
    assert (run.state, len(run.tail)) == (State.AWAY, 10)
    given_up = go(run, PAUSED)
    assert (given_up.state, given_up.tail, given_up.ending) == (State.STOPPED, (), "paused")


def test_the_third_cut_in_a_row_gives_up() -> None:
    run = made(*ASKED, CUT, ASK, CUT, ASK, CUT)
    assert (run.state, run.ending, run.cuts) == (State.STOPPED, "cut", 0)


def test_a_pause_resets_the_cuts_and_a_cut_keeps_the_pauses() -> None:
    run = made(*ASKED, CUT, ASK, CUT, ASK, PAUSED, ASK, CUT)
    assert (run.state, run.cuts, run.pauses) == (State.DUE, 1, 1)


def test_an_answer_resets_cuts_and_pauses() -> None:
    run = made(*ASKED, CUT, ASK, PAUSED, ASK, final())
    assert (run.cuts, run.pauses) == (0, 0)


# ---- a call's table

CALL_ROWS: dict[CallState, tuple[Body, ...]] = {
    CallState.NEW: (),
    CallState.ASKING_APPROVAL: (Asked(1, 0, "approval"),),
    CallState.ASKING_DOUBT: (INTENT, Asked(1, 0, "doubt")),
    CallState.ALLOWED: (Asked(1, 0, "approval"), Decided(1, 0, "allow")),
    CallState.INTENDED: (INTENT,),
    CallState.ACCEPTED: (INTENT, Accepted(1, 0, "job 7")),
    CallState.UNKNOWN: (INTENT, UNKNOWN),
    CallState.SETTLED: (INTENT, OK),
}
CALL_ENTRIES: dict[str, Body] = {
    "intended": INTENT, "accepted": Accepted(1, 0, "job 8"), "settled": OK, "asked": Asked(1, 0, "doubt"),
    "allow": Decided(1, 0, "allow"), "deny": Decided(1, 0, "deny", "no"), "happened": HAPPENED,
    "unknown": Decided(1, 0, "unknown", "who knows"),
}  # fmt: skip
CELLS = [(state, column) for state in CallState for column in CALL_ENTRIES]


def call_after(run: Run) -> Call:
    found = run.call((1, 0))
    assert found is not None
    return found


@pytest.mark.parametrize(("state", "column"), CELLS)
def test_a_calls_entry_leads_where_the_table_says(state: CallState, column: str) -> None:
    run, body, wanted = go(with_calls("u"), *CALL_ROWS[state]), CALL_ENTRIES[column], CALL[state].get(column)
    assert call_after(run).state is state
    if wanted is None:
        with pytest.raises(NotAllowed, match="has no room for"):
            go(run, body)
        assert call_after(run).state is state
        return
    if isinstance(body, Asked) and wanted is CallState.ASKING_APPROVAL:
        body = Asked(1, 0, "approval")
    found = call_after(go(run, body)).state
    unknown = state is CallState.ASKING_DOUBT and column in ("deny", "unknown")
    assert found is (CallState.UNKNOWN if unknown else wanted)


def test_both_tables_name_every_state() -> None:
    assert (list(RUN), list(CALL)) == (list(State), list(CallState))


def test_an_empty_cell_says_which_call_it_was() -> None:
    run = go(with_calls("u"), *CALL_ROWS[CallState.SETTLED])
    with pytest.raises(NotAllowed) as refused:
        call_cell(call_after(run), "intended")
    assert str(refused.value) == "call t0 (u, turn 1) is settled: it has no room for 'intended'; nothing was written"


@pytest.mark.parametrize("body", [Intended(1, 7), Accepted(2, 0), Settled(0, 0, "ok", "x"), Asked(1, 1, "doubt")])
def test_a_call_that_is_not_there_is_refused(body: Body) -> None:
    with pytest.raises(NotAllowed, match="the run has no call"):
        go(with_calls("u"), body)


def test_a_call_settled_in_an_earlier_turn_takes_no_decision() -> None:
    with pytest.raises(NotAllowed, match="the run has no call 0 in turn 1 that could change"):
        go(with_calls("u"), OK, ASK, asks("u"), Decided(1, 0, "allow"))


@pytest.mark.parametrize(
    ("letter", "rows", "verdict", "outcome"),
    [
        ("u", (Asked(1, 0, "approval"),), "deny", "denied"),
        ("u", (INTENT, Asked(1, 0, "doubt")), "deny", "unknown"),
        ("u", (INTENT, Asked(1, 0, "doubt")), "happened", "told"),
        ("u", (INTENT, Asked(1, 0, "doubt")), "unknown", "unknown"),
        ("v", (INTENT, Asked(1, 0, "approval")), "deny", "unknown"),
        ("r", (INTENT, Asked(1, 0, "approval")), "deny", "denied"),
        ("x", (INTENT, Asked(1, 0, "approval")), "deny", "denied"),
        ("x", (Intended(1, 0, imported=True), Asked(1, 0, "approval")), "deny", "unknown"),
        ("r", (INTENT, Asked(1, 0, "doubt")), "deny", "unknown"),  # a stricter program may have run it with an effect
    ],
)
def test_a_decision_settles_as_the_table_says(letter: str, rows: tuple[Body, ...], verdict: str, outcome: str) -> None:
    run = go(with_calls(letter), *rows, Decided(1, 0, verdict, "the word"))
    call = call_after(run)
    assert (call.outcome, call.content, call.is_error) == (outcome, "the word", outcome != "told")
    assert run.state is State.DUE


def test_a_call_of_no_known_tool_counts_as_unsafe() -> None:
    run = go(with_calls("u", recorded=Recorded()), INTENT, Asked(1, 0, "approval"), Decided(1, 0, "deny", "no"))
    assert call_after(run).outcome == "unknown"
    assert call_after(run).terms is None


def test_a_permission_is_counted_by_what_was_asked() -> None:
    approved = call_after(go(with_calls("u"), Asked(1, 0, "approval"), Decided(1, 0, "allow")))
    rerun = call_after(go(with_calls("u"), INTENT, Asked(1, 0, "doubt"), Decided(1, 0, "allow")))
    assert (approved.approvals, approved.reruns) == (1, 0)
    assert (rerun.approvals, rerun.reruns) == (0, 1)


def test_an_attempt_remembers_when_it_started_and_died() -> None:
    run = go(with_calls("u"), INTENT, at=2000.0)
    run = go(run, KILLED, at=2010.0)
    run = go(run, Taken(3, "h", 9), at=2020.0)
    call = call_after(run)
    assert (call.attempts, call.first_at, call.last_at, call.died_at) == (
        1,
        2000.0,
        2000.0,
        2020.0,
    )  # the newest take-up
    again = call_after(go(run, INTENT, at=2030.0))
    assert (again.attempts, again.first_at, again.last_at, again.died_at) == (2, 2000.0, 2030.0, None)


def test_a_call_that_never_started_has_no_death() -> None:
    call = call_after(go(with_calls("u"), KILLED))
    assert (call.taken_since, call.died_at) == (True, None)


def test_nobody_knows_when_an_imported_attempt_died() -> None:
    call = call_after(go(with_calls("u"), Intended(1, 0, imported=True), KILLED))
    assert (call.imported, call.died_at) == (True, None)


def test_a_taken_finished_call_is_left_alone() -> None:
    run = go(with_calls("ur"), INTENT, OK, KILLED)
    assert [c.taken_since for c in run.calls] == [False, True]


def test_accepted_work_keeps_its_handle() -> None:
    assert call_after(go(with_calls("u"), INTENT, Accepted(1, 0, {"job": 7}))).handle == {"job": 7}


# ---- doubts


def test_doubts_are_what_was_started_and_not_decided() -> None:
    run = go(with_calls("uuu"), INTENT, UNKNOWN, Intended(1, 1), Asked(1, 1, "doubt"))
    assert [c.key for c in run.doubts] == [(1, 0), (1, 1)]
    assert [c.key for c in go(run, HAPPENED).doubts] == [(1, 1)]


def test_doubts_of_earlier_turns_come_first() -> None:
    run = go(with_calls("u"), INTENT, UNKNOWN, ASK, asks("u"), Intended(2, 0))
    assert [c.key for c in run.doubts] == [(1, 0), (2, 0)]
    assert [c.key for c in go(run, Decided(1, 0, "deny")).doubts] == [(2, 0)]


def test_approvals_are_the_calls_that_a_person_is_asked_for_before_they_run() -> None:
    run = go(with_calls("uuu"), Asked(1, 0, "approval"), Asked(1, 1, "approval"), Intended(1, 2), Asked(1, 2, "doubt"))
    assert ([c.key for c in run.approvals], [c.key for c in run.doubts]) == ([(1, 0), (1, 1)], [(1, 2)])
    assert [c.key for c in go(run, Decided(1, 0, "allow")).approvals] == [(1, 1)]


# ---- what is said, and when it is sent


def test_what_was_said_is_sent_with_the_next_request() -> None:
    run = made(START, SAID)
    assert (run.request, run.pending) == ([USER], ({"role": "user", "content": "hello"},))
    assert go(run, ASK).request == [USER, {"role": "user", "content": "hello"}]


def test_a_request_that_is_repeated_is_the_same() -> None:
    run = made(*ASKED, SAID)
    assert go(run, KILLED, ASK).request == run.request == [USER]


def test_what_was_said_comes_behind_the_end_of_a_paused_answer() -> None:
    run = made(*ASKED, PAUSED, SAID, ASK)
    paused = {"role": "assistant", "content": [text("One moment.")]}
    assert run.request == [USER, paused]
    run = go(run, CUT, ASK)
    assert run.request == [USER, paused]
    run = go(run, final(), ASK)
    assert run.request == [
        USER, paused, {"role": "assistant", "content": [text("Done.")]}, {"role": "user", "content": "hello"},
    ]  # fmt: skip


def test_a_paused_answer_that_is_refused_leaves_the_transcript() -> None:
    run = made(*ASKED, PAUSED, ASK, REFUSED)
    assert (run.state, run.request) == (State.STOPPED, [USER])


def test_a_paused_answer_stays_behind_a_failure_and_is_continued_first() -> None:
    run = made(*ASKED, PAUSED, ASK, Failed("400"), SAID, ASK)
    assert [m["role"] for m in run.request] == ["user", "assistant"]
    assert run.pending


def test_a_cut_answer_joins_no_transcript() -> None:
    assert made(*ASKED, CUT).request == [USER]


def test_an_answer_that_is_kept_joins_no_transcript() -> None:
    run = go(ROWS[State.CANCELLED], asks("u"))
    assert (run.state, run.request, run.calls, run.answers) == (State.CANCELLED, [USER], (), 1)


def test_a_late_truth_is_told_as_a_new_message_and_the_result_stays() -> None:
    run = go(with_calls("ur"), INTENT, UNKNOWN, HAPPENED, Settled(1, 1, "ok", "read"), ASK)
    assert run.request[2:] == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t0", "content": "nobody knows", "is_error": True},
                {"type": "tool_result", "tool_use_id": "t1", "content": "read"},
            ],
        },
        {"role": "user", "content": "it happened"},
    ]


@pytest.mark.parametrize(("verdict", "told"), [("allow", 0), ("deny", 0), ("happened", 1), ("unknown", 1)])
def test_only_a_truth_is_told_and_not_a_permission(verdict: str, told: int) -> None:
    run = go(with_calls("u"), INTENT, UNKNOWN, Decided(1, 0, verdict, "the word"))
    assert (len(run.pending), call_after(run).verdict) == (told, verdict)


def test_a_decision_on_an_earlier_turn_is_found_and_told() -> None:
    run = go(with_calls("u"), INTENT, UNKNOWN, ASK, asks("u"), HAPPENED)
    assert call_after(run).verdict == "happened"
    assert run.state is State.CALLS
    assert run.pending == ({"role": "user", "content": "it happened"},)


def test_the_whole_transcript_is_verbatim() -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s=="}, text("I look."), use(0, "r"), use(1, "u")]
    response = answer("tool_use", *blocks, id="msg_1", model="m")
    run = made(*ASKED, Responded(response, (Recorded(terms("r")), Recorded(terms("u")))))
    run = go(run, Settled(1, 1, "failed", "no"), Settled(1, 0, "ok", [text("seen")]), SAID, ASK, final("All done."))
    assert list(run.messages) == [
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": blocks},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t0", "content": [{"type": "text", "text": "seen"}]},
                {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True},
            ],
        },
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": [{"type": "text", "text": "All done."}]},
    ]
    assert run.answer == "All done."


def test_the_answer_is_the_newest_final_one() -> None:
    run = made(*ASKED, final("One."), SAID, ASK, asks("r"))
    assert run.answer == "One."


# ---- counters


def test_turns_count_requests_lost_ones_too() -> None:
    run = made(*ASKED, KILLED, ASK, asks("u"))
    assert (run.turns, run.answers, run.calls[0].key) == (2, 1, (2, 0))


def test_an_import_brings_its_counters_along() -> None:
    run = made(Started("t", "anthropic", [USER], "n", turns=5, tokens=700), ASK)
    assert (run.turns, run.tokens_used, run.tokens_total) == (6, 700, 700)


USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}


def test_tokens_are_the_window_and_the_sum_of_all_windows() -> None:
    run = made(*ASKED, final(usage=USAGE))
    assert (run.tokens_used, run.tokens_total) == (135, 135)
    run = go(run, SAID, ASK, final(usage={"input_tokens": 30, "output_tokens": 1}))
    assert (run.tokens_used, run.tokens_total, run.usage.input, run.usage.output) == (31, 166, 30, 1)


def test_what_a_cache_had_a_part_in_is_counted_by_itself() -> None:
    run = made(*ASKED, final(usage=USAGE), SAID, ASK, final(usage=USAGE))
    assert (run.cache_read, run.cache_write) == (200, 40)


def test_costs_are_summed_as_they_were_recorded() -> None:
    run = made(*ASKED, Responded(final().response, cost=3))
    assert (run.cost, run.priced, run.answers) == (3, 1, 1)
    run = go(run, SAID, ASK, final(), SAID, ASK, Responded(final().response, cost=0))
    assert (run.cost, run.priced, run.answers) == (3, 2, 3)


def test_requests_that_had_no_answer_are_told_from_those_that_are_out() -> None:
    lost = made(*ASKED, KILLED, ASK)
    assert (NEW.unanswered, made(START).unanswered, lost.unanswered) == (0, 0, 1)
    assert (go(lost, final()).unanswered, go(lost, Failed("400")).unanswered) == (1, 2)
    assert made(Started("t", "anthropic", [USER], "n", turns=5), ASK, final()).unanswered == 0


def test_an_answer_without_usage_leaves_the_window_as_it_was() -> None:
    run = made(
        *ASKED,
        asks(
            "r",
        ),
        Settled(1, 0, "ok", "x"),
        ASK,
        final(),
    )
    assert (run.tokens_used, run.tokens_total) == (0, 0)
    run = made(Started("t", "anthropic", [USER], "n", tokens=9), ASK, final(usage="none"))
    assert run.tokens_used == 9


def test_the_tokens_of_a_kept_answer_were_paid_too() -> None:
    assert go(ROWS[State.CANCELLED], final(usage=USAGE)).tokens_total == 135


def test_seconds_are_the_time_in_which_a_holder_was_at_work() -> None:
    run = go(NEW, START, TAKEN, ASK, at=100.0)
    run = go(run, asks("u"), at=130.0)
    run = go(run, Taken(2, "h", 8), at=5000.0)
    run = go(run, INTENT, at=5001.5)
    assert run.seconds == 31.5


def test_a_clock_that_goes_back_counts_nothing() -> None:
    run = go(NEW, START, TAKEN, ASK, at=100.0)
    assert go(run, asks("u"), at=50.0).seconds == 0.0


def test_what_others_append_is_no_work() -> None:
    run = go(NEW, START, TAKEN, ASK, final(), at=100.0)
    run = go(run, SAID, at=900.0)
    assert (run.seconds, run.at) == (0.0, 100.0)


def test_a_run_counts_the_unclean_take_ups_since_it_got_on() -> None:
    run = made(*ASKED, KILLED, KILLED, TAKEN)
    assert run.takes == 2
    assert go(run, asks("u")).takes == 0
    run = go(run, asks("u"), INTENT, KILLED)
    assert run.takes == 1
    assert (go(run, Accepted(2, 0)).takes if run.calls[0].turn == 2 else go(run, Accepted(1, 0)).takes) == 0
    assert go(run, Settled(*run.calls[0].key, "ok", "x")).takes == 0
    assert go(run, Extended(Limits())).takes == 0


def test_a_decision_does_not_reset_the_take_ups() -> None:
    run = go(with_calls("u"), Asked(1, 0, "approval"), KILLED, Decided(1, 0, "allow"))
    assert run.takes == 1


def test_limits_are_set_anew_by_a_person_or_the_program() -> None:
    run = made(START, Extended(Limits(turns=50), "ann"))
    assert (run.limits.turns, run.declared.turns) == (50, 40)
    run = go(run, Extended(Limits(turns=60), "program"))
    assert (run.limits.turns, run.declared.turns) == (60, 60)


def test_a_cancelled_run_says_why() -> None:
    assert made(START, Cancelled("enough", "ann")).reason == "enough"
    assert made(START, Cancelled()).reason == "cancelled"


def test_the_holder_is_the_newest_taken() -> None:
    run = made(START, TAKEN, KILLED)
    assert (run.token, run.holder, run.taken_at) == (2, KILLED, 1002.0)


def test_a_stop_reason_is_kept_in_the_apis_own_words() -> None:
    response = answer("refusal", stop_details={"category": "cyber"})
    assert made(*ASKED, Responded(response)).stop == "refusal (cyber)"


# ---- folding


JOURNAL = entries(*ASKED, asks("ru"), SAID, Intended(1, 1), KILLED, OK, Settled(1, 1, "unknown", "?"), ASK, final())


@pytest.mark.parametrize("at", range(len(JOURNAL) + 1))
def test_folding_in_two_goes_is_folding_in_one(at: int) -> None:
    assert fold(JOURNAL[at:], fold(JOURNAL[:at])) == fold(JOURNAL)


def test_folding_leaves_the_older_run_as_it_was() -> None:
    older = fold(JOURNAL[:7])
    again = fold(JOURNAL[7:], older)
    assert older == fold(JOURNAL[:7])
    assert (len(older.messages), len(again.messages)) == (2, 5)


def test_a_response_with_fewer_records_than_calls_has_calls_of_no_known_tool() -> None:
    response: dict[str, Any] = answer("tool_use", use(0, "u"), use(1, "u"))
    run = made(*ASKED, Responded(response, (Recorded(terms("u")),)))
    assert [c.terms is None for c in run.calls] == [False, True]


def test_a_doubt_about_a_read_that_is_denied_is_not_told_as_never_happened() -> None:
    """Its tool counts as an effect by now: else nobody would have been asked."""
    run = go(with_calls("r"), KILLED, Asked(1, 0, "doubt"), Decided(1, 0, "deny", "no"))
    assert run.calls[0].outcome == "unknown"


# ---- over


@pytest.mark.parametrize(
    ("run", "over"),
    [
        (made(*ASKED), False),
        (made(*ASKED, final()), True),
        (go(made(*ASKED, final()), SAID), False),
        (with_calls("u"), False),
        (go(with_calls("u"), INTENT, UNKNOWN, ASK, final()), False),
        (go(with_calls("u"), INTENT, UNKNOWN, ASK, final(), Decided(1, 0, "deny")), True),
        (made(*ASKED, Cancelled()), True),
        (go(with_calls("u"), INTENT, Cancelled()), False),
        (made(*ASKED, Failed("no")), True),
        (made(*ASKED, Failed("no"), SAID), False),
    ],
)
def test_a_run_is_over_when_nothing_is_left_to_be_done_or_looked_into(run: Run, over: bool) -> None:
    assert run.over is over
