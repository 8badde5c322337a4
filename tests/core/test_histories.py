"""Histories that a machine makes up: what the model is sent stays valid, and nothing unsafe is repeated."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core.making import ASK, LETTERS, START, TAKEN, answer, final, text, use
from midstride.core.fold import fold
from midstride.core.journal import (
    Body,
    Cancelled,
    Decided,
    Entry,
    Extended,
    Intended,
    Limits,
    Recorded,
    Responded,
    Said,
    Settled,
    Taken,
    Terms,
    broken_link,
    decode,
    seal,
)
from midstride.core.moves import Request, next_move
from midstride.core.reconcile import Death, Execute, Later, Live, Look, Poll, Seen, Write, after_look, effective, intent
from midstride.core.run import FINISHED, NEW, Call, CallId, CallState, Run, State
from midstride.errors import NotAllowed

TERMS = st.builds(
    Terms,
    effect=st.sampled_from(sorted(LETTERS.values())),
    schema=st.just("s1"),
    doubt=st.sampled_from(["report", "ask"]),
    approval=st.booleans(),
    timeout=st.just(10.0),
    settle=st.sampled_from([0.0, 30.0]),
    key_life=st.sampled_from([None, 100.0]),
)
RECORDED = st.builds(Recorded, terms=TERMS, key=st.sampled_from([None, None, "deed"]), problem=st.sampled_from([None, None, None, "wrong"]))  # noqa: E501  # fmt: skip
VERDICTS = st.sampled_from(["allow", "deny", "happened", "unknown"])
STOPS = {"cut": "max_tokens", "paused": "pause_turn", "refused": "refusal", "final": "end_turn"}


class Histories(RuleBasedStateMachine):
    """A run, the process that drives it, and everybody else."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.run: Run = NEW
        self.now = 1000.0
        self.running: set[CallId] = set()
        self.alive: set[CallId] = set()
        self.out = False
        self.deaths: dict[CallId, Death] = {}
        self.sent: list[tuple[str, str]] = []
        self.starts: Counter[CallId] = Counter()
        self.allowed: Counter[CallId] = Counter()
        self.most = (0, 0, 0.0)

    def add(self, *bodies: Body) -> None:
        self.now += 1.0
        more = seal(bodies, self.run.head, self.now)
        self.run = fold(more, self.run)
        self.entries += more

    @property
    def live(self) -> Live:
        return Live(frozenset(self.running), frozenset(self.alive), self.deaths)

    @initialize()
    def start(self) -> None:
        self.add(START, TAKEN)

    # ---- the holder

    @precondition(lambda self: not self.out)
    @rule(moves=st.integers(1, 4), seen=st.sampled_from(["happened", "did not", "cannot"]))
    def go_on(self, moves: int, seen: str) -> None:
        """Do the next moves."""
        for _ in range(moves):
            if not self.out:
                self.move(seen)

    def move(self, seen: str) -> None:
        move = next_move(self.run, now=self.now, live=self.live)
        match move:
            case Write():
                self.add(*move.bodies)
            case Execute():
                self.begin(move.call, move.intend)
            case Look():
                self.obey(after_look(self.run, move, Seen(seen, "seen"), None))
            case Poll():
                raise AssertionError("nothing here hands work over")
            case Later():
                self.now = max(self.now, move.until)
            case Request():
                self.request()

    def obey(self, move: Any) -> None:
        if isinstance(move, Execute):
            self.begin(move.call, move.intend)
        else:
            self.add(*move.bodies)

    def begin(self, call: Call, intend: bool) -> None:
        if intend:
            self.add(intent(call, effective(call, None)))
        self.starts[call.key] += 1
        self.deaths.pop(call.key, None)
        self.running.add(call.key)

    def request(self) -> None:
        before = self.run.tail
        self.add(ASK)
        assert self.run.tail == before
        self.out = True
        self.sent.append((json.dumps(self.run.request), json.dumps(list(self.run.messages))))
        self.the_request_is_whole()

    @precondition(lambda self: self.out)
    @rule(calls=st.lists(RECORDED, max_size=4), stop=st.sampled_from([*["tool_use"] * 4, *STOPS]), ours=st.booleans())
    def respond(self, calls: list[Recorded], stop: str, ours: bool) -> None:
        self.out = False
        usage = {"input_tokens": 10, "output_tokens": 1}
        if stop == "tool_use":
            blocks = [use(index, "u") for index in range(len(calls))]
            self.add(Responded(answer("tool_use", text("So."), *blocks, usage=usage), tuple(calls)))
        elif stop == "final" and ours and self.run.state is State.AWAY:
            blocks = [use(index, "u") for index in range(len(calls))]
            turn = self.run.turns
            settled = [Settled(turn, index, "not started", "no") for index in range(len(calls))]
            self.add(Responded(answer("end_turn", text("So."), *blocks, usage=usage), tuple(calls)), *settled)
        else:
            self.add(Responded(answer(STOPS[stop], text("So."), usage=usage)) if stop != "final" else final())

    @precondition(lambda self: self.running)
    @rule(data=st.data(), how=st.sampled_from(["returned", "returned", "raised", "times out", "did not happen"]))
    def end(self, data: st.DataObject, how: str) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        self.running.remove(key)
        call = self.run.call(key)
        assert call is not None
        assert call.terms is not None
        definite = call.terms.effect in ("read_only", "transactional") or (
            how == "did not happen" and call.attempts == 1
        )
        if how == "returned":
            self.add(Settled(*key, "ok", "did it"))
        elif definite:
            self.add(Settled(*key, "failed", "no"))
        else:
            self.deaths[key] = Death(self.now, "It raised.")
            self.alive |= {key} if how == "times out" else set()

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), returns=st.booleans())
    def end_late(self, data: st.DataObject, returns: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.alive)))
        self.alive.remove(key)
        call = self.run.call(key)
        if not returns or call is None or call.state is CallState.SETTLED:
            return
        unknown = call.state is CallState.UNKNOWN
        self.add(Decided(*key, "happened", "late", "tool") if unknown else Settled(*key, "ok", "did it"))

    # ---- crashes and others

    @rule(what=st.sampled_from(["dies", "ends", "said", "extended", "wait", "wait long", "said", "cancelled"]))
    def disturb(self, what: str) -> None:
        if what in ("dies", "ends"):
            self.take_up(clean=what == "ends")
        elif what == "said":
            self.try_to(Said("hello"))
        elif what == "extended":
            self.try_to(Extended(Limits(turns=60)))
        elif what == "cancelled" and len(self.entries) > 20:
            self.try_to(Cancelled())
        self.now += {"wait": 40.0, "wait long": 200.0}.get(what, 0.0)

    def take_up(self, *, clean: bool) -> None:
        """The process ends, cleanly or not, and another takes the run up."""
        self.running, self.alive, self.deaths, self.out = set(), set(), {}, False
        self.add(Taken(self.run.token + 1, "host", 8, clean=clean))

    def try_to(self, body: Body) -> None:
        before = self.run
        try:
            self.add(body)
        except NotAllowed:
            assert self.run == before

    @rule(data=st.data(), verdict=VERDICTS)
    def decide(self, data: st.DataObject, verdict: str) -> None:
        asked = (CallState.ASKING_APPROVAL, CallState.ASKING_DOUBT, CallState.UNKNOWN)
        open_to = [c.key for c in (*self.run.unknown.values(), *self.run.calls) if c.state in asked]
        if not open_to:
            return
        key = data.draw(st.sampled_from(open_to))
        before = self.run
        self.try_to(Decided(*key, verdict, "the word", "ann"))
        call = before.call(key)
        assert call is not None
        self.allowed[key] += verdict == "allow" and self.run is not before and call.state is CallState.ASKING_DOUBT

    # ---- what is always so

    def the_request_is_whole(self) -> None:
        """Each answer with calls has one message behind it, with one result for each call, in call order."""
        messages = self.run.request
        for at, message in enumerate(messages):
            made = (
                [b["id"] for b in message["content"] if b["type"] == "tool_use"]
                if message["role"] == "assistant"
                else []
            )
            if made:
                assert [block["tool_use_id"] for block in messages[at + 1]["content"]] == made
        assert messages[-1]["role"] == "user" or self.run.tail
        if len(self.sent) > 1:
            self.the_request_extends_the_last()

    def the_request_extends_the_last(self) -> None:
        whole, without_pause = self.sent[-2]
        now = self.sent[-1][0]
        # Only a pause that was refused or given up leaves: then the request before it is extended.
        assert now.startswith(whole[:-1]) or (not self.run.tail and now.startswith(without_pause[:-1]))

    @invariant()
    def counters_never_fall(self) -> None:
        now = (self.run.turns, self.run.tokens_total, self.run.seconds)
        assert all(new >= old for new, old in zip(now, self.most, strict=True))
        self.most = now

    @invariant()
    def nothing_unsafe_starts_twice_unasked(self) -> None:
        for entry in self.entries[-2:]:
            if isinstance(entry.body, Intended):
                call = self.run.call((entry.body.turn, entry.body.index))
                if call is None or call.terms is None:
                    continue
                most = 1 if call.terms.effect == "unsafe" else 3
                assert call.terms.effect == "transactional" or call.attempts <= most + self.allowed[call.key]
                assert not call.terms.approval or call.approvals or call.reruns

    @invariant()
    def the_same_deed_is_not_begun_twice(self) -> None:
        keyed = [
            c for c in (*self.run.unknown.values(), *self.run.calls) if c.recorded.key and c.state is CallState.INTENDED
        ]
        assert len([c for c in keyed if c.terms and c.terms.effect != "read_only"]) <= 1

    @invariant()
    def a_move_is_always_there(self) -> None:
        if self.run.started:
            assert next_move(self.run, now=self.now, live=self.live).why

    @invariant()
    def a_turn_is_over_when_its_calls_are(self) -> None:
        over = all(c.state in FINISHED for c in self.run.calls)
        assert (self.run.state is State.CALLS) == (not over)

    def teardown(self) -> None:
        self.folding_twice_is_folding_once()

    def folding_twice_is_folding_once(self) -> None:
        assert broken_link(self.entries) is None
        opened = [decode(entry.text, entry.digest, entry.seq) for entry in self.entries]
        for at in range(0, len(opened) + 1, 5):
            assert fold(opened[at:], fold(opened[:at])) == self.run


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=200, stateful_step_count=50, derandomize=True, deadline=None)
