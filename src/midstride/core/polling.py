"""Work that another side has accepted: what is recorded of it, and what the answer of its poll means.

The rules of this file:

- A poll that raises, hangs or answers something else settles nothing: the line may be down, the work goes on all the
  same. It is asked again, ever more rarely, for as long as it takes; only `CannotTell` is a doubt.
- Work that came to nothing is a definite failure with the other side's own reason, and is not begun again by itself:
  the model decides. Only where a person had the call run again, or it was imported, an earlier attempt may have
  happened all the same.
"""

from __future__ import annotations

from midstride.core import words
from midstride.core.journal import Accepted, Body, Json, Terms
from midstride.core.reconcile import Program, Seen, doubt, effective, intent, settle
from midstride.core.run import Call, CallState, Run

POLL_SECONDS = 60.0
"""How long one poll may take; like a look it can be given up safely."""

POLL_SECONDS_BESIDE = 5.0
"""How long it may take while other tools run: their results are saved when it has ended."""

BACK_OFF = (10.0, 60.0, 300.0, 900.0, 3600.0)
"""Seconds until the next poll behind so many in a row that told nothing, the last for all further ones: a restart of
the other side is over within the first, an outage is noticed to be over within the hour."""


def accepted(call: Call, handle: Json, terms: Terms) -> tuple[Body, ...]:
    """Return what is recorded when an attempt of *call* handed its work over; nothing where the call has a result."""
    entry = Accepted(call.turn, call.index, handle)
    if call.state is CallState.INTENDED:
        return (entry,)
    if call.state in (CallState.NEW, CallState.ALLOWED):  # a read's first attempt has no intent, and needs one now
        return (intent(call, terms), entry)
    return ()


def after_poll(run: Run, call: Call, seen: Seen, now: float, program: Program) -> tuple[Body, ...]:
    """Return what is recorded of an answer that is not the result itself; *now* in seconds since the epoch."""
    if seen.answer == "pending":
        return (_again(call, now + seen.after),)
    if seen.answer == "failed":
        return (_again(call, now + BACK_OFF[min(call.failures, len(BACK_OFF) - 1)], seen.why),)
    terms, told = effective(call, program), words.accepted(call)
    if seen.answer != "did not":
        return doubt(run, call, terms, f"{told}, and it cannot be told what came of it. {seen.why}".strip()).bodies
    if terms.effect == "read_only" or not (call.reruns or call.imported):
        why = f"{told} and then did not carry it out. {seen.why}".strip()
        return settle(call, "failed", words.failed(why), "the other side did not carry it out").bodies
    why = f"{told} and then did not carry it out, but an earlier attempt may have taken effect. {seen.why}".strip()
    return doubt(run, call, terms, why).bodies


def _again(call: Call, at: float, failed: str | None = None) -> Accepted:
    return Accepted(call.turn, call.index, call.handle, again_at=round(at, 3), failed=failed)
