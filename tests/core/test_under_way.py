"""An answer that the model's API goes on with by itself: its handle is recorded, and it is fetched, not asked again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from core.driving import Driver, Killed
from core.making import ASK, ASKED, KILLED, asks, final, go, made, with_calls
from midstride.core.journal import Accepted, Cancelled, Extended, Failed, Limits, Said, decode, encode
from midstride.core.moves import Fetch, Request, Rest, next_move
from midstride.core.run import State
from midstride.core.settle import Desk, advance
from midstride.core.steps import Answered, Append, Lost, Refused, Reply, Send, UnderWay
from midstride.errors import NotAllowed

HANDLE = {"response": "resp_1"}
SAID = Said("more")
TAKEN_ON = Accepted(1, None, HANDLE)


@dataclass
class Hearing(Driver):
    """A driver that notes with which handle the model was asked."""

    handles: list[Any] = field(default_factory=list)

    def do(self, step: Any) -> Any:
        if isinstance(step, Send):
            self.handles.append(step.handle)
        return super().do(step)


def test_the_handle_of_an_answer_is_kept_until_the_answer_or_another_request_comes() -> None:
    run = made(*ASKED, TAKEN_ON)
    assert (run.state, run.handle) == (State.AWAY, HANDLE)
    assert go(run, final()).handle is None
    assert go(run, Accepted(1, None, None)).handle is None
    assert go(run, ASK).handle is None


def test_an_entry_of_an_answer_under_way_is_read_again() -> None:
    line = encode(4, 1.0, TAKEN_ON)
    assert line == '{"seq":4,"at":1.0,"kind":"accepted","turn":1,"index":null,"handle":{"response":"resp_1"}}'
    assert decode(line, "", 4).body == TAKEN_ON


def test_that_the_api_has_taken_it_on_is_progress_and_that_nothing_comes_of_it_is_none() -> None:
    run = go(made(*ASKED), KILLED)
    assert (run.takes, go(run, TAKEN_ON).takes, go(run, Accepted(1, None, None)).takes) == (1, 0, 1)


def test_no_call_is_meant_by_an_entry_without_an_index() -> None:
    with pytest.raises(NotAllowed, match="a run that is calls has no room for 'accepted'"):
        go(with_calls("u"), TAKEN_ON)


def test_an_answer_under_way_is_fetched_also_where_no_request_is_allowed_any_more() -> None:
    run = go(made(*ASKED), Extended(Limits(turns=1)))
    assert isinstance(next_move(run, now=0.0), Rest)
    assert isinstance(next_move(go(run, TAKEN_ON), now=0.0), Fetch)
    assert next_move(go(run, TAKEN_ON, Accepted(1, None, None)), now=0.0).status == "capped"  # type: ignore[union-attr]


def test_a_held_run_fetches_nothing() -> None:
    run = go(made(*ASKED), TAKEN_ON, *[KILLED] * 4)
    assert next_move(run, now=0.0).status == "held"  # type: ignore[union-attr]


def test_what_was_said_meanwhile_waits_for_the_answer() -> None:
    run = go(made(*ASKED), TAKEN_ON, SAID)
    assert isinstance(next_move(run, now=0.0), Fetch)
    assert isinstance(next_move(go(run, final()), now=0.0), Request)


def test_the_handle_is_saved_before_the_answer_is_heard() -> None:
    driving = Hearing([final()], sends={1: UnderWay(HANDLE)})
    assert driving.start().status == "done"
    assert driving.steps == [
        "check", "append started taken requested", "send", "append accepted", "send", "append responded",
    ]  # fmt: skip
    assert (driving.handles, driving.run.turns) == ([None, HANDLE], 1)


@pytest.mark.parametrize("fuse", [(3, "after"), (4, "before"), (4, "inside"), (4, "after"), (5, "before")])
def test_a_process_killed_behind_the_handle_has_asked_once(fuse: tuple[int, str]) -> None:
    driving = Hearing([final()], sends={1: UnderWay(HANDLE)}, fuse=fuse)
    with pytest.raises(Killed):
        driving.start()
    driving.fuse = None
    assert driving.resume().status == "done"
    assert driving.steps == ["append taken", "send", "append responded"]
    assert (driving.handles[-1], driving.run.turns) == (HANDLE, 1)


def test_a_process_killed_before_the_handle_was_saved_asks_again_and_counts_it() -> None:
    driving = Hearing([final()], sends={1: UnderWay(HANDLE)}, fuse=(3, "before"))
    with pytest.raises(Killed):
        driving.start()
    driving.fuse = None
    assert driving.resume().status == "done"
    assert (driving.handles, driving.run.turns) == ([None, None], 2)


def test_a_break_while_it_is_fetched_is_waited_out_and_fetched_again() -> None:
    driving = Hearing([final()], sends={1: UnderWay(HANDLE), 2: Lost("cut"), 3: Lost("429", wait=7.0)})
    driving.start()
    assert driving.steps[3:] == [
        "append accepted", "send", "pause 1", "send", "pause 7", "send", "append responded",
    ]  # fmt: skip
    assert (driving.handles, driving.run.turns) == ([None, HANDLE, HANDLE, HANDLE], 1)


def test_an_answer_of_which_nothing_comes_is_asked_for_anew() -> None:
    driving = Hearing([final()], sends={1: UnderWay(HANDLE), 2: Lost("gone", paid=True)})
    driving.start()
    assert driving.kinds()[3:] == ["accepted", "accepted", "requested", "responded"]
    assert (driving.handles, driving.run.turns) == ([None, HANDLE, None], 2)


def test_an_answer_of_which_nothing_comes_after_a_restart_is_asked_for_anew() -> None:
    driving = Hearing([final()], sends={1: UnderWay(HANDLE), 2: Lost("gone", paid=True)}, fuse=(4, "before"))
    with pytest.raises(Killed):
        driving.start()
    driving.fuse = None
    driving.resume()
    assert driving.handles == [None, HANDLE, None]
    assert driving.run.state is State.DONE


def test_an_answer_that_was_refused_for_good_fails_the_run() -> None:
    driving = Hearing([final()], sends={1: UnderWay(HANDLE), 2: Refused("no such words")})
    assert driving.start().status == "failed"
    assert isinstance(driving.store[-1].body, Failed)


def test_the_handle_of_a_run_that_was_called_off_is_not_recorded_and_its_answer_is_kept() -> None:
    driving = Hearing([final()], sends={1: UnderWay(HANDLE)}, between={2: [Cancelled()]})
    assert driving.start().status == "cancelled"
    assert driving.kinds()[3:] == ["cancelled", "responded"]
    assert driving.handles == [None, HANDLE]


def test_the_handle_is_recorded_behind_what_others_append_meanwhile() -> None:
    driving = Hearing([final(), final()], sends={1: UnderWay(HANDLE)}, between={2: [Said("more")]})
    assert driving.start().status == "done"
    assert driving.kinds()[3:] == ["said", "accepted", "responded", "requested", "responded"]


def test_somebody_speaks_before_an_answer_under_way_is_fetched_after_a_restart() -> None:
    driving = Hearing([final(), final()], sends={1: UnderWay(HANDLE)}, fuse=(4, "before"), between={3: [Said("more")]})
    with pytest.raises(Killed):
        driving.start()
    driving.fuse = None
    assert driving.resume().status == "done"
    assert driving.handles == [None, HANDLE, None]


@pytest.mark.parametrize(("restored", "kinds"), [(False, ["responded"]), (True, ["responded", "intended"])])
def test_calls_of_an_answer_that_was_under_way_at_a_backup_may_have_begun(restored: bool, kinds: list[str]) -> None:
    desk = Desk(made(*ASKED, TAKEN_ON), 1.0, None, {}, restored=restored)
    steps = advance(desk)
    assert isinstance(next(steps), Send)
    answer = asks("u")
    step = steps.send(Reply(1.0, Answered(answer.response, tuple(answer.calls))))
    assert isinstance(step, Append)
    assert [entry.body.kind for entry in step.entries] == kinds
