"""An agent program that dies, or waits, at a moment it is told: `python program.py CONFIG.json`.

Moments have names: "append 3 before" and "append 3 after" (the third append of this process), "commit before" and
"commit after", "send 1 before" and "send 1 after" (in the tool `send`, around its effect, for its argument 1),
"verify 1 before", "draft 2" and "stop 2" (the first and the last event of the second answer), "start". A number instead
of a name is the moment that this process reaches as its so many-th. Every moment reached is a note in `moments.txt`.
What is done there is in misdeeds.py: it dies, waits, stops, forks, loses its lock; "drop+stop" is one after the other.

It exits with 0 when the run rests, 3 when another process holds it, 4 when it was fenced out, 5 when the store could
not be used; NAME.json's process tells of itself in NAME.found (the journal at its start), NAME.result and NAME.error.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic
from misdeeds import commit
from outside import Outside, note

import midstride.cli
from midstride import Agent, AsyncRun, Context, DidNotHappen, Happened, Limits, Result, Run, Runs, models, tool
from midstride.core import moves
from midstride.core.journal import Entry
from midstride.core.run import Call
from midstride.drive import Draft
from midstride.errors import Fenced, Held, StoreError, WorkerError
from midstride.stores import Lease, Store, Transaction, database, locks, open_store
from midstride.tools import Tool

MODEL, MAX_TOKENS = "claude-fake", 1_024
HTTP, ASYNC_HTTP = anthropic.DefaultHttpxClient(), anthropic.DefaultAsyncHttpxClient()
"""Made once, before a fork: to load the certificates takes longer than a whole run."""


@dataclass(frozen=True)
class Config:
    """What a process is told; *name* is its own, *at* says what it does at which moments."""

    name: str
    folder: str
    url: str
    tag: str
    store: str
    task: str
    tools: Sequence[str]
    mode: str = "blocking"
    at: Mapping[str, str] = field(default_factory=dict)
    turns: int = 40
    take_over: bool = False
    force: bool = False
    grace: float = 60.0
    busy: float = 30.0
    timeout: float | None = None
    tries: int = 1
    decide: Sequence[str] = ()
    rests: Sequence[float] = (0.0, 0.0, 0.0)

    def write(self, kind: str, value: Any) -> None:
        """Leave *value* for whoever started this process."""
        (Path(self.folder) / f"{self.name}.{kind}").write_text(json.dumps(value))


RUN = "run-1"


def main(path: str) -> int:
    """Run the program of a configuration and return its exit code."""
    config = Config(**json.loads(Path(path).read_text()))
    locks.GRACE_SECONDS, database.BUSY_SECONDS = config.grace, config.busy
    moves.CRASH_PAUSES = tuple(config.rests)
    store = open_store(config.store)
    try:
        if config.decide:
            call, verdict = config.decide
            Runs(store).decide(RUN, call, verdict)
            return 0
        return carry_on(config, store)
    finally:
        store.close()


def carry_on(config: Config, store: Store) -> int:
    """Start the run or carry it on, and tell how it ended."""
    moments = Moments(config)
    moments.reach("start")
    config.write("found", [entry.text for entry in store.read(RUN)])
    try:
        result = until_free(config, FusedStore(store, moments), moments)
    except (WorkerError, StoreError) as error:
        holder = vars(error).get("holder")
        told = None if holder is None else [holder.host, holder.pid, holder.since]
        config.write("error", [type(error).__name__, str(error), told])
        moments.announce_end(type(error).__name__)
        return {Held: 3, Fenced: 4}.get(type(error), 5)
    journal = [entry.text for entry in store.read(RUN)]
    config.write("result", {**told_of(result), "journal": journal})
    if "rested" in config.at:  # by itself it is no moment of a run
        moments.reach("rested")
        for thread in threading.enumerate():
            if thread.name.startswith("midstride"):
                thread.join()
    return 0


def until_free(config: Config, store: FusedStore, moments: Moments) -> Result:
    """Carry the run on; where another process holds it, tell who, and try again as often as told."""
    for number in range(1, config.tries):
        try:
            return MODES[config.mode](config, store, moments)
        except Held as error:
            config.write(f"held {number}", [error.holder.host, error.holder.pid, error.holder.since])
            moments.reach(f"held {number}")
    return MODES[config.mode](config, store, moments)


def told_of(result: Result) -> dict[str, Any]:
    names = ("status", "why", "answer", "turns", "tokens_used", "tokens_total", "seconds")
    return {
        **{name: getattr(result, name) for name in names},
        "doubts": ids(result.doubts),
        "approvals": ids(result.approvals),
    }


def ids(calls: Sequence[Call]) -> list[str]:
    return [call.id for call in calls]


# ---- moments


class Moments:
    """Where this process waits for the test, or does what a process does not do in its right mind."""

    def __init__(self, config: Config) -> None:
        self._name, self.folder, self._at = config.name, Path(config.folder), config.at
        self._mutex = threading.Lock()
        self._number = 0
        self.store: Store | None = None
        self.lease: Lease | None = None
        self.forked = False

    def reach(self, name: str) -> None:
        """Pass the moment *name*, or end there."""
        for deed in self._passed(name):
            if deed == "hold":
                self.announce(name)
                # These have gates of their own, so that who is quick cannot pass by what is meant for who is slow.
                self.wait_at(name if name.startswith(("start", "held", "rested")) else "go")
            else:
                commit(deed, self)

    async def reach_in_tool(self, name: str) -> None:
        """As `reach`; a coroutine that waits here can be cancelled, and where no loop runs nothing is awaited."""
        for deed in self._passed(name):
            if deed == "hold":
                self.announce(name)
                await self._wait()
            else:
                commit(deed, self)

    def announce_end(self, word: str) -> None:
        """Tell the test how a forked child ended."""
        if self.forked:
            self.announce(word)

    def _passed(self, name: str) -> list[str]:
        with self._mutex:
            self._number += 1
            note(self.folder / "moments.txt", name)
            deeds = self._at.get(name, self._at.get(str(self._number)))
            return [] if deeds is None else deeds.split("+")

    def announce(self, word: str) -> None:
        """Tell the test that this process is here."""
        with open(self.folder / "arrived", "w") as arrived:
            arrived.write(f"{self._name} {word}\n")

    def wait_at(self, gate: str) -> None:
        """Wait until the test opens the gate."""
        with open(self.folder / gate, "rb", buffering=0) as pipe:
            pipe.read(1)

    async def _wait(self) -> None:
        go = os.open(self.folder / "go", os.O_RDONLY)
        try:
            with contextlib.suppress(RuntimeError):
                loop, free = asyncio.get_running_loop(), asyncio.Event()
                loop.add_reader(go, free.set)
                try:
                    await free.wait()
                finally:
                    loop.remove_reader(go)
            os.read(go, 1)
        finally:
            os.close(go)


class FusedStore:
    """A store that has a moment before and after each append and each commit."""

    def __init__(self, inner: Store, moments: Moments) -> None:
        self.inner, self.moments, self.appends = inner, moments, 0
        moments.store = inner
        self.url, self.transactional = inner.url, inner.transactional
        self.read, self.runs, self.foreign, self.close = inner.read, inner.runs, inner.foreign, inner.close
        self.check, self.keep = inner.check, inner.keep

    def lease(self, run_id: str, *, take_over: bool = False) -> Lease:
        self.moments.lease = self.inner.lease(run_id, take_over=take_over)
        return self.moments.lease

    def append(self, run_id: str, entries: Sequence[Entry], **more: Any) -> None:
        with self.around_append():
            self.inner.append(run_id, entries, **more)

    @contextlib.contextmanager
    def transaction(self, run_id: str) -> Iterator[Transaction]:
        with self.inner.transaction(run_id) as transaction:
            yield FusedTransaction(transaction, self)
            self.moments.reach("commit before")
        self.moments.reach("commit after")

    @contextlib.contextmanager
    def around_append(self) -> Iterator[None]:
        self.appends += 1
        number = self.appends
        self.moments.reach(f"append {number} before")
        yield
        self.moments.reach(f"append {number} after")


class FusedTransaction:
    """A transaction of a `FusedStore`."""

    def __init__(self, inner: Transaction, store: FusedStore) -> None:
        self.inner, self.store = inner, store
        self.connection = inner.connection

    def append(self, entries: Sequence[Entry], **more: Any) -> None:
        with self.store.around_append():
            self.inner.append(entries, **more)


def watching(moments: Moments) -> Callable[[object], None]:
    """Return a watch that has a moment at the first and at the last event of each answer."""
    answers = 0

    def watch(event: object) -> None:
        nonlocal answers
        kind = event.event.type if isinstance(event, Draft) else ""
        if kind == "message_start":
            answers += 1
            moments.reach(f"draft {answers}")
        elif kind == "message_stop":
            moments.reach(f"stop {answers}")

    return watch


# ---- the agent


def agent_of(config: Config, store: FusedStore | None, moments: Moments) -> Agent:
    clients = {"client": client_of(config), "async_client": async_client_of(config)}
    model = models.Anthropic(MODEL, max_tokens=MAX_TOKENS, **clients)
    tools = tools_of(config, moments)
    return Agent(model, tools=tools, system="Be brief.", limits=Limits(turns=config.turns), store=store)


def client_of(config: Config) -> anthropic.Anthropic:
    headers = {"x-tag": config.tag}
    return anthropic.Anthropic(api_key="k", base_url=config.url, default_headers=headers, http_client=HTTP)


def async_client_of(config: Config) -> anthropic.AsyncAnthropic:
    headers = {"x-tag": config.tag}
    return anthropic.AsyncAnthropic(api_key="k", base_url=config.url, default_headers=headers, http_client=ASYNC_HTTP)


def blocking(config: Config, store: FusedStore, moments: Moments) -> Result:
    agent = agent_of(config, store, moments)
    return agent.run(config.task, RUN, take_over=config.take_over, force=config.force, watch=watching(moments))


def asynchronous(config: Config, store: FusedStore, moments: Moments) -> Result:
    agent = agent_of(config, store, moments)
    return asyncio.run(
        agent.run_async(config.task, RUN, take_over=config.take_over, force=config.force, watch=watching(moments))
    )


def own_loop(config: Config, store: FusedStore, moments: Moments) -> Result:
    client = client_of(config)
    tools, limits = tools_of(config, moments), Limits(turns=config.turns)
    with Run(store, RUN, config.task, tools=tools, limits=limits, take_over=config.take_over) as run:
        for turn in run:
            turn.respond(client.messages.create(model=MODEL, max_tokens=MAX_TOKENS, **turn.request))
        return run.result


def own_async_loop(config: Config, store: FusedStore, moments: Moments) -> Result:
    async def work() -> Result:
        client = async_client_of(config)
        tools, limits = tools_of(config, moments), Limits(turns=config.turns)
        async with AsyncRun(store, RUN, config.task, tools=tools, limits=limits, take_over=config.take_over) as run:
            async for turn in run:
                message = await client.messages.create(model=MODEL, max_tokens=MAX_TOKENS, **turn.request)
                await turn.respond(message)
            return run.result

    return asyncio.run(work())


def command(config: Config, store: FusedStore, moments: Moments) -> Result:
    """Do as `midstride run` does, with its exit code; the store is its own, so nothing of it is a moment."""
    global agent
    agent = agent_of(config, None, moments)
    again = ["--take-over"] if config.take_over else []
    words = ["run", "program:agent", "--task", config.task, "--id", RUN, "--store", config.store, *again]
    sys.argv = ["midstride", *words]
    try:
        midstride.cli.main()
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(end.code)
    raise AssertionError("a command ended without an exit code")


MODES: dict[str, Callable[[Config, FusedStore, Moments], Result]] = {
    "blocking": blocking,
    "threads": asynchronous,
    "async": asynchronous,
    "loop": own_loop,
    "async-loop": own_async_loop,
    "command": command,
}
"""The ways to drive a run; "threads" is the asynchronous one with plain functions, "command" is `midstride run`."""


# ---- its tools: written once, as coroutines, and run as plain functions where the mode says so


class Deeds:
    """What the tools do: one deed for each effect, counted outside."""

    def __init__(self, outside: Outside, moments: Moments) -> None:
        self._outside, self._here = outside, moments.reach_in_tool

    async def look(self, n: int) -> str:
        return await self._noted("look", n, "saw")

    async def charge(self, n: int, context: Context) -> str:
        await self._here(f"charge {n} before")
        self._outside.charge(context.key, n)
        await self._here(f"charge {n} after")
        return f"charged {n}"

    async def book(self, n: int, context: Context[sqlite3.Connection]) -> str:
        await self._here(f"book {n} before")
        context.transaction.execute("insert into seats values (?)", (n,))
        await self._here(f"book {n} after")
        return f"booked {n}"

    async def post(self, n: int) -> str:
        return await self._noted("post", n, "posted")

    async def find_post(self, n: int) -> Happened | DidNotHappen:
        await self._here(f"verify {n} before")
        found = self._outside.count(f"post {n}")
        await self._here(f"verify {n} after")
        return Happened(f"posted {n}") if found else DidNotHappen("no such post")

    async def send(self, n: int) -> str:
        return await self._noted("send", n, "sent")

    async def pay(self, n: int) -> str:
        return await self._noted("pay", n, "paid")

    async def wipe(self, n: int) -> str:
        return await self._noted("wipe", n, "wiped")

    async def _noted(self, name: str, n: int, done: str) -> str:
        await self._here(f"{name} {n} before")
        self._outside.note(f"{name} {n}")
        await self._here(f"{name} {n} after")
        return f"{done} {n}"


def tools_of(config: Config, moments: Moments) -> list[Tool[..., Any]]:
    deeds = Deeds(Outside(Path(config.folder)), moments)
    shape = as_it_is if config.mode in ("async", "async-loop") else plain
    post = tool.verifiable(timeout=30)(shape(deeds.post))
    post.verify(shape(deeds.find_post))
    made: list[Tool[..., Any]] = [
        tool.read_only(shape(deeds.look)),
        tool.idempotent(key_life=86_400)(shape(deeds.charge)),
        tool.transactional(shape(deeds.book)),
        post,
        tool(timeout=config.timeout)(shape(deeds.send)),
        tool(in_doubt="ask")(shape(deeds.pay)),
        tool(approval=True)(shape(deeds.wipe)),
    ]
    return [one for one in made if one.name in config.tools]


def as_it_is(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    return function


def plain(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    """Return a plain function that runs the coroutine to its end; without a loop it awaits nothing."""

    @functools.wraps(function)
    def run(*args: Any, **named: Any) -> Any:
        try:
            function(*args, **named).send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("a tool awaited something where no loop runs")

    return run


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
