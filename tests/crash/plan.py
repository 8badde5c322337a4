"""What the crash tests do: carry a run on through planned deaths, in a world of its own.

A plan is written as one line, `sqlite blocking send: send 1 after, 3`: the first process dies in the tool behind its
effect, the second at the third moment it reaches, and whatever follows lives.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from crash.outside import Outside, noted
from midstride.testing import Answer, FakeModel, calls

HERE = Path(__file__).parent
RUN = "run-1"
KILLED = -9
WAIT_SECONDS = 300
"""How long a test waits for what must come; only a fault lets it wait."""

BATCH = [("look", {"n": 1}), ("charge", {"n": 1}), ("send", {"n": 1}), ("post", {"n": 1}), ("look", {"n": 2})]
SCRIPTS: dict[str, list[Answer]] = {
    **{name: [calls((name, {"n": 1})), Answer("Done.")] for name in ("look", "charge", "book", "post", "send", "pay")},
    "batch": [calls(*BATCH), calls(("send", {"n": 2})), Answer("Done.")],
    "mixed": [calls(*BATCH[:2], ("book", {"n": 1}), *BATCH[2:]), calls(("send", {"n": 2})), Answer("Done.")],
    "endless": [calls(("look", {"n": n})) for n in range(40)],
    "wipe": [calls(("wipe", {"n": 1})), Answer("Done.")],
    "wipe twice": [calls(("wipe", {"n": 1})), calls(("wipe", {"n": 2})), Answer("Done.")],
    "doubt and read": [calls(("pay", {"n": 1}), ("look", {"n": 2})), Answer("Done.")],
}
"""What the model answers, by task: one answer a turn."""


def model() -> FakeModel:
    """Return the one server for all worlds: the task says which script, the answers so far which turn."""

    def answer(body: dict[str, Any], number: int) -> Answer:
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        script = SCRIPTS[body["messages"][0]["content"]]
        return script[min(turn, len(script) - 1)]  # whoever says something behind the end is told the same again

    return FakeModel(answer)


def tools_in(task: str) -> list[str]:
    """Return the names of the tools that the script of *task* calls."""
    blocks = [block for answer in SCRIPTS[task] if not isinstance(answer.content, str) for block in answer.content]
    return sorted({block["name"] for block in blocks})


class Forks:
    """The process that forks the program; see forks.py."""

    def __init__(self) -> None:
        command = [sys.executable, str(HERE / "forks.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def order(self, order: str, argument: object) -> int:
        """Give an order and return what was answered."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{order} {argument}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@dataclass
class Process:
    """One process of the program."""

    name: str
    folder: Path
    pid: int
    forks: Forks

    def wait(self) -> int:
        """Return its exit code, or minus the signal that ended it."""
        return self.forks.order("wait", self.pid)

    def told(self, kind: str) -> Any:
        """Return what it left in NAME.kind, or None."""
        path = self.folder / f"{self.name}.{kind}"
        return json.loads(path.read_text()) if path.exists() else None

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send a signal, and return what ended it."""
        os.kill(self.pid, number)
        return self.wait()

    @property
    def words(self) -> str:
        """Return what it printed."""
        path = self.folder / f"{self.name}.output"
        return path.read_text() if path.exists() else ""


_tags = count()


@dataclass
class World:
    """A folder, a store in it, and its processes; *before* are requests that were sent in the world it is copied of."""

    folder: Path
    server: FakeModel
    forks: Forks
    task: str
    store: str = "sqlite"
    mode: str = "blocking"
    turns: int = 40
    processes: list[Process] = field(default_factory=list)
    before: list[bytes] = field(default_factory=list)
    tag: str = field(default_factory=lambda: f"world-{next(_tags)}")

    def make(self) -> World:
        """Make the folder, and the database that is the user's: its table was there before any run."""
        self.folder.mkdir(parents=True)
        if self.task in ("book", "mixed"):
            with closing(sqlite3.connect(self.folder / "runs.db")) as connection:
                connection.execute("create table seats (n)")
        return self

    def copy(self, folder: Path) -> World:
        """Return this world as it stands, in another folder; no process of it may be alive."""
        shutil.copytree(self.folder, folder)
        processes = [Process(p.name, folder, p.pid, p.forks) for p in self.processes]
        more = {"turns": self.turns, "processes": processes, "before": self.bodies}
        return World(folder, self.server, self.forks, self.task, self.store, self.mode, **more)

    @property
    def url(self) -> str:
        """Return the store's URL."""
        return f"{self.store}:{self.folder / ('runs.db' if self.store == 'sqlite' else 'checkpoint.json')}"

    def config(self, at: dict[str, str], **more: Any) -> tuple[str, Path]:
        """Write the next process's configuration; return its name and the file."""
        name = f"p{len(list(self.folder.glob('p*.json')))}"
        told = {"name": name, "folder": str(self.folder), "url": self.server.url, "tag": self.tag, "store": self.url}
        told |= {"task": self.task, "tools": tools_in(self.task), "mode": self.mode, "turns": self.turns, "at": at}
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(told | more))
        return name, path

    def start(self, at: dict[str, str] | None = None, **more: Any) -> Process:
        """Start a process of the program."""
        name, path = self.config(at or {}, **more)
        process = Process(name, self.folder, self.forks.order("start", path), self.forks)
        self.processes.append(process)
        return process

    def start_alone(self, at: dict[str, str]) -> subprocess.Popen[str]:
        """Start the program by itself, as a user does."""
        _, path = self.config(at)
        command = [sys.executable, str(HERE / "program.py"), str(path)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def die(self, moment: str) -> Process:
        """Run a process that must die at *moment*."""
        process = self.start({moment: "kill"})
        code = process.wait()
        assert code == KILLED, f"it ended with {code} instead of dying at {moment!r}:\n{process.words}"
        return process

    def may_die(self, moment: str) -> None:
        """Run a process that dies at *moment* or comes to rest before."""
        process = self.start({moment: "kill"})
        code = process.wait()
        assert code in (0, KILLED), f"it ended with {code}:\n{process.words}"

    def live(self, **more: Any) -> dict[str, Any]:
        """Run a process that must come to rest, and return what it told."""
        process = self.start(**more)
        code = process.wait()
        assert code == 0, f"it ended with {code}:\n{process.words}{process.told('error')}"
        told: dict[str, Any] = process.told("result") or {}
        return told

    def finish(self) -> dict[str, Any]:
        """Let processes run until the run is done; a person who is asked looks at the world and says what is so."""
        result = self.live()
        while result["status"] == "waiting":
            self.decide(result)
            result = self.live()
        return result

    def decide(self, result: dict[str, Any]) -> None:
        """Say of each call in doubt what is so, and approve what waits for it."""
        for call in result["approvals"]:
            self.live(decide=[call, "allow"])
        for call in result["doubts"]:
            self.live(decide=[call, "happened" if self.outside.count("pay 1") else "allow"])

    @property
    def outside(self) -> Outside:
        """Return the world's effects."""
        return Outside(self.folder)

    @property
    def moments(self) -> list[str]:
        """Return the moments that its processes reached."""
        return noted(self.folder / "moments.txt")

    @property
    def bodies(self) -> list[bytes]:
        """Return the requests that the model got, oldest first."""
        pairs = zip(list(self.server.headers), list(self.server.bodies), strict=False)
        return self.before + [body for headers, body in pairs if headers["x-tag"] == self.tag]


@dataclass(frozen=True)
class Plan:
    """Which program runs, and where its processes die: one after the other, by the moment's name or number."""

    store: str
    mode: str
    task: str
    deaths: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.store} {self.mode} {self.task}: {', '.join(self.deaths)}"

    def world(self, folder: Path, server: FakeModel, forks: Forks) -> World:
        """Return a new world for this plan."""
        return World(folder, server, forks, self.task, self.store, self.mode).make()


def and_then(plan: Plan, world: World, folder: Path) -> dict[str, World]:
    """Carry *plan* out up to its last death, then let the next process die at each moment it reaches, each in a world.

    Returns the worlds, which all have been lived in to the end, by the second death's number. Where a person is asked
    meanwhile, the numbers begin again behind the decision.
    """
    for moment in plan.deaths:
        world.die(moment)
    ended: dict[str, World] = {}
    for stage in ("", "decided "):
        at, result = each_moment(world, folder / f"stage {stage}")
        ended |= {f"{stage}{number}": branch for number, branch in at.items()}
        world, rested = result
        if rested["status"] != "waiting":
            return ended
        world.decide(rested)
    raise AssertionError("a person is asked for ever")


def each_moment(world: World, folder: Path) -> tuple[dict[int, World], tuple[World, dict[str, Any]]]:
    """Return the worlds in which the next process died at moment 2, 3, ..., and the one where it came to rest."""
    ended: dict[int, World] = {}
    for number in count(2):  # the first moment is the start, before anything
        branch = world.copy(folder / str(number))
        process = branch.start({str(number): "kill"})
        code = process.wait()
        if code == 0:
            return ended, (branch, process.told("result"))
        assert code == KILLED, f"then {number}: it ended with {code}:\n{process.words}"
        branch.finish()
        ended[number] = branch
    raise AssertionError("a process reaches moments for ever")


def carry_out(plan: Plan, world: World) -> World:
    """Let the processes of *plan* die as planned, and then live until the run is done.

    A process whose moment is a number may come to rest before it reaches so many.
    """
    for moment in plan.deaths:
        if moment.isdigit():
            world.may_die(moment)
        else:
            world.die(moment)
    world.finish()
    return world


# ---- holding a process at a moment


class Gate:
    """Pipes in a world's folder: processes that are told to hold say so in one, and wait at another."""

    NAMES = ("arrived", "start", "held 1", "held 2", "rested", "go")

    def __init__(self, folder: Path) -> None:
        self._ends: dict[str, int] = {}
        for name in self.NAMES:
            os.mkfifo(folder / name)
            # Open for both: neither side then waits for the other to open it.
            self._ends[name] = os.open(folder / name, os.O_RDWR)
        self._words: list[str] = []

    def arrived(self) -> str:
        """Wait for the next process to say who it is and where it holds, as "p0 send 1 after"."""
        while not self._words:
            ready, _, _ = select.select([self._ends["arrived"]], [], [], WAIT_SECONDS)
            assert ready, f"no process arrived in {WAIT_SECONDS} s"
            self._words += os.read(self._ends["arrived"], 4096).decode().splitlines()
        return self._words.pop(0)

    def open(self, processes: int = 1, which: str = "go") -> None:
        """Let so many go on."""
        os.write(self._ends[which], b"." * processes)

    def close(self) -> None:
        """Let whoever still waits go on: the pipes end."""
        for end in self._ends.values():
            os.close(end)
