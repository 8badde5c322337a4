"""The code against the searched model: random histories of `oracle/world.py`, compared entry by entry, move by move."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from core.making import START, answer, text, use
from midstride.core.fold import fold
from midstride.core.journal import (
    Accepted,
    Asked,
    Body,
    Cancelled,
    Decided,
    Extended,
    Failed,
    Intended,
    Limits,
    Recorded,
    Requested,
    Responded,
    Said,
    Settled,
    Started,
    Taken,
    Terms,
    seal,
)
from midstride.core.moves import Request as Ask
from midstride.core.moves import Rest, next_move
from midstride.core.polling import after_poll
from midstride.core.reconcile import Execute, Later, Live, Look, Poll, Seen, Wait, Write, after_look
from midstride.core.run import CALL, NEW, RUN, CallId, CallState, Run
from midstride.errors import NotAllowed

sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))  # the model's two files import each other by name
spec: Any = import_module("spec")
everything: Any = import_module("world")

WALKS = 60
"""Random histories of each world: enough that a planted fault of one cell is met (seen by planting some)."""

STATES = {
    CallState.NEW: "open",
    CallState.ASKING_APPROVAL: "asking",
    CallState.ASKING_DOUBT: "asking doubt",
    CallState.UNKNOWN: "unknown",
}
OUTCOMES = {"elsewhere": "in doubt elsewhere"}
STOPS = {"calls": "tool_use", "final": "end_turn", "paused": "pause_turn", "cut": "max_tokens", "refused": "refusal"}
SETTLE, LIFE = 10.0**6, 10.0**9
NOW = {"soon": 10.0**4, "passed": 10.0**7, "expired": 10.0**10}


class Both:
    """One history, folded by the model and by the code; calls have the model's numbers, which count through the run."""

    def __init__(self, limit: int) -> None:
        self.theirs = spec.NEW
        self.ours = NEW
        self.limit = limit
        self.keys: list[CallId] = []
        self.at = 1000.0

    def copy(self) -> Both:
        other = Both(self.limit)
        other.theirs, other.ours, other.keys, other.at = self.theirs, self.ours, list(self.keys), self.at
        return other

    def add(self, entry: tuple[Any, ...]) -> bool:
        """Add *entry* to both; False when both refuse it."""
        try:
            theirs = spec.step(self.theirs, entry)
        except spec.Missing:
            with pytest.raises(NotAllowed):
                fold(seal((self.body(entry),), self.ours.head, self.at), self.ours)
            return False
        self.at += 1
        ours = fold(seal((self.body(entry),), self.ours.head, self.at), self.ours)
        more = len(theirs.calls) - len(self.theirs.calls)
        self.keys += [(ours.turns, index) for index in range(more)]
        self.theirs, self.ours = theirs, ours
        return True

    def body(self, entry: tuple[Any, ...]) -> Body:
        match entry:
            case ("started",):
                return Started(START.task, START.api, START.messages, "n", limits=Limits(turns=self.limit))
            case ("taken", token, clean):
                return Taken(token, "host", token, clean=clean)
            case ("requested",):
                return Requested()
            case ("responded", stop, tools):
                return answered(stop, tools, self.theirs.answers + 1)
            case ("said", n):
                return Said(f"said {n}")
            case ("extended",):
                assert self.ours.limits.turns is not None
                return Extended(Limits(turns=self.ours.limits.turns + 1))
            case ("cancelled",):
                return Cancelled()
            case ("failed",):
                return Failed("400")
        return self.call_body(entry)

    def call_body(self, entry: tuple[Any, ...]) -> Body:
        turn, index = self.keys[entry[1]]
        match entry:
            case ("intended", _, imported):
                return Intended(turn, index, imported)
            case ("accepted", _):
                return Accepted(turn, index)
            case ("settled", c, outcome):
                return Settled(turn, index, OUTCOMES.get(outcome, outcome), f"{c}: {outcome}")
            case ("asked", _, why):
                return Asked(turn, index, why)
            case ("decided", c, verdict):
                return Decided(turn, index, verdict, f"truth {c} {verdict}")
        raise AssertionError(entry)


def answered(stop: str, tools: tuple[str, ...], n: int) -> Responded:
    blocks = [text(f"answer {n}"), *(use(index, name) for index, name in enumerate(tools))]
    return Responded(answer(STOPS[stop], *blocks), tuple(recorded(name) for name in tools))


def recorded(name: str) -> Recorded:
    tool = spec.TOOLS[name]
    terms = Terms(tool.effect, "s", tool.doubt, tool.approval, timeout=1.0, settle=SETTLE, key_life=LIFE)
    return Recorded(terms, tool.key)


# ---- what is compared


def same_run(both: Both) -> None:
    ours, theirs = both.ours, both.theirs
    assert ours.state == theirs.state
    assert (ours.turns, ours.takes, ours.answers) == (theirs.requests, theirs.takes, theirs.answers)
    assert (ours.cancelling, ours.token) == (theirs.cancelling, theirs.token)
    assert ours.limits.turns == theirs.limit or not theirs.requests
    for key, call in zip(both.keys, theirs.calls, strict=True):
        same_call(ours, key, call)
    assert [plain(m) for m in ours.request] == [expected(m, both) for m in theirs.msgs + theirs.tail]
    assert [plain(m) for m in ours.pending] == [expected(m, both) for m in theirs.pending]


def same_call(ours: Run, key: CallId, theirs: Any) -> None:
    call = ours.call(key)
    if call is None:  # it is of an earlier turn, and nothing can change it any more
        assert theirs.state == "settled"
        return
    assert STATES.get(call.state, call.state) == theirs.state
    assert call.outcome == OUTCOMES.get(theirs.outcome, theirs.outcome)
    assert (call.attempts, call.imported, call.verdict) == (theirs.attempts, theirs.imported, theirs.verdict)
    assert (call.approvals, call.reruns) == (theirs.approvals, theirs.reruns)
    assert call.taken_since == theirs.taken_since


def plain(message: dict[str, Any]) -> Any:
    content = message["content"]
    if message["role"] == "assistant":
        return ("assistant", content[0]["text"], len(content) - 1)
    if isinstance(content, list):
        return ("results", [block["content"] for block in content])
    return ("user", content)


def expected(message: tuple[Any, ...], both: Both) -> Any:
    match message:
        case ("assistant", n, _, _, calls):
            return ("assistant", f"answer {n}", calls)
        case ("results", results):
            return ("results", [shown(c, both.ours, both.keys[c], outcome) for c, outcome in results])
        case ("said", n):
            return ("user", f"said {n}")
        case ("truth", c, verdict):
            return ("user", f"truth {c} {verdict}")
    return ("user", "do it")


def shown(c: int, ours: Run, key: CallId, outcome: str) -> str:
    """A decision settles with the person's own content; the history tells which it was."""
    content = CONTENTS.get((c, outcome))
    return content if content is not None else f"{c}: {outcome}"


CONTENTS: dict[tuple[int, str], str] = {}
"""The content of calls that were settled by a decision, by (call, outcome)."""


def note_decision(both: Both, entry: tuple[Any, ...]) -> None:
    asking = ("asking", "asking doubt")
    if entry[0] == "decided" and entry[2] != "allow" and both.theirs.calls[entry[1]].state in asking:
        c, verdict = entry[1], entry[2]
        for outcome in ("denied", "unknown", "told"):
            CONTENTS[c, outcome] = f"truth {c} {verdict}"


def same_move(both: Both, alive: frozenset[int], when: str) -> None:
    every = frozenset(range(len(both.keys)))
    theirs = spec.next_move(
        both.theirs, alive, every if when != "soon" else frozenset(), every if when == "expired" else frozenset()
    )
    live = Live(alive=frozenset(both.keys[c] for c in alive))
    ours = next_move(both.ours, now=NOW[when], live=live)
    assert told(both, ours) == wanted(both, theirs)
    if theirs[0] == "poll" and isinstance(ours, Poll):
        for reply in ("did not", "cannot"):
            bodies = after_poll(both.ours, ours.call, Seen(reply, "seen"), NOW[when], None)
            entries, job = spec.after_poll(both.theirs, theirs[1], reply)
            assert told(both, Write(bodies, "")) == wanted(both, ("append", entries, job))
    if theirs[0] == "look" and isinstance(ours, Look):
        for reply in ("happened", "did not", "cannot"):
            new = theirs[2] if len(theirs) > 2 else None
            then = after_look(both.ours, ours, Seen(reply, "seen"), None)
            entries, job = spec.after_look(both.theirs, theirs[1], new, reply)
            assert told(both, then) == wanted(both, ("append", entries, job))


def told(both: Both, move: Any) -> tuple[Any, ...]:
    number = {key: c for c, key in enumerate(both.keys)}
    match move:
        case Write():
            return tuple(told_entry(number, body) for body in move.bodies)
        case Execute():
            return ("execute", number[move.call.key], move.intend)
        case Look():
            return ("look", number[move.call.key], *([number[move.asker.key]] if move.asker else []))
        case Poll() | Later() | Wait():
            return (type(move).__name__.lower(), number[move.call.key])
        case Ask():
            return ("request",)
        case Rest():
            return ("rest", "stopped" if move.status in ("failed", "cut") else move.status)
    raise AssertionError(move)


def told_entry(number: dict[CallId, int], body: Body) -> tuple[Any, ...]:
    if isinstance(body, Settled):
        return ("settled", number[body.turn, body.index], body.outcome)
    assert isinstance(body, Asked)
    return ("asked", number[body.turn, body.index], body.why)


def wanted(both: Both, move: tuple[Any, ...]) -> tuple[Any, ...]:
    match move:
        case ("append", (), ("run", c)):
            return ("execute", c, False)
        case ("append", (("intended", c, False),), ("run", _)):
            return ("execute", c, True)
        case ("append", (("requested",),), _):
            return ("request",)
        case ("append", entries, None):
            return tuple((e[0], e[1], OUTCOMES.get(e[2], e[2])) for e in entries)
    return move


# ---- the histories


def walk(where: Any, chance: random.Random) -> tuple[tuple[Any, ...], ...]:
    """Return the journal of one random path through a world, to its end or to 60 steps."""
    state = chance.choice(everything.begin(where))
    for _ in range(60):
        steps = [after for _, _, after in everything.steps(state, where)]
        if not steps:
            break
        state = chance.choice(steps)
    journal: tuple[tuple[Any, ...], ...] = state.journal
    return journal


def mixed(journal: tuple[tuple[Any, ...], ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the entries up to where the model, which bounds pauses and cuts together, gives up a pause."""
    row: list[str] = []
    for entry in journal:
        if entry[0] == "responded":
            row = [*row, entry[1]] if entry[1] in ("cut", "paused") else []
            if len(row) > spec.CUTS and "paused" in row:
                return
        yield entry


def any_entry(both: Both, chance: random.Random) -> Iterator[tuple[Any, ...]]:
    """Yield entries that may or may not have a cell, of every kind."""
    tools = tuple(spec.TOOLS)
    yield from (("requested",), ("said", 9), ("extended",), ("cancelled",), ("failed",), ("taken", 9, False))
    for stop in STOPS:
        if both.theirs.cuts < spec.CUTS or stop not in ("cut", "paused"):
            yield ("responded", stop, chance.choice([(), tools[:1], tools]) if stop in ("calls", "final") else ())
    for c, call in enumerate(both.theirs.calls):
        effect = spec.TOOLS[call.tool].effect
        yield from (("intended", c, False), ("accepted", c), ("settled", c, "ok"), ("settled", c, "unknown"))
        yield from (("asked", c, "approval"), ("asked", c, "doubt"))
        for verdict in ("allow", "deny", "happened", "unknown"):
            # A read is never asked about a doubt, and a rolled back transaction is known to have had no effect.
            if not (verdict == "deny" and call.attempts and effect in ("read_only", "transactional")):
                yield ("decided", c, verdict)


def compare(journal: tuple[tuple[Any, ...], ...], limit: int, chance: random.Random, seen: set[Any]) -> None:
    both = Both(limit)
    CONTENTS.clear()
    for at, entry in enumerate(mixed(journal), 1):
        note_decision(both, entry)
        assert both.add(entry)
        if journal[:at] in seen:
            continue
        seen.add(journal[:at])
        same_run(both)
        started = frozenset(c for c, call in enumerate(both.theirs.calls) if call.attempts)
        for alive in (frozenset(), started, frozenset(c for c in started if chance.random() < 0.5)):
            for when in NOW:
                same_move(both, alive, when)
        for odd in any_entry(both, chance):
            other = both.copy()
            if other.add(odd) and odd[0] not in ("decided", "settled"):
                same_run(other)


@pytest.mark.parametrize("name", everything.WORLDS)
def test_the_code_and_the_model_say_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where = everything.WORLDS[name]
    monkeypatch.setattr(spec, "NEW", spec.NEW._replace(limit=where.limit))
    spec.TOOLS.clear()
    spec.TOOLS.update(where.tools)
    spec.fold.cache_clear()
    chance, seen = random.Random(name), set[Any]()
    for _ in range(WALKS):
        compare(walk(where, chance), where.limit, chance, seen)
    assert len(seen) > 20


OF_A_LEDGER = {("calls", "last, of a ledger"), ("done", "allowed again")}
"""The model's runs are loops; a ledger's run is one call, and test_ledger.py asks for its two cells."""


def test_every_cell_of_the_model_is_a_cell_of_the_code() -> None:
    modelled = {
        (row, column.replace("_", " ").replace("last cancelling", "last, cancelling"))
        for row, columns in spec.RUN.items()
        for column in columns
    }
    under_way = ("away", "accepted")  # an answer that the API goes on with: the model knows none
    assert {(s.value, c) for s in RUN for c in RUN[s]} == {*modelled, under_way, *OF_A_LEDGER}
    ours = {(STATES.get(s, s.value), c) for s in CALL for c in CALL[s]}
    assert ours == {(row, column) for row, columns in spec.CALL.items() for column in columns}
