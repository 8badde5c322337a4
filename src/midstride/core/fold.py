"""The fold, which makes a run from its journal.

The rules of this file:

- `fold(entries, run)` is the only way to a `Run`; it is pure, and folding in two goes is folding in one.
- An entry that the table has no cell for raises NotAllowed: nothing is ignored, nothing is repaired.
- What the model was once sent stays as it is: messages are only appended, in the API's own form, verbatim.
- A step costs the same at turn 3,000 as at turn 3: nothing old is copied or looked through.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from midstride.core import journal
from midstride.core.apis import Answered, ModelCall
from midstride.core.growing import Growing
from midstride.core.journal import Entry, Head, Recorded
from midstride.core.run import CALL, CUTS_MAX, FINISHED, NEW, PAUSES_MAX, RUN, Call, CallState, Run, State
from midstride.errors import NotAllowed

Json = Any

if TYPE_CHECKING:
    from dataclasses import replace as altered  # so that the names and the types of the fields are checked
else:

    def altered(run: Run, **fields: Any) -> Run:
        """Return *run* with other *fields*, as `dataclasses.replace` would, which takes ten times as long."""
        made = object.__new__(Run)
        object.__setattr__(made, "__dict__", {**run.__dict__, **fields})
        return made


def fold(entries: Iterable[Entry], run: Run = NEW) -> Run:
    """Return *run* after *entries*; raises NotAllowed for an entry that its state has no cell for."""
    for entry in entries:
        stepped = _STEPS[entry.body.kind](run, entry.body, entry.at)
        head = Head(entry.seq, entry.digest)
        if entry.body.kind in journal.OUTSIDE:
            run = altered(stepped, head=head)
        else:
            run = altered(stepped, head=head, at=entry.at, seconds=run.seconds + _worked(run, entry))
    return run


def _worked(run: Run, entry: Entry) -> float:
    # Between a holder's last entry and the next take-up nobody was at work, whether it died or rested.
    if run.at is None or isinstance(entry.body, journal.Taken):
        return 0.0
    return max(0.0, entry.at - run.at)  # a clock may go back


def cell(run: Run, column: str) -> State:
    """Return the run's next state, or raise NotAllowed: the table's empty cells are errors."""
    try:
        found = RUN[run.state][column]
    except KeyError:
        raise NotAllowed(f"a run that is {run.state} has no room for {column!r}; nothing was written") from None
    return found if isinstance(found, State) else found[bool(run.pending)]


def call_cell(call: Call, column: str) -> CallState:
    """Return the call's next state, or raise NotAllowed."""
    try:
        return CALL[call.state][column]
    except KeyError:
        name = f"call {call.id} ({call.name}, turn {call.turn})"
        raise NotAllowed(f"{name} is {call.state}: it has no room for {column!r}; nothing was written") from None


# ---- one step for each kind of entry


def _started(run: Run, body: journal.Started, at: float) -> Run:
    return altered(
        run,
        state=cell(run, "started"),
        started=body,
        messages=Growing(body.messages),
        keyed=Growing(),  # NEW's own is shared by all runs
        limits=body.limits,
        declared=body.limits,
        turns=body.turns,
        tokens_used=body.tokens,
        tokens_total=body.tokens,
    )


def _taken(run: Run, body: journal.Taken, at: float) -> Run:
    if run.started is None:
        raise NotAllowed("an empty journal cannot be taken up: it has no started entry")
    run = altered(run, token=body.token, holder=body, taken_at=at, takes=run.takes + (not body.clean))
    if not body.clean:
        run = altered(run, left_at=run.at)
    unknown = {key: _taken_over(call, at) for key, call in run.unknown.items()}
    return altered(run, calls=tuple(_taken_over(c, at) for c in run.calls), unknown=unknown)


def _taken_over(call: Call, at: float) -> Call:
    # Whoever had it is gone now. The newest take-up counts: an attempt may have lived on in this process until then,
    # also one whose call was settled unknown since.
    if call.state is CallState.SETTLED:
        return call
    died = at if call.attempts and not call.imported else None
    return replace(call, taken_since=call.taken_since or call.state is not CallState.UNKNOWN, died_at=died)


def _requested(run: Run, body: journal.Requested, at: float) -> Run:
    new = cell(run, "allowed again" if allowed_again(run) else "requested")
    held_back = run.state is State.AWAY or run.tail  # what was said comes behind the end of the answer
    if not held_back:
        run = altered(run, messages=run.messages.extend(run.pending), pending=())
    return altered(run, state=new, params=body.params, handle=None, turns=run.turns + 1)


def allowed_again(run: Run) -> bool:
    """Tell whether a ledger's call, which was reported as unknown, is to be made anew since a person allowed it."""
    return run.state is State.DONE and not run.api.loops and any(c.verdict == "allow" for c in run.calls)


def _responded(run: Run, body: journal.Responded, at: float) -> Run:
    api, response = run.api, body.response
    made = api.calls(response)
    column = api.stop(response)
    column = "final" if column == "calls" and not made else column
    cuts = run.cuts + 1 if column == "cut" else 0
    pauses = run.pauses + 1 if column == "paused" else run.pauses if column == "cut" else 0
    if cuts > CUTS_MAX or pauses > PAUSES_MAX:
        given_up, column, cuts, pauses = column, "given up", 0, 0
    else:
        given_up = ""
    if run.state is State.CANCELLED:
        column = "kept"
    usage = api.usage(response)
    run = altered(
        run,
        state=cell(run, column),
        takes=0,
        handle=None,
        answers=run.answers + 1,
        cuts=cuts,
        pauses=pauses,
        stop=api.reason(response),
        ending=given_up or column,
        usage=usage,
        tokens_used=usage.window or run.tokens_used,
        tokens_total=run.tokens_total + usage.total,
        cache_read=run.cache_read + usage.cache_read,
        cache_write=run.cache_write + usage.cache_write,
        cost=run.cost + (body.cost or 0),
        priced=run.priced + (body.cost is not None),
    )
    return _joined(run, body, made, column)


def _joined(run: Run, body: journal.Responded, made: Sequence[ModelCall], column: str) -> Run:
    api, joins = run.api, run.api.joins(body.response)
    if column in ("final", "calls"):
        messages = run.messages.extend((*run.tail, *joins))
        begun = api.begun([*run.messages[-1:], *run.tail])  # a prefill that was imported, and paused answers
        answer = begun + api.text(body.response) if column == "final" else run.answer
        run = altered(run, messages=messages, tail=(), answer=answer)
        return _with_calls(run, body, made) if made else run
    if column == "paused":
        return altered(run, tail=(*run.tail, *joins))
    if column in ("refused", "given up"):
        # The pause cannot be continued, and a user's words must not close its open server call: it leaves.
        return altered(run, tail=())
    return run


def _with_calls(run: Run, body: journal.Responded, made: Sequence[ModelCall]) -> Run:
    known = (*body.calls, *(Recorded() for _ in range(len(made) - len(body.calls))))
    calls = tuple(
        Call(run.turns, index, m.id, m.name, m.arguments, r, m.echo)
        for index, (m, r) in enumerate(zip(made, known, strict=True))
    )
    if not run.api.loops:
        calls = tuple(_anew(old, new) for old, new in zip(run.calls, calls, strict=True)) if run.calls else calls
    left = {c.key: c for c in run.calls if c.state is CallState.UNKNOWN}
    return altered(run, calls=calls, unknown={**run.unknown, **left} if left else run.unknown)


def _anew(old: Call, new: Call) -> Call:
    # It is the same call once more: what had begun of it counts on, since that may have taken effect.
    return replace(
        old,
        turn=new.turn,
        state=CallState.ALLOWED,
        reruns=old.reruns + 1,
        outcome=None,
        content=None,
        settled_at=None,
        verdict=None,
        truth=None,
    )


def _said(run: Run, body: journal.Said, at: float) -> Run:
    if not run.api.loops:
        raise NotAllowed("this run is one call of a ledger: there is no model here that could be told anything")
    return altered(run, state=cell(run, "said"), pending=(*run.pending, *run.api.say(body.content)))


def _compacted(run: Run, body: journal.Compacted, at: float) -> Run:
    messages = Growing([*body.messages, *run.messages[body.upto :]])
    return altered(run, state=cell(run, "extended"), messages=messages)


def _extended(run: Run, body: journal.Extended, at: float) -> Run:
    declared = body.limits if body.by == "program" else run.declared
    if body.by == "force":  # what the other side accepted is polled at once
        run = altered(run, calls=tuple(replace(call, again_at=None) for call in run.calls))
    return altered(run, state=cell(run, "extended"), limits=body.limits, declared=declared, takes=0)


def _cancelled(run: Run, body: journal.Cancelled, at: float) -> Run:
    return altered(run, state=cell(run, "cancelled"), cancelling=True, reason=body.reason or "cancelled")


def _failed(run: Run, body: journal.Failed, at: float) -> Run:
    return altered(run, state=cell(run, "failed"), ending="failed", reason=body.reason)


# ---- one step for each kind of a call's entry


def _intended(run: Run, body: journal.Intended, at: float) -> Run:
    call = _call_of(run, body)
    call = replace(
        call,
        state=call_cell(call, "intended"),
        attempts=call.attempts + 1,
        tried=call.tried if body.effect is None else (*call.tried, body.effect),
        imported=call.imported or body.imported,
        first_at=at if call.first_at is None else call.first_at,
        last_at=at,
        died_at=None,
    )
    return _with_call(run, call)


def _accepted(run: Run, body: journal.Accepted, at: float) -> Run:
    if body.index is None:
        # That nothing comes of it is no progress: a process may die at every try to fetch it.
        takes = run.takes if body.handle is None else 0
        return altered(run, state=cell(run, "accepted"), handle=body.handle, takes=takes)
    call = _call_of(run, body)
    call = replace(
        call,
        state=call_cell(call, "accepted"),
        handle=body.handle,
        again_at=body.again_at,
        failures=0 if body.failed is None else call.failures + 1,
        failure=body.failed,
    )
    return altered(_with_call(run, call), takes=0)


def _settled(run: Run, body: journal.Settled, at: float) -> Run:
    call = _call_of(run, body)
    call_cell(call, "settled")
    return altered(_with_call(run, _ended(call, body.outcome, body.content, at)), takes=0)


def _asked(run: Run, body: journal.Asked, at: float) -> Run:
    call = _call_of(run, body)
    call_cell(call, "asked")
    state = CallState.ASKING_DOUBT if body.why == "doubt" else CallState.ASKING_APPROVAL
    return _with_call(run, replace(call, state=state))


def _decided(run: Run, body: journal.Decided, at: float) -> Run:
    call = _call_of(run, body)
    state = call_cell(call, body.verdict)
    if call.state is CallState.UNKNOWN:
        # The result stays as it was settled: the model is told the later truth in a message of its own.
        run = _with_call(run, replace(call, verdict=body.verdict, truth=body.content))
        told = body.verdict in ("happened", "unknown")
        return altered(run, pending=(*run.pending, *run.api.say(body.content))) if told else run
    if state is CallState.ALLOWED:
        doubt = call.state is CallState.ASKING_DOUBT
        allowed = replace(call, state=state, approvals=call.approvals + (not doubt), reruns=call.reruns + doubt)
        return _with_call(run, allowed)
    denied = "denied" if never_happened(call) else "unknown"
    outcome = {"deny": denied, "happened": "told", "unknown": "unknown"}[body.verdict]
    return _with_call(run, _ended(call, outcome, body.content, at))


def never_happened(call: Call) -> bool:
    """Tell whether the journal proves that the call had no effect: never started, a read, or rolled back."""
    effects = {call.terms.effect if call.terms else "unsafe", *call.tried}
    rolled_back = effects <= {"read_only", "transactional"} and not call.imported
    known = call.state is not CallState.ASKING_DOUBT  # a person is asked about a doubt only where nobody can know
    return known and (call.attempts == 0 or effects == {"read_only"} or rolled_back)


def _ended(call: Call, outcome: str, content: Json, at: float) -> Call:
    state = CallState.UNKNOWN if outcome == "unknown" else CallState.SETTLED
    return replace(call, state=state, outcome=outcome, content=content, settled_at=at)


def _call_of(
    run: Run, body: journal.Intended | journal.Accepted | journal.Settled | journal.Asked | journal.Decided
) -> Call:
    call = None if body.index is None else run.call((body.turn, body.index))
    if call is None:
        raise NotAllowed(f"the run has no call {body.index} in turn {body.turn} that could change; nothing was written")
    return call


def _with_call(run: Run, call: Call) -> Run:
    """Put a changed call into the run; when it was the last open one of its turn, the results join the transcript."""
    if call.recorded.key is not None and call.attempts:
        run = altered(run, keyed=run.keyed.append(call, call.recorded.key))
    if call.key in run.unknown:
        return altered(run, state=cell(run, "call"), unknown={**run.unknown, call.key: call})
    was = next(c for c in run.calls if c.key == call.key)
    calls = tuple(call if c.key == call.key else c for c in run.calls)
    settles = call.state in FINISHED and was.state not in FINISHED
    last = settles and all(c.state in FINISHED for c in calls)
    column = "call"
    if last and run.state is State.CALLS:
        column = "last, cancelling" if run.cancelling else "last" if run.api.loops else "last, of a ledger"
    elif settles and run.state is not State.CALLS:
        column = "settled by final"
    run = altered(run, state=cell(run, column), calls=calls)
    return altered(run, messages=run.messages.extend(_results(run))) if last else run


def _results(run: Run) -> list[Json]:
    return run.api.results([Answered(c.id, c.content, c.is_error, c.echo) for c in run.calls])


_STEPS: dict[str, Any] = {
    "started": _started,
    "taken": _taken,
    "requested": _requested,
    "responded": _responded,
    "intended": _intended,
    "accepted": _accepted,
    "settled": _settled,
    "asked": _asked,
    "decided": _decided,
    "said": _said,
    "compacted": _compacted,
    "extended": _extended,
    "cancelled": _cancelled,
    "failed": _failed,
}
