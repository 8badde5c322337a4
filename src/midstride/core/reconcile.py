"""Which move gives a call its result: the call's effect, and what is known about it, as a table.

`call_move` is one call's part of the only brain; `moves.next_move` asks it call by call. In reading order: the table,
the moves, what this process knows, then the rules beside the table (approval, business keys, imports, live attempts,
tools that have changed), each with the decision of DESIGN.md it comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from midstride.core import words
from midstride.core.fold import never_happened
from midstride.core.journal import Asked, Body, Intended, Settled, Terms
from midstride.core.run import Call, CallId, CallState, Run

Json = Any

EFFECTS = ("read_only", "transactional", "idempotent", "verifiable", "unsafe")
"""From the mildest to the strictest."""

ATTEMPTS_MAX = 3
"""A call that kills its process is not re-run for ever (decision 13)."""

RECONCILE: dict[str, dict[str, str]] = {
    "read_only": {"new": "run", "asking": "wait", "dead": "again", "accepted": "poll"},
    "idempotent": {"new": "run", "asking": "wait", "dead": "same key", "accepted": "poll"},
    "transactional": {"new": "run", "asking": "wait", "dead": "again"},
    "verifiable": {"new": "run", "asking": "wait", "dead": "look", "accepted": "poll"},
    "unsafe": {"new": "run", "asking": "wait", "dead": "doubt", "accepted": "poll"},
}

COLUMN: dict[CallState, str] = {
    CallState.NEW: "new",
    CallState.ALLOWED: "new",
    CallState.ASKING_APPROVAL: "asking",
    CallState.ASKING_DOUBT: "asking",
    CallState.INTENDED: "dead",
    CallState.ACCEPTED: "accepted",
}

ASKED: dict[CallState, str] = {
    CallState.ASKING_APPROVAL: "a person has to approve it first",
    CallState.ASKING_DOUBT: "a person has to say whether it happened",
}


# ---- moves


@dataclass(frozen=True, slots=True)
class Write:
    """Append *bodies* and ask again."""

    bodies: tuple[Body, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Start an attempt of *call*; with *intend* its intent must be durable first."""

    call: Call
    intend: bool
    why: str


@dataclass(frozen=True, slots=True)
class Look:
    """Ask *call*'s verify what came of it; on behalf of *asker* when a new call met its business key."""

    call: Call
    why: str
    asker: Call | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """Ask how the accepted work of *call* stands."""

    call: Call
    why: str


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing can be done about *call* before *until* (seconds since the epoch)."""

    call: Call
    until: float
    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done about *call* here: *on* is "asking approval", "asking doubt", "alive" or "accepted".

    What the other side accepted is polled at *until* (seconds since the epoch).
    """

    call: Call
    on: str
    why: str
    until: float | None = None


CallMove = Write | Execute | Look | Poll | Later | Wait


# ---- what this process knows


@dataclass(frozen=True, slots=True)
class Death:
    """An attempt that was seen to end without a result: when, and *how*, a sentence."""

    at: float
    how: str


@dataclass(frozen=True, slots=True)
class Live:
    """The attempts of this process: *running* ones within their time, *alive* ones beyond it, and seen deaths."""

    running: frozenset[CallId] = frozenset()
    alive: frozenset[CallId] = frozenset()
    deaths: Mapping[CallId, Death] = field(default_factory=dict)
    full: bool = False


NOTHING_LIVE = Live()

Program = Mapping[str, Terms] | None
"""The terms of the tools that the resuming program has; None when they are not known (a plan without a program)."""


def effective(call: Call, program: Program) -> Terms:
    """Return the terms that count: those recorded with the call, or the program's where they are stricter.

    A call that nobody recorded terms for (an import, a tool that did not exist) goes by the program's, else is unsafe.
    An effect that an earlier program's attempt went by counts too.
    """
    terms = _agreed(call.terms, program.get(call.name) if program is not None else None)
    for tried in call.tried:
        terms = replace(terms, effect=_stricter(terms.effect, tried))
    return terms


def _agreed(recorded: Terms | None, current: Terms | None) -> Terms:
    if recorded is None:
        return current or Terms("unsafe", "")
    if current is None or current is recorded:
        return recorded
    return replace(
        recorded,
        effect=_stricter(recorded.effect, current.effect),
        doubt="ask" if "ask" in (recorded.doubt, current.doubt) else "report",
        approval=recorded.approval or current.approval,
        timeout=_most(recorded.timeout, current.timeout),
        settle=max(recorded.settle, current.settle),
        key_life=_least(recorded.key_life, current.key_life),
    )


def _stricter(one: str, other: str) -> str:
    if one != other and "transactional" in (one, other) and "read_only" not in (one, other):
        return "unsafe"  # the one attempt was in a transaction, the other would not be: neither tells about the other
    return max(one, other, key=EFFECTS.index)


def _most(*values: float | None) -> float | None:
    return max((v for v in values if v is not None), default=None)


def _least(*values: float | None) -> float | None:
    return min((v for v in values if v is not None), default=None)


def changed(call: Call, program: Program) -> str | None:
    """Return how the call's tool differs from what was recorded, or None: then the call may not run (decision 14)."""
    if program is None or (call.terms is None and not call.imported):
        return None
    if call.name not in program:
        return f"the tool {call.name} is not there any more."
    if call.terms is not None and program[call.name].schema != call.terms.schema:
        return f"the tool {call.name} takes other arguments now than when this call was made."
    return None


# ---- the one move of one call


def call_move(run: Run, call: Call, *, sunk: bool, live: Live, now: float, program: Program) -> CallMove:
    """Return what to do about *call*; *sunk* when an earlier effect of its answer went wrong (decision 16)."""
    terms = effective(call, program)
    if run.cancelling:
        return _cancelled(call, terms)
    if sunk and call.attempts == 0 and not _may_have_begun(call, terms):
        return settle(call, "not started", words.not_started(_sunk_by(run, call, program)), "an earlier effect failed")
    if sunk and call.imported and call.state is CallState.INTENDED and terms.effect != "unsafe":
        # Only an import has two effects of one answer in doubt at once.
        return settle(call, "unknown", words.unknown(call, "An earlier call of this answer is in doubt."), "sunk")
    move = RECONCILE[terms.effect][COLUMN[call.state]]
    if move == "wait":
        return Wait(call, call.state.value, ASKED[call.state])
    if move == "poll":
        return _poll(call, now)
    if call.key in live.alive:
        return _alive(run, call, terms, live)
    if call.recorded.problem is not None and call.attempts == 0:
        return settle(call, "failed", words.failed(call.recorded.problem), "it cannot start as it was asked")
    gone = changed(call, program)
    if gone is not None:
        return _changed(run, call, terms, gone)
    if move == "run":
        return _first(run, call, terms, live, now)
    return _dead(run, call, terms, move, live, now)


def settle(call: Call, outcome: str, content: Json, why: str) -> Write:
    """Return the move that gives *call* its result."""
    return Write((Settled(call.turn, call.index, outcome, content),), why)


def doubt(run: Run, call: Call, terms: Terms, how: str) -> Write:
    """Return the move for a call that may have happened: tell the model, or ask a person (`in_doubt="ask"`)."""
    if terms.doubt == "report" or run.cancelling:
        return settle(call, "unknown", words.unknown(call, how), "nobody can know: it is reported as unknown")
    return Write((Asked(call.turn, call.index, "doubt"),), "nobody can know: a person is asked")


def _poll(call: Call, now: float) -> Poll | Wait:
    if call.again_at is not None and now < call.again_at:
        return Wait(call, "accepted", f"the other side has it: {words.standing(call)}", call.again_at)
    return Poll(call, "the other side accepted it: it is asked how it stands")


def _cancelled(call: Call, terms: Terms) -> Write:
    if _left_nothing(call, terms):
        return settle(call, "not started", words.not_started("the run was cancelled."), "the run is cancelled")
    why = "The run was cancelled before its result was known."
    if call.state is CallState.ACCEPTED:
        why = f"The run was cancelled. {words.accepted(call)}, which may still carry it out."
    return settle(call, "unknown", words.unknown(call, why), "the run is cancelled, and it may have happened")


def _left_nothing(call: Call, terms: Terms) -> bool:
    """Tell whether no attempt of *call* had an effect; one may have run under a later program's stricter effect."""
    if _may_have_begun(call, terms):
        return False
    return never_happened(call) and (call.attempts == 0 or terms.effect in ("read_only", "transactional"))


def _sunk_by(run: Run, call: Call, program: Program) -> str:
    before = next(c for c in run.calls if sinks(c, program))
    return f"an earlier call of the same answer, {before.name} ({before.id}), ended as {before.outcome!r}."


def sinks(call: Call, program: Program) -> bool:
    """Tell whether the later effects of its answer may not start behind *call* (decision 16)."""
    bad = call.state is CallState.UNKNOWN or call.outcome in ("failed", "denied", "in doubt elsewhere")
    return bad and effective(call, program).effect != "read_only"


def _alive(run: Run, call: Call, terms: Terms, live: Live) -> CallMove:
    if call.state is CallState.INTENDED:
        return doubt(run, call, terms, _how(call, live))
    return Wait(call, "alive", "an earlier attempt of it is still running in this process")


def _changed(run: Run, call: Call, terms: Terms, gone: str) -> CallMove:
    if _left_nothing(call, terms):
        text = words.failed(f"{gone} The call was not run; make it again as the tool is now.")
        return settle(call, "failed", text, "the tool has changed since")
    if call.state is CallState.ALLOWED:  # a person has been asked already, and the permission cannot be used
        return settle(
            call, "unknown", words.unknown(call, f"It was to be run again, but {gone}"), "the tool has changed"
        )
    return doubt(run, call, terms, f"Its process ended, and {gone}")


def _first(run: Run, call: Call, terms: Terms, live: Live, now: float) -> CallMove:
    if _may_have_begun(call, terms):
        return doubt(run, call, terms, "It counted as a read then, so that it was started was not recorded.")
    if _unapproved(call, terms):
        return Write((Asked(call.turn, call.index, "approval"),), "it needs a person's approval")
    claim = _claim(run, call, terms, live, now)
    if claim is not None:
        return claim
    if terms.effect == "read_only" and call.attempts == 0 and not call.taken_since:
        return Execute(call, False, "a read: it needs no intent")  # it belongs to the process that saw the response
    if call.attempts == 0 and call.taken_since:
        return Execute(call, True, "no intent is recorded, so it certainly never started")
    return Execute(call, True, "its turn has come")


def _may_have_begun(call: Call, terms: Terms) -> bool:
    """Tell whether silence proves nothing: a read's first attempt writes no intent, and now it counts as an effect."""
    was_read = call.terms is not None and call.terms.effect == "read_only"
    return was_read and terms.effect != "read_only" and call.attempts == 0 and call.taken_since and not call.reruns


def _unapproved(call: Call, terms: Terms) -> bool:
    return terms.approval and not call.approvals and not call.reruns


def _dead(run: Run, call: Call, terms: Terms, move: str, live: Live, now: float) -> CallMove:
    """Return the move for a call whose last attempt is certainly dead and left no result."""
    how = _how(call, live)
    if move == "doubt":
        return doubt(run, call, terms, f"{how} Nothing tells whether it took effect.")
    if call.imported and move == "same key":
        return doubt(run, call, terms, "Whether the other side still knows its idempotency key is not known.")
    if call.imported and terms.effect == "transactional":
        return doubt(run, call, terms, "Whether it was rolled back is not known.")
    if move == "look":
        due = due_at(call, terms, live)
        if now < due:
            return Later(call, due, f"it can be looked up once it can no longer come, at {words.utc(due)}")
        return Look(call, "it can be looked up whether it happened")
    attempts = call.attempts + (terms.effect == "read_only" and not call.imported)  # a read's first has no intent
    if terms.effect == "read_only" and attempts >= ATTEMPTS_MAX:
        text = words.unknown(call, f"It was tried {attempts} times, and each time it ended its process.")
        return settle(call, "unknown", text, "it ended its process every time")
    if move == "same key" and call.attempts >= ATTEMPTS_MAX:
        return doubt(run, call, terms, f"{how} It was tried {call.attempts} times with the same idempotency key.")
    if move == "same key" and _expires(call, terms, now):
        return doubt(run, call, terms, f"{how} Its idempotency key is too old to be repeated safely.")
    if _unapproved(call, terms):
        return Write((Asked(call.turn, call.index, "approval"),), "it needs a person's approval")
    return Execute(call, True, {"same key": "the same key again: the other side drops a repeat"}.get(
        move, "its last attempt left nothing behind, so it runs again"))  # fmt: skip


def _how(call: Call, live: Live) -> str:
    death = live.deaths.get(call.key)
    if death is not None:
        return death.how
    if call.imported:
        return "Its result was not recorded by the program that made the call."
    return "Its process ended before the result was recorded."


def due_at(call: Call, terms: Terms, live: Live) -> float:
    """Return when a dead attempt can no longer take effect, so that a look at it is final."""
    death = live.deaths.get(call.key)
    died = death.at if death is not None else call.died_at
    if died is not None:
        return died + terms.settle
    return (call.last_at or 0.0) + (terms.timeout or 0.0) + terms.settle


def _expires(call: Call, terms: Terms, now: float) -> bool:
    """Tell whether an attempt that starts now could end beyond the life of the idempotency key."""
    if terms.key_life is None:
        return False
    return now + (terms.timeout or 0.0) >= (call.first_at or 0.0) + terms.key_life


# ---- business keys: the same deed under a new id


def _claim(run: Run, call: Call, terms: Terms, live: Live, now: float) -> CallMove | None:
    """Return what the first call with this business key means for the new one; None when the key is free."""
    first = _first_with_key(run, call)
    if first is None:
        return None
    if first.key in live.alive:
        return _elsewhere(call, first, "it is still running")
    claim = claim_of(first)
    if claim == "done":
        return settle(call, "already done", words.already_done(first), "the same deed is done")
    if claim == "look":
        due = due_at(first, first.terms or terms, live)
        if now < due:
            return Later(first, due, "the same deed is in doubt, and can be looked up later")
        return Look(first, "the same deed is in doubt: look first", asker=call)
    if claim in ("free", "open"):  # in one run effects go in call order, so an open one is waited for
        return None
    return _elsewhere(call, first, CLAIMS[claim])


CLAIMS = {
    "open": "it has no result yet",
    "unknown": "its outcome is unknown: a person must decide",
    "decided": "a person has decided that it is not to be done again",
}
"""What a claim that stands in the way says, in words."""


def claim_of(first: Call) -> str:
    """Return what the first call with a business key means for a new one: "done", "free", "look", or one of CLAIMS."""
    if first.outcome in ("ok", "told") or first.verdict == "happened":
        return "done"
    if first.state is not CallState.UNKNOWN:
        return "free" if first.state is CallState.SETTLED else "open"
    if first.verdict is not None:
        return "free" if first.verdict == "allow" else "decided"
    return "look" if effective(first, None).effect == "verifiable" else "unknown"


def _first_with_key(run: Run, call: Call) -> Call | None:
    if call.recorded.key is None:
        return None
    newest: dict[CallId, Call] = {c.key: c for c in _earlier(run.keyed.under(call.recorded.key), call)}
    if not newest:
        return None
    first = newest[max(newest)]
    return run.call(first.key) or first  # the run knows since when an attempt of unknown outcome is dead


def _earlier(calls: Iterable[Call], than: Call) -> list[Call]:
    return [c for c in calls if c.key < than.key]


def _elsewhere(call: Call, first: Call, state: str) -> Write:
    return settle(call, "in doubt elsewhere", words.elsewhere(first, state), "the same deed is in doubt elsewhere")


# ---- what a look or a poll gave


@dataclass(frozen=True, slots=True)
class Seen:
    """What verify or poll answered: "happened" with its result's *content*, "did not", "cannot".

    A poll also "pending", to be asked again *after* seconds, or "failed" when it gave no answer at all.
    """

    answer: str
    content: Json = None
    why: str = ""
    after: float = 0.0


def after_look(run: Run, look: Look, seen: Seen, program: Program) -> Execute | Write:
    """Return the move that *seen* asks for."""
    call, asker = look.call, look.asker
    if asker is not None:
        if seen.answer == "happened":
            done = replace(call, content=seen.content, settled_at=call.last_at)
            return settle(asker, "already done", words.already_done(done), "the same deed was found done")
        if seen.answer == "did not":
            return Execute(asker, True, "the same deed was looked up: it did not happen")
        return _elsewhere(asker, call, f"it was looked up, which did not tell whether it happened. {seen.why}".strip())
    terms = effective(call, program)
    if seen.answer == "happened":
        return settle(call, "ok", seen.content, "it was looked up: it happened")
    if seen.answer == "did not" and call.attempts < ATTEMPTS_MAX:
        if _unapproved(call, terms):
            return Write((Asked(call.turn, call.index, "approval"),), "it did not happen, and needs an approval")
        return Execute(call, True, "it was looked up: it did not happen")
    if seen.answer == "did not":
        return doubt(run, call, terms, f"It was looked up and not found, but {call.attempts} attempts ended badly.")
    return doubt(run, call, terms, f"It was looked up, which did not tell whether it happened. {seen.why}".strip())


def intent(call: Call, terms: Terms) -> Intended:
    """Return the entry that must be durable before an attempt of *call* starts that goes by *terms*."""
    is_recorded = call.terms is not None and call.terms.effect == terms.effect
    return Intended(call.turn, call.index, effect=None if is_recorded else terms.effect)
