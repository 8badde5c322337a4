"""Killed before every system call on the store's files, and answered by an error at every one of them.

A sample runs always; with MIDSTRIDE_CRASH=long every call is struck. What fails names its point, as `pwrite64 17`.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import defaultdict
from contextlib import closing

import pytest

from crash.checks import check
from crash.plan import RUN
from crash.report import LONG, record
from crash.syscalls import Crew, cut_short, fail_at, kill_before, points_of, spread
from crash.syscalls_program import FAILED
from midstride.cli.exits import Exit

STORES = pytest.mark.parametrize("store", ["sqlite", "checkpoint"])

WRITES = {"write", "pwrite64"}
NAMES = {"openat", "rename", "link", "unlink"}
ERRORS = {
    "EIO": {*WRITES, *NAMES, "fsync", "fdatasync", "ftruncate", "fcntl"},
    "ENOSPC": {*WRITES, "openat", "rename", "link", "ftruncate"},
    "EDQUOT": {"write"},
    "EROFS": NAMES,
    "EINTR": {*WRITES, "openat", "fsync", "fdatasync", "ftruncate", "fcntl"},
}
"""Which calls may be answered by an error, as far as the manual pages tell."""

DURABLE = {
    ("write", ".checkpoint.json.tmp"),
    ("fsync", ".checkpoint.json.tmp"),
    ("rename", "checkpoint.json"),
    ("fsync", "the folder"),
    ("pwrite64", "runs.db-wal"),
}
"""The calls that make an entry durable: where one of them fails for good, no run may go on."""

SENTENCES = {
    ("write", "ENOSPC"): "the disk is full: nothing was written to {path}; free some space and run the same program",
    ("write", "EDQUOT"): "the disk quota is used up: nothing was written to {path}; free some space and run the same",
    ("write", "EIO"): "the disk reports an input/output error: {path} could not be written; see to the disk and run",
    ("rename", "EROFS"): "the file system of {path} is read-only: nothing was written; mount it writable and run the",
    ("fsync", "EIO"): "the disk reports an input/output error: {path} could not be written; see to the disk and run",
    ("pwrite64", "ENOSPC"): "the disk is full: nothing was written to {path}; free some space and run the same program",
    ("pwrite64", "EIO"): "the disk reports an input/output error: {path} could not be written; see to the disk and run",
}
"""How the message begins, for some of the calls that make an entry durable."""


@pytest.fixture(scope="module")
def crew(crash_folder, server):
    crew = Crew(crash_folder, server)
    yield crew
    crew.close()


@pytest.fixture(scope="module")
def unstruck(crew):
    """By store: the program's calls on its files, and the world in which nothing happened to it."""
    return {store: crew.one(lambda world: (points_of(world), world), store) for store in ("sqlite", "checkpoint")}


# ---- what must be true


def judged(world, unstruck):
    """Resume a run whose first process ended, and check that nothing is lost, done twice, or told wrongly."""
    acknowledged, begun = world.acknowledged, effects_begun(world)
    world.finish()
    found = world.processes[1].told("found")
    assert found[: len(acknowledged)] == acknowledged
    assert intended(found) >= begun, "an effect was begun without its intent on disk"
    check(world, unstruck[world.store][1])
    if world.store == "sqlite":
        with closing(sqlite3.connect(world.path)) as connection:
            assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]


def effects_begun(world):
    return sum(
        moment.endswith("before") and moment.split()[0] in ("charge", "book", "post", "send")
        for moment in world.moments
    )


def intended(journal):
    return sum('"kind":"intended"' in line for line in journal)


def check_failure(world, process, code, point=None, error=None):
    """The process went on to the right end, or it stopped with the store's error; where it must stop, it did."""
    if code != FAILED:
        assert code == 0, f"it ended with {code}:\n{process.words}"
        assert error == "EINTR" or point is None or (point.name, point.about) not in DURABLE, "it went on"
        return
    kind, message, _ = process.told("error")
    assert kind in ("StoreError", "NotDurable"), message
    assert message.endswith("run the same program again"), message
    assert str(world.path) in message
    if point is not None and (point.name, point.about) in DURABLE and point.about != "the folder":
        assert message.startswith(SENTENCES.get((point.name, error), "").format(path=world.path))


# ---- kills, errors, short writes


@STORES
def test_a_process_that_is_killed_before_any_system_call_loses_nothing(store, crew, unstruck):
    def kill(world, point):
        kill_before(world, point)
        judged(world, unstruck)

    points = unstruck[store][0]
    points = points if LONG else spread(points, 20)
    crew.each(kill, store, [(point,) for point in points])
    record("a process is killed before a system call", f"strace, {store}", len(points), len(points))


@STORES
def test_a_system_call_that_fails_stops_the_run_before_its_effect_or_changes_nothing(store, crew, unstruck):
    def fail(world, point, error):
        process, code = fail_at(world, point, error)
        check_failure(world, process, code, point, error)
        judged(world, unstruck)

    points = failures(unstruck[store][0])
    points = points if LONG else one_of_each(points)
    crew.each(fail, store, points)
    for error in ERRORS:
        struck = [found for _, found in points].count(error)
        record(f"a system call fails: {error}", f"strace, {store}", struck, struck)


def failures(points):
    """Return each call with each of its errors; of the locks, which fail alike, each fifth."""
    few = [point for point in points if point.name != "fcntl" or point.number % 5 == 0]
    return [(point, error) for point in few for error, names in ERRORS.items() if point.name in names]


def one_of_each(points):
    """Return one call of each kind on each file, with one error, and with each where it makes an entry durable."""
    kinds = defaultdict(list)
    for point, error in points:
        kind = (point.name, point.about)
        kinds[(*kind, error if kind in DURABLE else "")].append((point, error))
    return [alike[len(alike) // 2] for alike in kinds.values()]


@STORES
def test_a_write_that_is_cut_short_stops_the_run_before_its_effect(store, crew, unstruck):
    def limit(world, size):
        process, code = cut_short(world, size)
        check_failure(world, process, code)
        judged(world, unstruck)
        return code

    sizes = LIMITS[store] if LONG else spread(LIMITS[store], 6)
    codes = crew.each(limit, store, [(size,) for size in sizes])
    assert codes[0] == FAILED
    record("a file may not grow further", f"RLIMIT_FSIZE, {store}", len(sizes), len(sizes))


LIMITS = {"sqlite": range(17_000, 260_000, 3_553), "checkpoint": range(2_500, 16_000, 333)}
"""Bytes; the tests' own files stay below the smallest while the store's is larger."""


# ---- the command line


@pytest.mark.parametrize(
    ("store", "fault", "sentence"),
    [
        ("sqlite", "pwrite64:error=ENOSPC -P {path}-wal", "the disk is full: nothing was written"),
        ("checkpoint", "rename:error=EROFS", "is read-only: nothing was written"),
    ],
)
def test_the_command_line_tells_a_failing_disk_by_its_exit_code(store, fault, sentence, crew):
    def say(world):
        before = world.live()["journal"]
        tracer = ["strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "-e"]
        inject = f"inject={fault}".format(path=world.path).split()
        command = [sys.executable, "-m", "midstride.cli", "say", RUN, "And be quick.", "--store", world.url]
        ended = subprocess.run([*tracer, *inject, *command], capture_output=True, text=True)
        return ended.returncode, " ".join(ended.stderr.split()), world.live()["journal"] == before

    code, said, untouched = crew.one(say, store)
    assert (code, untouched) == (Exit.STORE, True)
    assert sentence in said
