"""The SQLite store: the suite, and what is SQLite's own."""

import gc
import os
import resource
import sqlite3
import threading
from contextlib import closing

import pytest

from midstride.core.journal import Requested, Said, head_of, seal
from midstride.errors import Damaged, DeclarationError, Moved, Newer, NotOurs, StoreError
from midstride.stores import Claim, SqliteStore, database, locks, opened
from midstride.testing.conformance import AT, add, append_claiming, begin, process, store_conformance
from stores.places import as_another_user, at_once, fill, on_a_small_disk, open_folder

CHECKS = store_conformance(lambda folder: SqliteStore(folder / "runs.db"))


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_sqlite_store_keeps_its_promise(check, tmp_path):
    check(tmp_path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def store(path):
    with closing(SqliteStore(path)) as store:
        yield store


@pytest.fixture
def head(store):
    return begin(store)


def ask(path, statement):
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement).fetchall()


def wal(path):
    return path.with_name("runs.db-wal").stat().st_size


# ---- the file


@pytest.mark.filterwarnings("error")
def test_a_store_that_nobody_closes_goes_in_silence(path):
    begin(SqliteStore(path))
    gc.collect()
    with closing(SqliteStore(path)) as store:
        assert store.runs() == ["run"]


def test_looking_makes_nothing(tmp_path):
    with closing(SqliteStore(tmp_path / "new" / "runs.db")) as store:
        assert (store.read("run"), store.runs()) == ([], [])
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_is_made(tmp_path):
    with closing(SqliteStore(tmp_path / "a" / "b" / "runs.db")) as store:
        begin(store)
        assert sorted(os.listdir(tmp_path / "a" / "b")) == ["runs.db", "runs.db-shm", "runs.db-wal", "runs.db.lock"]


def test_no_file_of_the_store_is_for_others(path, store):
    before = os.umask(0)
    try:
        begin(store)
    finally:
        os.umask(before)
    modes = {name: (path.parent / name).stat().st_mode & 0o777 for name in os.listdir(path.parent)}
    assert modes == dict.fromkeys(("runs.db", "runs.db-shm", "runs.db-wal", "runs.db.lock"), 0o600)


def test_another_user_is_told_that_it_may_not_read():
    with open_folder() as folder:
        with closing(SqliteStore(folder / "runs.db")) as store:
            begin(store)
        if os.geteuid() != 0:
            (folder / "runs.db").chmod(0)
        as_another_user(lambda: cannot_read(folder / "runs.db"))


def cannot_read(path):
    with pytest.raises(StoreError, match="may not be written by user"):
        SqliteStore(path).read("run")


def test_a_database_that_may_only_be_read_takes_no_entry():
    with open_folder() as folder:
        with closing(SqliteStore(folder / "runs.db")) as store:
            begin(store)
        (folder / "runs.db").chmod(0o444)
        (folder / "runs.db.lock").chmod(0o666)
        as_another_user(lambda: cannot_write(folder / "runs.db"))


def cannot_write(path):
    with pytest.raises(StoreError, match="may only be read by user"):
        SqliteStore(path).lease("another")


def test_a_transaction_that_may_only_read_is_the_store_s_error_and_not_the_tool_s():
    with open_folder() as folder:
        as_another_user(lambda: cannot_write_in_a_transaction(folder / "runs.db"))


def cannot_write_in_a_transaction(path):
    with closing(SqliteStore(path)) as store:
        begin(store)
        path.chmod(0o444)
        with pytest.raises(StoreError, match="may only be read by user"), store.transaction("run"):
            raise AssertionError("the tool was started")


def test_a_database_that_there_is_no_descriptor_left_for_is_not_put_down_to_its_mode(path):
    with process(lambda: runs_out_of_descriptors(path)):
        pass


def runs_out_of_descriptors(path):
    with closing(SqliteStore(path)) as store:
        begin(store)
        store.read("run")
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))
        with pytest.raises(
            StoreError, match=r"could not be written \(unable to open database file\); see to it and run"
        ):
            with store.transaction("run"):
                raise AssertionError("the tool was started")


def test_commits_are_durable_and_pages_are_large(store, head, path):
    with store._opened.writing_lock, store._opened.writing() as connection:
        found = [connection.execute(f"pragma {name}").fetchone()[0] for name in ("synchronous", "wal_autocheckpoint")]
    assert found == [2, 0]
    assert ask(path, "pragma page_size") == [(16384,)]


def test_a_setting_that_does_not_hold_is_refused(path, monkeypatch):
    with closing(sqlite3.connect(":memory:")) as connection:
        with pytest.raises(StoreError, match="journal_mode is 'memory' where 'wal' is wanted"):
            database.make_commits_durable(connection, path)


def test_commits_are_made_durable_whatever_the_default_is(path, store, head):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma synchronous=off")
        database.make_commits_durable(connection, path)
        assert connection.execute("pragma synchronous").fetchone() == (2,)


def test_a_killed_maker_leaves_nothing_in_the_way(path, store):
    (path.parent / ".runs.db.1.ab.tmp").write_text("half")
    begin(store)
    assert ".runs.db.1.ab.tmp" not in os.listdir(path.parent)


def test_twenty_processes_make_one_file(path):
    words = at_once(20, lambda: begin_own_run(path))
    with closing(SqliteStore(path)) as store:
        assert (words, len(store.runs())) == (["3"] * 20, 20)


def begin_own_run(path):
    store = SqliteStore(path)
    begin(store, str(os.getpid()))
    return str(len(store.read(str(os.getpid()))))


def test_a_later_change_of_folder_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with closing(SqliteStore("runs.db")) as store:
        monkeypatch.chdir(tmp_path / "elsewhere")
        begin(store)
    assert (store.url, (tmp_path / "runs.db").exists()) == ("sqlite:runs.db", True)


def test_a_path_with_odd_characters_is_a_path(tmp_path):
    with closing(SqliteStore(tmp_path / "a?mode=ro #%20é.db")) as store:
        begin(store)
    assert (tmp_path / "a?mode=ro #%20é.db").exists()


@pytest.mark.parametrize("name", [":memory:", ""])
def test_a_database_without_a_file_is_refused(name):
    with pytest.raises(DeclarationError, match="is no file to keep a journal in"):
        SqliteStore(name)


# ---- what is found there


def test_what_is_no_database_is_left_untouched(path):
    path.write_bytes(b"# my notes\n" * 100)
    with closing(SqliteStore(path)) as store, pytest.raises(NotOurs, match="is no SQLite database"):
        begin(store)
    assert path.read_bytes() == b"# my notes\n" * 100


def test_an_emptied_database_is_no_fresh_start(path, store, head):
    store.close()
    path.write_bytes(b"")
    with pytest.raises(Damaged, match=r"is empty \(0 bytes\)"):
        store.read("run")


def test_a_database_that_is_gone_from_beside_its_wal_is_no_fresh_start(path):
    path.with_name("runs.db-wal").touch()
    with closing(SqliteStore(path)) as store, pytest.raises(Damaged, match="is missing, but its -wal file is there"):
        store.read("run")


def test_a_database_that_was_replaced_under_us_takes_no_entry(path, store, head):
    path.rename(path.with_name("moved.db"))
    with pytest.raises(StoreError, match="was removed or replaced while it was in use"):
        add(store, head, Requested(), token=1)


def test_a_newer_database_is_left_untouched(path, store, head):
    store.close()
    ask(path, "update midstride_format set version = 2")
    before = path.read_bytes()
    with pytest.raises(Newer, match=r"runs\.db is format 2, this code reads format 1: use a newer midstride"):
        store.read("run")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    [
        "create table midstride_runs (number integer primary key, id text not null unique, colour text) strict",
        "create table midstride_entries (run integer)",
        "create table midstride_format (version text)",
        "create table midstride_claims (key text primary key, run text) strict",
    ],
)
def test_a_table_of_ours_with_other_columns_is_refused(path, store, statement):
    ask(path, statement)
    with pytest.raises(NotOurs, match="that is not as midstride made it"):
        begin(store)


def test_a_database_from_before_the_claims_is_used_as_it_is(path, store, head):
    add(store, head, Requested(), token=1)
    store.close()
    assert ask(path, "select name from sqlite_master where name = 'midstride_claims'") == []
    with closing(SqliteStore(path)) as reopened:
        append_claiming(reopened, head_of(reopened.read("run")), Requested(), claim=Claim("k"))
    with closing(SqliteStore(path)) as again:
        assert len(again.read("run")) == 5
    assert ask(path, "select c.key, id from midstride_claims c join midstride_runs on number = run") == [("k", "run")]


def test_the_user_s_own_database_keeps_its_tables_and_its_mark(path, store):
    ask(path, "create table seats (name text)")
    ask(path, "pragma application_id = 77")
    begin(store)
    assert (ask(path, "select count(*) from seats"), ask(path, "pragma application_id")) == ([(0,)], [(77,)])


def test_an_empty_file_that_the_user_just_made_becomes_the_store(path, store):
    path.touch()
    begin(store)
    assert store.runs() == ["run"]


def test_an_entry_that_is_missing_is_named(path, store, head):
    ask(path, "delete from midstride_entries where seq = 2")
    with pytest.raises(Damaged, match=r"run 'run' in .*: entry 2 is missing"):
        store.read("run")


def test_an_entry_that_is_no_text_of_ours_is_damage(path, store, head):
    ask(path, "update midstride_entries set body = 'café' where seq = 2")
    with pytest.raises(Damaged, match="entry 2 is no entry"):
        store.read("run")


def test_a_database_with_broken_pages_is_damaged(path, store, head):
    store.close()
    data = path.read_bytes()
    path.write_bytes(data[:16384] + b"\xff" * (len(data) - 16384))
    with pytest.raises(Damaged, match="is damaged"):
        store.read("run")


@pytest.mark.parametrize("at", range(5))
def test_what_others_append_while_a_journal_is_read_is_no_damage(path, store, head, at):
    """Another one appends before the at-th statement of the reading."""
    statements = []
    with closing(SqliteStore(path)) as other:
        store.read("run")
        reader = store._opened._read.made

        def between(statement):
            statements.append(statement)
            if len(statements) == at + 1:
                add(other, head, Said("meanwhile"), token=None)

        reader.set_trace_callback(between)
        found = store.read("run")
        reader.set_trace_callback(None)
    assert [entry.seq for entry in found][:3] == [1, 2, 3]
    assert len(statements) <= 5


# ---- writing


def test_another_writer_is_waited_for_and_then_named(path, store, head, monkeypatch):
    store.close()
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        store.read("run")
        other.execute("begin immediate")
        with pytest.raises(StoreError, match="is locked by another connection"):
            add(store, head, Requested(), token=1)
        other.execute("rollback")
    add(store, head, Requested(), token=1)


@pytest.mark.parametrize("room", range(0, 480, 24))
def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path, room):
    on_a_small_disk(tmp_path, lambda: append_until_full(tmp_path, room * 1024), size="1m")


def append_until_full(folder, room):
    fill(folder / "ballast", leave=room)
    store, done, failure = SqliteStore(folder / "runs.db"), [], None
    try:
        store.lease("run")
        head = begin(store)
        done = ["started", "taken", "requested"]
        while True:
            head = add(store, head, Said("x" * 9000), token=None)
            done.append("said")
    except StoreError as error:
        failure = error
    (folder / "ballast").unlink()
    assert "the disk is full: nothing was written to" in str(failure)
    assert [entry.body.kind for entry in store.read("run")] == done
    if not done:
        begin(store)
    add(store, head_of(store.read("run")), Requested(), token=1)


def test_the_wal_does_not_grow_for_ever(path, store, head, monkeypatch):
    monkeypatch.setattr(opened, "WAL_BYTES", 100_000)
    sizes = []
    for _ in range(40):
        head = add(store, head, Said("x" * 9000), token=None)
        sizes.append(wal(path))
    assert max(sizes) < 200_000
    assert len(store.read("run")) == 43


def test_a_checkpoint_that_another_process_makes_is_left_to_it(path, store, head, monkeypatch):
    monkeypatch.setattr(opened, "WAL_BYTES", 0)
    with process(lambda: checkpoint_without_end(path)):
        head = add(store, head, Requested(), token=1)
        assert wal(path) > 0
    add(store, head, Requested(), token=1)
    assert wal(path) == 0


kept = []


def checkpoint_without_end(path):
    kept.append(locks.exclusive(locks.lock_file_of(path), opened.CHECKPOINT_BYTE))
    kept[-1].__enter__()


def test_closing_folds_the_wal_into_the_database(path, store, head):
    with closing(SqliteStore(path)) as other:
        other.read("run")
        store.close()
        assert wal(path) == 0


def test_a_forked_child_has_a_connection_of_its_own(path, store, head):
    with process(lambda: add(store, head, Said("from the child"), token=None)):
        pass
    add(store, head_of(store.read("run")), Requested(), token=1)
    assert [e.body.kind for e in store.read("run", 3)] == ["said", "requested"]


# ---- transactions


@pytest.fixture
def seats(path, store, head):
    ask(path, "create table seats (name text primary key)")
    return lambda: sorted(name for (name,) in ask(path, "select name from seats"))


def transact(store, deed):
    with store.transaction("run") as transaction:
        deed(transaction)


def book(connection, *names):
    for name in names:
        connection.execute("insert into seats values (?)", (name,))


def test_a_tool_s_writes_and_its_result_commit_together(store, head, seats):
    with store.transaction("run") as transaction:
        book(transaction.connection, "1A")
        transaction.append(seal([Requested()], head, AT), token=1)
        assert (seats(), len(store.read("run"))) == ([], 3)
    assert (seats(), len(store.read("run"))) == (["1A"], 4)


def test_a_tool_that_raises_leaves_nothing(store, head, seats):
    with pytest.raises(ZeroDivisionError):
        transact(store, lambda transaction: (book(transaction.connection, "1A"), 1 / 0))
    assert seats() == []


def test_a_tool_s_writes_go_back_when_the_journal_has_moved(store, head, seats):
    def deed(transaction):
        book(transaction.connection, "1A")
        transaction.append(seal([Requested()], head, AT), token=1)

    add(store, head, Said("wait"), token=None)
    with pytest.raises(Moved):
        transact(store, deed)
    assert seats() == []


FORBIDDEN = [
    lambda c: c.commit(),
    lambda c: c.rollback(),
    lambda c: c.close(),
    lambda c: c.__enter__(),
    lambda c: c.set_authorizer(None),
    lambda c: sqlite3.Connection.commit(c),
    lambda c: c.execute("commit"),
    lambda c: c.execute("rollback"),
    lambda c: c.execute("end transaction"),
    lambda c: c.executescript("insert into seats values ('9Z')"),
    lambda c: c.execute("attach ':memory:' as other"),
    lambda c: c.execute("pragma synchronous=off"),
    lambda c: c.execute("insert into midstride_runs (id) values ('mine')"),
    lambda c: c.execute("update MIDSTRIDE_ENTRIES set body = ''"),
    lambda c: c.execute("delete from midstride_entries"),
    lambda c: c.execute("drop table midstride_entries"),
    lambda c: c.execute("drop index midstride_tokens"),
    lambda c: c.execute("alter table midstride_runs add column colour text"),
    lambda c: c.execute("create trigger t after insert on midstride_entries begin delete from seats; end"),
]


@pytest.mark.parametrize("deed", FORBIDDEN)
def test_a_tool_may_not_end_the_transaction_or_change_the_journal(store, head, seats, deed):
    with store.transaction("run") as transaction:
        book(transaction.connection, "1A")
        with pytest.raises(sqlite3.DatabaseError):
            deed(transaction.connection)
        assert seats() == []
        transaction.append(seal([Requested()], head, AT), token=1)
    assert (seats(), len(store.read("run"))) == (["1A"], 4)


def test_a_tool_may_use_savepoints_and_read_the_journal(store, head, seats):
    with store.transaction("run") as transaction:
        transaction.connection.execute("savepoint try")
        book(transaction.connection, "1A")
        transaction.connection.execute("rollback to try")
        book(transaction.connection, "1B")
        assert transaction.connection.execute("select count(*) from midstride_entries").fetchone() == (3,)
    assert seats() == ["1B"]


def roll_back_by_conflict(transaction):
    book(transaction.connection, "1A")
    with pytest.raises(sqlite3.IntegrityError):
        transaction.connection.execute("insert or rollback into seats values ('1A')")


def test_what_follows_a_rollback_by_the_database_is_refused(store, head, seats):
    def deed(transaction):
        roll_back_by_conflict(transaction)
        with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
            book(transaction.connection, "1B")
        transaction.append(seal([Requested()], head, AT), token=1)

    with pytest.raises(StoreError, match="was rolled back before its end"):
        transact(store, deed)
    assert (seats(), len(store.read("run"))) == ([], 3)


def test_a_rollback_by_the_database_is_no_commit_either(store, head, seats):
    with pytest.raises(StoreError, match="was rolled back before its end"):
        transact(store, roll_back_by_conflict)
    assert seats() == []


def test_a_cursor_left_half_read_does_not_keep_the_commit_from_happening(store, head, seats):
    with store.transaction("run") as transaction:
        left = transaction.connection.execute("insert into seats values ('1A'), ('1B') returning name")
        transaction.append(seal([Requested()], head, AT), token=1)
    left.close()
    assert seats() == ["1A", "1B"]


def test_a_tool_that_writes_on_after_its_result_is_refused(store, head, seats):
    with store.transaction("run") as transaction:
        transaction.append(seal([Requested()], head, AT), token=1)
        with pytest.raises(sqlite3.DatabaseError):
            book(transaction.connection, "1A")
    assert (seats(), len(store.read("run"))) == ([], 4)


def test_a_connection_kept_beyond_its_transaction_is_closed(store, head, seats):
    with store.transaction("run") as transaction:
        kept = transaction.connection
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        book(kept, "1A")


def test_declared_foreign_keys_hold(path, store, head):
    def deed(transaction):
        transaction.connection.execute("insert into places values (7)")
        transaction.append(seal([Requested()], head, AT), token=1)

    ask(path, "create table rows (n integer primary key)")
    ask(path, "create table places (n integer references rows (n) deferrable initially deferred)")
    with pytest.raises(sqlite3.IntegrityError):
        transact(store, deed)
    assert (ask(path, "select * from places"), len(store.read("run"))) == ([], 3)


def test_a_failed_transaction_does_not_lock_the_database(store, head, seats, monkeypatch):
    left = []

    def deed(transaction):
        left.append(sqlite3.Cursor(transaction.connection))  # a cursor that the connection does not know of
        left[0].execute("insert into seats values ('1A'), ('1B') returning name")
        raise ZeroDivisionError

    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    with pytest.raises(ZeroDivisionError):
        transact(store, deed)
    add(store, head, Requested(), token=1)
    assert (seats(), len(left)) == ([], 1)


def test_threads_book_one_after_another(store, head, seats):
    def one(number):
        with store.transaction("run") as transaction:
            book(transaction.connection, f"{number}A")

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seats() == [f"{number}A" for number in range(8)]


def test_a_tool_s_commits_are_as_durable_as_ours(store, head):
    with store.transaction("run") as transaction, transaction.connection.ours():
        ask_for = transaction.connection.execute
        found = [ask_for(f"pragma {name}").fetchone() for name in ("synchronous", "wal_autocheckpoint")]
    assert found == [(2,), (0,)]


# ---- made by many at once


def test_a_store_that_is_made_between_two_looks_is_not_taken_for_a_lost_one(path, store, head, monkeypatch):
    """Its file is not there at the first look, and its WAL is at the second."""
    real, looks = opened.disk.stamp, []

    def stamp(file):
        looks.append(file)
        return None if len(looks) == 1 else real(file)

    assert wal(path) > 0
    monkeypatch.setattr(opened.disk, "stamp", stamp)
    with closing(SqliteStore(path)) as other:
        assert [entry.seq for entry in other.read("run")] == [1, 2, 3]
    assert looks[:3] == [path, path.with_name("runs.db-wal"), path]
