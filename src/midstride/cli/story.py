"""A run's journal as people and programs read it: turns with their calls, lines of a log, and rows of a list.

Everything here is facts as plain JSON values; `show.py` draws them. docs/json.md documents the shapes, and a test
compares them. What looks like a secret is redacted in every fact that is made here, but in those that programs go by.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from midstride.core import journal, words
from midstride.core.apis import APIS, Api
from midstride.core.cost import BILLION
from midstride.core.fold import fold
from midstride.core.journal import Entry
from midstride.core.moves import Collect, Fetch, Request, Rest
from midstride.core.reconcile import Execute, Later, Look, Poll, Wait, Write
from midstride.core.run import NEW, Call, CallId, CallState, Run
from midstride.drive.planning import Planned
from midstride.drive.result import cost_of, unanswered_of
from midstride.errors import NotAResponse
from midstride.hidden import redacted
from midstride.visible import as_text, one_line

Json = Any


UNREAD = "unread"
"""The status of a run whose journal cannot be read."""


WHOLE = frozenset(
    {"run", "call", "tool", "effect", "state", "outcome", "decided", "doubts", "approvals", "program", "move", "status"}
    | {"api", "kind", "at", "last", "again_at", "started", "not_before"}
)
"""Facts that programs go by: ids, names, times and our own words. They stay whole, whatever a pattern says."""


def shown(facts: Mapping[str, Json]) -> dict[str, Json]:
    """Return facts with the secrets in them redacted."""
    return {name: value if name in WHOLE else redacted(value) for name, value in facts.items()}


def said(value: Json) -> str:
    """Return what somebody said as a text without secrets."""
    return as_text(redacted(value))


def iso(at: float | None) -> str | None:
    """Return *at* (seconds since the epoch) as "2026-11-29T18:20:01.250Z"."""
    if at is None:
        return None
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return words.utc(at)  # no calendar has it: a clock was wrong, and the journal says so


def call_facts(call: Call, *, working: bool = False) -> dict[str, Json]:
    """Return what is known of a call; *working*: a living process drives its run, so what has started is running."""
    running = working and call.state is CallState.INTENDED
    before = call.imported and call.attempts == 1  # the program that it came from did not say when it started
    return shown(
        {
            "call": call.id,
            "turn": call.turn,
            "index": call.index,
            "tool": call.name,
            "effect": call.terms.effect if call.terms else None,
            "arguments": call.arguments,
            "state": "running" if running else str(call.state),
            "outcome": call.outcome,
            "attempts": call.attempts,
            "started": None if before else iso(call.last_at),
            "handle": call.handle,
            "again_at": iso(call.again_at) if call.state is CallState.ACCEPTED else None,
            "result": call.content,
            "is_error": call.is_error if call.outcome else None,
            "in_doubt": call.in_doubt and not running,
            "decided": call.verdict,
        }
    )


def questions(run: Run, *, working: bool) -> list[dict[str, Json]]:
    """Return the calls that somebody has to look into: those in doubt, and those that wait for an approval."""
    calls = {call.key: call for call in (*run.unknown.values(), *run.calls)}
    facts = [call_facts(call, working=working) for call in calls.values()]
    return [one for one in facts if one["in_doubt"] or one["state"] == CallState.ASKING_APPROVAL]


def run_facts(run_id: str, run: Run, status: str, why: str, size: int) -> dict[str, Json]:
    """Return a run's row in a list; *size* is in bytes."""
    asked = questions(run, working=status == "working")
    return shown(
        {
            "run": run_id,
            "status": status,
            "why": why,
            "api": run.begun.api,
            "task": run.begun.task,
            "answer": run.answer if status == "done" else None,
            "turns": run.turns,
            "turns_max": run.limits.turns,
            "tokens_used": run.tokens_used,
            "tokens_total": run.tokens_total,
            "seconds": round(run.seconds, 3),
            "doubts": [facts["call"] for facts in asked if facts["in_doubt"]],
            "approvals": [facts["call"] for facts in asked if not facts["in_doubt"]],
            "again_at": iso(again_at(run)) if status == "waiting" else None,
            "last": iso(run.at),
            "program": run.holder.program if run.holder else "",
            "cost": cost_of(run),
            "cost_max": run.limits.cost,
            "cache_read": run.cache_read,
            "cache_write": run.cache_write,
            "unpriced": run.answers - run.priced,
            "unanswered": unanswered_of(run, status),
            "size": size,
        }
    )


NAMES = (
    "run", "status", "why", "api", "task", "answer", "turns", "turns_max", "tokens_used", "tokens_total", "seconds",
    "doubts", "approvals", "again_at", "last", "program", "cost", "cost_max", "cache_read", "cache_write", "unpriced",
    "unanswered", "size",
)  # fmt: skip


def again_at(run: Run) -> float | None:
    """Return when a resume asks another side how accepted work stands, in the past where it is due; else None."""
    accepted = [call for call in run.calls if call.state is CallState.ACCEPTED]
    return min((call.again_at or run.at or 0.0 for call in accepted), default=None)


def unread_facts(run_id: str, why: str) -> dict[str, Json]:
    """Return the row of a run whose journal cannot be read: all but its id and the reason is null."""
    return {**dict.fromkeys(NAMES), "run": run_id, "status": UNREAD, "why": redacted(why)}


@dataclass
class Turn:
    """One request of a run with its *response*, and the *calls* of that as they ended."""

    number: int
    api: Api
    response: Json
    at: float
    cost: int | None
    calls: list[Call] = field(default_factory=list)


def turns(entries: Iterable[Entry]) -> tuple[list[Turn], list[dict[str, Json]]]:
    """Return the run's turns in order; and what was said to it."""
    run: Run = NEW
    made: list[Turn] = []
    heard: list[dict[str, Json]] = []
    calls: dict[CallId, Call] = {}
    for entry in entries:
        run = fold((entry,), run)
        for call in (*run.unknown.values(), *run.calls):
            calls[call.key] = call
        match entry.body:
            case journal.Responded(response=response, cost=cost):
                made.append(Turn(run.turns, run.api, response, entry.at, cost))
            case journal.Said(content=content, by=by):
                turn = made[-1].number if made else 0
                heard.append(shown({"turn": turn, "at": iso(entry.at), "by": by, "content": content}))
    by_turn = {turn.number: turn for turn in made}
    for call in calls.values():
        if call.turn in by_turn:
            by_turn[call.turn].calls.append(call)
    return made, heard


def turn_facts(turn: Turn, *, working: bool = False) -> dict[str, Json]:
    """Return what is known of a turn: the model's text, and its calls as they ended."""
    facts = shown(
        {
            "turn": turn.number,
            "at": iso(turn.at),
            "stop": turn.api.reason(turn.response),
            "text": turn.api.text(turn.response),
            "tokens": turn.api.usage(turn.response).total,
            "cost": None if turn.cost is None else turn.cost / BILLION,
        }
    )
    return {**facts, "calls": [call_facts(call, working=working) for call in turn.calls]}


def log_facts(entry: Entry) -> dict[str, Json]:
    """Return one entry: its number, time, kind, and the rest of its stored line."""
    line = json.loads(entry.text)
    rest = {name: value for name, value in line.items() if name not in ("seq", "at", "kind")}
    return shown({"seq": entry.seq, "at": iso(entry.at), "kind": entry.body.kind, **rest})


def log_line(entry: Entry, width: int) -> str:
    """Return one entry on a line, what it says in at most *width* characters."""
    gist = one_line(" ".join(_gist(entry.body)), width)
    return f"{entry.seq:>5}  {words.utc(entry.at)}  {entry.body.kind:<10} {gist}".rstrip()


def _gist(body: journal.Body) -> Iterator[str]:
    match body:
        case journal.Started():
            yield said(body.task)
        case journal.Taken():
            yield f"by pid {body.pid} on {body.host}, token {body.token}"
            yield "" if body.clean else "(whoever had it before did not end in order)"
        case journal.Requested():
            yield ", ".join(f"{name} {value}" for name, value in body.params.items() if name in ("model", "max_tokens"))
        case journal.Responded():
            yield from _answer_gist(body.response)
        case journal.Settled():
            yield f"turn {body.turn} call {body.index}: {body.outcome}"
            yield said(body.content) if isinstance(body.content, str) else f"({len(body.content)} blocks)"
        case journal.Intended():
            yield f"turn {body.turn} call {body.index}{' (imported)' if body.imported else ''}"
        case journal.Accepted(index=None):
            yield f"turn {body.turn}, the model's answer:"
            yield "nothing comes of it any more" if body.handle is None else said(body.handle)
        case journal.Accepted():
            yield f"turn {body.turn} call {body.index}: {said(body.handle)}"
            yield "" if body.again_at is None else f"(to be asked again at {words.utc(body.again_at)})"
            yield f"the poll told nothing: {said(body.failed)}" if body.failed else ""
        case journal.Asked():
            yield f"turn {body.turn} call {body.index}: {body.why}"
        case journal.Decided():
            yield f"turn {body.turn} call {body.index}: {body.verdict}, by {said(body.by) or 'somebody'}"
            yield said(body.content or "")
        case journal.Said():
            yield said(body.content)
            yield f"(by {said(body.by)})" if body.by else ""
        case journal.Extended():
            yield ", ".join(f"{name} {value}" for name, value in asdict(body.limits).items() if value is not None)
            yield f"(by {said(body.by) or 'somebody'})"
        case journal.Cancelled():
            yield said(body.reason)
            yield f"(by {said(body.by)})" if body.by else ""
        case journal.Failed():
            yield said(body.reason)
        case journal.Compacted():
            yield f"{body.upto} messages into {len(body.messages)}"


def _answer_gist(response: Json) -> Iterator[str]:
    """Say how an answer ended and what it calls; which API it is of is told by its own form."""
    api = next((one for one in APIS.values() if _speaks(one, response)), None)
    names = [call.name for call in api.calls(response)] if api else []
    if api is None or api.loops:  # a ledger's call has no answer that could end
        yield said(api.reason(response) if api else str(response.get("stop_reason") or ""))
    yield f"calls {', '.join(names)}" if names else ""


def _speaks(api: Api, response: Json) -> bool:
    try:
        api.check(response)
    except NotAResponse:
        return False
    return True


def plan_facts(run_id: str, planned: Planned, status: str, why: str) -> dict[str, Json]:
    """Return what a resume, or a ledger's call made again, would do: the run's next move, and each open call's."""
    move, reason, _ = named(planned.next)
    calls = []
    for call, its in planned.calls:
        own_move, own_reason, not_before = named(its)
        calls.append({**call_facts(call), "move": own_move, "why": redacted(own_reason), "not_before": not_before})
    own = {"move": move, "why": redacted(reason)}
    api = planned.run.begun.api
    return {"run": run_id, "status": status, "why": redacted(why), "api": api, "next": own, "calls": calls}


def named(move: Any) -> tuple[str, str, str | None]:
    """Return a move's name, its reason, and when it comes at the earliest; docs/json.md lists the names."""
    match move:
        case Execute(intend=intend, call=call, why=why):
            return ("run it again" if call.attempts or not intend else "run it"), why, None
        case Later(until=until, why=why):
            return "look it up later", why, iso(until)
        case Write(bodies=bodies, why=why):
            return _written(bodies[0]), why, None
        case Wait(why=why, until=until):
            return "wait for it" if until is None else "ask later how it stands", why, iso(until)
    return _MOVES[type(move)], move.why, None


_MOVES: dict[type, str] = {
    Rest: "leave it",
    Look: "look it up",
    Poll: "ask how it stands",
    Fetch: "fetch the model's answer",
    Collect: "wait for its tools",
    Request: "ask the model",
}


def _written(body: journal.Body) -> str:
    match body:
        case journal.Asked(why=why):
            return "ask a person to approve it" if why == "approval" else "ask a person whether it happened"
        case journal.Settled(outcome=outcome):
            return f"report it as {outcome}"
        case journal.Requested():
            return "make the call anew"
    return f"record {body.kind}"
