"""A run that is one call of a ledger: how it is written, when it is done, and when it is made anew."""

from __future__ import annotations

from typing import Any

import pytest

from core.making import START, TAKEN, go, made, terms
from midstride.core import words
from midstride.core.apis import Answered, LedgerCalls, ModelCall, Usage
from midstride.core.fold import allowed_again
from midstride.core.journal import (
    Cancelled,
    Decided,
    Intended,
    Recorded,
    Requested,
    Responded,
    Said,
    Settled,
    Started,
    Taken,
    seal,
)
from midstride.core.moves import Rest, made_anew, next_move
from midstride.core.reconcile import CLAIMS, Execute, Write, claim_of
from midstride.core.run import Call, CallState, Run, State
from midstride.core.settle import Desk, advance
from midstride.core.steps import Append, Reply, Start
from midstride.errors import NotAllowed, NotAResponse

API = LedgerCalls()
CALL = {"id": "c1", "name": "u", "arguments": {"to": "ann"}}
ONE = Started(task={"tool": "u", "arguments": {"to": "ann"}}, api="ledger", messages=[], nonce="n")


def call(letter: str = "u", *bodies: Any, **more: Any) -> Run:
    """Return a ledger's run of one call, as it is after *bodies*."""
    recorded = Recorded(terms(letter, **more))
    return made(ONE, TAKEN, Requested(), Responded({"calls": [CALL]}, (recorded,)), *bodies)


# ---- how it is written


@pytest.mark.parametrize("response", ["x", {}, {"calls": 3}, {"calls": ["x"]}, {"calls": [{"id": "c", "name": "u"}]}])
def test_what_is_no_call_is_refused(response: Any) -> None:
    with pytest.raises(NotAResponse, match="wanted"):
        API.check(response)


def test_a_call_is_read_as_it_was_made() -> None:
    response = {"calls": [CALL]}
    API.check(response)
    assert API.calls(response) == (ModelCall("c1", "u", {"to": "ann"}),)
    assert (API.stop(response), API.reason(response), API.text(response)) == ("calls", "calls", "")
    assert (API.usage(response), API.roomier({"x": 1}, 2)) == (Usage(), {"x": 1})
    assert (API.begun([]), API.tools([{"name": "u"}]), API.request([], None, [], {})) == ("", [], {"messages": []})


def test_its_transcript_is_the_call_and_its_result() -> None:
    run = call("u", Intended(1, 0), Settled(1, 0, "ok", "sent"))
    assert run.request == [{"calls": [CALL]}, {"results": [{"id": "c1", "content": "sent", "is_error": False}]}]
    told = [{"results": [{"id": "c1", "content": "no", "is_error": True}]}]
    assert API.results([Answered("c1", "no", True)]) == told


# ---- when it is done


@pytest.mark.parametrize("outcome", ["ok", "failed", "unknown", "already done"])
def test_it_is_done_with_its_call(outcome: str) -> None:
    run = call("u", Intended(1, 0), Settled(1, 0, outcome, "x"))
    assert run.state is State.DONE
    assert next_move(run, now=0.0) == Rest("done", "its call has its result")


def test_one_that_is_called_off_is_cancelled() -> None:
    run = call("u", Cancelled("no"), Settled(1, 0, "not started", "x"))
    assert run.state is State.CANCELLED


def test_nothing_can_be_said_to_it() -> None:
    run = call("u", Intended(1, 0), Settled(1, 0, "ok", "x"))
    with pytest.raises(NotAllowed, match="no model here that could be told"):
        go(run, Said("hello"))


# ---- when it is made anew


def unknown(verdict: str) -> Run:
    return call("u", Intended(1, 0), Settled(1, 0, "unknown", "?"), Decided(1, 0, verdict, "note"))


def test_a_call_settled_unknown_is_made_anew_where_a_person_allows_it() -> None:
    run = unknown("allow")
    assert allowed_again(run)
    assert next_move(run, now=0.0) == made_anew(run)
    again = go(run, Taken(2, "host", 8), *made_anew(run).bodies)
    (anew,) = again.calls
    assert (again.state, anew.key, anew.state, anew.outcome) == (State.CALLS, (2, 0), CallState.ALLOWED, None)
    assert (anew.attempts, anew.first_at, anew.reruns) == (1, run.calls[0].first_at, 1)  # it counts on
    assert isinstance(next_move(again, now=0.0), Execute)
    done = go(again, Intended(2, 0), Settled(2, 0, "ok", "sent"))
    assert (done.state, allowed_again(done), done.doubts) == (State.DONE, False, [])


@pytest.mark.parametrize("verdict", ["deny", "happened", "unknown"])
def test_any_other_word_leaves_it_as_it_is(verdict: str) -> None:
    assert isinstance(next_move(unknown(verdict), now=0.0), Rest)
    with pytest.raises(NotAllowed):
        go(unknown(verdict), Requested())


def test_a_run_of_a_model_is_not_made_anew() -> None:
    done = Responded({"role": "assistant", "content": [], "stop_reason": "end_turn"})
    with pytest.raises(NotAllowed):
        go(made(START, TAKEN, Requested(), done), Requested())


# ---- what is saved when


def steps_of(letter: str) -> list[str]:
    """Return what is done, and which entries each append holds, until the tool has begun."""
    opening = (ONE, TAKEN, Requested(), Responded({"calls": [CALL]}, (Recorded(terms(letter)),)))
    desk = Desk(Run(), 1000.0, {"u": terms(letter)}, {}, unsaved=list(seal(opening, Run().head, 1000.0)))
    steps, seen = advance(desk), []
    step = next(steps)
    while True:
        seen.append(" ".join(e.body.kind for e in step.entries) if isinstance(step, Append) else type(step).__name__)
        if isinstance(step, Start):
            return seen
        step = steps.send(Reply(1000.0))


def test_an_effect_starts_when_its_call_and_its_intent_are_saved() -> None:
    assert steps_of("u") == ["started taken requested responded intended", "Start"]


def test_a_read_starts_at_once_since_its_maker_can_make_it_again() -> None:
    assert steps_of("r") == ["Start"]


# ---- business keys


@pytest.mark.parametrize(
    ("bodies", "claim"),
    [
        ((), "open"),
        ((Intended(1, 0),), "open"),
        ((Settled(1, 0, "ok", ""),), "done"),
        ((Settled(1, 0, "failed", ""),), "free"),
        ((Settled(1, 0, "unknown", ""),), "unknown"),
        ((Settled(1, 0, "unknown", ""), Decided(1, 0, "allow")), "free"),
        ((Settled(1, 0, "unknown", ""), Decided(1, 0, "deny")), "decided"),
        ((Settled(1, 0, "unknown", ""), Decided(1, 0, "unknown")), "decided"),
        ((Settled(1, 0, "unknown", ""), Decided(1, 0, "happened")), "done"),
    ],
)
def test_what_a_claim_means(bodies: tuple[Any, ...], claim: str) -> None:
    assert claim_of(call("u", *bodies).calls[0]) == claim


def test_a_claim_that_can_be_looked_up_is_looked_up() -> None:
    assert claim_of(call("v", Intended(1, 0), Settled(1, 0, "unknown", "")).calls[0]) == "look"


def test_every_claim_that_stands_in_the_way_has_words() -> None:
    assert set(CLAIMS) == {"open", "unknown", "decided"}


# ---- words


def test_the_words_for_the_maker_of_a_call() -> None:
    begun: Call = call("u", Intended(1, 0)).calls[0]
    fresh: Call = call("u").calls[0]
    assert words.undecided(begun, "Ask ann.") == (
        'Outcome unknown: u({"to": "ann"}) may or may not have taken effect (it started 1970-01-01 00:16:44 UTC). '
        "It was not run again: a person has to say whether it happened. Ask ann."
    )
    assert words.unapproved(fresh, "Ask ann.") == (
        'Not started: u({"to": "ann"}) needs a person\'s approval first. It had no effect. Ask ann.'
    )
    assert words.stuck(begun, "it died", "Look.") == (
        'Not carried on: u({"to": "ann"}) has no result, since it died. It may or may not have taken effect. Look.'
    )
    assert "It had no effect that lasts. Look." in words.stuck(fresh, "it died", "Look.")
    assert words.refused_again(unknown("deny").calls[0]) == (
        "? Since then a person decided that it is not to be run again. The person said: note"
    )
    told_nothing = call("u", Intended(1, 0), Settled(1, 0, "unknown", "?"), Decided(1, 0, "deny", ""))
    assert words.refused_again(told_nothing.calls[0]).endswith("not to be run again.")


def test_a_move_that_writes_says_why() -> None:
    assert made_anew(unknown("allow")) == Write(
        (Requested(), Responded({"calls": [CALL]}, (Recorded(terms("u")),))), "a person allowed it to be run again"
    )
