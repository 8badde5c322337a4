"""The steps by which a run goes on: their order, what is in each append, and a crash at every one of them."""

from __future__ import annotations

from typing import Any

import pytest

from core.driving import Driver, Killed, name_of
from core.making import START, TAKEN, answer, asks, final, go, terms, text, with_calls
from midstride.core.imports import restored
from midstride.core.journal import (
    Asked,
    Body,
    Cancelled,
    Compacted,
    Decided,
    Extended,
    Intended,
    Limits,
    Recorded,
    Requested,
    Responded,
    Said,
    Settled,
    Taken,
    seal,
)
from midstride.core.reconcile import Death, Program, Seen
from midstride.core.run import NEW, CallState, State
from midstride.core.settle import Desk, advance
from midstride.core.steps import (
    Answered,
    Append,
    Check,
    Ended,
    Gather,
    LookUp,
    Lost,
    Pause,
    Refused,
    Reply,
    Send,
    Start,
    Tail,
)
from midstride.errors import Interrupted, InvalidTranscript, ModelUnavailable, NotAllowed


def driver(letters: str, **more: Any) -> Driver:
    """Return a driver whose model calls *letters* and then is done."""
    known = {key: more.pop(key) for key in ("doubt", "approval", "settle", "timeout", "key_life") if key in more}
    return Driver([asks(letters, **known), final()], **more)


# ---- the order of steps


def test_a_run_without_calls_is_two_appends() -> None:
    driving = Driver([final()])
    assert driving.start().status == "done"
    assert driving.steps == ["check", "append started taken requested", "send", "append responded"]


def test_a_turn_with_one_read_is_two_appends() -> None:
    driving = driver("r")
    driving.start()
    assert driving.steps[3:] == [
        "append responded", "start r 1", "gather", "check", "append settled requested", "send", "append responded",
    ]  # fmt: skip


@pytest.mark.parametrize("letter", ["i", "v", "u"])
def test_a_turn_with_one_effect_is_three_appends(letter: str) -> None:
    driving = driver(letter)
    driving.start()
    assert driving.steps[2:] == [
        "send", "append responded", "append intended", f"start {letter} 1", "gather", "check",
        "append settled requested", "send", "append responded",
    ]  # fmt: skip


def test_a_transaction_appends_its_own_result() -> None:
    driving = driver("x")
    driving.start()
    assert driving.steps[3:] == [
        "append responded", "append intended", "transact x 1", "check", "append requested", "send", "append responded",
    ]  # fmt: skip
    assert driving.kinds()[3:6] == ["responded", "intended", "settled"]


def test_the_next_intent_goes_with_the_last_result() -> None:
    driving = driver("uu")
    driving.start()
    assert driving.steps[4:10] == [
        "append intended", "start u 1", "gather", "append settled intended", "start u 1", "gather",
    ]  # fmt: skip


def test_reads_run_beside_each_other_and_beside_one_effect() -> None:
    driving = driver("rurx")
    driving.start()
    assert driving.steps[4:10] == [
        "start r 1", "append intended", "start u 1", "start r 1", "gather", "append settled settled settled intended",
    ]  # fmt: skip


def test_at_most_eight_attempts_run_at_once() -> None:
    driving = driver("r" * 9)
    driving.start()
    assert driving.steps[4:14] == [*["start r 1"] * 8, "gather", "start r 1"]
    assert driving.run.state is State.DONE


def test_results_travel_in_call_order_whichever_came_first() -> None:
    driving = driver("ru", prompt=True)
    driving.start()
    assert driving.results() == ["r did it", "u did it"]


def test_a_final_answer_that_holds_calls_has_them_settled_in_the_same_append() -> None:
    driving = Driver([asks("ur", stop="end_turn")])
    assert driving.start().status == "done"
    assert driving.steps[-1] == "append responded settled settled"
    assert driving.results() == ["Not started: the answer ended with end_turn, so its calls are not run. "
                                 "It had no effect."] * 2  # fmt: skip


def test_an_approval_is_asked_durably_before_the_run_rests() -> None:
    driving = driver("u", approval=True)
    assert driving.start().status == "waiting"
    assert driving.steps[4:] == ["append asked"]
    assert not driving.effects


def test_a_cut_answer_is_asked_for_again_with_more_room() -> None:
    driving = Driver([Responded(answer("max_tokens", text("Once"))), final()])
    driving.start()
    assert [e.body.params["max_tokens"] for e in driving.store if isinstance(e.body, Requested)] == [10, 20]


# ---- what goes wrong in a living process


@pytest.mark.parametrize(
    ("letter", "way", "outcome"),
    [
        ("r", "raises", "failed"), ("x", "raises", "failed"), ("u", "did not happen", "failed"),
        ("v", "did not happen", "failed"), ("i", "did not happen", "failed"), ("r", "times out", "failed"),
        ("u", "raises", "unknown"), ("u", "raises behind its effect", "unknown"), ("u", "times out", "unknown"),
        ("v", "times out", "unknown"), ("i", "times out", "unknown"), ("i", "raises", "unknown"),
        ("v", "raises behind its effect", "ok"), ("v", "raises", "unknown"),
    ],
)  # fmt: skip
def test_an_error_is_definite_only_where_it_can_be(letter: str, way: str, outcome: str) -> None:
    driving = driver(letter, ways={letter: way})
    driving.start()
    settled = [e.body for e in driving.store if e.body.kind == "settled"]
    assert [body.outcome for body in settled] == [outcome]  # type: ignore[union-attr]


def test_an_idempotent_call_is_tried_three_times_with_one_key() -> None:
    driving = driver("i", ways={"i": "raises"})
    driving.start()
    assert [s for s in driving.steps if s.startswith("start")] == ["start i 1", "start i 2", "start i 3"]


def test_did_not_happen_is_an_exception_like_any_other_on_a_later_attempt() -> None:
    driving = driver("i", ways={"i": "raises"}, fuse=(6, "after"))
    with pytest.raises(Killed):
        driving.start()
    driving.ways, driving.fuse = {"i": "did not happen"}, None
    driving.resume()
    assert driving.results()[0].startswith("Outcome unknown: i(")


def test_the_words_of_an_unknown_outcome_say_what_was_seen() -> None:
    driving = driver("u", ways={"u": "raises"})
    driving.start()
    assert driving.results() == [
        'Outcome unknown: u({"n": 0}) may or may not have taken effect (it started 1970-01-01 00:16:40 UTC). '
        "ValueError: no. Nothing tells whether it took effect. It was not run again. Do not assume either outcome and "
        "do not simply repeat it: check in another way whether it took effect, or ask a person."
    ]


def test_a_verifiable_call_is_looked_at_once_it_can_no_longer_come() -> None:
    driving = driver("v", ways={"v": "raises behind its effect"}, settle=30.0)
    driving.start()
    assert driving.steps[6:10] == ["gather", "gather", "lookup v", "check"]
    assert driving.now == 1030.0
    assert driving.results() == ["found"]


def test_a_look_that_finds_nothing_lets_it_run_again() -> None:
    driving = driver("v", ways={"v": "raises"})
    driving.start()
    assert [s for s in driving.steps if "v" in s] == ["start v 1", "lookup v", "start v 2", "lookup v", "start v 3", "lookup v"]  # noqa: E501  # fmt: skip


def test_a_look_may_ask_a_person() -> None:
    driving = driver("v", ways={"v": "raises"}, doubt="ask", seen={"v": Seen("cannot", why="The mailbox is down.")})
    assert driving.start().status == "waiting"
    assert isinstance(driving.store[-1].body, Asked)


def test_the_late_result_of_a_timed_out_thread_is_told_as_a_later_truth() -> None:
    driving = Driver([asks("u"), asks("r"), final()], ways={"u": "times out"})
    driving.start()
    decided = [e.body for e in driving.store if isinstance(e.body, Decided)]
    assert [(d.verdict, d.by) for d in decided] == [("happened", "tool")]
    assert driving.run.messages[-2]["content"] == (
        'About the earlier call u({"n": 0}) with id t0, whose outcome was unknown: '
        "the tool reports that it took effect. Its result: u did it"
    )
    assert driving.run.state is State.DONE


def test_a_late_result_never_wakes_a_run_that_is_done() -> None:
    driving = driver("u", ways={"u": "times out"})
    driving.start()
    assert (driving.kinds()[-1], driving.run.state) == ("decided", State.DONE)
    assert "took effect" in driving.run.pending[0]["content"]


def test_a_late_result_of_blocks_is_told_without_them() -> None:
    desk = Desk(with_calls("u"), 2000.0, None, {})
    desk.write(Intended(1, 0))
    steps = advance(desk)
    next(steps)
    assert steps.send(Reply(2001.0)) is not None  # the intent was dead at once: it is settled unknown
    desk.in_hand.append(Ended((1, 0), "returned", [text("blocks")]))
    shown = drain(steps, desk)
    assert "took effect." in shown
    assert "blocks" not in shown


def drain(steps: Any, desk: Desk) -> str:
    """Let every step succeed until the run asks the model; return what the later truth says."""
    step = steps.send(Reply(2002.0))
    while not isinstance(step, Append) or not any(isinstance(e.body, Decided) for e in step.entries):
        step = steps.send(Reply(2003.0, Answered(asks("u").response, ())))
    return str(next(e.body.content for e in step.entries if isinstance(e.body, Decided)))


def test_a_late_result_of_a_read_that_timed_out_is_dropped() -> None:
    driving = driver("r", ways={"r": "times out"})
    driving.start()
    assert driving.results() == ["Failed: It took longer than 1 s."]
    assert "decided" not in driving.kinds()


def asked_about_a_live_attempt() -> tuple[Any, Desk]:
    """Return the steps of a run that is about to append its question about an attempt whose thread lives on."""
    desk = Desk(with_calls("u", doubt="ask"), 2000.0, None, {})
    steps = advance(desk)
    names = [name_of(next(steps)), name_of(steps.send(Reply(2001.0))), name_of(steps.send(Reply(2002.0)))]
    assert names == ["append intended", "start u 1", "gather"]
    asked = steps.send(Reply(2003.0, None, (Ended((1, 0), "timed out", "Too long.", alive=True),)))
    assert name_of(asked) == "append asked"
    return steps, desk


def test_a_late_exception_of_a_read_that_timed_out_is_dropped() -> None:
    run = go(with_calls("r"), Settled(1, 0, "failed", "Too long."), Requested(), asks("r"))
    desk = Desk(run, 2000.0, None, {}, alive={(2, 0)})
    desk.write(Settled(2, 0, "failed", "Too long."))
    steps = advance(desk)
    assert name_of(next(steps)) == "check"
    assert name_of(steps.send(Reply(2001.0, None, (Ended((2, 0), "raised", "no"),)))) == "append settled requested"
    desk.in_hand.append(Ended((2, 0), "raised", "no"))
    steps.send(Reply(2002.0))
    assert name_of(steps.send(Reply(2003.0, Lost("cut", paid=True)))) == "pause 1"
    assert name_of(steps.send(Reply(2004.0))) == "check"
    assert (desk.deaths, desk.unsaved) == ({}, [])


def test_a_late_result_settles_a_call_that_a_person_is_asked_about() -> None:
    steps, desk = asked_about_a_live_attempt()
    check = steps.send(Reply(2004.0, None, (Ended((1, 0), "returned", "did it"),)))
    assert (name_of(check), desk.run.messages[-1]["content"][0]["content"]) == ("check", "did it")


def test_a_late_exception_leaves_the_question_to_the_person() -> None:
    steps, desk = asked_about_a_live_attempt()
    with pytest.raises(StopIteration) as rested:
        steps.send(Reply(2004.0, None, (Ended((1, 0), "raised", "ValueError: no."),)))
    assert rested.value.value.status == "waiting"
    assert (desk.alive, desk.deaths) == (set(), {(1, 0): Death(2004.0, "Too long.")})


# ---- others append in between


def test_a_result_is_kept_in_hand_when_somebody_spoke_in_between() -> None:
    driving = driver("u", between={4: [Said("hello")]})
    driving.start()
    assert driving.effects[1, 0] == 1
    assert driving.kinds()[3:] == [
        "responded", "intended", "said", "settled", "requested", "responded",
    ]  # fmt: skip
    assert driving.run.messages[-2]["content"] == "hello"


def test_the_first_append_keeps_its_taken_when_somebody_spoke_in_between() -> None:
    driving = driver("u", fuse=(6, "after"))
    with pytest.raises(Killed):
        driving.start()
    driving.fuse, driving.between = None, {driving.appends + 1: [Said("hello")]}
    driving.resume()
    assert driving.kinds()[5:8] == ["said", "taken", "settled"]


def test_a_changed_limit_is_not_written_behind_a_cancellation() -> None:
    driving = Driver([final()], fuse=(2, "before"))
    with pytest.raises(Killed):
        driving.start()
    driving.fuse, driving.between = None, {driving.appends + 1: [Cancelled()]}
    assert driving.drive(Taken(2, "host", 2), Extended(Limits(turns=3), "program")).status == "cancelled"
    assert driving.kinds()[3:] == ["cancelled", "taken"]


def test_an_intent_is_not_written_behind_a_cancellation() -> None:
    driving = driver("u", between={3: [Cancelled()]})
    assert driving.start().status == "cancelled"
    assert not driving.effects
    assert driving.results() == ["Not started: the run was cancelled. It had no effect."]


def test_a_transaction_that_meets_a_moved_journal_is_run_again() -> None:
    driving = driver("x", between={4: [Said("hello")]})
    driving.start()
    assert driving.effects[1, 0] == 1
    assert [s for s in driving.steps if "x" in s.split()] == ["transact x 1", "transact x 2"]
    assert driving.kinds().count("settled") == 1


def test_a_transaction_is_rolled_back_when_the_run_was_cancelled_meanwhile() -> None:
    driving = driver("x", between={4: [Cancelled()]})
    assert driving.start().status == "cancelled"
    assert not driving.effects
    assert driving.results() == ["Not started: the run was cancelled. It had no effect."]


def test_an_answer_joins_behind_what_was_said_while_it_was_out() -> None:
    driving = Driver([final(), final("Hello.")], between={2: [Said("hi")]})
    driving.start()
    assert [m["role"] for m in driving.run.messages] == ["user", "assistant", "user", "assistant"]
    assert driving.run.answer == "Hello."


def test_an_answer_to_a_cancelled_run_is_kept_and_nothing_runs() -> None:
    driving = driver("u", between={2: [Cancelled("enough")]})
    rest = driving.start()
    assert (rest.status, rest.why) == ("cancelled", "enough")
    assert len(driving.run.messages) == 1
    assert driving.kinds()[-1] == "responded"


def test_a_final_answer_with_calls_to_a_cancelled_run_settles_nothing() -> None:
    driving = Driver([asks("u", stop="end_turn")], between={2: [Cancelled()]})
    driving.start()
    assert driving.kinds()[-1] == "responded"


def test_words_before_the_check_are_seen_by_the_request() -> None:
    driving = Driver([final()], between={1: [], 2: [Said("a")], 3: [Said("b")]})
    driving.start()
    assert [m["content"] for m in driving.run.messages if m["role"] == "user"] == ["do it", "a", "b"]


def test_a_look_is_dropped_when_the_run_was_cancelled_meanwhile() -> None:
    driving = driver("v", ways={"v": "raises behind its effect"}, between={4: [Cancelled()]})
    assert driving.start().status == "cancelled"
    assert driving.effects[1, 0] == 1
    assert driving.results()[0].startswith("Outcome unknown:")


def test_eight_reads_are_counted_again_when_somebody_spoke_before_the_ninth() -> None:
    desk = Desk(with_calls("r"), 2000.0, None, {}, running={(9, n) for n in range(8)})
    desk.write(Said("x"))
    steps = advance(desk)
    assert isinstance(next(steps), Append)
    assert type(steps.send(Reply(2001.0, tail_of(desk, Said("y"))))).__name__ == "Gather"


def test_a_ninth_read_does_not_wait_for_eight_that_have_ended_meanwhile() -> None:
    desk = Desk(with_calls("r"), 2000.0, None, {}, running={(9, n) for n in range(8)})
    desk.write(Said("x"))
    steps = advance(desk)
    assert name_of(next(steps)) == "append said"
    ended = tuple(Ended((9, n), "returned", "x") for n in range(8))
    assert name_of(steps.send(Reply(2001.0, None, ended))) == "start r 1"


def test_what_others_append_while_a_tool_runs_is_taken_in_before_it_ends() -> None:
    desk = Desk(with_calls("uu"), 2000.0, None, {}, running={(1, 0)})
    steps = advance(desk)
    assert name_of(next(steps)) == "gather"
    written = steps.send(Reply(2001.0, tail_of(desk, Cancelled())))
    assert isinstance(written, Append)
    assert [(e.body.index, e.body.outcome) for e in written.entries] == [(1, "not started")]
    assert name_of(steps.send(Reply(2002.0, None))) == "gather"


def tail_of(desk: Desk, *bodies: Any) -> Tail:
    return Tail(seal(bodies, desk.saved.head, 2000.0))


# ---- the model's side


def test_a_lost_answer_is_asked_for_again_in_the_same_request() -> None:
    driving = Driver([final()], sends={1: Lost("529"), 2: Lost("529", wait=7.0)})
    driving.start()
    assert driving.steps[2:6] == ["send", "pause 1", "send", "pause 7"]
    assert driving.run.turns == 1


def test_an_answer_that_had_begun_is_paid_and_asked_for_in_another_request() -> None:
    driving = Driver([final()], sends={1: Lost("the line was cut", paid=True)})
    driving.start()
    assert driving.run.turns == 2
    assert driving.sent[0].request == driving.sent[1].request


def test_the_back_off_doubles_and_gives_up_after_six_tries() -> None:
    driving = Driver([final()], sends={n: Lost("529") for n in range(1, 7)})
    with pytest.raises(ModelUnavailable, match="no answer in 6 tries: 529; nothing is lost"):
        driving.start()
    assert driving.steps[3::2] == ["pause 1", "pause 2", "pause 4", "pause 8", "pause 16"]
    assert driving.run.state is State.AWAY


def test_tries_are_counted_over_paid_answers_and_anew_after_one_that_came() -> None:
    paid = {n: Lost("cut", paid=True) for n in range(1, 6)}
    driving = Driver([asks("r"), final()], sends={**paid, 7: Lost("529")})
    assert driving.start().status == "done"
    assert [s for s in driving.steps if s.startswith("pause")][-1] == "pause 1"


def test_a_refused_request_fails_the_run() -> None:
    driving = Driver([final()], sends={1: Refused("400: no such model")})
    rest = driving.start()
    assert (rest.status, rest.why) == ("failed", "400: no such model")


def test_a_refused_request_of_a_cancelled_run_writes_nothing() -> None:
    driving = Driver([final()], sends={1: Refused("400")}, between={2: [Cancelled()]})
    assert driving.start().status == "cancelled"
    assert driving.kinds()[-1] == "cancelled"


def test_an_invalid_transcript_is_not_sent_and_its_results_are_saved_first() -> None:
    driving = driver("u")
    driving.fuse = (6, "after")
    with pytest.raises(Killed):
        driving.start()
    driving.fuse, driving.problem = None, "message 2 breaks rule A1"
    with pytest.raises(InvalidTranscript, match="message 2 breaks rule A1"):
        driving.resume()
    assert driving.kinds()[-2:] == ["taken", "settled"]
    assert len(driving.sent) == 1


MENDED = Compacted(1, [{"role": "user", "content": "mended"}])


def mending() -> Driver:
    """A run whose first request is mended before it is sent, and whose second the API calls invalid."""
    return Driver([final()], problems=[MENDED], sends={1: Refused("400", invalid=True)}, mends=[MENDED])


def test_a_request_is_mended_behind_its_entry_and_an_invalid_one_is_asked_again() -> None:
    driving = mending()
    assert driving.start().status == "done"
    asked = ["requested", "compacted", "compacted", "requested", "responded"]
    assert driving.kinds() == ["started", "taken", *asked]
    assert [list(run.messages) for run in driving.sent] == [MENDED.messages] * 2


def test_the_second_refusal_in_a_row_is_final() -> None:
    driving = mending()
    driving.sends[2], driving.mends = Refused("again", invalid=True), [MENDED, MENDED]
    assert (driving.start().why, len(driving.sent)) == ("again", 2)


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("step", range(8))
def test_who_dies_anywhere_in_a_mending_is_carried_on(step: int, where: str) -> None:
    driving = mending()
    driving.fuse = (step, where)
    with pytest.raises(Killed):
        driving.start()
    driving.fuse = None
    assert driving.resume().status == "done"
    assert driving.sent[-1].messages[0] in (MENDED.messages[0], START.messages[0])
    assert driving.kinds().count("responded") == 1


def test_a_mending_that_comes_behind_what_others_appended_is_made_anew() -> None:
    driving = Driver([final(), final()], between={2: [Said("x")]}, mends=[MENDED, MENDED])
    driving.sends = {n: Refused("400", invalid=True) for n in (1, 2)}
    assert driving.start().status == "done"
    assert driving.kinds()[2:8] == ["requested", "said", "requested", "compacted", "requested", "responded"]


def test_a_question_is_asked_behind_what_others_appended() -> None:
    driving = driver("u", approval=True, between={3: [Said("x")]})
    assert driving.start().status == "waiting"
    assert driving.kinds()[-2:] == ["said", "asked"]


def test_a_result_is_saved_while_another_read_runs_whatever_others_append() -> None:
    desk = Desk(with_calls("rr"), 2000.0, None, {})
    steps = advance(desk)
    assert [name_of(next(steps)), name_of(steps.send(Reply(2001.0)))] == ["start r 1"] * 2
    assert name_of(steps.send(Reply(2002.0, None, (Ended((1, 0), "returned", "a"),)))) == "append settled"
    assert name_of(steps.send(Reply(2003.0, tail_of(desk, Said("x"))))) == "append settled"
    assert name_of(steps.send(Reply(2004.0))) == "gather"


@pytest.mark.parametrize("letters", ["rr", "rur", "r" * 10])
def test_nothing_is_waited_for_that_has_ended_meanwhile(letters: str) -> None:
    desk = Desk(with_calls(letters), 2000.0, None, {})
    steps, running, names = advance(desk), list[tuple[int, int]](), list[str]()
    step = next(steps)
    while not isinstance(step, Check):
        names.append(name_of(step))
        if isinstance(step, Start):
            running.append(step.call.key)
        if isinstance(step, Gather):
            assert running
        ended, running = (running[:1], running[1:]) if isinstance(step, Gather | Append) else ([], running)
        step = steps.send(Reply(2000.0, None, tuple(Ended(key, "returned", "x") for key in ended)))
    assert not running


def test_a_transcript_is_checked_again_behind_what_others_appended() -> None:
    driving = Driver([final()], problem="bad", between={1: [], 2: [Said("x")]})
    driving.append_outside(START, Taken(1, "host", 1))
    desk = Desk(driving.run, 1000.0, None, {})
    desk.write(Taken(2, "host", 2))
    steps = advance(desk)
    next(steps)
    assert isinstance(steps.send(Reply(1001.0, "bad")), Append)
    tail = tail_of(desk, Said("x"))
    assert type(steps.send(Reply(1002.0, tail))).__name__ == "Check"


def test_a_read_that_was_approved_while_its_answer_was_settled_may_fail() -> None:
    run = go(with_calls("r", approval=True), Asked(1, 0, "approval"), Decided(1, 0, "allow"))
    steps = advance(Desk(run, 2000.0, None, {}))
    assert name_of(next(steps)) == "start r 1"
    assert name_of(steps.send(Reply(2001.0))) == "gather"
    steps.send(Reply(2002.0, None, (Ended((1, 0), "raised", "It raised."),)))
    step = steps.send(Reply(2003.0))
    assert isinstance(step, Append)
    assert [entry.body.kind for entry in step.entries] == ["settled", "requested"]


def test_a_look_waits_for_what_others_appended() -> None:
    driving = driver("v", fuse=(6, "before"))
    with pytest.raises(Killed):
        driving.start()
    driving.fuse, driving.between = None, {driving.appends + 1: [Said("hello")]}
    driving.resume()
    assert driving.steps[:3] == ["append taken", "append taken", "lookup v"]


# ---- business keys


def test_the_same_deed_in_one_answer_waits_for_the_first_and_is_then_already_done() -> None:
    recorded = Recorded(terms("u"), key="deed")
    driving = Driver([asks("uuu", recorded=recorded), final()])
    driving.start()
    assert driving.effects == {(1, 0): 1}
    assert [e.body.outcome for e in driving.store if e.body.kind == "settled"] == ["ok", "already done", "already done"]  # type: ignore[union-attr]


def test_a_deed_in_doubt_is_looked_at_on_behalf_of_the_new_call() -> None:
    recorded = Recorded(terms("v"), key="deed")
    driving = Driver([asks("v", recorded=recorded), asks("v", recorded=recorded), final()])
    driving.ways, driving.seen = {"v": "raises behind its effect"}, {"v": Seen("cannot")}
    driving.fuse = (12, "before")
    with pytest.raises(Killed):
        driving.start()
    driving.fuse, driving.seen = None, {}
    driving.resume()
    assert driving.effects == {(1, 0): 1}
    assert driving.results()[1][0]["text"].startswith("Already done: the same deed was done by call t0 of turn 1 at")


# ---- a crash at every step


BATCHES = ["r", "i", "x", "v", "u", "ru", "ur", "rixvu", "uxr", "vv", "xi", "rr"]


def fuses(unkilled: Driver) -> list[tuple[int, str]]:
    """Return every place to be killed at: before and inside each step, and behind the last."""
    last = len(unkilled.steps) - 1
    inside = [at for at, name in enumerate(unkilled.steps) if name.startswith(("send", "start", "transact", "lookup"))]
    return [*((at, "before") for at in range(last + 1)), *((at, "inside") for at in inside), (last, "after")]


def check_after_crashes(driving: Driver, letters: str, expected: list[str]) -> None:
    run = driving.run
    assert run.state is State.DONE
    for letter, call in zip(letters, run.calls, strict=True):
        times = driving.effects[call.key]
        assert times <= (3 if letter in "ir" else 1)
        if letter == "x":
            assert times == (call.outcome == "ok")
        if call.outcome == "ok":
            assert times or letter == "r" or letter == "v"
        if call.outcome == "not started":
            assert times == 0
    for found, want in zip(driving.results(), expected, strict=True):
        assert found in (want, "found") or found.startswith(("Outcome unknown:", "Not started: an earlier call"))
    requests_extend_each_other(driving)


def requests_extend_each_other(driving: Driver) -> None:
    for before, after in zip(driving.sent, driving.sent[1:], strict=False):
        assert after.request[: len(before.request)] == before.request


@pytest.mark.parametrize("letters", BATCHES)
@pytest.mark.parametrize("prompt", [False, True])
def test_a_crash_anywhere_loses_nothing_and_repeats_nothing_unasked(letters: str, prompt: bool) -> None:
    unkilled = driver(letters, prompt=prompt)
    unkilled.start()
    expected = unkilled.results()
    for fuse in fuses(unkilled):
        driving = driver(letters, prompt=prompt, fuse=fuse)
        try:
            driving.start()
        except Killed:
            driving.fuse = None
            driving.resume()
        check_after_crashes(driving, letters, expected)
        if not set(letters) & {"u"}:
            assert [r.replace("found", "v did it") for r in driving.results()] == expected


@pytest.mark.parametrize("letters", ["i", "x", "v", "u", "ru", "xv"])
def test_two_crashes_anywhere_lose_nothing_and_repeat_nothing_unasked(letters: str) -> None:
    unkilled = driver(letters)
    unkilled.start()
    expected = unkilled.results()
    for first, second in ((a, b) for a in fuses(unkilled) for b in fuses(unkilled)):
        driving = driver(letters, fuse=first)
        for going, then in ((driving.start, second), (driving.resume, None), (driving.resume, None)):
            try:
                going()
                break
            except Killed:
                driving.fuse = then
        check_after_crashes(driving, letters, expected)


@pytest.mark.parametrize("letters", BATCHES)
@pytest.mark.parametrize("body", [Said("hello"), Cancelled(), Extended(Limits(turns=50))], ids=lambda body: body.kind)
def test_what_others_append_anywhere_is_kept_and_repeats_nothing(letters: str, body: Body) -> None:
    undisturbed = driver(letters)
    undisturbed.start()
    for at in range(2, undisturbed.appends + 1):
        driving = driver(letters, between={at: [body]})
        status = driving.start().status
        assert body in [entry.body for entry in driving.store]
        assert status == ("cancelled" if body == Cancelled() else "done")
        assert all(times == 1 for times in driving.effects.values())
        assert all(c.outcome == "not started" or driving.effects[c.key] for c in driving.run.calls)
        assert body.kind != "said" or {"role": "user", "content": "hello"} in driving.run.request
        requests_extend_each_other(driving)


def test_a_run_that_dies_at_every_take_up_is_held() -> None:
    driving = Driver([final()], fuse=(2, "before"))
    with pytest.raises(Killed):
        driving.start()
    for _ in range(3):
        with pytest.raises(Killed):
            driving.resume()
    rest = driving.resume()
    assert (rest.status, driving.steps) == ("held", ["append taken"])


# ---- a changed program


def program(**tools: Any) -> Program:
    return tools


def test_a_tool_that_is_gone_is_not_run() -> None:
    driving = driver("u", fuse=(4, "before"))
    with pytest.raises(Killed):
        driving.start()
    driving.fuse = None
    driving.resume(program())
    assert not driving.effects
    assert driving.results() == [
        "Failed: the tool u is not there any more. The call was not run; make it again as the tool is now."
    ]


def test_a_permission_for_a_tool_that_is_gone_since_ends_as_unknown() -> None:
    driving = driver("u", ways={"u": "raises"}, doubt="ask")
    driving.start()
    driving.append_outside(Decided(1, 0, "allow"))
    assert driving.resume(program()).status == "done"
    assert driving.results()[0].startswith("Outcome unknown: u(")


def test_a_read_that_counts_as_an_effect_by_now_may_have_begun() -> None:
    driving = driver("r", fuse=(4, "before"))
    with pytest.raises(Killed):
        driving.start()
    driving.fuse = None
    driving.resume(program(r=terms("u")))
    assert driving.results()[0].startswith("Outcome unknown: r(")
    assert "whether it started is not recorded" in driving.results()[0]


def test_a_read_that_may_have_begun_as_an_effect_is_not_told_as_not_started_when_cancelled() -> None:
    driving = driver("r", fuse=(4, "before"))
    with pytest.raises(Killed):
        driving.start()
    driving.fuse = None
    driving.append_outside(Cancelled())
    driving.resume(program(r=terms("u")))
    assert driving.results()[0].startswith("Outcome unknown: r(")


def test_a_desk_refuses_what_the_tables_refuse() -> None:
    desk = Desk(with_calls("u"), 2000.0, None, {})
    with pytest.raises(NotAllowed):
        desk.write(Requested())
    assert (desk.unsaved, desk.run.state) == ([], State.CALLS)


def test_a_result_of_a_call_that_is_long_settled_is_dropped() -> None:
    driving = driver("r")
    driving.start()
    desk = Desk(driving.run, 3000.0, None, {}, in_hand=[Ended((7, 7), "returned", "x"), Ended((1, 0), "returned", "x")])
    with pytest.raises(StopIteration):
        next(advance(desk))
    assert desk.run.call((1, 0)).state is CallState.SETTLED  # type: ignore[union-attr]


# ---- a wish to stop


def stopping_from(entry: str) -> list[str]:
    """Drive a batch by hand and ask to stop once an entry of this kind is saved; return the kinds saved and the end."""
    desk = Desk(with_calls("ru"), 3000.0, None, {})
    steps, kinds, stopping, value = advance(desk), [], False, None
    step = next(steps)
    try:
        while True:
            ended: tuple[Ended, ...] = ()
            if isinstance(step, Append):
                kinds += [e.body.kind for e in step.entries]
                stopping = stopping or entry in kinds
            elif isinstance(step, Gather):
                ended = tuple(Ended(key, "returned", "x") for key in desk.running)
            else:
                kinds.append(type(step).__name__)
            step = steps.send(Reply(3000.0, value, ended, stopping))
    except Interrupted:
        return [*kinds, "Interrupted"]


def test_a_run_that_is_asked_to_stop_waits_for_its_tools_and_saves_their_results() -> None:
    assert stopping_from("intended") == ["Start", "intended", "Start", "settled", "settled", "Interrupted"]


def test_a_run_that_is_asked_to_stop_intends_nothing_more() -> None:
    desk = Desk(with_calls("u"), 3000.0, None, {}, stopping=True)
    with pytest.raises(Interrupted):
        next(advance(desk))
    assert desk.unsaved == []


def test_what_others_append_while_a_run_stops_is_read_before_it_ends() -> None:
    desk = Desk(with_calls("r"), 3000.0, None, {}, stopping=True, in_hand=[Ended((1, 0), "returned", "x")])
    steps = advance(desk)
    assert isinstance(next(steps), Append)
    said = seal((Said("wait"),), desk.saved.head, 3000.0)
    again = steps.send(Reply(3000.0, Tail(said), stopping=True))
    assert [e.body.kind for e in again.entries] == ["settled"]  # type: ignore[union-attr]
    with pytest.raises(Interrupted):
        steps.send(Reply(3000.0, None, stopping=True))


def test_a_run_that_is_asked_to_stop_does_not_ask_the_model_again() -> None:
    steps = advance(Desk(go(NEW, START, TAKEN), 3000.0, None, {}))
    assert [type(next(steps)), type(steps.send(Reply(3000.0)))] == [Check, Append]
    assert isinstance(steps.send(Reply(3000.0)), Send)
    assert isinstance(steps.send(Reply(3000.0, Lost("overloaded"))), Pause)
    with pytest.raises(Interrupted):
        steps.send(Reply(3001.0, stopping=True))


def test_a_wait_that_is_too_long_for_a_process_leaves_the_run_resumable() -> None:
    steps = advance(Desk(go(NEW, START, TAKEN), 3000.0, None, {}))
    assert [type(s) for s in (next(steps), *(steps.send(Reply(3000.0)) for _ in range(2)))] == [Check, Append, Send]
    with pytest.raises(ModelUnavailable, match="asks to wait 3600 s"):
        steps.send(Reply(3000.0, Lost("HTTP 429", wait=3600.0)))


def test_no_attempt_starts_once_a_look_was_overtaken_by_a_wish_to_stop() -> None:
    run = go(with_calls("v"), Intended(1, 0), Taken(2, "host", 8, clean=False))
    steps = advance(Desk(run, 9000.0, None, {}))
    assert isinstance(next(steps), LookUp)
    with pytest.raises(Interrupted):
        steps.send(Reply(9000.0, Seen("did not"), stopping=True))


# ---- crashes in a row


def test_a_run_that_crashes_rests_before_it_goes_on() -> None:
    driving = driver("r")
    pauses = []
    for fuse in (4, 2, 2, 2):
        driving.fuse = (fuse, "before")
        with pytest.raises(Killed):
            driving.start() if not driving.store else driving.resume(after=0.0)
        pauses.append([step for step in driving.steps if step.startswith("pause")])
    driving.fuse = None
    assert driving.resume(after=0.0).status == "held"
    # Counted from the last entry of who died: his own take-up, since he died right behind his rest.
    assert pauses == [[], ["pause 1"], ["pause 9"], ["pause 51"]]


def test_a_run_that_crashed_long_ago_goes_on_at_once() -> None:
    driving = driver("r")
    driving.fuse = (4, "before")
    with pytest.raises(Killed):
        driving.start()
    driving.fuse = None
    assert driving.resume(after=1.0).status == "done"
    assert not any(step.startswith("pause") for step in driving.steps)


def test_who_speaks_during_the_rest_is_heard_behind_it() -> None:
    driving = driver("r")
    driving.fuse = (2, "after")
    with pytest.raises(Killed):
        driving.start()
    driving.fuse, driving.between = None, {driving.appends + 1: [Said("hurry")]}
    assert driving.resume(after=0.0).status == "done"
    assert driving.kinds().count("said") == 1


def test_what_a_backup_puts_in_doubt_is_not_written_twice() -> None:
    run = go(with_calls("uu", approval=True), Asked(1, 0, "approval"), Asked(1, 1, "approval"))
    unsaved = seal([Taken(2, "host", 9), *restored(run)], run.head, 1000.0)
    desk = Desk(run, 1000.0, None, {}, unsaved=list(unsaved))
    steps = advance(desk)
    assert isinstance(next(steps), Check)
    assert isinstance(steps.send(Reply(1000.0)), Append)
    denied = seal([Decided(1, 0, "deny", "Denied: no.")], run.head, 1001.0)
    assert isinstance(steps.send(Reply(1001.0, Tail(denied))), Check)
    again = steps.send(Reply(1001.0))
    assert isinstance(again, Append)
    assert [entry.body.kind for entry in again.entries] == ["taken", "settled", "requested"]


def test_a_verify_without_a_timeout_may_take_a_minute() -> None:
    looked_at = go(with_calls("v"), Intended(1, 0), Taken(2, "host", 9))
    steps = advance(Desk(looked_at, 2000.0, None, {}))
    assert next(steps) == LookUp(looked_at.calls[0], 60.0)
    steps = advance(Desk(go(with_calls("v", timeout=5.0), Intended(1, 0), Taken(2, "host", 9)), 2000.0, None, {}))
    look = next(steps)
    assert isinstance(look, LookUp)
    assert look.timeout == 5.0


def test_an_attempt_that_an_earlier_driver_reported_as_alive_is_dead_from_when_its_end_is_heard() -> None:
    run = go(with_calls("v"), Intended(1, 0), Settled(1, 0, "unknown", "alive"))
    desk = Desk(run, 9000.0, None, {}, in_hand=[Ended((1, 0), "raised", "It raised OSError.")])
    next(advance(desk))
    assert desk.deaths == {(1, 0): Death(9000.0, "It raised OSError.")}


def test_what_a_look_asks_for_waits_for_a_place() -> None:
    run = go(with_calls("vr", timeout=10.0), Intended(1, 0))
    steps = advance(Desk(run, 9_000.0, None, {}, running={(1, 1)}, parallel=1))
    assert name_of(next(steps)) == "lookup v"
    assert name_of(steps.send(Reply(9_000.0, Seen("did not")))) == "gather"
    ended = (Ended((1, 1), "returned", "read"),)
    assert name_of(steps.send(Reply(9_001.0, None, ended))) == "append settled"


def test_what_a_look_asks_for_is_decided_anew_behind_what_ended_meanwhile() -> None:
    run = go(with_calls("vrr", timeout=10.0), Intended(1, 0))
    steps = advance(Desk(run, 9_000.0, None, {}, running={(1, 1), (1, 2)}, parallel=1))
    assert name_of(next(steps)) == "lookup v"
    ended = (Ended((1, 1), "returned", "read"),)
    assert name_of(steps.send(Reply(9_001.0, Seen("did not"), ended))) == "append settled"
