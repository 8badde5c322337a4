"""What the log says of a run: one line an entry, and one when it is let go; never what anybody said.

A line has the run's id, the entry's number and kind, and the few facts that an operator looks for. A task, a prompt, an
argument, a result, an answer, a reason and the text of an error are nobody's business there: they are in the journal.
Who did something may be any text, so it is redacted like all that is shown; ids and names stay whole.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from midstride.core import journal
from midstride.core.journal import Entry
from midstride.core.run import Run
from midstride.hidden import redacted
from midstride.visible import word

log = logging.getLogger("midstride")
log.addHandler(logging.NullHandler())  # a program that sets up no log hears nothing

WIDTH = 100
"""Characters of a name that a model or a program made up."""

_MILESTONES = frozenset({"started", "taken", "asked", "decided", "extended", "cancelled"})


def tell(run_id: str, entry: Entry, run: Run) -> None:
    """Log an entry that is durable; *run* is the one it belongs to, and knows its call.

    A record has `run`, `seq`, `kind` and `facts` as fields, for a log that is structured.
    """
    level = level_of(entry.body)
    if log.isEnabledFor(level):
        facts = {name: value for name, value in facts_of(entry.body, run).items() if value not in (None, "")}
        facts |= {"by": redacted(facts["by"])} if "by" in facts else {}
        extra = {"run": run_id, "seq": entry.seq, "kind": entry.body.kind, "facts": facts}
        said = "".join(f" {name}={_shown(value)}" for name, value in facts.items())
        log.log(level, "%s %d %s%s", word(run_id), entry.seq, entry.body.kind, said, extra=extra)


def tell_end(run_id: str, run: Run, status: str | None, error: BaseException | None) -> None:
    """Log that a run is let go: its status, or the class of what ended its driver."""
    how = status if error is None and status is not None else "interrupted"
    facts = {"turns": run.turns, "tokens": run.tokens_total, **({"error": type(error).__name__} if error else {})}
    extra = {"run": run_id, "kind": how, "facts": facts}
    said = "".join(f" {name}={_shown(value)}" for name, value in facts.items())
    log.info("%s %s%s", word(run_id), how, said, extra=extra)


def level_of(body: journal.Body) -> int:
    """Return the level of an entry: a warning asks for somebody, info is a milestone, all else is for debugging."""
    if isinstance(body, journal.Failed) or (isinstance(body, journal.Settled) and body.outcome == "unknown"):
        return logging.WARNING
    return logging.INFO if body.kind in _MILESTONES else logging.DEBUG


def facts_of(body: journal.Body, run: Run) -> Mapping[str, Any]:
    """Return what is said of an entry beside its kind."""
    match body:
        case journal.Started():
            return {"api": body.api, "tools": len(body.tools)}
        case journal.Taken():
            return {"token": body.token, "pid": body.pid, "host": body.host, "clean": body.clean}
        case journal.Requested():
            model = body.params.get("model")
            return {"turn": run.turns, "model": model if isinstance(model, str) else None}
        case journal.Responded():
            api = run.api
            tokens, calls = api.usage(body.response).window, len(api.calls(body.response))
            return {"turn": run.turns, "stop": api.stop(body.response), "calls": calls, "tokens": tokens}
        case journal.Compacted():
            return {"upto": body.upto, "messages": len(body.messages)}
        case journal.Extended():
            limits = body.limits
            return {"by": body.by, "turns": limits.turns, "tokens": limits.tokens, "seconds": limits.seconds}
        case journal.Said() | journal.Cancelled():
            return {"by": body.by}
        case journal.Failed():
            return {}
        case _:
            return _facts_of_call(body, run)


def _facts_of_call(body: Any, run: Run) -> Mapping[str, Any]:
    call = run.call((body.turn, body.index))
    facts: dict[str, Any] = {"turn": body.turn, "index": body.index, "tool": call.name if call else None}
    for name in ("effect", "outcome", "why", "verdict", "by"):
        facts[name] = getattr(body, name, None)
    return facts


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = word(value)
    shown = text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
    return f'"{shown}"' if " " in shown else shown
