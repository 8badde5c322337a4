"""Runs removed from a SQLite file: in short steps that others write between, whole after any crash, small at last."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from midstride.core.journal import Said, head_of, seal
from midstride.errors import Removed
from midstride.stores import SqliteStore, removal, shrinking
from midstride.testing.conformance import AT, add, begin, kinds, process


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def store(path):
    with closing(SqliteStore(path)) as store:
        yield store


def make(store, run_id, words=4, size=10):
    head = begin(store, run_id)
    for start in range(0, words, 20):
        bodies = [Said("x" * size) for _ in range(start, min(words, start + 20))]
        entries = seal(bodies, head, AT)
        store.append(run_id, entries, token=1, over=True)
        head = head_of(entries)
    return head


def remove(store, run_id):
    lease = store.lease(run_id)
    store.remove(run_id, lease, last=None, at=AT)
    lease.release()


def forget(store, run_id):
    lease = store.lease(run_id)
    store.forget(run_id, lease)
    lease.release()


def ask(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def entries_left(path):
    return ask(path, "select count(*) from midstride_entries")[0][0]


@pytest.fixture
def between(monkeypatch):
    """Do something between the steps of what gives space back, each as small as can be; the list tells how often."""
    acts, pauses = [], []

    def pause(seconds):
        pauses.append(seconds)
        for act in acts:
            act()

    monkeypatch.setattr(removal, "STEP_SECONDS", 0)
    monkeypatch.setattr(removal, "STEP_BYTES", 16384)
    monkeypatch.setattr(shrinking.time, "sleep", pause)
    return acts, pauses


def test_others_write_between_the_steps(path, store, between):
    acts, pauses = between
    make(store, "old", 1000, 2000)
    head = begin(store, "other")
    with closing(SqliteStore(path)) as other:

        def write():
            nonlocal head
            head = add(other, head, Said("meanwhile"), token=1, run_id="other")

        acts.append(write)
        remove(store, "old")
        assert store.shrink().entries == 1003
        assert len(pauses) > 100  # 21 of entries, and one for each page
        assert len(kinds(other, "other")) == 3 + len(pauses)
    assert store.check() == []


def test_a_run_that_is_forgotten_and_begun_anew_between_the_steps_is_whole(path, store, between):
    acts, _ = between
    make(store, "old", 300)
    with closing(SqliteStore(path)) as other:

        def begin_anew():
            acts.clear()
            forget(other, "old")
            begin(other, "old")
            (other_file,) = [other.keep("old", b"all of it")]
            kept.append(other_file)

        kept = []
        acts.append(begin_anew)
        remove(store, "old")
        store.shrink()
        assert kinds(other, "old") == ["started", "taken", "requested"]
        assert Path(kept[0]).read_bytes() == b"all of it"
        store.shrink()
        assert (len(kinds(store, "old")), Path(kept[0]).exists()) == (3, True)


def test_what_a_killed_remover_left_is_found_by_the_next_one(path, store):
    make(store, "one", 100)
    make(store, "two")
    kept = {run_id: store.keep(run_id, b"all of it") for run_id in ("one", "two")}
    with process(lambda: remove(SqliteStore(path), "one")):
        pass  # it is killed behind the removal
    assert entries_left(path) > 100
    with pytest.raises(Removed):
        store.read("one")
    assert store.runs() == ["two"]
    assert store.shrink().entries == 103
    assert (entries_left(path), len(kinds(store, "two"))) == (7, 7)
    assert [Path(kept[run_id]).exists() for run_id in ("one", "two")] == [False, True]


def test_an_interrupted_shrink_is_taken_up_again(path, store, between):
    acts, _ = between
    make(store, "one", 300)
    kept = store.keep("one", b"all of it")

    def stop():
        raise KeyboardInterrupt

    acts.append(stop)
    remove(store, "one")
    with suppress(KeyboardInterrupt):
        store.shrink()
    assert (0 < entries_left(path) < 303, Path(kept).exists()) == (True, True)
    acts.clear()
    store.shrink()
    assert (entries_left(path), Path(kept).exists()) == (0, False)


def test_a_run_s_results_go_with_it_and_no_other_s(store, path):
    for run_id in ("one", "two"):
        begin(store, run_id)
    one, two = (Path(store.keep(run_id, b"the same")) for run_id in ("one", "two"))
    assert one != two
    assert store.size("one") == sum(len(entry.text) for entry in store.read("one")) + 8
    stranger = path.with_name("runs.db.results") / "notes.txt"
    stranger.write_text("mine")
    remove(store, "one")
    assert one.exists()
    freed = store.shrink()
    assert (one.parent.exists(), two.read_bytes(), stranger.read_text()) == (False, b"the same", "mine")
    assert freed.before - freed.after >= 8


def test_a_database_of_the_user_s_keeps_its_pages_and_that_is_said(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table seats (seat text)")
        connection.execute("insert into seats values ('1A')")
    with closing(SqliteStore(path)) as store:
        make(store, "old", 300, 5000)
        remove(store, "old")
        freed = store.shrink()
        assert (freed.entries, freed.before, "SQLite's `vacuum`" in freed.note) == (303, freed.after, True)
        make(store, "new", 300, 5000)
    assert path.stat().st_size < 1.05 * freed.before  # the space is used again
    assert ask(path, "select * from seats") == [("1A",)]


def test_a_tombstone_takes_a_hundred_bytes(path, store):
    for number in range(1500):
        begin(store, f"run-{number}")
        remove(store, f"run-{number}")
    freed = store.shrink()
    store.close()
    empty = 9 * 16384  # a page for each table and index
    assert (path.stat().st_size - empty) / 1500 < 120, freed


def test_a_long_reader_only_delays_that_the_file_gets_smaller(path, store):
    make(store, "old", 300, 5000)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from midstride_runs").fetchone()
        remove(store, "old")
        freed = store.shrink()
        assert (freed.entries, entries_left(path)) == (303, 0)
        reader.execute("commit")
    store.shrink()
    assert path.stat().st_size < 200_000
