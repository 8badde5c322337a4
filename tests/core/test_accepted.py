"""Work that another side has accepted: when it is polled, what its poll says, what the model is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from core.driving import Driver, Killed, name_of
from core.making import asks, final, go, terms, with_calls
from midstride.core.journal import Accepted, Asked, Body, Cancelled, Decided, Extended, Intended, Said, Settled
from midstride.core.moves import Rest, next_move
from midstride.core.polling import POLL_SECONDS, POLL_SECONDS_BESIDE, accepted, after_poll
from midstride.core.reconcile import Execute, Seen, Write
from midstride.core.settle import Desk, advance
from midstride.core.steps import Append, Ended, Gather, PollUp, Reply

# ---- accepted work is polled


def polled(*answers: Seen) -> Driver:
    driving = Driver([asks("v"), final()], fuse=(6, "before"), polls=list(answers))
    with pytest.raises(Killed):
        driving.start()
    driving.append_outside(Accepted(1, 0, "job 7"))
    driving.fuse = None
    return driving


def test_accepted_work_is_polled_until_it_is_done() -> None:
    driving = polled(Seen("pending", after=1000.0), Seen("happened", "sent"))
    rest = driving.resume()
    assert driving.steps == ["append taken", "pollup v", "append accepted"]
    assert (rest.status, rest.again_at) == ("waiting", 3000.0)
    assert driving.resume(clean=True).status == "done"
    assert driving.steps[:4] == ["append taken", "pollup v", "check", "append settled requested"]
    assert driving.results() == ["sent"]
    assert driving.now == 3000.0


def test_a_poll_that_tells_nothing_settles_nothing_and_is_asked_ever_more_rarely() -> None:
    down = Seen("failed", why="It raised ConnectionError.")
    driving = polled(*[down] * 7, Seen("pending", after=5.0), down)
    waits = []
    for _ in range(9):
        again_at = driving.resume(clean=True, after=10_000.0).again_at or 0.0
        waits.append(again_at - driving.now)
    assert waits == [10.0, 60.0, 300.0, 900.0, 3600.0, 3600.0, 3600.0, 5.0, 10.0]
    (call,) = driving.run.calls
    assert (call.state, call.handle, call.failures, call.failure) == ("accepted", "job 7", 1, down.why)


def test_a_run_whose_polls_fail_says_so_while_it_waits() -> None:
    driving = polled(*[Seen("failed", why="It raised ConnectionError.")] * 2)
    told = "its last poll told nothing: It raised ConnectionError."
    why = driving.resume(clean=True).why
    assert why.endswith(f"(accepted, to be asked again at 1970-01-01 00:33:30 UTC; {told})")
    assert "told nothing, as 2 in a row: It raised" in driving.resume(clean=True).why


def test_a_poll_is_not_due_before_its_time_and_force_makes_it_due() -> None:
    run = go(with_calls("v"), Intended(1, 0), Accepted(1, 0, "job", again_at=3000.0))
    early = next_move(run, now=2999.999)
    assert isinstance(early, Rest)
    assert (early.status, early.again_at) == ("waiting", 3000.0)
    assert type(next_move(run, now=3000.0)).__name__ == "Poll"
    assert type(next_move(go(run, Extended(run.limits, by="a person")), now=2000.0)).__name__ == "Rest"
    assert type(next_move(go(run, Extended(run.limits, by="force")), now=2000.0)).__name__ == "Poll"


def test_while_other_tools_run_polls_go_on_in_time() -> None:
    run = go(with_calls("vr"), Intended(1, 0), Accepted(1, 0, "job", again_at=3000.0))
    steps = advance(Desk(run, 2000.0, None, {}, running={(1, 1)}))
    assert next(steps) == Gather(3000.0)
    assert name_of(steps.send(Reply(3000.0))) == "pollup v"
    assert name_of(steps.send(Reply(3001.0, Seen("pending", after=9.0)))) == "append accepted"
    assert steps.send(Reply(3002.0)) == Gather(3010.0)


def test_an_effect_waits_behind_one_that_is_accepted_and_a_read_does_not() -> None:
    run = go(with_calls("vru"), Intended(1, 0), Accepted(1, 0, "job", again_at=9000.0))
    move = next_move(run, now=2000.0)
    assert isinstance(move, Execute)
    assert move.call.key == (1, 1)
    rest = next_move(go(run, Settled(1, 1, "ok", "read")), now=2000.0)
    assert (type(rest), getattr(rest, "again_at", None)) == (Rest, 9000.0)


def test_a_poll_behind_an_open_effect_is_no_time_to_come_back_at() -> None:
    accepted = [entry for index in (0, 1) for entry in (Intended(1, index), Accepted(1, index, "job"))]
    run = go(
        with_calls("vu"), *accepted, Accepted(1, 0, "job", again_at=9000.0), Accepted(1, 1, "job", again_at=5000.0)
    )
    rest = next_move(run, now=2000.0)
    assert (type(rest), getattr(rest, "again_at", None)) == (Rest, 9000.0)


def test_the_earliest_of_several_polls_is_when_to_come_back() -> None:
    accepted = [entry for index in (0, 1) for entry in (Intended(1, index), Accepted(1, index, "job"))]
    run = go(
        with_calls("rr"), *accepted, Accepted(1, 0, "job", again_at=9000.0), Accepted(1, 1, "job", again_at=5000.0)
    )
    rest = next_move(run, now=2000.0)
    assert (type(rest), getattr(rest, "again_at", None)) == (Rest, 5000.0)


@pytest.mark.parametrize("tool", ["r", "i", "v", "u"])
def test_work_that_was_not_carried_out_is_a_failure_with_its_own_reason(tool: str) -> None:
    run = go(with_calls(tool), Intended(1, 0), Accepted(1, 0, "job 7"))
    (entry,) = after_poll(run, run.calls[0], Seen("did not", why="The disk was full."), 2000.0, None)
    wanted = (
        'Failed: The other side accepted it (its handle is "job 7") and then did not carry it out. The disk was full.'
    )
    assert entry == Settled(1, 0, "failed", wanted)


def test_work_that_was_not_carried_out_is_a_doubt_where_an_earlier_attempt_may_have_happened() -> None:
    asked = go(with_calls("u", doubt="ask"), Intended(1, 0), Asked(1, 0, "doubt"), Decided(1, 0, "allow"))
    run = go(asked, Intended(1, 0), Accepted(1, 0, "job 7"))
    assert after_poll(run, run.calls[0], Seen("did not"), 2000.0, None) == (Asked(1, 0, "doubt"),)
    run = go(with_calls("u"), Intended(1, 0, imported=True))
    run = go(run, Accepted(1, 0, "job 7"))
    (entry,) = after_poll(run, run.calls[0], Seen("did not", why="Gone."), 2000.0, None)
    assert isinstance(entry, Settled)
    assert entry.outcome == "unknown"
    assert "did not carry it out, but an earlier attempt may have taken effect. Gone." in entry.content


def test_a_cancelled_run_says_that_the_other_side_may_go_on() -> None:
    run = go(with_calls("u"), Intended(1, 0), Accepted(1, 0, "job 7"), Cancelled())
    move = next_move(run, now=2000.0)
    assert isinstance(move, Write)
    (settled,) = move.bodies
    assert isinstance(settled, Settled)
    assert settled.outcome == "unknown"
    assert 'The other side accepted it (its handle is "job 7"), which may still carry it out.' in settled.content


# ---- an attempt that hands its work over


def handed(tool: str, *entries: Body, alive: bool = False, **more: Any) -> list[str]:
    """Return what is written when an attempt of the one call ends with a handle."""
    run = go(with_calls(tool, **more), *entries)
    desk = Desk(run, 2000.0, None, {}, running={(1, 0)})
    desk.hear(Reply(2000.0, None, (Ended((1, 0), "accepted", "job 7", alive),)))
    step = next(advance(desk))
    return [entry.body.kind for entry in step.entries] if isinstance(step, Append) else [name_of(step)]


def test_a_handle_is_saved_before_its_work_is_asked_about() -> None:
    assert handed("u", Intended(1, 0)) == ["accepted"]


def test_a_handle_counts_while_its_tool_goes_on() -> None:
    assert handed("u", Intended(1, 0), alive=True) == ["accepted"]


def test_a_read_that_hands_work_over_writes_its_intent_too() -> None:
    assert handed("r") == ["intended", "accepted"]
    asked = (Asked(1, 0, "approval"), Decided(1, 0, "allow"))
    assert handed("r", *asked, approval=True) == ["intended", "accepted"]


def test_a_handle_that_comes_behind_a_result_changes_nothing() -> None:
    run = go(with_calls("uu"), Intended(1, 0), Settled(1, 0, "unknown", "?"))
    assert accepted(run.calls[0], "job 7", terms("u")) == ()


def test_a_tool_that_goes_on_behind_its_handle_may_return_the_result_itself() -> None:
    run = go(with_calls("u"), Intended(1, 0), Accepted(1, 0, "job 7"))
    desk = Desk(run, 2000.0, None, {}, alive={(1, 0)})
    steps = advance(desk)
    assert name_of(next(steps)) == "pollup u"
    steps.send(Reply(2000.0, Seen("cannot"), (Ended((1, 0), "returned", "sent"),)))
    step = steps.send(Reply(2000.0))
    assert isinstance(step, Append)
    assert [entry.body for entry in step.entries][:1] == [Settled(1, 0, "ok", "sent")]


def test_a_tool_that_raises_behind_its_handle_changes_nothing() -> None:
    run = go(with_calls("u"), Intended(1, 0), Accepted(1, 0, "job 7", again_at=9000.0))
    desk = Desk(run, 2000.0, None, {}, alive={(1, 0)})
    desk.hear(Reply(2000.0, None, (Ended((1, 0), "raised", "It raised."),)))
    with pytest.raises(StopIteration) as end:
        next(advance(desk))
    assert end.value.value.status == "waiting"


def test_a_result_that_a_poll_gave_is_kept_behind_what_others_append() -> None:
    driving = polled(Seen("happened", "sent"))
    driving.between = {driving.appends + 2: [Cancelled()]}
    assert driving.resume().status == "cancelled"
    assert driving.results() == ["sent"]


def test_accepted_work_that_nobody_knows_of_is_unknown() -> None:
    driving = polled(Seen("cannot", why="Its server is gone."))
    driving.resume()
    wanted = (
        'The other side accepted it (its handle is "job 7"), and it cannot be told what came of it. Its server is gone.'
    )
    assert wanted in driving.results()[0]


def test_a_poll_that_is_pending_waits_for_nothing_that_has_ended() -> None:
    run = go(with_calls("vr"), Intended(1, 0), Accepted(1, 0))
    steps = advance(Desk(run, 2000.0, None, {}, running={(1, 1)}))
    assert name_of(next(steps)) == "pollup v"
    ended = (Ended((1, 1), "returned", "read"),)
    assert name_of(steps.send(Reply(2001.0, Seen("pending", after=5.0), ended))) == "append settled accepted"


def test_a_poll_waits_for_what_others_appended() -> None:
    driving = polled(Seen("happened", "sent"))
    driving.between = {driving.appends + 1: [Said("hello")]}
    driving.resume()
    assert driving.steps[:3] == ["append taken", "append taken", "pollup v"]


def test_work_that_was_not_carried_out_is_no_failure_while_its_attempt_goes_on() -> None:
    run = go(with_calls("u"), Intended(1, 0), Accepted(1, 0, "job 7"))
    steps = advance(Desk(run, 2000.0, None, {}, alive={(1, 0)}))
    assert name_of(next(steps)) == "pollup u"
    steps.send(Reply(2000.0, Seen("did not", why="no such job")))
    step = steps.send(Reply(2000.0))  # the next request is in order
    assert isinstance(step, Append)
    settled = step.entries[0].body
    assert isinstance(settled, Settled)
    assert (settled.outcome, "its attempt is still running" in settled.content) == ("unknown", True)


@pytest.mark.parametrize(("running", "seconds"), [((), POLL_SECONDS), (((1, 1),), POLL_SECONDS_BESIDE)])
def test_a_poll_beside_running_tools_may_take_no_longer_than_a_moment(running: Any, seconds: float) -> None:
    settled = () if running else (Settled(1, 1, "ok", "read"),)
    run = go(with_calls("vr"), Intended(1, 0), Accepted(1, 0), *settled)
    step = next(advance(Desk(run, 2000.0, None, {}, running=set(running), parallel=1)))
    assert isinstance(step, PollUp)
    assert step.timeout == seconds
