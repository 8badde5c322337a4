"""What a span says of the moves that no span of their own stands for: how calls were reconciled, and who spoke.

Each becomes an event of `invoke_agent`: its name, and attributes.
"""

from __future__ import annotations

from midstride.core import journal
from midstride.core.journal import Entry
from midstride.core.run import Call, Run
from midstride.core.steps import LookUp, Pause, PollUp, Start, Transact
from midstride.hidden import redacted
from midstride.integrations.opentelemetry.attributes import Attributes, input_tokens, name, of_call

Event = tuple[str, Attributes]
RECONCILE = "midstride.reconcile"


def of(event: object, run: Run, why: str, *, asked: bool) -> Event | None:
    """Return the event for an entry or a step, or None; *asked* tells that a span stands for the request already."""
    match event:
        case Start(call=call, attempt=attempt) | Transact(call=call, attempt=attempt):
            return _of_attempt(call, attempt, why)
        case LookUp(call=call):
            return _reconciled(call, "look", why, begun=True)
        case PollUp(call=call):
            return _reconciled(call, "poll", why, begun=True)
        case Pause(seconds=seconds):
            return "midstride.pause", {"midstride.seconds": round(seconds, 3)}
        case Entry(body=body):
            return _of_entry(body, run, why, asked)
    return None


def _of_attempt(call: Call, attempt: int, why: str) -> Event | None:
    """Return the event of an attempt that is not simply the first one in its turn."""
    if attempt == 1 and not call.taken_since and not call.reruns:
        return None
    effect = of_call(call)["midstride.effect"]
    move = "run" if attempt == 1 or call.reruns else "same key" if effect == "idempotent" else "again"
    return _reconciled(call, move, why, begun=attempt > 1 or call.imported)


def _of_entry(body: journal.Body, run: Run, why: str, asked: bool) -> Event | None:
    match body:
        case journal.Responded(response=response) if not asked:
            usage, api = run.api.usage(response), run.api
            told: Attributes = {
                "midstride.turn": run.turns,
                "gen_ai.response.finish_reasons": [name(api.reason(response))],
                "gen_ai.usage.input_tokens": input_tokens(usage),
                "gen_ai.usage.output_tokens": usage.output,
            }
            return "midstride.responded", told
        case journal.Settled(outcome=outcome) if why:  # by a move: nothing was executed for it here and now
            return _of_call(run, body, "settle", why, outcome)
        case journal.Asked():
            return _of_call(run, body, f"ask {body.why}", why)
        case journal.Accepted(index=None):  # the model's own answer, which its API goes on with
            what = "midstride.accepted" if body.handle is not None else "midstride.given_up"
            return what, {"midstride.turn": body.turn}
        case journal.Accepted():
            return _of_call(run, body, "accepted", why)
        case journal.Decided():
            known = _call_of(run, body)
            return "midstride.decided", {**known, "midstride.verdict": body.verdict, "midstride.by": _who(body.by)}
        case journal.Compacted():
            return "midstride.compacted", {"midstride.messages": body.upto, "midstride.into": len(body.messages)}
        case journal.Said() | journal.Cancelled() | journal.Extended():
            return f"midstride.{body.kind}", {"midstride.by": _who(body.by)}
        case journal.Failed():
            return "midstride.failed", {}
    return None


def _who(by: str) -> str:
    return name(redacted(by))


def _of_call(
    run: Run, body: journal.Settled | journal.Asked | journal.Accepted, move: str, why: str, outcome: str = ""
) -> Event:
    call = _found(run, body)
    if call is None:
        return RECONCILE, {**_call_of(run, body), "midstride.move": move}
    kind, told = _reconciled(call, move, why, begun=call.attempts > 0 or call.imported)
    return kind, {**told, "midstride.outcome": outcome} if outcome else told


def _call_of(run: Run, body: journal.Settled | journal.Asked | journal.Accepted | journal.Decided) -> Attributes:
    call = _found(run, body)
    return {"midstride.turn": body.turn, "midstride.index": body.index or 0} if call is None else of_call(call)


def _found(run: Run, body: journal.Settled | journal.Asked | journal.Accepted | journal.Decided) -> Call | None:
    return None if body.index is None else run.call((body.turn, body.index))


def _reconciled(call: Call, move: str, why: str, *, begun: bool) -> Event:
    """Return the event of a move: which call, what was known of it, what is done, and why."""
    known = "it may have begun" if begun else "it never began"
    why_ = {"midstride.why": name(redacted(why))} if why else {}
    return RECONCILE, {**of_call(call), "midstride.known": known, "midstride.move": move, **why_}
