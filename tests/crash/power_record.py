"""Runs of the program as their disk saw them: every write, name and sync in order, and what was acknowledged when."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import midstride
from crash.outside import notes_in
from crash.power import Disk, Image
from crash.syscalls import Call, NotingWorld, calls_in, data, under_strace

LOOKED_AT = (
    "write,pwrite64,fsync,fdatasync,openat,rename,renameat,renameat2,link,linkat,unlink,unlinkat,ftruncate,"
    "mkdir,mkdirat"
)


NOWHERE: dict[str, str] = {}


@dataclass
class Recording:
    """What the processes of a world did, as steps on a disk and beside it."""

    world: NotingWorld
    base: Image
    base_beside: Image
    steps: list[Callable[[Moment], None]]

    def moments(self) -> Iterator[Moment]:
        """Yield the world behind each step; it is one value that changes."""
        moment = Moment(Disk(), dict(self.base_beside))
        moment.disk.hold(self.base)
        for step in self.steps:
            step(moment)
            yield moment


@dataclass
class Moment:
    """The store's disk, and the files beside it that no power cut reaches: what the test was told, what took effect."""

    disk: Disk
    beside: Image = field(default_factory=dict)

    @property
    def acknowledged(self) -> list[str]:
        """Return the entries of which the program was told that they are on disk."""
        return notes_in(self.beside.get("acknowledged.txt", b""))

    @property
    def effects(self) -> int:
        """Return how many effects there were outside the store's own database."""
        return sum(not one.startswith("asked") for one in notes_in(self.beside.get("effects.txt", b"")))


def record(world: NotingWorld, *deaths: dict[str, str], options: tuple[str, ...] = ()) -> Recording:
    """Run a process for each of *deaths*, the moments at which it is killed, and one that lives; return what they did.

    The last state of the modelled disk must be the folder as it is, or the model does not know the world.
    """
    base, base_beside = files_of(world), files_beside(world)
    steps: list[Callable[[Moment], None]] = []
    for at in (*deaths, NOWHERE):
        trace = ("-f", "-s", "1000000", "-e", f"trace={LOOKED_AT}", *options)
        with under_strace(world, *trace, at=at) as (process, path):
            code = process.wait()
            assert code == (-9 if at else 0), f"it ended with {code}:\n{process.words}"
        steps += [step for call in calls_in(path) if (step := step_of(call, world)) is not None]
    recording = Recording(world, base, base_beside, steps)
    *_, last = recording.moments()
    assert last.disk.whole() == files_of(world)
    return recording


def files_of(world: NotingWorld) -> Image:
    """Return the store's files by their paths in the world; the -shm file is memory, and SQLite makes it anew."""
    return {
        name_of(path, world): path.read_bytes()
        for path in world.folder.rglob("*")
        if path.is_file() and is_kept(path, world)
    }


def files_beside(world: NotingWorld) -> Image:
    """Return what was told and what took effect before."""
    paths = [world.folder / name for name in ("acknowledged.txt", "effects.txt", "moments.txt")]
    return {path.name: path.read_bytes() for path in paths if path.exists()}


def is_kept(path: Path, world: NotingWorld) -> bool:
    return world.is_ours(str(path)) and not path.name.endswith("-shm")


def name_of(path: Path, world: NotingWorld) -> str:
    return str(path.relative_to(world.folder))


# ---- from calls to steps


def step_of(call: Call, world: NotingWorld) -> Callable[[Moment], None] | None:
    """Return what a call does to the disk, or to a file beside it; None for one that failed or is elsewhere."""
    paths = [Path(path) for path in call.paths]
    if call.result < 0 or not all(path.is_relative_to(world.folder) for path in paths):
        return None
    names = [name_of(path, world) for path in paths]
    if call.name.startswith("mkdir"):
        return lambda moment: moment.disk.make_folder(names[0])
    if is_folder(paths[0], world):
        return (lambda moment: moment.disk.sync(names[0])) if "sync" in call.name else None
    kept = [is_kept(path, world) for path in paths]
    if any(kept):
        return partial(on_disk, call=call, names=names)
    return partial(beside, call=call, name=names[0])


def is_folder(path: Path, world: NotingWorld) -> bool:
    return path == world.folder or path in world.path.parents


def on_disk(moment: Moment, call: Call, names: list[str]) -> None:
    disk, name = moment.disk, names[0]
    match call.name:
        case "openat":
            if name not in disk.seen:
                disk.create(name)
        case "write":
            disk.write(name, data(call.arguments[1])[: call.result])
        case "pwrite64":
            disk.write(name, data(call.arguments[1])[: call.result], int(call.arguments[3]))
        case "ftruncate":
            disk.truncate(name, int(call.arguments[1]))
        case "fsync" | "fdatasync":
            disk.sync(name)
        case "link" | "linkat":
            disk.link(*names)
        case "rename" | "renameat" | "renameat2":
            disk.rename(*names)
        case "unlink" | "unlinkat":
            disk.unlink(name)
        case _:
            raise AssertionError(f"{call} is no step that the disk knows")


def beside(moment: Moment, call: Call, name: str) -> None:
    if call.name == "openat" and "O_TRUNC" in call.arguments[2]:
        moment.beside[name] = b""
    elif call.name == "write":
        moment.beside[name] = moment.beside.get(name, b"") + data(call.arguments[1])


# ---- the program with a fault


def planted(folder: Path, file: str, *replacements: tuple[str, str]) -> Path:
    """Return a copy of the sources with a fault planted in *file*, for PYTHONPATH."""
    source = Path(midstride.__file__).parent
    shutil.copytree(source, folder / "midstride", ignore=shutil.ignore_patterns("__pycache__", "examples"))
    path = folder / "midstride" / file
    text = path.read_text()
    for old, new in replacements:
        assert text.count(old) == 1, f"{file} has {old!r} {text.count(old)} times"
        text = text.replace(old, new)
    path.write_text(text)
    return folder
