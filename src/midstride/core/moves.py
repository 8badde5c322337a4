"""The only brain: what a run does next, and why.

Starting, going on and resuming are one path: fold the journal, ask `next_move`, do it, append. `midstride plan` prints
what it says and does nothing. Pure: the time and the attempts alive in this process come in as arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from midstride.core import words
from midstride.core.cost import amount, billionths
from midstride.core.fold import allowed_again
from midstride.core.journal import Requested, Responded
from midstride.core.reconcile import (
    NOTHING_LIVE,
    CallMove,
    Execute,
    Later,
    Live,
    Look,
    Poll,
    Program,
    Wait,
    Write,
    call_move,
    effective,
    sinks,
)
from midstride.core.run import FINISHED, Call, Run, State

HELD_AFTER = 3
"""A run that is taken up more than this many times in a row without progress is held (decision 13)."""

CRASH_PAUSES: tuple[float, ...] = (1.0, 10.0, 60.0)
"""Seconds that a run rests behind the last entry of a holder that died, after one, two and three deaths in a row
without progress: long enough that a supervisor's restarts do not spend them all in a second (decision 13)."""


@dataclass(frozen=True, slots=True)
class Request:
    """Write `requested` and ask the model."""

    why: str


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch the answer that the model's API goes on with by itself; nothing is sent, and nothing counted."""

    why: str


@dataclass(frozen=True, slots=True)
class Collect:
    """Wait for an attempt of this process to end, at most *until* (seconds since the epoch): a poll is due then."""

    why: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Rest:
    """The run has nothing to do here: "done", "waiting", "capped", "held", "cut", "cancelled" or "failed".

    One that is waiting for what another side accepted asks it at *again_at* (seconds since the epoch).
    """

    status: str
    why: str
    again_at: float | None = None


Move = Write | Execute | Look | Poll | Later | Request | Fetch | Collect | Rest


def next_move(run: Run, *, now: float, live: Live = NOTHING_LIVE, program: Program = None) -> Move:
    """Return the one next move of *run*; *now* in seconds since the epoch."""
    if run.state in (State.DUE, State.AWAY):
        return _ask(run)
    if run.state is State.CALLS:
        return _calls(run, now=now, live=live, program=program)
    if run.state is State.STOPPED:
        return Rest("cut" if run.ending == "cut" else "failed", stopped_because(run))
    if run.state is State.CANCELLED:
        return Rest("cancelled", run.reason or "the run was cancelled")
    if run.begun and allowed_again(run):  # a new run has no move: it must be started first
        return made_anew(run)
    return Rest("done", "the model has given its final answer" if run.api.loops else "its call has its result")


def made_anew(run: Run) -> Write:
    """Return the move for a ledger's call that is `allowed_again`: the same call under the next turn."""
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in run.calls]
    response = Responded({"calls": calls}, tuple(call.recorded for call in run.calls))
    return Write((Requested(), response), "a person allowed it to be run again")


def stopped_because(run: Run) -> str:
    """Return why a stopped run stopped, in one sentence."""
    if run.ending == "cut":
        return "the answer was cut again and again, even with more room for it"
    if run.ending == "paused":
        return "the answer was paused too many times in a row"
    if run.ending == "failed":
        return run.reason
    return f"the model's answer ended with {run.stop}, which runs nothing and is no answer"


def held(run: Run) -> bool:
    """Tell whether the run was taken up too often in a row without getting anywhere."""
    return run.takes > HELD_AFTER


def capped(run: Run) -> str | None:
    """Return which limit is reached, in words; None when there is room."""
    return reached(run)[1]


def reached(run: Run) -> tuple[str | None, str | None]:
    """Return the name of the limit that is reached, and say so in words; None and None when there is room."""
    limits = run.limits
    if limits.turns is not None and run.turns >= limits.turns:
        return "turns", f"{run.turns} requests were made, the limit is {limits.turns} turns"
    if limits.tokens is not None and run.tokens_total >= limits.tokens:
        return "tokens", f"{run.tokens_total} tokens were used, the limit is {limits.tokens}"
    if limits.cost is not None and run.cost >= billionths(limits.cost):
        return "cost", f"a cost of {amount(run.cost)} was reached, the limit is {amount(billionths(limits.cost))}"
    if limits.seconds is not None and run.seconds >= limits.seconds:
        return "seconds", f"{run.seconds:.0f} seconds were worked, the limit is {limits.seconds:g}"
    return None, None


def _ask(run: Run) -> Move:
    if held(run):
        return Rest("held", _held_because(run))
    if run.state is State.AWAY and run.handle is not None:
        return Fetch("the API goes on with the answer by itself: it is fetched, and not asked for again")
    cap = capped(run)
    if cap is not None:
        return Rest("capped", cap)
    if run.state is State.AWAY:
        return Request("a request was sent and its answer never recorded: it is sent again")
    return Request("a request is owed")


def rested_at(run: Run) -> float:
    """Return when a run whose last holder died may go on (seconds since the epoch); 0 when nothing holds it up."""
    if not run.takes or run.left_at is None or run.taken_at is None:
        return 0.0
    pause = CRASH_PAUSES[min(run.takes, len(CRASH_PAUSES)) - 1]
    return min(run.left_at, run.taken_at) + pause  # a clock may have gone back since


def crashed(run: Run) -> str:
    """Return how often the run's process ended without progress, and at what, in words."""
    times = "once" if run.takes == 1 else f"{run.takes} times in a row"
    return f"its process ended {times} without progress, the last time {_doing(run)}"


def _doing(run: Run) -> str:
    """Return what a run does that is in the middle of something, as "while ..."."""
    if run.state is State.AWAY:
        return "while the model was asked"
    begun = [call for call in run.calls if call.state not in FINISHED and call.attempts]
    if begun:
        return f"while {_plain(begun[0])} was under way"
    unfinished = [call for call in run.calls if call.state not in FINISHED]
    return f"while {_plain(unfinished[0])} was due" if unfinished else "before a request was made"


def _held_because(run: Run) -> str:
    return (
        f"it was taken up {run.takes} times in a row without progress, the last time {_doing(run)}: something ends it "
        "every time"
    )


def _calls(run: Run, *, now: float, live: Live, program: Program) -> Move:
    """Walk the calls in order: the first that can move moves; an effect waits for the effects before it."""
    blocked, polls = False, []
    for _, effect, move in _open_calls(run, now=now, live=live, program=program):
        if isinstance(move, Wait):
            polls += [move.until] if move.until is not None and not (effect and blocked) else []
        elif move is not None:
            runs = isinstance(move, (Execute, Look, Poll))
            waits = isinstance(move, Execute) and live.full  # for an attempt to end; what is due to be polled does not
            if not waits and not (runs and (held(run) or (effect and blocked))):
                return move
        blocked = blocked or effect
    until = min(polls, default=None)
    if live.running:
        return Collect("tools are running", until)
    if held(run):
        return Rest("held", _held_because(run))
    return Rest("waiting", _waits_for(run), until)


def _open_calls(run: Run, *, now: float, live: Live, program: Program) -> Iterator[tuple[Call, bool, CallMove | None]]:
    """Yield each call without a result, whether it has an effect, and its own move; None while it is running."""
    sunk = False
    for call in run.calls:
        if call.state in FINISHED:
            sunk = sunk or sinks(call, program)
            continue
        effect = effective(call, program).effect != "read_only"
        if call.key in live.running:
            yield call, effect, None
        else:
            yield call, effect, call_move(run, call, sunk=sunk and effect, live=live, now=now, program=program)


def _waits_for(run: Run) -> str:
    waits = [f"{_plain(call)} ({words.standing(call)})" for call in run.calls if call.state not in FINISHED]
    return f"nothing can move until a person decides, or the other side is done: {', '.join(waits)}"


def _plain(call: Call) -> str:
    return f"{call.id} {words.asked_for(call)}"


def plan_calls(run: Run, *, now: float, program: Program = None) -> list[tuple[Call, CallMove]]:
    """Return what a new process would do about each call without a result, each by itself, in order."""
    moves = _open_calls(run, now=now, live=NOTHING_LIVE, program=program)
    return [(call, move) for call, _, move in moves if move is not None]
