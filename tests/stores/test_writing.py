"""Additions of many threads: written together, judged one by one, told only what is true."""

import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from midstride.core.journal import Requested, Said, head_of, seal
from midstride.errors import Fenced, Moved, NotDurable, StoreError
from midstride.stores import SqliteStore
from midstride.stores import writing as module
from midstride.testing.conformance import AT, begin
from patience import SECONDS

RUNS = [f"run-{n}" for n in range(6)]


@pytest.fixture
def store(tmp_path):
    with closing(SqliteStore(tmp_path / "runs.db")) as made:
        for run_id in RUNS:
            begin(made, run_id)
        yield made


def addition(store, run_id, *, token=1, skip=0, text="word", over=False):
    """Return the arguments of an append to a run, *skip* entries behind the place that is due."""
    entries = seal([Said(text), *[Said(text)] * skip], head_of(store.read(run_id)), AT)
    return (run_id, entries[skip:]), {"token": token, "over": over}


@contextmanager
def together(store, additions, *, beforehand=lambda connection: None):
    """Append all of *additions* at once, the first in a group of its own, the others together; give what came of each.

    The statements of the connection that writes are the second thing given.
    """
    writer, statements = store._here().writer, []
    with ThreadPoolExecutor(len(additions)) as pool:
        with store._opened.writing_lock, store._opened.writing() as connection:  # nobody can begin to write meanwhile
            futures = []
            for number, (arguments, named) in enumerate(additions):
                futures.append(pool.submit(store.append, *arguments, **named))
                queued(writer, number)
            connection.set_trace_callback(statements.append)
            beforehand(connection)
        yield [future.exception() for future in futures], statements
        if store._opened._write.made is not None:
            store._opened._write.made.set_trace_callback(None)


def queued(writer, count):
    """Wait until *count* additions wait behind the one that is being written, and this one waits no more."""
    until, tries = threading.Event(), 0
    while len(writer._waiting) != count or not writer._busy:
        assert tries < 1000 * SECONDS
        tries += 1
        until.wait(0.001)


def said(store):
    return {run_id: len(store.read(run_id)) - 3 for run_id in RUNS}


# ---- together


def test_what_waits_is_written_with_one_commit_in_the_order_in_which_it_came(store, tmp_path):
    additions = [addition(store, run_id) for run_id in RUNS]
    with together(store, additions) as (errors, statements):
        assert errors == [None] * 6
    assert statements.count("commit") == 2
    assert said(store) == dict.fromkeys(RUNS, 1)
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
        rows = "select id from midstride_entries join midstride_runs on number = run where seq = 4 order by"
        assert [run_id for (run_id,) in connection.execute(f"{rows} midstride_entries.rowid")] == RUNS


def test_one_that_is_refused_takes_no_neighbour_with_it(store):
    stale = addition(store, RUNS[2], token=7, over=True)
    late = addition(store, RUNS[4], skip=1)
    others = [addition(store, run_id) for run_id in (RUNS[0], RUNS[1], RUNS[3], RUNS[5])]
    with together(store, [*others[:2], stale, others[2], late, others[3]]) as (errors, statements):
        assert [type(error) for error in errors] == [type(None)] * 2 + [Fenced, type(None), Moved, type(None)]
    assert statements.count("commit") == 2
    assert said(store) == {run_id: int(run_id not in (RUNS[2], RUNS[4])) for run_id in RUNS}
    assert store.unfinished() == RUNS


def test_when_all_of_a_group_are_refused_nothing_is_committed(store):
    additions = [addition(store, RUNS[0]), *[addition(store, run_id, token=9) for run_id in RUNS[1:3]]]
    with together(store, additions) as (errors, statements):
        assert [type(error) for error in errors] == [type(None), Fenced, Fenced]
    assert statements.count("commit") == 1


def test_a_group_has_a_largest_size(store, monkeypatch):
    monkeypatch.setattr(module, "GROUP_CHARACTERS", 300)
    additions = [addition(store, run_id, text="x" * 200) for run_id in RUNS]
    with together(store, additions) as (errors, statements):
        assert errors == [None] * 6
    assert statements.count("commit") == 4  # the first alone, then two by two, then the last


def test_many_threads_lose_nothing_and_keep_their_order(store):
    def talk(run_id):
        for _ in range(40):
            (arguments, named) = addition(store, run_id)
            store.append(*arguments, **named)

    with ThreadPoolExecutor(len(RUNS)) as pool:
        assert list(pool.map(talk, RUNS)) == [None] * len(RUNS)
    assert said(store) == dict.fromkeys(RUNS, 40)


# ---- what goes wrong


def fails_at_commit(connection):
    """Let the next commit of this connection fail: a foreign key that is looked at only then."""
    connection.executescript(
        "pragma foreign_keys=on; create table a (n integer primary key);"
        "create table b (n references a (n) deferrable initially deferred);"
        "create trigger c after insert on midstride_entries begin insert into b values (1); end"
    )


def test_a_commit_that_fails_is_told_to_the_whole_group_and_nothing_is_acknowledged_from_hearsay(store, tmp_path):
    additions = [addition(store, run_id) for run_id in RUNS[:3]]
    with together(store, additions, beforehand=fails_at_commit) as (errors, _):
        assert [type(error) for error in errors] == [NotDurable, type(None), type(None)]
        assert f"whether what was written last to {tmp_path}/runs.db is on disk is not certain" in str(errors[0])
    # The connection was made anew, so the foreign keys are off, and what the others added is there.
    assert said(store) == {run_id: int(run_id in RUNS[1:3]) for run_id in RUNS}


def test_every_member_of_a_group_has_an_error_of_its_own(store):
    additions = [addition(store, run_id) for run_id in RUNS[:4]]
    with store._opened.writing_lock, store._opened.writing() as connection:
        connection.execute("create table a (n integer primary key)")

    def later(connection):
        connection.executescript(
            "pragma foreign_keys=on; create table b (n references a (n) deferrable initially deferred);"
            "create trigger c after insert on midstride_entries when new.run > 1 begin insert into b values (1); end"
        )

    with together(store, additions, beforehand=later) as (errors, _):
        assert [type(error) for error in errors] == [type(None), NotDurable, NotDurable, NotDurable]
        assert len({id(error) for error in errors[1:]}) == 3
    assert said(store) == {run_id: int(run_id == RUNS[0]) for run_id in RUNS}


def test_a_disk_that_refuses_the_transaction_is_told_to_the_whole_group(store):
    additions = [addition(store, run_id) for run_id in RUNS[:3]]
    with store._opened.writing_lock, store._opened.writing() as connection:
        connection.execute("pragma max_page_count=1")  # it is not made smaller than it is: no page more
    big = [addition(store, run_id, text="x" * 40_000) for run_id in RUNS[:3]]
    with together(store, big) as (errors, _):
        assert ["nothing was written" in str(error) for error in errors] == [True] * 3
    with store._opened.writing_lock, store._opened.writing() as connection:
        connection.execute("pragma max_page_count=1000000")
    with together(store, additions) as (errors, _):
        assert errors == [None] * 3


def test_ctrl_c_at_any_moment_of_a_write_is_none_of_the_others_business(store):
    """The main thread, which signals come to, leads a group, follows in one, or waits; nobody is stuck or lied to."""
    armed, interrupts, moment = [], 0, 0

    def handle(number, frame):
        if armed:
            armed.clear()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with ThreadPoolExecutor(len(RUNS)) as pool:
            for turn in range(150):
                there = said(store)
                others = [addition(store, run_id) for run_id in RUNS[1:]]
                arguments, named = addition(store, RUNS[0])
                futures = [pool.submit(store.append, *one, **more) for one, more in others]
                try:
                    armed.append(turn)
                    signal.setitimer(signal.ITIMER_REAL, 0.00002 * (moment + 1))
                    store.append(*arguments, **named)
                    armed.clear()
                    moment = 0  # it had ended by then: from its beginning again, however quick a write is here
                except KeyboardInterrupt:
                    interrupts, moment = interrupts + 1, moment + 1
                told = [future.exception(timeout=60) for future in futures]
                after = said(store)
                assert [after[run_id] - there[run_id] for run_id, _ in zip(RUNS[1:], told, strict=False)] == [
                    int(error is None) for error in told
                ]
                assert all(error is None or isinstance(error, StoreError) for error in told)
    finally:
        armed.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts > 20


def test_a_transactional_tool_joins_no_group(store):
    with closing(sqlite3.connect(store._path)) as connection:
        connection.execute("create table seats (n)")
    entries = seal([Requested()], head_of(store.read(RUNS[0])), AT)
    arguments, named = addition(store, RUNS[1])
    waiting = []

    def rolled_back(pool):
        with store.transaction(RUNS[0]) as transaction:
            transaction.connection.execute("insert into seats values (1)")
            transaction.append(entries, token=1)
            waiting.append(pool.submit(store.append, *arguments, **named))
            queued(store._here().writer, 0)
            raise ZeroDivisionError

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(ZeroDivisionError):
            rolled_back(pool)
        assert waiting[0].result() is None
    assert said(store) == {run_id: int(run_id == RUNS[1]) for run_id in RUNS}
