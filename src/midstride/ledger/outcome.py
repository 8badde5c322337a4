"""What the maker of a call gets: its result, or an error that says the truth about it, in words for the model."""

from __future__ import annotations

import shlex
from typing import Any

from midstride.core import words
from midstride.core.moves import crashed
from midstride.core.run import Call, CallState, Run
from midstride.errors import CallError, Denied, InDoubt, NeedsPerson, NotDone, Removed, ToolFailed
from midstride.stores import Store

Json = Any

DECIDE = ("--happened", "TEXT", "|", "--rerun", "|", "--unknown")
APPROVE = ("--approve", "|", "--deny")


def result_of(run: Run, run_id: str, store: Store) -> Json:
    """Return the result of a ledger's run that rests; raises the CallError that fits where there is none."""
    call = run.calls[0]
    if call.outcome in ("ok", "told", "already done"):
        return plain(call.content)
    if call.verdict == "happened":
        return plain(call.truth)
    raise _error(run, call, run_id, store)


def plain(content: Json) -> Json:
    """Return a result's content as one text where it is nothing but text."""
    if isinstance(content, list) and all(block.get("type") == "text" for block in content):
        return "\n".join(block["text"] for block in content)
    return content


def _error(run: Run, call: Call, run_id: str, store: Store) -> CallError:
    match call.outcome, call.state:
        case "failed", _:
            return ToolFailed(call.content, run_id, call.id)
        case "denied" | "not started", _:
            return Denied(call.content, run_id, call.id)
        case "unknown", _:
            return InDoubt(_unknown(call), run_id, call.id)
        case _, CallState.ASKING_APPROVAL:
            way = how_to("Approve or deny it with:", store, "decide", run_id, call.id, *APPROVE)
            return NeedsPerson(words.unapproved(call, way), run_id, call.id)
        case _, CallState.ACCEPTED:
            return NotDone(words.going_on(call), run_id, call.id, call.again_at)
        case _, CallState.ASKING_DOUBT:
            return InDoubt(words.undecided(call, how_to_decide(store, run_id, call)), run_id, call.id)
    way = how_to("See to what ends it, then let it go on with:", store, "extend", run_id, "--turns", "40")
    kind = InDoubt if call.in_doubt else NeedsPerson
    return kind(words.stuck(call, crashed(run), way), run_id, call.id)


def _unknown(call: Call) -> str:
    if call.verdict == "deny":
        return words.refused_again(call)
    return str(call.truth if call.verdict == "unknown" else call.content)


def removed_elsewhere(store: Store, owner: str, removed: Removed) -> InDoubt:
    """Return the error for a deed whose first call is not recorded any more: nobody can tell what came of it."""
    way = how_to("If it may be done again, forget that call with:", store, "gc", owner, "--forget")
    return InDoubt(
        f"Not started: the same deed was asked for before, by call {owner}, whose record was removed at "
        f"{words.utc(removed.at)}, so that nobody can tell what came of it. It was not begun a second time. {way}",
        owner,
        owner.partition("/")[2],
    )


def how_to_decide(store: Store, run_id: str, call: Call) -> str:
    """Return how a person says whether *call* happened."""
    return how_to("Decide with:", store, "decide", run_id, call.id, *DECIDE)


def how_to(what: str, store: Store, *command: str) -> str:
    """Return a sentence with a command that can be copied; what a memory store holds no command reaches."""
    if store.url.startswith("memory:"):
        verb, run_id, *_ = ("forget", command[1]) if command[0] == "gc" else command
        return f"{what} Runs(store).{verb}({run_id!r}, ...)"
    parts = ["midstride", *command, "--store", store.url]
    return f"{what} {' '.join(part if part in ('|', 'TEXT') else shlex.quote(part) for part in parts)}"
