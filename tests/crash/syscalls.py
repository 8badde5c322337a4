"""System calls of a process of the program: recorded by strace, ended by SIGKILL at the N-th, or answered by an error.

A process holds at its start until strace has it. Only its first thread is looked at unless told otherwise: the store is
used there, so a call's number among those of its name is the same in every run.
"""

from __future__ import annotations

import os
import queue
import re
import resource
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from crash.outside import noted
from crash.plan import HERE, KILLED, SCRIPTS, Forks, Gate, Process, World, tools_in
from midstride.testing import Answer, FakeModel, calls

SCRIPTS["effects"] = [calls(*((name, {"n": 1}) for name in ("charge", "post", "send"))), Answer("Done.")]
SCRIPTS["effects, booked"] = [
    calls(*((name, {"n": 1}) for name in ("charge", "book", "post", "send"))),
    Answer("Done."),
]
"""One call of each effect in one answer; no reads, whose threads would race with the store's."""

TASKS = {"sqlite": "effects, booked", "checkpoint": "effects"}

FAULTY = (
    "write,pwrite64,fsync,fdatasync,openat,rename,renameat,renameat2,link,linkat,unlink,unlinkat,ftruncate,fcntl,"
    "mkdir,mkdirat"
)
"""The calls by which a store changes, names, syncs and locks its files."""

SIDE_BY_SIDE = 2


# ---- what strace tells


@dataclass(frozen=True)
class Call:
    """One finished system call; *number* counts those of its name in its thread, from 1."""

    name: str
    arguments: tuple[str, ...]
    result: int
    number: int
    injected: bool

    @property
    def paths(self) -> list[str]:
        """Return the paths that it is about, by name or by descriptor."""
        if self.name in ("link", "rename"):
            return [text(argument) for argument in self.arguments[:2]]
        if self.name in ("linkat", "renameat", "renameat2"):
            return [text(self.arguments[1]), text(self.arguments[3])]
        return [text(self.arguments[1 if self.name in ("openat", "unlinkat", "mkdirat") else 0])]


def text(argument: str) -> str:
    """Return what stands in quotes, or the path behind a descriptor."""
    return data(argument).decode()


def data(argument: str) -> bytes:
    """Return the bytes of a string that strace wrote in hexadecimal."""
    return bytes.fromhex("".join(re.findall(r"\\x(..)", argument)))


_LINE = re.compile(r"(?:(?P<thread>\d+) +)?(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+|\?)(?P<rest>.*)")


def calls_in(path: Path) -> Iterator[Call]:
    """Yield the calls of a trace in the order in which they ended; one that was cut short by a death is none."""
    begun: dict[str, str] = {}
    numbers: Counter[tuple[str, str]] = Counter()
    for line in path.read_text().splitlines():
        if line.endswith("<unfinished ...>"):
            thread = line.split()[0]
            begun[thread] = line.removesuffix("<unfinished ...>").rstrip()
            continue
        thread, _, rest = line.partition(" ")
        resumed = re.match(r" *<\.\.\. \w+ resumed>", rest)
        if resumed:
            line = begun.pop(thread) + rest[resumed.end() :]
        found = _LINE.match(line)
        if found is None or found["result"] == "?":
            continue
        key = (found["thread"] or "", found["name"])
        numbers[key] += 1
        arguments, number = tuple(found["arguments"].split(", ")), numbers[key]
        injected = "INJECTED" in found["rest"]
        yield Call(found["name"], arguments, int(found["result"]), number, injected)


# ---- a process under strace


@contextmanager
def held(world: World, at: dict[str, str] | None = None) -> Iterator[tuple[Process, Gate]]:
    """Start a process that holds at its start, before it has looked at the store; *at* are later moments."""
    gate = Gate(world.folder)
    try:
        process = world.start({"start": "hold", **(at or {})})
        assert gate.arrived() == f"{process.name} start"
        yield process, gate
    finally:
        gate.close()
        for name in Gate.NAMES:
            (world.folder / name).unlink()


@contextmanager
def under_strace(world: World, *options: str, at: dict[str, str] | None = None) -> Iterator[tuple[Process, Path]]:
    """Start a process that strace has from its start; when the block is left, the trace is whole."""
    with held(world, at) as (process, gate):
        trace = world.folder / f"{process.name}.trace"
        with attached(process.pid, "-o", str(trace), *options) as tracer:
            gate.open(which="start")
            yield process, trace
            tracer.wait()


@contextmanager
def attached(pid: int, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Attach strace to a process, and wait until it has it."""
    command = ["strace", "-y", "-xx", *options, "-p", str(pid)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        said = tracer.stderr.readline()
        try:
            assert "attached" in said, f"strace says: {said}{tracer.stderr.read()}"
            yield tracer
        finally:
            if tracer.poll() is None:
                tracer.terminate()


class NotingForks(Forks):
    """Forks of the program that notes what its store acknowledged, with the sources in *sources* if told."""

    def __init__(self, sources: Path | None = None) -> None:
        command = [sys.executable, str(HERE / "syscalls_program.py")]
        where = {} if sources is None else {"PYTHONPATH": str(sources)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **where}
        )


@dataclass
class NotingWorld(World):
    """A world whose processes note what their store acknowledged; *inside* is where in it the store's file is."""

    inside: str = ""

    def make(self) -> NotingWorld:
        self.folder.mkdir(parents=True)
        if "book" in tools_in(self.task):
            with closing(sqlite3.connect(self.folder / "runs.db")) as connection:
                connection.execute("create table seats (n)")
        return self

    @property
    def path(self) -> Path:
        """Return the store's file."""
        return self.folder / self.inside / ("runs.db" if self.store == "sqlite" else "checkpoint.json")

    @property
    def url(self) -> str:
        return f"{self.store}:{self.path}"

    @property
    def acknowledged(self) -> list[str]:
        """Return the entries of which a process was told that they are on disk."""
        return noted(self.folder / "acknowledged.txt")

    def is_ours(self, path: str) -> bool:
        """Tell whether *path* is the store's: its file, what stands beside it by that name, or its folder."""
        return path == str(self.path.parent) or Path(path).name.lstrip(".").startswith(self.path.name)


# ---- many worlds, a few at once


@dataclass
class Crew:
    """Processes that fork the program, and a new world for each piece of work."""

    folder: Path
    server: FakeModel
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self._all = [NotingForks() for _ in range(SIDE_BY_SIDE)]
        self._free: queue.SimpleQueue[NotingForks] = queue.SimpleQueue()
        for forks in self._all:
            self._free.put(forks)
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE)

    def each(self, work: Callable[..., Any], store: str, points: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Do *work* in a new world for each of *points*, and return what it gave, in order."""
        return list(self._pool.map(lambda point: self.one(work, store, *point), points))

    def one(self, work: Callable[..., Any], store: str, *point: Any) -> Any:
        """Do *work* in a new world, and up to three times more where the fault went elsewhere."""
        for _ in range(3):
            with suppress(Elsewhere):
                return self._once(work, store, *point)
        return self._once(work, store, *point)

    def _once(self, work: Callable[..., Any], store: str, *point: Any) -> Any:
        """Do *work* in a new world; what fails names the point and the world's folder."""
        forks = self._free.get()
        folder = self.folder / f"{store}-{next(self._numbers)}"
        try:
            return work(NotingWorld(folder, self.server, forks, TASKS[store], store).make(), *point)
        except AssertionError as error:
            error.add_note(f"at {' '.join(map(str, point))}; its folder: {folder}")
            raise
        finally:
            self._free.put(forks)

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown()
        for forks in self._all:
            forks.close()


# ---- faults


class Elsewhere(AssertionError):
    """A fault met another call than it was meant for, or none: a slow machine made one more, to connect anew say."""


@dataclass(frozen=True)
class Point:
    """The *number*-th call of a *name* in the first thread, and what it is about."""

    name: str
    number: int
    about: str

    def __str__(self) -> str:
        return f"{self.name} {self.number} ({self.about})"


def points_of(world: NotingWorld) -> list[Point]:
    """Carry the program out, and return its calls on the store's files."""
    with under_strace(world, "-e", f"trace={FAULTY}") as (process, trace):
        assert process.wait() == 0, process.words
    return [Point(call.name, call.number, what) for call in calls_in(trace) if (what := about(call, world)) is not None]


def about(call: Call, world: NotingWorld) -> str | None:
    """Return which of the store's files a call is about, None where it is about none of them."""
    if not any(world.is_ours(path) for path in call.paths):
        return None
    return kind_of(Path(call.paths[-1]), world)


def kind_of(path: Path, world: NotingWorld) -> str:
    """Return a file's name without what is new in every process."""
    if path == world.path.parent:
        return "the folder"
    return re.sub(r"\.\d+\.[0-9a-f]{16}\.tmp", ".tmp", path.name)


def kill_before(world: NotingWorld, point: Point) -> None:
    """Run a process that is killed before it can do the call at *point*."""
    process, code = strike(world, point, "signal=SIGKILL")
    if code == 0:
        raise Elsewhere(f"it made fewer calls than it needs to be killed at {point}")
    assert code == KILLED, f"it ended with {code}:\n{process.words}"


def fail_at(world: NotingWorld, point: Point, error: str) -> tuple[Process, int]:
    """Run a process whose call at *point* is answered by *error* and not done; return it and how it ended."""
    process, code = strike(world, point, f"error={error}")
    hit = [call for call in calls_in(world.folder / f"{process.name}.trace") if call.injected]
    if [about(call, world) for call in hit] != [point.about]:
        raise Elsewhere(f"{error} was the answer to {hit}")
    return process, code


def strike(world: NotingWorld, point: Point, fault: str) -> tuple[Process, int]:
    inject = f"inject={point.name}:{fault}:when={point.number}"
    with under_strace(world, "-e", f"trace={FAULTY}", "-e", inject) as (process, _):
        code = process.wait()
    return process, code


def cut_short(world: NotingWorld, size: int) -> tuple[Process, int]:
    """Run a process none of whose files may grow beyond *size*: the write that would is cut short, the next refused."""
    with held(world) as (process, gate):
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, hard))
        gate.open(which="start")
        code = process.wait()
    return process, code


def spread(points: Sequence[Any], wanted: int) -> list[Any]:
    """Return so many of *points*, at even distances."""
    if len(points) <= wanted:
        return list(points)
    return [points[round(at * (len(points) - 1) / (wanted - 1))] for at in range(wanted)]
