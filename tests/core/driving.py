"""A driver for tests: it performs the steps of `advance` against a list for a store and a count for the world.

Its model is a script, its tools do what their `ways` say, its clock stands still but for what the steps take. A fuse
kills it before, inside or after any step; the store and the effects outlive it, as they would a process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.making import ASK, START
from midstride.core.fold import fold
from midstride.core.journal import Body, Entry, Responded, Taken, head_of, seal
from midstride.core.moves import Rest
from midstride.core.reconcile import Program, Seen
from midstride.core.run import Call, CallId, Run
from midstride.core.settle import Desk, advance
from midstride.core.steps import (
    Answered,
    Append,
    Check,
    Ended,
    Gather,
    LookUp,
    Mend,
    Pause,
    PollUp,
    Reply,
    Send,
    Start,
    Step,
    Tail,
    Transact,
)


class Killed(BaseException):
    """The fuse has blown: the process is gone."""


@dataclass
class Driver:
    """One store and one world, and the process that drives its run; *ways* and *seen* are by the tool's letter.

    A way is "ok", "raises", "raises behind its effect", "did not happen" or "times out" (its thread lives on). What
    ends is told at the next `Gather`; when *prompt*, at once. *between* holds what others append before the n-th
    append, *sends* what the n-th `Send` gives instead of the script's answer,
    *problems* what the next checks give, *mends* what the next mends do.
    """

    script: Sequence[Responded]
    ways: Mapping[str, str] = field(default_factory=dict)
    between: dict[int, Sequence[Body]] = field(default_factory=dict)
    sends: dict[int, Any] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    polls: list[Seen] = field(default_factory=list)
    problem: str | None = None
    problems: list[Any] = field(default_factory=list)
    mends: list[Body] = field(default_factory=list)
    fuse: tuple[int, str] | None = None
    prompt: bool = False
    store: list[Entry] = field(default_factory=list)
    effects: Counter[CallId] = field(default_factory=Counter)
    steps: list[str] = field(default_factory=list)
    appends: int = 0
    sent: list[Run] = field(default_factory=list)
    now: float = 1000.0
    ready: list[Ended] = field(default_factory=list)
    late: list[Ended] = field(default_factory=list)

    def start(self, program: Program = None) -> Rest:
        return self.drive(START, Taken(1, "host", 1), program=program)

    def resume(self, program: Program = None, *, clean: bool = False, after: float = 1000.0) -> Rest:
        """Take the run up in another process, *after* seconds."""
        self.now += after
        self.ready, self.late, self.steps = [], [], []
        token = fold(self.store).token + 1
        return self.drive(*(() if self.store else (START,)), Taken(token, "host", token, clean=clean), program=program)

    def drive(self, *opening: Body, program: Program = None) -> Rest:
        saved = fold(self.store)
        unsaved = list(seal(opening, saved.head, self.now))
        steps = advance(Desk(saved, self.now, program, ASK.params, unsaved=unsaved))
        try:
            step = next(steps)
            while True:
                step = steps.send(self.perform(step))
        except StopIteration as end:
            rest: Rest = end.value
            return rest

    @property
    def run(self) -> Run:
        return fold(self.store)

    def kinds(self) -> list[str]:
        return [entry.body.kind for entry in self.store]

    def results(self) -> list[Any]:
        """Return the contents of the transcript's results, in order."""
        users = [m["content"] for m in self.run.messages if m["role"] == "user" and isinstance(m["content"], list)]
        return [block["content"] for content in users for block in content]

    def append_outside(self, *bodies: Body) -> None:
        self.store += seal(bodies, head_of(self.store), self.now)

    # ---- the steps

    def perform(self, step: Step) -> Reply:
        self.steps.append(name_of(step))
        self.blow("before")
        value = self.do(step)
        self.blow("after")
        ended: tuple[Ended, ...] = ()
        if self.ready and (self.prompt or isinstance(step, Gather)):
            ended, self.ready = tuple(self.ready), []
        if isinstance(step, Send):
            ended, self.late = (*ended, *self.late), []
        return Reply(self.now, value, ended)

    def blow(self, where: str) -> None:
        if self.fuse == (len(self.steps) - 1, where):
            raise Killed

    def do(self, step: Step) -> Any:
        match step:
            case Append():
                return self.append(step.entries)
            case Check():
                return self.problems.pop(0) if self.problems else self.problem
            case Mend():
                return self.mends.pop(0) if self.mends else None
            case Send():
                self.sent.append(step.run)
                self.blow("inside")
                scripted = self.script[min(step.run.answers, len(self.script) - 1)]
                return self.sends.pop(len(self.sent), Answered(scripted.response, tuple(scripted.calls)))
            case Pause():
                self.now += step.seconds
            case Gather():
                assert step.until is not None or self.ready, "nothing runs, so nothing would ever end this wait"
                if step.until is not None and not self.ready:
                    self.now = max(self.now, step.until)
            case Start():
                self.attempt(step.call)
            case Transact():
                return self.transact(step)
            case LookUp():
                self.blow("inside")
                found = Seen("happened", "found") if self.effects[step.call.key] else Seen("did not")
                return self.seen.get(step.call.name, found)
            case PollUp():
                self.blow("inside")
                return self.polls.pop(0)
        return None

    def append(self, entries: Sequence[Entry]) -> Tail | None:
        self.appends += 1
        self.append_outside(*self.between.pop(self.appends, ()))
        expected = entries[0].seq - 1
        if expected != len(self.store):
            return Tail(tuple(self.store[expected:]))
        self.store += entries
        return None

    def attempt(self, call: Call) -> None:
        way = self.ways.get(call.name, "ok")
        self.blow("inside")
        if way in ("ok", "raises behind its effect", "times out"):
            self.effects[call.key] += 1
        returned = Ended(call.key, "returned", f"{call.name} did it")
        if way == "ok":
            self.ready.append(returned)
        elif way == "did not happen":
            self.ready.append(Ended(call.key, "did not happen", "There was no paper."))
        elif way == "times out":
            self.ready.append(Ended(call.key, "timed out", "It took longer than 1 s.", alive=True))
            self.late.append(returned)
        else:
            self.ready.append(Ended(call.key, "raised", "ValueError: no."))

    def transact(self, step: Transact) -> Any:
        if self.ways.get(step.call.name, "ok") != "ok":
            return Ended(step.call.key, "raised", "ValueError: no.")
        self.blow("inside")
        entries = step.seal(f"{step.call.name} did it", self.now)
        tail = self.append(entries)
        if tail is None:
            self.effects[step.call.key] += 1
        return tail or entries


def name_of(step: Step) -> str:
    match step:
        case Append():
            return " ".join(["append", *(entry.body.kind for entry in step.entries)])
        case Start() | Transact():
            return f"{type(step).__name__.lower()} {step.call.name} {step.attempt}"
        case LookUp() | PollUp():
            return f"{type(step).__name__.lower()} {step.call.name}"
        case Pause():
            return f"pause {step.seconds:g}"
    return type(step).__name__.lower()
