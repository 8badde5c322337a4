"""Many runs write through one store, with one sync for many: killed at any acknowledgement, and on disks that fail.

A sample runs always; with MIDSTRIDE_CRASH=long every third acknowledgement is a death.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest

from crash.crowd_program import FAILED, MAILS, RUNS
from crash.outside import noted
from crash.report import LONG, record
from crash.syscalls import spread
from midstride.stores import SqliteStore

PROGRAM = Path(__file__).with_name("crowd_program.py")
APPENDS = len(RUNS) * (1 + 3 * MAILS)
"""How often a process that nobody kills is told that entries are on disk, at the least."""


@pytest.fixture(scope="module")
def forks():
    """The process that forks a crowd for each folder that it is given."""
    with program(stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.stdin.close()


def program(*arguments, before=(), **pipes):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([*before, sys.executable, str(PROGRAM), *arguments], env=environment, **pipes)


@dataclass
class Forked:
    """A crowd in a fork: it lives until *held* is closed, and tells *told* what was acknowledged."""

    pid: int
    held: BinaryIO
    told: BinaryIO
    code: int | None = None


@contextmanager
def started(forks, folder):
    """Start a crowd in *folder*, and wait for its end."""
    for name in ("in", "out"):
        if not (folder / name).exists():
            os.mkfifo(folder / name)
    forks.stdin.write(f"{folder}\n".encode())
    forks.stdin.flush()
    pid = int(forks.stdout.readline())
    with open(folder / "in", "wb") as held, open(folder / "out", "rb", buffering=0) as told:
        crowd = Forked(pid, held, told)
        yield crowd
    crowd.code = int(forks.stdout.readline())


def killed_at(forks, folder, count):
    """Run a process that is killed behind its *count*-th acknowledgement; tell whether it had come so far."""
    with started(forks, folder) as crowd:
        for _ in range(count):
            if crowd.told.read(1) != b".":
                return False
        os.kill(crowd.pid, signal.SIGKILL)
        crowd.told.readall()
    return crowd.code == -signal.SIGKILL


def carried_on(forks, folder):
    """Run processes until one ends in order; each goes on where the last one was killed, or failed."""
    code = FAILED
    while code == FAILED:
        with started(forks, folder) as crowd:
            crowd.held.close()
            crowd.told.readall()
        code = crowd.code
    assert code == 0


def check(folder):
    """Nothing that was acknowledged is missing, no mail went twice, and every mail was sent or told as unknown."""
    sent = Counter(tuple(one.split()) for one in noted(folder / "sent.txt"))
    assert max(sent.values()) == 1, sent.most_common(3)
    acknowledged = {tuple(one.split()) for one in noted(folder / "acknowledged.txt")}
    with closing(SqliteStore(folder / "runs.db")) as store:
        assert sorted(store.runs()) == RUNS
        there = {run_id: store.read(run_id) for run_id in RUNS}
    for run_id, entries in there.items():
        settled = outcomes(entries)
        assert len(settled) == MAILS
        for number, outcome in enumerate(settled):
            assert outcome in ("ok", "unknown")
            assert outcome == "unknown" or (run_id, str(number)) in sent
    assert acknowledged <= {(run_id, str(e.seq), e.digest) for run_id, entries in there.items() for e in entries}
    with closing(sqlite3.connect(folder / "runs.db")) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]


def outcomes(entries):
    return [e.body.outcome for e in entries if e.body.kind == "settled"]


def test_a_crowd_of_runs_is_killed_at_any_acknowledgement(forks, tmp_path):
    counts = spread(range(1, APPENDS), 40 if LONG else 6)
    for count in counts:
        folder = tmp_path / str(count)
        folder.mkdir()
        assert killed_at(forks, folder, count)
        if count % 2:
            killed_at(forks, folder, 31)  # again, while it carries on
        carried_on(forks, folder)
        check(folder)
    record("a process of many runs is killed", "sqlite, 12 runs", len(counts), len(counts))


@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_disk_that_fails_a_crowd_loses_nothing_that_it_acknowledged(call, error, forks, tmp_path):
    for number in range(1, 9 if LONG else 3):
        folder = tmp_path / str(number)
        folder.mkdir()
        trace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", str(folder / "trace"), "-P", str(folder / "runs.db-wal")]
        fault = f"inject={call}:error={error}:when={number}+7"
        trace += ["-e", f"trace={call}", "-e", fault]
        with program(folder, before=trace, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            _, words = process.communicate()
        assert process.returncode in (0, FAILED), words.decode()
        assert number > 1 or "INJECTED" in (folder / "trace").read_text()
        carried_on(forks, folder)
        check(folder)
    record("a disk fails a process of many runs", f"strace, {call}, {error}", number, number)
