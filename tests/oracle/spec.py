"""The design's tables as a program: what a run is after any journal, and the one next move.

In reading order: READINGS (each change that the search demanded, and what the design said before it), the tables RUN,
CALL, RECONCILE as data (a missing cell is an error, raised before anything is written), `fold` (journal -> run, calls,
transcript) and `next_move` (run + attempts alive here + deadlines passed -> move). Pure: no clock, no file, no chance.
`world.py` beside it is everything that can happen to such a program, and the search through all of it.

    python spec.py              every world under the corrected design: its number of states, and 'no violation'
    python spec.py --old        each change taken back alone: the shortest trace that demands it
    python spec.py --residual   what no table can give: traces that belong under 'not promised'
    python spec.py NAME ...     only the worlds whose name holds NAME

A journal is a tuple of entries, an entry a tuple: ("started",) ("taken", token, last holder ended cleanly) ("requested",)
("responded", stop, tools) ("intended", call, imported) ("accepted", call) ("settled", call, outcome) ("asked", call, why)
("decided", call, verdict) ("said", n) ("extended",) ("cancelled",) ("failed",). Left out: compacted, changed tools,
claims of other runs, the digest chain, and everything about bytes.
"""
from collections import namedtuple
from functools import lru_cache

READINGS = {  # name: (the world that shows it, what the design said before)
    "final-calls": ("every stop", "row done (and due) has no cell for the *not started* of a final answer's calls"),
    "no-calls": ("a batch of three", "a stop for tool use that holds no call goes to row calls, where nothing is ever settled"),
    "late-answer": ("every stop", "row cancelled has no cell for the answer that was out"),
    "said-behind-pause": ("every stop", "what was said comes behind its answer, even if that answer is a paused one"),
    "paused-stop": ("every stop", "a paused answer whose continuation was refused stays in the transcript"),
    "stop-said": ("every stop", "refused and the last cut stop the run even if something was said since"),
    "stop-counts": ("every stop", "cells cut and paused are `due` for ever"),
    "decide-late": ("two turns, talk between", "rows due and away refuse `decided` for a call settled unknown in an earlier turn"),
    "decide-settles": ("approvals in a batch", "a decision is followed by `settled` 'in the same append', but without the token only "
                       "`decided` may come; `denied` has no column in the reconcile table"),
    "two-questions": ("unsafe, asked, cancelled", "one state `asking` for approval and doubt: deny of a doubt becomes *denied*"),
    "not-started": ("unsafe, asked, cancelled", "cancelling: 'open calls are settled not started', also those in doubt or allowed again"),
    "waiting": ("approvals in a batch", "waiting = every open call is asking or accepted"),
    "capped": ("limits", "capped = due, and a limit is reached"),
    "extended": ("held and out of it", "`extended` only in due and stopped, and it does not end *held*"),
    "held-settles": ("held and out of it", "held stops every move, also those that run nothing"),
    "late-result": ("unsafe, reported", "settled unknown takes only a person's `decided`: a live attempt's real result has no cell"),
    "live": ("idempotent", "next() sees only the journal: it cannot tell a live attempt from a dead one"),
    "did-not-happen": ("idempotent", "DidNotHappen on a later attempt settles *failed*, though an earlier one may have happened"),
    "settle-from-intended": ("verifiable", "verify waits from `intended at`, though a timed-out thread may act until its process ends"),
    "verify-pending": ("verifiable, handed over", "DidNotHappen says 'not there', not 'not there and cannot come any more'"),
    "rolled-back": ("transactional, raced and fenced", "after a moved seq the holder appends the result again, transactional or not"),
    "key-life": ("idempotent, key life", "key life is asked before the attempt starts, without room for the attempt itself"),
    "imported-key": ("imported", "intended(imported), idempotent: same key, though the old program used another or none"),
    "imported-rollback": ("imported, a transaction", "intended(imported), transactional: 'no result means it was rolled back'"),
    "imported-approval": ("imported, approvals", "intended(imported) goes straight to run or look-then-run, approval or not"),
    "imported-sunk": ("imported", "a later effect of an import is looked at and run though an earlier one is in doubt"),
    "job-failed": ("verifiable, handed over", "a poll that finds the job failed goes the way of a look that finds nothing: run again "
                   "from *accepted*, which has no cell"),
    "job-of-a-rerun": ("unsafe, asked, handed over", "a job that failed is *failed*, though a person had the call run again and "
                       "its first attempt may have happened"),
    "look-again": ("business key, verifiable", "a claim that is settled unknown is looked at again though its attempt may be alive"),
}
OLD: set[str] = set()  # the old readings in force; empty is the corrected design
LIMIT, HELD, ATTEMPTS, CUTS = 4, 3, 3, 2

# ---- the tables ----------------------------------------------------------------------------------------------------
# A pair is (nothing was said since the request, something was). `call`: any entry of a call that does not settle the
# last one of the turn; in other rows than calls it is `decided` of a settled unknown one, which never wakes a run.
RUN = {
    "new": dict(started="due"),
    "due": dict(requested="away", call="due", settled_by_final="due", said="due", extended="due", cancelled="cancelled",
                failed="stopped"),
    "away": dict(requested="away", final=("done", "due"), calls="calls", paused="due", cut="due", given_up=("stopped", "due"),
                 refused=("stopped", "due"), call="away", said="away", extended="away", cancelled="cancelled", failed="stopped"),
    "calls": dict(call="calls", last="due", last_cancelling="cancelled", said="calls", extended="calls", cancelled="calls"),
    "done": dict(call="done", settled_by_final="done", said="due"),
    "stopped": dict(call="stopped", said="due", extended="due", cancelled="cancelled"),
    "cancelled": dict(call="cancelled", kept="cancelled"),
}
CALL = {
    "open": dict(intended="intended", settled="settled", asked="asking"),
    "asking": dict(settled="settled", allow="allowed", deny="settled"),
    "asking doubt": dict(settled="settled", allow="allowed", deny="settled", happened="settled", unknown="settled"),
    "allowed": dict(intended="intended", settled="settled"),
    "intended": dict(intended="intended", accepted="accepted", settled="settled", asked="asking"),
    "accepted": dict(accepted="accepted", settled="settled", asked="asking"),
    "unknown": dict(allow="unknown", deny="unknown", happened="unknown", unknown="unknown"),  # settled unknown
    "settled": {},
}
OLD_CELLS = {  # reading: the cells as they were
    "final-calls": [(RUN, "due", "settled_by_final", None), (RUN, "done", "settled_by_final", None)],
    "decide-late": [(RUN, "due", "call", None), (RUN, "away", "call", None)],
    "decide-settles": [(CALL, a, d, s) for a in ("asking", "asking doubt") for d, s in (("deny", "denied"),
                       ("happened", "denied"), ("unknown", "denied"))],
    "extended": [(RUN, "away", "extended", None), (RUN, "calls", "extended", None)],
    "late-answer": [(RUN, "cancelled", "kept", None)],
    "stop-said": [(RUN, "away", "refused", "stopped"), (RUN, "away", "given_up", "stopped")],
    "stop-counts": [(RUN, "away", "given_up", "due")],
}
RECONCILE = {  # effect: (open or allowed, asking, intended and the attempt dead, accepted)
    "read_only": ("run", "wait", "again", "poll"),
    "idempotent": ("run", "wait", "same key", "poll"),
    "transactional": ("run", "wait", "again", None),
    "verifiable": ("run", "wait", "look", "poll"),
    "unsafe": ("run", "wait", "doubt", "poll"),
}
COLUMN = {"open": 0, "allowed": 0, "asking": 1, "asking doubt": 1, "intended": 2, "accepted": 3}

Tool = namedtuple("Tool", "effect approval doubt key verify", defaults=(False, "report", None, "truth"))
Call = namedtuple("Call", "tool state attempts imported outcome approvals reruns verdict taken_since")
Run = namedtuple("Run", "state cancelling calls first msgs pending answers requests cuts takes token limit tail")
NEW = Run("new", False, (), 0, ("task",), (), 0, 0, 0, 0, 0, LIMIT, ())
TOOLS: dict[str, Tool] = {}  # of the world that is being searched
USED: set = set()  # the cells that some history needed


class Missing(Exception):
    """A table has no cell for this entry."""


def cell(table, state, column):
    USED.add((id(table), state, column))
    for name in OLD:
        for where, row, col, was in OLD_CELLS.get(name, ()):
            if where is table and (row, col) == (state, column):
                if was is None:
                    raise Missing(f"no cell: row '{state}', column '{column}'")
                return was
    try:
        return table[state][column]
    except KeyError:
        raise Missing(f"no cell: row '{state}', column '{column}'") from None


# ---- the fold ------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=None)
def fold(journal):
    return NEW if not journal else step(fold(journal[:-1]), journal[-1])


def step(run, entry):
    kind = entry[0]
    if kind == "taken":
        return run._replace(token=entry[1], takes=run.takes + (not entry[2]), calls=tuple(
            c._replace(taken_since=True) if c.state not in ("settled", "unknown") else c for c in run.calls))
    if kind in ("intended", "accepted", "settled", "asked", "decided"):
        return call_step(run, entry)
    column, cuts = kind, run.cuts
    if kind == "responded":
        column = "final" if entry[1] == "calls" and not entry[2] and "no-calls" not in OLD else entry[1]
        if column in ("cut", "paused"):  # the model bounds pauses as it bounds cuts: the count only has to be finite
            cuts += 1
            column = "given_up" if cuts > CUTS else column
        if run.state == "cancelled":
            column = "kept"
    new = cell(RUN, run.state, column)
    new = new[bool(run.pending)] if isinstance(new, tuple) else new
    if kind == "requested":
        hold = run.state == "away" or (run.tail and "said-behind-pause" not in OLD)
        if not hold:
            run = run._replace(msgs=run.msgs + run.tail + run.pending, pending=(), tail=())
        return run._replace(state=new, requests=run.requests + 1)
    if kind == "responded":
        run = run._replace(takes=0, answers=run.answers + 1, cuts=cuts if column in ("cut", "paused") else 0)
        message = (("assistant", run.answers, column, len(run.calls), len(entry[2])),)
        if column in ("final", "calls"):
            calls = tuple(Call(t, "open", 0, False, None, 0, 0, None, False) for t in entry[2])
            run = run._replace(first=len(run.calls) if calls else run.first, calls=run.calls + calls,
                               msgs=run.msgs + run.tail + message, tail=())
        elif column == "paused":
            run = run._replace(tail=run.tail + message)
        elif column in ("refused", "given_up"):  # the pause cannot be continued: an open server call must not be closed by a user
            run = run._replace(tail=(), msgs=run.msgs + (run.tail if "paused-stop" in OLD else ()))
    if kind == "said":
        run = run._replace(pending=run.pending + (("said", entry[1]),))
    if kind == "extended":
        run = run._replace(limit=run.limit + 1, takes=run.takes if "extended" in OLD else 0)
    if kind == "cancelled":
        run = run._replace(cancelling=True)
    return run._replace(state=new)


def call_step(run, entry):
    kind, c = entry[0], entry[1]
    call = run.calls[c]
    state = cell(CALL, call.state, entry[2] if kind == "decided" else kind)
    if kind == "intended":
        call = call._replace(attempts=call.attempts + 1, imported=call.imported or entry[2])
    elif kind == "asked":
        state = "asking doubt" if entry[2] == "doubt" and "two-questions" not in OLD else "asking"
    elif kind == "decided" and call.state == "unknown":
        call = call._replace(verdict=entry[2])
        if entry[2] in ("happened", "unknown"):
            run = run._replace(pending=run.pending + (("truth", c, entry[2]),))
    elif kind == "decided" and state == "allowed":
        doubt = call.state == "asking doubt"
        call = call._replace(approvals=call.approvals + (not doubt), reruns=call.reruns + doubt)
    elif kind in ("decided", "settled") and state == "settled":
        none = call.attempts == 0 or TOOLS[call.tool].effect == "read_only" or "two-questions" in OLD
        outcome = entry[2] if kind == "settled" else {"deny": "denied" if none else "unknown", "happened": "told",
                                                      "unknown": "unknown"}[entry[2]]
        state = "unknown" if outcome == "unknown" else "settled"
        call = call._replace(outcome=outcome)
    calls = run.calls[:c] + (call._replace(state=state),) + run.calls[c + 1:]
    settles = c >= run.first and state in ("settled", "unknown") and run.calls[c].state not in ("settled", "unknown")
    last = settles and all(x.state in ("settled", "unknown") for x in calls[run.first:])
    msgs = run.msgs + (("results", tuple((i, calls[i].outcome) for i in range(run.first, len(calls)))),) if last else run.msgs
    column = "call"
    if last and run.state == "calls":
        column = "last_cancelling" if run.cancelling else "last"
    elif settles and run.state != "calls":
        column = "settled_by_final"
    new = cell(RUN, run.state, column)
    takes = 0 if kind in ("settled", "accepted") else run.takes
    return run._replace(state=new, calls=calls, msgs=msgs, takes=takes)


# ---- next: the only brain ------------------------------------------------------------------------------------------
# A move: ("rest", status) | ("wait", why) | ("append", entries, job) | ("look", c) | ("poll", c) | ("stuck",)
def next_move(run, live=frozenset(), passed=frozenset(), expired=frozenset()):
    if run.state == "new":
        return ("append", (("started",),), None)  # started + taken + requested is one append
    if run.state in ("done", "stopped", "cancelled"):
        return ("rest", run.state)
    held = run.takes > HELD
    if run.state in ("due", "away"):
        if held:
            return ("rest", "held")
        if run.requests >= run.limit and (run.state == "due" or "capped" not in OLD):
            return ("rest", "capped")
        return ("append", (("requested",),), ("send",))
    if held and "held-settles" in OLD:
        return ("rest", "held")
    blocked = sunk = False
    waits = []
    for c in range(run.first, len(run.calls)):
        call = run.calls[c]
        effect = TOOLS[call.tool].effect != "read_only"
        if call.state in ("settled", "unknown"):
            sunk = sunk or (effect and (call.state == "unknown" or call.outcome in ("failed", "denied", "elsewhere")))
            continue
        move = call_move(run, c, sunk and effect, live, passed, expired)
        runs = move[0] in ("look", "poll", "wait") or (move[0] == "append" and move[2])
        if move[0] == "wait" or (runs and held) or (runs and effect and blocked):
            waits.append("held" if runs and held else call.state)
        else:
            return move
        blocked = blocked or effect
    if "held" in waits:
        return ("rest", "held")
    if "waiting" in OLD and any(w not in ("asking", "asking doubt", "accepted") for w in waits):
        return ("stuck",)
    return ("rest", "waiting")


def call_move(run, c, sunk, live, passed, expired):
    call = run.calls[c]
    tool = TOOLS[call.tool]
    settle = lambda outcome: ("append", (("settled", c, outcome),), None)
    start = lambda: ("append", (("intended", c, False),), ("run", c))
    doubt = lambda: settle("unknown") if tool.doubt == "report" or run.cancelling else (
        "append", (("asked", c, "doubt"),), None)
    unapproved = tool.approval and not call.approvals and not call.reruns
    untouched = call.attempts == 0 or tool.effect == "read_only" or (tool.effect == "transactional" and not call.imported)
    if run.cancelling:
        waits_in_doubt = call.state in ("asking", "asking doubt", "allowed")
        return settle("not started" if untouched or ("not-started" in OLD and waits_in_doubt) else "unknown")
    if sunk and call.attempts == 0:
        return settle("not started")
    if sunk and call.imported and call.state == "intended" and "imported-sunk" not in OLD and tool.effect != "unsafe":
        return settle("unknown")  # only an import has two effects of one response in doubt at once
    if call.state not in COLUMN:
        raise Missing(f"no cell: reconcile, '{call.state}'")
    move = RECONCILE[tool.effect][COLUMN[call.state]]
    if move is None:
        raise Missing(f"reconcile: {tool.effect}, {call.state}")
    if move == "wait":
        return ("wait", call.state)
    if move == "poll":
        return ("poll", c)
    if c in live and "live" not in OLD:  # a live attempt is reported or waited for, never repeated
        return doubt() if call.state == "intended" else ("wait", "alive")
    if move == "run":
        if unapproved:
            return ("append", (("asked", c, "approval"),), None)
        if tool.key and call.state in ("open", "allowed"):
            claim = key_claim(run, c, live, passed)
            if claim:
                return claim
        if tool.effect == "read_only" and call.attempts == 0 and not call.taken_since:
            return ("append", (), ("run", c))  # the first attempt belongs to the process that recorded the response
        return start()
    if move == "doubt" or (call.imported and ((tool.effect == "idempotent" and "imported-key" not in OLD) or (
            tool.effect == "transactional" and "imported-rollback" not in OLD))):
        return doubt()
    if move == "look":
        return ("look", c) if c in passed else ("later", c)
    spent = call.attempts + (tool.effect == "read_only" and not call.imported) >= ATTEMPTS
    if tool.effect == "read_only" and spent:
        return settle("unknown")
    if move == "same key" and (spent or c in expired):
        return doubt()
    if unapproved and "imported-approval" not in OLD:  # read_only, imported
        return ("append", (("asked", c, "approval"),), None)
    return start()


def key_claim(run, c, live, passed):
    """What the business key's first call means for the new one; None when the key is free."""
    key = TOOLS[run.calls[c].tool].key
    firsts = [i for i in range(c) if TOOLS[run.calls[i].tool].key == key and run.calls[i].attempts]
    if not firsts:
        return None
    first = run.calls[firsts[-1]]
    settle = lambda outcome: ("append", (("settled", c, outcome),), None)
    if firsts[-1] in live and "look-again" not in OLD:
        return settle("elsewhere")
    if first.outcome in ("ok", "told") or first.verdict == "happened":
        return settle("already done")
    if first.state == "unknown" and first.verdict is None and TOOLS[first.tool].effect == "verifiable":
        return ("look", firsts[-1], c) if firsts[-1] in passed or "look-again" in OLD else ("later", firsts[-1])
    if first.state == "unknown" and first.verdict != "allow":
        return settle("elsewhere")  # a person must decide, or has decided against it
    return None


def after_poll(run, c, answer):
    call, tool = run.calls[c], TOOLS[run.calls[c].tool]
    if "job-failed" in OLD or answer != "did not":
        return after_look(run, c, None, answer)
    if tool.effect == "read_only" or "job-of-a-rerun" in OLD or not (call.reruns or call.imported):
        return ((("settled", c, "failed"),), None)
    return after_look(run, c, None, "cannot")


def after_look(run, c, new, answer):
    call, tool = run.calls[c], TOOLS[run.calls[c].tool]
    if new is not None:  # looked on behalf of a new call that met the key
        return {"happened": ((("settled", new, "already done"),), None), "cannot": ((("settled", new, "elsewhere"),), None),
                "did not": ((("intended", new, False),), ("run", new))}[answer]
    if answer == "happened":
        return ((("settled", c, "ok"),), None)
    if answer == "did not" and call.attempts < ATTEMPTS:
        if tool.approval and not call.approvals and not call.reruns and "imported-approval" not in OLD:
            return ((("asked", c, "approval"),), None)
        return ((("intended", c, False),), ("run", c))
    return ((("settled", c, "unknown"),), None) if tool.doubt == "report" else ((("asked", c, "doubt"),), None)


if __name__ == "__main__":
    import world  # imports this file again under its own name: one set of globals, world's

    world.main()
