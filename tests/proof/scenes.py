"""The programs that die at every point: tools of every effect, driven in every way, on every store, in a world outside.

A case is written "sqlite blocking send". What its tools do is counted outside of every process.
"""

import asyncio
import functools
import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass

from crash.report import record
from midstride import (
    Accepted,
    Agent,
    AsyncRun,
    CannotTell,
    Context,
    DidNotHappen,
    Happened,
    Pending,
    Run,
    models,
    tool,
)
from midstride.core.steps import Lost
from midstride.stores import AesGcm, CheckpointStore, MemoryStore, SqliteStore
from midstride.testing import Scene
from midstride.testing.crash_judge import check_deed

BATCH = ["look", "charge", "send", "post", "look"]
MIXED = ["look", "charge", "book", "send", "post", "look"]
ONE_CALL = [
    "look", "charge", "book", "post", "guess", "fumble", "send", "pay", "refuse", "fail",
    "render", "queue", "scan", "spoil",
]  # fmt: skip
TASKS = {
    **{name: [[name]] for name in ONE_CALL},
    "reads": [["look", "look", "look"]],
    "batch": [BATCH, ["send"]],
    "mixed": [MIXED, ["send"]],
    "books": [["book", "look", "book"], ["book"]],
    "late doubt": [["charge", "pay", "post", "look"], ["post"]],
    "failing": [["look", "fail", "send"], ["charge"]],
    "looked up": [["post", "guess"], ["fumble", "post"]],
    "same deed": [["mail", "look", "mail"], ["mail"]],
    "same doubt": [["wire", "wire"], ["look", "wire"]],
    "jobs": [["scan", "queue", "send"], ["render"]],
    "failing job": [["spoil", "send"]],
    "lost": [["charge", "send"]],
    "imported": [["charge", "send"], ["look"]],
}
"""The tools that are called, by task: one list for each answer of the model."""

DRIVERS = ("blocking", "coroutines", "threads", "loop", "async-loop")
"""The ways to drive: "blocking" has plain functions, "threads" too, under the asynchronous driver."""

PENDING = {"id": "toolu_0", "name": "send", "input": {"n": 99}}
LESSONS = {
    "version": 1,
    "task": "go",
    "turns": 3,
    "tokensUsed": 77,
    "messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", **PENDING}]},
    ],
    "pendingToolUse": PENDING,
}
"""The lesson's own checkpoint, of a process that died in a tool: what it called is in doubt, and never run again."""

STORES = ("memory", "sqlite", "encrypted", "checkpoint")
RUN = "run-1"


@dataclass(frozen=True)
class Case:
    store: str
    driver: str
    task: str
    api: str = "anthropic"

    def __str__(self):
        api = "" if self.api == "anthropic" else f"-{self.api.replace(' ', '_')}"
        return f"{self.store}-{self.driver}-{self.task.replace(' ', '_')}{api}"

    @property
    def fits(self):
        needs = any("book" in names for names in TASKS[self.task])
        hears = "loop" not in self.driver  # a loop of one's own does not tell that an answer was lost
        if self.task == "imported":
            return self.store == "checkpoint"
        if self.store == "encrypted":  # the same statements, and another body in them
            return (self.driver, self.task) in (
                ("blocking", "mixed"),
                ("coroutines", "batch"),
                ("threads", "same deed"),
            )
        return (self.store == "sqlite" or not needs) and (self.task != "lost" or hears)

    @property
    def in_sample(self):
        """Tell whether the case is carried out without `--crash=long`."""
        if self.api != "anthropic":
            return (self.driver, self.task) in (("blocking", "batch"), ("threads", "late doubt"), ("loop", "same deed"))
        if self.store == "memory":
            return "loop" not in self.driver or self.task in (*ONE_CALL, "batch")
        if self.store == "encrypted":
            return self.driver == "blocking"
        if self.task in ONE_CALL:
            return self.driver == "blocking"
        if self.task == "imported":
            return "loop" not in self.driver
        return (self.driver, self.task) in (("coroutines", "mixed"), ("coroutines", "batch"), ("threads", "books"))

    def pairs(self, *, long):
        """Return how many plans of two deaths are carried out; None means all."""
        if not long:
            return 6 if self.store == "memory" else 3
        if self.store == "memory":
            return None if self.task in ONE_CALL else 50
        return 10

    def scene(self, folder):
        """Return the scene of one plan."""
        outside = Outside(folder / "runs.db")
        deeds, tools = tools_of(self.task, coroutines=self.driver in ("coroutines", "async-loop"))
        deeds.happen_in(outside)
        if any(one.name == "book" for one in tools):
            outside.make_seats()
        if self.task == "imported":
            (folder / "checkpoint.json").write_text(json.dumps(LESSONS))
        script = outside.losing(script_of(self.task)) if self.task == "lost" else script_of(self.task)
        name, _, way = self.api.partition(" ")
        model = functools.partial(models.Scripted, script, api=name, background=way == "background")
        program = functools.partial(PROGRAMS[self.driver], model, tools)
        return Scene(
            program,
            effects=outside.effects,
            store=store_of(self.store, folder),
            decide=outside.person,
            check=outside.check,
        )


APIS = ("openai-chat", "openai-responses", "openai-responses background")
OTHERS = [Case("memory", d, t, a) for a in APIS for d in DRIVERS for t in ("batch", "late doubt", "same deed")]
CASES = [c for c in (Case(s, d, t) for s in STORES for d in DRIVERS for t in TASKS) if c.fits]
# What is fetched in the background is the driver's: a loop of one's own sends its requests itself.
CASES += [c for c in OTHERS if "background" not in c.api or "loop" not in c.driver]


def store_of(kind, folder):
    """Return what opens the journals in *folder* anew for each process."""
    memory = MemoryStore()
    made = {
        "memory": lambda: memory,
        "sqlite": lambda: SqliteStore(folder / "runs.db"),
        "encrypted": lambda: SqliteStore(folder / "runs.db", codec=AesGcm(b"k" * 32)),
        "checkpoint": lambda: CheckpointStore(folder / "checkpoint.json"),
    }
    return made[kind]


def script_of(task):
    """Return the model's answers: each call has a number of its own."""
    numbers = iter(range(1, 100))
    answers = [*([(name, {"n": next(numbers)}) for name in names] for names in TASKS[task]), "Done."]
    return ["The answer that was imported.", *answers] if task == "imported" else answers


# ---- how a run is driven


def blocking(model, tools, process):
    return process.agent(Agent(model(), tools, "Be brief.")).run("go", RUN)


def asynchronous(model, tools, process):
    return asyncio.run(process.agent(Agent(model(), tools, "Be brief.")).run_async("go", RUN))


def own_loop(model, tools, process):
    model = model()
    loop = {"api": model.api, "tools": process.tools(tools), "clock": process.clock}
    with Run(process.store, RUN, "go", **loop) as run:
        for turn in run:
            with process.asking(turn.request):
                response = model.ask(turn.request, print)
            turn.respond(response)
        return run.result


def own_async_loop(model, tools, process):
    async def work():
        scripted = model()
        loop = {"api": scripted.api, "tools": process.tools(tools), "clock": process.clock}
        async with AsyncRun(process.store, RUN, "go", **loop) as run:
            async for turn in run:
                with process.asking(turn.request):
                    response = await scripted.ask_async(turn.request, print)
                await turn.respond(response)
            return run.result

    return asyncio.run(work())


PROGRAMS = {
    "blocking": blocking,
    "coroutines": asynchronous,
    "threads": asynchronous,
    "loop": own_loop,
    "async-loop": own_async_loop,
}


# ---- the world outside, and the tools


class Outside:
    """What took effect, by tool and number; `begun` counts the attempts that came so far."""

    def __init__(self, database):
        self.begun = Counter()
        self.happened = Counter()
        self.polled = Counter()
        self.keys = {}
        self.allowed = set()
        self._database = database
        self._asked = 0

    def make_seats(self):
        with closing(sqlite3.connect(self._database)) as connection:
            connection.execute("create table seats (n)")

    def effects(self):
        """Return each deed as often as it took effect; what is read is none, and with a key one is like the other."""
        yield from (d[:1] if d[0] in ("mail", "wire") else d for d in self.happened.elements() if d[0] != "look")
        yield from (("book", n) for n in self._seats())

    def _seats(self):
        if not self._database.exists():
            return []
        with closing(sqlite3.connect(self._database)) as connection:
            there = connection.execute("select 1 from sqlite_master where name = 'seats'").fetchone()
            return [n for (n,) in connection.execute("select n from seats")] if there else []

    def losing(self, script):
        """Return the script of a model whose every second answer gets lost on its way."""

        def answer(request, number):
            self._asked += 1
            turn = sum(message["role"] == "assistant" for message in request["messages"])
            return Lost("the line was cut", paid=True) if self._asked % 2 else script[turn]

        return answer

    def person(self, call):
        """Say what is so, as somebody who can see it."""
        deed = (call.name, call.arguments["n"])
        if self.happened[deed]:
            return "happened"
        self.allowed.add(deed)
        return "allow"

    def check(self, crashed):
        """Hold what the model was told of each call against what happened."""
        happened = self.happened + Counter(("book", n) for n in self._seats())
        for call in crashed.told:
            deed = (call.name, call.input["n"])
            unsafe = call.name in ("send", "pay", "fail", "wire", "render", "spoil") and deed not in self.allowed
            if not call.text.startswith("Already done: "):
                deed = ("look", deed[1]) if call.name == "scan" else deed
                check_deed(call, EFFECTS[call.name], self.begun[deed], happened[deed], once=unsafe)
        for name in ("mail", "wire"):
            times = sum(count for deed, count in happened.items() if deed[0] == name)
            assert times <= 1, f"the deed of {name} was done {times} times"
        assert all(len(keys) == 1 for keys in self.keys.values()), f"a call had several keys: {self.keys}"


EFFECTS = {
    **dict.fromkeys(("send", "pay", "refuse", "fail", "wire"), "unsafe"),
    **dict.fromkeys(("post", "guess", "fumble", "mail"), "verifiable"),
    "look": "read_only",
    "charge": "idempotent",
    "book": "transactional",
    "render": "unsafe",
    "spoil": "unsafe",
    "queue": "idempotent",
    "scan": "read_only",
}


class Deeds:
    """What the tools do, in the world of the plan that is carried out; written once as coroutines."""

    _outside = None

    def happen_in(self, outside):
        self._outside = outside

    async def look(self, n: int) -> str:
        """Look."""
        return self._done("look", n, "saw")

    async def charge(self, n: int, context: Context) -> str:
        """Charge."""
        return self._keyed("charge", n, context.key)

    def _keyed(self, name, n, key):
        self._outside.begun[name, n] += 1
        keys = self._outside.keys.setdefault(n, set())
        if key not in keys:
            keys.add(key)
            self._outside.happened[name, n] += 1
        return f"{name}d {n}"

    async def book(self, n: int, context: Context[sqlite3.Connection]) -> str:
        """Book."""
        self._outside.begun["book", n] += 1
        context.transaction.execute("insert into seats values (?)", (n,))
        return f"booked {n}"

    async def post(self, n: int) -> str:
        """Post."""
        return self._done("post", n, "posted")

    async def find_post(self, n: int) -> Happened | DidNotHappen:
        return Happened(f"posted {n}") if self._outside.happened["post", n] else DidNotHappen("no such post")

    async def guess(self, n: int) -> str:
        """Do what cannot be found again."""
        return self._done("guess", n, "guessed")

    async def find_guess(self, n: int) -> CannotTell:
        return CannotTell(f"{n} is nowhere to be seen")

    async def fumble(self, n: int) -> str:
        """Do what is looked for in vain."""
        return self._done("fumble", n, "fumbled")

    async def find_fumble(self, n: int) -> Happened:
        raise ConnectionError(f"nobody answers about {n}")

    async def send(self, n: int) -> str:
        """Send."""
        return self._done("send", n, "sent")

    async def pay(self, n: int) -> str:
        """Pay, and have a person asked when in doubt."""
        return self._done("pay", n, "paid")

    async def mail(self, n: int) -> str:
        """Do a deed that is the same whatever n is, and can be found."""
        return self._done("mail", n, "mailed")

    async def find_mail(self, n: int) -> Happened | DidNotHappen:
        return Happened(f"mailed {n}") if self._outside.happened["mail", n] else DidNotHappen("no such mail")

    async def wire(self, n: int) -> str:
        """Do a deed that is the same whatever n is, and cannot be found."""
        return self._done("wire", n, "wired")

    async def refuse(self, n: int) -> str:
        """Say that it did not happen."""
        self._outside.begun["refuse", n] += 1
        raise DidNotHappen("it was refused")

    async def render(self, n: int, context: Context) -> Accepted:
        """Hand a job over to somebody who takes it twice if asked twice."""
        self._done("render", n, "")
        return context.accepted({"job": n})

    async def spoil(self, n: int, context: Context) -> Accepted:
        """Hand a job over that comes to nothing."""
        self._outside.begun["spoil", n] += 1
        return context.accepted(n)

    async def queue(self, n: int, context: Context) -> Accepted:
        """Hand a job over to somebody who knows its key, and break off behind that."""
        self._keyed("queue", n, context.key)
        context.accepted(f"job {n}")
        raise ConnectionError("the line is cut")

    async def scan(self, n: int, context: Context) -> Accepted:
        """Hand a job over that only reads."""
        return context.accepted(self._done("look", n, "scan"))

    async def stands(self, handle, n: int) -> Happened | Pending:
        """Say how a job stands: it is under way when it is asked about first."""
        self._outside.polled[n] += 1
        return Pending(after=3_600) if self._outside.polled[n] == 1 else Happened(f"made {n} as {handle}")

    async def stands_spoilt(self, handle: int) -> Pending:
        self._outside.polled[handle] += 1
        if self._outside.polled[handle] > 1:
            raise DidNotHappen("there was no paper")
        return Pending(after=3_600)

    async def fail(self, n: int) -> str:
        """Fail behind the effect."""
        self._done("fail", n, "failed")
        raise ConnectionError("the line is cut")

    def _done(self, name, n, words):
        self._outside.begun[name, n] += 1
        self._outside.happened[name, n] += 1
        return f"{words} {n}"


@functools.cache
def tools_of(task, *, coroutines):
    """Return the tools that *task* needs, and what they do: made once, since that takes longer than a death."""
    deeds, shape = Deeds(), as_it_is if coroutines else plain
    names = {name for names in TASKS[task] for name in names}
    declared = {
        "look": tool.read_only,
        "charge": tool.idempotent(key_life=86_400),
        "book": tool.transactional,
        "pay": tool(in_doubt="ask"),
        "mail": tool.verifiable(timeout=30, settle=5, key=lambda: "the one mail"),
        "wire": tool(key=lambda: "the one wire"),
        "queue": tool.idempotent(key_life=86_400),
        "scan": tool.read_only,
        **dict.fromkeys(("send", "refuse", "fail", "render", "spoil"), tool),
        **dict.fromkeys(("post", "guess", "fumble"), tool.verifiable(timeout=30, settle=5)),
    }
    made = [declared[name](shape(getattr(deeds, name))) for name in sorted(names)]
    for one in made:
        if one.effect == "verifiable":
            one.verify(shape(getattr(deeds, f"find_{one.name}")))
        if one.name in ("render", "queue", "scan"):
            one.poll(shape(deeds.stands))
        if one.name == "spoil":
            one.poll(shape(deeds.stands_spoilt))
    return deeds, made


def as_it_is(function):
    return function


def plain(function):
    """Return a plain function that runs the coroutine, which awaits nothing, to its end."""

    @functools.wraps(function)
    def run(*args, **named):
        try:
            function(*args, **named).send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("a tool awaited something where no loop runs")

    return run


# ---- counting


def count(report, case):
    """Add the plans that held to the report of the crash tests."""
    for point, times in report.points.items():
        record(f"a process dies: {point.split()[0]}", f"in one process, {case.store}", times, times)
