"""A forked child and SQLite: it inherits no connection, takes locks of its own, and is refused where that cannot be."""

import fcntl
import multiprocessing
import os
import struct
import threading
from contextlib import closing

import pytest

from midstride.core.journal import Head, Requested, Said, Started, Taken, head_of, seal
from midstride.errors import Fenced, StoreError
from midstride.stores import SqliteStore, forking

SECONDS = 30
FORKING = multiprocessing.get_context("fork")
SHARED_FIRST, SHARED_SIZE = 0x40000002, 510
"""The bytes that a connection of SQLite's has locked while it is open in WAL mode (sqlite.org, os.h)."""


def begun(path):
    store = SqliteStore(path)
    started = Started("go", "anthropic", [{"role": "user", "content": "go"}], nonce="n")
    store.append("r", seal([started, Taken(1, "h", 1)], Head(), 1.0), token=1)
    assert len(store.read("r")) == 2
    return store


def in_a_child(work):
    """Return what *work* gave in a forked child, or the error that it raised."""
    ours, theirs = FORKING.Pipe()

    def run():
        try:
            theirs.send(work())
        except BaseException as error:
            theirs.send(error)

    child = FORKING.Process(target=run)
    child.start()
    assert ours.poll(SECONDS)
    got = ours.recv()
    child.join(SECONDS)
    assert child.exitcode == 0
    return got


def open_here(path):
    """Return how often this process has a file of the database's open."""
    names = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return sum(name.startswith(str(path)) and not name.endswith(".lock") for name in names)


def locked_by(path):
    """Return the pid that the kernel names as having the database open; 0 where there is none."""
    form = "hhqqi0q"
    with open(path, "r+b") as file:
        asked = struct.pack(form, fcntl.F_WRLCK, os.SEEK_SET, SHARED_FIRST, SHARED_SIZE, 0)
        told = struct.unpack(form, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return 0 if told[0] == fcntl.F_UNLCK else told[4]


def test_a_child_inherits_no_connection_and_the_parent_goes_on(tmp_path):
    path = tmp_path / "runs.db"
    with closing(begun(path)) as store:
        assert open_here(path) > 0
        assert in_a_child(lambda: open_here(path)) == 0
        assert len(store.read("r")) == 2
        store.append("r", seal([Said("more")], head_of(store.read("r")), 2.0), token=None)
        assert len(store.read("r")) == 3


def test_a_child_has_locks_of_the_kernels_own_when_its_parent_is_dead(tmp_path):
    """Else whoever begins meanwhile takes its WAL for a dead process's, and one of the two empties it."""
    path = tmp_path / "runs.db"
    came, go = FORKING.Pipe(), FORKING.Pipe()

    def child(store):
        came[1].send((os.getpid(), len(store.read("r"))))
        go[0].recv()
        os._exit(0)

    def dies():
        store = begun(path)
        if os.fork() == 0:
            go[0].recv()  # until the parent is dead
            child(store)
        os._exit(0)

    parent = FORKING.Process(target=dies)
    parent.start()
    parent.join()
    go[1].send("on")
    assert came[0].poll(SECONDS)
    pid, entries = came[0].recv()
    assert (entries, locked_by(path)) == (2, pid)
    go[1].send("end")


def test_a_child_of_a_transaction_is_refused_the_file(tmp_path):
    path = tmp_path / "runs.db"
    with closing(begun(path)) as store:
        with store.transaction("r"):
            error = in_a_child(lambda: store.read("r"))
            another = in_a_child(lambda: SqliteStore(path).read("r"))
        assert isinstance(error, StoreError)
        assert "was in use when this process was forked" in str(error)
        assert str(another) == str(error)
        assert len(in_a_child(lambda: store.read("r"))) == 2
        assert len(store.read("r")) == 2


def test_a_transaction_commits_in_the_process_that_began_it_alone(tmp_path):
    path = tmp_path / "runs.db"

    def goes_on():
        """Leave the block in the child, as a tool does that forks and returns twice."""
        with store.transaction("r") as transaction:
            transaction.append(seal([Requested()], head_of(store.read("r")), 2.0), token=1)
            ours, theirs = FORKING.Pipe()
            if os.fork() == 0:
                forked.append(theirs)
            else:
                told.append(ours)

    told, forked = [], []
    with closing(begun(path)) as store:
        try:
            goes_on()
        except BaseException as error:
            if not forked:
                raise
            forked[0].send(error)
        finally:
            if forked:
                os._exit(0)
        assert told[0].poll(SECONDS)
        error = told[0].recv()
        assert (type(error), "forked inside of the transaction" in str(error)) == (Fenced, True)
        assert [entry.body.kind for entry in store.read("r")] == ["started", "taken", "requested"]


@pytest.mark.parametrize("lock", ["reading_lock", "writing_lock"])
def test_a_fork_in_the_middle_of_a_use_waits_a_little_and_the_child_is_refused_the_file(lock, tmp_path, monkeypatch):
    monkeypatch.setattr(forking, "PAUSE_SECONDS", 0.05)
    path = tmp_path / "runs.db"
    with closing(begun(path)) as store:
        with getattr(store._opened, lock):
            error = in_a_child(lambda: store.read("r"))
        assert "was in use when this process was forked" in str(error)
        assert len(store.read("r")) == 2


def test_a_fork_waits_for_a_write_of_another_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(forking, "PAUSE_SECONDS", float(SECONDS))
    path = tmp_path / "runs.db"
    with closing(begun(path)) as store:
        store._opened.writing_lock.acquire()
        timer = threading.Timer(0.2, store._opened.writing_lock.release)
        timer.start()
        assert len(in_a_child(lambda: store.read("r"))) == 2
        timer.join()
