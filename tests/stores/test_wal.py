"""The WAL stays small while many write: it is folded from one place, by one process at a time, and in the end it is."""

import os
import sqlite3
import threading
from contextlib import closing, suppress

import pytest

from midstride.core.journal import Said
from midstride.errors import MidstrideError
from midstride.stores import SqliteStore, opened
from midstride.testing.conformance import add, begin
from stores.places import at_once

WAL = 1_000_000
WRITERS, THREADS, WORDS = 3, 8, 100
AMONG_MANY = 24 * WAL
"""What the WAL stays below where several processes write: mostly 3 times WAL, and never folded it is 74 times.

How soon a fold comes about depends on who meets whom, so that a busy machine may let it grow to a multiple of that.
"""
A_MOMENT = "with recursive c (n) as (select 1 union all select n + 1 from c where n < 20000) select count(*) from c"


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(opened, "WAL_BYTES", WAL)
    with closing(SqliteStore(tmp_path / "runs.db")) as store:
        begin(store, "first")
    return tmp_path / "runs.db"


def wal(path):
    with suppress(FileNotFoundError):
        return path.with_name("runs.db-wal").stat().st_size
    return 0


def write_many(path):
    """Write in many threads, a run each; return the largest WAL that any of them saw."""
    sizes, failures = [], []

    def one(run_id):
        try:
            head = begin(store, run_id)
            for _ in range(WORDS):
                head = add(store, head, Said("x" * 9000), token=1, run_id=run_id)
                sizes.append(wal(path))
        except MidstrideError as error:
            failures.append(error)

    with closing(SqliteStore(path)) as store:
        threads = [threading.Thread(target=one, args=(f"{os.getpid()}/{number}",)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (failures, len(sizes)) == ([], THREADS * WORDS)
    return max(sizes)


def read_all_the_time(path):
    """Read one moment after another until the writers have ended."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        while len(list(path.parent.glob("done.*"))) < WRITERS:
            connection.execute("begin")
            connection.execute("select count(*) from midstride_runs").fetchone()
            connection.execute(A_MOMENT).fetchone()
            connection.execute("commit")
    return 0


def write_beside_a_reader(path):
    with suppress(FileExistsError):
        os.close(os.open(path.parent / "reader", os.O_CREAT | os.O_EXCL))
        return str(read_all_the_time(path))
    try:
        return str(write_many(path))
    finally:
        (path.parent / f"done.{os.getpid()}").touch()


def test_many_threads_keep_the_wal_bounded(path):
    assert write_many(path) < 2 * WAL
    assert wal(path) == 0


def test_several_processes_keep_the_wal_bounded(path):
    sizes = at_once(WRITERS, lambda: str(write_many(path)))
    assert all(int(size) < AMONG_MANY for size in sizes), sizes


def test_readers_that_come_and_go_do_not_let_the_wal_grow(path):
    sizes = at_once(WRITERS + 1, lambda: write_beside_a_reader(path))
    assert all(int(size) < AMONG_MANY for size in sizes), sizes


def test_a_reader_that_stays_costs_few_tries_and_no_entry(path, monkeypatch):
    tries = []
    really = opened._checkpoint
    monkeypatch.setattr(opened, "_checkpoint", lambda *args: tries.append(args[1]) or really(*args))
    monkeypatch.setattr(opened, "FOLD_WAITS", (0.01,))
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path, isolation_level=None)) as reader:
        head = begin(store)
        reader.execute("begin")
        reader.execute("select count(*) from midstride_runs").fetchone()
        while wal(path) < 5 * WAL:
            head = add(store, head, Said("x" * 9000), token=1)
        assert (tries[0], tries[-1], len(tries) < 10) == (0.0, 0.01, True), tries
        reader.execute("commit")
        while wal(path) > 5 * WAL:
            head = add(store, head, Said("x" * 9000), token=1)
        assert wal(path) < WAL
        assert len(store.read("run")) == head.seq
