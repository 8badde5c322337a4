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
from contextlib import closing
from pathlib import Path

import pytest

from crash.crowd_program import FAILED, MAILS, RUNS
from crash.outside import noted
from crash.report import LONG, record
from crash.syscalls import spread
from midstride.stores import SqliteStore

PROGRAM = Path(__file__).with_name("crowd_program.py")
APPENDS = len(RUNS) * (1 + 3 * MAILS)
"""How often a process that nobody kills is told that entries are on disk, at the least."""


def started(folder, *before, stdin=subprocess.DEVNULL):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*before, sys.executable, str(PROGRAM), str(folder)]
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def killed_at(folder, count):
    """Run a process that is killed behind its *count*-th acknowledgement; tell whether it had come so far."""
    with started(folder, stdin=subprocess.PIPE) as process:  # it lives until this is closed
        for _ in range(count):
            if process.stdout.read(1) != b".":
                return False
        process.send_signal(signal.SIGKILL)
        process.stdout.read()
    return process.returncode == -signal.SIGKILL


def carried_on(folder):
    """Run processes until one ends in order; each goes on where the last one was killed, or failed."""
    while True:
        with started(folder) as process:
            _, words = process.communicate()
        if process.returncode == 0:
            return
        assert process.returncode == FAILED, words.decode()


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


def test_a_crowd_of_runs_is_killed_at_any_acknowledgement(tmp_path):
    counts = spread(range(1, APPENDS), 40 if LONG else 6)
    for count in counts:
        folder = tmp_path / str(count)
        folder.mkdir()
        assert killed_at(folder, count)
        if count % 2:
            killed_at(folder, 31)  # again, while it carries on
        carried_on(folder)
        check(folder)
    record("a process of many runs is killed", "sqlite, 12 runs", len(counts), len(counts))


@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_disk_that_fails_a_crowd_loses_nothing_that_it_acknowledged(call, error, tmp_path):
    for number in range(1, 9 if LONG else 3):
        folder = tmp_path / str(number)
        folder.mkdir()
        trace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", str(folder / "trace"), "-P", str(folder / "runs.db-wal")]
        fault = f"inject={call}:error={error}:when={number}+7"
        with started(folder, *trace, "-e", f"trace={call}", "-e", fault) as process:
            _, words = process.communicate()
        assert process.returncode in (0, FAILED), words.decode()
        assert number > 1 or "INJECTED" in (folder / "trace").read_text()
        carried_on(folder)
        check(folder)
    record("a disk fails a process of many runs", f"strace, {call}, {error}", number, number)
