"""The one next move: asking, resting, walking the calls; capped, held and waiting, which no entry stores."""

from __future__ import annotations

import pytest

from core.making import ASK, ASKED, KILLED, START, TAKEN, USER, answer, asks, final, go, made, terms, with_calls
from midstride.core.journal import (
    Accepted,
    Asked,
    Body,
    Cancelled,
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
from midstride.core.moves import (
    Collect,
    Move,
    Request,
    Rest,
    capped,
    crashed,
    held,
    next_move,
    plan_calls,
    rested_at,
    stopped_because,
)
from midstride.core.reconcile import Execute, Later, Live, Look, Poll, Write
from midstride.core.run import NEW, Run
from midstride.errors import NotAllowed

INTENT = Intended(1, 0)
NOW = 2000.0


def move(run: Run, running: str = "", now: float = NOW) -> Move:
    """Return the next move while the calls whose indexes stand in *running* run."""
    return next_move(run, now=now, live=Live(running=frozenset((1, int(index)) for index in running)))


# ---- outside of a turn


def test_a_run_that_has_not_started_has_no_move() -> None:
    with pytest.raises(NotAllowed, match="the run has not started: its journal is empty"):
        move(NEW)


@pytest.mark.parametrize(
    ("bodies", "why"),
    [
        ((START, TAKEN), "a request is owed"),
        (ASKED, "a request was sent and its answer never recorded: it is sent again"),
    ],
)
def test_a_request_that_is_owed_is_made(bodies: tuple[Body, ...], why: str) -> None:
    assert move(made(*bodies)) == Request(why)


CUT = Responded(answer("max_tokens"))
PAUSED = Responded(answer("pause_turn"))


@pytest.mark.parametrize(
    ("bodies", "status", "why"),
    [
        ((final(),), "done", "the model has given its final answer"),
        ((Failed("400: no"),), "failed", "400: no"),
        ((Responded(answer("refusal")),), "failed", "the model's answer ended with refusal, which runs nothing and is no answer"),  # noqa: E501
        ((Responded(answer("tomorrow")),), "failed", "the model's answer ended with tomorrow, which runs nothing and is no answer"),  # noqa: E501
        ((CUT, ASK, CUT, ASK, CUT), "cut", "the answer was cut again and again, even with more room for it"),
        ((*[PAUSED, ASK] * 10, PAUSED), "failed", "the answer was paused too many times in a row"),
        ((Cancelled("enough"),), "cancelled", "enough"),
        ((Cancelled(),), "cancelled", "cancelled"),
    ],
)  # fmt: skip
def test_a_run_that_has_ended_rests_and_says_why(bodies: tuple[Body, ...], status: str, why: str) -> None:
    assert move(made(*ASKED, *bodies)) == Rest(status, why)


def test_why_a_run_stopped_is_asked_of_the_run() -> None:
    assert stopped_because(made(*ASKED, Failed("400"))) == "400"


# ---- limits


def limited(**limits: float) -> Run:
    return made(Started("t", "anthropic", [USER], "n", limits=Limits(**{"turns": None, **limits})), TAKEN, ASK)  # type: ignore[arg-type]


USAGE = {"input_tokens": 90, "output_tokens": 10}


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (limited(turns=1), "1 requests were made, the limit is 1 turns"),
        (go(limited(tokens=100), asks("r", ), Settled(1, 0, "ok", "x")), None),
        (go(limited(seconds=1.0), at=1.0), "1 seconds were worked, the limit is 1"),
        (limited(), None),
        (limited(turns=2, tokens=1, seconds=60.0, cost=0.1), None),
    ],
)  # fmt: skip
def test_a_limit_that_is_reached_caps_the_run(run: Run, why: str | None) -> None:
    assert capped(run) == why
    assert move(run) == (Rest("capped", why) if why else move(run))


def test_tokens_are_counted_over_all_requests() -> None:
    run = go(limited(tokens=100), final(usage=USAGE), Said("more"))
    assert move(run) == Rest("capped", "100 tokens were used, the limit is 100")
    assert isinstance(move(go(run, Extended(Limits(tokens=101)))), Request)


def test_costs_are_counted_as_they_were_recorded() -> None:
    run = go(limited(cost=0.25), Responded(final().response, cost=249_999_999), Said("more"))
    assert isinstance(move(run), Request)
    run = go(run, ASK, Responded(final().response, cost=1), Said("more"))
    assert move(run) == Rest("capped", "a cost of 0.25 was reached, the limit is 0.25")
    assert isinstance(move(go(run, Extended(Limits(cost=0.250000001)))), Request)


def test_a_capped_run_still_settles_its_calls() -> None:
    assert isinstance(move(go(limited(turns=1), asks("u"))), Execute)


# ---- held


def taken_up(run: Run, times: int) -> Run:
    return go(run, *[KILLED] * times)


def test_the_fourth_take_up_without_progress_holds_the_run() -> None:
    assert not held(taken_up(made(*ASKED), 3))
    assert move(taken_up(made(*ASKED), 4)) == Rest(
        "held",
        "it was taken up 4 times in a row without progress, the last time while the model was asked: something ends it "
        "every time",
    )


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (made(*ASKED), "while the model was asked"),
        (go(with_calls("vu"), Intended(1, 0)), 'while t0 v({"n": 0}) was under way'),
        (with_calls("ru"), 'while t0 r({"n": 0}) was due'),
        (made(START, TAKEN), "before a request was made"),
    ],
)
def test_a_held_run_tells_what_it_was_doing(run: Run, told: str) -> None:
    found = move(taken_up(run, 4))
    assert isinstance(found, Rest)
    assert f"the last time {told}:" in found.why
    assert crashed(taken_up(run, 1)) == f"its process ended once without progress, the last time {told}"
    assert crashed(taken_up(run, 2)) == f"its process ended 2 times in a row without progress, the last time {told}"


def test_a_run_that_crashes_rests_longer_each_time() -> None:
    run = made(*ASKED)
    assert rested_at(run) == 0.0
    pauses = []
    for times in (1, 2, 3, 4):
        crash = taken_up(run, times)
        assert crash.left_at is not None
        pauses.append(rested_at(crash) - crash.left_at)
    assert pauses == [1.0, 10.0, 60.0, 60.0]


def test_a_clock_that_went_back_makes_no_longer_rest() -> None:
    run = made(*ASKED)
    assert run.at is not None
    assert rested_at(go(run, KILLED, at=run.at - 3_600.0)) == run.at - 3_600.0 + 1.0


def test_progress_and_a_holder_that_ended_in_order_are_followed_by_no_rest() -> None:
    assert rested_at(go(made(*ASKED), Taken(2, "h", 1, clean=True))) == 0.0
    assert rested_at(go(taken_up(with_calls("r"), 2), Settled(1, 0, "ok", "x"))) == 0.0
    assert rested_at(go(taken_up(made(*ASKED), 2), Extended(Limits(), by="force"))) == 0.0


def test_a_held_run_is_held_before_it_is_capped() -> None:
    found = move(taken_up(limited(turns=1), 4))
    assert isinstance(found, Rest)
    assert found.status == "held"


@pytest.mark.parametrize("bodies", [(), (INTENT,), (INTENT, Accepted(1, 0))])
def test_a_held_run_starts_looks_and_polls_nothing(bodies: tuple[Body, ...]) -> None:
    found = move(taken_up(go(with_calls("v"), *bodies), 4))
    assert isinstance(found, Rest)
    assert found.status == "held"


def test_what_needs_no_running_is_still_settled_while_held() -> None:
    found = move(taken_up(go(with_calls("ru"), Intended(1, 1)), 4))
    assert isinstance(found, Write)
    assert isinstance(found.bodies[0], Settled)
    assert (found.bodies[0].index, found.bodies[0].outcome) == (1, "unknown")


def test_more_limits_end_the_hold() -> None:
    assert isinstance(move(go(taken_up(made(*ASKED), 4), Extended(Limits()))), Request)


# ---- the walk through the calls


def started(found: Move) -> tuple[int, bool]:
    assert isinstance(found, Execute)
    return (found.call.index, found.intend)


def test_the_first_call_that_can_move_moves() -> None:
    assert started(move(with_calls("ru"))) == (0, False)
    assert started(move(with_calls("ru"), running="0")) == (1, True)


def test_an_effect_waits_for_the_effects_before_it() -> None:
    assert move(with_calls("uu"), running="0") == Collect("tools are running")
    assert started(move(go(with_calls("uu"), INTENT, Settled(1, 0, "ok", "x")))) == (1, True)


def test_a_read_runs_beside_an_effect() -> None:
    assert started(move(with_calls("uur"), running="0")) == (2, False)


def test_an_effect_waits_for_one_that_a_person_is_asked_about() -> None:
    run = go(with_calls("ur", approval=False), Asked(1, 0, "approval"))
    assert started(move(run)) == (1, False)
    waits = go(with_calls("uu"), Asked(1, 0, "approval"))
    assert move(waits) == Rest(
        "waiting",
        "nothing can move until a person decides, or the other side is done: "
        't0 u({"n": 0}) (asking approval), t1 u({"n": 1}) (new)',
    )


def test_a_person_may_be_asked_about_two_calls_at_once() -> None:
    run = go(with_calls("uu", approval=True), Asked(1, 0, "approval"))
    found = move(run)
    assert isinstance(found, Write)
    assert found.bodies == (Asked(1, 1, "approval"),)


def test_a_sunk_effect_is_settled_and_reads_still_run() -> None:
    run = go(with_calls("uru"), INTENT, Settled(1, 0, "failed", "no"))
    assert started(move(run)) == (1, False)
    found = move(run, running="1")
    assert isinstance(found, Write)
    assert isinstance(found.bodies[0], Settled)
    assert (found.bodies[0].index, found.bodies[0].outcome) == (2, "not started")


def test_a_failed_read_sinks_nothing() -> None:
    assert started(move(go(with_calls("ru"), Settled(1, 0, "failed", "no")))) == (1, True)


def test_a_look_and_a_poll_are_moves() -> None:
    assert isinstance(move(go(with_calls("v"), INTENT, KILLED)), Look)
    assert isinstance(move(go(with_calls("v"), INTENT, Accepted(1, 0))), Poll)


def test_a_look_that_is_not_due_is_waited_for() -> None:
    found = move(go(with_calls("v", settle=60.0), INTENT, KILLED), now=1010.0)
    assert isinstance(found, Later)
    assert found.until == 1065.0


def test_a_permission_for_a_live_attempt_waits_for_its_end() -> None:
    run = go(with_calls("u"), INTENT, Asked(1, 0, "doubt"), Decided(1, 0, "allow"))
    found = next_move(run, now=NOW, live=Live(alive=frozenset({(1, 0)})))
    assert isinstance(found, Rest)
    assert found.status == "waiting"


def test_a_cancelled_run_waits_for_what_runs_and_settles_the_rest() -> None:
    run = go(with_calls("uu"), INTENT, Cancelled())
    found = move(run, running="0")
    assert isinstance(found, Write)
    assert isinstance(found.bodies[0], Settled)
    assert (found.bodies[0].index, found.bodies[0].outcome) == (1, "not started")
    assert isinstance(move(go(run, *found.bodies), running="0"), Collect)


def test_the_same_deed_in_one_answer_waits_for_the_first() -> None:
    run = with_calls("uu", recorded=Recorded(terms("u"), key="deed"))
    assert isinstance(move(go(run, INTENT), running="0"), Collect)


def test_a_plan_says_what_would_become_of_each_call_by_itself() -> None:
    run = go(with_calls("uvux"), INTENT, Settled(1, 0, "ok", "x"), Intended(1, 1), Settled(1, 1, "failed", "no"))
    planned = plan_calls(go(run, Asked(1, 2, "approval")), now=NOW)
    assert [(call.index, type(move).__name__) for call, move in planned] == [(2, "Write"), (3, "Write")]
    assert plan_calls(made(*ASKED), now=NOW) == []


def test_a_plan_lets_reads_run_and_looks_at_what_may_have_happened() -> None:
    planned = plan_calls(go(with_calls("ruv"), Settled(1, 0, "failed", "no"), Intended(1, 2), KILLED), now=NOW)
    assert [(call.index, type(move).__name__) for call, move in planned] == [(1, "Execute"), (2, "Look")]


def test_no_move_is_asked_without_a_reason() -> None:
    for run in (made(START), made(*ASKED, final()), with_calls("u"), go(with_calls("v"), INTENT)):
        assert move(run).why
