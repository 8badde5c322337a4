"""Who may read what a store writes: nobody but its owner, whatever the umask, and whoever looks in as root."""

import logging
import os
import stat
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from midstride.core.journal import Said, head_of
from midstride.stores import AesGcm, CheckpointStore, Claim, SqliteStore, disk
from midstride.testing.conformance import add, append_claiming, begin, process
from stores.places import NOBODY, as_another_user, open_folder

KINDS = {
    "sqlite": lambda folder: SqliteStore(folder / "new" / "runs.db"),
    "encrypted": lambda folder: SqliteStore(folder / "new" / "runs.db", codec=AesGcm(b"k" * 32)),
    "checkpoint": lambda folder: CheckpointStore(folder / "new" / "checkpoint.json"),
}
NAMES = {
    "sqlite": ["runs.db", "runs.db-shm", "runs.db-wal", "runs.db.lock", "runs.db.results"],
    "checkpoint": ["checkpoint.json", "checkpoint.json.lock", "checkpoint.json.prev", "checkpoint.json.results"],
}
NAMES["encrypted"] = NAMES["sqlite"]


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def used(store):
    """Let the store make every file that it has."""
    head = begin(store)
    where = store.keep("run", b"the whole of a result")
    if store.claims:
        head = append_claiming(store, head, Said("one"), claim=Claim("k"))
    store.lease("run").release()
    add(store, head, Said("two"), token=1)
    return where


def modes(folder):
    return {path: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_every_file_is_its_owners_alone_whatever_the_umask(kind, mask):
    with open_folder() as folder, umask(mask), closing(KINDS[kind](folder)) as store:
        used(store)
        found = modes(folder)
        assert sorted(os.listdir(folder / "new")) == NAMES[kind]
        assert {mode for path, mode in found.items() if path.is_file()} == {0o600}
        assert {mode for path, mode in found.items() if path.is_dir()} == {0o700}


@pytest.mark.parametrize("kind", KINDS)
def test_another_user_reads_none_of_them(kind):
    with open_folder() as folder, umask(0), closing(KINDS[kind](folder)) as store:
        where = used(store)
        as_another_user(lambda: reads_nothing([folder / "new", where]))
        (folder / "new").chmod(0o755)  # a folder that was there before, say
        (folder / "new" / "open").write_text("to all")  # so that it is the files that are closed, and no folder above
        as_another_user(lambda: (folder / "new" / "open").read_text())
        with process(store.runs):  # who has the database open: this process closes it before it forks
            as_another_user(lambda: reads_nothing([folder / "new" / name for name in NAMES[kind]]))


def reads_nothing(paths):
    if os.geteuid() != NOBODY:
        return  # its own user may
    for path in paths:
        with pytest.raises(PermissionError):
            os.listdir(path) if os.path.isdir(path) else Path(path).read_bytes()


def test_a_file_is_private_from_its_first_moment_on(tmp_path, monkeypatch):
    """Beside its name stands a temporary one, with everything in it: it is never open to others, however briefly."""
    made, real = [], os.open

    def seen(path, flags, mode=0o777, **more):
        if flags & os.O_CREAT:
            made.append((os.path.basename(path), mode))
        return real(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", seen)
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        with closing(KINDS[kind](tmp_path / kind)) as store:
            used(store)
    assert len(made) > 10
    assert [name for name, mode in made if mode != 0o600] == []
    assert any(name.endswith(".tmp") for name, _ in made)


# ---- a store that is another user's


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for two users")
def test_root_that_uses_a_users_store_does_not_lock_that_user_out(kind):
    with open_folder() as folder:
        os.chown(folder, NOBODY, NOBODY)
        as_another_user(lambda: begins(kind, folder))
        with closing(KINDS[kind](folder)) as store:  # as root
            assert len(store.read("run")) == 3
            store.lease("run").release()
            where = store.keep("run", b"kept by root")
            add(store, head_in(store), Said("by root"), token=None)
            as_another_user(lambda: goes_on(kind, folder, where))
        assert {path.stat().st_uid for path in folder.rglob("*")} == {NOBODY}


def begins(kind, folder):
    with closing(KINDS[kind](folder)) as store:
        begin(store)


def goes_on(kind, folder, where):
    with closing(KINDS[kind](folder)) as store:
        assert [entry.body.kind for entry in store.read("run")][3:] == ["said"]
        store.lease("run").release()
        add(store, head_in(store), Said("by its own user"), token=None)
        assert store.kept(where) == b"kept by root"
        store.keep("run", b"another one")


def head_in(store):
    return head_of(store.read("run"))


def test_in_somebody_elses_folder_a_new_store_is_its_makers():
    with open_folder() as folder:
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        with closing(SqliteStore(folder / "runs.db")) as store:
            used(store)
        assert {path.stat().st_uid for path in folder.rglob("*")} == {os.geteuid()}
        as_another_user(lambda: reads_nothing([folder / "runs.db", folder / "runs.db.lock"]))


# ---- a file that stood open before


def test_a_database_that_every_user_may_read_is_used_and_that_is_said_once(tmp_path, caplog):
    path = tmp_path / "runs.db"
    with closing(SqliteStore(path)) as store:
        begin(store)
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING, "midstride"), closing(SqliteStore(path)) as store:
        assert len(store.read("run")) == 3
        add(store, head_in(store), Said("go on"), token=None)
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} is open to every user of this machine (mode 644); chmod 600 closes it"
    ]
    assert path.stat().st_mode & 0o777 == 0o644  # it may be meant


@pytest.mark.parametrize("mode", [0o600, 0o660])
def test_a_file_for_a_group_was_made_so_on_purpose(tmp_path, caplog, mode):
    path = tmp_path / "runs.db"
    with closing(SqliteStore(path)) as store:
        begin(store)
    path.chmod(mode)
    with closing(SqliteStore(path)) as store:
        store.read("run")
    assert caplog.records == []


def test_a_checkpoint_that_was_open_is_closed_with_the_next_entry(tmp_path):
    path = tmp_path / "checkpoint.json"
    with closing(CheckpointStore(path)) as store:
        begin(store)
        path.chmod(0o644)
        add(store, head_in(store), Said("go on"), token=None)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_was_there_keeps_its_mode(tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    disk.make_folder(tmp_path / "open" / "new")
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("open", "open/new")] == [0o755, 0o700]
