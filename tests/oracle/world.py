"""Everything that can happen to a run, and the search through all of it; `spec.py` is what is searched.

A state is the journal, the living processes, and what is true outside of both and survives a crash: the real effects
(`eff`, a count for each call) and the attempts under way (`tries`: call, token, phase). A phase is ready (no effect
yet), done (effect made, not returned), thread0 / thread1 (the same, timed out but alive), flight (its process is gone,
the effect may still land until the deadline has passed), remote (handed over, goes on by itself), gone (it failed there). An append is atomic
and conditional (newest token, expected seq); a process may be killed before and behind every one. With `race` a holder
decides on what it last read; without, it reads the tail before each step. A fenced holder's own tool goes on running.
"""
import sys
import time
from collections import deque, namedtuple

import spec
from spec import CALL, CUTS, LIMIT, RUN, TOOLS, Missing, Tool, after_look, after_poll, fold, next_move

World = namedtuple("World", "tools batches turns stops bodies crashes takeovers acts act_kinds race imported limit life",
                   defaults=((), 2, (), (), 1, 0, 0, (), False, (), LIMIT, False))
Proc = namedtuple("Proc", "token seen job")
State = namedtuple("State", "journal procs eff tries passed expired clean sends crashes takeovers acts")
CALLS = 6


def begin(world):
    if not world.imported:
        return [State((), (), (0,) * CALLS, (), frozenset(), frozenset(), True, 0, 0, 0, 0)]
    head = (("started",), ("requested",), ("responded", "calls", world.imported))
    journal = head + tuple(("intended", c, True) for c in range(len(world.imported)))
    starts = [()]
    for name in world.imported:  # the old program had done it, or not: no trace of which
        starts = [s + (e,) for s in starts for e in ((0,) if world.tools[name].effect == "read_only" else (0, 1))]
    return [State(journal, (), s + (0,) * (CALLS - len(s)), (), frozenset(), frozenset(), False, 1, 0, 0, 0) for s in starts]


def alive(state, token):
    return frozenset(c for c, t, phase in state.tries if t == token and phase.startswith("thread"))


def move_of(state, proc, run):
    return next_move(run, alive(state, proc.token) if proc else frozenset(), state.passed, state.expired)


def pending(state, move):
    phases = {phase for c, _, phase in state.tries if move[0] == "poll" and c == move[1]}
    return "remote" in phases and "gone" not in phases


def quiet(state):
    move = move_of(state, None, fold(state.journal))
    return not state.procs and (move[0] == "rest" or pending(state, move))


def swap(state, proc, new):
    return tuple(p for p in (new if p is proc else p for p in state.procs) if p is not None)


def retry(state, old, new):
    tries = list(state.tries)
    tries.remove(old)
    return tuple(sorted(tries + ([new] if new else [])))


def die(state, proc, clean):
    tries = []
    for c, token, phase in state.tries:
        if token != proc.token or phase in ("flight", "remote"):
            tries.append((c, token, phase))
        elif phase in ("ready", "thread0"):
            tries.append((c, token, "flight"))
    return state._replace(procs=swap(state, proc, None), tries=tuple(sorted(tries)), clean=clean)


def applied(state, c):
    """One more real effect; the other side drops a repeated idempotency key within its life."""
    call = fold(state.journal).calls[c]
    unknown_key = call.imported and call.attempts == 2  # the old program had another key, or none
    if TOOLS[call.tool].effect == "idempotent" and state.eff[c] and c not in state.expired and not unknown_key:
        return state.eff
    return state.eff[:c] + (state.eff[c] + 1,) + state.eff[c + 1:]


def append(state, proc, entries, job):
    """A holder's append: fenced, conditional, atomic; what it starts belongs to the holder's next steps."""
    if proc.token != fold(state.journal).token:
        return die(state, proc, state.clean)  # fenced out
    if proc.seen is not None and proc.seen != len(state.journal):  # seq moved, token newest: read the tail, decide anew
        return state._replace(procs=swap(state, proc, proc._replace(seen=len(state.journal))))
    journal, tries, passed = state.journal + entries, state.tries, state.passed
    fold(journal)
    if job and job[0] == "run" and TOOLS[fold(journal).calls[job[1]].tool].effect not in ("read_only", "transactional"):
        tries = tuple(sorted(tries + ((job[1], proc.token, "ready"),)))
        passed = passed - {job[1]}
    seen = None if proc.seen is None else len(journal)
    return state._replace(journal=journal, tries=tries, passed=passed, sends=state.sends + (job == ("send",)),
                          procs=swap(state, proc, Proc(proc.token, seen, job)))


def process_steps(state, proc, world):
    now = fold(state.journal)
    run = now if proc.seen is None else fold(state.journal[:proc.seen])
    job = proc.job
    put = lambda job, **more: state._replace(procs=swap(state, proc, proc._replace(job=job)), **more)
    if job is None:
        if proc.seen is None and proc.token != now.token:
            yield "fenced out", die(state, proc, state.clean)
            return
        move = move_of(state, proc, run)
        if move[0] == "stuck":
            raise Missing("no move and no status")
        if move[0] == "rest" or pending(state, move):
            if proc.seen is not None and proc.seen != len(state.journal):
                yield "reads the tail", state._replace(procs=swap(state, proc, proc._replace(seen=len(state.journal))))
            else:
                yield f"ends cleanly: {move[1]}", die(state, proc, True)
        elif move[0] == "append":
            yield f"appends {move[1]}", append(state, proc, move[1], move[2])
        elif move[0] == "poll":
            c = move[1]
            if (c, 0, "gone") in state.tries:
                entries, job = after_poll(run, c, "did not")
                yield f"polls {c}: it failed", append(state, proc, entries, job)
            elif state.eff[c]:
                yield f"polls {c}: done", append(state, proc, (("settled", c, "ok"),), None)
            if TOOLS[run.calls[c].tool].verify == "cannot":
                entries, job = after_poll(run, c, "cannot")
                yield f"polls {c}: cannot tell", append(state, proc, entries, job)
        elif move[0] == "look":
            c, new = move[1], move[2] if len(move) > 2 else None
            for answer in verify(state, c, run):
                yield f"looks at {c}: {answer}", put(("looked", c, new, answer))
        for c, token, phase in state.tries:  # a timed-out thread ends
            if token == proc.token and phase == "thread1":
                yield f"thread of {c} returns its result", put(("returned", c, "ok"), tries=retry(state, (c, token, phase), None))
            if token == proc.token and phase == "thread0":
                yield f"thread of {c} raises, no effect", state._replace(tries=retry(state, (c, token, phase), None))
    elif job[0] == "send":
        for stop, tools in answers(world, now):
            yield f"API answers {stop} {tools}", put(("got", stop, tools))
        if "failed" in world.stops:
            yield "API fails for good", put(("got", None, ()))
    elif job[0] == "got":
        entries = (("responded", job[1], job[2]),) if job[1] else (("failed",),)
        if job[1] is None and now.state == "cancelled":
            entries = ()
        if job[1] == "final":  # a final answer that still holds calls: in the same append
            kept = now.state == "cancelled"
            entries += tuple(("settled", len(now.calls) + i, "not started") for i in range(0 if kept else len(job[2])))
        yield f"appends {entries}", append(state, proc, entries, None)
    elif job[0] == "looked":
        if now.cancelling or (now.state != "calls" and proc.token == now.token):
            yield "looked for nothing", put(None)
        else:
            entries, then = after_look(now, *job[1:])
            yield f"appends {entries}", append(state, proc, entries, then)
    elif job[0] == "returned":
        c, outcome = job[1], job[2]
        entries = (("accepted", c),) if outcome == "accepted" else (("settled", c, outcome),)
        if now.calls[c].state == "unknown" and "late-result" not in spec.OLD:
            entries = (("decided", c, "happened"),)  # recorded by the tool itself: a later truth
        if now.calls[c].outcome == "told":
            entries = ()
        yield f"appends {entries}", append(state, proc, entries, None)
    elif job[0] == "run":
        yield from body_steps(state, proc, job[1], world, put)


def body_steps(state, proc, c, world, put):
    effect = TOOLS[fold(state.journal).calls[c].tool].effect
    if effect == "read_only":
        yield f"read {c} returns", put(("returned", c, "ok"))
        yield f"read {c} raises", put(("returned", c, "failed"))
        return
    if effect == "transactional":
        after = append(state, proc, (("settled", c, "ok"),), None)
        if len(after.journal) > len(state.journal):
            yield f"transaction of {c} commits", after._replace(eff=applied(state, c))
        elif proc in state.procs and len(after.procs) == len(state.procs) and "rolled-back" in spec.OLD:
            yield f"transaction of {c} meets a moved seq", put(("returned", c, "ok"))
        else:
            yield f"transaction of {c} is rolled back: fenced or seq moved", after._replace(
                procs=tuple(p._replace(job=None) if p.token == proc.token else p for p in after.procs))
        yield f"transactional {c} raises", put(("returned", c, "failed"))
        return
    mine = next(t for t in state.tries if t[:2] == (c, proc.token) and t[2] in ("ready", "done"))
    if mine[2] == "ready":
        yield f"EFFECT of {c}", state._replace(eff=applied(state, c), tries=retry(state, mine, (c, proc.token, "done")))
        if "raise" in world.bodies:
            yield f"tool {c} raises before its effect", put(None, tries=retry(state, mine, None))
            definite = fold(state.journal).calls[c].attempts == 1 or "did-not-happen" in spec.OLD
            yield f"tool {c} raises DidNotHappen", put(("returned", c, "failed") if definite else None, tries=retry(state, mine, None))
        if "timeout" in world.bodies:
            yield f"tool {c} times out, thread alive", put(None, tries=retry(state, mine, (c, proc.token, "thread0")))
        if "accept" in world.bodies:
            fresh = state._replace(tries=tuple(t for t in state.tries if t != (c, 0, "gone")))
            yield f"tool {c} hands a job over", put(("returned", c, "accepted"), tries=retry(fresh, mine, (c, 0, "remote")))
        return
    yield f"tool {c} returns", put(("returned", c, "ok"), tries=retry(state, mine, None))
    if "raise" in world.bodies:
        yield f"tool {c} raises after its effect", put(None, tries=retry(state, mine, None))
    if "timeout" in world.bodies:
        yield f"tool {c} times out after its effect", put(None, tries=retry(state, mine, (c, proc.token, "thread1")))


def answers(world, run):
    if run.answers < world.turns:
        for batch in world.batches:
            yield "calls", batch
        for stop in world.stops:
            if stop == "final with calls":
                yield "final", world.batches[0]
            elif stop != "failed":
                yield stop, ()
    yield "final", ()


def verify(state, c, run):
    kind = TOOLS[run.calls[c].tool].verify
    if kind == "cannot":
        return ("cannot", "happened") if state.eff[c] else ("cannot",)
    if kind == "late" and state.eff[c]:
        return ("happened", "did not")
    on_its_way = any(t[0] == c and t[2] == "remote" for t in state.tries) and "verify-pending" not in spec.OLD
    return ("happened",) if state.eff[c] else ("cannot",) if on_its_way else ("did not",)


def world_steps(state, world):
    run = fold(state.journal)
    for t in set(state.tries):
        c, token, phase = t
        if phase == "thread0":
            yield f"EFFECT of {c}, late, by a timed-out thread", state._replace(eff=applied(state, c), tries=retry(
                state, t, (c, token, "thread1")))
        keyed = TOOLS[run.calls[c].tool].effect == "idempotent"  # then every attempt's job is the same one
        if phase == "remote" and "job fails" in world.bodies and not (keyed and state.eff[c]):
            left = tuple(x for x in state.tries if x != t and not (keyed and x[0] == c and x[2] in ("flight", "remote")))
            yield f"JOB of {c} fails", state._replace(tries=tuple(sorted({*left, (c, 0, "gone")})))
        if phase in ("flight", "remote"):
            yield f"EFFECT of {c}, late ({phase})", state._replace(eff=applied(state, c), tries=retry(state, t, None))
    for c, call in enumerate(run.calls):
        effect, landed = TOOLS[call.tool].effect, tuple(t for t in state.tries if not (t[0] == c and t[2] == "flight"))
        phases = {t[2] for t in state.tries if t[:2] == (c, run.token)}
        busy, threads = phases & {"ready", "done"}, phases & {"thread0", "thread1"}
        if effect == "verifiable" and call.attempts and c not in state.passed and call.outcome in (None, "unknown"):
            if not busy and (not threads or "settle-from-intended" in spec.OLD):
                yield f"timeout and settle pass for {c}", state._replace(passed=state.passed | {c}, tries=landed)
        if world.life and effect == "idempotent" and call.attempts and c not in state.expired:
            if not busy or "key-life" in spec.OLD:
                yield f"key life of {c} ends", state._replace(expired=state.expired | {c}, tries=landed)


def outside_steps(state, world):
    """Persons and others: no token, at the expected seq. A cell that is missing in the call's row refuses them, rightly."""
    run = fold(state.journal)
    acts = [("said", state.acts)] * (run.state not in ("new", "cancelled") and "said" in world.act_kinds)
    acts += [("cancelled",)] * ("cancelled" in world.act_kinds and not run.cancelling and run.state not in ("new", "done"))
    acts += [("extended",)] * ("stopped: extended" in world.act_kinds and run.state == "stopped")
    acts += [("extended",)] * ("extended" in world.act_kinds and move_of(state, None, run) in (("rest", "capped"), ("rest", "held")))
    if "decided" in world.act_kinds:
        for c, call in enumerate(run.calls):
            offers = {"asking": ("allow", "deny"), "asking doubt": ("allow", "deny", "happened", "unknown")}.get(call.state, ())
            if call.state == "unknown" and call.verdict is None and call.outcome == "unknown":
                offers = ("allow", "deny", "happened", "unknown")
            acts += [("decided", c, verdict) for verdict in offers]
    for act in acts:
        fold(state.journal + (act,))
        yield f"outside: {act}", state._replace(journal=state.journal + (act,), acts=state.acts + 1)


def steps(state, world):
    """Every (label, internal?, next state); internal steps need no crash, no take-over and nobody outside."""
    run = fold(state.journal)
    for proc in state.procs:
        for label, after in process_steps(state, proc, world):
            yield f"[{proc.token}] {label}", True, after
        if state.crashes < world.crashes:
            yield f"[{proc.token}] KILLED", False, die(state, proc, False)._replace(crashes=state.crashes + 1)
    for label, after in world_steps(state, world):
        yield label, True, after
    if state.acts < world.acts:
        for label, after in outside_steps(state, world):
            yield label, False, after
    taking_over = state.procs and len(state.procs) < 2 and state.takeovers < world.takeovers
    if (not state.procs and not quiet(state)) or (taking_over and move_of(state, None, run)[0] != "rest"):
        token = run.token + 1
        journal = state.journal + (() if state.journal else (("started",),)) + (("taken", token, state.clean),)
        proc = Proc(token, len(journal) if world.race else None, None)
        yield f"[{token}] takes the run {'over' if taking_over else 'up'}", not taking_over, state._replace(
            journal=journal, procs=state.procs + (proc,), clean=False, takeovers=state.takeovers + bool(taking_over))


# ---- the invariants ------------------------------------------------------------------------------------------------
def faults_of(state, world):
    run = fold(state.journal)
    for c, call in enumerate(run.calls):
        tool, eff = TOOLS[call.tool], state.eff[c]
        coming = any(t[0] == c and t[2] != "gone" for t in state.tries)
        own = call.attempts - call.imported
        if sum(t[:2] == (c, run.token) and t[2] not in ("flight", "remote") for t in state.tries) > 1:
            return f"I4: a live attempt of call {c} is repeated"
        may = 1 + call.reruns
        if tool.effect == "unsafe" and (eff > may or own + call.imported > may):
            return f"I1: unsafe call {c}: {eff} effects, {call.attempts} attempts, {call.reruns} re-runs allowed"
        if tool.effect == "idempotent" and eff > may:
            return f"I2: idempotent call {c} applied {eff} times, {call.reruns} re-runs allowed"
        if tool.effect == "transactional" and (eff > may or (not call.imported and eff != (call.outcome == "ok"))):
            return f"I3: transactional call {c}: {eff} effects, outcome {call.outcome}"
        if tool.effect == "verifiable" and eff > may:
            return f"I4: verifiable call {c}: {eff} effects, {call.reruns} re-runs allowed"
        running = any(p.job == ("run", c) for p in state.procs)
        if tool.approval and (own or running) and not call.approvals and not call.reruns:
            return f"I5: call {c} ran unapproved"
        if call.outcome == "denied" and own:
            return f"I5: denied call {c} ran"
        if call.outcome in ("not started", "denied", "failed", "elsewhere", "already done") and tool.effect != "read_only" and (eff or coming):
            return f"I7: call {c} is told as '{call.outcome}', effects {eff}{', one may still come' if coming else ''}"
        if call.outcome == "ok" and tool.effect != "read_only" and not eff:
            return f"I7: call {c} is told as done, it never happened"
        if eff and call.state == "open":
            return f"I7: call {c} happened and is open"
    if state.journal and state.journal[-1][0] == "intended" and not state.journal[-1][2]:
        c = state.journal[-1][1]
        before = [x for x in run.calls[run.first:c] if TOOLS[x.tool].effect != "read_only"]
        if TOOLS[run.calls[c].tool].effect != "read_only" and not run.calls[c].reruns and not all(
                x.outcome in ("ok", "told", "already done", "not started") for x in before):
            return f"decision 16: call {c} starts behind {[x.outcome for x in before]}"
    for key in {t.key for t in TOOLS.values() if t.key}:
        same = [c for c, call in enumerate(run.calls) if TOOLS[call.tool].key == key]
        allowed = sum(e[0] == "decided" and e[1] in same and e[2] == "allow" for e in state.journal)
        if sum(state.eff[c] for c in same) > 1 + allowed:
            return f"I1: business key {key}: {sum(state.eff[c] for c in same)} effects, {allowed} allowed"
    if run.requests > run.limit or state.sends > run.requests:
        return f"I11: {run.requests} requests, {state.sends} sent, limit {run.limit}"
    if run.state == "away" and sum(e[:2] in (("responded", "cut"), ("responded", "paused")) for e in state.journal) > CUTS \
            and not any(e[0] in ("said", "extended") for e in state.journal):
        return "I8: cut or paused for ever"
    if quiet(state) and run.cancelling and run.state not in ("cancelled", "done"):
        return f"I8: cancelled, and rests as {move_of(state, None, run)[1]}"
    if state.journal and state.journal[-1] == ("requested",):
        return request_fault(state.journal, run)
    if len(state.journal) > 1 and {e[0] for e in state.journal[-2:]} == {"said", "responded"}:
        swapped = fold(state.journal[:-2] + state.journal[:-3:-1])
        if swapped.state != run.state:
            return f"I12: said and responded do not commute: {run.state} or {swapped.state}"
    return None


def request_fault(journal, run):
    msgs = run.msgs + run.tail  # what is sent: a paused answer is the tail until its end
    for i, m in enumerate(msgs):
        if m[0] == "assistant" and m[4]:
            want = list(range(m[3], m[3] + m[4]))
            if i + 1 == len(msgs) or msgs[i + 1][0] != "results" or [c for c, _ in msgs[i + 1][1]] != want:
                return f"I6: calls of answer {m[1]} have not one result each behind them"
        if m[0] in ("said", "truth") and msgs[i - 1][0] == "assistant" and msgs[i - 1][2] == "paused":
            return "I6: something said stands between a paused answer and its end"
    if msgs[-1][0] == "assistant" and msgs[-1][2] != "paused":
        return "I6: the request ends with the model's own finished answer"
    at = max((i for i, e in enumerate(journal[:-1]) if e == ("requested",)), default=None)
    if at is not None:
        before = fold(journal[:at + 1])
        given_up = before.tail and any(e[1] in ("refused", "cut", "paused") for e in journal[at:] if e[0] == "responded") and not run.tail
        last = before.msgs + (() if given_up else before.tail)
        if last != msgs[:len(last)]:
            return "I6: the request does not extend the last one"
        if fold(journal[:-1]).state == "away" and last != msgs:
            return "I9: the request repeated after a crash is another one"
    alone = fold(tuple(e for e in journal if e[0] != "taken"))
    if alone.msgs + alone.tail != msgs or alone.state != run.state:
        return "I9: the same journal without take-ups gives another request"
    return None


# ---- the search ----------------------------------------------------------------------------------------------------
def search(world, limit=10**7):
    """Breadth first through every state: (states, None) or (states, (fault, trace))."""
    TOOLS.clear()
    TOOLS.update(world.tools)
    fold.cache_clear()
    came: dict = {s: None for s in (b._replace() for b in begin(world))}
    spec.NEW = spec.NEW._replace(limit=world.limit)
    todo, back, rests = deque(came), {}, []
    trace = lambda s, more=(): (trace(came[s][0]) + [came[s][1]] if came[s] else []) + list(more)
    while todo:
        state = todo.popleft()
        try:
            fault = faults_of(state, world)
            if fault:
                return len(came), (fault, trace(state))
            if quiet(state):
                rests.append(state)
            for label, internal, after in steps(state, world):
                if internal:
                    back.setdefault(after, []).append(state)
                if after not in came:
                    came[after] = (state, label)
                    todo.append(after)
        except Missing as why:
            return len(came), (f"I8: {why}", trace(state))
        if len(came) > limit:
            return len(came), ("search too large", [])
    reach, todo = set(rests), deque(rests)  # I8: from everywhere a quiet state can be reached by internal steps alone
    while todo:
        for state in back.get(todo.popleft(), ()):
            if state not in reach:
                reach.add(state)
                todo.append(state)
    for state in came:
        if state not in reach:
            return len(came), ("I8: stuck for ever", trace(state))
    return len(came), None


R, I, X, V, U = (Tool(e) for e in ("read_only", "idempotent", "transactional", "verifiable", "unsafe"))
ASK = dict(doubt="ask")
WORLDS = {
    "read: killed again and again": World({"r": R}, [("r",)], 1, crashes=5, acts=1, act_kinds=("extended",)),
    "unsafe, reported": World({"u": U}, [("u",)], 1, bodies=("raise", "timeout"), crashes=2, acts=2, act_kinds=("decided", "said")),
    "unsafe, asked": World({"u": U._replace(**ASK)}, [("u",)], 1, bodies=("raise", "timeout"), crashes=1, acts=3, act_kinds=("decided",)),
    "unsafe, asked, cancelled": World({"u": U._replace(**ASK)}, [("u",)], 1, bodies=("timeout",), crashes=1, acts=2, act_kinds=("decided", "cancelled")),
    "idempotent": World({"i": I._replace(**ASK)}, [("i",)], 1, bodies=("raise", "timeout"), crashes=2, takeovers=1, acts=1, act_kinds=("decided",)),
    "idempotent, key life": World({"i": I._replace(**ASK)}, [("i",)], 1, bodies=("raise",), crashes=2, acts=1, act_kinds=("decided",), life=True),
    "transactional, raced and fenced": World({"x": X}, [("x",)], 1, crashes=1, takeovers=1, acts=2, act_kinds=("said", "cancelled"), race=True),
    "verifiable": World({"v": V}, [("v",)], 1, bodies=("raise", "timeout"), crashes=2, acts=2, act_kinds=("cancelled", "decided")),
    "verifiable, cannot tell": World({"v": V._replace(verify="cannot", **ASK)}, [("v",)], 1, bodies=("raise", "timeout"), crashes=2, acts=2, act_kinds=("decided",)),
    "unsafe, asked, handed over": World({"u": U._replace(**ASK)}, [("u",)], 1, bodies=("accept", "raise", "job fails"), crashes=1, acts=3, act_kinds=("decided", "cancelled")),
    "idempotent, handed over": World({"i": I}, [("i",)], 1, bodies=("accept", "raise", "job fails"), crashes=2, acts=1, act_kinds=("cancelled", "said")),
    "verifiable, handed over": World({"v": V}, [("v",)], 1, bodies=("accept", "job fails"), crashes=2, acts=1, act_kinds=("cancelled", "said")),
    "handed over, cannot tell": World({"v": V._replace(verify="cannot", **ASK)}, [("v",)], 1, bodies=("accept",), crashes=1, acts=2, act_kinds=("cancelled", "decided")),
    "approvals in a batch": World({"u": U._replace(approval=True), "r": R}, [("u", "u"), ("r", "u")], 1, crashes=2, acts=3, act_kinds=("decided", "cancelled"), race=True),
    "approval of each effect": World({"v": V._replace(approval=True), "i": I._replace(approval=True), "r": R._replace(approval=True), "x": X._replace(approval=True)},
                                     [("v",), ("i",), ("r",), ("x",)], 1, bodies=("raise",), crashes=2, acts=1, act_kinds=("decided",)),
    "a batch of three": World({"u": U, "r": R, "x": X}, [("u", "r", "x"), ("x", "u", "r"), ()], 1, bodies=("raise", "timeout"), crashes=2, acts=1, act_kinds=("said", "cancelled")),
    "two turns, talk between": World({"u": U}, [("u",)], 2, crashes=1, acts=2, act_kinds=("said", "decided", "cancelled"), race=True),
    "stopped, then decided, then on": World({"u": U}, [("u",)], 1, stops=("failed", "refused"), bodies=("raise",), crashes=1, acts=2,
                                            act_kinds=("decided", "said", "stopped: extended")),
    "every stop": World({"u": U}, [("u",), ()], 3, stops=("paused", "cut", "refused", "final with calls", "failed"), crashes=1, acts=1,
                        act_kinds=("said", "cancelled", "extended"), limit=6),
    "limits": World({"r": R}, [("r",)], 2, stops=("cut",), crashes=2, acts=2, act_kinds=("extended", "said"), limit=2),
    "held and out of it": World({"u": U}, [("u", "u")], 1, crashes=5, acts=2, act_kinds=("extended", "cancelled")),
    "business key": World({"u": U._replace(key="k")}, [("u",)], 2, bodies=("raise", "timeout"), crashes=1, acts=1, act_kinds=("decided",)),
    "business key, verifiable": World({"v": V._replace(key="k", verify="truth")}, [("v",)], 2, bodies=("timeout",), crashes=1),
    "imported": World({"r": R, "i": I, "x": X, "v": V, "u": U}, (), 1, crashes=1, acts=1, act_kinds=("decided",), imported=("r", "i", "x", "v", "u")),
    "imported, a transaction": World({"x": X, "v": V}, (), 1, crashes=2, acts=2, act_kinds=("decided", "cancelled"), imported=("x",)),
    "imported, a look first": World({"x": X, "v": V}, (), 1, bodies=("raise",), crashes=2, acts=2, act_kinds=("decided", "cancelled"), imported=("v", "x")),
    "imported, approvals": World({"r": R._replace(approval=True), "v": V._replace(approval=True)}, (), 1, crashes=1, acts=2, act_kinds=("decided",), imported=("r", "v")),
    "unsafe, taken over alive": World({"u": U}, [("u",)], 1, bodies=("timeout",), crashes=1, takeovers=1, acts=1, act_kinds=("decided", "cancelled"), race=True),
}
RESIDUAL = {  # promises that no table can keep
    "verifiable, and a holder taken over alive": World({"v": V}, [("v",)], 1, takeovers=1),
    "verifiable, and a verify that lags beyond settle": World({"v": V._replace(verify="late")}, [("v",)], 1, crashes=1),
    "idempotent, key life, and a holder taken over alive": World({"i": I}, [("i",)], 1, takeovers=1, life=True),
    "idempotent, key life, and a thread that outlives its timeout": World({"i": I}, [("i",)], 1, bodies=("raise", "timeout"), crashes=1, life=True),
}


def show(name, world):
    began = time.time()
    states, fault = search(world)
    print(f"{states:9,} states {time.time() - began:5.1f} s  {name}: {fault[0] if fault else 'no violation'}", flush=True)
    for line in fault[1] if fault else ():
        print("             ", line)
    return states, bool(fault)


def main(arguments=tuple(sys.argv[1:])):
    if "--old" in arguments:
        kept = 0
        for name, (where, was) in spec.READINGS.items():
            spec.OLD.add(name)
            print(f"\n{name}: {was}")
            kept += not show(where, WORLDS[where])[1]
            spec.OLD.clear()
        return sys.exit(f"{kept} old readings show no violation" if kept else 0)
    if "--residual" in arguments:
        return [show(name, world) for name, world in RESIDUAL.items()] and None
    found = [show(n, w) for n, w in WORLDS.items() if not arguments or any(a in n for a in arguments)]
    unused = [f"{t}: {row} / {column}" for t, table in (("run", RUN), ("call", CALL)) for row in table for column in table[row]
              if (id(table), row, column) not in spec.USED]
    bad = sum(f for _, f in found)
    print(f"{sum(n for n, _ in found):9,} states in all; {f'{bad} worlds with a violation' if bad else 'no violation'}")
    print("cells that no history here needs:", "; ".join(unused) or "none")
    sys.exit(bool(bad))
