"""Who is measured. Each contender drives a run of so many turns in a folder, and marks the beginning of each turn."""

import asyncio
import json
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from midstride import Agent, Limits, tool
from speed.work import PAGE, Answers, delta, floor, response


@tool.read_only(name="look")
def read(page: int, note: str) -> str:
    """Read a page."""
    return PAGE


@tool(name="look")
def act(page: int, note: str) -> str:
    """Do something that cannot be undone."""
    return PAGE


def bare_sqlite(folder, turns, effects, mark):
    """One row an entry in a table of SQLite, with full durability: what a hand-written loop would do."""
    with closing(sqlite3.connect(folder / "runs.db", isolation_level=None)) as connection:
        connection.executescript(
            "pragma page_size=8192; pragma journal_mode=wal; pragma synchronous=full; pragma wal_autocheckpoint=0;"
            "create table entries (seq integer primary key, body text not null)"
        )
        for number in range(turns):
            mark()
            first, second = delta(number)
            for data in (first, b"intended", second) if effects else (first, second):
                connection.execute("insert into entries (body) values (?)", (data.decode(),))
        mark()
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()


def store_of(kind, folder):
    return {"sqlite": f"sqlite:{folder}/runs.db", "checkpoint": f"checkpoint:{folder}/run.json"}.get(kind, "memory:")


def agent(kind, folder, turns, effects=False, mark=lambda: None, seconds=0.0, limit=None):
    model = Answers(turns, mark, seconds)
    limits = Limits(turns=turns + 10 if limit is None else limit)
    return Agent(model, [act if effects else read], limits=limits, store=store_of(kind, folder))


def midstride(kind):
    def blocking(folder, turns, effects, mark):
        agent(kind, folder, turns, effects, mark).run("Read all pages.", "bench")
        mark()

    return blocking


def midstride_async(kind):
    def asynchronous(folder, turns, effects, mark):
        asyncio.run(agent(kind, folder, turns, effects, mark).run_async("Read all pages.", "bench"))
        mark()

    return asynchronous


def lesson(folder, turns, effects, mark):
    """The whole state written anew at each save point, durably: the way of the text that this project grew from."""
    path = folder / "checkpoint.json"
    state = {"version": 1, "task": "t", "turns": 0, "tokensUsed": 0, "messages": [], "pendingToolUse": None}
    for number in range(turns):
        mark()
        made = response(number)
        state["turns"] += 1
        state["messages"].append({"role": "assistant", "content": made["content"]})
        state["pendingToolUse"] = made["content"][0]
        replace(path, state)
        if effects:
            replace(path, state)
        block = {"type": "tool_result", "tool_use_id": made["content"][0]["id"], "content": PAGE}
        state["messages"].append({"role": "user", "content": [block]})
        state["pendingToolUse"] = None
        replace(path, state)
    mark()


def replace(path, state):
    handle, name = tempfile.mkstemp(dir=path.parent)
    with open(handle, "w") as file:
        json.dump(state, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    os.replace(name, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


CONTENDERS = {
    "floor": floor,
    "bare SQLite": bare_sqlite,
    "midstride sqlite": midstride("sqlite"),
    "midstride sqlite, async": midstride_async("sqlite"),
    "midstride memory": midstride("memory"),
    "midstride memory, async": midstride_async("memory"),
    "midstride checkpoint": midstride("checkpoint"),
    "the lesson's way": lesson,
}

QUADRATIC = {"midstride checkpoint", "the lesson's way"}
"""Contenders that write the whole run at every save point: they are measured over fewer turns."""


# ---- resume


def resume_floor(folder, turns):
    """Read and parse the bytes."""
    with open(folder / "floor.jsonl", "rb") as file:
        for line in file.read().splitlines():
            json.loads(line)


class _Asked(Exception):
    """The model was asked: the run has been taken up."""


def resume_midstride(kind):
    def resume(folder, turns):
        def asked():
            raise _Asked

        try:
            agent(kind, folder, turns + 5, mark=asked, limit=turns + 20).run("Read all pages.", "bench")
        except _Asked:
            pass

    return resume


RESUMES = {
    "floor": resume_floor,
    "midstride sqlite": resume_midstride("sqlite"),
    "midstride checkpoint": resume_midstride("checkpoint"),
}


def prepare_resume(name, folder: Path, turns):
    """Leave a run of *turns* turns that owes its next request."""
    if name == "floor":
        floor(folder, turns, False, lambda: None)
    else:
        kind = name.split()[1]
        agent(kind, folder, turns + 5, limit=turns).run("Read all pages.", "bench")


# ---- many runs in one process


async def _one_floor(writer, turns, seconds):
    for number in range(turns):
        await asyncio.sleep(seconds)
        for data in delta(number):
            await writer.append(data)
    await asyncio.sleep(seconds)


class GroupWriter:
    """One thread that appends whatever has come together, and syncs once for all of it."""

    def __init__(self, path):
        self.file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self.waiting = []
        self.work = None

    async def append(self, data):
        done = asyncio.get_running_loop().create_future()
        self.waiting.append((data, done))
        if self.work is None:
            self.work = asyncio.ensure_future(self._write())
        await done

    async def _write(self):
        while self.waiting:
            group, self.waiting = self.waiting, []
            await asyncio.to_thread(self._sync, b"".join(data for data, _ in group))
            for _, done in group:
                done.set_result(None)
        self.work = None

    def _sync(self, data):
        os.write(self.file, data)
        os.fdatasync(self.file)


async def many_floor(folder, runs, turns, seconds):
    writer = GroupWriter(folder / "floor.jsonl")
    await asyncio.gather(*(_one_floor(writer, turns, seconds) for _ in range(runs)))


async def many_midstride(folder, runs, turns, seconds):
    from midstride.stores import open_store

    with closing(open_store(store_of("sqlite", folder))) as store:
        shared = Agent(Answers(turns, seconds=seconds), [read], limits=Limits(turns=turns + 10), store=store)
        results = await asyncio.gather(*(shared.run_async("Read all pages.", f"bench-{n}") for n in range(runs)))
    assert all(result.status == "done" for result in results)


MANY = {"floor": many_floor, "midstride sqlite, async": many_midstride}
